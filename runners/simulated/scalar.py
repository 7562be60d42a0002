"""Rows of the instructions that each thread executes for itself: how they are decoded and executed.

A row is written as the ISA writes an instruction, `@op("bfe", ".type d, a, b:u32, c:u32", ...)`
above the function of its operands, in `runners.simulated.integers` or `.floating`. Source: PTX ISA
9.7.1 to 9.7.9, 9.7.13 for the lanes of a warp, 9.7.18 video.

Qualifiers: what stands for a name, such as `type`, the row says, or `_CLASSES`; all others are what
they are. What is in braces may be left out.

Operands: `d` or `p` is written, and so is what follows a `|`. Behind the colon is the type, where
it is not that of `type`: one of the ISA's, or the name of a qualifier that is one. `+` lets a
register have more bits (9.4.1), `?` lets one be copied that was never written. CC is the carry flag
(9.7.2), which no text names; `imm8` is a constant. The lanes that `m` names wait for each other.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from itertools import permutations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runners.simulated.operands import SINK, FromRegister, OperandReader, Source
from runners.simulated.syntax import TYPE_BITS, ImmediateText, Name, Operand, Pair
from runners.simulated.warps import (
    DTYPES,
    LANE_NUMBERS,
    LANES,
    Mask,
    Operation,
    RegisterFile,
    Values,
    WarpState,
    poison,
)

Compute = Callable[..., Any]
Flags = NDArray[np.bool_]
Qualifiers = defaultdict[str, Any]
"""Of an opcode: the word for each name in the pattern of its row, empty where there is none."""
Target = tuple[str, np.dtype[Any]]
"""Key and dtype of a register that is written."""

APPROXIMATE = re.compile(r"\w+\.(?:approx|full)\b")
"""Instructions of which the ISA bounds the error, and does not say the bits."""
_CLASSES = {"rnd": "rn rz rm rp", "irnd": "rni rzi rmi rpi", "bool": "and or xor"}
_CLASSES |= {"part": "lo hi", "mode": "clamp wrap", "atype": "u32 s32", "btype": "u32 s32"}
_CARRY, _BORROW = "CC.CF", "CC.CF of subtractions"
"""Keys of the carry flag among the registers: as additions, and as subtractions read it."""
_SAME_BITS = (np.add, np.subtract, np.multiply, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
"""What gives the same bits for signed numbers as for unsigned ones."""
LANE_BITS = np.uint64(1) << LANE_NUMBERS.astype(np.uint64)

QUALIFIER = re.compile(r"\{\.([^}]*)\}|\.?([\w:]+)")
_SLOT = re.compile(r"(\{?)([,|]?) *(\w+)(?::(\w+))?([+?]?)\}? *")
_TYPE = re.compile(r"(?:[busf]|bf|tf)\d+(?:x2)?|e\dm\dx2|pred")
_MOST_WORDS = 6  # of an opcode whose orders are tried


class OperandSlot(NamedTuple):
    """An operand of a row."""

    name: str
    optional: str  # a comma or `|` that stands in front, where it may be left out
    is_target: bool
    mark: str
    type: str
    bits: int = 0
    dtype: np.dtype[Any] = DTYPES[1]  # of its numbers, unsigned unless the type is signed


def _typed(slot: OperandSlot, q: Qualifiers) -> OperandSlot:
    """Return a slot with the type that it has in an instruction."""
    kind = q[slot.type] or slot.type
    if kind == "imm8":
        return slot
    bits = TYPE_BITS.get(kind, 32)
    dtype = np.dtype(f"i{bits // 8}") if kind[0] == "s" else DTYPES[min(bits, 64)]
    return slot._replace(type=kind, bits=bits, dtype=dtype)


def parts(words: Values, dtype: str) -> Any:
    """Return the parts of words, the low ones first, along an axis of their own."""
    return np.ascontiguousarray(words)[..., None].view(dtype)


class ScalarOp:
    """A row: the opcode and its operands, as said above.

    `compute` takes arrays of the operands' values, signed where their type is: a ufunc, or a
    function that is given the qualifiers first, and then, where the `lanes` of a warp know of each
    other, (32, warps) flags of those that take part. It returns what is written, in any dtype of
    the width: an array, or one for each target. Halves that are packed are computed apart.
    `otherwise` is what the ISA permits as well. `needs` has the lowest architecture by the type of
    an element, where that is above sm_70; `until` the one from which on there is no such
    instruction since PTX ISA 6.4 (9.7.9.6, 9.7.13.9). `classes` are the words that may stand for a
    name, with blanks between. `selects` has patterns of what an instruction may select of d, and of
    a and b, as `%r1.b0`: qualifiers by the operand's name.
    """

    def __init__(
        self, syntax: str, compute: Compute, *, needs: Mapping[str, int] | None = None,
        until: int | None = None, lanes: bool = False, otherwise: Compute | None = None,
        selects: tuple[str, str] | None = None, **classes: str,
    ) -> None:  # fmt: skip
        self._computes = compute, otherwise or compute
        self._needs, self._lanes, self.until = needs or {}, lanes, until
        self._selects = selects
        self.opcode, _, listed = syntax.partition(" ")
        self.stem = re.split(r"[.{]", self.opcode)[0]
        self.classes = _CLASSES | classes
        self.slots = []
        for brace, joint, name, kind, mark in _SLOT.findall(listed):
            is_target = name in ("d", "p") or joint == "|"
            kind = kind or {"m": "u32", "CC": "pred"}.get(name, "type")
            self.slots.append(OperandSlot(name, brace and joint, is_target, mark, kind))
        most = 1 + listed.count(",") - listed.count(", CC")
        self.counts = range(most - ("{," in listed), most + 1)
        paired = re.search(r"\|[pq]", listed) is not None
        self._pairs = (paired, paired and "{|" not in listed)
        self.waits = self.slots[-1].name == "m"

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What its opcode fits, with a group for each name and all that is in braces.

        For the hundreds at once it takes 50 ms of every start.
        """
        found = ""
        for braced, plain in QUALIFIER.findall(self.opcode):
            inner = ""
            for word in (braced or plain).split("."):
                dot = "\\." if found or inner else ""
                choice = "|".join(self.classes.get(word, "").split())
                inner += f"{dot}(?P<{word}>{choice})" if choice else dot + word
            name = braced.partition(".")[0]
            if not plain:
                group = "?:" if name in self.classes else f"?P<{name}>"
                inner = f"({group}{inner})?"
            found += inner
        return re.compile(found)

    def fits(self, given: Sequence[Operand]) -> bool:
        """Return whether these may be the operands, by their number and by what is `p|q`."""
        return len(given) in self.counts and isinstance(given[0], Pair) in self._pairs

    def decode(
        self, operands: OperandReader, q: Qualifiers, slots: Sequence[OperandSlot]
    ) -> Operation:
        """Return what an instruction of this row does."""
        operands.need(self._needs.get(q["element"], 0))
        target, version = operands.silicon.target, operands.frame.version
        if self.until and target.architecture >= self.until and version >= (6, 4):
            operands.lacks(f"a .target below sm_{self.until}, or PTX ISA before 6.4")
        given: list[Operand] = list(operands.instruction.operands)
        paired = isinstance(first := given[0], Pair)
        if isinstance(first, Pair):
            given[:1] = [first.first, first.second]
        targets: list[Target] = []
        sources: list[Source] = []
        seen: list[np.dtype[Any]] = []
        extended = None
        for slot in slots:
            if slot.optional and (not paired if slot.optional == "|" else not given):
                continue
            if slot.name == "CC":
                if slot.is_target:
                    targets += [(_CARRY, slot.dtype), (_BORROW, slot.dtype)]
                else:
                    sources.append(FromRegister(_BORROW if self.stem == "subc" else _CARRY))
                    seen.append(slot.dtype)
                continue
            operand, wide = given.pop(0), slot.mark == "+"
            if self._selects and slot.name in "dab" and isinstance(operand, Name):
                register, _, part = operand.text.rpartition(".")
                if register and re.fullmatch(self._selects[slot.name != "d"], part):
                    operand, q = Name(register), q | {slot.name: part}
            if slot.is_target:
                key, bits = operands.destination(operand, slot.bits, wider=wide), slot.bits
                if wide and isinstance(operand, Name) and key != SINK:
                    bits = operands.width(operand.text)
                if bits != slot.bits:
                    extended = partial(_extended, slot.dtype, bits)
                targets.append((key, DTYPES[bits]))
            elif slot.bits:
                copied = slot.mark == "?"
                sources.append(operands.source(operand, slot.bits, wider=wide, copied=copied))
                seen.append(slot.dtype)
            elif isinstance(operand, ImmediateText) and 0 <= operand.value <= 0xFF:
                q = q | {slot.name: operand.value}
            else:
                operands.unsupported(f"the {slot.name} is a constant from 0 to 255")
        compute = self._on_bits(self._computes[operands.silicon.otherwise], q, seen)
        if self._lanes:
            return _among_lanes(targets, compute, sources, self.waits)
        return written(targets, partial(extended, compute) if extended else compute, sources)

    def _on_bits(self, compute: Compute, q: Qualifiers, seen: Sequence[np.dtype[Any]]) -> Compute:
        """Return a computation on operands as registers hold them."""
        if not isinstance(compute, np.ufunc):
            compute = partial(compute, q)
        if q["type"] != q["element"] and self.slots[0].type == "type":
            return partial(_by_halves, compute, "i" if q["type"][0] == "s" else "u")
        if self._lanes:
            seen = [DTYPES[1], *seen]
        if "i" not in [dtype.kind for dtype in seen] or compute in _SAME_BITS:
            return compute
        return lambda *values: compute(*map(np.ndarray.view, values, seen))


