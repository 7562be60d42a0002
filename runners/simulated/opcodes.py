"""What decodes a row of scalar instructions, and what executes it.

How a row is written, `runners.simulated.scalar` says.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from runners.simulated import integers
from runners.simulated.integers import Qualifiers
from runners.simulated.operands import SINK, FromRegister, OperandReader, Source
from runners.simulated.syntax import TYPE_BITS, ImmediateText, Name, Operand, Pair, VectorText
from runners.simulated.warps import DTYPES, LANES, Key, Mask, Operation, Values, WarpState, constant

Compute = Callable[..., Any]
Decode = Callable[[OperandReader, Qualifiers, Any], Operation]
Target = tuple[str, np.dtype[Any]]
"""Key and dtype of a register that is written."""

_CLASSES = {"rnd": "rn rz rm rp", "irnd": "rni rzi rmi rpi", "bool": "and or xor"}
_CLASSES |= {"part": "lo hi", "mode": "clamp wrap", "atype": "u32 s32", "btype": "u32 s32"}
_WITH_SYNC = (6, 4)
_CARRY, _BORROW = "CC.CF", "CC.CF of subtractions"
"""Keys of the carry flag among the registers: as additions, and as subtractions read it."""
_SAME_BITS = (np.add, np.subtract, np.multiply, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
"""What gives the same bits for signed numbers as for unsigned ones."""

QUALIFIER = re.compile(r"\{\.([^}]*)\}|\.?([\w:]+)")
_SLOT = re.compile(r"(\{?)([,|]?) *(\w+)(?::(\w+))?([+?]?)\}? *")


class OperandSlot(NamedTuple):
    """An operand of a row."""

    name: str
    optional: str  # a comma or `|` that stands in front, where it may be left out
    is_target: bool
    mark: str
    type: str
    bits: int = 0
    dtype: np.dtype[Any] = DTYPES[1]  # of its numbers, unsigned unless the type is signed

    def of(self, q: Qualifiers) -> "OperandSlot":
        """Return it with the type that it has in an instruction."""
        kind = q[self.type] or self.type
        if kind == "imm8":
            return self
        bits = TYPE_BITS.get(kind, 32)
        dtype = np.dtype(f"i{bits // 8}") if kind[0] == "s" else DTYPES[min(bits, 64)]
        return self._replace(type=kind, bits=bits, dtype=dtype)


class ScalarOp:
    """A row: the opcode and its operands, as said above.

    `compute` takes arrays of the operands' values, signed where their type is: a ufunc, or a
    function that is given the qualifiers first, and then, where the `lanes` of a warp know of each
    other, (32, warps) flags of those that take part. It returns what is written, in any dtype of
    the width: an array, or one for each target. Halves that are packed are computed apart.
    `otherwise` is what the ISA permits as well. `decode` decodes what is no such row.

    `needs` has the lowest architecture by the type of an element, where that is above sm_70;
    `until` the one of a module from which on there is no such instruction since PTX ISA 6.4
    (9.7.9.6, 9.7.13.9). `classes` are the words that may stand for a name, with blanks between.
    """

    def __init__(
        self, syntax: str, compute: Compute = lambda *_: (), *, decode: Decode | None = None,
        needs: Mapping[str, int] | None = None, until: int | None = None, lanes: bool = False,
        otherwise: Compute | None = None, **classes: str,
    ) -> None:  # fmt: skip
        self._computes = compute, otherwise or compute
        self._needs, self._lanes, self.until = needs or {}, lanes, until
        self.decode = decode or self._decode
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

    def _decode(
        self, operands: OperandReader, q: Qualifiers, slots: Sequence[OperandSlot]
    ) -> Operation:
        if self._needs:
            operands.need(self._needs.get(q["element"], 0))
        target, version = operands.silicon.target, operands.frame.version
        if self.until and target.architecture >= self.until and version >= _WITH_SYNC:
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
                    subtracts = self.stem.startswith("sub")
                    sources.append(FromRegister(_BORROW if subtracts else _CARRY))
                    seen.append(slot.dtype)
                continue
            operand, wide = given.pop(0), slot.mark == "+"
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
                q = Qualifiers(q, **{slot.name: operand.value})
            else:
                operands.unsupported(f"the {slot.name} is a constant from 0 to 255")
        compute = self._on_bits(self._computes[operands.silicon.otherwise], q, seen)
        if self._lanes:
            return _among_lanes(targets, compute, sources, self.waits)
        if extended:
            compute = partial(extended, compute)
        return _written(targets, compute, sources)

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
        if all(dtype == seen[0] for dtype in seen):
            dtype = seen[0]
            return lambda *values: compute(*[value.view(dtype) for value in values])
        return lambda *values: compute(*map(np.ndarray.view, values, seen))


def _by_halves(compute: Compute, kind: str, *words: Values) -> Any:
    """Apply a computation to the low and the high half of words."""
    halves = compute(*[integers.parts(word, f"{kind}{word.itemsize // 2}") for word in words])
    return np.ascontiguousarray(halves).view(words[0].dtype)[..., 0]


def _extended(dtype: np.dtype[Any], bits: int, compute: Compute, *values: Values) -> Any:
    """Extend a result by its type's sign, as a register of more bits holds it (PTX ISA 9.4.1)."""
    return np.asarray(compute(*values)).view(dtype).astype(f"{dtype.kind}{bits // 8}")


