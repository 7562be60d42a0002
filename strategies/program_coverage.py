"""What drawn programs have reached, and what the next ones are asked for: counts of pairs.

Breadth comes first: families of forms are dealt out like cards, and within a family programs are
asked for what it had least.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from oracle.forms import Form
from oracle.isa import FORMS
from oracle.program import Program, requirements
from strategies.contents import Recipe, ValueClass, expand
from strategies.coverage import Coverage, CoverageLine
from strategies.draws import derived_seed
from strategies.features import (
    FEATURES,
    OF_SCALAR,
    WISHED,
    Dimension,
    Feature,
    Focus,
    Has,
    features_of,
    main_form,
    possible_features,
)

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
    version: str
    """PTX ISA version of its module."""

    @property
    def form(self) -> Form | None:
        """The form that the program is about; None of code of lanes alone."""
        form = self.focus.form
        return form if form is not None and form.is_main else main_form(self.program)

    @property
    def about(self) -> str:
        """What the program is about: an opcode, or code of lanes."""
        return Has.LANES_ALONE.value if self.form is None else self.form.opcode

    def images(self, count: int, *, first: int = 0) -> NDArray[np.uint8]:
        """Return images, uint8 (count, image_bytes)."""
        return expand(self.recipe, self.program, count, first=first)


@cache
def family_of(form: Form | None) -> str:
    """Return what a form computes: its opcode without layouts, sizes of wmma and state spaces."""
    return Has.LANES_ALONE.value if form is None else _DETAIL.sub("", form.opcode)


class ProgramCoverage(Coverage):
    """Counts of the programs that reached something.

    Counted are forms (every one that a program uses), PTX ISA versions of the modules, features
    (`strategies.features`), classes of values, and pairs of what a program is about (`family_of`)
    with a feature or a class; and how often a pair was asked for: what cannot be is not asked for
    again and again.
    """

    NAMES = ("main_forms", "forms", "features", "classes", "pairs", "asked", "versions")

    def add(self, batch: Batch) -> None:
        """Count a program and what fills its images."""
        self.programs += 1
        family = family_of(batch.form)
        features = features_of(batch.program)
        # Image i is of class i modulo their number; few images do not come to the last ones.
        classes = batch.recipe.classes[: batch.count]
        self.counts["forms"].update(form.opcode for form in requirements(batch.program))
        self.counts["main_forms"][batch.about] += 1
        self.counts["versions"][batch.version] += 1
        self.counts["features"].update(feature.value for feature in features)
        self.counts["classes"].update(class_.value for class_ in classes)
        self.counts["pairs"].update(_pair(family, feature) for feature in features)
        self.counts["pairs"].update(_pair(family, class_) for class_ in classes)
        self.counts["asked"].update(_pair(family, feature) for feature in batch.focus.features)

    def focuses(
        self,
        key: int,
        count: int,
        forms: Sequence[Form],
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
        families: dict[str, list[Form]] = {}
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

    def lane_focuses(self, key: int, count: int, *, first: int = 0) -> list[Focus]:
        """Choose what programs of code of lanes should have: every second what was reached least.

        Parameters as of `focuses`.
        """
        chosen = []
        for index in range(first, first + count):
            wishes = {Has.LANES_ALONE}
            if index % 2:
                scalars = _shuffled(OF_SCALAR.values(), derived_seed(key, "scalar", index))
                wishes.add(min(scalars, key=partial(self._known, Has.LANES_ALONE.value)))
            chosen.append(Focus(features=frozenset(wishes)))
        return chosen

    def _wishes(self, form: Form, random_: random.Random) -> frozenset[Feature]:
        family, possible = family_of(form), _possible(form.mnemonic)
        dimensions = list(WISHED)
        random_.shuffle(dimensions)
        wishes = []
        for dimension in dimensions[: random_.randint(0, _MOST_WISHES)]:
            features = list(possible[dimension])
            if features:
                random_.shuffle(features)
                wishes.append(min(features, key=partial(self._known, family)))
        return frozenset(wishes)

    def _known(self, family: str, feature: Feature) -> int:
        pair = _pair(family, feature)
        return self.counts["pairs"].get(pair, 0) + self.counts["asked"].get(pair, 0)

    def lines(self, forms: Collection[str]) -> Sequence[CoverageLine]:
        """Return how much of each dimension was reached, of these opcodes and of all else."""

        def line(name: str, counts: Mapping[str, int], values: Iterable[str]) -> CoverageLine:
            return CoverageLine.of(name, {value: counts[value] for value in values})

        versions, features = self.counts["versions"], self.counts["features"]
        return [
            line("forms", self.counts["forms"], sorted(forms)),
            line("PTX ISA versions", versions, versions),  # all that a campaign draws
            *(
                line(
                    one.value,
                    features,
                    [each.value for each in FEATURES.values() if each.dimension is one],
                )
                for one in Dimension
            ),
            line(_VALUE_CLASS, self.counts["classes"], ValueClass),
        ]


@cache
def _possible(mnemonic: str) -> Mapping[Dimension, tuple[Feature, ...]]:
    """Return what programs about a form of an instruction can be asked for, by dimension."""
    some = next(form for form in FORMS if form.mnemonic == mnemonic)
    possible = possible_features(some)
    return {
        dimension: tuple(feature for feature in possible if feature.dimension is dimension)
        for dimension in WISHED
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
