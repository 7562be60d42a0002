"""Integer instructions on one lane's numbers, as the pages write them down.

Opcode and operands in, results out, with Python's integers and loops over bits.
"""

from __future__ import annotations

COMPARE = {
    "eq": int.__eq__, "ne": int.__ne__, "lt": int.__lt__, "le": int.__le__,
    "gt": int.__gt__, "ge": int.__ge__, "lo": int.__lt__, "ls": int.__le__, "hi": int.__gt__,
    "hs": int.__ge__,
}  # fmt: skip


def number(pattern: int, type_: str) -> int:
    """Read a pattern as the number of a type such as "s32"; "b32" is unsigned."""
    bits = int(type_[1:])
    pattern &= (1 << bits) - 1
    return pattern - (1 << bits) if type_[0] == "s" and pattern >> (bits - 1) else pattern


def clamp(value: int, type_: str) -> int:
    bits = int(type_[1:])
    low, high = (
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if type_[0] == "s" else (0, (1 << bits) - 1)
    )
    return min(max(value, low), high)


def split(word: int, bits: int, sign: str) -> list[int]:
    return [number(word >> at, f"{sign}{bits}") for at in range(0, 32, bits)]


def join(values: list[int], bits: int) -> int:
    return sum((value & ((1 << bits) - 1)) << bits * at for at, value in enumerate(values))


def bit(value: int, at: int) -> int:
    return value >> at & 1


def slow(opcode: str, *operands: int) -> tuple[int, ...]:
    """Return the results of an instruction, as numbers of any sign and size."""
    name, *rest = opcode.split(".")
    return globals()[f"_{name}"](rest, *operands)


def _numbers(type_: str, *operands: int) -> list[int]:
    return [number(one, type_) for one in operands]


def _add(rest, a, b, carry=0):
    type_ = rest[-1]
    if type_.endswith("x2"):
        return (
            join([x + y for x, y in zip(split(a, 16, "u"), split(b, 16, "u"), strict=True)], 16),
        )
    x, y = _numbers(type_, a, b)
    if "sat" in rest:
        return (clamp(x + y, type_),)
    total = a + b + carry
    return total, total >> int(type_[1:]) != 0


def _sub(rest, a, b, borrow=0):
    x, y = _numbers(rest[-1], a, b)
    if "sat" in rest:
        return (clamp(x - y, rest[-1]),)
    return a - b - borrow, a - b - borrow < 0


_addc, _subc = _add, _sub


def _part(mode: str, type_: str, a: int, b: int) -> int:
    x, y = _numbers(type_, a, b)
    bits = int(type_[1:])
    return {"wide": x * y, "lo": x * y, "hi": x * y >> bits}[mode]


def _mul(rest, a, b):
    return (_part(rest[0], rest[-1], a, b),)


def _mad(rest, a, b, c, carry=0):
    type_, mode = rest[-1], rest[0]
    part = _part(mode, type_, a, b)
    if "sat" in rest:
        return (clamp(part + number(c, type_), type_),)
    every = (1 << int(type_[1:])) - 1
    return part + c + carry, (part & every) + c + carry > every


_madc = _mad


def _part24(rest, a, b):
    sign = rest[-1][0]
    product = number(a, f"{sign}24") * number(b, f"{sign}24")
    return product if rest[0] == "lo" else number(product >> 16, f"{sign}32")


def _mul24(rest, a, b):
    return (_part24(rest, a, b),)


def _mad24(rest, a, b, c):
    if "sat" in rest:
        return (clamp(_part24(rest, a, b) + number(c, "s32"), "s32"),)
    return (_part24(rest, a, b) + c,)


def _sad(rest, a, b, c):
    x, y = _numbers(rest[-1], a, b)
    return (c + abs(x - y),)


def _div(rest, a, b):
    x, y = _numbers(rest[-1], a, b)
    size = abs(x) // abs(y)
    return (size if (x < 0) == (y < 0) else -size,)


