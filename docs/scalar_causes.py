"""Known defects of ptxas in scalar code, each written out as other PTX.

A program with the defect written out gives what its machine code gives, byte by byte, where that
defect and no other is in it: so is a wrong program of the matrix (docs/same_ptx.py) explained.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, takewhile

import numpy as np

from oracle.errors import UsageError
from oracle.lane_code import (
    LANE,
    Assign,
    If,
    LaneCode,
    Leave,
    Repeat,
    Statement,
    class_of,
    every,
    read_by,
    written_by,
)
from oracle.matrices import LANES
from oracle.program import Program, walk
from oracle.scalar.row import CLASSES, Bits
from oracle.steps import Branch, Loop, Step
from strategies.programs.lane_code import always_wrong

_Last = Mapping[str, Sequence[Assign]]
"""What has written a register, the latest in the order of the text first."""
_Rewrite = Callable[[Assign, _Last], list[Statement] | None]
"""An instruction as a compiler makes it; None where it makes it right."""
_FIRST, _SECOND, _WIDE, _CHOSEN = "r998", "r999", "d999", "p999"
_CONSTANT = {True: "p998", False: "p997"}
"""Registers that no drawn program has (`oracle.lane_code`: numbers to 999)."""
_TOGETHER = 3
"""Most defects that one program is asked for: of 1,000 programs two had two (2026-11-23)."""
_USES = 8
"""Most uses of predicates of which each is tried as the one that is asked for again."""
_DEPTH = 4
"""Most instructions after each other that make a constant of constants."""
_TWO = {"add": 2, "sub": 1, "mul": 2, "fma": 3, "min": 2, "max": 2, "set": 2}
"""Sources of instructions of two halves that a told constant is put into: the first ones."""
_LOGIC = ("and.b32", "or.b32", "xor.b32")
"""What is merged with a lop3 that it reads."""
_SUMS = frozenset(
    {"add.cc.u32", "sub.cc.u32", "mad24.hi.u32", "mad24.hi.s32"}
    | {f"{sum_}.{kind}" for sum_ in ("add", "sub", "mad.lo", "mad24.lo") for kind in ("s32", "u32")}
)
"""Instructions that can be a constant plus or minus a register (of mad, its addend)."""
_PRODUCTS = ("mul.wide.s32", "mul.wide.u32", "mul.lo.s64", "mul.lo.u64", "mad.lo.s64", "mad.lo.u64")
"""Products of 64 bits with a constant, which may take a shift by a constant into it."""
_LEAST, _MOST = 0x8000_0000, 0x7FFF_FFFF
_NEUTRAL = {"min.s32": _MOST, "max.s32": _LEAST, "min.u32": 0xFFFF_FFFF, "and.b32": 0xFFFF_FFFF}
"""What changes no result of a reduction; of others, 0."""
_ONE = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F80_0000, "f64": 0x3FF0 << 48}
"""1, of each format."""
_STEPS = frozenset({"div.s32", "div.u16", "div.s16", "rem.u16"})
"""Divisions that a compiler makes with branches at first: behind them as behind a branch."""
_NEVER = ("lop3", "prmt", "bmsk", "sad", "fma", "copysign")
"""Families of which a compiler finds no constant (13.1.115 at -O1, from constants in registers)."""
_WHOLE = ("min", "max", "sub", "bfe")
"""Families of which it finds one only where all sources are constants."""
_DOTS = ("dp4a", "dp2a")
"""Families of which it finds one only where a factor is 0."""
_HALF = LANES // 2
_LATER, _MIXED, _ENTERING = "p996", "p995", "r996"
"""Lanes that come to a loop after others, whether there are any, and how many enter its body."""
_BEFORE, _LEFT, _TURN = "r995", "r994", "r993"
"""What they find in the counter, how many turns they take, and the number of such a turn."""
_ANY, _JOINED = "", "joined"
"""Where all instructions are among what has written a register, and those on one way of several."""
_COPIES = 400
"""Number of the first register that keeps a source of a lop3."""
_SIGNS = 600
"""Number of the register that keeps %r0 as a comparison with 0 takes it."""
_FACTORS = 800
"""Number of the register that tells of h0 what is above it."""
_NEGATING = ("neg.f16x2", "abs.f16x2")
"""Instructions of which one is left out where max with .xorsign reads two of them."""
_SHADOWS = 500
"""Number of the predicate that a comparison without flushing writes for %p0."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A defect."""

    name: str
    ptx: str
    """What shows it."""
    section: str
    """What the heading of its details in docs/findings.md begins with."""
    rewrite: _Rewrite = lambda one, last: None
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


def _assign(opcode: str, destination: str, *sources: str | int, guard: str = "") -> Assign:
    return Assign(opcode=opcode, destinations=(destination,), sources=sources, guard=guard)


def _testp(one: Assign, _: _Last) -> list[Statement] | None:
    return [replace(one, guard="")] if one.guard and one.row.family == "testp" else None


def _set(one: Assign, _: _Last) -> list[Statement] | None:
    if not always_wrong(one.row, one.guard) or one.row.family != "set":
        return None
    *words, result, source = one.opcode.split(".")
    (kept,) = one.destinations
    # Of 16 bits the mask has 16, and so has what is converted.
    half = [_assign("shl.b32", _FIRST, _FIRST, 16), _assign("shr.s32", _FIRST, _FIRST, 16)]
    cut = half if source.endswith("16") else []
    if result == "u32":
        return [one, _assign("mov.b32", _FIRST, kept), *half, _assign("mov.b32", kept, _FIRST)]
    narrow = result == "f16"
    mask = replace(one, opcode=".".join([*words, "u16" if narrow else "u32", source]))
    return [
        mask,
        _assign("cvt.s32.s16" if narrow else "mov.b32", _FIRST, kept),
        *cut,
        # The magnitude of the least number is that number.
        _assign("max.s32", _FIRST, _FIRST, 0x8000_0001),
        _assign("abs.s32", _FIRST, _FIRST),
        *cut,
        _assign("cvt.rn.f16.s32" if narrow else "cvt.rn.f32.s32", kept, _FIRST),
    ]


def _field(one: Assign, _: _Last) -> list[Statement] | None:
    if one.opcode not in ("bfe.u64", "bfe.s64", "bfi.b64"):
        return None
    *kept, position, length = one.sources
    return [
        *(
            _assign("min.u32", register, source, 255)
            for register, source in ((_FIRST, position), (_SECOND, length))
            if isinstance(source, str)
        ),
        replace(
            one,
            sources=(
                *kept,
                _FIRST if isinstance(position, str) else position,
                _SECOND if isinstance(length, str) else length,
            ),
        ),
    ]


def _amount(one: Assign, last: _Last) -> list[Statement] | None:
    if one.opcode not in ("shl.b64", "shr.b64", "shr.u64", "shr.s64"):
        return None
    value, amount = one.sources
    if not isinstance(amount, str) or amount not in last:
        return None
    words = last[amount][0].opcode.split(".")
    if words[-2 if words[0] in ("cvt", "set") else -1] != "f32":
        return None
    return [
        _assign("cvt.rzi.u64.f32", _WIDE, amount),
        _assign("cvt.u32.u64", _FIRST, _WIDE),
        replace(one, sources=(value, _FIRST)),
    ]


def _flushed(one: Assign, _: _Last) -> list[Statement] | None:
    if not one.opcode.startswith(("cvt.rm.ftz.", "cvt.rp.ftz.")) or ".f16.f32" not in one.opcode:
        return None
    return [replace(one, opcode=one.opcode.replace(".ftz", ""))]


def _tf32(one: Assign, _: _Last) -> list[Statement] | None:
    if not one.opcode.startswith("cvt.rna."):
        return None
    source, result = one.sources[0], one.destinations[0]
    return [
        _assign("setp.nan.f32", _CHOSEN, source, source),
        _assign("and.b32", _FIRST, source, 0xFFFF_E000),
        replace(one, destinations=(_SECOND,), guard=""),
        _assign("selp.b32", result, _FIRST, _SECOND, _CHOSEN, guard=one.guard),
    ]


def _lower_half(one: Assign, last: _Last) -> list[Statement] | None:
    if not one.opcode.startswith(("cvt.rn.", "cvt.rz.")) or ".tf32." not in one.opcode:
        return None
    source = one.sources[0]
    if not any("16x2" in by.opcode for by in last.get(str(source), ())):
        return None
    # The other half is what a register held before: 0, mostly, where nothing has written it.
    return [_assign("and.b32", _FIRST, source, 0xFFFF), replace(one, sources=(_FIRST,))]


def _constant(source: str | int, last: _Last, depth: int = _DEPTH) -> int | None:
    """Return what a compiler finds a source of 32 bits to be; None: it is not constant."""
    if isinstance(source, int) or source not in last or not depth:
        return source if isinstance(source, int) else None
    by = last[source][0]
    row = by.row
    if row.family == "selp" and not by.guard and _is_true(str(by.sources[2]), last):
        return _constant(by.sources[0], last, depth - 1)
    if by.guard or row.carry_in or row.warp or {*row.sources, *row.destinations} != {"b32"}:
        return None
    values = [_constant(name, last, depth - 1) for name in by.sources]
    known = [value for value in values if value is not None]
    return _result(by, known, source) if len(known) == len(values) else None


def _is_true(name: str, last: _Last) -> bool:
    """Whether a predicate says that a number is itself, or is not to be compared."""
    by = last[name][0] if name in last else None
    if (
        by is None
        or by.guard
        or by.opcode.removeprefix("setp.")[:4] not in ("geu.", "leu.", "equ.")
    ):
        return False
    return len(by.sources) == 2 and by.sources[0] == by.sources[1]


def _result(by: Assign, values: Sequence[int], name: str) -> int:
    """Return what an instruction of 32 bits writes to a register, given its sources."""
    given = [np.full((1, LANES), value, np.uint32) for value in values]
    return int(by.row.evaluate(*given)[by.destinations.index(name)].flat[0])


