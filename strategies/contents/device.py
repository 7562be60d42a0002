"""Contents as plain arrays, for a device that makes the same images: runners/reference/contents.h.

Image n of a recipe is made in three steps, each by any number of lanes, with a barrier behind it:

1. Words. Every block of 16 bytes that is `drawn` gets its words, as does a second copy of the
   image, `noise`, which stays as it is; the other blocks get what gaps are filled with.
2. For each filling, in order, every element gets the value of the expression `everywhere` of the
   fill whose turn it is;
3. then elements that are placed over the others get theirs.

The fill of a filling f: slot s = n mod period, turn t = n div period, and `programs[f][s]` is the
first and the number of entries of `starts` of which the one at t mod number is where its code is.

Code is 64-bit words. A fill starts with one of four numbers of 16 bits, low ones first: how many
instructions compute numbers of the image, how many then compute `everywhere` of an element, the
operand that holds it (LEAVE: elements stay as they are), and how many are placed. Both kinds of
instructions follow. Each placed one is again four numbers of 16 bits (its instructions, and the
operands of line, LEAVE for every line, of position and of value), and its instructions.

An instruction is, from bit 0 on: 7 bits of `Code`; 1 that says that it is one of patterns, whose
arguments and result are cut to the unit's bits; 8 bits of the register that is written; three
operands of 16 bits. An operand from 2^15 on is a constant, else a register. Tables are given as
constants: where they start, and how many values there are. Of SUM the first operand is a constant
that says where the numbers of `_sum` start.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oracle.formats import Kind
from oracle.program import Program
from strategies.contents.expressions import NOISE, Code, Fill, Node, Table
from strategies.contents.philox import sharing
from strategies.contents.plans import BLOCK, Filling, Window, plan_of
from strategies.contents.recipes import Recipe
from strategies.contents.sums import Sum

LEAVE = 0xFFFF
REGISTERS = 128
"""Registers that a device has for a fill."""
_CONSTANT = 0x8000
_READ_ONLY = 1 << 31
_HEADER = 10
"""Words of 64 bits in front of the arrays."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceContents:
    """What a device is given."""

    seed: int
    """Key of Philox4x32-10."""
    period: int
    sharing: int
    """Images n with the same n div (period x sharing) share words (`philox`)."""
    image_bytes: int
    drawn: NDArray[np.uint8]
    """(blocks of 16 bytes,): 1 where anything reads the block."""
    fillings: NDArray[np.int32]
    """(fillings, 8): bits of an element; lines; positions; whether its lines lie across those in
    memory; where its `places` start; bytes of a line in memory; fillings of A and of B of the
    product that a C belongs to, or -1. Of 4 bits two elements share a byte, the first one low."""
    programs: NDArray[np.int32]
    """(fillings, period, 2)."""
    starts: NDArray[np.int32]
    code: NDArray[np.uint64]
    constants: NDArray[np.uint64]
    places: NDArray[np.uint32]
    """Byte of the image for each byte of a filling, line by line as they lie in memory; with bit 31
    it is only read: another element of the filling that has the same byte writes it."""

    @property
    def words(self) -> NDArray[np.uint64]:
        """All of it, as `wf_opened` in contents.h reads it.

        Ten words: the seed, then period and sharing, bytes of an image and number of fillings (low
        half first), then at which word each array starts, in the order that they have above.
        """
        arrays = (
            self.drawn, self.fillings, self.programs, self.starts, self.code, self.constants,
            self.places,
        )  # fmt: skip
        parts = [array.tobytes() for array in arrays]
        parts = [part + bytes(-len(part) % 8) for part in parts]
        starts = _HEADER + np.cumsum([0, *(len(part) // 8 for part in parts[:-1])])
        sizes = self.image_bytes | len(self.fillings) << 32
        header = [self.seed, self.period | self.sharing << 32, sizes, *starts.tolist()]
        return np.frombuffer(np.array(header, "<u8").tobytes() + b"".join(parts), "<u8")


def device_contents(recipe: Recipe, program: Program) -> DeviceContents:
    """Return what a device needs to make the images of a recipe."""
    plan = plan_of(program)
    drawn = np.zeros(program.image_bytes // BLOCK, np.uint8)
    drawn[plan.blocks.astype(np.intp)] = 1
    # Where the bytes of a row lie in the image.
    bytes_ = np.flatnonzero(np.repeat(drawn, BLOCK))
    code = _Assembler()
    numbers: dict[Window, int] = {one.window: i for i, one in enumerate(plan.fillings)}
    fillings, programs, starts, places = [], [], list[int](), []
    size = 0
    for one in plan.fillings:
        fillings.append(_row(one, numbers, size))
        read_only = np.where(one.window.last, 0, _READ_ONLY)
        places.append((bytes_[one.window.places] | read_only).ravel())
        size += places[-1].size
        for class_ in recipe.classes:
            fills = one.fills[class_]
            programs.append((len(starts), len(fills)))
            starts += [code.start(fill) for fill in fills]
    period = len(recipe.classes)
    return DeviceContents(
        seed=recipe.seed,
        period=period,
        sharing=sharing(period),
        image_bytes=program.image_bytes,
        drawn=drawn,
        fillings=np.array(fillings, np.int32).reshape(-1, 8),
        programs=np.array(programs, np.int32).reshape(-1, period, 2),
        starts=np.array(starts, np.int32),
        code=np.array(code.words, np.uint64),
        constants=np.array([one & (1 << 64) - 1 for one in code.constants], np.uint64),
        places=np.concatenate([np.zeros(0, np.intp), *places]).astype(np.uint32),
    )


def _row(one: Filling, numbers: dict[Window, int], places: int) -> tuple[int, ...]:
    window = one.window
    both = (-1, -1) if one.multiplicands is None else tuple(numbers[w] for w in one.multiplicands)
    width = window.places.shape[1]
    return (window.bits, *window.shape, int(window.is_turned), places, width, *both)


@dataclass
class _Assembler:
    """Turns fills into words of code."""

    words: list[int] = field(default_factory=list)
    constants: list[int] = field(default_factory=list)
    _known: dict[object, int] = field(default_factory=dict)
    _starts: dict[Fill, int] = field(default_factory=dict)

    def start(self, fill: Fill) -> int:
        """Return where the code of a fill starts."""
        if fill not in self._starts:
            self._starts[fill] = len(self.words)
            self._append(fill)
        return self._starts[fill]

    def _append(self, fill: Fill) -> None:
        wanted = [fill.everywhere]
        wanted += [
            value for one in fill.placed for value in (one.line, one.position, one.value) if value
        ]
        registers: dict[Node, int] = {}
        image = list[int]()
        for node in wanted:
            self._image(node, registers, image)
        everywhere, result = list[int](), LEAVE
        if fill.everywhere is not NOISE:
            result = self._operand(fill.everywhere, dict(registers), everywhere)
        self.words.append(_packed(len(image), len(everywhere), result, len(fill.placed)))
        self.words += image + everywhere
        for one in fill.placed:
            known, code = dict(registers), list[int]()
            line = LEAVE if one.line is None else self._operand(one.line, known, code)
            position = self._operand(one.position, known, code)
            value = self._operand(one.value, known, code)
            self.words += [_packed(len(code), line, position, value), *code]

    def _image(self, node: Node, registers: dict[Node, int], code: list[int]) -> None:
        """Compute the numbers of the image that a node is made of."""
        if node.code is Code.CONSTANT:
            return
        if node.of_image:
            self._operand(node, registers, code)
        else:
            for one in node.arguments:
                self._image(one, registers, code)

    def _operand(self, node: Node, registers: dict[Node, int], code: list[int]) -> int:
        """Compute a node, and return the operand that holds it."""
        if node.code is Code.CONSTANT:
            return self._constant(node.value)
        if node not in registers:
            operands = [self._operand(one, registers, code) for one in node.arguments]
            if isinstance(node.value, Table):
                values = node.value.values
                operands += [self._constant(self._stored(node.value, values))]
                operands += [self._constant(len(values))]
            elif isinstance(node.value, Sum):
                operands = [self._constant(self._stored(node.value, _sum(node.value)))]
            number = len(registers)
            if number >= REGISTERS:
                raise AssertionError("a fill of contents needs more registers than there are")
            registers[node] = number
            first, second, third = (*operands, 0, 0, 0)[:3]
            flags = int(node.code) | node.is_pattern << 7 | number << 8
            code.append(_packed(flags, first, second, third))
        return registers[node]

    def _constant(self, value: int) -> int:
        return _CONSTANT | self._stored(value, (value,))

    def _stored(self, key: object, values: tuple[int, ...]) -> int:
        if key not in self._known:
            self._known[key] = len(self.constants)
            self.constants += values
            if len(self.constants) > _CONSTANT:
                raise AssertionError("contents need more constants than operands can name")
        return self._known[key]


def _packed(*parts: int) -> int:
    return sum(part << 16 * i for i, part in enumerate(parts))


def _sum(one: Sum) -> tuple[int, ...]:
    """Return the numbers of a sum.

    Which kind (0 integers, 1 bits and, 2 bits xor, 3 floats, 4 f64); k, of single bits bytes of
    them; run. Then of integers for A and B the sign bit, or 0; of floats for A and B the bits below
    the exponent, those of them that are ignored, the exponent field of the window's least
    exponent, and the mask of its exponents, then the scale, span and lost bits of the sum, and of
    C the bits of its fraction, its bias and its sign bit.
    """
    if one.rounded is None:
        if one.a.kind is Kind.BITS:
            return 1 + (one.operation != "and"), one.depth // 8, one.run
        signs = ((1 << t.bits - 1) * (t.kind is Kind.SIGNED) for t in (one.a, one.b))
        return 0, one.depth, one.run, *signs
    windows = (
        (w.fields.shift, w.fields.format.ignored_bits, w.field, (1 << w.bits) - 1)
        for w in one.windows
    )
    c = one.rounded
    kind = 4 if one.a.bits == 64 else 3
    figures = (one.scale, one.span, one.lost, c.fraction_bits, c.bias, 1 << c.bits - 1)
    return kind, one.depth, one.run, *(part for window in windows for part in window), *figures
