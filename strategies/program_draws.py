"""What the rounds of programs run, and what they have reached: functions of seed, round and reach.

Breadth comes first. The programs of a round are about different families of forms, in an order
that deals out all of them before any comes again, and early rounds have few images for each
program; so a fault in any one form is met after few images. Later rounds go deeper: more images
of each program, and programs with what was reached least (`ProgramCoverage`).

Hypothesis offers `target()` for searches with a numeric distance. It steers Hypothesis's own
mutation of choices, over thousands of examples of one test; here every program is drawn alone from
a seed of its own, uniformly (`strategies.draws`), so that it can be made again without those
before it. So there are counts instead, and programs are asked for what was reached least.
"""

from __future__ import annotations

import math
import random
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, partial
from typing import TypeVar

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracle.availability import is_available
from oracle.errors import UsageError
from oracle.forms import Form, MainForm
from oracle.isa import FORMS
from oracle.program import Program, requirements
from oracle.targets import Module, parse_target, parse_version
from strategies.contents import Recipe, ValueClass, expand, recipes
from strategies.coverage import Coverage, CoverageLine, epoch_known
from strategies.draws import Selection, derived_seed, draw_one
from strategies.features import Dimension, Feature, Focus, features_of, main_form, possible_features
from strategies.programs import GENERATOR_VERSION, is_valued, programs, undefined_programs

T = TypeVar("T")

_DETAIL = re.compile(r"\.(?:sync|aligned|row|col|x[124]|shared(?:::cta)?|m\d+n\d+k\d+)(?=\.|$)")
_MOST_WISHES = 3
"""Most features that one program is asked for; none in a quarter of them, so that what nobody
thought of as a feature has its turn, too."""
_VALUE_CLASS = "value class"


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One program of a round and what fills its images."""

    entry: str
    """Name of its kernel in the round's module."""
    program: Program
    recipe: Recipe
    focus: Focus
    """What was asked of the program."""
    count: int
    """Images that the round runs it on."""

    @property
    def form(self) -> MainForm:
        """The form that the program is about."""
        form = self.focus.form
        return form if isinstance(form, MainForm) else main_form(self.program)

    def images(self, count: int | None = None, *, first: int = 0) -> NDArray[np.uint8]:
        """Return images, uint8 (count, image_bytes); all of the round's if no count is given."""
        count = self.count - first if count is None else count
        return expand(self.recipe, self.program, count, first=first)


def family_of(form: Form) -> str:
    """Return what a form computes: its opcode without layouts, sizes of wmma and state spaces."""
    return _family_of(form.opcode)


@cache
def _family_of(opcode: str) -> str:
    return _DETAIL.sub("", opcode)