def _by_halves(compute: Compute, kind: str, *words: Values) -> Any:
    halves = compute(*[parts(word, f"{kind}{word.itemsize // 2}") for word in words])
    return np.ascontiguousarray(halves).view(words[0].dtype)[..., 0]


def _extended(dtype: np.dtype[Any], bits: int, compute: Compute, *values: Values) -> Any:
    """Extend a result by its type's sign, as a register of more bits holds it (PTX ISA 9.4.1)."""
    return np.asarray(compute(*values)).view(dtype).astype(f"{dtype.kind}{bits // 8}")


def written(targets: Sequence[Target], compute: Compute, sources: Sequence[Source]) -> Operation:
    """Return the operation that writes to registers what is computed of the sources."""
    keys = [source.key for source in sources if isinstance(source, FromRegister)]
    held = len(keys) == len(sources)
    target, dtype = targets[0]

    def run(warps: WarpState, mask: Mask) -> None:
        # Most operands are held, most threads take part, and most results are raw already.
        if held:
            result = compute(*map(warps.registers.__getitem__, keys))
        else:
            result = compute(*[source(warps) for source in sources])
        if type(result) is tuple:
            for (key, raw), value in zip(targets, result, strict=False):
                warps.write(key, value.view(raw), mask)
            return
        if result.dtype is not dtype:
            result = result.view(dtype)
        if mask is None:
            warps.registers[target] = result
        else:
            warps.write(target, result, mask)

    return run


