"""Native code for fills: their instructions as C++, with their numbers left open.

Fills differ less in what they compute than in their numbers: formats, positions of bits, draws,
tables. What such fills have in common, a shape, is a function of `runners/reference/native.h`, and
a fill of a known shape is its number and its own numbers (`device`). Any other fill is
instructions, as all fills could be: both ways give the same bits. `native_header` writes native.h.
A device makes 250 million images a second with it (docs/hardware.md); `benchmarks/fresh_speed.py`
measures both ways.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

from oracle.isa.forms import FORMATS
from strategies.contents.bytecode import (
    RIGHT_OF_NUMBERS,
    SUM,
    CodeBlocks,
    FillCode,
    FillUnit,
    Stored,
    Value,
)
from strategies.contents.expressions import Code, Fill, Node
from strategies.contents.fills import fills_of
from strategies.contents.floats import Sum
from strategies.contents.operands import FillOperand, FillTypes

_MASK = (1 << 32) - 1


@dataclass(frozen=True)
class Native:
    """The numbers that a function is given."""

    numbers: tuple[int, ...]
    """Of 32 bits, without their signs."""
    tables: tuple[tuple[int, Stored], ...]
    """Which of its numbers say where a table starts; the next one is its last place."""


_BINARY = {
    Code.ADD: "{} + {}",
    Code.SUBTRACT: "{} - {}",
    Code.MULTIPLY: "{} * {}",
    Code.AND: "{} & {}",
    Code.OR: "{} | {}",
    Code.XOR: "{} ^ {}",
    Code.LEFT: "{} << ({} & 31)",
    Code.RIGHT: "{} >> ({} & 31)",
    RIGHT_OF_NUMBERS: "(uint32_t)((int32_t){} >> ({} & 31))",
    Code.EQUAL: "(uint32_t)({} == {})",
    Code.LESS: "(uint32_t)((int32_t){} < (int32_t){})",
    Code.SELECT: "{} ? {} : {}",
    Code.CLIP: "wf_clipped({}, {}, {})",
}
_OF_ELEMENTS = {Code.LINE, Code.POSITION, Code.NOISE, Code.AT, SUM}
_WINDOWS: tuple[list[int], ...] = (
    [], [Code.NOISE], [Code.NOISE, Code.AND], [Code.NOISE, Code.AND, Code.ADD],
)  # fmt: skip
"""Operations of random patterns with numbers that are the same for all elements."""


class _NativeWriter:
    """C++ of instructions; those that are the same for all elements come first."""

    def __init__(self, instructions: Sequence[FillCode], results: Sequence[Value]) -> None:
        self.apart: set[FillCode] = set()
        """Those that differ from element to element."""
        for one in instructions:
            if one.code in _OF_ELEMENTS or any(x in self.apart for x in one.operands):
                self.apart.add(one)
        self._uses = Counter([*(x for one in instructions for x in one.operands), *results])
        self._numbers: list[int] = []
        self._tables: list[tuple[int, Stored]] = []
        self._values: dict[FillCode, str] = {}
        self._before: list[str] = []
        self.each: list[str] = []

    def number(self, value: int) -> str:
        self._numbers.append(value & _MASK)
        return f"k[{len(self._numbers) - 1}]"

    def operand(self, one: Value) -> str:
        """Return what an operand is: of a constant, a number that is given."""
        match one:
            case FillCode():
                return self._values[one]
            case Stored():
                return self.number(one.values[0])
        assert isinstance(one, int)
        return self.number(one)

    def _table(self, one: Value) -> str:
        assert isinstance(one, Stored)
        self._tables.append((len(self._numbers), one))
        return self.number(0)

    def write(self, one: FillCode, *, of_line: bool) -> None:
        """Write an instruction; of a line its number is `line`."""
        operands, line = one.operands, "line" if of_line else "e.line()"
        match one.code:
            case Code.LINE:
                text = line
            case Code.POSITION:
                text = "e.position()"
            case Code.NOISE:
                text = "e.noise()"
            case Code.AT:
                text = f"e.beside({line}, {self.operand(operands[0])})"
            case Code.DRAW:
                text = f"wf_drawn(g, {self.operand(operands[0])}, {self.operand(operands[1])})"
            case _ if one.code == SUM:
                self._table(operands[1])
                self.operand(operands[2])
                text = "sum"
            case Code.PATTERN | Code.NUMBER:
                start, last = self._table(operands[1]), self.operand(operands[2])
                text = f"wf_looked_up(g, {start}, {last}, {self.operand(operands[0])})"
            case Code.NARROW:
                text = self.operand(operands[0])
            case _:
                text = f"({_BINARY[one.code].format(*map(self.operand, operands))})"
        if one.cut:
            text = f"({text} & {self.number((1 << one.cut) - 1)})"
        is_hoisted = one not in self.apart
        if self._uses[one] > 1 or is_hoisted:
            name = f"v{len(self._before) + len(self.each)}"
            (self._before if is_hoisted else self.each).append(f"const uint32_t {name} = {text};")
            text = name
        self._values[one] = text

    @property
    def first_table(self) -> int:
        return self._tables[0][0]

    def native(self, *end: str) -> tuple[str, Native]:
        """Return the text of a shape, and what it is given; `end` says what becomes of values."""
        head = f"WF_NUMBERS({len(self._numbers)});" if self._numbers else "WF_GIVEN;"
        text = "\n".join([head, *self._before, *end])
        return text, Native(tuple(self._numbers), tuple(self._tables))


def _everywhere(instructions: Sequence[FillCode], result: Value) -> tuple[str, Native] | None:
    """Return native code of 32 bits for all elements of a matrix; None if there is none."""
    codes = [one.code for one in instructions]
    is_sum = SUM in codes
    if is_sum and (codes.index(SUM) or codes.count(SUM) > 1 or _OF_ELEMENTS & set(codes) != {SUM}):
        return None
    writer = _NativeWriter(instructions, [result])
    made = [one for one in instructions if one in writer.apart]
    is_window = [one.code for one in made] in _WINDOWS and result is (made[-1] if made else result)
    others = list[Value]()
    for before, one in pairwise(made) if is_window else ():
        is_window &= one.operands[0] is before and one.operands[1] not in writer.apart
        others.append(one.operands[1])
    for one in instructions:
        if not (is_window and one in writer.apart):
            writer.write(one, of_line=False)
    if is_window:
        given = [writer.operand(one) for one in (others if made else [result])]
        mask, plus = ([*given, *["~0u", "0"][len(given) :]]) if made else ("0", *given)
        return writer.native(
            f"wf_windowed(filling, places, base, image, lane, lanes, {mask}, {plus});"
        )
    return writer.native(
        f"wf_each_sum(g, k[{writer.first_table}], [&](uint32_t sum) {{"
        if is_sum
        else "wf_each<WF_MANY(2)>(g, [&](const auto &e) {",
        *("    " + line for line in [*writer.each, f"return {writer.operand(result)};"]),
        "});",
    )


def _placed(
    instructions: Sequence[FillCode], results: Sequence[tuple[Value | None, Value, Value]]
) -> tuple[str, Native] | None:
    """Return native code of 32 bits for elements that stand over others; None if there is none.

    `results` are the line, None for every one, the position and the value of each.
    """
    alone = {line is not None for line, _, _ in results}
    codes = {one.code for one in instructions}
    if len(alone) != 1 or codes & {SUM, Code.NOISE, Code.POSITION}:
        return None
    values = [one for result in results for one in result if one is not None]
    writer = _NativeWriter(instructions, values)
    for one in instructions:
        writer.write(one, of_line=True)
    if True in alone and writer.apart:
        return None
    puts = []
    for line, position, value in results:
        where = "line" if line is None else writer.operand(line)
        puts.append(f"e.put({where}, {writer.operand(position)}, {writer.operand(value)});")
    head = "wf_each_line(g, [&](const auto &e, uint32_t line) {"
    if True in alone:
        head = "wf_alone(g, [&](const auto &e) {"
    return writer.native(head, *("    " + line for line in [*writer.each, *puts]), "});")


@lru_cache(maxsize=1 << 14)
def natives(
    fill: Fill, unit: FillUnit, bits: int
) -> tuple[tuple[int, Native] | None, tuple[int, Native] | None]:
    """Return the function for `everywhere` and for what is placed, if there is one, and numbers."""
    first, second = (
        None if made is None or made[0] not in _shape_numbers() else made
        for made in _written(fill, unit, bits)
    )
    known = _shape_numbers()
    return first and (known[first[0]], first[1]), second and (known[second[0]], second[1])


def _written(
    fill: Fill, unit: FillUnit, bits: int
) -> tuple[tuple[str, Native] | None, tuple[str, Native] | None]:
    if bits == 4 or not _are_summed_together(fill.everywhere, unit):  # 4: two share a byte
        return None, None
    first, second = CodeBlocks(unit, has_scalars=False), CodeBlocks(unit, has_scalars=False)
    value = first.value(fill.everywhere, pattern=True)
    results = [
        (
            None if one.line is None else second.value(one.line),
            second.value(one.position),
            second.value(one.value, pattern=True),
        )
        for one in fill.placed
    ]
    return (
        _everywhere(first.instructions, value) if first.is_narrow else None,
        _placed(second.instructions, results) if second.is_narrow else None,
    )


def _are_summed_together(node: Node, unit: FillUnit) -> bool:
    """Whether native code can make the sums of a value: `wf_each_sum` in contents.h."""
    one = node.value
    if isinstance(one, Sum):
        sizes = unit.lines % 4, unit.positions % 4, one.depth % 4
        return one.rounded is not None and one.a.bits < 64 and not one.run and not any(sizes)
    return all(_are_summed_together(argument, unit) for argument in node.arguments)


_EXAMPLES = (("f16", "f32", 16), ("s8", "s32", 32))
"""Multiplicands, accumulators and k of multiplications of whose fills there is native code. What
fills others has the same shapes mostly, but for f64, 4 bits, and B of which metadata choose."""


@cache
def shapes() -> tuple[str, ...]:
    """Return the texts of all shapes of which native.h has functions, in their order."""
    found = set[str]()
    for multiplicand, accumulator, depth in _EXAMPLES:
        a, c = FORMATS[multiplicand], FORMATS[accumulator]
        types = FillTypes(a=a, b=a, c=c, d=c, depth=depth)
        for name, positions in (("a", depth), ("b", depth), ("c", 16)):
            x = FillOperand(name=name, types=types, lines=16, positions=positions, is_of_sum=True)
            unit = FillUnit(x.type.bits, 16, positions)
            for fill in (one for fills in fills_of(x).values() for one in fills):
                found |= {made[0] for made in _written(fill, unit, x.type.bits) if made}
    return tuple(sorted(found))


@cache
def _shape_numbers() -> dict[str, int]:
    return {text: number for number, text in enumerate(shapes())}


def header(texts: Sequence[str]) -> str:
    """Return native.h: a function for each shape, and one that calls the one of a number."""
    parts = ["/* Written by strategies/contents/native_header.py; contents.h includes it. */"]
    for number, text in enumerate(texts):
        lines = "\n".join("    " + line for line in text.splitlines())
        parts.append(f"WF_NATIVE(wf_native_{number}) {{\n{lines}\n}}")
    cases = "\n".join(
        f"    case {number}: wf_native_{number}(WF_PASSED); break;" for number in range(len(texts))
    )
    head = "WF_CALLED void wf_native(WF_NATIVE_TAKES, uint32_t which) {\n    switch (which) {\n"
    parts.append(f"{head}{cases}\n    }}\n}}")
    return "\n\n".join(parts) + "\n"
