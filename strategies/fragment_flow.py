"""How values pass through the fragments of a program: chains, reuse, and how many live at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from oracle.ops import multiplies
from oracle.places import Uniform, Word
from oracle.registers import Register
from oracle.steps import Branch, Loop, Step

Vector = tuple[Register, ...]


@dataclass
class _Values:
    """What is known of the value in each register."""

    chains: dict[Register, int] = field(default_factory=dict)
    uses: Counter[tuple[str, Vector]] = field(default_factory=Counter)
    """How often registers were used as an operand since one of them was written."""

    def copy(self) -> _Values:
        return _Values(chains=dict(self.chains), uses=Counter(self.uses))

    def join(self, other: _Values) -> None:
        for register, chain in other.chains.items():
            self.chains[register] = max(chain, self.chains.get(register, 0))
        self.uses |= other.uses

    def chain(self, registers: Vector) -> int:
        return max(self.chains.get(register, 0) for register in registers)

    def write(self, registers: Vector, chain: int) -> None:
        self.chains.update(dict.fromkeys(registers, chain))
        for key in [key for key in self.uses if not set(registers).isdisjoint(key[1])]:
            del self.uses[key]


@dataclass(kw_only=True)
class Flow:
    """What is true of some path through a program whose loops run once or twice."""

    chain: int = 0
    """Most multiplications before one whose D became, one after the other, the C of the next."""
    uses: dict[str, int] = field(default_factory=lambda: {"a": 0, "b": 0})
    """The most multiplications that use one value as that operand."""

    def _follow(self, steps: tuple[Step, ...], values: _Values) -> _Values:
        for step in steps:
            match step:
                case Branch():
                    after = self._follow(step.then, values.copy())
                    after.join(self._follow(step.otherwise, values))
                    values = after
                case Loop():
                    for _ in range(min(2, _most(step.count))):
                        after = self._follow(step.body, values.copy())
                        after.join(values)
                        values = after
                case _ if multiplies(step):
                    d, a, b, c = step.uses[:4]
                    for use in (a, b):
                        key = use.field, use.registers
                        values.uses[key] += 1
                        self.uses[use.field] = max(self.uses[use.field], values.uses[key])
                    before = values.chain(c.registers)
                    self.chain = max(self.chain, before)
                    values.write(d.registers, before + 1)
                case _ if step.writes is not None:
                    carried = [use for use in step.reads if use.name == step.carried]
                    chain = values.chain(carried[0].registers) if carried else 0
                    values.write(step.writes.registers, chain)
        return values

    @staticmethod
    def of(steps: tuple[Step, ...]) -> Flow:
        """Follow the values of fragments through a program."""
        flow = Flow()
        flow._follow(steps, _Values())
        return flow


def _most(value: Uniform) -> int:
    """Return the most that a uniform number can be."""
    return value.mask if isinstance(value, Word) else value


@dataclass(frozen=True, kw_only=True)
class Live:
    """How much is alive at once where most is."""

    fragments: int
    registers: int
    """Registers of 32 bits in each thread."""


def most_live(steps: tuple[Step, ...]) -> Live:
    """Return how many fragments (and results of ldmatrix) some later step still needs at once."""
    peaks: list[_Needed] = []
    _before(steps, frozenset(), peaks)
    return Live(
        fragments=max(map(len, peaks), default=0),
        registers=max(
            (sum(one.bits // 32 for one in set[Register]().union(*peak)) for peak in peaks),
            default=0,
        ),
    )


_Needed = frozenset[Vector]
"""Registers of each operand that is needed."""


def _before(steps: tuple[Step, ...], after: _Needed, peaks: list[_Needed]) -> _Needed:
    """Return what is needed before some steps, given what is needed behind them."""
    for step in reversed(steps):
        match step:
            case Branch():
                after = _before(step.then, after, peaks) | _before(step.otherwise, after, peaks)
            case Loop():
                again = after | _before(step.body, after, [])
                after = after | _before(step.body, again, peaks)
            case _:
                if step.writes is not None:
                    written = set(step.writes.registers)
                    after = frozenset(one for one in after if written.isdisjoint(one))
                after |= {use.registers for use in step.reads}
        peaks.append(after)
    return after