def _among_lanes(
    targets: Sequence[Target], compute: Compute, sources: Sequence[Source], waits: bool
) -> Operation:
    """Return the operation of an instruction by which the lanes of a warp know of each other.

    Lanes that the mask of members does not name, and lanes that are elsewhere, have no say.
    """

    def run(warps: WarpState, mask: Mask) -> None:
        whole, held = (LANES, warps.indices.size), warps.registers
        part = np.broadcast_to(np.True_ if mask is None else mask, whole)
        if waits and warps.watched and mask is not None:
            warps.registers = RegisterFile()
            warps.registers.shown = lambda key: np.where(
                mask, held[key], poison(held[key].dtype, warps.garbage, key)
            )
        values = [np.broadcast_to(source(warps), whole) for source in sources]
        warps.registers = held
        if waits:
            part = part & ((values.pop().astype(np.uint64) & LANE_BITS) != 0)
        results = compute(part, *values)
        for (key, dtype), result in zip(
            targets, results if type(results) is tuple else (results,), strict=False
        ):
            warps.write(key, np.asarray(result).view(dtype), mask)

    return run


ROWS: list[ScalarOp] = []
"""Every instruction that is known. Where several fit, the first is taken."""
_BY_STEM: dict[str, list[ScalarOp]] = {}


