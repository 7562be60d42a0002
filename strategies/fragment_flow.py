"""How values pass through the fragments of a program: chains, reuse, and how many live at once."""

from __future__ import annotations

from collections import Counter

from oracle.program.operands import Register, Word
from oracle.program.steps import Branch, Loop, Step, multiplies

Vector = tuple[Register, ...]
_Values = tuple[dict[Register, int], Counter[tuple[str, Vector]]]
"""The multiplications before the value in each register, one after the other, and how often
registers were used as an operand since one of them was written."""


def _copied(values: _Values) -> _Values:
    return dict(values[0]), Counter(values[1])


def _join(values: _Values, other: _Values) -> None:
    values[0].update({one: max(n, values[0].get(one, 0)) for one, n in other[0].items()})
    values[1].update(other[1] - values[1])


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
            chain = -1
            match step:
                case Branch():
                    after = follow(step.then, _copied(values))
                    _join(after, follow(step.otherwise, values))
                    values = after
                case Loop():
                    turns = step.count.mask if isinstance(step.count, Word) else step.count
                    for _ in range(min(2, turns)):
                        after = follow(step.body, _copied(values))
                        _join(after, values)
                        values = after
                case _ if multiplies(step):
                    for use in step.uses[1:3]:
                        key = use.field, use.registers
                        values[1][key] += 1
                        reused[use.field] = max(reused[use.field], values[1][key])
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
    """Return how much some later step still needs at once where that is most."""
    # Counted are fragments (and results of ldmatrix), and registers of 32 bits in each thread.
    peaks: list[frozenset[Vector]] = []
    _needed(steps, frozenset(), peaks)
    registers = (sum(one.bits // 32 for one in set[Register]().union(*peak)) for peak in peaks)
    return max(map(len, peaks), default=0), max(registers, default=0)


def _needed(
    steps: tuple[Step, ...], after: frozenset[Vector], peaks: list[frozenset[Vector]]
) -> frozenset[Vector]:
    """Return what is needed before some steps, given what is needed behind them."""
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