def _all_ones(one: Assign, _: _Last) -> list[Statement] | None:
    if one.opcode != "bfe.s32":
        return None
    position, length = one.sources[1:]
    if isinstance(position, str) or isinstance(length, str):
        return None
    if position & 0xFF < 32 or not length & 0xFF:
        return None
    return [_assign("mov.b32", one.destinations[0], 0xFFFF_FFFF, guard=one.guard)]


def _shorter(one: Assign, last: _Last) -> list[Statement] | None:
    known = one.opcode == "bfi.b32" and _constant(one.sources[2], last) is not None
    return _shorter_later(one, last) if known else None


def _shorter_later(one: Assign, last: _Last) -> list[Statement] | None:
    length = _constant(one.sources[3], last) if one.opcode == "bfi.b32" else None
    if length is None or length & 0xFF < 32:
        return None
    return [replace(one, sources=(*one.sources[:3], length % 32))]


def _added(one: Assign, _: _Last) -> list[Statement] | None:
    if one.opcode != "sub.sat.s32" or one.sources[1] != 0x8000_0000:
        return None
    return [replace(one, opcode="add.sat.s32")]


def _cancelled(one: Assign, last: _Last) -> list[Statement] | None:
    if one.opcode != "sub.sat.s32" or str(one.sources[0]) not in last:
        return None
    by, other = last[str(one.sources[0])][0], one.sources[1]
    if by.opcode not in ("sub.s32", "sub.u32") or by.guard or by.sources[0] != other:
        return None
    return [replace(one, sources=(0, by.sources[1]))]


def _negative(by: Assign, last: _Last) -> str | int:
    """Return the register of which an instruction makes the negative; 0 for none."""
    match by.opcode, by.sources:
        case "neg.s32", (source,):
            return source
        case "sub.s32", (0, source):
            return source
        case "mul.lo.s32" | "mul.lo.u32", (first, second):
            minus = [_constant(each, last) == 0xFFFF_FFFF for each in (first, second)]
            return second if minus[0] else first if minus[1] else 0
    return 0


def _asked_sign(one: Assign) -> str:
    """Return the register that an instruction compares with 0 as an f32; "" for none."""
    words, sources = one.opcode.split("."), one.sources
    if words[0] == "slct" and words[-1] == "f32" and "ftz" not in words:
        return str(sources[2])
    if words[0] != "setp" or words[2:] != ["f32"] or len(sources) != 2:
        return ""
    names = [each for each in sources if isinstance(each, str)]
    zeros = [each for each in sources if each in (0, _LEAST)]
    return names[0] if len(names) == len(zeros) == 1 else ""


def _as_float(one: Assign, last: _Last, result: str) -> list[Statement]:
    """Return what writes the negative or the magnitude of an integer as if it were an f32."""
    source = one.sources[0] if one.opcode in ("abs.s32", "cnot.b32") else _negative(one, last)
    if not isinstance(source, str):
        return []
    if one.opcode == "abs.s32":
        return [_assign("and.b32", result, source, _MOST, guard=one.guard)]
    if one.opcode == "cnot.b32":  # the negative of a mask
        mask = _assign("setp.eq.u32", _CHOSEN, source, 0)
        return [mask, _assign("selp.b32", result, _MOST, _LEAST, _CHOSEN, guard=one.guard)]
    return [_assign("xor.b32", result, source, _LEAST, guard=one.guard)]


def _compared(one: Assign, last: _Last) -> list[Statement] | None:
    if one.opcode != "slct.s32.s32" or one.guard or str(one.sources[2]) not in last:
        return None
    by = last[str(one.sources[2])][0]
    source = 0 if by.guard else _negative(by, last)
    if not isinstance(source, str) or source in {*_written_since(by, last), *by.destinations}:
        return None
    first, second, _ = one.sources
    return [
        _assign("setp.le.s32", _CHOSEN, source, 0),
        _assign("selp.b32", one.destinations[0], first, second, _CHOSEN),
    ]


def _collected(one: Assign, last: _Last) -> list[Statement] | None:
    if one.opcode not in ("add.sat.s32", "sub.sat.s32") or one.guard:
        return None
    adds = one.opcode == "add.sat.s32"
    for index, name in enumerate(one.sources if adds else one.sources[:1]):
        by, addend = last.get(str(name), [None])[0], _constant(one.sources[1 - index], last)
        if by is None or by.guard or by.opcode not in _SUMS or addend is None:
            continue
        if not adds and addend == 0x8000_0000:
            continue
        values = [_constant(source, last) for source in by.sources]
        if values.count(None) != 1 or (values.index(None) < 2 and by.opcode.startswith("mad")):
            continue
        first = _result(by, [value or 0 for value in values], str(name))
        both = (first + (addend if adds else -addend)) & 0xFFFF_FFFF
        if by.opcode.startswith("sub") and values[1] is None:
            kept = _assign("sub.u32", _FIRST, first, name)
            return [kept, replace(one, opcode="sub.sat.s32", sources=(both, _FIRST))]
        kept = _assign("sub.u32", _FIRST, name, first)
        return [kept, replace(one, opcode="add.sat.s32", sources=(_FIRST, both))]
    return None


def _signed(one: Assign, last: _Last, *, sure: bool = False) -> list[Statement] | None:
    source = one.sources[0]
    if one.opcode not in ("abs.f16x2", "abs.bf16x2", "abs.ftz.f16x2"):
        return None
    if not isinstance(source, str) or source not in last:
        return None
    # A compiler need not know what comes of two ways.
    some = [
        by
        for by in last[source][:1]
        if not by.guard and all(by is not other for other in last[_JOINED])
    ]
    made = [by.opcode for by in (some if sure else last[source])]
    if not any(by.endswith(".sat.f32") or by in ("abs.f32", "abs.ftz.f32") for by in made):
        return None
    if ".ftz." not in one.opcode:
        return [replace(one, opcode="mov.b32")]
    negated = replace(one, opcode="neg.ftz.f16x2")  # twice: it is flushed, and keeps its sign
    return [negated, replace(negated, sources=one.destinations)]


def _makers(source: str | int, last: _Last, depth: int = _DEPTH) -> Iterator[Assign]:
    """Yield what a register of 16 bits may come from, a choice between it and itself left out."""
    for by in last.get(str(source), ()) if depth else ():
        if by.opcode == "selp.b16" and by.sources[0] == by.sources[1]:
            yield from _makers(by.sources[0], last, depth - 1)
        else:
            yield by


def _doubled(one: Assign, last: _Last) -> list[Statement] | None:
    if one.opcode != "cvt.u32.u16":
        return None
    made = [by.opcode.split(".") for by in _makers(one.sources[0], last)]
    if not any(words[0] == "set" and words[-2] in ("f16", "bf16") for words in made):
        return None
    result = one.destinations[0]
    return [one, _assign("mul.lo.u32", result, result, 0x1_0001, guard=one.guard)]


def _extended(one: Assign, last: _Last) -> list[Statement] | None:
    if one.opcode != "cvt.u32.u16":
        return None
    made = {by.opcode for by in _makers(one.sources[0], last)}
    if made.isdisjoint({"cvt.sat.s16.s32", "cvt.sat.s16.s64"}):
        return None
    return [replace(one, opcode="cvt.s32.s16")]


def _unextended(one: Assign, last: _Last) -> list[Statement] | None:
    if one.opcode == "cvt.u32.u16":
        made = last.get(str(one.sources[0]), ())
        if not made or not made[0].guard or not made[0].opcode.startswith("cvt.sat.s8."):
            return None
        result, factor = one.destinations[0], _factor(str(one.sources[0]))
        return [one, _assign("mul.lo.u32", result, result, factor, guard=one.guard)]
    # Arithmetic of floats has its result in both halves, and other instructions have 0 there.
    floats = one.row.family in ("add", "sub", "mul", "fma", "min", "max")
    both = floats and one.opcode.endswith((".f16", ".bf16"))
    kept = [
        _assign("mov.b32", _factor(name), 0x1_0001 if both else 1, guard=one.guard)
        for name in one.destinations
        if class_of(name) == "b16"
    ]
    return [*kept, one] if kept else None


def _factor(half: str) -> str:
    """Return the register that holds 0x10001 where both halves are as a register of 16 bits."""
    return f"r{_FACTORS + int(half[1:])}"


def _negated(one: Assign, last: _Last) -> list[Statement] | None:
    if one.opcode not in ("neg.ftz.f32", "abs.ftz.f32"):
        return None
    return _like(one, one.opcode.replace(".ftz", ""), last)


def _negated_flushing(one: Assign, last: _Last) -> list[Statement] | None:
    if one.opcode not in ("neg.f32", "abs.f32"):
        return None
    return _like(one, one.opcode.replace(".f32", ".ftz.f32"), last)


def _like(one: Assign, opcode: str, last: _Last) -> list[Statement] | None:
    """Return an instruction with the opcode of one before it of the same sources, if there is."""
    made = [by for several in last.values() for by in several if by.opcode == opcode]
    if not any(by.sources == one.sources for by in made):
        return None
    return [replace(one, opcode=opcode)]


def _is_one_or_zero(by: Assign) -> bool:
    """Whether an instruction writes 1 or 0 as a predicate says."""
    return by.opcode == "cnot.b32" or (by.opcode == "selp.b32" and {0, 1} == {*by.sources[:2]})


def _counted(one: Assign, last: _Last) -> list[Statement] | None:
    words, source = one.opcode.split("."), one.sources[0]
    if words[0] != "cvt" or words[-1] != "f32" or words[-2] not in ("s64", "u64", "f64"):
        return None
    by = last[source][0] if isinstance(source, str) and source in last else None
    if by is None or not _is_one_or_zero(by):
        return None
    return [replace(one, opcode="cvt.rn.f64.u32" if words[-2] == "f64" else "cvt.u64.u32")]


