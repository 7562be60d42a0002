"""How values pass through the fragments of a program: chains, reuse, and how many live at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from oracle.program.operands import Register, Word
from oracle.program.steps import Branch, Loop, Step, multiplies

Vector = tuple[Register, ...]


@dataclass
class _Values:
    """What is known of the value in each register."""

    chains: dict[Register, int] = field(default_factory=dict)
    uses: Counter[tuple[str, Vector]] = field(default_factory=Counter)
    """How often registers were used as an operand since one of them was written."""

    def copy(self) -> _Values:
        return _Values(dict(self.chains), Counter(self.uses))

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


def chains(steps: tuple[Step, ...]) -> tuple[int, dict[str, int]]:
    """Follow fragments on all paths through a program whose loops run once or twice.

    Returns
    -------
    Most multiplications before one whose D became, one after the other, the C of the next; and
    the most multiplications that use one value as "a" and as "b".
    """
    most, reused = 0, {"a": 0, "b": 0}

    def follow(steps: tuple[Step, ...], values: _Values) -> _Values:
        nonlocal most
        for step in steps:
            match step:
                case Branch():
                    after = follow(step.then, values.copy())
                    after.join(follow(step.otherwise, values))
                    values = after
                case Loop():
                    turns = step.count.mask if isinstance(step.count, Word) else step.count
                    for _ in range(min(2, turns)):
                        after = follow(step.body, values.copy())
                        after.join(values)
                        values = after
                case _ if multiplies(step):
                    d, a, b, c = step.uses[:4]
                    for use in (a, b):
                        key = use.field, use.registers
                        values.uses[key] += 1
                        reused[use.field] = max(reused[use.field], values.uses[key])
                    before = values.chain(c.registers)
                    most = max(most, before)
                    values.write(d.registers, before + 1)
                case _ if step.writes is not None:
                    carried = [use for use in step.reads if use.name == step.carried]
                    chain = values.chain(carried[0].registers) if carried else 0
                    values.write(step.writes.registers, chain)
        return values

    follow(steps, _Values())
    return most, reused


def most_live(steps: tuple[Step, ...]) -> tuple[int, int]:
    """Return how much some later step still needs at once where that is most.

    Counted are fragments (and results of ldmatrix), and registers of 32 bits in each thread.
    """
    peaks: list[frozenset[Vector]] = []
    _needed(steps, frozenset(), peaks)
    registers = (sum(one.bits // 32 for one in set[Register]().union(*peak)) for peak in peaks)
    return max(map(len, peaks), default=0), max(registers, default=0)


def _needed(
    steps: tuple[Step, ...], after: frozenset[Vector], peaks: list[frozenset[Vector]]
) -> frozenset[Vector]:
    for step in reversed(steps):
        match step:
            case Branch():
                after = _needed(step.then, after, peaks) | _needed(step.otherwise, after, peaks)
            case Loop():
                again = after | _needed(step.body, after, [])
                after = after | _needed(step.body, again, peaks)
            case _:
                if step.writes is not None:
                    written = set(step.writes.registers)
                    after = frozenset(one for one in after if written.isdisjoint(one))
                after |= {use.registers for use in step.reads}
        peaks.append(after)
    return after