def op(names: str, *syntaxes: str, **options: Any) -> Callable[[Compute], Compute]:
    """Return what adds rows for a function: each name, in front of each syntax."""

    def add(compute: Compute) -> Compute:
        for name, syntax in product(names.split(), syntaxes):
            row = ScalarOp(name + syntax, compute, **options)
            ROWS.append(row)
            _BY_STEM.setdefault(row.stem, []).append(row)
        return compute

    return add


def ops(syntax: str, computes: Mapping[str, Compute], **options: Any) -> None:
    """Add a row for each function, by its name."""
    for name, compute in computes.items():
        op(name, syntax, **options)(compute)


@lru_cache(maxsize=4096)
def rows_of(opcode: str) -> tuple[tuple[ScalarOp, Qualifiers, list[OperandSlot]], ...]:
    """Return the rows that an opcode has, its qualifiers and the operands that these ask for."""
    stem, *given = opcode.split(".")
    rows = _BY_STEM.get(stem, [])
    types = [word for word in given if _TYPE.fullmatch(word)]
    last = next((word for word in reversed(given) if word in TYPE_BITS), "")
    # As ptxas reads them, in every order that leaves types in theirs: headers have min.s16x2.relu.
    for words in permutations(given) if rows and len(given) <= _MOST_WORDS else [given]:
        if [word for word in words if _TYPE.fullmatch(word)] != types:
            continue
        opcode, found = ".".join((stem, *words)), []
        for row in rows:
            if match := row.pattern.fullmatch(opcode):
                named = {name: text.lstrip(".") for name, text in match.groupdict("").items()}
                q = defaultdict(str, {"op": stem, "type": last} | named)
                q["element"] = q["type"].removesuffix("x2")
                found.append((row, q, [_typed(slot, q) for slot in row.slots]))
        if found:
            return tuple(found)
    return ()


def decode_scalar(operands: OperandReader) -> tuple[Operation, Source | None] | None:
    """Return what an instruction does, and the lanes that wait for each other at it, if any.

    None if it is none of these.
    """
    given = operands.instruction.operands
    found = rows_of(operands.instruction.opcode)
    for row, q, slots in found:
        if given and row.fits(given):
            members = operands.source(given[-1], 32) if row.waits else None
            return row.decode(operands, q, slots), members
    if found:
        operands.expect(*sorted({count for row, _, _ in found for count in row.counts}))
        operands.unsupported("p|q is not what it writes, or what it has to write")
    return None


# Instructions by which the lanes of a warp know of each other (9.7.9.6, 9.7.13). They are given,
# too, (32, warps) flags of the lanes that take part: those that are active, and named by the mask.

op("bar.warp.sync", " m", lanes=True)(lambda *_: ())
# Who is active beside a lane is open (9.7.13.9).
op("activemask", ".b32 d", lanes=True, otherwise=lambda _, part: (
    np.broadcast_to(LANE_BITS, part.shape).astype(np.uint32)))(
        lambda q, part: _ballot(q, part))  # fmt: skip


@op("vote.ballot", ".b32 d, a:pred", lanes=True, until=70)
@op("vote.sync.ballot", ".b32 d, a:pred, m", lanes=True)
def _ballot(_: Qualifiers, part: Flags, *held: Values) -> Any:
    """Return (1, warps) words with a bit for each lane that takes part and holds true."""
    true = part & held[0] if held else part
    return np.where(true, LANE_BITS, np.uint64(0)).sum(axis=0, keepdims=True).astype(np.uint32)


