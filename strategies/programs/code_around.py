"""Code of lanes around matrix instructions: it makes multiplicands, packs results, or anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from oracle.isa.forms import LANES, ROW_BYTES
from oracle.program.lane_code import (
    LANE,
    ZERO,
    Assign,
    LaneCode,
    Statement,
    class_of,
    every,
    written_by,
)
from oracle.program.lane_runs import addresses_of
from oracle.program.operands import MOST_LISTED, Registers
from oracle.scalar import SCALARS
from strategies.features import Has
from strategies.programs.builder import Builder, Dice, LiveValue
from strategies.programs.lane_code import Lanes, settled

T = TypeVar("T")

_SIZES = (6, 10, 16, 24, 36)  # Statements around a multiplication, about; equally likely
_SIZES_ALONE = (10, 16, 24, 36, 54)  # The same of a program that is nothing else
_SCALES = {
    "f16": (0x2C00, 0x3C00, 0x3400, 0x2E66), "bf16": (0x3D80, 0x3F80, 0x3E80, 0x3DCD),
    "f32": (0x3D80_0000, 0x3F80_0000, 0x3E80_0000, 0x3DCC_CCCD),
}  # fmt: skip
"""1/16, 1, 1/4 and the number next to 0.1."""
_LARGEST_OF_S8 = 0x42FE_0000  # 127, as f32
_EIGHT_BITS = {"e4m3": 0x7777_7777, "e5m2": 0xBBBB_BBBB}  # NaN do not have them all


class _Chain:
    """Instructions on the registers of a value that each write a register of their own."""

    def __init__(self, builder: Builder, value: LiveValue) -> None:
        self._builder = builder
        self.words = [f"r{index}" for index in range(value.holds.registers)]
        self._lanes = Lanes(builder, self.words)
        self.dice = builder.wide_dice()
        self.code: list[Statement] = []

    def has(self, opcode: str) -> bool:
        return SCALARS[opcode].exists(self._builder.module)

    def make(self, opcode: str, *sources: str | int, settles: bool = False) -> str:
        made: list[Assign] = []
        result = self._lanes.make(made, opcode, *sources)
        self.code += settled(made[0]) if settles else made
        return result

    def halves(self, word: str) -> tuple[str, ...]:
        """Append what parts a word into registers of 16 bits, the low one first."""
        made: list[Assign] = []
        self._lanes.make(made, "mov.b32.unpack", word)
        self.code += made
        return made[0].destinations

    def byte(self, word: str, index: int, *, signed: bool) -> str:
        """Append what extracts a byte as a number of 32 bits, in one of the ways of kernels."""
        kind = "s32" if signed else "u32"
        match self.dice.below(3):
            case 0:
                return self.make(f"bfe.{kind}", word, 8 * index, 8)
            case 1:
                return self.make(f"shr.{kind}", self.make("shl.b32", word, 24 - 8 * index), 24)
        sign = 8 + index if signed else 4
        return self.make("prmt.b32", word, 0, sign << 12 | sign << 8 | sign << 4 | index)


def in_lanes(
    builder: Builder, value: LiveValue, type_: str, made: Registers | None = None
) -> LiveValue | None:
    """Append code that makes multiplicands (`made`) of fewer registers, or that packs a D.

    As quantised kernels do. None: there is no such code.
    """
    chain, results = _Chain(builder, value), list[str]()
    if made is None and type_ in ("f16", "f32", "s32"):
        results = _packed(chain, type_)
    elif made is not None and value.holds.bits == 32:
        results = _multiplicands(chain, type_, made.registers)
    if not results:
        return None
    builder.take(Has.PACKED_BEHIND if made is None else Has.UNPACKED)
    return _made(builder, value, chain, results)


def centred(builder: Builder, value: LiveValue) -> LiveValue:
    """Append code that moves e2m1 from where ldmatrix leaves them in bytes to where mma has them.

    That is the middle of the byte (9.7.14.5.14), 2 bits up.
    """
    chain = _Chain(builder, value)
    return _made(builder, value, chain, [chain.make("shl.b32", word, 2) for word in chain.words])


def _made(builder: Builder, value: LiveValue, chain: _Chain, results: Sequence[str]) -> LiveValue:
    name = builder.name("q")
    builder.add(
        LaneCode(
            source=value.name, count=len(chain.words), destination=name,
            results=tuple(results), code=tuple(chain.code),
        )
    )  # fmt: skip
    value.pending = False
    return builder.define(name, Registers(registers=len(results)), pending=True)


def _multiplicands(chain: _Chain, type_: str, count: int) -> list[str]:
    dice, words = chain.dice, chain.words
    kind, scale = dice.below(3), dice.one_of(_SCALES.get(type_, _SCALES["f32"]))
    made: list[str] = []
    for index in range(count):
        part, place = divmod(index, len(words))
        word = words[place]
        match type_:
            case "f16" | "bf16":
                made.append(_halves(chain, type_, word, part, kind, scale))
            case "f32" | "tf32":
                number = _scaled(chain, word, part, scale)
                if type_ == "tf32" and chain.has("cvt.rna.tf32.f32"):
                    number = chain.make("cvt.rna.tf32.f32", number)
                made.append(number)
            case "s8" | "u8" | "s4" | "u4" | "b1":
                made.append(_integers(chain, type_, word, part))
            case "e4m3" | "e5m2" if chain.has(f"cvt.rn.satfinite.{type_}x2.f32"):
                numbers = [_scaled(chain, word, part + each, scale) for each in range(4)]
                opcode = f"cvt.rn.satfinite.{type_}x2.f32"
                pairs = [chain.make(opcode, numbers[i + 1], numbers[i]) for i in (0, 2)]
                made.append(chain.make("mov.b32.pack", *pairs))
            case _:
                return []
    return made


def _scaled(chain: _Chain, word: str, part: int, scale: int) -> str:
    byte = chain.byte(word, part % 4, signed=True)
    return chain.make("mul.rn.f32", chain.make("cvt.rn.f32.s32", byte), scale)


def _halves(chain: _Chain, type_: str, word: str, part: int, kind: int, scale: int) -> str:
    """Append what makes two numbers of 16 bits."""
    has, both = chain.has, scale << 16 | scale
    fmt = f"{type_}x2"
    if kind == 2 and type_ == "f16" and has("cvt.rn.f16x2.e4m3x2"):
        eight = chain.dice.one_of(tuple(_EIGHT_BITS))
        masked = chain.make("and.b32", word, _EIGHT_BITS[eight]) if chain.dice.below(2) else word
        half = chain.halves(masked)[part % 2]
        return chain.make(f"cvt.rn.f16x2.{eight}x2", half, settles=True)
    if not has(f"fma.rn.{fmt}"):
        low, high = (_scaled(chain, word, 2 * part + each, _SCALES["f32"][1]) for each in (0, 1))
        narrow = (chain.make(f"cvt.rn.{type_}.f32", one) for one in (low, high))
        return chain.make("mov.b32.pack", *narrow)
    if kind == 1 and type_ == "f16":
        # 1024 + byte, less 1024 + 128.
        pair = chain.make("prmt.b32", word, 0x6464_6464, (0x4140, 0x4342)[part % 2])
        number = chain.make("sub.rn.f16x2", pair, 0x6480_6480)
    else:
        # The lowest bits of 1024 or 128 are those of a number below 16.
        shifted = chain.make("shr.u32", word, 4 * (part % 4)) if part % 4 else word
        one, less, magic = {
            "f16": (0x3C00_3C00, 0xE408_E408, 0x6400_6400),
            "bf16": (0x3F80_3F80, 0xC308_C308, 0x4300_4300),
        }[type_]
        pair = chain.make("lop3.b32", shifted, 0x000F_000F, magic, 0xEA)
        number = chain.make(f"fma.rn.{fmt}", pair, one, less)
    if chain.dice.below(3) or not has(f"max.NaN.{fmt}"):
        return chain.make(f"fma.rn.{fmt}", number, both, 0x8000_8000)
    # A scale from memory may be NaN.
    return chain.make(f"fma.rn.{fmt}", number, word, 0x8000_8000, settles=True)


def _integers(chain: _Chain, type_: str, word: str, part: int) -> str:
    """Append what makes integers of 8, 4 or 1 bits: of halves of bytes, or of other places."""
    if type_ == "b1":
        return chain.make("lop3.b32", word, chain.make("brev.b32", word), 1 << part, 0x96)
    turned = chain.make("prmt.b32", word, 0, (0x3210, 0x0123, 0x1032, 0x2301)[part % 4])
    if type_ in ("s4", "u4"):
        return chain.make("lop3.b32", word, chain.make("shl.b32", turned, 4), 0x0F0F_0F0F, 0xAC)
    shifted = chain.make("shr.u32", turned, 4) if part % 2 else turned
    small = chain.make("and.b32", shifted, 0x0F0F_0F0F)
    if type_ == "u8":
        return small
    sign = chain.make("and.b32", small, 0x0808_0808)
    return chain.make("or.b32", small, chain.make("mul.lo.u32", sign, 0x1E))


def _packed(chain: _Chain, type_: str) -> list[str]:
    dice = chain.dice
    scale, bias = dice.one_of(_SCALES["f32"]), dice.one_of((0, 0x3F00_0000, 0xC100_0000))
    rectifies, kind = dice.below(3), dice.below(3)
    numbers: list[str] = []
    for word in chain.words:
        if type_ == "f16":
            some = [chain.make("cvt.f32.f16", half) for half in chain.halves(word)]
        else:
            some = [chain.make("cvt.rn.f32.s32", word) if type_ == "s32" else word]
        for one in some:
            number = chain.make("fma.rn.f32", one, scale, bias)
            if rectifies:
                # The first lets NaN through.
                opcode = "max.NaN.f32" if rectifies == 1 and chain.has("max.NaN.f32") else "max.f32"
                number = chain.make(opcode, number, 0)
            numbers.append(chain.make("min.f32", number, _LARGEST_OF_S8))
    if kind == 1 and chain.has("cvt.rn.satfinite.e4m3x2.f32"):
        opcode = "cvt.rn.satfinite.e4m3x2.f32"
        pairs = [chain.make(opcode, high, low) for low, high in _pairs(numbers)]
        made = [chain.make("mov.b32.pack", *both) for both in _pairs(pairs)]
    elif kind == 2 and chain.has("cvt.rn.f16x2.f32"):
        made = [
            chain.make("cvt.rn.f16x2.f32", high, low, settles=True) for low, high in _pairs(numbers)
        ]
    else:
        made = _bytes(chain, [chain.make("cvt.rni.s32.f32", one) for one in numbers])
    if dice.below(3) == 0:
        # As at the edge of a matrix, which not all lanes have.
        inside = chain.make("setp.lt.u32", LANE, 1 + dice.below(31))
        chain.code += [
            Assign(opcode="mov.b32", destinations=(one,), sources=(0,), guard=f"!{inside}")
            for one in made
        ]
    return made


def _bytes(chain: _Chain, whole: Sequence[str]) -> list[str]:
    """Append what packs integers, four in a word: clamped by one instruction, or by two."""
    made, packs = [], "cvt.pack.sat.s8.s32.b32"
    way = chain.dice.below(2)
    for low, high in _pairs([*_pairs(whole)]):
        if way and chain.has(packs):
            made.append(chain.make(packs, low[1], low[0], chain.make(packs, *high[::-1], 0)))
            continue
        held = [
            chain.make("max.s32", chain.make("min.s32", number, 127), 0xFFFF_FF80)
            for number in (*low, *high)
        ]
        joined = chain.make("and.b32", held[0], 0xFF)
        for place, one in enumerate(held[1:], start=1):
            joined = chain.make("bfi.b32", one, joined, 8 * place, 8)
        made.append(joined)
    return made


def _pairs(items: Sequence[T]) -> list[tuple[T, T]]:
    """Return items in pairs; what is left over is its own neighbour."""
    return [(items[i], items[min(i + 1, len(items) - 1)]) for i in range(0, len(items), 2)]


def computed(
    builder: Builder, value: LiveValue, made: Registers, *, alone: bool = False
) -> LiveValue:
    """Append code that makes registers of those of a value."""
    # `alone`: it is all that the program does, longer, and all that it makes is seen.
    name, dice, holds = builder.name("y"), builder.dice(), value.holds
    letter = "r" if holds.bits == 32 else "d"
    inputs = [f"{letter}{index}" for index in range(holds.registers)]
    lanes = Lanes(builder, inputs)
    known = [LANE, *inputs]
    code = lanes.code(known, dice.one_of(_SIZES_ALONE if alone else _SIZES))
    kind = f"b{made.bits}"
    seen = [one for one in reversed(known) if class_of(one) == kind and one != LANE]
    if kind == "b32":
        code += _brought_out(lanes, known, seen)
        if alone:
            # What is left beyond the first registers is joined to these, so that nothing is lost.
            written, joins = set[str]().union(*map(written_by, every(code))), list[Assign]()
            lost = [one for one in seen[made.registers :] if one in written]
            for number, one in enumerate(lost):
                place = number % made.registers
                seen[place] = lanes.make(joins, "xor.b32", seen[place], one)
            code += joins
    results = (seen * made.registers)[: made.registers]
    builder.add(
        LaneCode(
            source=value.name, count=holds.registers, bits=holds.bits, destination=name,
            results=tuple(results), code=tuple(code),
        )
    )  # fmt: skip
    value.pending = False
    return builder.define(name, made, pending=True)


def _brought_out(lanes: Lanes, known: Sequence[str], seen: list[str]) -> list[Assign]:
    made: list[Assign] = []
    for name in reversed(known):
        kind = class_of(name)
        if kind == "b32" or len(made) >= MOST_LISTED // 2:
            continue
        out: list[tuple[str, tuple[str | int, ...]]] = [("selp.b32", (1, 0, name))]
        if kind == "b64":
            high = lanes.make(made, "shr.u64", name, 32)
            out = [("cvt.u32.u64", (name,)), ("cvt.u32.u64", (high,))]
        elif kind == "b16":
            out = [("cvt.u32.u16", (name,))]
        for opcode, sources in out:
            seen.insert(0, lanes.make(made, opcode, *sources))
    return made


def computed_rows(
    dice: Dice, start: int, pitch: int, rows: int, *, apart: bool = False
) -> tuple[tuple[int, ...], tuple[Statement, ...]]:
    """Draw addresses of rows (`apart`: all different), and code of lanes that computes them."""
    code: list[Statement] = []
    row: str | int = LANE

    def make(opcode: str, *sources: str | int) -> str:
        made = f"r{len(code) + 1}"
        code.append(Assign(opcode=opcode, destinations=(made,), sources=sources))
        return made

    most = min(1 << rows.bit_length() - 1, LANES) - 1
    if dice.below(2):
        # A compiler does not know that it is the lane's number.
        row = make("add.s32", LANE, ZERO)
    for _ in range(1 + dice.below(3)):
        number = dice.below(LANES)
        match dice.below(5 if apart else 8):
            case 0:
                bits = make("and.b32", make("shr.u32", row, 1 + number % 4), 7)
                row = make("xor.b32", row, bits)
            case 1:
                row = make("xor.b32", row, number)
            case 2:
                row = make("abs.s32", make("sub.s32", row, LANES - 1))
            case 3:
                row = make("min.u32", row, LANES - 1) if number % 2 else make("max.s32", row, 0)
            case 4:
                row = make("shr.u32", make("brev.b32", row), 27)
            case 5:
                row = make("abs.s32", make("sub.s32", row, number))
            case 6:
                row = make("min.s32" if number % 2 else "max.u32", row, number)
            case _:
                row = make("prmt.b32", row, number, (0x4440, 0x4104, 0x0321)[number % 3])
    if most < LANES - 1 or not apart:
        row = make("and.b32", row, most)
    if pitch == ROW_BYTES and dice.below(2):
        offset = make("shl.b32", row, 4)
        code.append(Assign(opcode="add.s32", destinations=("r0",), sources=(offset, start)))
    else:
        code.append(Assign(opcode="mad.lo.s32", destinations=("r0",), sources=(row, pitch, start)))
    return addresses_of(tuple(code)), tuple(code)