def _counted_half(one: Assign, last: _Last) -> list[Statement] | None:
    words, source, (result, *_) = one.opcode.split("."), one.sources[0], one.destinations
    if words[0] != "cvt" or words[-1] not in ("f16", "bf16") or words[-2:] == ["f32", "bf16"]:
        return None
    by = last[source][0] if isinstance(source, str) and source in last else None
    if by is None or by.opcode != "cnot.b16" or by.guard or "sat" in words:
        return None
    bits = class_of(result)[1:]
    wide, number = {"16": str(source), "32": _FIRST, "64": _WIDE}[bits], _ONE.get(words[-2], 1)
    return [
        *([] if wide == source else [_assign(f"cvt.u{bits}.u16", wide, source)]),
        _assign(f"mul.lo.u{bits}", result, wide, number, guard=one.guard),
    ]


def _is_mask(source: str | int, last: _Last, depth: int = _DEPTH) -> bool:
    """Whether a register is -1 or 0 as a predicate says, and a compiler finds that out."""
    made = last.get(str(source), ()) if depth else ()
    if not made or made[0].guard:
        return False
    by, before = made[0], {**last, str(source): made[1:]}
    match by.opcode.split("."):
        case ["set", *words, "u32", kind]:
            return kind[1:] in ("32", "64") and "ftz" not in words
        case ["selp", "b32" | "u32" | "s32" | "f32"]:
            return {_constant(each, last) for each in by.sources[:2]} == {0, 0xFFFF_FFFF}
        case ["neg", "s32"]:
            negated = before.get(str(by.sources[0]), ())
            return any(_is_one_or_zero(each) and not each.guard for each in negated[:1])
        case ["and" | "or" | "xor" | "not", "b32"]:
            return all(_is_mask(each, before, depth - 1) for each in by.sources)
    return False


def _complemented(one: Assign, last: _Last) -> list[Statement] | None:
    if one.opcode != "xor.b32":
        return None
    for name, mask in (one.sources, one.sources[::-1]):
        by = last[name][0] if isinstance(name, str) and name in last else None
        if by is None or by.opcode != "cnot.b32" or by.guard or not _is_mask(mask, last):
            continue
        # -(~-1) is 0, and -(~0) is 1.
        return [_assign("and.b32", _FIRST, mask, 1), replace(one, sources=(name, _FIRST))]
    return None


def _signed_word(one: Assign, last: _Last) -> list[Statement] | None:
    value, amount = one.sources if one.opcode == "shl.b64" else (0, 0)
    if not isinstance(value, str) or value not in last:
        return None
    by, places = last[value][0], _constant(amount, last)
    if by.opcode != "cvt.s64.u32" or by.guard or places is None or places > 31:
        return None
    return [
        _assign("cvt.u32.u64", _FIRST, value),
        _assign("cvt.s64.s32", _WIDE, _FIRST),
        replace(one, sources=(_WIDE, amount)),
    ]


def _too_far(one: Assign, last: _Last) -> list[Statement] | None:
    if one.opcode != "shr.s16":
        return None
    value, amount = one.sources
    by = last[amount][0] if isinstance(amount, str) and amount in last else None
    if by is None or by.opcode != "cnot.b32" or by.guard:
        return None
    far = _assign("shl.b32", _FIRST, amount, 15)
    return [far, replace(one, sources=(value, _FIRST))]


def _unsigned(one: Assign, last: _Last) -> list[Statement] | None:
    if one.opcode in _NEGATING and not one.guard:
        return [_assign("mov.b32", _kept_for(one), *one.sources), one]
    if one.row.family not in ("min", "max") or not one.opcode.endswith(".xorsign.abs.f16x2"):
        return None
    made = [by[0] for name in one.sources if (by := last.get(str(name)))]
    if len(made) < 2 or any(by.opcode not in _NEGATING or by.guard for by in made):
        return None
    return [replace(one, sources=(_kept_for(made[0]), one.sources[1]))]


def _mask(source: str | int, last: _Last) -> Assign | None:
    """Return the set that has made a mask of 32 bits, not of 16; None: another instruction has."""
    by = last[source][0] if isinstance(source, str) and source in last else None
    if by is None or by.row.family != "set" or by.guard:
        return None
    *_, result, compared = by.opcode.split(".")
    return by if result in ("u32", "s32") and compared[1:] in ("32", "64") else None


def _unflushed(one: Assign, last: _Last) -> list[Statement] | None:
    words = one.opcode.split(".")
    if words[0] == "set" and "ftz" in words and words[-2:] in (["u32", "f32"], ["s32", "f32"]):
        opcode = one.opcode.replace(".ftz", "")
        return [replace(one, opcode=opcode, destinations=(_kept_for(one),)), one]
    asks = words[0] in ("set", "setp") and words[1] in ("eq", "ne") and 0 in one.sources
    if len(one.sources) != 1 + asks or not (asks or one.opcode == "cnot.b32"):
        return None
    if words[-1] not in ("u32", "s32", "b32"):
        return None
    made = {name: by for name in one.sources if (by := _mask(name, last)) and ".ftz." in by.opcode}
    sources = tuple(_kept_for(made[name]) if name in made else name for name in one.sources)
    return [replace(one, sources=sources)] if made else None


def _negated_last(one: Assign, last: _Last) -> list[Statement] | None:
    words = one.opcode.split(".")
    if words[:2] != ["set", "eq"] or words[2] not in ("and", "or"):
        return None
    if len(words) != 5 or words[3] not in ("u32", "s32") or one.sources[1] != 0:
        return None
    said = last.get(str(one.sources[2]), [None])[0]
    if said is None or said.guard or any(isinstance(source, str) for source in said.sources):
        return None
    if _mask(one.sources[0], last) is None:
        return None
    return [
        _assign(f"setp.ne.{words[4]}", _CHOSEN, *one.sources[:2]),
        _assign(f"{words[2]}.pred", _CHOSEN, _CHOSEN, one.sources[2]),
        _assign("selp.b32", one.destinations[0], 0, 0xFFFF_FFFF, _CHOSEN, guard=one.guard),
    ]


def _unshifted(one: Assign, last: _Last) -> list[Statement] | None:
    value, amount = one.sources if one.opcode == "shl.b64" else (0, 0)
    if not isinstance(value, str) or value not in last:
        return None
    by, places = last[value][0], _constant(amount, last)
    if by.opcode not in _PRODUCTS or by.guard or places is None or places < 64:
        return None
    constant = [isinstance(source, int) for source in by.sources]
    if not any(constant[:2]) or not all(constant[2:]):
        return None
    return [replace(one, opcode="mov.b64", sources=(value,))]


def _rotated(one: Assign, last: _Last) -> list[Statement] | None:
    words, made = one.opcode.split("."), [last.get(str(name)) for name in one.sources]
    if words[0] != "sub" or words[-1] not in ("s32", "s64") or len(words) > 2:
        return None
    bits = int(words[1][1:])
    shifts = {by[0].opcode: by[0].sources for by in made if by is not None}
    left, right = shifts.get(f"shl.b{bits}"), shifts.get(f"shr.u{bits}")
    if left is None or right is None or left[0] != right[0]:
        return None
    whole = isinstance(left[1], int) and isinstance(right[1], int) and left[1] + right[1] == bits
    return [replace(one, opcode=f"or.b{bits}")] if whole else None


def _is_odd(source: str | int, last: _Last, depth: int = _DEPTH) -> bool:
    """Whether a compiler finds out that a register is odd."""
    if isinstance(source, int) or source not in last or not depth:
        return False
    by = last[source][0]
    if by.opcode == "or.b32" and not by.guard:
        return any(isinstance(one, int) and one % 2 for one in by.sources)
    return _is_odd_product(source, last, depth)


def _is_odd_product(source: str | int, last: _Last, depth: int = _DEPTH) -> bool:
    """Whether that is because both factors of a product are odd."""
    by = last[source][0] if isinstance(source, str) and source in last else None
    if by is None or by.guard or by.opcode not in ("mul.lo.s32", "mul.lo.u32"):
        return False
    return all(_is_odd(one, last, depth - 1) for one in by.sources)


def _even(one: Assign, last: _Last) -> list[Statement] | None:
    if len(one.sources) < 2 or not _is_odd_product(one.sources[0], last):
        return None
    (result,), constant = one.destinations[:1], one.sources[1]
    match one.opcode, constant:
        case ("and.b32", 1) | ("shl.b32", 31) | ("mul.lo.s32" | "mul.lo.u32", 0x8000_0000):
            return [_assign("mov.b32", result, 0, guard=one.guard)]
        case "or.b32", 1:
            return [replace(one, opcode="add.u32")]
        case ("mad.wide.s32" | "mad.wide.u32", 0x8000_0000):
            return [one, _assign("sub.u64", result, result, constant, guard=one.guard)]
    return None


def _without_sign(one: Assign, _: _Last) -> list[Statement] | None:
    if one.row.family not in ("add", "mul", "max") or not one.opcode.endswith("16x2"):
        return None
    constant, second = one.sources
    if isinstance(constant, str) or constant != second:
        return None
    halves = constant & 0xFFFF, constant >> 16
    if halves.count(0x8000) != 1:
        return None
    low, high = (0 if half == 0x8000 else half for half in halves)
    return [replace(one, sources=(high << 16 | low, second))]


def _apart(one: Assign, last: _Last) -> list[Statement] | None:
    words = one.opcode.split(".", 2)
    if words[:2] != ["redux", "sync"] or one.sources[1] != 0xFFFF_FFFF:
        return None
    if any(by.row.warp for several in last.values() for by in several):
        return None
    value, result = one.sources[0], one.destinations[0]
    return [
        _assign("setp.eq.u32", _CHOSEN, LANE, 0),
        _assign("selp.b32", _FIRST, _NEUTRAL.get(words[2], 0), value, _CHOSEN),
        replace(one, destinations=(_FIRST,), sources=(_FIRST, *one.sources[1:])),
        _assign("selp.b32", result, value, _FIRST, _CHOSEN),
    ]


def _twice(one: Assign) -> list[int]:
    """Return the places of a register that a lop3 has twice or more, or of a constant thrice."""
    sources = one.sources[:3] if one.row.family == "lop3" and not one.guard else ()
    for source in sources:
        places = [at for at, other in enumerate(sources) if other == source]
        if len(places) > (2 if isinstance(source, int) else 1):
            return places
    return []


