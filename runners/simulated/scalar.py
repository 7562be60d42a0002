"""The per-thread integer, logical, comparison and data movement instructions.

Source: PTX ISA 9.7.1 (integer arithmetic), 9.7.6 (comparison and selection), 9.7.8 (logic and
shift), 9.7.9 (data movement). Only what addresses, loops and copies around matrix instructions
need is here.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from runners.simulated.memory import SHARED_WINDOW
from runners.simulated.operands import Operands, Source
from runners.simulated.syntax import TYPE_BITS, Address, Vector
from runners.simulated.warps import DTYPES, LANES, Mask, Operation, Values, Warps

_INTEGER = r"(?P<type>[bus](?:16|32|64))"

_BINARY: dict[str, Callable[[Values, Values], Values]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul.lo": np.multiply,
    "rem": np.remainder,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
}
_COMPARE: dict[str, Callable[[Values, Values], Values]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
# Aliases of the unsigned comparisons (PTX ISA 9.3.1.1).
_COMPARE |= {
    alias: _COMPARE[name]
    for alias, name in (("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge"))
}
_UNARY: dict[str, Callable[[Values], Values]] = {
    "not": np.invert,
    "neg": np.negative,
    "abs": np.abs,
}


def _numeric(kind: str) -> np.dtype[Any]:
    """Return the dtype in which an operation of this type calculates."""
    letter = "i" if kind[0] == "s" else "u"
    return np.dtype(f"{letter}{TYPE_BITS[kind] // 8}")


def _raw(values: Values, bits: int) -> Values:
    return values.view(DTYPES[bits]) if bits > 1 else values


def _store(
    operands: Operands, kind: str, compute: Callable[..., Values], *sources: Source
) -> Operation:
    """Return the operation that writes `compute` of the sources, seen as `kind`, to operand 0."""
    bits = TYPE_BITS[kind]
    target = operands.destination(operands.instruction.operands[0], bits)
    dtype = DTYPES[1] if bits == 1 else _numeric(kind)

    def run(warps: Warps, mask: Mask) -> None:
        seen = [
            values if values.dtype == DTYPES[1] else values.view(dtype)
            for values in (source(warps) for source in sources)
        ]
        warps.write(target, _raw(compute(*seen), bits), mask)

    return run


def _move(operands: Operands, match: re.Match[str]) -> Operation:
    kind = match["type"]
    bits = TYPE_BITS[kind]
    target, origin = operands.expect(2)
    if isinstance(target, Vector):
        return _unpack(operands, target, bits)
    if isinstance(origin, Vector):
        return _pack(operands, origin, bits)
    name = operands.destination(target, bits)
    source = operands.source(origin, bits)
    return lambda warps, mask: warps.write(name, source(warps), mask)


def _part_bits(operands: Operands, vector: Vector, bits: int) -> int:
    if bits % (8 * len(vector.parts)) or bits // len(vector.parts) < 16:
        operands.unsupported(f"{len(vector.parts)} parts in {bits} bits")
    return bits // len(vector.parts)


def _unpack(operands: Operands, target: Vector, bits: int) -> Operation:
    part = _part_bits(operands, target, bits)
    names = operands.registers(target, len(target.parts), part)
    source = operands.source(operands.instruction.operands[1], bits)

    def run(warps: Warps, mask: Mask) -> None:
        whole = source(warps)
        for i, name in enumerate(names):
            shifted = whole >> whole.dtype.type(i * part)
            warps.write(name, shifted.astype(DTYPES[part]), mask)

    return run


def _pack(operands: Operands, origin: Vector, bits: int) -> Operation:
    part = _part_bits(operands, origin, bits)
    name = operands.destination(operands.instruction.operands[0], bits)
    sources = [operands.source(each, part) for each in origin.parts]
    dtype = DTYPES[bits]

    def run(warps: Warps, mask: Mask) -> None:
        whole = sources[0](warps).astype(dtype)
        for i, source in enumerate(sources[1:], 1):
            whole = whole | (source(warps).astype(dtype) << dtype.type(i * part))
        warps.write(name, whole, mask)

    return run


def _binary(operands: Operands, match: re.Match[str]) -> Operation:
    name, kind = match["name"], match["type"]
    bits = TYPE_BITS[kind]
    _, left, right = operands.expect(3)
    compute = _BINARY[name]
    if name in ("shl", "shr"):
        # The amount has 32 bits whatever is shifted, and clamps at the width (PTX ISA 9.7.8.7),
        # which is what NumPy does with it.
        dtype = _numeric(kind)
        amount = operands.source(right, 32)
        return _store(
            operands,
            kind,
            compute,
            operands.source(left, bits),
            lambda warps: amount(warps).astype(dtype),
        )
    return _store(
        operands, kind, compute, operands.source(left, bits), operands.source(right, bits)
    )


def _unary(operands: Operands, match: re.Match[str]) -> Operation:
    kind = match["type"]
    _, origin = operands.expect(2)
    compute = np.logical_not if kind == "pred" else _UNARY[match["name"]]
    return _store(operands, kind, compute, operands.source(origin, TYPE_BITS[kind]))


def _multiply_add(operands: Operands, match: re.Match[str]) -> Operation:
    kind = match["type"]
    bits = TYPE_BITS[kind]
    _, left, right, addend = operands.expect(4)
    return _store(
        operands,
        kind,
        lambda a, b, c: a * b + c,
        operands.source(left, bits),
        operands.source(right, bits),
        operands.source(addend, bits),
    )


def _wide(operands: Operands, match: re.Match[str]) -> Operation:
    """Multiply to twice the width, with an addend of that width for mad."""
    kind = match["type"]
    bits = TYPE_BITS[kind]
    if bits == 64:
        operands.unsupported("no product of 128 bits exists")
    given = operands.expect(4 if match["name"] == "mad" else 3)
    double = f"{kind[0]}{2 * bits}"
    narrow, wide = _numeric(kind), _numeric(double)
    factors = [operands.source(each, bits) for each in given[1:3]]
    addends = [operands.source(each, 2 * bits) for each in given[3:]]
    target = operands.destination(given[0], 2 * bits)

    def run(warps: Warps, mask: Mask) -> None:
        left, right = (factor(warps).view(narrow).astype(wide) for factor in factors)
        total = left * right
        for addend in addends:
            total = total + addend(warps).view(wide)
        warps.write(target, total.view(DTYPES[2 * bits]), mask)

    return run


def _compare(operands: Operands, match: re.Match[str]) -> Operation:
    kind = match["type"]
    target, left, right = operands.expect(3)
    name = operands.destination(target, 1)
    sources = [operands.source(each, TYPE_BITS[kind]) for each in (left, right)]
    compute = _COMPARE[match["name"]]
    dtype = _numeric(kind)

    def run(warps: Warps, mask: Mask) -> None:
        seen = [source(warps).view(dtype) for source in sources]
        warps.write(name, compute(*seen), mask)

    return run


def _select(operands: Operands, match: re.Match[str]) -> Operation:
    bits = TYPE_BITS[match["type"]]
    target, one, other, choice = operands.expect(4)
    name = operands.destination(target, bits)
    sources = [operands.source(each, bits) for each in (one, other)]
    predicate = operands.source(choice, 1)

    def run(warps: Warps, mask: Mask) -> None:
        warps.write(name, np.where(predicate(warps), *(each(warps) for each in sources)), mask)

    return run


def _convert(operands: Operands, match: re.Match[str]) -> Operation:
    to, origin = match["to"], match["from"]
    target, given = operands.expect(2)
    name = operands.destination(target, TYPE_BITS[to])
    source = operands.source(given, TYPE_BITS[origin])
    dtypes = _numeric(origin), _numeric(to)

    def run(warps: Warps, mask: Mask) -> None:
        value = source(warps).view(dtypes[0]).astype(dtypes[1])
        warps.write(name, value.view(DTYPES[TYPE_BITS[to]]), mask)

    return run


def _generic_address(operands: Operands, match: re.Match[str]) -> Operation:
    """Convert between a window and generic addressing; global addresses are generic as they are."""
    target, given = operands.expect(2)
    name = operands.destination(target, 64)
    source = operands.source(given, 64)
    window = SHARED_WINDOW if match["space"].startswith("shared") else 0
    shift = np.uint64((-window if match["to"] else window) & 0xFFFF_FFFF_FFFF_FFFF)
    return lambda warps, mask: warps.write(name, source(warps) + shift, mask)


def parameter_key(name: str) -> str:
    """Return the key under which a parameter's value lies among the registers."""
    return f".param {name}"


