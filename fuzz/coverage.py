"""What a campaign has reached, and where it should go next.

Hypothesis offers `target()` for searches with a numeric distance. It steers Hypothesis's own
mutation of choices, over thousands of examples of one test; here every program is drawn alone from
a seed of its own, uniformly (`fuzz.uniform_draws`), so that it can be made again without those
before it. So there are counts instead, and programs are asked for what was reached least.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeVar

from fuzz.campaign_status import CoverageLine
from fuzz.instruction_rounds import derived_seed
from oracle.isa import Form, LdmatrixForm, MmaForm
from oracle.program import requirements
from strategies.contents import ValueClass

if TYPE_CHECKING:
    from fuzz.value_rounds import Batch

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Focus:
    """What a program should be about."""

    form: Form | None = None
    features: frozenset[str] = frozenset()


_LAYOUT_OR_SHAPE = re.compile(
    r"\.(?:sync|aligned|row|col|x[124]|shared(?:::cta)?|m\d+n\d+k\d+)(?=\.|$)"
)
_SHOWN_MISSING = 8
"""Names of what is missing that a line shows."""


def family_of(form: Form) -> str:
    """Return what a form computes: its opcode without layouts, sizes of wmma and state spaces."""
    return _LAYOUT_OR_SHAPE.sub("", form.opcode)


class Coverage:
    """Counts of the programs that reached something, by dimension.

    Dimensions are `form` (each form that a program uses), `value class`, and those of
    `strategies.features`. Pairs count, for each family of forms, the programs that are about it
    and have a feature.
    """

    def __init__(self) -> None:
        self.programs = 0
        self._forms: Counter[str] = Counter()
        self._main: Counter[str] = Counter()
        self._features: Counter[str] = Counter()
        self._classes: Counter[str] = Counter()
        self._pairs: Counter[str] = Counter()

    def add(self, batch: Batch) -> None:
        """Count a program and what fills its images."""
        self.programs += 1
        self._forms.update(form.opcode for form in requirements(batch.program))
        self._main[batch.form.opcode] += 1
        self._classes.update(class_.value for class_ in batch.recipe.classes)

    def merge(self, other: Coverage) -> None:
        """Add what another has counted."""
        self.programs += other.programs
        for mine, its in zip(self._counters(), other._counters(), strict=True):
            mine.update(its)

    def _counters(self) -> tuple[Counter[str], ...]:
        return (self._forms, self._main, self._features, self._classes, self._pairs)

    _NAMES = ("forms", "main_forms", "features", "value_classes", "pairs")

    def state(self) -> dict[str, object]:
        """Return the counts as JSON takes them."""
        counts = zip(self._NAMES, self._counters(), strict=True)
        return {"programs": self.programs, **{name: dict(count) for name, count in counts}}

    @classmethod
    def from_state(cls, state: Mapping[str, object]) -> Self:
        """Return what `state` was called of."""
        made = cls()
        programs = state["programs"]
        if isinstance(programs, int):
            made.programs = programs
        for name, counter in zip(cls._NAMES, made._counters(), strict=True):
            given = state[name]
            if isinstance(given, Mapping):
                counter.update(given)
        return made

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
        a family the form comes next that was reached least.

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
            shuffled = _shuffled(families[family], derived_seed(key, "form", index))
            chosen.append(Focus(form=min(shuffled, key=lambda form: self._main[form.opcode])))
        return chosen

    def lines(self) -> Sequence[CoverageLine]:
        """Return how much of each dimension was reached."""
        missing = [one.value for one in ValueClass if not self._classes[one.value]]
        return [
            CoverageLine(
                name="value classes",
                reached=len(ValueClass) - len(missing),
                total=len(ValueClass),
                missing=missing[:_SHOWN_MISSING],
            )
        ]


def _shuffled(items: Sequence[T] | Mapping[T, object], seed: int) -> list[T]:
    """Return items in an order that depends on the seed alone, on every version of Python."""
    order = sorted(enumerate(items), key=lambda pair: derived_seed(seed, pair[0]))
    return [item for _, item in order]
