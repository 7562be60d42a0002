"""A screening set: programs, images, and what must come out; how it is made, kept and counted."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, islice, zip_longest
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from corpus import durable
from corpus.programs import decode_program, encode_program
from fuzz import warpfuzz_version
from fuzz.bench import Emitted, Mutant
from fuzz.output import counted
from oracle.errors import UsageError, WarpfuzzError
from oracle.execution.execution import execute
from oracle.given_files import read_named
from oracle.isa.forms import Form
from oracle.isa.lookup import is_available
from oracle.isa.targets import Module
from oracle.models import NO_FIGURES, model_for
from oracle.program.program import Program, requirements, walk
from oracle.program.steps import is_lane_code
from runners.emission import emit
from runners.faults import CATALOGUE
from runners.ledger import ROWS, Ledger, Rate
from runners.processes import run_tool
from runners.screening import References
from strategies.contents import Recipe, ValueClass, expand
from strategies.contents.expansion import period_of
from strategies.draws import Selection, derived_seed
from strategies.features import FEATURES, Focus, Has, features_of, main_form
from strategies.programs import GENERATOR_VERSION, is_valued
from strategies.programs.loads import highest_load, is_largest
from strategies.rounds import (
    Batch,
    CoverageLine,
    campaign_rounds,
    coverage_line,
    family_of,
    group_target,
    opcode_of,
    round_batches,
    target_of,
)

SET_BYTES = 1 << 30
"""Most bytes of a set that is read, and of its images: a quarter of a million of 4 KiB."""
_ENTRY = re.compile("[A-Za-z_][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True, kw_only=True, eq=False)
class SetProgram:
    """A program that is screened."""

    entry: str  # name of its kernel
    program: Program
    recipe: Recipe  # how its images were made
    module: Module  # that it is written for
    references: References  # its images, and what must come out
    round: int  # number of the program in its set

    @property
    def has_scalar_code(self) -> bool:
        """Whether it has any; compilers often get that wrong, and what it feeds to a warpgroup."""
        return any(map(is_lane_code, walk(self.program.steps)))


def _rows() -> NDArray[np.uint64]:
    return np.zeros(ROWS, np.uint64)


@dataclass(kw_only=True)
class Tally:
    """What a device made of a set."""

    cases: NDArray[np.uint64] = field(default_factory=_rows)
    """(ROWS,) images that each multiprocessor ran and compared."""
    wrong: NDArray[np.uint64] = field(default_factory=_rows)  # (ROWS,) those of them that differed
    images: Counter[str] = field(default_factory=Counter)
    """By program: how many images were compared."""
    programs: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    """By program of which images differed: (ROWS,) how many on each multiprocessor."""

    def add(self, ledger: Ledger, entry: str) -> None:
        """Count a launch of a program."""
        self.cases += ledger.finished
        self.wrong += ledger.wrong
        self.images[entry] += int(ledger.finished.sum())
        if ledger.wrong.any():
            before = self.programs.get(entry, np.zeros(ROWS, np.int64))
            self.programs[entry] = before + ledger.wrong

    @property
    def multiprocessors(self) -> NDArray[np.intp]:
        """Numbers of those that ran anything."""
        return np.flatnonzero(self.cases)

    @property
    def faulty(self) -> NDArray[np.intp]:
        """Numbers of those on which something differed."""
        return np.flatnonzero(self.wrong)

    @property
    def total(self) -> Rate:
        """The rate of the device."""
        return Rate(cases=int(self.cases.sum()), wrong=int(self.wrong.sum()))

    def rate(self, sm: int) -> Rate:
        """Return the rate of a multiprocessor."""
        return Rate(cases=int(self.cases[sm]), wrong=int(self.wrong[sm]))

    @property
    def least(self) -> Rate:
        """The rate of the multiprocessor that ran fewest images of those with no error."""
        right = self.cases[(self.cases > 0) & (self.wrong == 0)]
        return Rate(cases=int(right.min()) if right.size else 0, wrong=0)

    @property
    def pattern(self) -> str:
        """Say whether it is always the same multiprocessor; empty if nothing differed."""
        if not self.faulty.size:
            return ""
        where = f"{self.faulty.size} of {self.multiprocessors.size} multiprocessors"
        if self.faulty.size == 1:
            where = f"always multiprocessor {self.faulty[0]}"
        return f"{where}, in {counted(len(self.programs), 'program')}"


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """The description that is stored in a set."""

    target: str  # value of `.target` of the modules
    ptx_version: str
    seed: int
    generator: int  # version of the generator of programs and contents
    warpfuzz: str
    model: str  # name of the model whose figures its forms have
    covers: tuple[CoverageLine, ...]
    """Forms, kinds of steps, classes of values, planted faults."""


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    entry: str
    recipe: Recipe
    count: int  # of its images
    program: msgspec.Raw


class _SetFile(msgspec.Struct, frozen=True, kw_only=True):
    description: Description
    rows: tuple[_Row, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class ScreeningSet:
    """What is screened with."""

    description: Description
    programs: Sequence[Batch]

    @property
    def images(self) -> int:
        """How many images it has."""
        return sum(one.count for one in self.programs)


def write_set(path: Path, made: ScreeningSet) -> None:
    """Write a set, as JSON: programs, and how their images are made."""
    rows = (
        _Row(
            entry=one.entry, recipe=one.recipe, count=one.count,
            program=msgspec.Raw(encode_program(one.program)),
        )
        for one in made.programs
    )  # fmt: skip
    with durable.output_file(path) as file:
        file.write(msgspec.json.encode(_SetFile(description=made.description, rows=tuple(rows))))


def read_set(path: Path) -> ScreeningSet:
    """Read a set; UsageError if there is no such file, it is no set, or what it says cannot be."""
    contents = read_named(path, "screening set", most=SET_BYTES)
    try:
        stored = msgspec.json.decode(contents, type=_SetFile)
        module = Module.named(stored.description.target, stored.description.ptx_version)
        if len({row.entry for row in stored.rows}) < max(1, len(stored.rows)):
            raise UsageError("it has no programs, or two of one name")
        batches = [_read(row, module) for row in stored.rows]
        if sum(one.count * one.program.image_bytes for one in batches) > SET_BYTES:
            raise UsageError(f"its images have more than {SET_BYTES:,} bytes")
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, WarpfuzzError) as error:
        raise UsageError(
            f"{path} is no screening set of this version of warpfuzz ({error!s:.300}); `warpfuzz "
            "distill --output FILE` makes one"
        ) from None
    return ScreeningSet(description=stored.description, programs=batches)


def _read(row: _Row, module: Module) -> Batch:
    if not _ENTRY.fullmatch(row.entry):
        raise UsageError(f"{row.entry!r:.80} is no name of a kernel")
    if row.count < 1:
        raise UsageError(f"{row.entry} has no images")
    period_of(row.recipe)
    program = decode_program(bytes(row.program), row.entry)
    own = group_target(requirements(program), module.target.name) or module.target.name
    return Batch(
        entry=row.entry, program=program, recipe=row.recipe, focus=Focus(), count=row.count,
        module=Module.named(own, str(module.version)), form=main_form(program),
    )  # fmt: skip


# Making a set

LEFT_OUT = frozenset(
    {
        Has.OVER_MULTIPLICAND, Has.AMONG_MULTIPLICANDS, Has.C_ORDER, Has.C_PART,
        Has.C_REPEATED,
    }
)  # fmt: skip
"""Features of programs that do not belong into a set: every compiler so far gives some of those
whose D has registers of A or B, or whose C has D's in another order, a wrong expansion
(docs/findings.md), on every multiprocessor."""
_MOST_BYTES = 16 << 10
"""Of a warp's image and shared memory: three warps still fit beside each other in a block."""
_ROUNDS = 40  # rounds from which programs are chosen: 320, twice as many as there are forms
_TRIES = 8  # programs drawn about a form until one can be in a set: 4 of 10 cannot (2026-11-23)
_LEAST_IMAGES = 4  # images of a program at least
_OF_LOADS = (ValueClass.WIDE,)
"""What the highest loads multiply: random bits in finite numbers, whose sums stay finite, too."""
_SEARCHED = 64  # images beyond a program's own that are looked at for a fault
_SEARCHED_PROGRAMS = 16  # programs, with the smallest images, in which a fault is looked for