def _written(targets: Sequence[Target], compute: Compute, sources: Sequence[Source]) -> Operation:
    """Return the operation that writes to registers what is computed of the sources."""
    keys = [source.key for source in sources if isinstance(source, FromRegister)]
    held = len(keys) == len(sources)
    if held and isinstance(compute, np.ufunc) and len(keys) == 2:
        compute, keys = _beside_constant(compute, *keys)
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


def _beside_constant(compute: Compute, left: Key, right: Key) -> tuple[Compute, list[Key]]:
    """Return what computes with one of two operands, if the other is a constant, and its keys.

    A constant is an array of no axes then: beside others, NumPy is faster with it.
    """
    if isinstance(right, tuple) and isinstance(left, str):
        second = constant(*right).reshape(())
        return lambda value: compute(value, second), [left]
    if isinstance(left, tuple) and isinstance(right, str):
        first = constant(*left).reshape(())
        return lambda value: compute(first, value), [right]
    return compute, [left, right]


def _among_lanes(
    targets: Sequence[Target], compute: Compute, sources: Sequence[Source], waits: bool
) -> Operation:
    """Return the operation of an instruction by which the lanes of a warp know of each other.

    Lanes that the mask of members does not name, and lanes that are elsewhere, have no say.
    """

    def run(warps: WarpState, mask: Mask) -> None:
        whole = (LANES, warps.indices.size)
        part = np.broadcast_to(np.True_ if mask is None else mask, whole)
        values = [np.broadcast_to(source(warps), whole) for source in sources]
        if waits:
            part = part & integers.flags(values.pop())
        results = compute(part, *values)
        for (key, dtype), result in zip(
            targets, results if type(results) is tuple else (results,), strict=False
        ):
            warps.write(key, np.asarray(result).view(dtype), mask)

    return run


def move(operands: OperandReader, q: Qualifiers, _: Any) -> Operation:
    """Decode mov: of a register, of a vector of them, or between a word and its parts."""
    bits = TYPE_BITS[q["type"]]
    given, origin = operands.expect(2)
    if q["v"] or bits == 128:
        count = int(q["v"][1:] or 2)
        bits = min(bits, 64)
        keys = operands.registers(given, count, bits)
        sources = [operands.source(e, bits, copied=True) for e in operands.parts(origin, count)]
        return _written([(key, DTYPES[bits]) for key in keys], lambda *parts: parts, sources)
    vector = given if isinstance(given, VectorText) else origin
    if not isinstance(vector, VectorText):
        name, only = operands.destination(given, bits), operands.source(origin, bits, copied=True)
        return lambda warps, mask: warps.write(name, only(warps), mask)
    count = len(vector.parts)
    part, dtype = bits // count, DTYPES[bits]
    if bits % (8 * count):
        operands.unsupported(f"{count} parts in {bits} bits")
    if isinstance(given, VectorText):
        targets = [(operands.destination(each, part), DTYPES[part]) for each in given.parts]
        places = [dtype.type(place) for place in range(0, bits, part)]
        source = operands.source(origin, bits, copied=True)

        def split(whole: Values) -> Any:
            return tuple((whole >> place).astype(DTYPES[part]) for place in places)

        return _written(targets, split, [source])
    sources = [operands.source(each, part, copied=True) for each in vector.parts]

    def joined(whole: Values, *more: Values) -> Any:
        whole = whole.astype(dtype)
        for place, each in enumerate(more, 1):
            whole = whole | (each.astype(dtype) << dtype.type(place * part))
        return whole

    return _written([(operands.destination(given, bits), dtype)], joined, sources)


def video(operands: OperandReader, q: Qualifiers, slots: Sequence[OperandSlot]) -> Operation:
    """Decode a video instruction: behind its operands stands what is selected of them."""
    plain: list[Operand] = []
    chosen = []
    for operand in operands.instruction.operands:
        match = integers.SELECTED.fullmatch(operand.text) if isinstance(operand, Name) else None
        plain.append(operand if match is None else Name(match[1]))
        chosen.append("" if match is None else match[2])
    if not integers.selects(q, chosen):
        operands.unsupported("what is selected of its operands does not fit it, or c does not")
    target = operands.destination(plain[0], 32), DTYPES[32]
    sources = [operands.source(operand, 32) for operand in plain[1:]]
    return _written([target], partial(integers.video, q, chosen), sources)