def _rem(rest, a, b):
    return (a % b,)


def _abs(rest, a):
    return (abs(number(a, rest[-1])),)


def _neg(rest, a):
    return (-a,)


def _extreme(choose, rest, a, b):
    type_ = rest[-1]
    if type_.endswith("x2"):
        pairs = zip(split(a, 16, type_[0]), split(b, 16, type_[0]), strict=True)
        values = [choose(pair) for pair in pairs]
        return (join([max(one, 0) if "relu" in rest else one for one in values], 16),)
    value = choose(_numbers(type_, a, b))
    return (max(value, 0) if "relu" in rest else value,)


def _min(rest, a, b):
    return _extreme(min, rest, a, b)


def _max(rest, a, b):
    return _extreme(max, rest, a, b)


def _dp4a(rest, a, b, c):
    return (
        c
        + sum(x * y for x, y in zip(split(a, 8, rest[0][0]), split(b, 8, rest[1][0]), strict=True)),
    )


def _dp2a(rest, a, b, c):
    chosen = split(b, 8, rest[2][0])[0 if rest[0] == "lo" else 2 :][:2]
    return (c + sum(x * y for x, y in zip(split(a, 16, rest[1][0]), chosen, strict=True)),)


def _video(operation, size, rest, a, b, c):
    bits = 32 // size
    kinds = [word[0] for word in rest if word in ("u32", "s32")]
    pairs = zip(split(a, bits, kinds[-2]), split(b, bits, kinds[-1]), strict=True)
    values = [operation(x, y) for x, y in pairs]
    if rest[-1] == "add":
        return (c + sum(values),)
    if rest[-1] == "sat":
        values = [clamp(value, f"{kinds[0]}{bits}") for value in values]
    return (join(values, bits),)


def _average(x, y):
    return (x + y + 1) >> 1 if x + y >= 0 else (x + y) >> 1


for _word, _operation in {
    "vadd": lambda x, y: x + y, "vsub": lambda x, y: x - y, "vavrg": _average,
    "vabsdiff": lambda x, y: abs(x - y), "vmin": min, "vmax": max,
}.items():  # fmt: skip
    for _size in (2, 4):
        globals()[f"_{_word}{_size}"] = lambda *given, o=_operation, s=_size: _video(o, s, *given)


def _vset4(rest, a, b, c, size=4):
    compare = COMPARE[next(word for word in rest if word in COMPARE)]
    return _video(lambda x, y: int(compare(x, y)), size, rest, a, b, c)


def _vset2(rest, a, b, c):
    return _vset4(rest, a, b, c, 2)


def _mov(rest, *sources):
    if rest[-1].startswith("unpack"):
        bits = int(rest[0][1:]) // (4 if rest[-1] == "unpack4" else 2)
        return tuple(sources[0] >> at for at in range(0, int(rest[0][1:]), bits))
    bits = int(rest[0][1:]) // len(sources) if rest[0] != "pred" else 0
    return (sum(one << bits * at for at, one in enumerate(sources)),)


def _and(rest, a, b):
    return (a & b,)


def _or(rest, a, b):
    return (a | b,)


def _xor(rest, a, b):
    return (a ^ b,)


def _not(rest, a):
    return (not a if rest == ["pred"] else ~a,)


def _cnot(rest, a):
    return (int(a == 0),)


def _lop3(rest, a, b, c, table, q=0):
    d = sum(bit(table, bit(a, i) << 2 | bit(b, i) << 1 | bit(c, i)) << i for i in range(32))
    return d, (d != 0 or q) if rest[0] == "or" else (d != 0 and q)


def _shf(rest, a, b, c):
    direction, mode = rest[:2]
    n = min(c, 32) if mode == "clamp" else c & 0x1F
    return ((b << n) | (a >> (32 - n)) if direction == "l" else (b << (32 - n)) | (a >> n),)


def _shl(rest, a, b):
    return (a << min(b, int(rest[0][1:])),)