def candidates(
    forms: Sequence[Form], module: Module, seed: int, *, loads: bool = False
) -> Iterator[list[Batch]]:
    """Iterate over the programs of a campaign's rounds that can be in a set, without end.

    With `loads`, programs about the largest multiplications of warpgroups are the highest loads,
    one behind each round; if there are no other forms, these are all.
    """
    target, version = module.target.name, str(module.version)
    largest = [form for form in forms if loads and is_largest(form)]
    others = [form for form in forms if form not in largest]
    rounds: Iterable[list[Batch]] = ()
    if others:
        rounds = campaign_rounds(others, target=target, version=version, seed=seed)
    for number, (batches, form) in enumerate(zip_longest(rounds, largest)):
        found = list(filter(fits, batches or ()))
        if form is not None:
            recipe = Recipe(classes=_OF_LOADS, seed=derived_seed(seed, "load", number))
            found.append(Batch(
                entry="load", program=highest_load(form), recipe=recipe, focus=Focus(form=form),
                count=_LEAST_IMAGES, module=Module.named(target_of(form, target), version),
                form=form,
            ))  # fmt: skip
        yield found


def about_of(form: Form | None) -> str:
    """Return what a program is about: its form, of a warpgroup with whatever N."""
    return family_of(form) if form is not None and form.warps > 1 else opcode_of(form)