def _copy(lop3: Assign, source: str) -> str:
    """Return the register that keeps one of the at most two registers that a lop3 reads."""
    distinct = [each for each in dict.fromkeys(lop3.sources[:3]) if isinstance(each, str)]
    return f"r{_COPIES + 2 * int(lop3.destinations[0][1:]) + distinct.index(source)}"


def _kept_for(one: Assign) -> str:
    """Return the register that keeps something else than what an instruction makes."""
    return f"r{_COPIES + 2 * int(one.destinations[0][1:])}"


def _kept(one: Assign) -> list[Statement] | None:
    """Keep what a lop3 of one source twice reads, for what is merged with it later."""
    if not _twice(one):
        return None
    distinct = [each for each in dict.fromkeys(one.sources[:3]) if isinstance(each, str)]
    return [*(_assign("mov.b32", _copy(one, source), source) for source in distinct), one]


def _written_since(one: Assign, last: _Last) -> set[str]:
    """Return what is written behind an instruction, in the order of the text."""
    behind = takewhile(lambda other: other is not one, last[_ANY])
    return {name for other in behind for name in other.destinations}


def _readers(one: Assign, last: _Last) -> Iterator[tuple[Assign, str | int]]:
    """Yield what has made a source of an and, or or xor, with the other source."""
    if one.opcode in _LOGIC:
        for name, other in (one.sources, one.sources[::-1]):
            for made in last.get(str(name), ()):
                if not made.guard:
                    yield made, other


def _both(
    one: Assign, last: _Last, *, by: str | int = 0, dead: bool = False, later: Collection[str] = ()
) -> tuple[Assign, Assign] | None:
    """Return a lop3 of one source twice, merged with what reads it and a source of it, and that.

    `by` stands for one of the two. With `dead`, that source is written between them in arms that
    no lane takes, which a compiler finds out; `later` is what is written behind the reader alone.
    """
    for made, other in _readers(one, last):
        places, sources = _twice(made), made.sources[:3]
        if not places or other not in sources or other in made.destinations:
            continue
        written = _written_since(made, last)
        if not dead and other in written - {*later}:
            continue
        # All of 4,608 pairs of a table and a reader are so (11.8.89 and 13.0.88, -O3).
        if places == [0, 1] and other == sources[2]:
            lost = [0]
        else:
            lost = places[-1:] if isinstance(sources[places[0]], int) else places[1:]
        now = {
            source: _copy(made, source)
            for source in sources
            if isinstance(source, str) and source in {*written, *made.destinations}
        }
        kept = (
            by if at in lost else now.get(str(source), source) for at, source in enumerate(sources)
        )
        lop3 = _assign("lop3.b32", _FIRST, *kept, made.sources[3])
        return lop3, replace(one, sources=(_FIRST, now.get(str(other), other)))
    return None


def _emptied(one: Assign, last: _Last, *, dead: bool = False) -> list[Statement] | None:
    both = _both(one, last, dead=dead)
    return _kept(one) if both is None else [*both]


def _reused(one: Assign, last: _Last) -> list[Statement] | None:
    for reader, other in _readers(one, last):
        both = _both(reader, last, by=other, later=_written_since(reader, last))
        if both is not None and isinstance(other, str):
            lop3, read = both
            read = replace(read, destinations=(_SECOND,))
            return [lop3, read, replace(one, sources=(_SECOND, other))]
    return _emptied(one, last)


