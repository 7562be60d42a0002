"""What a campaign has reached, and where it should go next.

Hypothesis offers `target()` for searches with a numeric distance. It steers Hypothesis's own
mutation of choices, over thousands of examples of one test; here every program is drawn alone from
a seed of its own, uniformly (`fuzz.uniform_draws`), so that it can be made again without those
before it. So there are counts instead, and programs are asked for what was reached least.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from fuzz.campaign.draws import derived_seed
from fuzz.campaign.status import CoverageLine
from oracle.errors import InfrastructureError
from oracle.forms import Form, LdmatrixForm, MmaForm
from oracle.isa import FORMS
from oracle.program import requirements
from strategies.contents import ValueClass
from strategies.features import Dimension, Feature, Focus, features_of

if TYPE_CHECKING:
    from fuzz.checks.program_draws import Batch


T = TypeVar("T")

_DETAIL = re.compile(r"\.(?:sync|aligned|row|col|x[124]|shared(?:::cta)?|m\d+n\d+k\d+)(?=\.|$)")
_MOST_WISHES = 3
"""Most features that one program is asked for; none in a quarter of them, so that what nobody
thought of as a feature has its turn, too."""
_VALUE_CLASS = "value class"
_SHOWN_MISSING = 8
"""Names of what is missing that a line shows."""


def family_of(form: Form) -> str:
    """Return what a form computes: its opcode without layouts, sizes of wmma and state spaces."""
    return _DETAIL.sub("", form.opcode)


class Coverage:
    """Counts of the programs that reached something.

    Counted are forms (every one that a program uses), features (`strategies.features`), classes of
    values, and pairs of what a program is about (`family_of`) with a feature or a class.
    """

    _NAMES = ("forms", "main_forms", "features", "classes", "pairs", "asked")

    def __init__(self) -> None:
        self.programs = 0
        self._forms: Counter[str] = Counter()
        self._main_forms: Counter[str] = Counter()
        self._features: Counter[str] = Counter()
        self._classes: Counter[str] = Counter()
        self._pairs: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()
        """How often a pair was wished for: what cannot be is not wished for again and again."""

    def add(self, batch: Batch) -> None:
        """Count a program and what fills its images."""
        self.programs += 1
        family = family_of(batch.form)
        features = features_of(batch.program)
        # Image i is of class i modulo their number; few images do not come to the last ones.
        classes = batch.recipe.classes[: batch.count]
        self._forms.update(form.opcode for form in requirements(batch.program))
        self._main_forms[batch.form.opcode] += 1
        self._features.update(feature.value for feature in features)
        self._classes.update(class_.value for class_ in classes)
        self._pairs.update(_pair(family, feature) for feature in features)
        self._pairs.update(_pair(family, class_) for class_ in classes)
        self._asked.update(_pair(family, feature) for feature in batch.focus.features)

    def merge(self, other: Coverage) -> None:
        """Add what another has counted."""
        self.programs += other.programs
        for mine, its in zip(self._counters, other._counters, strict=True):
            mine.update(its)

    @property
    def _counters(self) -> tuple[Counter[str], ...]:
        return (
            self._forms,
            self._main_forms,
            self._features,
            self._classes,
            self._pairs,
            self._asked,
        )

    def state(self) -> dict[str, object]:
        """Return the counts as JSON can hold them."""
        counts = zip(self._NAMES, self._counters, strict=True)
        return {"programs": self.programs, **{name: dict(count) for name, count in counts}}

    @classmethod
    def from_state(cls, state: Mapping[str, object]) -> Self:
        """Return the counts that `state` gave.

        Raises
        ------
        InfrastructureError
            If they are no such counts.
        """
        made = cls()
        try:
            made.programs = int(str(state["programs"]))
            for name, counter in zip(cls._NAMES, made._counters, strict=True):
                counts = state[name]
                if not isinstance(counts, Mapping):
                    raise TypeError(f"{name} is no object")
                counter.update({str(key): int(count) for key, count in counts.items()})
        except (KeyError, TypeError, ValueError) as error:
            raise InfrastructureError(
                f"the counts of what was reached cannot be read ({error!r}); delete the campaign's "
                "state and start it anew"
            ) from None
        return made

    def form_count(self, form: Form) -> int:
        """Return how many programs use a form."""
        return self._forms[form.opcode]

    def feature_count(self, feature: Feature) -> int:
        """Return how many programs have a feature."""
        return self._features[feature.value]

    def class_count(self, class_: ValueClass) -> int:
        """Return how many programs were run on images of a class."""
        return self._classes[class_.value]

    def focuses(
        self,
        key: int,
        count: int,
        forms: Sequence[MmaForm | LdmatrixForm],
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
        families: dict[str, list[MmaForm | LdmatrixForm]] = {}
        for form in forms:
            families.setdefault(family_of(form), []).append(form)
        chosen = []
        for index in range(first, first + count):
            turn, place = divmod(index, len(families))
            family = _shuffled(families, derived_seed(key, "family", turn))[place]
            # Turns of one epoch know the same counts; the shuffle goes on where the last ended.
            order = _shuffled(families[family], derived_seed(key, family))
            start = turn % len(order)
            form = min(
                order[start:] + order[:start], key=lambda form: self._main_forms[form.opcode]
            )
            wishes = self._wishes(family, random.Random(derived_seed(key, "wishes", index)))
            chosen.append(Focus(form=form, features=wishes))
        return chosen

    def _wishes(self, family: str, random_: random.Random) -> frozenset[Feature]:
        dimensions = list(Dimension)
        random_.shuffle(dimensions)
        wishes = []
        for dimension in dimensions[: random_.randint(0, _MOST_WISHES)]:
            features = [feature for feature in Feature if feature.dimension is dimension]
            random_.shuffle(features)
            wishes.append(min(features, key=partial(self._known, family)))
        return frozenset(wishes)

    def _known(self, family: str, feature: Feature) -> int:
        pair = _pair(family, feature)
        return self._pairs[pair] + self._asked[pair]

    def lines(self, forms: Sequence[Form] = FORMS) -> Sequence[CoverageLine]:
        """Return how much of each dimension was reached.

        Parameters
        ----------
        forms
            Those that there are to reach.
        """
        return [
            _line("forms", {form.opcode: self.form_count(form) for form in forms}),
            *(
                _line(
                    dimension.value,
                    {
                        feature.value: self.feature_count(feature)
                        for feature in Feature
                        if feature.dimension is dimension
                    },
                )
                for dimension in Dimension
            ),
            _line(_VALUE_CLASS, {one.value: self.class_count(one) for one in ValueClass}),
        ]


def _pair(family: str, reached: Feature | ValueClass) -> str:
    dimension = reached.dimension.value if isinstance(reached, Feature) else _VALUE_CLASS
    return f"{family}, {dimension}: {reached.value}"


def _line(name: str, counts: Mapping[str, int]) -> CoverageLine:
    missing = [value for value, count in counts.items() if not count]
    return CoverageLine(
        name=name,
        reached=len(counts) - len(missing),
        total=len(counts),
        missing=tuple(missing[:_SHOWN_MISSING]),
    )


def _shuffled(items: Iterable[T], seed: int) -> list[T]:
    """Return items in an order that depends on the seed alone."""
    order = list(items)
    # `shuffle` of a generator that is seeded with an integer: the same since Python 3.2.
    random.Random(seed).shuffle(order)
    return order