def one_each(forms: Iterable[Form]) -> list[Form]:
    """Return the last form of each that programs of a set are about: with the largest N."""
    return [*{about_of(form): form for form in forms}.values()]


def fits(batch: Batch) -> bool:
    """Whether a program can be in a set."""
    size = batch.program.image_bytes + batch.program.shared_bytes
    small = size <= _MOST_BYTES or batch.program.warps > 1
    return small and not features_of(batch.program) & LEFT_OUT


def about(wanted: Sequence[Form], forms: Sequence[Form], module: Module, key: int) -> list[Batch]:
    """Draw a program about each wanted form, of others, and return those that can be in a set."""
    target, version = module.target.name, str(module.version)
    focuses = [Focus(form=form) for form in wanted]
    drawn = round_batches(forms, target=target, version=version, key=key, focuses=focuses)
    return list(filter(fits, drawn))


def reaches(batch: Batch) -> frozenset[str]:
    """Return the names of all that a program reaches by itself, whatever its images hold."""
    names = [feature.value for feature in features_of(batch.program)]
    family = family_of(batch.form)
    return frozenset(
        (
            f"about {about_of(batch.form)}",
            *(form.opcode for form in requirements(batch.program)),
            *names,
            *(f"{family}: {name}" for name in names),
        )
    )


def chosen(pool: Sequence[Batch], most: int) -> list[Batch]:
    """Choose programs that reach all that the pool does, or as much as so many can."""
    left = {index: reaches(batch) for index, batch in enumerate(pool)}
    missing = frozenset[str]().union(*left.values())
    found: list[Batch] = []

    def worth(index: int) -> tuple[bool, float, int]:
        new = left[index] & missing
        # Every form has a program about it, before anything else counts.
        about = any(name.startswith("about ") for name in new)
        return about, len(new) / pool[index].program.image_bytes, -index

    while missing and left and len(found) < most:
        best = max(left, key=worth)
        new = left.pop(best) & missing
        if not new:
            break
        missing -= new
        found.append(pool[best])
    return found


def numbered(batch: Batch, number: int, count: int) -> Batch:
    """Return a program as that of a number in a set, with so many images."""
    if batch.program.warps > 1:  # of 100 KiB and more
        count = min(count, _LEAST_IMAGES)
    return replace(batch, entry=f"program_{number}", count=count)


