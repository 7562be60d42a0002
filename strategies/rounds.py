"""What is drawn next, and why: rounds of programs, and counts of what earlier rounds reached.

A round is a function of seed, number, and what all epochs before the last have reached, so that it
is the same whoever runs how many rounds at once. Breadth comes first: families of forms are dealt
out like cards, and early rounds have few images for each program. Within a family programs are
asked for what it had least. (Hypothesis's `target()` steers the mutation of examples of one test;
here every program is drawn from a seed of its own, to be made again without those before it.)
"""

from __future__ import annotations

import math
import random
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count as count_up
from typing import Any, ClassVar, Self, TypeVar

import msgspec
from hypothesis import strategies as st

from oracle.errors import InfrastructureError, UsageError
from oracle.isa.forms import Form
from oracle.isa.lookup import is_available
from oracle.isa.targets import Module
from oracle.models import model_for
from oracle.program.operands import Fragment
from oracle.program.program import Program, requirements
from strategies.contents import Recipe, ValueClass, drawn_recipe, of_group, recipes
from strategies.draws import (
    Drawn,
    PtxVersions,
    Selection,
    derived_seed,
    draw_one,
    has_form,
    only_version,
    shuffled,
    version_having,
    version_of_round,
)
from strategies.features import (
    FEATURES,
    OF_SCALAR,
    WISHED,
    Dimension,
    Feature,
    Focus,
    Has,
    features_of,
    least_reached,
    main_form,
    possible_features,
)
from strategies.programs import GENERATOR_VERSION, VALUED_FORMS, programs, undefined_programs
from strategies.programs.builder import is_valued, operand_of

T = TypeVar("T")

EPOCH = 16  # Rounds between two looks at what was reached, at first
LONGEST_EPOCH = 16384
"""Rounds of an epoch late in a campaign, so that one can be run at once by each worker of 1,000
GPUs with 15 cores. By then, everything that is drawn was reached many times."""
_SHOWN_MISSING = 8  # Names of what is missing that a line shows
_DETAIL = re.compile(r"\.(?:sync|aligned|row|col|x[124]|shared(?:::cta)?|m\d+n\d+k\d+)(?=\.|$)")
_PAIR = re.compile(r"\.e\dm\d")  # Of the narrow types there are 25 pairs
_MOST_WISHES = 3
"""Most features that one program is asked for; none in a quarter of them, so that what nobody
thought of as a feature has its turn, too."""
_VALUE_CLASS = "value class"


def epoch_known(number: int) -> int:
    """Return how many rounds a round takes into account: those of all epochs before the last."""
    quarter = (1 << number.bit_length()) // 4  # of the next power of two
    epoch = max(EPOCH, min(quarter, LONGEST_EPOCH))
    return max(0, number // epoch - 1) * epoch


@dataclass(frozen=True, kw_only=True)
class CoverageLine:
    """One dimension of what was reached."""

    name: str
    reached: int
    total: int | None  # How many there are; None where nobody has counted them
    missing: tuple[str, ...] = ()  # Some of what was not reached


def coverage_line(name: str, counts: Mapping[str, int]) -> CoverageLine:
    """Return the line of a dimension from how often each of its values was reached."""
    missing = tuple(value for value, count in counts.items() if not count)
    reached, shown = len(counts) - len(missing), missing[:_SHOWN_MISSING]
    return CoverageLine(name=name, reached=reached, total=len(counts), missing=shown)


class Coverage(ABC):
    """Counts of what was reached, by dimension and value; a check has a class of its own."""

    NAMES: ClassVar[tuple[str, ...]]  # The first has the forms that cases were about

    def __init__(self) -> None:
        self.programs = 0  # Programs, or other things that were looked at
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in self.NAMES}

    @abstractmethod
    def lines(self, forms: Collection[str]) -> Sequence[CoverageLine]:
        """Return how much of each dimension was reached, of these opcodes and of all else."""

    @property
    def forms_reached(self) -> frozenset[str]:
        """Opcodes of documented forms that some case was about."""
        return frozenset(self.counts[self.NAMES[0]])

    def merge(self, other: Self) -> None:
        """Add what another has counted."""
        self.programs += other.programs
        for name, counts in other.counts.items():
            self.counts[name].update(counts)

    def state(self) -> dict[str, Any]:
        """Return the counts as JSON can hold them."""
        counts = {name: dict(counter) for name, counter in self.counts.items()}
        return {"programs": self.programs, **counts}

    @classmethod
    def from_state(cls, state: object) -> Self:
        """Return the counts that `state` gave; an InfrastructureError says that it is none."""
        made, counts = cls(), dict[str, int]
        try:
            told = msgspec.convert(state, dict[str, Any])
            made.programs = msgspec.convert(told["programs"], int)
            for name, counter in made.counts.items():
                counter.update(msgspec.convert(told[name], counts))
        except (KeyError, msgspec.ValidationError) as error:
            raise InfrastructureError(
                f"the counts of what was reached cannot be read ({error!r}); delete the campaign's "
                "state and start it anew"
            ) from None
        return made


