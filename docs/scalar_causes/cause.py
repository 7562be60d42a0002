"""What a defect is, and what writing one out takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from oracle.lane_code import (
    Assign,
    Statement,
)
from oracle.matrices import LANES

Last = Mapping[str, Sequence[Assign]]
"""What has written a register, the latest in the order of the text first."""
Rewrite = Callable[[Assign, Last], list[Statement] | None]
"""An instruction as a compiler makes it; None where it makes it right."""
FIRST, SECOND, WIDE, SECOND_WIDE, CHOSEN = "r998", "r999", "d999", "d998", "p999"
"""Registers that no drawn program has (`oracle.lane_code`: numbers to 999)."""
DEPTH = 4
"""Most instructions after each other that make a constant of constants."""
PRODUCTS = ("mul.wide.s32", "mul.wide.u32", "mul.lo.s64", "mul.lo.u64", "mad.lo.s64", "mad.lo.u64")
"""Products of 64 bits with a constant, which may take a shift by a constant into it."""
LEAST, MOST = 0x8000_0000, 0x7FFF_FFFF
"""Of s32."""
ANY, JOINED = "", "joined"
"""Where all instructions are among what has written a register, and those on one way of several."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A defect."""

    name: str
    ptx: str
    """What shows it."""
    section: str
    """What the heading of its details in docs/findings.md begins with."""
    rewrite: Rewrite = lambda one, last: None
    believes: bool = False
    """Whether a loop in an arm of a branch takes its predicate for what it was, until it is
    written, in every turn."""
    repeats: bool = False
    """Whether predicated instructions in an arm of a branch on the same predicate ask for it
    again, by a comparison that does not flush."""
    branches: bool = False
    """Whether branches there do so as well."""
    nth: int = 0
    """The only use of such a predicate that does so, wherever it stands; 0: those in arms."""
    copies: bool = False
    """Whether a copy of a predicate is taken for what that is when the copy is read."""
    at_branches: bool = False
    """Whether branches alone read such a copy, and instructions what it is."""
    once: bool = False
    """Whether a guarded `mad.hi` that adds to its own result is left out behind one like it."""
    merges: bool = False
    """Whether `or.pred` is made as `and.pred` of the same predicates beside it."""
    counts: bool = False
    """Whether a loop that counts up, or down from a constant, does so once for the warp: lanes that
    enter its body and others come to it one after the other, fewer of them first."""
    split: bool = False
    """Whether a branch on the same predicate before the loop leaves them apart."""
    apart: bool = False
    """Whether lane 0 comes to such a loop by itself."""
    signs: bool = False
    """Whether the negative or the magnitude of an integer, which a branch or a loop makes, is that
    of an f32 for a comparison with 0 behind it."""
    chooses: bool = False
    """Whether a `selp.f32` by a predicate that a branch says takes the other source."""
    folds: bool = False
    """Whether it shows where a compiler finds out what the sources are, on all ways to there."""
    unrolls: bool = False
    """Whether that is so in each turn of a loop of a constant count."""
    modulo: bool = False
    """Whether two values of 64 bits that are multiples of a third are taken for equal where their
    factors are so modulo 2^32, and mad.lo makes one of them."""
    tells: bool = False
    """Whether both halves of a register are the lower half of a constant, which it equals where
    a branch says that it does not differ."""


def assign(opcode: str, destination: str, *sources: str | int, guard: str = "") -> Assign:
    """Return an instruction of one result, under a predicate if one is given."""
    return Assign(opcode=opcode, destinations=(destination,), sources=sources, guard=guard)


def maker(source: str | int, last: Last) -> Assign | None:
    """Return what has written a source last; None for a constant, and where nothing has."""
    made = last.get(source) if isinstance(source, str) else None
    return made[0] if made else None


def constant_of(source: str | int, last: Last, depth: int = DEPTH) -> int | None:
    """Return what a compiler finds a source of 32 bits to be; None: it is not constant."""
    if isinstance(source, int) or source not in last or not depth:
        return source if isinstance(source, int) else None
    by = last[source][0]
    row = by.row
    if row.family == "selp" and not by.guard and _is_true(str(by.sources[2]), last):
        return constant_of(by.sources[0], last, depth - 1)
    if by.guard or row.carry_in or row.warp or {*row.sources, *row.destinations} != {"b32"}:
        return None
    values = [constant_of(name, last, depth - 1) for name in by.sources]
    known = [value for value in values if value is not None]
    return result_of(by, known, source) if len(known) == len(values) else None


def _is_true(name: str, last: Last) -> bool:
    """Whether a predicate says that a number is itself, or is not to be compared."""
    by = maker(name, last)
    if (
        by is None
        or by.guard
        or by.opcode.removeprefix("setp.")[:4] not in ("geu.", "leu.", "equ.")
    ):
        return False
    return len(by.sources) == 2 and by.sources[0] == by.sources[1]


def result_of(by: Assign, values: Sequence[int], name: str) -> int:
    """Return what an instruction of 32 bits writes to a register, given its sources."""
    given = [np.full((1, LANES), value, np.uint32) for value in values]
    return int(by.row.evaluate(*given)[by.destinations.index(name)].flat[0])


def negative(by: Assign, last: Last) -> str | int:
    """Return the register of which an instruction makes the negative; 0 for none."""
    match by.opcode, by.sources:
        case "neg.s32", (source,):
            return source
        case "sub.s32", (0, source):
            return source
        case "mul.lo.s32" | "mul.lo.u32", (first, second):
            minus = [constant_of(each, last) == 0xFFFF_FFFF for each in (first, second)]
            return second if minus[0] else first if minus[1] else 0
    return 0


def written_since(one: Assign, last: Last) -> set[str]:
    """Return what is written behind an instruction, in the order of the text."""
    behind = takewhile(lambda other: other is not one, last[ANY])
    return {name for other in behind for name in other.destinations}
