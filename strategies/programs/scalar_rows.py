"""The scalar instructions that programs draw, by what they read and write."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from oracle.isa.targets import Module
from oracle.program.lane_code import Assign, Statement
from oracle.scalar import SCALARS, ScalarInstruction
from strategies.features import OF_SCALAR, Feature
from strategies.programs.builder import Dice

_EVERYDAY = (
    "add", "sub", "mul", "mad", "min", "max", "neg", "and", "or", "xor", "shl", "shr", "shf",
    "lop3", "prmt", "bfe", "bfi", "selp", "set", "setp", "cvt",
)  # fmt: skip
_OFTEN = 3  # Times that everyday instructions are drawn as often as others
_TELLING, _TELLING_OFTEN = ("setp", "set", "cvt"), 12
"""Instructions whose results differ most between types of the same bits, and how often one is drawn
of what uses a result: half of the time."""
_TYPE = re.compile(r"(?:[usbf]|bf|tf)\d+(?:x\d)?|pred|e\dm\dx2")  # A type in an opcode
NTH_BIT = OF_SCALAR["fns"]
OF_SCALARS = frozenset(OF_SCALAR.values())


def always_wrong(row: ScalarInstruction, guard: str = "") -> bool:
    """Whether ptxas 11.7 to 13.5 make an instruction wrong at every level (docs/findings.md)."""
    words = row.opcode.split(".")
    match words:
        case ["bfe" | "bfi", _]:
            return words[1].endswith("64")
        case ["cvt", "rna", *_, "tf32", "f32"] | ["cvt", "rm" | "rp", "ftz", *_, "f16", "f32"]:
            return True
        case ["testp", *_] | ["set", *_, "f32", _] | ["set", *_, "f16", "f16"]:
            return bool(guard)
        case ["set", *_, "u32", "b16" | "u16" | "s16" | "f16" | "bf16"]:
            return bool(guard)
    return False


_Rows = tuple[ScalarInstruction, ...]


@dataclass(frozen=True)
class DrawnRows:
    """The scalar instructions that a module can have, and whose results PTX says to the bit."""

    plain: Mapping[str, tuple[_Rows, ...]]
    """Instructions that may stand anywhere, by their first word, those of the same types together:
    rounding, saturation and comparisons make many of some types and few of others."""
    families: tuple[str, ...]  # Their first words, those of everyday code several times
    alike: Mapping[tuple[tuple[str, ...], tuple[str, ...]], Mapping[str, _Rows]]
    """The same by the classes of registers that they write and read, and by their first word."""
    reading: Mapping[str, tuple[tuple[_Rows, ...], ...]]
    """The same by the type that they read first, and by its class: groups as in `plain` of each
    first word, which is there the more often the more the type matters."""
    every: Mapping[Feature, _Rows]  # The same by their features
    together: frozenset[Feature]  # Of those that need others before, or read other lanes
    first: _Rows  # Instructions that compute a predicate from registers of 32 bits
    warp: _Rows  # Instructions that all lanes execute together
    carries: tuple[tuple[ScalarInstruction, ScalarInstruction], ...]
    """Instructions that write the carry, each with one that may read it: sums with sums."""


def settled(one: Assign) -> list[Statement]:
    """Return an instruction, and behind it what makes its NaNs canonical where they are open."""
    if not one.row.nan:
        return [one]
    return [one, replace(one, opcode=one.row.settled_by, sources=one.destinations * 2)]


@cache
def drawn_rows(module: Module) -> DrawnRows:
    """Return what a module can have."""

    def is_settled(row: ScalarInstruction) -> bool:
        by = SCALARS.get(row.settled_by)
        return not row.nan or (by is not None and by.exists(module))

    rows = [
        row for row in SCALARS.values()
        if row.exists(module) and row.defined is None and is_settled(row)
    ]  # fmt: skip
    plain: dict[str, list[ScalarInstruction]] = {}
    for row in rows:
        if not (row.warp or row.carry_in or row.carry_out):
            plain.setdefault(family_of(row), []).append(row)
    every: dict[Feature, list[ScalarInstruction]] = {one: [] for one in OF_SCALAR.values()}
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], dict[str, _Rows]] = {}
    reading: dict[str, list[tuple[_Rows, ...]]] = {}
    for family, some in plain.items():
        for row in some:
            every[OF_SCALAR[row.family]].append(row)
            same = alike.setdefault((row.destinations, row.sources), {})
            same[family] = (*same.get(family, ()), row)
        for name in {one: None for row in some for one in (read_as(row), *row.sources[:1])}:
            of_name = [row for row in some if name in (read_as(row), *row.sources[:1])]
            times = _TELLING_OFTEN if family in _TELLING else _often(family)
            reading.setdefault(name, []).extend([_by_types(of_name)] * times)
    apart = {NTH_BIT, *(OF_SCALAR[row.family] for row in rows if row.carry_in or row.warp)}
    return DrawnRows(
        alike=alike,
        reading={name: tuple(groups) for name, groups in reading.items()},
        plain={family: _by_types(some) for family, some in plain.items()},
        families=tuple(name for name in plain for _ in range(_often(name))),
        every={feature: tuple(some) for feature, some in every.items()},
        together=frozenset(feature for feature in apart if not every[feature]),
        first=tuple(r for r in rows if r.destinations == ("pred",) and {*r.sources} == {"b32"}),
        warp=tuple(row for row in rows if row.warp),
        carries=tuple(
            (first, second)
            for first in rows
            if first.carry_out and not first.carry_in
            for second in rows
            if second.carry_in and first.family.startswith("sub") == second.family.startswith("sub")
        ),
    )


def family_of(row: ScalarInstruction) -> str:
    """Return its first word; one for all that work on bytes and halves of registers."""
    # These are many, and emulated since sm_50 (9.7.17).
    halves = row.family.endswith(("2", "4")) and row.family[0] == "v"
    return "v" if halves else row.family


def _often(family: str) -> int:
    return _OFTEN if family in _EVERYDAY else 1


def _types(row: ScalarInstruction) -> tuple[str, ...]:
    return tuple(word for word in row.opcode.split(".") if _TYPE.fullmatch(word))


def _fitting(name: str, kind: str) -> str:
    number, _, count = name.lstrip("subft").partition("x")
    bits = number.isdecimal() and int(number) * int(count or 1)
    return name if bits and f"b{bits}" == kind else kind


def read_as(row: ScalarInstruction) -> str:
    """Return the type of what an instruction reads first: "s16", "f16x2", or just "b32"."""
    pairs = row.family[0] == "v" and row.family.endswith("2")
    return "u16x2" if pairs else _fitting(["", *_types(row)][-1], ["", *row.sources][1])


@cache
def written_as(row: ScalarInstruction) -> str:
    """Return the type of what an instruction writes first."""
    types = ["", *_types(row)]
    return _fitting(types[1 if row.family in ("cvt", "set") else -1], row.destinations[0])


def _by_types(rows: Sequence[ScalarInstruction]) -> tuple[_Rows, ...]:
    found: dict[tuple[str, ...], list[ScalarInstruction]] = {}
    for row in rows:
        found.setdefault(_types(row), []).append(row)
    return tuple(map(tuple, found.values()))


_FLOATS = {
    16: (0x3C00, 0xBC00, 0x3800, 0x3F80, 0xBF80, 0x8000),
    32: (0x3F80_0000, 0xBF80_0000, 0x3F00_0000, 0x3C00_3C00, 0x3F80_3F80, 0x8000_0000),
    64: (0x3FF0 << 48, 0xBFF0 << 48, 0x3FE0 << 48, 0x3C00_3C00_3C00_3C00, 0x3F80_0000, 1 << 63),
}
"""1, -1, 1/2 and -0 of f16, bf16, f32 and f64 (IEEE 754-2019, 3.4), also in pairs, by bits."""


def constant(dice: Dice, bits: int) -> int:
    """Choose a small number of so many bits, an end, a power of two, bytes, a float, or any."""
    most, high = (1 << bits) - 1, 1 << (bits - 1)
    match dice.below(7):
        case 0:
            return dice.below(bits + 2)
        case 1:
            return dice.one_of((0, 1, most, high, high - 1, bits, bits - 1, 2))
        case 2:
            return 1 << dice.below(bits)
        case 3:
            return ((1 << 1 + dice.below(bits)) - 1) & most
        case 4:
            return dice.one_of((0xFF, 0x80, 0x7F, 0x0F, 0xF0)) << 8 * dice.below(bits // 8)
        case 5:
            dice.below(5)
            return dice.below(1 << bits)
    return dice.one_of(_FLOATS[bits])