@op("vote", ".mode.pred p:pred, a:pred", lanes=True, until=70, mode="all any uni")
@op("vote.sync", ".mode.pred p:pred, a:pred, m", lanes=True, mode="all any uni")
def _vote(q: Qualifiers, part: Flags, held: Values) -> Any:
    yes = (held & part).any(axis=0, keepdims=True)
    no = (~held & part).any(axis=0, keepdims=True)
    return {"any": yes, "all": ~no, "uni": ~(yes & no)}[q["mode"]]


def _elect(_: Qualifiers, part: Flags, *, highest: bool = False) -> tuple[Any, Any]:
    """Choose the lowest or highest of the lanes that take part: which one is open (9.7.13.17)."""
    leader = (LANES - 1 - part[::-1].argmax(axis=0) if highest else part.argmax(axis=0))[None]
    return leader.astype(np.uint32), leader == LANE_NUMBERS


op("elect.sync", " d:u32|p:pred, m", lanes=True, otherwise=partial(_elect, highest=True))(_elect)
op("elect.sync", " p:pred, m", lanes=True, otherwise=lambda q, part: (
    _elect(q, part, highest=True)[1]))(lambda q, part: _elect(q, part)[1])  # fmt: skip

_REDUCE = {
    "add": (np.add, ""), "min": (np.minimum, "max"), "max": (np.maximum, "min"),
    "and": (np.bitwise_and, "max"), "or": (np.bitwise_or, ""), "xor": (np.bitwise_xor, ""),
}  # fmt: skip
"""Each with what changes nothing: a limit of the type, or zero."""


@op("redux.sync", ".name.type d, a, m", lanes=True, name="add min max", type="u32 s32")
@op("redux.sync", ".name.b32 d, a, m", lanes=True, name="and or xor")
def _reduce(q: Qualifiers, part: Flags, held: Values) -> Any:
    compute, limit = _REDUCE[q["name"]]
    neutral = getattr(np.iinfo(held.dtype), limit) if limit else 0
    held = np.where(part, held, held.dtype.type(neutral))
    return compute.reduce(held, axis=0, keepdims=True, dtype=held.dtype)


@op("match", ".mode.sync.type d:u32, a, m", lanes=True, mode="any all", type="b32 b64")
@op("match", ".mode.sync.type d:u32|p:pred, a, m", lanes=True, mode="all", type="b32 b64")
def _match(q: Qualifiers, part: Flags, held: Values) -> tuple[Any, Any]:
    """Find the lanes that hold the same value, and whether all do."""
    same = np.concatenate([_ballot(q, part, held == held[lane]) for lane in range(LANES)])
    everybody = _ballot(q, part)
    agree = np.where(part, same == everybody, True).all(axis=0, keepdims=True)
    return same if q["mode"] == "any" else np.where(agree, everybody, np.uint32(0)), agree


@op("shfl", ".mode.b32 d{|p:pred}, a, b, c", lanes=True, until=70, mode="up down bfly idx")
@op("shfl.sync", ".mode.b32 d{|p:pred}, a, b, c, m", lanes=True, mode="up down bfly idx")
def _shuffle(q: Qualifiers, _: Flags, held: Values, by: Values, bound: Values) -> tuple[Any, Any]:
    """Give each lane the register of another; say whether there is such a lane in its segment."""
    lane = LANE_NUMBERS
    by, bound = by.astype(np.int64) & 0x1F, bound.astype(np.int64)
    segment = (bound >> 8) & 0x1F
    highest = (lane & segment) | (bound & 0x1F & ~segment)
    partner = {
        "up": lane - by,
        "down": lane + by,
        "bfly": lane ^ by,
        "idx": (lane & segment) | (by & ~segment),
    }[q["mode"]]
    valid = partner >= highest if q["mode"] == "up" else partner <= highest
    return np.take_along_axis(held, np.where(valid, partner, lane), axis=0), valid