CAUSES = (
    Cause(
        name="testp loses its predicate",
        ptx="@%p1 testp.normal.f32 %p0, %f1;",
        section="The predicate in front of testp",
        rewrite=_testp,
    ),
    Cause(
        name="set under a predicate converts what is kept",
        ptx="@%p1 set.gt.f32.f32 %f3, %f1, %f2;",
        section="A set without its predicate",
        rewrite=_set,
    ),
    Cause(
        name="positions of 64-bit fields are not masked",
        ptx="bfe.u64 %d2, %d1, %r1, %r2;",
        section="Positions of 64-bit fields",
        rewrite=_field,
    ),
    Cause(
        name="the amount of a 64-bit shift is converted",
        ptx="add.f32 %r1, %r2, %r3; shl.b64 %d1, %d0, %r1;",
        section="The amount of a 64-bit shift",
        rewrite=_amount,
    ),
    Cause(
        name="cvt.ftz to f16 does not flush",
        ptx="cvt.rp.ftz.f16.f32 %h1, %f1;",
        section="cvt.ftz to f16",
        rewrite=_flushed,
    ),
    Cause(
        name="a NaN becomes infinity on the way to tf32",
        ptx="cvt.rna.tf32.f32 %r1, %f1;",
        section="A NaN becomes infinity",
        rewrite=_tf32,
    ),
    Cause(
        name="half of a register is converted to tf32",
        ptx="add.rn.f16x2 %r3, %r1, %r2; cvt.rn.tf32.f32 %r4, %r3;",
        section="Half of a register is converted to tf32",
        rewrite=_lower_half,
    ),
    *(
        Cause(
            name="bfe.s32 with a constant position above 31 is -1",
            ptx="bfe.s32 %r4, %r0, 0x56, 9;",
            section="bfe.s32 with a constant",
            rewrite=_all_ones,
            folds=True,
            unrolls=unrolls,
        )
        for unrolls in (False, True)
    ),
    Cause(
        name="bfi.b32 takes a constant length modulo 32",
        ptx="bfi.b32 %r4, %r0, %r1, 6, 145;",
        section="bfi.b32 takes a constant",
        rewrite=_shorter,
    ),
    Cause(
        name="bfi.b32 takes a constant length modulo 32",
        ptx="bfi.b32 %r4, %r0, %r1, %r2, 145;",
        section="bfi.b32 takes a constant",
        rewrite=_shorter_later,
    ),
    Cause(
        name="a difference of two shifts becomes a rotation",
        ptx="shl.b64 %d1, %d0, 14; shr.u64 %d2, %d0, 50; sub.s64 %d3, %d1, %d2;",
        section="A difference of two shifts",
        rewrite=_rotated,
    ),
    Cause(
        name="sub.sat.s32 of the least number adds it",
        ptx="sub.sat.s32 %r1, %r0, 0x80000000;",
        section="sub.sat.s32 of the least number",
        rewrite=_added,
    ),
    Cause(
        name="slct of a negative number asks for the number",
        ptx="neg.s32 %r2, %r1; slct.s32.s32 %r3, %r4, %r5, %r2;",
        section="slct of a negative number",
        rewrite=_compared,
    ),
    Cause(
        name="a saturating difference that cancels does not saturate",
        ptx="sub.s32 %r3, %r1, %r2; sub.sat.s32 %r4, %r3, %r1;",
        section="A saturating sum that cancels",
        rewrite=_cancelled,
    ),
    Cause(
        name="constants of a sum and of a saturating sum of it are added",
        ptx="add.s32 %r2, %r1, 7; add.sat.s32 %r3, %r2, 1;",
        section="Two constants of a saturating sum",
        rewrite=_collected,
    ),
    *(
        Cause(
            name="abs of the halves of an f32 that is not negative is left out",
            ptx="add.rn.sat.f32 %r2, %r0, %r1; abs.bf16x2 %r3, %r2;",
            section="The absolute values of the halves",
            rewrite=rewrite,
        )
        for rewrite in (_signed, partial(_signed, sure=True))
    ),
    Cause(
        name="set to f16 fills the other half of the register",
        ptx="set.neu.f16.f16 %h2, %h0, %h1; cvt.u32.u16 %r0, %h2;",
        section="set to f16 and bf16",
        rewrite=_doubled,
    ),
    Cause(
        name="1 or 0 that a predicate chooses is converted from f32 as a number",
        ptx="selp.b32 %r2, 1, 0, %p0; cvt.rni.s64.f32 %d2, %r2; and.b64 %d3, %d2, %d2;",
        section="1 or 0, converted from f32",
        rewrite=_counted,
    ),
    Cause(
        name="1 or 0 that a predicate chooses is converted from f32 as a number",
        ptx="cnot.b16 %h1, %h0; cnot.b16 %h2, %h1; cvt.rmi.bf16.bf16 %h3, %h2;",
        section="1 or 0, converted from f32",
        rewrite=_counted_half,
    ),
    Cause(
        name="a cnot is negated behind the xor with a mask rather than before it",
        ptx="cnot.b32 %r2, %r0; selp.b32 %r3, -1, 0, %p0; xor.b32 %r4, %r2, %r3;",
        section="A cnot and the xor with a mask",
        rewrite=_complemented,
    ),
    Cause(
        name="what a branch says of a predicate is believed in every turn of a loop",
        ptx="@!%p0 bra END; TURN: setp.ge.xor.u32 %p0, %r0, %r1, %p0; ... @%p1 bra TURN;",
        section="What a branch says of a predicate",
        believes=True,
    ),
    Cause(
        name="a copy of a predicate is what that is set to later",
        ptx="or.pred %p1, %p0, %p0; setp.gt.u32 %p0, %r2, 7; @%p1 bra JOIN;",
        section="A copy of a predicate",
        copies=True,
    ),
    Cause(
        name="a copy of a predicate is what that is set to later",
        ptx="or.pred %p1, %p0, %p0; setp.gt.u32 %p0, %r2, 7; @%p1 bra J; selp.b32 %r1, 1, 0, %p1;",
        section="A copy of a predicate",
        copies=True,
        at_branches=True,
    ),
    Cause(
        name="a u32 is extended with its sign in front of a shift",
        ptx="cvt.s64.u32 %d1, %r1; shl.b64 %d2, %d1, 4;",
        section="cvt.s64.u32 extends the sign",
        rewrite=_signed_word,
    ),
    Cause(
        name="a mad.hi is left out behind one of the same registers",
        ptx="@%p0 mad.hi.s32 %r1, %r2, %r3, %r1; @%p0 mad.hi.s32 %r1, %r2, %r3, %r1;",
        section="A mad.hi with another addend",
        once=True,
    ),
    Cause(
        name="a saturated s16 is extended with its sign",
        ptx="cvt.sat.s16.s32 %h0, %r0; cvt.u32.u16 %r1, %h0;",
        section="A saturated s16",
        rewrite=_extended,
    ),
    Cause(
        name="a register that saturates under a predicate is not extended",
        ptx="min.bf16 %h1, %h0, %h0; @%p0 cvt.sat.s8.u16 %h1, %h1; cvt.u32.u16 %r1, %h1;",
        section="A saturated s16",
        rewrite=_unextended,
    ),
    Cause(
        name="neg.ftz.f32 is taken for the neg.f32 of a branch before it",
        ptx="@%p0 bra NO; neg.f32 %f1, %f0; NO: neg.ftz.f32 %f2, %f0;",
        section="neg.ftz.f32 is taken for neg.f32",
        rewrite=_negated,
    ),
    Cause(
        name="neg.f32 of a branch is taken for the neg.ftz.f32 before it",
        ptx="neg.ftz.f32 %f2, %f0; @%p0 bra NO; neg.f32 %f1, %f0; NO:",
        section="neg.ftz.f32 is taken for neg.f32",
        rewrite=_negated_flushing,
    ),
    Cause(
        name="a product with a constant is not shifted by 64 or more",
        ptx="mul.lo.s64 %d1, %d0, 3; shl.b64 %d2, %d1, 67;",
        section="A product with a constant is not shifted",
        rewrite=_unshifted,
    ),
    Cause(
        name="a product of two odd numbers is even",
        ptx="or.b32 %r2, %r0, 1; mul.lo.s32 %r3, %r2, %r2; and.b32 %r4, %r3, 1;",
        section="The product of two odd numbers",
        rewrite=_even,
    ),
    *(
        Cause(
            name="-0 in half of a constant is 0 where it is read first",
            ptx="mov.b32 %r1, 0x3c008000; add.rn.f16x2 %r2, %r1, %r1;",
            section="-0 in half of a constant",
            rewrite=_without_sign,
            folds=True,
            unrolls=unrolls,
        )
        for unrolls in (False, True)
    ),
    Cause(
        name="lane 0 is not joined before redux",
        ptx="@%p1 st.shared.b32 [%rd7], %r4; redux.sync.min.s32 %r1, %r0, 0xffffffff;",
        section="Lanes are not joined before match.all",
        rewrite=_apart,
    ),
    Cause(
        name="lanes that enter a loop within its body count with the others",
        ptx="mov.b32 %r3, 2; @%p0 bra ENTRY; TURN: ... ENTRY: ... @%p1 bra TURN;",
        section="A loop that lanes enter at two places",
        counts=True,
    ),
    Cause(
        name="lanes that enter a loop within its body count with the others",
        ptx="@%p0 bra NO; ... NO: mov.b32 %r3, 0; @%p0 bra ENTRY; ... @%p1 bra TURN;",
        section="A loop that lanes enter at two places",
        counts=True,
        split=True,
    ),
    Cause(
        name="lane 0 is not joined before a loop",
        ptx="@%p1 st.shared.b32 [%rd7], %r4; mov.b32 %r3, 2; @%p0 bra ENTRY; TURN: ... ENTRY: ...",
        section="Lanes are not joined before match.all",
        apart=True,
    ),
    Cause(
        name="or.pred is made as and.pred of the same predicates",
        ptx="or.pred %p3, %p1, %p2; and.pred %p4, %p1, %p2; and.pred %p5, %p1, %p4;",
        section="and.pred and or.pred of the same predicates",
        merges=True,
    ),
    Cause(
        name="selp.f32 by a predicate that a branch says reads another one",
        ptx="@!%p0 bra JOIN; TURN: selp.f32 %r1, %r2, %r3, %p0; ... @%p1 bra TURN;",
        section="selp.f32 by a predicate that a branch says",
        chooses=True,
    ),
    *(
        Cause(
            name="one of two equal sources of a lop3 is lost for what reads it",
            ptx="lop3.b32 %r3, %r1, %r1, %r2, 8; xor.b32 %r4, %r3, %r2;",
            section="lop3 of one source twice",
            rewrite=rewrite,
        )
        for rewrite in (_emptied, partial(_emptied, dead=True), _reused)
    ),
    Cause(
        name="the negative of an integer is that of an f32 for a comparison behind a branch",
        ptx="@%p1 bra JOIN; neg.s32 %r2, %r1; JOIN: setp.ge.f32 %p0, %r2, 0f00000000;",
        section="A negative integer of a branch",
        signs=True,
    ),
    Cause(
        name="both halves of a constant that a branch tells are its lower half",
        ptx="setp.ne.s32 %p0, %r1, 8; @%p0 bra JOIN; add.rn.f16x2 %r3, %r1, %r2;",
        section="Halves of a constant that a branch tells",
        tells=True,
    ),
    Cause(
        name="a shift of 16 bits by a cnot is too far",
        ptx="cnot.b32 %r1, %r0; shr.s16 %h1, %h0, %r1;",
        section="The amount of a 16-bit shift",
        rewrite=_too_far,
    ),
    Cause(
        name="one of two signs in front of .xorsign is left as it was",
        ptx="neg.f16x2 %r1, %r0; max.xorsign.abs.f16x2 %r2, %r1, %r1;",
        section="One of two negations in front of .xorsign",
        rewrite=_unsigned,
    ),
    Cause(
        name="a mask that is compared with 0 loses .ftz",
        ptx="set.le.ftz.u32.f32 %r1, %r0, 0; cnot.b32 %r2, %r1;",
        section="A mask that is compared with 0 loses",
        rewrite=_unflushed,
    ),
    Cause(
        name="a mask that is compared with 0 is negated behind the predicate",
        ptx="set.le.u32.f32 %r2, %r0, %r1; set.eq.or.u32.u32 %r3, %r2, 0, %p0;",
        section="A mask that is compared with 0, and a predicate",
        rewrite=_negated_last,
    ),
    Cause(
        name="factors of 64 bits are compared modulo 2^32",
        ptx="mul.lo.u64 %d1, %d0, 0x10000; mad.lo.u64 %d2, %d1, 0x10000, %d0;",
        section="Factors of 64 bits are compared",
        modulo=True,
    ),
    Cause(
        name="a comparison that is repeated loses .ftz",
        ptx="setp.ge.ftz.f32 %p1, %r7, %r5; @!%p1 bra NO; @!%p1 mov.b32 %r0, %r1;",
        section="A comparison that is repeated",
        repeats=True,
    ),
    Cause(
        name="a comparison that is repeated loses .ftz",
        ptx="setp.ge.ftz.f32 %p1, %r7, %r5; @!%p1 bra NO; @!%p1 bra JOIN;",
        section="A comparison that is repeated",
        repeats=True,
        branches=True,
    ),
    *(
        Cause(
            name="a comparison that is repeated loses .ftz",
            ptx="setp.ge.ftz.f32 %p1, %r7, %r5; ... @!%p1 mov.b32 %r0, %r1;",
            section="A comparison that is repeated",
            repeats=True,
            nth=nth,
        )
        for nth in range(1, _USES + 1)
    ),
)


BY_MACHINE_CODE = {
    "42/3456": "mad.hi loses an addend",
    "42/4101": "set to f16 and bf16",
    "42/7763": "set to f16 and bf16",
    "42/11138": "A loop that lanes enter at two places",
    "42/14723": "Lanes that a loop leaves apart",
    "42/18773": "mad.hi loses an addend",
    "42/19555": "mad.hi loses an addend",
    **dict.fromkeys(
        ("42/4442", "42/12355", "42/13189", "42/13268"),
        "selp.f32 by a predicate that a branch says",
    ),
}
"""Programs, by seed and number, whose defect PTX cannot say: sections of docs/findings.md."""