class ProgramCoverage(Coverage):
    """Counts of the programs that reached something.

    Counted are forms (every one that a program uses), features (`strategies.features`), classes of
    values, and pairs of what a program is about (`family_of`) with a feature or a class; and how
    often a pair was asked for: what cannot be is not asked for again and again.
    """

    NAMES = ("main_forms", "forms", "features", "classes", "pairs", "asked")

    def add(self, batch: Batch) -> None:
        """Count a program and what fills its images."""
        self.programs += 1
        family = family_of(batch.form)
        features = features_of(batch.program)
        # Image i is of class i modulo their number; few images do not come to the last ones.
        classes = batch.recipe.classes[: batch.count]
        self.counts["forms"].update(form.opcode for form in requirements(batch.program))
        self.counts["main_forms"][batch.form.opcode] += 1
        self.counts["features"].update(feature.value for feature in features)
        self.counts["classes"].update(class_.value for class_ in classes)
        self.counts["pairs"].update(_pair(family, feature) for feature in features)
        self.counts["pairs"].update(_pair(family, class_) for class_ in classes)
        self.counts["asked"].update(_pair(family, feature) for feature in batch.focus.features)

    def form_count(self, form: Form) -> int:
        """Return how many programs use a form."""
        return self.counts["forms"][form.opcode]

    def feature_count(self, feature: Feature) -> int:
        """Return how many programs have a feature."""
        return self.counts["features"][feature.value]

    def class_count(self, class_: ValueClass) -> int:
        """Return how many programs were run on images of a class."""
        return self.counts["classes"][class_.value]

    def focuses(
        self,
        key: int,
        count: int,
        forms: Sequence[MainForm],
        *,
        first: int = 0,
    ) -> list[Focus]:
        """Choose what programs should be about: what was reached least, ties by the key.

        Families of forms are dealt out like cards: all of them once before any comes again. Within
        a family the form comes next that was reached least, and it is asked for features that the
        family had least.

        Parameters
        ----------
        key
            Of the campaign; the same key and the same counts give the same focuses.
        count
            How many.
        forms
            What is selected.
        first
            How many were chosen under this key before; where the dealing goes on.
        """
        families: dict[str, list[MainForm]] = {}
        for form in forms:
            families.setdefault(family_of(form), []).append(form)
        chosen = []
        dealt: dict[int, list[str]] = {}
        for index in range(first, first + count):
            turn, place = divmod(index, len(families))
            if turn not in dealt:
                dealt[turn] = _shuffled(families, derived_seed(key, "family", turn))
            family = dealt[turn][place]
            # Turns of one epoch know the same counts; the shuffle goes on where the last ended.
            order = _shuffled(families[family], derived_seed(key, family))
            start = turn % len(order)
            form = min(
                order[start:] + order[:start],
                key=lambda form: self.counts["main_forms"][form.opcode],
            )
            random_ = random.Random(derived_seed(key, "wishes", index))
            wishes = self._wishes(form, random_)
            chosen.append(Focus(form=form, features=wishes))
        return chosen

    def _wishes(self, form: MainForm, random_: random.Random) -> frozenset[Feature]:
        family, possible = family_of(form), _possible(form.__class__.__name__)
        dimensions = list(Dimension)
        random_.shuffle(dimensions)
        wishes = []
        for dimension in dimensions[: random_.randint(0, _MOST_WISHES)]:
            features = list(possible.get(dimension, ()))
            if not features:
                continue
            random_.shuffle(features)
            wishes.append(min(features, key=partial(self._known, family)))
        return frozenset(wishes)

    def _known(self, family: str, feature: Feature) -> int:
        pair = _pair(family, feature)
        return self.counts["pairs"].get(pair, 0) + self.counts["asked"].get(pair, 0)

    def lines(self, forms: Sequence[Form] = FORMS) -> Sequence[CoverageLine]:
        """Return how much of each dimension was reached.

        Parameters
        ----------
        forms
            Those that there are to reach.
        """
        return [
            CoverageLine.of("forms", {form.opcode: self.form_count(form) for form in forms}),
            *(
                CoverageLine.of(
                    dimension.value,
                    {
                        feature.value: self.feature_count(feature)
                        for feature in Feature
                        if feature.dimension is dimension
                    },
                )
                for dimension in Dimension
            ),
            CoverageLine.of(_VALUE_CLASS, {one.value: self.class_count(one) for one in ValueClass}),
        ]


@cache
def _possible(kind: str) -> Mapping[Dimension, tuple[Feature, ...]]:
    """Return what programs about a form of a class can be asked for, by dimension."""
    some = next(form for form in FORMS if form.__class__.__name__ == kind)
    possible = possible_features(some)
    return {
        dimension: tuple(feature for feature in possible if feature.dimension is dimension)
        for dimension in Dimension
    }


@cache
def _pair(family: str, reached: Feature | ValueClass) -> str:
    dimension = reached.dimension.value if isinstance(reached, Feature) else _VALUE_CLASS
    return f"{family}, {dimension}: {reached.value}"


def _shuffled(items: Iterable[T], seed: int) -> list[T]:
    """Return items in an order that depends on the seed alone."""
    order = list(items)
    # `shuffle` of a generator that is seeded with an integer: the same since Python 3.2.
    random.Random(seed).shuffle(order)
    return order


