"""Seeds, selections of forms and PTX versions, and drawing from strategies: one key, one draw."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from random import Random
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.control import BuildContext
from hypothesis.errors import StopTest, Unsatisfiable, UnsatisfiedAssumption
from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from hypothesis.strategies import SearchStrategy, integers, just, lists

from oracle.errors import UsageError
from oracle.isa.forms import Form
from oracle.isa.lookup import FORMS, is_available, notes_of, warpgroup_forms
from oracle.isa.targets import Module, PtxVersion, parse_target, versions_of
from oracle.scalar import SCALARS


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

    pattern: str = "*"  # Over the opcode, as a shell's; a bare word may stand anywhere

    def forms(self) -> tuple[Form, ...]:
        """Return the documented forms that the pattern selects."""
        pattern = self.pattern if any(c in self.pattern for c in "*?[") else f"*{self.pattern}*"
        every = (*FORMS, *warpgroup_forms())
        return tuple(form for form in every if fnmatchcase(form.opcode, pattern))


@dataclass(frozen=True, kw_only=True)
class PtxVersions:
    """PTX ISA versions of modules, of which every round draws one."""

    every: tuple[str, ...]  # The oldest first; the newest has every form of the others
    main: str  # The version of every second round, on average

    def __str__(self) -> str:
        return " to ".join(dict.fromkeys((self.every[0], self.every[-1])))


def only_version(version: str) -> PtxVersions:
    """Return what every round draws the same version from."""
    return PtxVersions(every=(version,), main=version)


def version_of_round(versions: PtxVersions, key: int) -> str:
    """Return the version of a round by its key (`round_key`)."""
    which, main = divmod(derived_seed(key, "version"), 2)
    return versions.main if main else versions.every[which % len(versions.every)]


def version_having(versions: PtxVersions, form: Form | None, target: str, wanted: str) -> str:
    """Return the version that is wanted, or else the oldest that has a form."""
    if form is None:
        return wanted
    known = (one for one in (wanted, *versions.every) if has_form(form, target, one))
    return next(known, versions.every[-1])


@cache
def has_form(form: Form, target: str, version: str) -> bool:
    """Tell whether modules of a target and version can have a form."""
    return is_available(form, Module.named(target, version))


@cache
def versions_up_to(
    target: str, newest: PtxVersion, *, main: PtxVersion | None = None
) -> PtxVersions:
    """Return the PTX ISA versions that know a target, up to the newest that something reads.

    That of every second round is at most `main`, and the oldest that has as many instructions: more
    compilers can be asked about a finding. UsageError says that none knows the target.
    """
    row = parse_target(target)
    known = [one for one in versions_of(row) if one <= newest]
    if not known:
        raise UsageError(
            f"PTX ISA version {newest} is the newest that can be compiled here, and {target} is "
            f"known since {row.since}; choose another --target, or a newer compiler"
        )
    at_most = [one for one in known if main is None or one <= main] or known[:1]

    # What has the same notes, or scalar instructions of one version and target, comes together.
    forms = {notes_of(form): form for form in FORMS}
    scalars = {(one.version, one.target): one for one in SCALARS.values()}
    of_forms = Counter(map(notes_of, FORMS))
    of_scalars = Counter((one.version, one.target) for one in SCALARS.values())

    def instructions(version: PtxVersion) -> int:
        module = Module(row, version)
        found = sum(of_scalars[key] for key, one in scalars.items() if one.exists(module))
        return found + sum(of_forms[key] for key, one in forms.items() if is_available(one, module))

    oldest = max(at_most, key=instructions)
    return PtxVersions(every=tuple(map(str, known)), main=str(oldest))


def derived_seed(*parts: object) -> int:
    """Return a seed of 64 bits that depends on all parts, the same on every machine."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "little")


T = TypeVar("T")


def shuffled(items: Iterable[T], seed: int) -> list[T]:
    """Return items in an order that depends on the seed alone."""
    order = list(items)
    # `shuffle` of a generator that is seeded with an integer: the same since Python 3.2.
    Random(seed).shuffle(order)
    return order


def draw(strategy: SearchStrategy[T], count: int, key: int) -> list[T]:
    """Draw `count` examples from a strategy, fewer if it has no more; the same for the same key."""
    drawn: list[T] = []

    @seed(key)
    @settings(
        max_examples=count, backend=BACKEND, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def collect(example: T) -> None:
        drawn.append(example)

    # Else Hypothesis makes a key of the source text, a tenth of the time of drawing a program.
    collect._hypothesis_internal_database_key = b""  # type: ignore[attr-defined]
    collect()
    return drawn[:count]


class _Data(ConjectureData):
    """Draws the integers of `UniformProvider`, and keeps only their size: nobody replays them."""

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

    def draw(self, strategy: SearchStrategy[T], *more: Any, **named: Any) -> T:
        """Draw from a strategy; of one that is a function nothing is noted."""
        plain = isinstance(strategy, Drawn)
        made: T = strategy.do_draw(self) if plain else super().draw(strategy, *more, **named)
        return made


class Drawn(SearchStrategy[T]):
    """A strategy of one function; nothing is looked up to put it together."""

    def __init__(self, make: Callable[[ConjectureData], T]) -> None:
        super().__init__()
        self._make = make

    def do_draw(self, data: ConjectureData) -> T:
        """Return what the function makes of choices."""
        return self._make(data)


_ATTEMPTS = 1000  # Examples that a strategy may reject before it is said to have none


def draw_one(strategy: SearchStrategy[T], key: int) -> T:
    """Draw the example that `draw` makes second: its first is the simplest there is."""
    # Without Hypothesis's engine, more than half of the time of drawing a program (2026-11).
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