class _Written:
    """A piece of code with defects written out.

    Parameters
    ----------
    causes
        The defects.
    """

    def __init__(self, causes: Sequence[Cause]) -> None:
        self._causes = causes
        self._last: dict[str, list[Assign]] = {_ANY: [], _JOINED: []}
        self._merged: list[Assign] = []
        """Each `or.pred` that is made as `and.pred`."""
        self._flushing: set[str] = set()
        """Predicates that come of comparisons which flush, or are a copy or the negation of one."""
        self._uses = 0
        """Uses so far of predicates that come of comparisons which flush."""
        self._loops: list[Repeat] = []
        """Those around."""
        self._before: list[Statement] = []
        """What has to stand before the loop around."""
        self._arms = 0
        """Arms of branches around."""
        self._signs: set[str] = set()
        """Registers that are compared with 0 as f32."""
        self._split: dict[str, str] = {}
        """With which predicates lanes jump at branches before, outside of others and of loops."""
        self._known: dict[str, tuple[bool, bool]] = {}
        """Predicates that the branches around say, or those with which lanes leave a turn before,
        and whether that one is the first behind what writes the predicate: of it a compiler finds
        out that a loop writes it, too."""
        self._arms_say: set[str] = set()
        """Those of them that branches around say."""
        self._here: set[str] = set()
        """Predicates that are written since the last branch."""
        self._same: dict[str, str] = {}
        """Predicates that are copies of what others were."""
        self._believed: set[str] = set()
        """Those of them that are still believed in a loop which changes them."""
        self._compared: dict[str, tuple[str, int]] = {}
        """Predicates that say that a register differs from a constant."""
        self._multiples: dict[str, tuple[int, int]] = {}
        """Registers of 64 bits that are multiples of something: its number, and the factor."""
        self._somethings = 0
        """How many there are."""
        self._told: dict[str, int] = {}
        """Registers that equal a constant where the branches around say so."""
        self.seen = False
        """Whether any of the defects was found."""
        self.folded: set[str] = set()
        """Names of those that showed where sources are constants."""

    def whole(self, step: LaneCode) -> tuple[Statement, ...]:
        """Return the statements of a step with the defects."""
        code = step.code
        given = (
            Assign(opcode=f"setp.{order}.u32", destinations=(name,), sources=("lane", "lane"))
            for name, order in ((_CONSTANT[True], "eq"), (_CONSTANT[False], "ne"))
        )
        if any(cause.folds for cause in self._causes):
            folding = _Folding([cause for cause in self._causes if cause.folds])
            code = folding.block(code)
            self.folded |= folding.seen
            self.seen |= bool(folding.seen)
        if any(cause.merges for cause in self._causes):
            self._merged = _merged(code)
        if any(cause.signs for cause in self._causes):
            asked = (_asked_sign(one) for one in every(code) if isinstance(one, Assign))
            self._signs = {name for name in asked if name}
        signs = [name for name in step.inputs if name in self._signs]
        kept = (_assign("mov.b32", _sign(name), name) for name in signs)
        made = (*kept, *self._block(code))
        return (*given, *made) if any(cause.believes for cause in self._causes) else made

    def _block(self, code: Sequence[Statement]) -> tuple[Statement, ...]:
        return tuple(made for one in code for made in self._statement(one))

    def _turn(self, code: Sequence[Statement]) -> tuple[Statement, ...]:
        """Return a part of a turn, behind which nothing is said by what lanes leave it with."""
        before = dict(self._known)
        self._here.clear()
        made = self._block(code)
        self._here.clear()
        self._known = {name: said for name, said in before.items() if name in self._known}
        return made

    def _arm(
        self, code: Sequence[Statement], predicate: str, *, taken: bool, here: bool
    ) -> Sequence[Statement]:
        before, compared, told = dict(self._known), self._compared, dict(self._told)
        name = predicate.removeprefix("!")
        said = taken != predicate.startswith("!")
        self._known[name] = said, here
        outer, self._arms_say = self._arms_say, self._arms_say | {name}
        if not said and name in compared:
            register, constant = compared[name]
            self._told[register] = constant
        self._compared = dict(compared)
        self._arms += 1
        self._here.clear()
        made = self._block(code)
        self._arms -= 1
        self._join(code)
        self._arms_say = outer
        self._known = {name: said for name, said in before.items() if name in self._known}
        self._compared = {
            name: pair for name, pair in compared.items() if self._compared.get(name) == pair
        }
        self._told = {name: value for name, value in told.items() if name in self._told}
        return made

    def _statement(self, one: Statement) -> Sequence[Statement]:
        match one:
            case Assign():
                return self._assign(one)
            case If():
                return self._branch(one)
            case Repeat():
                written = {name for inner in every(one.body) for name in written_by(inner)}
                self._forget(written)
                for name in written:
                    self._join(self._last.get(name, ()))
                if one.entry and (said := self._said(one.entry)) is not None:
                    one = replace(one, entry=_CONSTANT[True] if said else "")
                changed = {name for inner in every(one.body) for name in _changed(inner)}
                changed &= set(self._known)
                far = {name for name in changed if not self._known[name][1]}
                believed = far if self._has("believes", far) else set()
                self._believed |= believed
                for name in changed - believed:
                    del self._known[name]
                self._loops.append(one)
                first = self._turn(one.body[: one.skipped])
                rest = self._turn(one.body[one.skipped :])
                self._loops.pop()
                self._join(one.body)
                for name in believed:
                    self._known.pop(name, None)
                self._believed -= believed
                before, self._before = self._before, []
                one = replace(one, body=(*first, *rest), skipped=len(first))
                return [*before, *self._in_one_register(one)]
            case Leave():
                said = self._said(one.predicate)
                if said is not None:
                    return [replace(one, predicate=_CONSTANT[True])] if said else []
                name = one.predicate.removeprefix("!")
                self._known[name] = name != one.predicate, name in self._here
                self._here.clear()
                return [replace(one, predicate=self._read(one.predicate, branch=True))]
            case _:
                return [one]

    def _in_one_register(self, one: Repeat) -> Sequence[Statement]:
        """Return a loop, or how lanes take it that count in one register."""
        name = one.entry.removeprefix("!")
        constant = one.down and isinstance(one.count, int) and one.count
        leaves = any(
            isinstance(each, Leave) and not (each.turn and name in read_by(each))
            for each in one.body
        )
        counted = name and (constant or (one.late and not one.down)) and not leaves
        around = self._loops[0] if self._loops else None
        if (
            self._arms
            or not counted
            or (around and not (one.down and self._is_plain(around, name)))
        ):
            return [one]
        jumps = one.entry
        if any(cause.split for cause in self._causes):
            jumps = "" if one.down else self._split.get(name, "")
        if not self._has("counts", jumps):
            self._has("apart")
            return [one]
        parted = self._parted(jumps)
        if not around:
            return [*parted, *self._counted(one)]
        # The first turn of a loop around leaves them apart, and each begins the others anew.
        self._before += parted
        return [
            _assign("setp.eq.u32", _CHOSEN, around.counter, around.count if around.down else 0),
            _assign("and.pred", _LATER, _LATER, _CHOSEN),
            _assign("and.pred", _MIXED, _MIXED, _CHOSEN),
            *self._counted(one),
        ]

    def _parted(self, jumps: str) -> Sequence[Statement]:
        """Return what finds out which lanes come later, of those that jump and the others."""
        name, negated = jumps.removeprefix("!"), jumps.startswith("!")
        apart = self._has("apart")
        lanes = LANES - apart
        return [
            _assign("vote.sync.ballot.b32", _ENTERING, name, 0xFFFF_FFFF),
            *([_assign("and.b32", _ENTERING, _ENTERING, 0xFFFF_FFFE)] if apart else []),
            _assign("popc.b32", _ENTERING, _ENTERING),
            *([_assign("sub.u32", _ENTERING, lanes, _ENTERING)] if negated else []),
            *([_assign("setp.eq.u32", _CHOSEN, LANE, 0)] if apart else []),
            *([_assign("mov.b32", _ENTERING, 0, guard=_CHOSEN)] if apart else []),
            _assign("setp.ge.u32", _LATER, _ENTERING, _HALF),
            _assign("xor.pred", _LATER, _LATER, name),
            *([] if negated else [_assign("not.pred", _LATER, _LATER)]),
            _assign("sub.u32", _ENTERING, _ENTERING, 1),
            _assign("setp.lt.u32", _MIXED, _ENTERING, lanes - 1),
            _assign("and.pred", _LATER, _LATER, _MIXED),
        ]

    def _is_plain(self, around: Repeat, name: str) -> bool:
        """Whether all lanes take all turns of a loop, which leaves a predicate as it is."""
        leaves = any(isinstance(each, Leave) for each in around.body)
        written = {made for each in every(around.body) for made in written_by(each)}
        constant = isinstance(around.count, int) and not around.entry
        return constant and not leaves and name not in written and len(self._loops) == 1

    def _counted(self, one: Repeat) -> Sequence[Statement]:
        if one.down:
            # Of lanes that come later each takes one turn.
            return [
                If(predicate=_LATER, then=(replace(one, count=0, late=True),), otherwise=(one,)),
                _assign("mov.b32", one.counter, 0xFFFF_FFFF, guard=_MIXED),
            ]
        last = _assign("redux.sync.max.u32", one.counter, one.counter, 0xFFFF_FFFF)
        if any(cause.split for cause in self._causes):
            # They begin anew, and what they count is left.
            return [
                one,
                _assign("not.pred", _LATER, _LATER),
                _assign("and.pred", _LATER, _LATER, _MIXED),
                _assign("mov.b32", one.counter, 0, guard=_LATER),
                last,
            ]
        # They begin with what the others have counted.
        number = _assign("add.u32", one.counter, _TURN, _BEFORE)
        later = replace(
            one, count=_LEFT, counter=_TURN, skipped=one.skipped + 1, body=(number, *one.body)
        )
        return [
            _assign("mov.b32", one.counter, 0),
            If(predicate=_LATER, then=(), otherwise=(one,)),
            _assign("redux.sync.max.u32", _BEFORE, one.counter, 0xFFFF_FFFF),
            _assign("and.b32", _LEFT, one.count, one.mask),
            _assign("sub.s32", _LEFT, _LEFT, _BEFORE),
            _assign("max.s32", _LEFT, _LEFT, 1),
            _assign("mov.b32", _TURN, 0),
            If(predicate=_LATER, then=(number, later, number)),
            last,
        ]

    def _join(self, code: Sequence[Statement]) -> None:
        self._last[_JOINED] += [each for each in every(code) if isinstance(each, Assign)]

    def _forget(self, written: Collection[str]) -> None:
        """Forget what is said of registers and predicates that are written."""
        self._compared = {
            name: pair
            for name, pair in self._compared.items()
            if {name, pair[0]}.isdisjoint(written)
        }
        self._told = {name: value for name, value in self._told.items() if name not in written}
        self._multiples = {
            name: multiple for name, multiple in self._multiples.items() if name not in written
        }

    def _has(self, what: str, found: object = True) -> bool:
        """Whether one of the defects is of a kind, and there is something to show it."""
        has = bool(found) and any(getattr(cause, what) for cause in self._causes)
        self.seen |= has
        return has

    def _said(self, predicate: str) -> bool | None:
        """Return what is believed of a predicate; None: nothing."""
        name = predicate.removeprefix("!")
        return self._known[name][0] != (name != predicate) if name in self._believed else None

    def _is_said(self, name: str) -> bool:
        """Whether the branches around say a predicate, or a copy of it."""
        changed = {
            each for loop in self._loops for one in every(loop.body) for each in _changed(one)
        }
        if name in self._known or name in changed:
            return name in self._known
        copies = [self._last[each][0] for each in self._known if each in self._last]
        return any(
            _copied(one) == name and name not in _written_since(one, self._last) for one in copies
        )

    def _asked(self, predicate: str, *, branch: bool = False) -> str:
        """Return the predicate that is asked for in place of one."""
        name = predicate.removeprefix("!")
        if name not in self._flushing:
            return predicate
        self._uses += 1
        arm = name in self._known and name in self._arms_say
        if any(
            cause.nth == self._uses if cause.nth else arm and (cause.branches or not branch)
            for cause in self._causes
            if cause.repeats
        ):
            self.seen = True
            return predicate.replace(name, _shadow(name))
        return predicate

    def _read(self, predicate: str, *, branch: bool = False) -> str:
        """Return the predicate that is read in place of one, which may be its copy."""
        name = predicate.removeprefix("!")
        copied = name in self._same and any(
            cause.copies and (branch or not cause.at_branches) for cause in self._causes
        )
        self.seen |= copied
        return predicate.replace(name, self._same[name]) if copied else predicate

    def _branch(self, one: If) -> Sequence[Statement]:
        said = self._said(one.predicate)
        if said is not None:
            return self._block(one.then if said else one.otherwise)
        one = replace(one, predicate=self._read(one.predicate, branch=True))
        asked = self._asked(one.predicate, branch=True)
        if not self._loops and not self._arms:
            name, negated = one.predicate.removeprefix("!"), one.predicate.startswith("!")
            self._split[name] = name if negated else f"!{name}"
        here = one.predicate.removeprefix("!") in self._here
        multiples = dict(self._multiples)
        then = tuple(self._arm(one.then, one.predicate, taken=True, here=here))
        self._multiples = dict(multiples)
        otherwise = tuple(self._arm(one.otherwise, one.predicate, taken=False, here=here))
        self._here.clear()
        written = {name for each in every((one,)) for name in written_by(each)}
        self._multiples = {name: each for name, each in multiples.items() if name not in written}
        return [replace(one, predicate=asked, then=then, otherwise=otherwise)]

    def _assign(self, one: Assign) -> Sequence[Statement]:
        # With a predicate it may leave alone what it writes, which is still believed.
        kept = [
            _assign("or.pred", name, *[_CONSTANT[said]] * 2)
            for name in one.destinations
            if one.guard and (said := self._said(name)) is not None
        ]
        made = [*kept, *self._keeping(one, self._defective(one))]
        multiple = self._multiple(one)
        source = _copied(one)
        same = _same(one, self._last)
        self._last[_ANY].insert(0, one)
        flushes = ".ftz." in one.opcode or source in self._flushing
        for name in one.destinations:
            (self._flushing.add if flushes else self._flushing.discard)(name)
            self._last[name] = [one, *self._last.get(name, ())]
        if one.opcode in _STEPS and not one.guard:
            self._here.clear()
        for name in _changed(one):
            self._known.pop(name, None)
            self._believed.discard(name)
            self._split.pop(name, None)
            self._here.add(name)
            if same.get(name) != name:
                self._same.pop(name, None)
        self._same |= {name: source for name, source in same.items() if name != source}
        self._forget(one.destinations)
        if multiple is not None:
            self._multiples[one.destinations[0]] = multiple
        if one.opcode in ("setp.ne.s32", "setp.ne.u32", "setp.ne.b32") and not one.guard:
            registers = [each for each in one.sources if isinstance(each, str)]
            constants = [each for each in one.sources if isinstance(each, int)]
            if len(registers) == len(constants) == len(one.destinations) == 1:
                self._compared[one.destinations[0]] = registers[0], constants[0]
        predicates = [name for name in one.destinations if class_of(name) == "pred"]
        if predicates and any(cause.repeats for cause in self._causes):
            shadows = self._shadows(one, predicates)
            # A comparison may write a predicate that it reads.
            compares = one.row.family == "setp" and not one.guard
            made = [*shadows, *made] if compares and ".ftz." in one.opcode else [*made, *shadows]
        return made

    def _keeping(self, one: Assign, made: Sequence[Statement]) -> Sequence[Statement]:
        """Return an instruction with what keeps the sign that a comparison asks for later."""
        names = [name for name in one.destinations if name in self._signs]
        if not names:
            return made
        if kept := _as_float(one, self._last, _sign(names[0])):
            return [*kept, *made]
        return [*made, *(_assign("mov.b32", _sign(each), each, guard=one.guard) for each in names)]

    def _shadows(self, one: Assign, predicates: Sequence[str]) -> Sequence[Statement]:
        if one.row.family == "setp" and ".ftz." in one.opcode and not one.guard:
            names = tuple(_shadow(name) for name in one.destinations)
            return [replace(one, opcode=one.opcode.replace(".ftz", ""), destinations=names)]
        if (source := _copied(one)) and source in self._flushing:
            shadows = tuple(_shadow(source) for _ in one.sources)
            return [replace(one, destinations=(_shadow(one.destinations[0]),), sources=shadows)]
        return [
            replace(one, opcode="or.pred", destinations=(_shadow(name),), sources=(name, name))
            for name in predicates
        ]

    def _defective(self, one: Assign) -> Sequence[Statement]:
        if any(one is other for other in self._merged):
            self.seen = True
            return [replace(one, opcode="and.pred")]
        for cause in self._causes:
            made = None if cause.folds else cause.rewrite(one, self._last)
            if made is not None:
                self.seen |= made[-1] is not one  # else it only keeps what it reads
                return made
        if (halves := self._halves(one)) is not None:
            self.seen = True
            return halves
        if (name := _asked_sign(one)) in self._signs and name in self._last:
            by = self._last[name][0]
            if any(by is other for other in self._last[_JOINED]):
                self.seen |= bool(_as_float(by, self._last, name))
                at = one.sources.index(name, 2 if one.row.family == "slct" else 0)
                sources = (*one.sources[:at], _sign(name), *one.sources[at + 1 :])
                return [replace(one, sources=sources)]
        if (once := self._once(one)) is not None:
            self.seen = True
            return once
        if one.opcode == "selp.f32" and self._has("chooses", self._is_said(str(one.sources[2]))):
            first, second, predicate = one.sources
            return [replace(one, sources=(second, first, predicate))]
        if (same := self._same_modulo(one)) is not None:
            self.seen = True
            return same
        one = replace(
            one,
            guard=one.guard and self._read(one.guard),
            sources=tuple(
                self._read(name) if isinstance(name, str) else name for name in one.sources
            ),
        )
        if one.guard and (said := self._said(one.guard)) is not None:
            if not said:
                return []
            one = replace(one, guard="")
        elif one.guard:
            one = replace(one, guard=self._asked(one.guard))
        sources = tuple(
            _CONSTANT[said] if isinstance(name, str) and (said := self._said(name)) is not None
            else name
            for name in one.sources
        )  # fmt: skip
        return [replace(one, sources=sources)]

    def _halves(self, one: Assign) -> Sequence[Statement] | None:
        """Return an instruction of two halves of a constant that a branch tells; None: of none."""
        two = _TWO.get(one.row.family, 0) if one.opcode.endswith("16x2") else 0
        if not any(cause.tells for cause in self._causes):
            return None
        sources = tuple(
            (self._told[source] & 0xFFFF) * 0x1_0001
            if isinstance(source, str) and source in self._told and index < two
            else source
            for index, source in enumerate(one.sources)
        )
        return [replace(one, sources=sources)] if sources != one.sources else None

    def _multiple_of(self, name: str) -> tuple[int, int]:
        """Return what a register is a multiple of: itself, if nothing else is known."""
        if name not in self._multiples:
            self._somethings += 1
            self._multiples[name] = self._somethings, 1
        return self._multiples[name]

    def _multiple(self, one: Assign) -> tuple[int, int] | None:
        """Return what an instruction makes a multiple of; None: nothing that a compiler finds."""
        shifts = one.opcode == "shl.b64"
        if one.guard or not (shifts or one.opcode in _PRODUCTS[2:]):
            return None
        registers = [name for name in one.sources[:2] if isinstance(name, str)]
        constants = [number for number in one.sources[:2] if isinstance(number, int)]
        if len(registers) != 1 or (
            shifts and (constants[0] > 31 or one.sources[1] != constants[0])
        ):
            return None
        of, factor = self._multiple_of(registers[0])
        factor *= 1 << constants[0] if shifts else constants[0]
        for addend in one.sources[2:]:
            if not isinstance(addend, str) or self._multiple_of(addend)[0] != of:
                return None
            factor += self._multiple_of(addend)[1]
        return of, factor % (1 << 64)

    def _same_modulo(self, one: Assign) -> Sequence[Statement] | None:
        """Return a copy of what a mad.lo is taken for; None: of nothing."""
        if one.row.family != "mad" or not any(cause.modulo for cause in self._causes):
            return None
        made = self._multiple(replace(one, guard=""))
        for name, (of, factor) in self._multiples.items():
            if made and of == made[0] and factor != made[1] and not (factor - made[1]) % (1 << 32):
                return [_assign("mov.b64", one.destinations[0], name, guard=one.guard)]
        return None

    def _once(self, one: Assign) -> Sequence[Statement] | None:
        """Return what is left of a `mad.hi` that adds to its own result; None: all of it."""
        if one.opcode not in ("mad.hi.s32", "mad.hi.u32") or not one.guard:
            return None
        if not any(cause.once for cause in self._causes):
            return None
        (result,) = one.destinations
        if one.sources[2] != result or result in one.sources[:2]:
            return None
        if result in self._last and self._last[result][0] == one:
            return []
        if not self._loops or not isinstance(self._loops[-1].count, int):
            return None
        read = {*one.sources, one.guard.removeprefix("!")}
        others = [each for each in every(self._loops[-1].body) if each != one]
        if any(read & written_by(each) for each in others):
            return None
        first = _assign("setp.eq.u32", _CHOSEN, self._loops[-1].counter, 0)
        return [first, If(predicate=_CHOSEN, then=(one,))]