def judged(batch: Batch, number: int, target: str) -> SetProgram:
    """Return a program of a set with its images and what the oracle says of them."""
    images = expand(batch.recipe, batch.program, batch.count)
    expected = execute(batch.program, images, target=target).images
    drawn = tuple(range(batch.count))
    return SetProgram(
        entry=batch.entry, program=batch.program, recipe=batch.recipe, module=batch.module,
        references=References(images=images, expected=expected, drawn=drawn), round=number,
    )  # fmt: skip


def distill(forms: Sequence[Form], module: Module, *, seed: int, images: int) -> ScreeningSet:
    """Make a set of about so many images."""
    if images < _LEAST_IMAGES:
        raise UsageError(f"a set has at least {_LEAST_IMAGES} images, and {images} were asked for")
    pool = [*chain.from_iterable(islice(candidates(forms, module, seed), _ROUNDS))]
    for number in range(_TRIES):
        there = {about_of(batch.form) for batch in pool}
        if missing := one_each(form for form in forms if about_of(form) not in there):
            pool += about(missing, missing, module, derived_seed(seed, "distill", number))
    batches = chosen(pool, images // _LEAST_IMAGES)
    count = images // len(batches)
    batches = [numbered(batch, number, count) for number, batch in enumerate(batches)]
    touching, shown = _show_faults(batches, module.target.name)
    every, own = (
        {form.opcode for batch in some for form in requirements(batch.program)}
        for some in (pool, batches)
    )
    covers: dict[str, tuple[Iterable[str], set[str]]] = {
        "forms": (map(about_of, one_each(forms)), {about_of(batch.form) for batch in batches}),
        "forms with loads and stores": (sorted(every), own),
        "features of programs": (
            [one.value for one in FEATURES.values() if one not in LEFT_OUT],
            {one.value for batch in batches for one in features_of(batch.program)},
        ),
        "classes of values": (
            [*ValueClass], {one for batch in batches for one in batch.recipe.classes[:count]}
        ),
        "planted faults": (touching, shown),
    }  # fmt: skip
    lines = (
        coverage_line(name, {one: one in reached for one in names})
        for name, (names, reached) in covers.items()
    )
    return ScreeningSet(
        description=describe(module, seed=seed, covers=tuple(lines)), programs=batches
    )


def describe(module: Module, *, seed: int, covers: tuple[CoverageLine, ...] = ()) -> Description:
    """Return the description that is stored in a set."""
    return Description(
        target=module.target.name,
        ptx_version=str(module.version),
        seed=seed,
        generator=GENERATOR_VERSION,
        warpfuzz=warpfuzz_version(),
        model=model_for(module.target.name).name,
        covers=covers,
    )


def _show_faults(batches: list[Batch], target: str) -> tuple[list[str], set[str]]:
    """Give programs as many images more as planted faults need to be seen."""
    touching, shown = list[str](), set[str]()
    smallest = sorted(range(len(batches)), key=lambda at: batches[at].program.image_bytes)

    @cache
    def searched(place: int) -> References:
        batch = batches[place]
        more = _LEAST_IMAGES if batch.program.warps > 1 else _SEARCHED
        return judged(replace(batch, count=batch.count + more), place, target).references

    @cache
    def emitted(place: int) -> Emitted:
        return Emitted(emit(batches[place].program, module=batches[place].module))

    for fault in CATALOGUE:
        if fault.rare:
            continue
        mutant = Mutant(fault, target=target, layout=0)
        loads = ((place, mutant.load(emitted(place))) for place in smallest)
        found = ((at, made) for at, made in loads if made is not None)
        for place, loaded in islice(found, _SEARCHED_PROGRAMS):
            touching += [fault.name] * (fault.name not in touching)
            some, batch = searched(place), batches[place]
            first = mutant.first_wrong(loaded, emitted(place), some.images, some.expected)
            if first is not None:
                shown.add(fault.name)
                batches[place] = replace(batch, count=max(batch.count, first + 1))
                break
    return touching, shown


_LISTING_SECONDS = 20
"""Time for nvidia-smi, which waits for the driver to load on a machine that was idle."""
_DEVICE = re.compile(
    r"^(?:GPU (?P<gpu>\d+): .*|\s+(?P<slice>MIG \S+)\s+Device\s+(?P<place>\d+): )"
    r"\(UUID: (?P<uuid>[\w-]+)\)$",
    re.MULTILINE,
)  # a line of `nvidia-smi -L` (MIG User Guide, Device Enumeration)


def listed_devices() -> list[tuple[str, str]]:
    """Return all GPUs of this machine, as `devices_in`; none without an answer of nvidia-smi."""
    try:
        told = run_tool(["nvidia-smi", "-L"], deadline=_LISTING_SECONDS)
    except OSError:
        return []
    return [] if told.status is None else devices_in(told.text)


def devices_in(listing: str) -> list[tuple[str, str]]:
    """Return what `nvidia-smi -L` lists: GPUs, the slices in place of one that has any."""
    found: list[tuple[str, str]] = []
    gpu = ""
    for line in _DEVICE.finditer(listing):
        name = gpu = f"GPU {line['gpu']}" if line["gpu"] else gpu
        if not line["gpu"]:
            if found and found[-1][0] == gpu:
                found.pop()
            name = f"{gpu} {line['slice']} device {line['place']}"
        found.append((name, line["uuid"]))
    return found


def group_of(form: Form) -> str:
    """Return what kind of instruction a form is: "fp8", "integers", "sparse", "ldmatrix"."""
    if form.warps > 1:
        return "wgmma"
    if not form.is_product:
        return form.mnemonic
    if form.is_scaled:
        return "scaled"
    if form.has_metadata:
        return "sparse"
    if form.a_type.is_float:
        return "fp8" if form.a_type.bits == 8 else form.a_type.name
    return "bits" if form.a_type.bits == 1 else "integers"


@dataclass
class GroupScope:
    """How many forms of a group a module can have, and of which it is known what must come out."""

    there: int = 0
    known: list[Form] = field(default_factory=list)


SetScope = Mapping[str, GroupScope]
"""By group."""


def scope_of(module: Module, oracle_target: str, *, groups: bool = False) -> SetScope:
    """Return what a module can have, and with `groups` one of `GROUP_TARGETS`."""
    model, target = model_for(oracle_target), module.target.name
    found = defaultdict[str, GroupScope](GroupScope)
    for form in Selection().forms():
        own = Module.named(target_of(form, target), str(module.version)) if groups else module
        if form.is_main and is_available(form, own):
            group = found[group_of(form)]
            group.there += 1
            if is_valued(form, own) and (
                not form.is_product or model.expansion_of(form) != NO_FIGURES
            ):
                group.known.append(form)
    return dict(found)


def batches(scope: SetScope, module: Module, seed: int) -> Iterator[list[Batch]]:
    """Iterate over programs about each known form, without end; those of all groups in turn."""
    known = [group.known for group in scope.values()]
    every, in_turn = [*chain(*known)], zip_longest(*map(one_each, known))
    forms = [form for forms in in_turn for form in forms if form is not None]
    for turn in itertools.count():
        for number, form in enumerate(forms):
            keys = (derived_seed(seed, "preflight", turn, number, one) for one in range(_TRIES))
            drawn = (about([form], every, module, key) for key in keys)
            yield next(filter(None, drawn), [])


def coverage(
    scope: SetScope, programs: Mapping[str, SetProgram], tally: Tally
) -> dict[str, dict[str, int]]:
    """Return by group how many forms there are, are known, and ran, and what came of the images."""
    ran = defaultdict[str, set[Form]](set)
    rows = {
        group: {"forms": one.there, "known": len(one.known), "ran": 0, "images": 0, "wrong": 0}
        for group, one in scope.items()
    }
    for entry, images in tally.images.items():
        forms = [form for form in requirements(programs[entry].program) if form.is_main]
        for form in forms:
            ran[group_of(form)].add(form)
        for group in {group_of(form) for form in forms}:
            rows[group]["images"] += images
            rows[group]["wrong"] += int(tally.programs.get(entry, np.zeros(1)).sum())
            rows[group]["ran"] = len(ran[group])
    return rows
