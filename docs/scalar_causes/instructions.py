"""Instructions that ptxas gets wrong, as it makes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial

from oracle.lane_code import (
    LANE,
    Assign,
    Statement,
    class_of,
)
from scalar_causes.cause import (
    ANY,
    CHOSEN,
    DEPTH,
    FIRST,
    JOINED,
    LEAST,
    MOST,
    PRODUCTS,
    SECOND,
    SECOND_WIDE,
    WIDE,
    Cause,
    Last,
    Rewrite,
    assign,
    constant_of,
    maker,
    negative,
    result_of,
    written_since,
)
from strategies.programs.lane_code import always_wrong

_LOGIC = ("and.b32", "or.b32", "xor.b32")
"""What is merged with a lop3 that it reads."""
_SUMS = frozenset(
    {"add.cc.u32", "sub.cc.u32", "mad24.hi.u32", "mad24.hi.s32"}
    | {f"{sum_}.{kind}" for sum_ in ("add", "sub", "mad.lo", "mad24.lo") for kind in ("s32", "u32")}
)
"""Instructions that can be a constant plus or minus a register (of mad, its addend)."""
_NEUTRAL = {"min.s32": MOST, "max.s32": LEAST, "min.u32": 0xFFFF_FFFF, "and.b32": 0xFFFF_FFFF}
"""What changes no result of a reduction; of others, 0."""
_ONE = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F80_0000, "f64": 0x3FF0 << 48}
"""1, of each format."""
_NARROW = ("s8", "u8", "s16", "u16", "s32", "u32", "f16", "bf16", "f32")
"""Formats of 32 bits or less that 1 or 0 is converted to as a number, rather than as an f32."""
_COPIES = 400
"""Number of the first register that keeps a source of a lop3."""
_FACTORS = 800
"""Number of the register that tells of h0 what is above it."""
_NARROWED = 700
"""Number of the register that keeps for d0 what a conversion to 32 bits gives."""
_NEGATING = ("neg.f16x2", "abs.f16x2")
"""Instructions of which one is left out where max with .xorsign reads two of them."""
_TAKEN = "neg.ftz.f32 is taken for the neg.f32 of a branch before it"
_TAKEN_FLUSHING = "neg.f32 of a branch is taken for the neg.ftz.f32 before it"
"""Names of two defects: of registers, and of the number of a turn that is another constant."""
_CARRYING = ("add.cc.u32", "add.cc.s32", "addc.cc.u32", "addc.cc.s32")
"""Instructions of constants whose carry a compiler finds out; the others are made right."""


def _testp(one: Assign, _: Last) -> list[Statement] | None:
    return [replace(one, guard="")] if one.guard and one.row.family == "testp" else None


def _set(one: Assign, _: Last) -> list[Statement] | None:
    if not always_wrong(one.row, one.guard) or one.row.family != "set":
        return None
    *words, result, source = one.opcode.split(".")
    (kept,) = one.destinations
    # Of 16 bits the mask has 16, and so has what is converted.
    half = [assign("shl.b32", FIRST, FIRST, 16), assign("shr.s32", FIRST, FIRST, 16)]
    cut = half if source.endswith("16") else []
    if result == "u32":
        return [one, assign("mov.b32", FIRST, kept), *half, assign("mov.b32", kept, FIRST)]
    narrow = result == "f16"
    mask = replace(one, opcode=".".join([*words, "u16" if narrow else "u32", source]))
    return [
        mask,
        assign("cvt.s32.s16" if narrow else "mov.b32", FIRST, kept),
        *cut,
        # The magnitude of the least number is that number.
        assign("max.s32", FIRST, FIRST, 0x8000_0001),
        assign("abs.s32", FIRST, FIRST),
        *cut,
        assign("cvt.rn.f16.s32" if narrow else "cvt.rn.f32.s32", kept, FIRST),
    ]


def _field(one: Assign, _: Last) -> list[Statement] | None:
    if one.opcode not in ("bfe.u64", "bfe.s64", "bfi.b64"):
        return None
    *kept, position, length = one.sources
    return [
        *(
            assign("min.u32", register, source, 255)
            for register, source in ((FIRST, position), (SECOND, length))
            if isinstance(source, str)
        ),
        replace(
            one,
            sources=(
                *kept,
                FIRST if isinstance(position, str) else position,
                SECOND if isinstance(length, str) else length,
            ),
        ),
    ]


def _amount(one: Assign, last: Last) -> list[Statement] | None:
    if one.opcode not in ("shl.b64", "shr.b64", "shr.u64", "shr.s64"):
        return None
    value, amount = one.sources
    by = maker(amount, last)
    if by is None:
        return None
    words = by.opcode.split(".")
    if words[-2 if words[0] in ("cvt", "set") else -1] != "f32":
        return None
    return [
        assign("cvt.rzi.u64.f32", WIDE, amount),
        assign("cvt.u32.u64", FIRST, WIDE),
        replace(one, sources=(value, FIRST)),
    ]


def _flushed(one: Assign, _: Last) -> list[Statement] | None:
    if not one.opcode.startswith(("cvt.rm.ftz.", "cvt.rp.ftz.")) or ".f16.f32" not in one.opcode:
        return None
    return [replace(one, opcode=one.opcode.replace(".ftz", ""))]


def _tf32(one: Assign, _: Last) -> list[Statement] | None:
    if not one.opcode.startswith("cvt.rna."):
        return None
    source, result = one.sources[0], one.destinations[0]
    return [
        assign("setp.nan.f32", CHOSEN, source, source),
        assign("and.b32", FIRST, source, 0xFFFF_E000),
        replace(one, destinations=(SECOND,), guard=""),
        assign("selp.b32", result, FIRST, SECOND, CHOSEN, guard=one.guard),
    ]


def _lower_half(one: Assign, last: Last) -> list[Statement] | None:
    if not one.opcode.startswith(("cvt.rn.", "cvt.rz.")) or ".tf32." not in one.opcode:
        return None
    source = one.sources[0]
    if not any("16x2" in by.opcode for by in last.get(str(source), ())):
        return None
    # The other half is what a register held before: 0, mostly, where nothing has written it.
    return [assign("and.b32", FIRST, source, 0xFFFF), replace(one, sources=(FIRST,))]


def _all_ones(one: Assign, _: Last) -> list[Statement] | None:
    if one.opcode != "bfe.s32":
        return None
    position, length = one.sources[1:]
    if isinstance(position, str) or isinstance(length, str):
        return None
    if position & 0xFF < 32 or not length & 0xFF:
        return None
    return [assign("mov.b32", one.destinations[0], 0xFFFF_FFFF, guard=one.guard)]


def _shorter(one: Assign, last: Last) -> list[Statement] | None:
    known = one.opcode == "bfi.b32" and constant_of(one.sources[2], last) is not None
    return _shorter_later(one, last) if known else None


def _shorter_later(one: Assign, last: Last) -> list[Statement] | None:
    length = constant_of(one.sources[3], last) if one.opcode == "bfi.b32" else None
    if length is None or length & 0xFF < 32:
        return None
    return [replace(one, sources=(*one.sources[:3], length % 32))]


def _added(one: Assign, _: Last) -> list[Statement] | None:
    if one.opcode != "sub.sat.s32" or one.sources[1] != 0x8000_0000:
        return None
    return [replace(one, opcode="add.sat.s32")]


def _cancelled(one: Assign, last: Last) -> list[Statement] | None:
    if one.opcode != "sub.sat.s32":
        return None
    by, other = maker(one.sources[0], last), one.sources[1]
    if by is None or by.opcode not in ("sub.s32", "sub.u32") or by.guard or by.sources[0] != other:
        return None
    return [replace(one, sources=(0, by.sources[1]))]


def _compared(one: Assign, last: Last) -> list[Statement] | None:
    if one.opcode != "slct.s32.s32" or one.guard:
        return None
    by = maker(one.sources[2], last)
    if by is None:
        return None
    source = 0 if by.guard else negative(by, last)
    if not isinstance(source, str) or source in {*written_since(by, last), *by.destinations}:
        return None
    first, second, _ = one.sources
    return [
        assign("setp.le.s32", CHOSEN, source, 0),
        assign("selp.b32", one.destinations[0], first, second, CHOSEN),
    ]


def _collected(one: Assign, last: Last) -> list[Statement] | None:
    if one.opcode not in ("add.sat.s32", "sub.sat.s32") or one.guard:
        return None
    adds = one.opcode == "add.sat.s32"
    for index, name in enumerate(one.sources if adds else one.sources[:1]):
        by, addend = maker(name, last), constant_of(one.sources[1 - index], last)
        if by is None or by.guard or by.opcode not in _SUMS or addend is None:
            continue
        if not adds and addend == 0x8000_0000:
            continue
        values = [constant_of(source, last) for source in by.sources]
        if values.count(None) != 1 or (values.index(None) < 2 and by.opcode.startswith("mad")):
            continue
        first = result_of(by, [value or 0 for value in values], str(name))
        both = (first + (addend if adds else -addend)) & 0xFFFF_FFFF
        if by.opcode.startswith("sub") and values[1] is None:
            kept = assign("sub.u32", FIRST, first, name)
            return [kept, replace(one, opcode="sub.sat.s32", sources=(both, FIRST))]
        kept = assign("sub.u32", FIRST, name, first)
        return [kept, replace(one, opcode="add.sat.s32", sources=(FIRST, both))]
    return None


def _signed(one: Assign, last: Last, *, sure: bool = False) -> list[Statement] | None:
    source = one.sources[0]
    if one.opcode not in ("abs.f16x2", "abs.bf16x2", "abs.ftz.f16x2"):
        return None
    if not isinstance(source, str) or source not in last:
        return None
    # A compiler need not know what comes of two ways.
    some = [
        by
        for by in last[source][:1]
        if not by.guard and all(by is not other for other in last[JOINED])
    ]
    made = [by.opcode for by in (some if sure else last[source])]
    if not any(by.endswith(".sat.f32") or by in ("abs.f32", "abs.ftz.f32") for by in made):
        return None
    if ".ftz." not in one.opcode:
        return [replace(one, opcode="mov.b32")]
    negated = replace(one, opcode="neg.ftz.f16x2")  # twice: it is flushed, and keeps its sign
    return [negated, replace(negated, sources=one.destinations)]


def _makers(source: str | int, last: Last, depth: int = DEPTH) -> Iterator[Assign]:
    """Yield what a register of 16 bits may come from, a choice between it and itself left out."""
    for by in last.get(str(source), ()) if depth else ():
        if by.opcode == "selp.b16" and by.sources[0] == by.sources[1]:
            yield from _makers(by.sources[0], last, depth - 1)
        else:
            yield by


def _doubled(one: Assign, last: Last) -> list[Statement] | None:
    if one.opcode != "cvt.u32.u16":
        return None
    made = [by.opcode.split(".") for by in _makers(one.sources[0], last)]
    if not any(words[0] == "set" and words[-2] in ("f16", "bf16") for words in made):
        return None
    result = one.destinations[0]
    return [one, assign("mul.lo.u32", result, result, 0x1_0001, guard=one.guard)]


def _extended(one: Assign, last: Last) -> list[Statement] | None:
    if one.opcode != "cvt.u32.u16":
        return None
    made = {by.opcode for by in _makers(one.sources[0], last)}
    if made.isdisjoint({"cvt.sat.s16.s32", "cvt.sat.s16.s64"}):
        return None
    return [replace(one, opcode="cvt.s32.s16")]


def _unextended(one: Assign, last: Last) -> list[Statement] | None:
    if one.opcode == "cvt.u32.u16":
        made = last.get(str(one.sources[0]), ())
        if not made or not made[0].guard or not made[0].opcode.startswith("cvt.sat.s8."):
            return None
        result, factor = one.destinations[0], _factor(str(one.sources[0]))
        return [one, assign("mul.lo.u32", result, result, factor, guard=one.guard)]
    # Arithmetic of floats has its result in both halves, and other instructions have 0 there.
    floats = one.row.family in ("add", "sub", "mul", "fma", "min", "max")
    both = floats and one.opcode.endswith((".f16", ".bf16"))
    kept = [
        assign("mov.b32", _factor(name), 0x1_0001 if both else 1, guard=one.guard)
        for name in one.destinations
        if class_of(name) == "b16"
    ]
    return [*kept, one] if kept else None


def _factor(half: str) -> str:
    """Return the register that holds 0x10001 where both halves are as a register of 16 bits."""
    return f"r{_FACTORS + int(half[1:])}"


def _negated(one: Assign, last: Last) -> list[Statement] | None:
    if one.opcode not in ("neg.ftz.f32", "abs.ftz.f32"):
        return None
    return _like(one, one.opcode.replace(".ftz", ""), last)


def _negated_flushing(one: Assign, last: Last) -> list[Statement] | None:
    if one.opcode not in ("neg.f32", "abs.f32"):
        return None
    return _like(one, one.opcode.replace(".f32", ".ftz.f32"), last)


def _like(one: Assign, opcode: str, last: Last) -> list[Statement] | None:
    """Return an instruction with the opcode of one before it of the same sources, if there is."""
    made = [by for several in last.values() for by in several if by.opcode == opcode]
    if not any(by.sources == one.sources for by in made):
        return None
    return [replace(one, opcode=opcode)]


def _of_constant(rewrite: Rewrite, one: Assign, last: Last) -> list[Statement] | None:
    return None if isinstance(one.sources[0], str) else rewrite(one, last)


def _is_one_or_zero(by: Assign) -> bool:
    """Whether an instruction writes 1 or 0 as a predicate says."""
    return by.opcode == "cnot.b32" or (by.opcode == "selp.b32" and {0, 1} == {*by.sources[:2]})


def _counted(one: Assign, last: Last) -> list[Statement] | None:
    words, source = one.opcode.split("."), one.sources[0]
    if words[0] != "cvt" or words[-1] != "f32" or words[-2] not in ("s64", "u64", "f64"):
        return None
    by = maker(source, last)
    if by is None or not _is_one_or_zero(by):
        return None
    return [replace(one, opcode="cvt.rn.f64.u32" if words[-2] == "f64" else "cvt.u64.u32")]


def _counted_half(one: Assign, last: Last) -> list[Statement] | None:
    words, source, (result, *_) = one.opcode.split("."), one.sources[0], one.destinations
    if words[0] != "cvt" or words[-1] not in ("f16", "bf16") or words[-2:] == ["f32", "bf16"]:
        return None
    by = maker(source, last)
    if by is None or by.opcode != "cnot.b16" or by.guard or "sat" in words:
        return None
    bits = class_of(result)[1:]
    wide, number = {"16": str(source), "32": FIRST, "64": WIDE}[bits], _ONE.get(words[-2], 1)
    return [
        *([] if wide == source else [assign(f"cvt.u{bits}.u16", wide, source)]),
        assign(f"mul.lo.u{bits}", result, wide, number, guard=one.guard),
    ]


def _counted_narrow(one: Assign, last: Last) -> list[Statement] | None:
    words, source, (result, *_) = one.opcode.split("."), one.sources[0], one.destinations
    if words[0] != "cvt" or words[-1] != "f32" or words[-2] not in _NARROW:
        return None
    if {"sat", "satfinite", "relu"} & {*words} or ("ftz" in words and words[-2] != "f16"):
        return None
    by = maker(source, last)
    if by is None or not _is_one_or_zero(by) or by.guard:
        return None
    wide = assign("mul.lo.u32", FIRST, source, _ONE.get(words[-2], 1))
    cut = "cvt.u16.u32" if class_of(result) == "b16" else "mov.b32"
    return [wide, assign(cut, result, FIRST, guard=one.guard)]


def _is_mask(source: str | int, last: Last, depth: int = DEPTH) -> bool:
    """Whether a register is -1 or 0 as a predicate says, and a compiler finds that out."""
    made = last.get(str(source), ()) if depth else ()
    if not made or made[0].guard:
        return False
    by, before = made[0], {**last, str(source): made[1:]}
    match by.opcode.split("."):
        case ["set", *words, "u32", kind]:
            return kind[1:] in ("32", "64") and "ftz" not in words
        case ["selp", "b32" | "u32" | "s32" | "f32"]:
            return {constant_of(each, last) for each in by.sources[:2]} == {0, 0xFFFF_FFFF}
        case ["neg", "s32"]:
            negated = before.get(str(by.sources[0]), ())
            return any(_is_one_or_zero(each) and not each.guard for each in negated[:1])
        case ["and" | "or" | "xor" | "not", "b32"]:
            return all(_is_mask(each, before, depth - 1) for each in by.sources)
    return False


def _complemented(one: Assign, last: Last) -> list[Statement] | None:
    if one.opcode != "xor.b32":
        return None
    for name, mask in (one.sources, one.sources[::-1]):
        by = maker(name, last)
        if by is None or by.opcode != "cnot.b32" or by.guard or not _is_mask(mask, last):
            continue
        # -(~-1) is 0, and -(~0) is 1.
        return [assign("and.b32", FIRST, mask, 1), replace(one, sources=(name, FIRST))]
    return None


def _whole_number(opcode: str) -> str:
    """Return the type of 64 bits to which an f32, f16 or bf16 is converted; "" for another."""
    words = opcode.split(".")
    converts = words[0] == "cvt" and words[-1] in ("f32", "f16", "bf16")
    return words[-2] if converts and words[-2] in ("s64", "u64") else ""


def _narrowed(one: Assign, last: Last) -> list[Statement] | None:
    kind, guard = _whole_number(one.opcode), one.guard
    if kind and not guard:  # there NaN is 0
        narrow = one.opcode.replace(kind, kind.replace("64", "32"))
        return [assign(narrow, _narrow(one), *one.sources), one]
    if one.opcode not in ("cvt.sat.s32.s64", "cvt.sat.u32.u64"):
        return None
    by = maker(one.sources[0], last)
    if by is None or by.guard or any(by is other for other in last[JOINED]):
        return None
    if not one.opcode.endswith(_whole_number(by.opcode) or "none"):
        return None
    return [assign("mov.b32", one.destinations[0], _narrow(by), guard=guard)]


def _narrow(one: Assign) -> str:
    return f"r{_NARROWED + int(one.destinations[0][1:])}"


def _carries(last: Last, depth: int = DEPTH) -> int | None:
    """Return the carry that a compiler finds out; None: it does not."""
    at = next((at for at, by in enumerate(last[ANY]) if by.row.carry_out), None)
    if at is None or not depth or last[ANY][at].opcode not in _CARRYING:
        return None
    by, later = last[ANY][at], last[ANY][: at + 1]
    kept = {
        name: [each for each in made if all(each is not other for other in later)]
        for name, made in last.items()
    }
    before = {name: made for name, made in kept.items() if made or name in (ANY, JOINED)}
    values = [constant_of(name, before) for name in by.sources]
    carry = _carries(before, depth - 1) if by.row.carry_in else 0
    if carry is None or None in values:
        return None
    return int(sum(value or 0 for value in values) + carry > 0xFFFF_FFFF)


def _second_factor(one: Assign, last: Last) -> list[Statement] | None:
    if not one.opcode.startswith("madc.hi.") or not one.opcode.endswith("64"):
        return None
    if _carries(last) != 0:
        return None
    # What it carries is right.
    (result,), factor = one.destinations, one.sources[1]
    return [
        assign("mov.b64", SECOND_WIDE, factor),
        replace(one, destinations=(WIDE,), guard=""),
        assign("mov.b64", result, SECOND_WIDE, guard=one.guard),
    ]


def _signed_word(one: Assign, last: Last) -> list[Statement] | None:
    value, amount = one.sources if one.opcode == "shl.b64" else (0, 0)
    by, places = maker(value, last), constant_of(amount, last)
    if by is None or by.opcode != "cvt.s64.u32" or by.guard or places is None or places > 31:
        return None
    return [
        assign("cvt.u32.u64", FIRST, value),
        assign("cvt.s64.s32", WIDE, FIRST),
        replace(one, sources=(WIDE, amount)),
    ]


def _too_far(one: Assign, last: Last) -> list[Statement] | None:
    if one.opcode != "shr.s16":
        return None
    value, amount = one.sources
    by = maker(amount, last)
    if by is None or by.opcode != "cnot.b32" or by.guard:
        return None
    far = assign("shl.b32", FIRST, amount, 15)
    return [far, replace(one, sources=(value, FIRST))]


def _unsigned(one: Assign, last: Last) -> list[Statement] | None:
    if one.opcode in _NEGATING and not one.guard:
        return [assign("mov.b32", _kept_for(one), *one.sources), one]
    if one.row.family not in ("min", "max") or not one.opcode.endswith(".xorsign.abs.f16x2"):
        return None
    made = [by[0] for name in one.sources if (by := last.get(str(name)))]
    if len(made) < 2 or any(by.opcode not in _NEGATING or by.guard for by in made):
        return None
    return [replace(one, sources=(_kept_for(made[0]), one.sources[1]))]


def _mask(source: str | int, last: Last) -> Assign | None:
    """Return the set that has made a mask of 32 bits, not of 16; None: another instruction has."""
    by = maker(source, last)
    if by is None or by.row.family != "set" or by.guard:
        return None
    *_, result, compared = by.opcode.split(".")
    return by if result in ("u32", "s32") and compared[1:] in ("32", "64") else None


def _unflushed(one: Assign, last: Last) -> list[Statement] | None:
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


def _negated_last(one: Assign, last: Last) -> list[Statement] | None:
    words = one.opcode.split(".")
    if words[:2] != ["set", "eq"] or words[2] not in ("and", "or"):
        return None
    if len(words) != 5 or words[3] not in ("u32", "s32") or one.sources[1] != 0:
        return None
    said = maker(one.sources[2], last)
    if said is None or said.guard or any(isinstance(source, str) for source in said.sources):
        return None
    if _mask(one.sources[0], last) is None:
        return None
    return [
        assign(f"setp.ne.{words[4]}", CHOSEN, *one.sources[:2]),
        assign(f"{words[2]}.pred", CHOSEN, CHOSEN, one.sources[2]),
        assign("selp.b32", one.destinations[0], 0, 0xFFFF_FFFF, CHOSEN, guard=one.guard),
    ]


def _unshifted(one: Assign, last: Last) -> list[Statement] | None:
    value, amount = one.sources if one.opcode == "shl.b64" else (0, 0)
    by, places = maker(value, last), constant_of(amount, last)
    if by is None or by.opcode not in PRODUCTS or by.guard or places is None or places < 64:
        return None
    constant = [isinstance(source, int) for source in by.sources]
    if not any(constant[:2]) or not all(constant[2:]):
        return None
    return [replace(one, opcode="mov.b64", sources=(value,))]


def _rotated(one: Assign, last: Last) -> list[Statement] | None:
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


def _is_odd(source: str | int, last: Last, depth: int = DEPTH) -> bool:
    """Whether a compiler finds out that a register is odd."""
    by = maker(source, last)
    if by is None or not depth:
        return False
    if by.opcode == "or.b32" and not by.guard:
        return any(isinstance(one, int) and one % 2 for one in by.sources)
    return _is_odd_product(source, last, depth)


def _is_odd_product(source: str | int, last: Last, depth: int = DEPTH) -> bool:
    """Whether that is because both factors of a product are odd."""
    by = maker(source, last)
    if by is None or by.guard or by.opcode not in ("mul.lo.s32", "mul.lo.u32"):
        return False
    return all(_is_odd(one, last, depth - 1) for one in by.sources)


def _even(one: Assign, last: Last) -> list[Statement] | None:
    if len(one.sources) < 2 or not _is_odd_product(one.sources[0], last):
        return None
    (result,), constant = one.destinations[:1], one.sources[1]
    match one.opcode, constant:
        case ("and.b32", 1) | ("shl.b32", 31) | ("mul.lo.s32" | "mul.lo.u32", 0x8000_0000):
            return [assign("mov.b32", result, 0, guard=one.guard)]
        case "or.b32", 1:
            return [replace(one, opcode="add.u32")]
        case ("mad.wide.s32" | "mad.wide.u32", 0x8000_0000):
            return [one, assign("sub.u64", result, result, constant, guard=one.guard)]
    return None


def _without_sign(one: Assign, _: Last) -> list[Statement] | None:
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


def _apart(one: Assign, last: Last) -> list[Statement] | None:
    words = one.opcode.split(".", 2)
    if words[:2] != ["redux", "sync"] or one.sources[1] != 0xFFFF_FFFF:
        return None
    if any(by.row.warp for several in last.values() for by in several):
        return None
    value, result = one.sources[0], one.destinations[0]
    return [
        assign("setp.eq.u32", CHOSEN, LANE, 0),
        assign("selp.b32", FIRST, _NEUTRAL.get(words[2], 0), value, CHOSEN),
        replace(one, destinations=(FIRST,), sources=(FIRST, *one.sources[1:])),
        assign("selp.b32", result, value, FIRST, CHOSEN),
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
    return [*(assign("mov.b32", _copy(one, source), source) for source in distinct), one]


def _readers(one: Assign, last: Last) -> Iterator[tuple[Assign, str | int]]:
    """Yield what has made a source of an and, or or xor, with the other source."""
    if one.opcode in _LOGIC:
        for name, other in (one.sources, one.sources[::-1]):
            for made in last.get(str(name), ()):
                if not made.guard:
                    yield made, other


def _both(
    one: Assign, last: Last, *, by: str | int = 0, dead: bool = False, later: Collection[str] = ()
) -> tuple[Assign, Assign] | None:
    """Return a lop3 of one source twice, merged with what reads it and a source of it, and that.

    `by` stands for one of the two. With `dead`, that source is written between them in arms that
    no lane takes, which a compiler finds out; `later` is what is written behind the reader alone.
    """
    for made, other in _readers(one, last):
        places, sources = _twice(made), made.sources[:3]
        if not places or other not in sources or other in made.destinations:
            continue
        written = written_since(made, last)
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
        lop3 = assign("lop3.b32", FIRST, *kept, made.sources[3])
        return lop3, replace(one, sources=(FIRST, now.get(str(other), other)))
    return None


def _emptied(one: Assign, last: Last, *, dead: bool = False) -> list[Statement] | None:
    both = _both(one, last, dead=dead)
    return _kept(one) if both is None else [*both]


def _reused(one: Assign, last: Last) -> list[Statement] | None:
    for reader, other in _readers(one, last):
        both = _both(reader, last, by=other, later=written_since(reader, last))
        if both is not None and isinstance(other, str):
            lop3, read = both
            read = replace(read, destinations=(SECOND,))
            return [lop3, read, replace(one, sources=(SECOND, other))]
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
        ptx="TURN: cnot.b32 %r2, %r1; cvt.rmi.s16.f32 %h0, %r2; @%p0 st.global.b16 [%rd1], %h0;",
        section="1 or 0, converted from f32",
        rewrite=_counted_narrow,
    ),
    Cause(
        name="1 or 0 that a predicate chooses is converted from f32 as a number",
        ptx="cnot.b16 %h1, %h0; cnot.b16 %h2, %h1; cvt.rmi.bf16.bf16 %h3, %h2;",
        section="1 or 0, converted from f32",
        rewrite=_counted_half,
    ),
    Cause(
        name="a NaN that becomes 64 bits and saturates to 32 becomes 32 bits at once",
        ptx="cvt.rni.s64.f32 %d1, %f1; cvt.sat.s32.s64 %r1, %d1;",
        section="A NaN that becomes 64 bits and saturates",
        rewrite=_narrowed,
    ),
    Cause(
        name="madc.hi of 64 bits adds its second factor",
        ptx="add.cc.u32 %r5, 1, 2; madc.hi.u64 %d5, %d1, %d2, %d3;",
        section="madc.hi of 64 bits adds its second factor",
        rewrite=_second_factor,
    ),
    Cause(
        name="a cnot is negated behind the xor with a mask rather than before it",
        ptx="cnot.b32 %r2, %r0; selp.b32 %r3, -1, 0, %p0; xor.b32 %r4, %r2, %r3;",
        section="A cnot and the xor with a mask",
        rewrite=_complemented,
    ),
    Cause(
        name="a u32 is extended with its sign in front of a shift",
        ptx="cvt.s64.u32 %d1, %r1; shl.b64 %d2, %d1, 4;",
        section="cvt.s64.u32 extends the sign",
        rewrite=_signed_word,
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
        name=_TAKEN,
        ptx="@%p0 bra NO; neg.f32 %f1, %f0; NO: neg.ftz.f32 %f2, %f0;",
        section="neg.ftz.f32 is taken for neg.f32",
        rewrite=_negated,
    ),
    Cause(
        name=_TAKEN_FLUSHING,
        ptx="neg.ftz.f32 %f2, %f0; @%p0 bra NO; neg.f32 %f1, %f0; NO:",
        section="neg.ftz.f32 is taken for neg.f32",
        rewrite=_negated_flushing,
    ),
    *(
        Cause(
            name=name,
            ptx="TURN: @%p0 bra NO; neg.ftz.f32 %f1, %r5; bra JOIN; NO: neg.f32 %f2, 0f00000001;",
            section="neg.ftz.f32 is taken for neg.f32",
            rewrite=partial(_of_constant, rewrite),
            folds=True,
            unrolls=True,
        )
        for name, rewrite in ((_TAKEN, _negated), (_TAKEN_FLUSHING, _negated_flushing))
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
)
"""Defects that show at an instruction, and what has written its sources."""
