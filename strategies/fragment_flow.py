"""How values pass through the fragments of a program: chains, reuse, and how many live at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from oracle.lane_steps import MultiplyLanes
from oracle.places import Uniform, Word
from oracle.steps import (
    Branch,
    Loop,
    Multiply,
    Step,
)


@dataclass(frozen=True, kw_only=True)
class Flow:
    """What is true of some path through a program whose loops run once or twice."""

    chain: int
    """Most multiplications before one whose D became, one after the other, the C of the next."""
    uses: dict[str, int]
    """For "a" and "b", the most multiplications that use one value as that operand."""


@dataclass
class _Values:
    """What is known of the value in each name."""

    chains: dict[str, int] = field(default_factory=dict)
    uses: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often (operand, name) was used since it was written."""

    def copy(self) -> _Values:
        return _Values(chains=dict(self.chains), uses=Counter(self.uses))

    def join(self, other: _Values) -> None:
        for name, chain in other.chains.items():
            self.chains[name] = max(chain, self.chains.get(name, 0))
        self.uses |= other.uses

    def write(self, name: str, chain: int) -> None:
        self.chains[name] = chain
        for operand in "ab":
            del self.uses[operand, name]


@dataclass
class _Tracer:
    chain: int = 0
    uses: dict[str, int] = field(default_factory=lambda: {"a": 0, "b": 0})

    def steps(self, steps: tuple[Step, ...], values: _Values) -> _Values:
        for step in steps:
            values = self.step(step, values)
        return values

    def step(self, step: Step, values: _Values) -> _Values:
        match step:
            case Multiply() | MultiplyLanes():
                for operand, name in (("a", step.a), ("b", step.b)):
                    values.uses[operand, name] += 1
                    self.uses[operand] = max(self.uses[operand], values.uses[operand, name])
                before = values.chains.get(step.c, 0)
                self.chain = max(self.chain, before)
                values.write(step.d, before + 1)
            case Branch():
                after = self.steps(step.then, values.copy())
                after.join(self.steps(step.otherwise, values))
                return after
            case Loop():
                for _ in range(min(2, most(step.count))):
                    after = self.steps(step.body, values.copy())
                    after.join(values)
                    values = after
            case _ if step.writes is not None:
                source = step.carried
                values.write(step.writes.name, values.chains.get(source, 0) if source else 0)
        return values


def most(value: Uniform) -> int:
    """Return the most that a uniform number can be."""
    return value.mask if isinstance(value, Word) else value


def flow_of(steps: tuple[Step, ...]) -> Flow:
    """Follow the values of fragments through a program."""
    tracer = _Tracer()
    tracer.steps(steps, _Values())
    return Flow(chain=tracer.chain, uses=tracer.uses)


@dataclass(frozen=True, kw_only=True)
class Live:
    """How much is alive at once where most is."""

    fragments: int
    registers: int
    """Of 32 bits, in each thread."""


def most_live(steps: tuple[Step, ...]) -> Live:
    """Return how many fragments (and results of ldmatrix) some later step still needs at once."""
    peaks: list[dict[str, int]] = []
    _before(steps, {}, peaks)
    return Live(
        fragments=max(map(len, peaks), default=0),
        registers=max((sum(peak.values()) for peak in peaks), default=0),
    )


_Needed = dict[str, int]
"""Registers of each name that is needed."""


def _before(steps: tuple[Step, ...], after: _Needed, peaks: list[_Needed]) -> _Needed:
    """Return what is needed before some steps, given what is needed behind them."""
    for step in reversed(steps):
        match step:
            case Branch():
                # The larger of two counts, if the arms need one name for different things.
                after = _both(
                    _before(step.then, after, peaks), _before(step.otherwise, after, peaks)
                )
            case Loop():
                again = _both(after, _before(step.body, after, []))
                after = _both(after, _before(step.body, again, peaks))
            case _:
                written = step.writes
                after = {
                    name: n for name, n in after.items() if written is None or name != written.name
                }
                after.update((use.name, use.holds.words) for use in step.reads)
        peaks.append(after)
    return after


def _both(first: _Needed, second: _Needed) -> _Needed:
    return {
        name: max(first.get(name, 0), second.get(name, 0)) for name in first.keys() | second.keys()
    }