def _parameter(operands: Operands, match: re.Match[str]) -> Operation:
    bits = TYPE_BITS[match["type"]]
    target, given = operands.expect(2)
    name = operands.destination(target, bits)
    types = {each.name: each.type for each in operands.entry.parameters}
    if not isinstance(given, Address) or given.base not in types or given.offset:
        operands.unsupported("only whole parameters of the entry are read")
    if TYPE_BITS[types[given.base]] != bits:
        operands.unsupported(f"parameter {given.base} is .{types[given.base]}")
    base, line = parameter_key(given.base), operands.line
    return lambda warps, mask: warps.write(name, warps.read(base, line), mask)


def _exchange(operands: Operands, match: re.Match[str]) -> Operation:
    """Give each lane the register of another: the one that operand 2 names, or differs by.

    Source: PTX ISA 9.7.9.6 (shfl.sync), `.idx` and `.bfly` over the whole warp.
    """
    target, given, which, clamp, members = operands.expect(5)
    name = operands.destination(target, 32)
    source, lanes = operands.source(given, 32), operands.source(which, 32)
    for operand, wanted in ((clamp, 0x1F), (members, 0xFFFF_FFFF)):
        if getattr(operand, "value", None) not in (wanted, wanted - (1 << 32)):
            operands.unsupported(f"only with clamp 0x1f and all lanes, not {operand}")
    line = operands.line

    def run(warps: Warps, mask: Mask) -> None:
        distance = lanes(warps)
        if distance.size != 1:
            operands.unsupported(f"line {line}: the lane is no constant")
        number = int(distance[0, 0])
        partner = np.full(LANES, number) if match["mode"] == "idx" else np.arange(LANES) ^ number
        value = source(warps)
        warps.write(name, value if value.shape[0] == 1 else value[partner], mask)

    return run