class _Folding:
    """Code in which defects show where sources are constants, as a compiler finds them out.

    Parameters
    ----------
    causes
        The defects.
    """

    def __init__(self, causes: Sequence[Cause]) -> None:
        self._causes = causes
        self._values: dict[str, int] = {}
        """Registers and predicates that hold a constant."""
        self._left: list[list[dict[str, int]]] = []
        """What they hold where lanes leave a loop, for each of the loops around."""
        self.seen: set[str] = set()
        """Names of the defects that were found."""

    def block(self, code: Sequence[Statement]) -> tuple[Statement, ...]:
        """Return statements with the defects; what they write is known behind them."""
        return tuple(made for one in code for made in self._statement(one))

    def _statement(self, one: Statement) -> Sequence[Statement]:
        match one:
            case Assign():
                return self._assign(one)
            case If():
                return [self._branch(one)]
            case Repeat():
                return self._repeat(one)
            case Leave():
                self._left[-1].append(dict(self._values))
        return [one]

    def _holds(self, predicate: str) -> bool | None:
        """Return what a predicate is; None: it is not constant."""
        value = self._values.get(predicate.removeprefix("!"))
        return None if value is None else bool(value) != predicate.startswith("!")

    def _branch(self, one: If) -> If:
        holds, before = self._holds(one.predicate), dict(self._values)
        then = self.block(one.then)
        after, self._values = self._values, before
        otherwise = self.block(one.otherwise)
        if holds is not False:
            self._values = after if holds else _common(after, self._values)
        return replace(one, then=then, otherwise=otherwise)

    def _repeat(self, one: Repeat) -> Sequence[Statement]:
        unrolls = any(cause.unrolls for cause in self._causes)
        if isinstance(one.count, str) and one.count in self._values:
            one = replace(one, count=self._values[one.count] & one.mask)
        if one.count == 0 and not one.late and not one.entry:
            self._values[one.counter] = 0
            return [one]
        if unrolls and (turns := self._unrolled(one)) is not None:
            return turns
        seen = self.seen
        while True:  # until what is constant where the body begins is so where it ends
            self._values.pop(one.counter, None)
            before, self.seen = dict(self._values), set(seen)
            self._left.append([])
            first = self.block(one.body[: one.skipped])
            if one.entry:
                self._values = _common(self._values, before)
            rest = self.block(one.body[one.skipped :])
            after = _common(self._values, *self._left.pop())
            self._values = _common(before, after)
            if self._values == before:
                if one.late:
                    self._values = after
                self._values.pop(one.counter, None)
                return [replace(one, body=(*first, *rest))]

    def _unrolled(self, one: Repeat) -> Sequence[Statement] | None:
        """Return the turns of a loop one after the other; None where it has no such turns."""
        leaves = any(isinstance(each, Leave) for each in every(one.body))
        if not isinstance(one.count, int) or not one.count or one.entry or leaves:
            return None
        numbers = range(one.count, -1, -1) if one.down else range(one.count + 1)
        made: list[Statement] = []
        seen, self.seen = self.seen, set()
        for turn in numbers:
            made.append(_assign("mov.b32", one.counter, turn))
            self._values[one.counter] = turn
            if turn != numbers[-1]:
                made += self.block(one.body)
        found, self.seen = self.seen, seen | self.seen
        return made if found else [one]

    def _assign(self, one: Assign) -> Sequence[Statement]:
        holds = self._holds(one.guard) if one.guard else True
        known = replace(one, sources=tuple(self._values.get(str(n), n) for n in one.sources))
        made = None
        for cause in self._causes if holds is not False else ():
            if (made := cause.rewrite(known, {})) is not None:
                self.seen.add(cause.name)
                break
        values = self._made(made[-1] if made and isinstance(made[-1], Assign) else known)
        for name, value in zip(one.destinations, values, strict=True):
            if holds is False or (not holds and value == self._values.get(name)):
                continue
            if holds and value is not None:
                self._values[name] = value
            else:
                self._values.pop(name, None)
        return [one] if made is None else made

    def _made(self, one: Assign) -> Sequence[int | None]:
        """Return what an instruction writes, where it is so whatever its other sources are."""
        row, read = one.row, list(zip(one.sources, one.row.sources, strict=True))
        # The field of a register may lie above it.
        needed = one.sources[1:] if row.family == "bfe" else one.sources
        whole = all(isinstance(name, int) for name in needed)
        if (
            row.warp
            or row.carry_in
            or row.family in _NEVER
            or (row.family in _DOTS and 0 not in one.sources[:2])
            or (one.opcode.endswith("16x2") and row.family not in ("abs", "neg"))
            or (not whole and (row.family in _WHOLE or row.family.startswith("v")))
        ):
            return [None] * len(one.destinations)
        given = {pair: _any_of(*pair, seed) for seed, pair in enumerate(dict.fromkeys(read))}
        with np.errstate(all="ignore"):
            results = row.evaluate(*(given[pair] for pair in read))
        return [
            int(each.flat[0]) if (each == each.flat[0]).all() else None
            for each in results[: len(one.destinations)]
        ]


