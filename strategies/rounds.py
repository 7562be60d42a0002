"""The rounds of programs: functions of seed, round number, and the coverage of earlier rounds.

Breadth comes first: the programs of a round are about different families of forms, and early rounds
have few images for each program, so that a fault in any one form is met after few images. Later
rounds have more images of each program, and programs with what was reached least.

Hypothesis's `target()` steers its own mutation of choices, over thousands of examples of one test;
here every program is drawn alone from a seed of its own, so that it can be made again without those
before it. So there are counts instead, and programs are asked for what was reached least.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import count as count_up
from typing import Self

from hypothesis import strategies as st

from oracle.errors import UsageError
from oracle.isa.forms import Form
from oracle.isa.lookup import FORMS, is_available
from oracle.isa.targets import VERSIONS, Module, PtxVersion, parse_target
from oracle.models import model_for
from oracle.program.operands import Fragment
from oracle.program.program import Program, requirements
from oracle.scalar import SCALARS
from strategies.contents import Recipe, ValueClass, recipes
from strategies.coverage import Batch, ProgramCoverage, epoch_known, shuffled
from strategies.draws import Selection, derived_seed, draw_one
from strategies.features import Focus, Has
from strategies.programs import GENERATOR_VERSION, VALUED_FORMS, programs, undefined_programs
from strategies.programs.builder import is_valued, operand_of

Strategy = st.SearchStrategy
PROGRAMS = 8  # Programs of one round that are about forms; all of a round are in one module
LANE_PROGRAMS = 8
"""Most programs of one round that are code of lanes alone. With 4, ten minutes of a GPU had 12,200
of them, and some defects of the driver's compiler show in one of 10,000 (docs/findings.md,
2026-11-27)."""
_RANDOM_CLASSES = 4  # Classes of half of a program's first images, which are drawn


class Speed(StrEnum):
    """How fast images are run, in classes that decide when rounds grow."""

    INTERPRETED = "interpreted"  # The simulated device: thousands of images a second
    NATIVE = "native"  # A GPU: the oracle is slower than it


_FIRST_IMAGES = 8
"""Images of a program in the first rounds. Running so few on the simulated device takes as long as
drawing the program (4 ms each, 2026-11), so that fewer would hardly be sooner."""
IMAGES = 256  # Images of a program where nobody counts rounds
_MOST_IMAGES = {Speed.INTERPRETED: 256, Speed.NATIVE: 4096}
"""From here on the time of a program is that of its images, and more of them bring little: of 6,000
programs of scalar code that 17 versions of ptxas compiled, 64 images of each showed 12 defects
(docs/scalar_code.md)."""
MOST_OF_FORMS = 2048
"""The same of programs that are about a form, whose images take nearly three times as long (40 and
15 µs of the oracle, 2026-11-24). With 8192 for all, an H200 with 16 cores had 130,000 images and 27
programs a second; with 2048 for all 92,000 and 67 (2026-11-24)."""
_FULL_BYTES = 4096
"""Bytes of an image up to which a program has all images of its round; with larger ones it has
fewer, because time goes with bytes, and one program in a hundred has images of 100 KiB and more
(2026-11)."""
_BROAD_ROUNDS = 48
"""Rounds before the first growth: 384 programs, every family of forms several times. (There are
373 forms on sm_90 with PTX ISA 8.7.)"""
_ROUNDS_OF_A_STEP = {Speed.INTERPRETED: 8, Speed.NATIVE: 2}
"""Rounds from one doubling to the next; where compiling a program costs more than its images,
breadth costs more, too."""
_FRESH_IMAGES = {Speed.INTERPRETED: 64, Speed.NATIVE: 6 << 18}
"""Most images that a device makes beyond those that the oracle judges, of a program that takes 10
ns for each: all programs take 16 ms of an H100 (`runners.reference.fresh`). Those of the simulated
device take as long as those that the oracle judges."""
LANES_TAKE = 4
"""Code of lanes alone has so many times fewer of these images: more programs find more there, not
more images of each."""
_FIRST_FRESH = 1 << 18  # Most such images in the first rounds: breadth comes first
_FEW_FORMS = 16  # Selected forms up to which breadth does not come first


def _lane_programs(forms: Sequence[Form], number: int) -> int:
    """Return how many programs are code of lanes: none where forms of one instruction are selected.

    In the first rounds, which are about breadth, half of `LANE_PROGRAMS`.
    """
    if len({form.mnemonic for form in forms}) < 2:
        return 0
    return LANE_PROGRAMS if number >= _BROAD_ROUNDS else LANE_PROGRAMS // 2


def programs_of_round(forms: Sequence[Form], number: int) -> int:
    """Return how many programs a round has, whose forms are selected."""
    return PROGRAMS + _lane_programs(forms, number)


def images_per_program(number: int, speed: Speed) -> int:
    """Return how many images each program of a round, counted from 0, is run on."""
    # 8 in the first 48 rounds, and then twice as many every 8 rounds up to 256 on a simulated
    # device, every 2 rounds up to 4096 on a GPU; programs about forms have at most `MOST_OF_FORMS`.
    doublings = max(0, number - _BROAD_ROUNDS) // _ROUNDS_OF_A_STEP[speed]
    return min(_MOST_IMAGES[speed], _FIRST_IMAGES << min(doublings, 16))


def fresh_per_program(number: int, speed: Speed, forms: int) -> int:
    """Return how many images of a program of a round a device makes where one takes 10 ns."""
    # They grow as the others; of few selected forms, all rounds have the most.
    if forms <= _FEW_FORMS:
        return _FRESH_IMAGES[speed]
    growth = images_per_program(number, Speed.NATIVE) // _FIRST_IMAGES
    return min(_FRESH_IMAGES[speed], _FIRST_FRESH * growth)


@dataclass(frozen=True, kw_only=True)
class PtxVersions:
    """PTX ISA versions of modules, of which every round draws one."""

    every: tuple[str, ...]  # The oldest first; the newest has every form of the others
    main: str  # The version of every second round, on average

    @classmethod
    def only(cls, version: str) -> Self:
        """Return what every round draws the same version from."""
        return cls(every=(version,), main=version)

    @property
    def newest(self) -> str:
        """The newest version."""
        return self.every[-1]

    def of_round(self, key: int) -> str:
        """Return the version of a round by its key (`round_key`)."""
        which, main = divmod(derived_seed(key, "version"), 2)
        return self.main if main else self.every[which % len(self.every)]

    def having(self, form: Form | None, target: str, wanted: str) -> str:
        """Return the version that is wanted, or else the oldest that has a form."""
        if form is None or _has(form, target, wanted):
            return wanted
        return next((one for one in self.every if _has(form, target, one)), self.newest)

    def __str__(self) -> str:
        return " to ".join(dict.fromkeys((self.every[0], self.newest)))


@cache
def _has(form: Form, target: str, version: str) -> bool:
    return is_available(form, Module.named(target, version))


def versions_up_to(
    target: str, newest: PtxVersion, *, main: PtxVersion | None = None
) -> PtxVersions:
    """Return the PTX ISA versions that know a target, up to the newest that something reads.

    That of every second round is at most `main` (None: the newest), and the oldest that has as many
    forms and scalar instructions as a newer one, so that as many compilers as possible can be asked
    about a finding. It raises UsageError if none of them knows the target.
    """
    row = parse_target(target)
    known = [one for one in VERSIONS if row.known_to(one) and one <= newest]
    if not known:
        raise UsageError(
            f"PTX ISA version {newest} is the newest that can be compiled here, and {target} is "
            f"known since {row.since}; choose another --target, or a newer compiler"
        )
    at_most = [one for one in known if main is None or one <= main] or known[:1]

    def instructions(version: PtxVersion) -> int:
        module = Module(row, version)
        scalars = sum(scalar.exists(module) for scalar in SCALARS.values())
        return scalars + sum(is_available(form, module) for form in FORMS)

    oldest = max(at_most, key=instructions)
    return PtxVersions(every=tuple(map(str, known)), main=str(oldest))


def selected_forms(selection: Selection, *, target: str, version: str) -> tuple[Form, ...]:
    """Return the forms that programs can be about: what a target has, and whose values are known.

    Where only loads and stores of wmma are selected, the multiplications of fragments that they
    load and store. It raises UsageError if there is none.
    """
    module, selected = Module.named(target, version), selection.forms()
    forms = tuple(form for form in selected if form.is_main and is_valued(form, module))
    if forms:
        return forms
    served = {
        (form.matrix().operand, Fragment.of(form.matrix(), form.layout))
        for form in selected
        if form.is_access and is_available(form, module)
    }
    forms = tuple(
        form
        for form in VALUED_FORMS
        if is_valued(form, module) and any((one, operand_of(form, one)) in served for one in "abcd")
    )
    if forms:
        return forms
    if unjudged_forms(selection, target=target, version=version):
        raise UsageError(
            f"the model {model_for(target).name} has no figures of what {selection.pattern!r} "
            "selects; measure them with `warpfuzz measure`, or choose other forms or another "
            "model"
        )
    raise UsageError(
        f"no matrix instruction of {target} and PTX ISA {version} that is drawn matches "
        f"{selection.pattern!r}; `warpfuzz isa --target {target} --ptx-version {version}` "
        "lists what there is"
    )


def unjudged_forms(selection: Selection, *, target: str, version: str) -> tuple[Form, ...]:
    """Return the selected forms that a target has, and of which the model in use has no figures."""
    module, model = Module.named(target, version), model_for(target)
    there = (one for one in selection.forms() if one.is_product and is_available(one, module))
    return tuple(form for form in there if not model.judges(form))


def round_key(seed: int, number: int) -> int:
    """Return the key of a round of a campaign."""
    return derived_seed(seed, "values", GENERATOR_VERSION, number)


def round_focuses(
    forms: Sequence[Form], *, seed: int, number: int, reached: ProgramCoverage
) -> list[Focus]:
    """Return what the programs of a round of a campaign should be about."""
    # `reached` is what was reached in all epochs before the last; see `epoch_known`.
    return _focuses(forms, derived_seed(seed, "focuses", GENERATOR_VERSION), reached, number)


def _focuses(
    forms: Sequence[Form], key: int, reached: ProgramCoverage, number: int = 0
) -> list[Focus]:
    found = reached.focuses(key, PROGRAMS, forms, first=number * PROGRAMS)
    lanes = _lane_programs(forms, number)
    return found + reached.lane_focuses(key, lanes, first=number * LANE_PROGRAMS)


def round_batches(
    forms: Sequence[Form],
    *,
    target: str,
    version: str | PtxVersions,
    key: int,
    focuses: Sequence[Focus] | None = None,
    count: int = IMAGES,
    most_of_forms: int = MOST_OF_FORMS,
    line_bytes: int = 1,
    shares_registers: Sequence[bool | None] = (None,),
) -> Iterator[Batch]:
    """Draw the programs of one round, one for each focus, and how their images are filled.

    A program is a function of the key, its place in the round and its own focus alone.

    Parameters
    ----------
    forms
        What is selected; the target has it.
    version
        Of several versions, the key draws one for all programs of the round; a program whose form
        is newer has the oldest version that has this.
    focuses
        What each program should be about (`round_focuses`); None: what the key alone chooses.
    count, most_of_forms
        Images of each program, of one that is about a form; fewer where they are large.
    line_bytes, shares_registers
        As in `Focus`: of every second program, and of the programs in turn, where it is not None.
    """
    versions = version if isinstance(version, PtxVersions) else PtxVersions.only(version)
    of_round = versions.of_round(key)
    if focuses is None:
        focuses = _focuses(forms, key, ProgramCoverage())
    for index, focus in enumerate(focuses):
        own = derived_seed(key, index)
        about = focus.form
        if about is None and not any(_has(form, target, of_round) for form in forms):
            about = forms[0]  # all are newer than what the round has drawn
        of_program = versions.having(about, target, of_round)
        if index % 2:
            focus = replace(focus, line_bytes=line_bytes)
        sharing = shares_registers[index % len(shares_registers)]
        if sharing is False and Has.LANES_ALONE in focus.features:
            focus = Focus()  # languages without registers cannot say it
        if sharing is not None:
            focus = replace(focus, shares_registers=sharing)
        # The rest of the classes comes in the order of `ValueClass`, first what reveals most; with
        # 8 images of a program the last would never have their turn.
        classes = shuffled(ValueClass, own)[:_RANDOM_CLASSES]
        module = Module.named(target, of_program)
        strategy = programs(focus, module=module, forms=tuple(forms))
        for program, recipe in _with_recipe(strategy, module, own, classes):
            wanted = count if about is None else min(count, most_of_forms)
            most = max(_FIRST_IMAGES, wanted * _FULL_BYTES // program.image_bytes)
            yield Batch(
                entry=f"kernel_{index}", program=program, recipe=recipe, focus=focus,
                count=min(wanted, most), version=of_program,
            )  # fmt: skip


def _with_recipe(
    strategy: Strategy[Program], module: Module, key: int, classes: Sequence[ValueClass] = ()
) -> Iterator[tuple[Program, Recipe]]:
    """Draw a program and what fills its images; nothing if a module does not have the program."""
    # Some state spaces and types are newer than what is multiplied.
    program, recipe = draw_one(st.tuples(strategy, recipes(wanted=tuple(classes))), key)
    if all(is_available(form, module) for form in requirements(program)):
        yield program, recipe


def filled_programs(only: str, module: Module) -> Strategy[tuple[Program, Recipe]]:
    """Draw programs about the opcodes of a shell pattern, and what fills their images."""
    target, version = module.target.name, str(module.version)
    forms = selected_forms(Selection(pattern=only), target=target, version=version)

    @st.composite
    def drawn(draw: st.DrawFn) -> tuple[Program, Recipe]:
        focus = Focus(form=draw(st.sampled_from(forms)))
        return draw(programs(focus, module=module, forms=forms)), draw(recipes())

    return drawn()


def up_to(
    cases: int | None, batches: Iterable[Batch], cases_of: Callable[[Batch], int]
) -> list[Batch]:
    """Take the programs of a round that have its first cases, and one more if there is one."""
    # Of the programs only those that are taken are drawn (`round_batches`); of `cases` None takes
    # all of them.
    taken = []
    left = math.inf if cases is None else cases
    for batch in batches:
        taken.append(batch)
        if left <= 0:
            break
        left -= cases_of(batch)
    return taken


def undefined_of_round(
    forms: Sequence[Form], module: Module, *, seed: int, number: int
) -> list[tuple[Program, Recipe]]:
    """Draw the programs behind a round of a campaign that the ISA leaves undefined."""
    # With each comes what fills its images; the module has all of the forms, which are selected.
    key = derived_seed(seed, "undefined", GENERATOR_VERSION, number)
    return [
        drawn
        for index, focus in enumerate(ProgramCoverage().focuses(key, PROGRAMS, forms))
        for strategy in (undefined_programs(focus, module=module, forms=tuple(forms)),)
        for drawn in _with_recipe(strategy, module, derived_seed(key, index))
    ]


def campaign_rounds(
    forms: Sequence[Form], *, target: str, version: str, seed: int, speed: Speed
) -> Iterator[list[Batch]]:
    """Iterate over the rounds of a campaign, in order and without end."""
    reached, waiting = ProgramCoverage(), deque[ProgramCoverage]()
    for number in count_up():
        while number - len(waiting) < epoch_known(number):
            reached.merge(waiting.popleft())
        waiting.append(ProgramCoverage())
        focuses = round_focuses(forms, seed=seed, number=number, reached=reached)
        batches = [
            *round_batches(
                forms, target=target, version=version, key=round_key(seed, number),
                focuses=focuses, count=images_per_program(number, speed),
            )
        ]  # fmt: skip
        for batch in batches:
            waiting[-1].add(batch)
        yield batches
