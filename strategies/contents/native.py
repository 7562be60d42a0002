"""Native code for fills: the instructions of `device` as C++ text, with their numbers left open.

Few fills differ in more than their numbers (formats, positions of bits, draws, tables). What such
fills have in common, a shape, is written once as a function, `runners/reference/native.h`, which
contents.h includes; `native_shapes.SHAPES` names the shapes that are in it. A fill of a known shape
is then its number and its own numbers, and a device executes what its compiler made of the
function; a fill of any other is instructions as before, and both give the same bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from strategies.contents.expressions import Code

SUM, RIGHT_OF_NUMBERS = 8, 22
"""Codes of a device that differ from `Code`'s: SUM is 8, RIGHT of a number 22."""
CONSTANT = 0x8000
"""Operands from here on are constants."""
_LOW = (1 << 32) - 1


@dataclass(eq=False)
class Instruction:
    """One operation of a device."""

    code: int
    operands: list[Operand]
    cut: int = 0
    """Bits that are kept of the result; 0: all."""
    slot: int = 1023
    """Where the result is kept; 1023: nowhere."""


Operand = int | Instruction
"""A constant or a scalar, or what computes it."""


@dataclass(frozen=True)
class Native:
    """A function, and the numbers that it is given."""

    text: str
    """Its body: that of a shape."""
    numbers: tuple[int, ...]
    """Without their signs."""
    is_wide: bool
    """Whether its numbers have 64 bits, not 32."""
    tables: tuple[int, ...] = ()
    """Which of its numbers say where a table starts; the next one is its last place."""

    @property
    def name(self) -> str:
        """What tells it from other shapes."""
        return name_of(self.text)

    @property
    def words(self) -> list[int]:
        """The numbers as words of 64 bits."""
        if self.is_wide:
            return list(self.numbers)
        both = [*self.numbers, 0]
        return [both[i] | both[i + 1] << 32 for i in range(0, len(self.numbers), 2)]