class Reached:
    """Coverage of the committed rounds, the newest of them apart, counted as a check does."""

    def __init__(self, kind: type[Coverage]) -> None:
        self._kind = kind
        self.total = kind()  # All of it
        self._base = kind()
        self._epochs: dict[int, Coverage] = {}
        """By the first round of a part of the campaign; no round knows less than all of one."""
        self._known: tuple[int, Coverage] = (-1, kind())
        """What the last round took into account that was asked for, and up to which round."""

    def add(self, number: int, reached: Coverage) -> None:
        """Add what a round, or a part of one, has reached."""
        self.total.merge(reached)
        # `epoch_known` is always the first round of a part: a multiple of EPOCH at first, then a
        # power of two, then a multiple of LONGEST_EPOCH.
        whole = (1 << number.bit_length()) // 2  # the last power of two
        part = number - number % max(EPOCH, min(whole, LONGEST_EPOCH))
        self._epochs.setdefault(part, self._kind()).merge(reached)

    def known_to(self, number: int) -> Coverage:
        """Return what a round takes into account, to be read alone; those are committed."""
        if self._known[0] != epoch_known(number):
            self._known = epoch_known(number), self._kind()
            for part in (self._base, *(self._epochs[one] for one in self._before(number))):
                self._known[1].merge(part)
        return self._known[1]

    def _before(self, number: int) -> list[int]:
        return sorted(earlier for earlier in self._epochs if earlier < epoch_known(number))

    def settle(self, following: int) -> None:
        """Put together what every round from `following` on takes into account."""
        for earlier in self._before(following):
            self._base.merge(self._epochs.pop(earlier))

    def state(self) -> dict[str, Any]:
        """Return all of it as JSON takes it."""
        epochs = {str(number): one.state() for number, one in self._epochs.items()}
        return {"base": self._base.state(), "epochs": epochs}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` returned.

        KeyError, TypeError, ValueError or InfrastructureError say that it is something else.
        """
        self._base, self._known = self._kind.from_state(state["base"]), (-1, self._kind())
        epochs = dict(state["epochs"]).items()
        self._epochs = {int(number): self._kind.from_state(one) for number, one in epochs}
        for part in (self._base, *self._epochs.values()):
            self.total.merge(part)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One program of a round and what fills its images."""

    entry: str  # Name of its kernel in the round's module
    program: Program
    recipe: Recipe
    focus: Focus  # What was asked of the program
    count: int  # Images that the round runs it on
    module: Module  # that it is written for
    form: Form | None  # The form that the program is about; None of code of lanes alone


def opcode_of(form: Form | None) -> str:
    """Return the opcode that a program is about, or that it is code of lanes."""
    return Has.LANES_ALONE.value if form is None else form.opcode


@cache
def family_of(form: Form | None) -> str:
    """Return what a form computes: its opcode without layouts, sizes of wmma and state spaces."""
    if form is None:
        return Has.LANES_ALONE.value
    family = _DETAIL.sub("", form.opcode)
    return _PAIR.sub("", family) if form.kind else family


class ProgramCoverage(Coverage):
    """Counts of the programs that reached something.

    Pairs are of what a program is about (`family_of`) and a feature or class of values; they are
    counted as asked for, too: what cannot be is not asked for again and again.
    """

    NAMES = ("main_forms", "forms", "features", "classes", "pairs", "asked", "versions")

    def add(self, batch: Batch) -> None:
        """Count a program and what fills its images."""
        self.programs += 1
        counts, family, features = self.counts, family_of(batch.form), features_of(batch.program)
        # Image i is of class i modulo their number; few images do not come to the last ones.
        classes = [*dict.fromkeys(batch.recipe.classes[: batch.count])]
        counts["forms"].update(form.opcode for form in requirements(batch.program))
        counts["main_forms"][opcode_of(batch.form)] += 1
        counts["versions"][str(batch.module.version)] += 1
        counts["features"].update(feature.value for feature in features)
        counts["classes"].update(class_.value for class_ in classes)
        counts["pairs"].update(_pair(family, one) for one in (*features, *classes))
        counts["asked"].update(_pair(family, feature) for feature in batch.focus.features)

    def focuses(
        self, key: int, count: int, forms: Sequence[Form], *, first: int = 0
    ) -> list[Focus]:
        """Choose what programs should be about: what was reached least, ties by the key.

        All families of forms come once before any comes again; within one the form that was reached
        least for its cost, and it is asked for features that the family had least. `first` is how
        many were chosen under this key before.
        """
        families: dict[str, list[Form]] = {}
        for form in forms:
            families.setdefault(family_of(form), []).append(form)
        dealt = cache(lambda turn: shuffled(families, derived_seed(key, "family", turn)))
        chosen = []
        for index in range(first, first + count):
            turn, place = divmod(index, len(families))
            family = dealt(turn)[place]
            # Turns of one epoch know the same counts; the shuffle goes on where the last ended.
            order = shuffled(families[family], derived_seed(key, family))
            start = turn % len(order)
            form = least_reached(order[start:] + order[:start], self.counts["main_forms"])
            random_ = random.Random(derived_seed(key, "wishes", index))
            dimensions, wishes = list(WISHED), set[Feature]()
            random_.shuffle(dimensions)
            for dimension in dimensions[: random_.randint(0, _MOST_WISHES)]:
                features = list(_possible(form)[dimension])
                if features:
                    random_.shuffle(features)
                    wishes.add(self._least(family, features))
            chosen.append(Focus(form=form, features=frozenset(wishes)))
        return chosen

    def lane_focuses(self, key: int, count: int, *, first: int = 0) -> list[Focus]:
        """Choose what code of lanes should have, every second what was reached least."""
        chosen = []
        for index in range(first, first + count):
            wishes = {Has.LANES_ALONE}
            if index % 2:
                scalars = shuffled(OF_SCALAR.values(), derived_seed(key, "scalar", index))
                wishes.add(self._least(Has.LANES_ALONE.value, scalars))
            chosen.append(Focus(features=frozenset(wishes)))
        return chosen

    def _least(self, family: str, features: Sequence[Feature]) -> Feature:
        reached, asked = (self.counts[name].get for name in ("pairs", "asked"))
        return min(features, key=lambda one: reached(key := _pair(family, one), 0) + asked(key, 0))

    def lines(self, forms: Collection[str]) -> Sequence[CoverageLine]:
        """Return how much of each dimension was reached, of these opcodes and of all else."""
        versions = self.counts["versions"]  # all that a campaign draws
        rows: list[tuple[str, str, Iterable[str]]] = [
            ("forms", "forms", sorted(forms)), ("PTX ISA versions", "versions", versions),
            *((dimension, "features", (one.value for one in FEATURES.values()
                                       if one.dimension is dimension)) for dimension in Dimension),
            (_VALUE_CLASS, "classes", ValueClass),
        ]  # fmt: skip
        return [
            coverage_line(name, {value: self.counts[kind][value] for value in values})
            for name, kind, values in rows
        ]


@cache
def _possible(form: Form) -> Mapping[Dimension, tuple[Feature, ...]]:
    possible = possible_features(form)
    return {one: tuple(each for each in possible if each.dimension is one) for one in WISHED}


@cache
def _pair(family: str, reached: Feature | ValueClass) -> str:
    dimension = reached.dimension.value if isinstance(reached, Feature) else _VALUE_CLASS
    return f"{family}, {dimension}: {reached.value}"


Strategy = st.SearchStrategy
PROGRAMS = 8  # Programs of one round that are about forms; all of a round are in one module
LANE_PROGRAMS = 8
"""Most programs of one round that are code of lanes alone. With 4, ten minutes of a GPU had 12,200;
some defects of the driver's compiler show in one of 10,000 (docs/findings.md, 2026-11-27)."""
_RANDOM_CLASSES = 4  # Classes of half of a program's first images, which are drawn


_FIRST_IMAGES = 8
"""Images of a program in the first rounds: as long on the simulated device as drawing the program
(4 ms each, 2026-11)."""
IMAGES = 256
"""Most images of a program. Programs find, not images: of 104 identities of campaigns on an H200 91
were first seen in an image below 64, 101 below 256, the others below 1,240 (2026-11-29)."""
_FIRST_GROUP_IMAGES = 4  # of a program of a warpgroup, whose images are of 100 KiB and more
_FULL_BYTES = 4096
"""Bytes of an image up to which a program has all images of its round; one program in a hundred has
images of 100 KiB and more (2026-11)."""
_BROAD_ROUNDS = 48
"""Rounds before the first growth: 384 programs, every family several times (sm_90: 373 forms)."""
_ROUNDS_OF_A_STEP = 8  # Rounds from one doubling to the next


def _lane_programs(forms: Sequence[Form], number: int) -> int:
    """Return how many programs are code of lanes: none where forms of one instruction are selected.

    In the first rounds, which are about breadth, half of `LANE_PROGRAMS`.
    """
    most = LANE_PROGRAMS if number >= _BROAD_ROUNDS else LANE_PROGRAMS // 2
    return most if len({form.mnemonic for form in forms if form.warps == 1}) > 1 else 0


def most_programs(forms: Sequence[Form], target: str) -> int:
    """Return how many programs a round has at most that knows of no round before it."""
    own, groups = _parted(forms, target)
    return (PROGRAMS + _lane_programs(own, 0) if own else 0) + (GROUP_PROGRAMS if groups else 0)


def images_per_program(number: int) -> int:
    """Return how many images each program of a round is run on."""
    doublings = max(0, number - _BROAD_ROUNDS) // _ROUNDS_OF_A_STEP
    return min(IMAGES, _FIRST_IMAGES << min(doublings, 16))


GROUP_TARGETS = {"sm_90": "sm_90a", "sm_120": "sm_120a", "sm_121": "sm_121a"}
"""The `.target` that has more multiplications on devices of a plain one: those of warpgroups
(9.7.15), and those with `.kind` (9.7.14.5.14, Target ISA Notes)."""
_SHARE_OF_GROUPS = 8
"""One round of so many has programs of warpgroups, if others are drawn, too: one of them, on 8
images, takes as long as eight others (0.5 s and 0.06 s of a worker, H200, 2026-11-29)."""
GROUP_PROGRAMS = 4  # Programs of such a round that are of warpgroups


def target_of(form: Form | None, target: str) -> str:
    """Return the `.target` of modules with a form, in a campaign of a target."""
    if form is None or not (form.warps > 1 or form.kind):
        return target
    return GROUP_TARGETS.get(target, target)


def _parted(forms: Iterable[Form], target: str) -> tuple[list[Form], list[Form]]:
    """Return the forms of one warp, and those of warpgroups in modules of another target."""
    parts: tuple[list[Form], list[Form]] = [], []
    for form in forms:
        parts[form.warps > 1 and target_of(form, target) != target].append(form)
    return parts


def group_target(forms: Iterable[Form], target: str) -> str:
    """Return the `.target` of the forms that have another than `target`, or ""."""
    return next((own for form in forms if (own := target_of(form, target)) != target), "")


def selected_forms(
    selection: Selection, *, target: str, version: str, groups: bool = False
) -> tuple[Form, ...]:
    """Return the forms that programs can be about: what a target has, and whose values are known.

    With `groups`, those of `GROUP_TARGETS`, too. Where only loads and stores of wmma are selected,
    the multiplications of fragments that they load and store. UsageError says that there is none.
    """
    module, selected = Module.named(target, version), selection.forms()
    served = {
        (form.matrix().operand, Fragment.of(form.matrix(), form.layout))
        for form in selected
        if form.is_access and is_available(form, module)
    }
    own = [form for form in selected if form.is_main and is_valued(form, module)]
    if groups and target in GROUP_TARGETS:
        other = Module.named(GROUP_TARGETS[target], version)
        more = (form for form in selected if target_of(form, target) != target)
        own += [form for form in more if is_valued(form, other)]
    forms = tuple(own) or tuple(
        form
        for form in VALUED_FORMS
        if is_valued(form, module) and any((one, operand_of(form, one)) in served for one in "abcd")
    )
    if forms:
        return forms
    if unjudged_forms(selection, target=target, version=version):
        raise UsageError(
            f"the model {model_for(target).name} has no figures of what {selection.pattern!r} "
            "selects; measure them with `warpfuzz measure`, or choose other forms or another model"
        )
    near = GROUP_TARGETS.get(target, target)
    there = any(has_form(one, near, version) > has_form(one, target, version) for one in selected)
    raise UsageError(
        f"no matrix instruction of {target} and PTX ISA {version} that is drawn matches "
        f"{selection.pattern!r}{f', but of {near}: add --target {near}' * there}; "
        f"`warpfuzz isa --target {target} --ptx-version {version}` "
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
    forms: Sequence[Form], *, target: str, seed: int, number: int, reached: ProgramCoverage
) -> list[Focus]:
    """Return what the programs of a round should be about, given what `epoch_known` rounds had."""
    key = derived_seed(seed, "focuses", GENERATOR_VERSION)
    own = round_key(seed, number)
    return _focuses(forms, target, key, reached, own, number)


def _focuses(
    forms: Sequence[Form], target: str, key: int, reached: ProgramCoverage, of_round: int,
    number: int = 0,
) -> list[Focus]:  # fmt: skip
    own, groups = _parted(forms, target)
    if not own:
        return reached.focuses(key, PROGRAMS, groups, first=number * PROGRAMS)
    found = reached.focuses(key, PROGRAMS, own, first=number * PROGRAMS)
    lanes = _lane_programs(own, number)
    found += reached.lane_focuses(key, lanes, first=number * LANE_PROGRAMS)
    # The last of the round, so that all others are the same with them and without.
    if groups and derived_seed(of_round, "warpgroups") % _SHARE_OF_GROUPS == 0:
        found += reached.focuses(of_round, GROUP_PROGRAMS, groups)
    return found


def round_batches(
    forms: Sequence[Form],
    *,
    target: str,
    version: str | PtxVersions,
    key: int,
    focuses: Sequence[Focus] | None = None,
    count: int = IMAGES,
    line_bytes: int = 1,
    shares_registers: Sequence[bool | None] = (None,),
) -> Iterator[Batch]:
    """Draw the programs of one round, one for each focus, and how their images are filled.

    A program is a function of the key, its place in the round and its own focus alone; without
    focuses the key chooses them. Of several versions the key draws one for the round; a program
    whose form is newer has the oldest version that has it, one of a warpgroup the `.target` that
    has its form (`target_of`). `count` are the images of a program;
    fewer where they are large. `line_bytes` goes to every second program, `shares_registers` to the
    programs in turn, where it is not None.
    """
    versions = version if isinstance(version, PtxVersions) else only_version(version)
    of_round = version_of_round(versions, key)
    if focuses is None:
        focuses = _focuses(forms, target, key, ProgramCoverage(), key)
    for index, focus in enumerate(focuses):
        own = derived_seed(key, index)
        about = focus.form
        if about is None and not any(has_form(form, target, of_round) for form in forms):
            about = forms[0]  # all are newer than what the round has drawn
        own_target = target_of(about, target)
        of_program = version_having(versions, about, own_target, of_round)
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
        module = Module.named(own_target, of_program)
        strategy = programs(focus, module=module, forms=tuple(forms))
        for program, recipe in _with_recipe(strategy, module, own, classes):
            few = _FIRST_IMAGES if program.warps == 1 else _FIRST_GROUP_IMAGES
            most = max(few, count * _FULL_BYTES // program.image_bytes)
            main = focus.form is not None and focus.form.is_main
            yield Batch(
                entry=f"kernel_{index}", program=program, recipe=recipe, focus=focus,
                count=min(count, most), module=module,
                form=focus.form if main else main_form(program),
            )  # fmt: skip


def _with_recipe(
    strategy: Strategy[Program], module: Module, key: int, classes: Sequence[ValueClass] = ()
) -> Iterator[tuple[Program, Recipe]]:
    """Draw a program and what fills its images; nothing if a module does not have the program."""
    # Some state spaces and types are newer than what is multiplied.
    both = Drawn(lambda data: (data.draw(strategy), drawn_recipe(data, tuple(classes))))
    program, recipe = draw_one(both, key)
    if all(is_available(form, module) for form in requirements(program)):
        yield program, recipe if program.warps == 1 else of_group(recipe)


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
    """Take the programs of a round that have its first cases (None: all), and one more if any."""
    taken, left = [], math.inf if cases is None else cases
    for batch in batches:
        taken.append(batch)
        if left <= 0:
            break
        left -= cases_of(batch)
    return taken


def undefined_of_round(
    forms: Sequence[Form], module: Module, *, seed: int, number: int
) -> list[tuple[Program, Recipe]]:
    """Draw the programs behind a round that the ISA leaves undefined, and their contents."""
    key = derived_seed(seed, "undefined", GENERATOR_VERSION, number)
    forms, _ = _parted(forms, module.target.name)
    count = PROGRAMS if forms else 0
    return [
        drawn
        for index, focus in enumerate(ProgramCoverage().focuses(key, count, forms))
        for strategy in (undefined_programs(focus, module=module, forms=tuple(forms)),)
        for drawn in _with_recipe(strategy, module, derived_seed(key, index))
    ]


def campaign_rounds(
    forms: Sequence[Form], *, target: str, version: str, seed: int
) -> Iterator[list[Batch]]:
    """Iterate over the rounds of a campaign, in order and without end."""
    reached = Reached(ProgramCoverage)
    for number in count_up():
        known, own = reached.known_to(number), ProgramCoverage()
        assert isinstance(known, ProgramCoverage)
        focuses = round_focuses(forms, target=target, seed=seed, number=number, reached=known)
        batches = [
            *round_batches(
                forms, target=target, version=version, key=round_key(seed, number),
                focuses=focuses, count=images_per_program(number),
            )
        ]  # fmt: skip
        for batch in batches:
            own.add(batch)
        reached.add(number, own)
        yield batches