PROGRAMS = 8
"""Programs of one round, in one module."""


class Speed(StrEnum):
    """How fast images are run, in classes that decide when rounds grow."""

    INTERPRETED = "interpreted"
    """The simulated device: thousands of images a second."""
    NATIVE = "native"
    """A GPU: the oracle is slower than it."""


_FIRST_IMAGES = 8
"""Images of a program in the first rounds. Running so few on the simulated device takes as long as
drawing the program (4 ms each, 2026-11), so that fewer would hardly be sooner."""
IMAGES = 256
"""Images of a program where nobody counts rounds."""
_MOST_IMAGES = {Speed.INTERPRETED: 256, Speed.NATIVE: 8192}
"""From here on the time of a program is that of its images, and more of them bring nothing."""
_FULL_BYTES = 4096
"""Bytes of an image up to which a program has all images of its round; with larger ones it has
fewer, because time goes with bytes, and one program in a hundred has images of 100 KiB and more
(2026-11)."""
_BROAD_ROUNDS = 32
"""Rounds before the first growth: 256 programs, every family of forms several times. (There are
285 forms on sm_90 with PTX ISA 8.7: 138 of wmma.mma, 110 of mma.sync, the rest move matrices.)"""
_ROUNDS_OF_A_STEP = {Speed.INTERPRETED: 8, Speed.NATIVE: 2}
"""Rounds from one doubling to the next; where compiling a program costs more than its images,
breadth costs more, too."""


def images_per_program(number: int, speed: Speed) -> int:
    """Return how many images each program of a round is run on.

    8 in the first 32 rounds, and then twice as many every 8 rounds up to 256 on a simulated
    device, every 2 rounds up to 8192 on a GPU.

    Parameters
    ----------
    number
        Number of the round, from 0.
    speed
        Of what runs it.
    """
    doublings = max(0, number - _BROAD_ROUNDS) // _ROUNDS_OF_A_STEP[speed]
    most = _MOST_IMAGES[speed]
    return most if doublings >= most.bit_length() else min(most, _FIRST_IMAGES << doublings)


_RANDOM_CLASSES = 4
"""Classes of values at the start of a program's images that are drawn: half of the first images."""


def selected_forms(selection: Selection, *, target: str, version: str) -> tuple[MainForm, ...]:
    """Return the forms that programs can be about: what a target has, and whose values are known.

    Raises
    ------
    UsageError
        If there is none.
    """
    row, number = parse_target(target), parse_version(version)
    forms = tuple(
        form
        for form in selection.forms()
        if isinstance(form, MainForm) and is_valued(form, Module(row, number))
    )
    if not forms:
        raise UsageError(
            f"nothing that multiplies or moves matrices on {target} and PTX ISA {version} is like "
            f"{selection.pattern!r}; `warpfuzz isa --target {target} --ptx-version {version}` "
            "lists what there is"
        )
    return forms


def round_key(seed: int, number: int) -> int:
    """Return the key of a round of a campaign."""
    return derived_seed(seed, "values", GENERATOR_VERSION, number)


def round_focuses(
    forms: Sequence[MainForm], *, seed: int, number: int, reached: ProgramCoverage
) -> list[Focus]:
    """Return what the programs of a round should be about.

    Parameters
    ----------
    forms
        What is selected.
    seed
        Of the campaign.
    number
        Of the round.
    reached
        What was reached in all epochs before the last; see `epoch_known`.
    """
    key = derived_seed(seed, "focuses", GENERATOR_VERSION)
    return reached.focuses(key, PROGRAMS, forms, first=number * PROGRAMS)