def _vote(operands: Operands, match: re.Match[str]) -> Operation:
    """Tell every lane whether a predicate holds in any lane of its warp, or in all.

    Source: PTX ISA 9.7.13.9 (vote.sync), over the whole warp.
    """
    target, given, members = operands.expect(3)
    if getattr(members, "value", None) not in (0xFFFF_FFFF, -1):
        operands.unsupported(f"only with all lanes, not {members}")
    name = operands.destination(target, 1)
    source = operands.source(given, 1)
    reduce = np.any if match["mode"] == "any" else np.all
    return lambda warps, mask: warps.write(name, reduce(source(warps), 0, keepdims=True), mask)


Decoder = Callable[[Operands, re.Match[str]], Operation]

FORMS: tuple[tuple[re.Pattern[str], Decoder], ...] = tuple(
    (re.compile(pattern), decoder)
    for pattern, decoder in (
        (r"mov\.(?P<type>pred|[bus](?:16|32|64)|f32|f64)", _move),
        (r"ld\.param\.(?P<type>[bus](?:32|64))", _parameter),
        (r"cvta(?P<to>\.to)?\.(?P<space>global|shared(?:::cta)?)\.u64", _generic_address),
        (r"cvt\.(?P<to>[us](?:16|32|64))\.(?P<from>[us](?:16|32|64))", _convert),
        (r"(?P<name>add|sub|min|max|mul\.lo)\.(?P<type>[us](?:16|32|64))", _binary),
        (r"(?P<name>rem)\.(?P<type>u(?:16|32|64))", _binary),
        (r"(?P<name>and|or|xor)\.(?P<type>pred|b(?:16|32|64))", _binary),
        (r"(?P<name>shl)\.(?P<type>b(?:16|32|64))", _binary),
        (rf"(?P<name>shr)\.{_INTEGER}", _binary),
        (r"(?P<name>not)\.(?P<type>pred|b(?:16|32|64))", _unary),
        (r"(?P<name>neg|abs)\.(?P<type>s(?:16|32|64))", _unary),
        (r"mad\.lo\.(?P<type>[us](?:16|32|64))", _multiply_add),
        (r"(?P<name>mul|mad)\.wide\.(?P<type>[us](?:16|32))", _wide),
        (rf"setp\.(?P<name>eq|ne|lt|le|gt|ge|lo|ls|hi|hs)\.{_INTEGER}", _compare),
        (r"selp\.(?P<type>[bus](?:16|32|64)|f32|f64)", _select),
        (r"shfl\.sync\.(?P<mode>bfly|idx)\.b32", _exchange),
        (r"vote\.sync\.(?P<mode>any|all)\.pred", _vote),
    )
)
"""Every form that is known, as the pattern of its opcode and what decodes it."""
