"""Seeds, selections of forms, and drawing from strategies: the same for the same key."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from random import Random
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.control import BuildContext
from hypothesis.errors import StopTest, Unsatisfiable, UnsatisfiedAssumption
from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from hypothesis.strategies import SearchStrategy, integers, just, lists

from oracle.isa.forms import Form
from oracle.isa.lookup import FORMS


class UniformProvider(HypothesisProvider):
    """Draws bounded integers uniformly; everything else as Hypothesis does."""

    def draw_integer(
        self, min_value: int | None = None, max_value: int | None = None, **more: Any
    ) -> int:
        """Draw an integer; uniform where it has two bounds, whatever its weights."""
        if min_value is None or max_value is None or self._random is None:
            return super().draw_integer(min_value, max_value, **more)
        return self._random.randint(min_value, max_value)


BACKEND = "warpfuzz"  # Value for the setting `backend`
AVAILABLE_PROVIDERS[BACKEND] = f"{__name__}.{UniformProvider.__name__}"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which forms a campaign is about."""

    pattern: str = "*"
    """Shell pattern over the opcode, such as "wmma.load.*f64"; a bare word may stand anywhere."""

    def forms(self) -> tuple[Form, ...]:
        """Return the documented forms that the pattern selects."""
        pattern = self.pattern if any(c in self.pattern for c in "*?[") else f"*{self.pattern}*"
        return tuple(form for form in FORMS if fnmatchcase(form.opcode, pattern))


def derived_seed(*parts: object) -> int:
    """Return a seed of 64 bits that depends on all parts, the same on every machine."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "little")


T = TypeVar("T")


def draw(strategy: SearchStrategy[T], count: int, key: int) -> list[T]:
    """Draw `count` examples from a strategy, fewer if it has no more; the same for the same key."""
    drawn: list[T] = []

    @seed(key)
    @settings(
        max_examples=count,
        backend=BACKEND,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(example: T) -> None:
        drawn.append(example)

    # Else Hypothesis makes a key of the source text of `collect`, for a database that is not there:
    # a tenth of the time of drawing a program.
    collect._hypothesis_internal_database_key = b""  # type: ignore[attr-defined]
    collect()
    return drawn[:count]


class _Data(ConjectureData):
    """Draws bounded integers, and keeps nothing of them but their size: nobody plays them again.

    They are those of `UniformProvider`: `Random.randint`, written out.
    """

    def __init__(self, random: Random) -> None:
        super().__init__(random=random, provider=UniformProvider)
        self._bits = random.getrandbits

    def draw_integer(
        self, min_value: int | None = None, max_value: int | None = None, **more: Any
    ) -> int:
        """Draw an integer; uniform where it has two bounds."""
        if min_value is None or max_value is None or more.get("forced") is not None:
            return super().draw_integer(min_value, max_value, **more)
        count = max_value - min_value + 1
        bits = count.bit_length()
        value = self._bits(bits)
        while value >= count:
            value = self._bits(bits)
        value += min_value
        # As Hypothesis counts: a byte for the type, then the number, signed (6.170, `choice_size`).
        self.length += 2 + value.bit_length() // 8
        if self.length > self.max_length:
            self.mark_overrun()
        return value


_ATTEMPTS = 1000
"""Examples that a strategy may reject before it is said to have none; Hypothesis takes ten times
those that are wanted."""


def draw_one(strategy: SearchStrategy[T], key: int) -> T:
    """Draw the example that `draw` makes second: its first is the simplest there is."""
    # That one is not made here, nor anything of Hypothesis's engine: more than half of the time of
    # drawing a program (2026-11).
    random = Random(key)
    for _ in range(_ATTEMPTS):
        data = _Data(random)
        with (
            suppress(StopTest, UnsatisfiedAssumption),
            BuildContext(data, is_final=False, wrapped_test=draw_one),
        ):
            return data.draw(strategy)
    raise Unsatisfiable(f"{strategy} rejected {_ATTEMPTS} examples; ask for less")


def simplest(strategy: SearchStrategy[T]) -> T:
    """Return the example towards which all others shrink: the first that Hypothesis makes."""
    return draw(strategy, 1, 0)[0]


def draw_several(strategy: SearchStrategy[T], count: int, key: int) -> list[T]:
    """Draw `count` examples at once: one draw of many costs less than many draws of one."""
    # The first example that Hypothesis makes is the simplest one there is: here none at all.
    several = integers(0, 1 << 30).flatmap(
        lambda number: lists(strategy, min_size=count, max_size=count) if number else just([])
    )
    return draw_one(several, key)