def _any_of(source: str | int, kind: str, seed: int) -> Bits:
    """Return what a source may hold: of a register, many patterns."""
    if isinstance(source, int):
        return np.full((LANES, LANES), source, CLASSES[kind])
    patterns = np.random.default_rng(seed).integers(0, 1 << 64, (LANES, LANES), np.uint64)
    patterns[::2] = np.uint64(0) - (patterns[::2] % np.uint64(3)) + np.uint64(1)  # 1, 0, -1
    return (patterns % 2).astype(np.bool_) if kind == "pred" else patterns.astype(CLASSES[kind])


def _common(values: Mapping[str, int], *others: Mapping[str, int]) -> dict[str, int]:
    """Return what is the same in all of some."""
    return {
        name: value
        for name, value in values.items()
        if all(other.get(name) == value for other in others)
    }


def _copied(one: Assign) -> str:
    """Return the predicate of which an instruction writes a copy or the negation; "" for none."""
    if one.opcode not in ("or.pred", "and.pred", "not.pred"):
        return ""
    first, *others = map(str, one.sources)
    if one.guard and (one.opcode == "not.pred" or {first} != {*one.destinations}):
        return ""
    return first if all(other == first for other in others) else ""


def _same(one: Assign, last: _Last) -> dict[str, str]:
    """Return the predicates of which an instruction writes copies, by the copy.

    A comparison of constants with which a predicate is combined may do so.
    """
    if one.guard:
        return {}
    source = str(one.sources[-1])
    if one.opcode in ("or.pred", "and.pred"):
        return dict.fromkeys(one.destinations, source) if len({*one.sources}) == 1 else {}
    if one.row.family != "setp" or len(one.sources) < 3:
        return {}
    values = [_constant(each, last) for each in one.sources[:2]]
    constants = [
        np.full(2, value, CLASSES[kind])
        for value, kind in zip(values, one.row.sources, strict=False)
        if value is not None
    ]
    if len(constants) < len(values):
        return {}
    held = np.array([False, True])
    made = one.row.evaluate(*constants, held)
    pairs = zip(one.destinations, made, strict=True)
    return {name: source for name, each in pairs if (each == held).all()}


def _changed(one: Statement) -> set[str]:
    """Return what a statement writes itself, other than with what is there."""
    if isinstance(one, Assign) and one.opcode in ("mov.pred", "or.pred", "and.pred"):
        return {*one.destinations} - ({*one.sources} if len({*one.sources}) == 1 else set())
    return written_by(one)


def _merged(code: Sequence[Statement]) -> list[Assign]:
    """Return each `or.pred` beside an `and.pred` of the same predicates.

    The later of the two has one reader, which reads one of the predicates again.
    """
    text = list(every(code))
    made: list[Assign] = []
    for at, first in enumerate(text):
        if not isinstance(first, Assign) or first.opcode not in ("or.pred", "and.pred"):
            continue
        pair = {str(name) for name in first.sources}
        if first.guard or len(pair) < 2 or pair & {*first.destinations}:
            continue
        later: Assign | None = None
        for one in text[at + 1 :]:
            if isinstance(one, Assign) and later is None:
                if (
                    {first.opcode, one.opcode} == {"or.pred", "and.pred"}
                    and not one.guard
                    and pair == {*one.sources}
                    and not pair & {*one.destinations}
                ):
                    later = one
            elif isinstance(one, Assign) and later is not None:
                (result,) = later.destinations
                readers = sum(result in read_by(other) for other in text)
                if one.row.family in ("or", "and", "xor") and {result} < {*one.sources} <= {
                    result,
                    *pair,
                }:
                    if readers == 1:
                        made.append(first if first.opcode == "or.pred" else later)
                    break
            if pair & written_by(one):
                break
    return made


def _sign(register: str) -> str:
    return f"r{_SIGNS + int(register[1:])}"


def _shadow(predicate: str) -> str:
    return f"p{_SHADOWS + int(predicate[1:])}"


def _steps(steps: Sequence[Step], causes: Sequence[Cause]) -> tuple[Step, ...]:
    made: list[Step] = []
    for step in steps:
        match step:
            case LaneCode():
                made.append(replace(step, code=_Written(causes).whole(step)))
            case Branch():
                then, otherwise = _steps(step.then, causes), _steps(step.otherwise, causes)
                made.append(replace(step, then=then, otherwise=otherwise))
            case Loop():
                made.append(replace(step, body=_steps(step.body, causes)))
            case _:
                made.append(step)
    return tuple(made)


def possible(program: Program) -> list[Cause]:
    """Return the defects that a program can show."""
    return [cause for cause in CAUSES if _shows(program, cause)]


def _shows(program: Program, cause: Cause) -> bool:
    # What one makes of constants, another one may find.
    folds = [one for one in CAUSES if one.folds and one.unrolls == cause.unrolls]
    written = _Written(folds if cause.folds else (cause,))
    for step in walk(program.steps):
        if isinstance(step, LaneCode):
            written.whole(step)
    return cause.name in written.folded if cause.folds else written.seen


def with_defects(program: Program) -> Iterator[tuple[Sequence[str], Program]]:
    """Yield a program with each of the defects that it can show written out, then with several.

    Each comes with the names of the defects.
    """
    found = possible(program)
    for number in range(1, min(len(found), _TOGETHER) + 1):
        for causes in combinations(found, number):
            if len({cause.name for cause in causes}) < number:
                continue
            try:
                made = replace(program, steps=_steps(program.steps, causes))
            except UsageError:  # it takes too many statements
                continue
            yield list(dict.fromkeys(cause.name for cause in causes)), made
