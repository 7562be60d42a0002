"""Native code for fills: the instructions of `device` as C++, with their numbers left open.

Fills differ less in what they compute than in their numbers: formats, positions of bits, draws,
tables. What such fills have in common, a shape, is a function of `runners/reference/native.h`, and
a fill of a known shape is its number and its own numbers (`device`). Any other fill is
instructions, as all fills could be: both ways give the same bits. `native_header` writes native.h.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from strategies.contents.expressions import Code

SUM, RIGHT_OF_NUMBERS = 8, 22
"""Codes of a device that differ from `Code`'s: SUM is 8, RIGHT of a number 22."""
NOWHERE = 1023
"""Slot of a result that is not kept."""
CONSTANT = 0x8000
"""Operands from here on are constants."""
_MASK = (1 << 32) - 1


@dataclass(eq=False)
class Instruction:
    """One operation of a device."""

    code: int
    operands: list[Operand]
    cut: int = 0
    """Bits that are kept of the result; 0: all."""
    slot: int = NOWHERE
    """Where the result is kept."""


Operand = int | Instruction
"""A constant or a scalar, or what computes it."""


@dataclass(frozen=True)
class Native:
    """A function, and the numbers that it is given."""

    text: str
    """Its body: that of a shape."""
    numbers: tuple[int, ...]
    """Of 32 bits, without their signs."""
    tables: tuple[int, ...]
    """Which of its numbers say where a table starts; the next one is its last place."""

    def words(self, numbers: Sequence[int]) -> list[int]:
        """Return numbers as words of 64 bits."""
        both = [*numbers, 0]
        return [both[i] | both[i + 1] << 32 for i in range(0, len(numbers), 2)]


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


def _apart(instructions: Sequence[Instruction]) -> set[Instruction]:
    """Return those whose values are not the same for all elements."""
    found = set[Instruction]()
    for one in instructions:
        if one.code in _OF_ELEMENTS or any(x in found for x in one.operands):
            found.add(one)
    return found


@dataclass
class _Writer:
    """C++ of instructions; those that are the same for all elements come first."""

    constants: Sequence[int]
    apart: set[Instruction]
    """Those that differ from element to element."""
    uses: Counter[Operand]
    numbers: list[int] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)
    """Of the numbers those that say where tables start."""
    values: dict[Instruction, str] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)
    each: list[str] = field(default_factory=list)

    def number(self, value: int) -> str:
        """Return a number that is given."""
        self.numbers.append(value & _MASK)
        return f"k[{len(self.numbers) - 1}]"

    def operand(self, one: Operand) -> str:
        """Return what an operand is."""
        if isinstance(one, Instruction):
            return self.values[one]
        return self.number(self.constants[one & CONSTANT - 1])

    def write(self, one: Instruction, *, of_line: bool) -> None:
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
                text = f"wf_drawn(g, {self.operand(operands[0])}, {self._plain(operands[1])})"
            case _ if one.code == SUM:
                self.tables.append(len(self.numbers))
                for number in operands[1:]:
                    self._plain(number)
                text = "sum"
            case Code.PATTERN | Code.NUMBER:
                self.tables.append(len(self.numbers))
                start, last = map(self._plain, operands[1:])
                text = f"wf_looked_up(g, {start}, {last}, {self.operand(operands[0])})"
            case Code.NARROW:
                text = self.operand(operands[0])
            case _:
                text = f"({_BINARY[one.code].format(*map(self.operand, operands))})"
        if one.cut:
            text = f"({text} & {self.number((1 << one.cut) - 1)})"
        is_hoisted = one not in self.apart
        if self.uses[one] > 1 or is_hoisted:
            name = f"v{len(self.before) + len(self.each)}"
            (self.before if is_hoisted else self.each).append(f"const uint32_t {name} = {text};")
            text = name
        self.values[one] = text

    def _plain(self, value: Operand) -> str:
        assert isinstance(value, int)
        return self.number(value)

    def native(self, *end: str) -> Native:
        """Return the code; `end` says what is done with the values."""
        head = f"WF_NUMBERS({len(self.numbers)});" if self.numbers else "WF_GIVEN;"
        text = "\n".join([head, *self.before, *end])
        return Native(text, tuple(self.numbers), tuple(self.tables))


def everywhere(
    instructions: Sequence[Instruction], result: Operand, constants: Sequence[int]
) -> Native | None:
    """Return native code of 32 bits for all elements of a matrix; None if there is none.

    Parameters
    ----------
    result
        The value of an element.
    """
    codes = [one.code for one in instructions]
    is_sum = SUM in codes
    if is_sum and (codes.index(SUM) or codes.count(SUM) > 1 or _OF_ELEMENTS & set(codes) != {SUM}):
        return None
    writer = _Writer(constants, _apart(instructions), _uses(instructions, [result]))
    made = [one for one in instructions if one in writer.apart]
    is_window = [one.code for one in made] in _WINDOWS and result is (made[-1] if made else result)
    others = list[Operand]()
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
        f"wf_each_sum(g, k[{writer.tables[0]}], [&](uint32_t sum) {{"
        if is_sum
        else "wf_each<WF_MANY(2)>(g, [&](const auto &e) {",
        *("    " + line for line in [*writer.each, f"return {writer.operand(result)};"]),
        "});",
    )


def placed(
    instructions: Sequence[Instruction],
    results: Sequence[tuple[Operand | None, Operand, Operand]],
    constants: Sequence[int],
) -> Native | None:
    """Return native code of 32 bits for elements that stand over others; None if there is none.

    Parameters
    ----------
    results
        Line, None for every one, position and value of each.
    """
    alone = {line is not None for line, _, _ in results}
    codes = {one.code for one in instructions}
    if len(alone) != 1 or codes & {SUM, Code.NOISE, Code.POSITION}:
        return None
    values = [one for result in results for one in result if one is not None]
    writer = _Writer(constants, _apart(instructions), _uses(instructions, values))
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


def _uses(instructions: Sequence[Instruction], results: Sequence[Operand]) -> Counter[Operand]:
    """Count how often each value is used."""
    return Counter([*(x for one in instructions for x in one.operands), *results])


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