def round_batches(
    forms: Sequence[MainForm],
    *,
    target: str,
    version: str,
    key: int,
    focuses: Sequence[Focus] | None = None,
    count: int = IMAGES,
    line_bytes: int = 1,
) -> Iterator[Batch]:
    """Draw the programs of one round, one for each focus, and how their images are filled.

    A program is a function of the key, its place in the round and its own focus alone.

    Parameters
    ----------
    forms
        What is selected; the target has it.
    target, version
        Of the module.
    key
        Of the round (`round_key`).
    focuses
        What each program should be about (`round_focuses`); None: what the key alone chooses.
    count
        Images of each program (`images_per_program`), fewer where they are large.
    line_bytes
        As in `Focus`, of every second program.
    """
    row, number = parse_target(target), parse_version(version)
    if focuses is None:
        focuses = ProgramCoverage().focuses(key, PROGRAMS, forms)
    for index, focus in enumerate(focuses):
        own = derived_seed(key, index)
        if index % 2:
            focus = replace(focus, line_bytes=line_bytes)
        drawn = st.tuples(
            programs(focus, module=Module.named(target, version), forms=tuple(forms)),
            recipes(wanted=_some_classes(own)),
        )
        program, recipe = draw_one(drawn, own)
        # Some state spaces and types are newer than what is multiplied.
        if all(is_available(form, Module(row, number)) for form in requirements(program)):
            most = max(_FIRST_IMAGES, count * _FULL_BYTES // program.image_bytes)
            yield Batch(
                entry=f"kernel_{index}", program=program, recipe=recipe, focus=focus,
                count=min(count, most),
            )  # fmt: skip


def up_to(
    cases: int | None, batches: Iterable[Batch], cases_of: Callable[[Batch], int]
) -> list[Batch]:
    """Take the programs of a round that have its first cases, and one more if there is one.

    Parameters
    ----------
    cases
        How many; None: all.
    batches
        Of which only those that are taken are drawn (`round_batches`).
    cases_of
        Returns the cases of a program.
    """
    taken = []
    left = math.inf if cases is None else cases
    for batch in batches:
        taken.append(batch)
        if left <= 0:
            break
        left -= cases_of(batch)
    return taken


def undefined_of_round(
    forms: Sequence[MainForm], module: Module, *, seed: int, number: int
) -> list[tuple[Program, Recipe]]:
    """Draw the programs behind a round that the ISA leaves undefined, and what fills their images.

    Parameters
    ----------
    forms
        What is selected; the module has it.
    module
    seed
        Of the campaign.
    number
        Of the round.
    """
    key = derived_seed(seed, "undefined", GENERATOR_VERSION, number)
    drawn = []
    for index, focus in enumerate(ProgramCoverage().focuses(key, PROGRAMS, forms)):
        both = st.tuples(undefined_programs(focus, module=module, forms=tuple(forms)), recipes())
        program, recipe = draw_one(both, derived_seed(key, index))
        if all(is_available(form, module) for form in requirements(program)):
            drawn.append((program, recipe))
    return drawn


def campaign_rounds(
    forms: Sequence[MainForm], *, target: str, version: str, seed: int, speed: Speed
) -> Iterator[list[Batch]]:
    """Iterate over the rounds of a campaign, in order and without end."""
    reached = ProgramCoverage()
    waiting: deque[ProgramCoverage] = deque()
    number = 0
    while True:
        while number - len(waiting) < epoch_known(number):
            reached.merge(waiting.popleft())
        waiting.append(ProgramCoverage())
        drawn = round_batches(
            forms,
            target=target,
            version=version,
            key=round_key(seed, number),
            focuses=round_focuses(forms, seed=seed, number=number, reached=reached),
            count=images_per_program(number, speed),
        )
        batches = list(drawn)
        for batch in batches:
            waiting[-1].add(batch)
        yield batches
        number += 1


def _some_classes(key: int) -> tuple[ValueClass, ...]:
    """Return classes of values that a program's images begin with.

    The rest comes in the order of `ValueClass`, first what reveals most; with 8 images of a program
    the last would never have their turn.
    """
    classes = list(ValueClass)
    random.Random(key).shuffle(classes)
    return tuple(classes[:_RANDOM_CLASSES])
