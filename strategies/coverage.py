"""What a campaign has reached: counts that steer later rounds, and that people are shown.

A round takes into account what all epochs before the last have reached, so that it is the same
whoever runs how many rounds at once. Breadth comes first: families of forms are dealt out like
cards, and within a family programs are asked for what it had least.
"""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracle.errors import InfrastructureError
from oracle.isa.forms import Form
from oracle.isa.lookup import FORMS
from oracle.program.program import Program, requirements
from strategies.contents import Recipe, ValueClass, expand
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

EPOCH = 16
"""Rounds between two looks at what was reached, at first. A round knows the counts up to the epoch
before the last, whoever runs how many rounds at once."""
LONGEST_EPOCH = 16384
"""Rounds of an epoch late in a campaign: at least so many rounds can be run at once, one for
each worker of 1,000 GPUs with 15 cores. By then, everything that is drawn was reached many
times."""
_SHOWN_MISSING = 8  # Names of what is missing that a line shows
_DETAIL = re.compile(r"\.(?:sync|aligned|row|col|x[124]|shared(?:::cta)?|m\d+n\d+k\d+)(?=\.|$)")
_MOST_WISHES = 3
"""Most features that one program is asked for; none in a quarter of them, so that what nobody
thought of as a feature has its turn, too."""
_VALUE_CLASS = "value class"


def epoch_known(number: int) -> int:
    """Return how many rounds (0 to that, exclusive) a round takes into account."""
    # Those of all epochs before the last: epochs grow, so that more rounds can be run at once.
    quarter = (1 << number.bit_length()) // 4  # of the next power of two
    epoch = max(EPOCH, min(quarter, LONGEST_EPOCH))
    return max(0, number // epoch - 1) * epoch


@dataclass(frozen=True, kw_only=True)
class CoverageLine:
    """One dimension of what was reached."""

    name: str  # Name of the dimension: "forms", "stride classes", "value classes"
    reached: int
    total: int | None  # How many there are; None where nobody has counted them
    missing: Sequence[str] = ()  # Some of what was not reached

    @classmethod
    def of(cls, name: str, counts: Mapping[str, int]) -> Self:
        """Return the line of a dimension from how often each of its values was reached."""
        missing = tuple(value for value, count in counts.items() if not count)
        reached, shown = len(counts) - len(missing), missing[:_SHOWN_MISSING]
        return cls(name=name, reached=reached, total=len(counts), missing=shown)


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
        """Return what a round takes into account; every round before that is committed."""
        # It is the same object for all rounds of an epoch, and to be read alone.
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
        """Take up what `state` was called of.

        It raises KeyError, TypeError, ValueError or InfrastructureError if it is something else.
        """
        base, epochs = state["base"], state["epochs"]
        if not isinstance(epochs, dict):
            raise TypeError("the epochs of coverage are no object")
        self._base, self._known = self._kind.from_state(base), (-1, self._kind())
        self._epochs = {int(name): self._kind.from_state(one) for name, one in epochs.items()}
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
    version: str  # PTX ISA version of its module

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
        counts, family, features = self.counts, family_of(batch.form), features_of(batch.program)
        # Image i is of class i modulo their number; few images do not come to the last ones.
        classes = batch.recipe.classes[: batch.count]
        counts["forms"].update(form.opcode for form in requirements(batch.program))
        counts["main_forms"][batch.about] += 1
        counts["versions"][batch.version] += 1
        counts["features"].update(feature.value for feature in features)
        counts["classes"].update(class_.value for class_ in classes)
        counts["pairs"].update(_pair(family, one) for one in (*features, *classes))
        counts["asked"].update(_pair(family, feature) for feature in batch.focus.features)

    def focuses(
        self, key: int, count: int, forms: Sequence[Form], *, first: int = 0
    ) -> list[Focus]:
        """Choose what programs should be about: what was reached least, ties by the key.

        Families of forms are dealt out like cards: all of them once before any comes again. Within
        a family the form comes next that was reached least, and it is asked for features that the
        family had least. `first` is how many were chosen under this key before.
        """
        families: dict[str, list[Form]] = {}
        for form in forms:
            families.setdefault(family_of(form), []).append(form)
        chosen = []
        dealt: dict[int, list[str]] = {}
        for index in range(first, first + count):
            turn, place = divmod(index, len(families))
            if turn not in dealt:
                dealt[turn] = shuffled(families, derived_seed(key, "family", turn))
            family = dealt[turn][place]
            # Turns of one epoch know the same counts; the shuffle goes on where the last ended.
            order = shuffled(families[family], derived_seed(key, family))
            start = turn % len(order)
            form = min(
                order[start:] + order[:start],
                key=lambda form: self.counts["main_forms"][form.opcode],
            )
            wishes = self._wishes(form, random.Random(derived_seed(key, "wishes", index)))
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
                scalars = shuffled(OF_SCALAR.values(), derived_seed(key, "scalar", index))
                wishes.add(self._least(Has.LANES_ALONE.value, scalars))
            chosen.append(Focus(features=frozenset(wishes)))
        return chosen

    def _wishes(self, form: Form, random_: random.Random) -> frozenset[Feature]:
        dimensions = list(WISHED)
        random_.shuffle(dimensions)
        wishes = []
        for dimension in dimensions[: random_.randint(0, _MOST_WISHES)]:
            features = list(_possible(form.mnemonic)[dimension])
            if features:
                random_.shuffle(features)
                wishes.append(self._least(family_of(form), features))
        return frozenset(wishes)

    def _least(self, family: str, features: Sequence[Feature]) -> Feature:
        counts = self.counts["pairs"], self.counts["asked"]
        return min(features, key=lambda one: sum(c.get(_pair(family, one), 0) for c in counts))

    def lines(self, forms: Collection[str]) -> Sequence[CoverageLine]:
        """Return how much of each dimension was reached, of these opcodes and of all else."""
        versions, features = self.counts["versions"], self.counts["features"]
        rows: list[tuple[str, Mapping[str, int], Iterable[str]]] = [
            ("forms", self.counts["forms"], sorted(forms)),
            ("PTX ISA versions", versions, versions),  # all that a campaign draws
        ]
        for dimension in Dimension:
            values = [one.value for one in FEATURES.values() if one.dimension is dimension]
            rows.append((dimension.value, features, values))
        rows.append((_VALUE_CLASS, self.counts["classes"], ValueClass))
        return [CoverageLine.of(name, {one: had[one] for one in some}) for name, had, some in rows]


@cache
def _possible(mnemonic: str) -> Mapping[Dimension, tuple[Feature, ...]]:
    possible = possible_features(next(form for form in FORMS if form.mnemonic == mnemonic))
    return {one: tuple(each for each in possible if each.dimension is one) for one in WISHED}


@cache
def _pair(family: str, reached: Feature | ValueClass) -> str:
    dimension = reached.dimension.value if isinstance(reached, Feature) else _VALUE_CLASS
    return f"{family}, {dimension}: {reached.value}"


def shuffled(items: Iterable[T], seed: int) -> list[T]:
    """Return items in an order that depends on the seed alone."""
    order = list(items)
    # `shuffle` of a generator that is seeded with an integer: the same since Python 3.2.
    random.Random(seed).shuffle(order)
    return order