def name_of(text: str) -> str:
    """Return what a shape is called in `SHAPES`: the start of its SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


_BINARY = {
    Code.ADD: "{} + {}",
    Code.SUBTRACT: "{} - {}",
    Code.MULTIPLY: "{} * {}",
    Code.AND: "{} & {}",
    Code.OR: "{} | {}",
    Code.XOR: "{} ^ {}",
    Code.LEFT: "{} << ({} & (8 * sizeof(T) - 1))",
    Code.RIGHT: "{} >> ({} & (8 * sizeof(T) - 1))",
    RIGHT_OF_NUMBERS: "(T)((S){} >> ({} & (8 * sizeof(T) - 1)))",
    Code.EQUAL: "(T)({} == {})",
    Code.LESS: "(T)((S){} < (S){})",
    Code.SELECT: "{} ? {} : {}",
    Code.CLIP: "wf_clipped<T>({}, {}, {})",
}
_MOST = 64
"""Instructions of native code: more are rare, and take long to compile."""
_OF_ELEMENTS = {Code.LINE, Code.POSITION, Code.NOISE, Code.AT}
_WINDOWS: tuple[list[int], ...] = (
    [],
    [Code.NOISE],
    [Code.NOISE, Code.AND],
    [Code.NOISE, Code.AND, Code.ADD],
)
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
    is_wide: bool
    apart: set[Instruction]
    """Those that differ from element to element."""
    numbers: list[int] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)
    """Of the numbers those that say where tables start."""
    names: dict[Instruction, str] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)
    each: list[str] = field(default_factory=list)

    def number(self, value: int) -> str:
        """Return a number that is given."""
        self.numbers.append(value & (1 << 64) - 1 if self.is_wide else value & _LOW)
        return f"k{len(self.numbers) - 1}"

    def operand(self, one: Operand) -> str:
        """Return the name of an operand."""
        if isinstance(one, Instruction):
            return self.names[one]
        return self.number(self.constants[one & CONSTANT - 1])

    def write(self, one: Instruction, *, of_line: bool) -> None:
        """Write an instruction; of a line its number is `line`."""
        operands = one.operands
        match one.code:
            case Code.LINE:
                text = "line" if of_line else "e.line()"
            case Code.POSITION:
                text = "e.position()"
            case Code.NOISE:
                text = "e.noise()"
            case Code.AT:
                line = "line" if of_line else "e.line()"
                text = f"e.beside({line}, {self.operand(operands[0])})"
            case Code.DRAW:
                text = f"wf_drawn<T>(g, {self.operand(operands[0])}, {self._plain(operands[1])})"
            case Code.PATTERN | Code.NUMBER:
                self.tables.append(len(self.numbers))
                start, last = map(self._plain, operands[1:])
                text = f"wf_looked_up<T>(g, {start}, {last}, {self.operand(operands[0])})"
            case Code.NARROW:
                text = self.operand(operands[0])
            case _:
                text = _BINARY[one.code].format(*map(self.operand, operands))
        if one.cut:
            text = f"({text}) & {self.number((1 << one.cut) - 1)}"
        name = self.names[one] = f"v{len(self.names)}"
        (self.each if one in self.apart else self.before).append(f"const T {name} = {text};")

    def _plain(self, value: Operand) -> str:
        assert isinstance(value, int)
        return self.number(value)

    def native(self, *end: str) -> Native:
        """Return the code; `end` says what is done with the values."""
        bits = 64 if self.is_wide else 32
        numbers = [f"const T k{i} = wf_numbered<T>(g, {i});" for i in range(len(self.numbers))]
        head = [f"typedef uint{bits}_t T;", f"typedef int{bits}_t S;", "(void)sizeof(S);"]
        text = "\n".join(["WF_GIVEN;", *head, *numbers, *self.before, *end])
        return Native(text, tuple(self.numbers), self.is_wide, tuple(self.tables))


def everywhere(
    instructions: Sequence[Instruction],
    result: Operand,
    constants: Sequence[int],
    *,
    is_wide: bool,
    is_pair: bool,
) -> Native | None:
    """Return native code for all elements of a matrix; None if there is none.

    Parameters
    ----------
    result
        The value of an element.
    is_wide
        Whether it needs 64 bits.
    is_pair
        Whether elements have 4 bits, so that two share a byte.
    """
    if any(one.code == SUM for one in instructions) or len(instructions) > _MOST:
        return None
    writer = _Writer(constants, is_wide, _apart(instructions))
    made = [one for one in instructions if one in writer.apart]
    codes = [one.code for one in made]
    is_window = not is_wide and codes in _WINDOWS and result is (made[-1] if made else result)
    others = list[Operand]()
    for before, one in pairwise(made) if is_window else ():
        is_window &= one.operands[0] is before and one.operands[1] not in writer.apart
        others.append(one.operands[1])
    for one in instructions:
        if not (is_window and one in writer.apart):
            writer.write(one, of_line=False)
    if is_window:
        if not made:
            both = "0", writer.operand(result)
        else:
            given = [writer.operand(one) for one in others]
            mask, plus, *_ = *given, *["~(T)0", "0"][len(given) :], "0"
            both = mask, plus
        call = "wf_windowed(filling, places, base, image, lane, lanes, {}, {});".format(*both)
        return writer.native(call)
    name = writer.operand(result)
    unroll = 1 if is_wide or is_pair else 2
    body = "\n".join("    " + line for line in [*writer.each, f"return {name};"])
    element = f"const wf_one<T, {int(is_pair)}> &e"
    each = f"wf_each<T, WF_MANY({unroll}), {int(is_pair)}>(g, [&]({element}) {{"
    return writer.native(each, body, "});")


def placed(
    instructions: Sequence[Instruction],
    results: Sequence[tuple[Operand | None, Operand, Operand]],
    constants: Sequence[int],
    *,
    is_wide: bool,
    is_pair: bool,
) -> Native | None:
    """Return native code for elements that are placed over the others; None if there is none.

    Parameters
    ----------
    results
        Line, None for every one, position and value of each.
    """
    if any(one.code in (SUM, Code.NOISE, Code.POSITION) for one in instructions):
        return None
    if len(instructions) > _MOST:
        return None
    alone = {line is not None for line, _, _ in results}
    if len(alone) != 1:
        return None
    writer = _Writer(constants, is_wide, _apart(instructions))
    for one in instructions:
        writer.write(one, of_line=True)
    (is_alone,) = alone
    if is_alone and writer.apart:
        return None
    puts = []
    for line, position, value in results:
        where = "line" if line is None else writer.operand(line)
        both = writer.operand(position), writer.operand(value)
        puts.append("wf_put<T, {}>(g, {}, {}, {});".format(int(is_pair), where, *both))
    body = "\n".join("    " + one for one in [*writer.each, *puts])
    if is_alone:
        head, tail = "if (lane == 0) {", "}"
    else:
        types = f"T, {int(is_pair)}"
        head = f"wf_each_line<{types}>(g, [&](const wf_one<{types}> &e, T line) {{"
        tail = "    (void)e;\n});"
    return writer.native(head, body, tail)


def header(texts: Sequence[str]) -> str:
    """Return native.h: a function for each shape, and one that calls the one of a number."""
    parts = [
        "/* Written by strategies/contents/native_shapes.py; contents.h includes it. */",
    ]
    for number, text in enumerate(texts):
        lines = "\n".join("    " + line for line in text.splitlines())
        parts.append(f"/* {name_of(text)} */\nWF_NATIVE(wf_native_{number}) {{\n{lines}\n}}")
    cases = "\n".join(
        f"    case {number}: wf_native_{number}(WF_PASSED); break;" for number in range(len(texts))
    )
    parts.append(
        "WF_CALLED void wf_native(WF_NATIVE_TAKES, uint32_t which) {\n"
        f"    switch (which) {{\n{cases}\n    }}\n}}"
    )
    return "\n\n".join(parts) + "\n"
