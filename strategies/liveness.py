"""How long values live in a program: chains of accumulations, and what is needed at once."""

from __future__ import annotations

from collections import Counter

from oracle.program import steps as ops
from oracle.program.operands import Register, most_of
from oracle.program.steps import Branch, Loop, OneWarp, Step

_Values = tuple[dict[Register, int], Counter[tuple[str, tuple[Register, ...]]]]
"""The multiplications before the value in each register, one after the other, and how often
registers were used as an operand since one of them was written."""
_Vectors = frozenset[tuple[Register, ...]]


def chains(steps: tuple[Step, ...]) -> tuple[int, dict[str, int]]:
    """Follow fragments on all paths through a program whose loops run once or twice.

    Returns most multiplications before one whose D became, one after the other, the C of the next;
    and the most multiplications that use one value as "a" and as "b".
    """
    most, reused = 0, {"a": 0, "b": 0}

    def block(steps: tuple[Step, ...], before: _Values, other: _Values | None = None) -> _Values:
        after = follow(steps, (dict(before[0]), Counter(before[1])))
        joined = before if other is None else other
        after[0].update({one: max(n, after[0].get(one, 0)) for one, n in joined[0].items()})
        after[1].update(joined[1] - after[1])
        return after

    def follow(steps: tuple[Step, ...], values: _Values) -> _Values:
        nonlocal most
        for step in steps:
            chain = -1
            match step:
                case Branch():
                    then = dict(values[0]), Counter(values[1])
                    values = block(step.then, then, follow(step.otherwise, values))
                case OneWarp():
                    values = follow(step.body, values)
                case Loop():
                    for _ in range(min(2, most_of(step.count))):
                        values = block(step.body, values)
                case _ if ops.multiplies(step):
                    for use in step.uses[1:3]:
                        values[1][use.field, use.registers] += 1
                        times = values[1][use.field, use.registers]
                        reused[use.field] = max(reused[use.field], times)
                    chain = max(values[0].get(one, 0) for one in step.uses[3].registers)
                    most = max(most, chain)
                case _ if step.writes is not None:
                    carried = [use for use in step.reads if use.name == step.carried]
                    kept = (values[0].get(one, 0) for use in carried[:1] for one in use.registers)
                    chain = max(kept, default=0) - 1
            if step.writes is not None:
                registers = step.writes.registers
                values[0].update(dict.fromkeys(registers, chain + 1))
                for key in [key for key in values[1] if not set(registers).isdisjoint(key[1])]:
                    del values[1][key]
        return values

    follow(steps, ({}, Counter()))
    return most, reused


def most_live(steps: tuple[Step, ...]) -> tuple[int, int]:
    """Return how much some later step still needs at once where that is most.

    Fragments (and results of ldmatrix), and registers of 32 bits in each thread.
    """
    peaks: list[_Vectors] = []

    def needed(steps: tuple[Step, ...], after: _Vectors) -> _Vectors:
        for step in reversed(steps):
            match step:
                case Branch():
                    after = needed(step.then, after) | needed(step.otherwise, after)
                case OneWarp():
                    after = needed(step.body, after)
                case Loop():
                    after |= needed(step.body, after | needed(step.body, after))
                case _:
                    if step.writes is not None:
                        written = set(step.writes.registers)
                        after = frozenset(one for one in after if written.isdisjoint(one))
                    after |= {use.registers for use in step.reads}
            peaks.append(after)
        return after

    needed(steps, frozenset())
    registers = (sum(one.bits // 32 for one in set[Register]().union(*peak)) for peak in peaks)
    return max(map(len, peaks), default=0), max(registers, default=0)