def _shr(rest, a, b):
    return (number(a, rest[0]) >> min(b, int(rest[0][1:])),)


def _bfe(rest, a, b, c):
    type_ = rest[0]
    msb, pos, length = int(type_[1:]) - 1, b & 0xFF, c & 0xFF
    sbit = 0 if type_[0] == "u" or length == 0 else bit(a, min(pos + length - 1, msb))
    return (sum(
        (bit(a, pos + i) if i < length and pos + i <= msb else sbit) << i for i in range(msb + 1)
    ),)  # fmt: skip


def _bfi(rest, a, b, c, d):
    msb, pos, length = int(rest[0][1:]) - 1, c & 0xFF, d & 0xFF
    f = b
    for i in range(length):
        if pos + i <= msb:
            f = f & ~(1 << (pos + i)) | bit(a, i) << (pos + i)
    return (f,)


def _bfind(rest, a):
    type_ = rest[-1]
    bits = int(type_[1:])
    a = ~a & (1 << bits) - 1 if number(a, type_) < 0 else a
    if a == 0:
        return (0xFFFFFFFF,)
    return (bits - a.bit_length() if rest[0] == "shiftamt" else a.bit_length() - 1,)


def _popc(rest, a):
    return (a.bit_count(),)


def _clz(rest, a):
    return (int(rest[0][1:]) - a.bit_length(),)


def _brev(rest, a):
    return (int(f"{a:0{rest[0][1:]}b}"[::-1], 2),)


def _fns(rest, mask, base, offset):
    offset = number(offset, "s32")
    if offset == 0:
        return (base if bit(mask, base) else 0xFFFFFFFF,)
    pos, count, inc = base, abs(offset) - 1, 1 if offset > 0 else -1
    while 0 <= pos < 32:
        if bit(mask, pos):
            if count == 0:
                return (pos,)
            count -= 1
        pos += inc
    return (0xFFFFFFFF,)


def _szext(rest, a, b):
    mode, type_ = rest
    n = b & 0x1F
    if mode == "clamp" and b >= 32:
        return (a,)
    return (number(a, f"{type_[0]}{n}") if n else 0,)


def _bmsk(rest, a, b):
    a1, b1 = a & 0x1F, b & 0x1F
    mask0, mask1 = ~0 << a1, ~0 << (a1 + b1)
    overflow = a1 + b1 >= 32
    if rest[0] == "clamp":
        if a >= 32:
            overflow, mask0 = True, 0
        if b >= 32:
            overflow = True
    if overflow:
        mask1 = 0
    elif b1 == 0:
        mask1 = ~0
    return (mask0 & ~mask1,)


# Rows of the table of 9.7.9.7: for selectors 0 to 3, the sources of d.b3, d.b2, d.b1, d.b0.
PRMT = {
    "f4e": ((3, 2, 1, 0), (4, 3, 2, 1), (5, 4, 3, 2), (6, 5, 4, 3)),
    "b4e": ((5, 6, 7, 0), (6, 7, 0, 1), (7, 0, 1, 2), (0, 1, 2, 3)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((3, 2, 1, 0), (3, 2, 1, 1), (3, 2, 2, 2), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (1, 1, 1, 0), (2, 2, 1, 0), (3, 2, 1, 0)),
    "rc16": ((1, 0, 1, 0), (3, 2, 3, 2), (1, 0, 1, 0), (3, 2, 3, 2)),
}


def _prmt(rest, a, b, c):
    source = (b << 32 | a).to_bytes(8, "little")
    if len(rest) > 1:
        return (int.from_bytes([source[i] for i in PRMT[rest[1]][c & 3]], "big"),)
    result = []
    for at in range(4):
        select = c >> 4 * at & 0xF
        byte = source[select & 7]
        result.append((0xFF if byte >> 7 else 0) if select & 8 else byte)
    return (int.from_bytes(result, "little"),)
