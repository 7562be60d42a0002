"""The cells of an image, and simpler values of them: of one element, or small new dot products.

Cells are the elements of every matrix that the program loads, each once, and one for each byte that
belongs to none of them. Bits are counted from bit 0 of byte 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import islice
from random import Random

import numpy as np
from numpy.typing import NDArray

from oracle.isa.forms import Form, Format, FormatKind, format_named
from oracle.program.operands import Register
from oracle.program.program import Program
from oracle.program.steps import loads_fragment, multiplies_fragments
from strategies.matrices import Image, Placed, firsts, inputs, places_of
from strategies.simplification.examples import visit

Ids = NDArray[np.intp]  # Numbers of cells
_RUNS = (16, 4, 2)  # Bytes zeroed together outside of matrices: rows of ldmatrix, words, elements
_AXES = {"a": ("row", "k"), "b": ("k", "column"), "c": ("row", "column")}
"""What rows and columns of a matrix stand for in the product that it takes part in."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Where the elements of an image lie."""

    program: Program
    starts: NDArray[np.int64]  # (count,): first bit of each cell
    sizes: NDArray[np.int64]  # (count,): bits of each cell
    types: Sequence[Format]  # Format of each cell; u8 for bytes that belong to no matrix
    matrices: Sequence[tuple[str, Ids]]  # Operand and cells, (rows, columns), of each matrix

    @cached_property
    def elements(self) -> int:
        """Cells that are elements of matrices; they come first."""
        return 1 + max((int(ids.max()) for _, ids in self.matrices), default=-1)

    def nonzero(self, image: Image) -> Ids:
        """Return the cells with a bit that is set."""
        first, whole = self.starts // 8, self.sizes // 8
        counts = np.concatenate([[0], np.cumsum(image != 0)])
        low = (image[first] >> (self.starts % 8).astype(np.uint8)) & self._low_bits
        return np.flatnonzero((counts[first + whole] > counts[first]) | (low != 0))

    @cached_property
    def _low_bits(self) -> NDArray[np.uint8]:
        """Mask of a cell that is less than a byte, at bit 0; no bit for the others."""
        return np.where(self.sizes < 8, (1 << self.sizes % 8) - 1, 0).astype(np.uint8)

    def value(self, image: Image, cell: int) -> int:
        """Return the raw bits of a cell."""
        bytes_, shift, mask = self._bits(cell)
        return int.from_bytes(image[bytes_].tobytes(), "little") >> shift & mask

    def with_value(self, image: Image, cell: int, value: int) -> Image:
        """Return an image with other bits in one cell."""
        bytes_, shift, mask = self._bits(cell)
        changed = image.copy()
        before = changed[bytes_].tobytes()
        word = int.from_bytes(before, "little") & ~(mask << shift) | value << shift
        changed[bytes_] = np.frombuffer(word.to_bytes(len(before), "little"), np.uint8)
        return changed

    def _bits(self, cell: int) -> tuple[slice, int, int]:
        first, size = int(self.starts[cell]), int(self.sizes[cell])
        return slice(first // 8, -(-(first + size) // 8)), first % 8, (1 << size) - 1

    def without(self, image: Image, ids: Ids) -> Image:
        """Return an image with zeros in some cells."""
        cleared = image.copy()
        first, whole = self.starts[ids] // 8, self.sizes[ids] // 8
        within = np.arange(int(whole.max(initial=0)))
        cleared[(first[:, None] + within)[within < whole[:, None]]] = 0
        narrow = ids[self.sizes[ids] < 8]
        shifts = (self.starts[narrow] % 8).astype(np.uint8)
        np.bitwise_and.at(cleared, self.starts[narrow] // 8, ~(self._low_bits[narrow] << shifts))
        return cleared

    def of_matrix(self, placed: Placed) -> Ids:
        """Return the cells of one of the loaded matrices, (rows, columns)."""
        bits, size = firsts(self.program, placed), placed.tile.matrix.type.bits
        cells = np.flatnonzero(self.sizes[: self.elements] == size)
        return cells[np.searchsorted(self.starts[cells], bits)]

    @cached_property
    def around(self) -> Ids:
        """The cells of bytes that belong to no matrix."""
        return np.arange(self.elements, len(self.starts))

    def groups(self) -> Iterator[list[Ids]]:
        """Iterate over ways to part the cells, from coarse to fine."""
        yield [np.arange(len(self.starts))]
        yield [self.around]
        byte, offset = self.starts[self.around] // 8, self.program.offset
        buffers = [buffer for buffer in self.program.buffers if buffer.space == "global"]
        starts = [(offset(buffer.name), buffer.size) for buffer in buffers]
        yield [self.around[(byte >= at) & (byte < at + size)] for at, size in starts]
        yield [np.unique(ids) for _, ids in self.matrices]
        # For each row of A and C, column of B and C, or k of A and B, its cells.
        for axis in ("row", "column", "k"):
            lines: dict[int, list[Ids]] = {}
            for operand, ids in self.matrices:
                if axis in _AXES[operand]:
                    for index, line in enumerate(ids if _AXES[operand][0] == axis else ids.T):
                        lines.setdefault(index, []).append(line)
            yield [np.unique(np.concatenate(lines[index])) for index in sorted(lines)]
        for size in _RUNS:
            yield self.runs(size)

    def runs(self, size: int) -> list[Ids]:
        """Part the bytes that belong to no matrix into aligned runs of some bytes."""
        run = self.starts[self.around] // (8 * size)
        return np.split(self.around, np.flatnonzero(np.diff(run)) + 1) if len(run) else []


@lru_cache(maxsize=8)
def cells_of(program: Program) -> Cells:
    """Return the cells of a program's images."""
    loaded = inputs(program)
    bits = [firsts(program, placed) for placed in loaded]
    types = [placed.tile.matrix.type for placed in loaded]
    counts = [some.size for some in bits]
    spans = np.zeros((sum(counts), 2), np.int64)
    spans[:, 0] = np.concatenate([np.zeros(0), *(some.ravel() for some in bits)])
    spans[:, 1] = np.repeat(np.array([one.bits for one in types], np.int64), counts)
    unique, first, inverse = np.unique(spans, axis=0, return_index=True, return_inverse=True)
    parts = np.split(inverse.reshape(-1), np.cumsum(counts))
    covered = np.zeros(program.image_bytes + 1, np.int64)
    np.add.at(covered, unique[:, 0] // 8, 1)
    np.add.at(covered, -(-(unique[:, 0] + unique[:, 1]) // 8), -1)
    others = np.flatnonzero(np.cumsum(covered)[:-1] == 0)
    owners = np.repeat(np.arange(len(types)), counts)[first].tolist()
    return Cells(
        program=program,
        starts=np.concatenate([unique[:, 0], 8 * others]),
        sizes=np.concatenate([unique[:, 1], np.full(len(others), 8)]),
        types=[*(types[owner] for owner in owners), *[format_named("u8")] * len(others)],
        matrices=[
            (placed.operand, part.reshape(some.shape))
            for placed, part, some in zip(loaded, parts, bits, strict=False)
        ],
    )


def complexity(program: Program, image: Image) -> int:
    """Return how many elements of the loaded matrices are not zero; without any, how many bytes."""
    cells = cells_of(program)
    nonzero = cells.nonzero(image)
    return int((nonzero < cells.elements).sum()) if cells.elements else len(nonzero)


_Cost = tuple[int, ...]


def number(type_: Format, raw: int) -> Fraction | None:
    """Return what the raw bits of an element stand for; None for infinities and NaN."""
    if type_.kind is not FormatKind.FLOAT:
        negative = type_.kind is FormatKind.SIGNED and raw >> (type_.bits - 1)
        return Fraction(raw - (1 << type_.bits) if negative else raw)
    raw >>= type_.ignored_bits
    fraction = raw & ((1 << type_.fraction_bits) - 1)
    field = raw >> type_.fraction_bits & ((1 << type_.exponent_bits) - 1)
    if field == (1 << type_.exponent_bits) - 1:
        return None
    significand = fraction + (1 << type_.fraction_bits if field else 0)
    scale = max(field, 1) - type_.bias - type_.fraction_bits
    sign = -1 if raw >> (type_.fraction_bits + type_.exponent_bits) & 1 else 1
    return sign * significand * Fraction(2) ** scale


def nearest(type_: Format, value: Fraction) -> int:
    """Return the raw bits of the finite element that is nearest to a number; ties to even."""
    if type_.kind is not FormatKind.FLOAT:
        signed = type_.kind is FormatKind.SIGNED
        low = -(1 << (type_.bits - 1)) if signed else 0
        high = (1 << (type_.bits - signed)) - 1
        return min(max(round(value), low), high) & ((1 << type_.bits) - 1)
    sign = (type_.magnitude + 1) >> type_.ignored_bits if value < 0 else 0
    magnitude = abs(value)
    least = 1 - type_.bias
    scale = max(least, exponent(magnitude)) if magnitude else least
    units = round(magnitude / Fraction(2) ** (scale - type_.fraction_bits))
    # A sum of the exponent field less one and the significand with its leading bit; where
    # rounding carries, the field goes up by itself.
    raw = (scale + type_.bias - 1 << type_.fraction_bits) + units
    largest = ((1 << type_.exponent_bits) - 1 << type_.fraction_bits) - 1
    return (sign | min(raw, largest)) << type_.ignored_bits


def exponent(magnitude: Fraction) -> int:
    """Return the exponent of the power of two that is nearest from below."""
    guess = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return guess if Fraction(2) ** guess <= magnitude else guess - 1


def simpler_values(type_: Format, value: int) -> list[int]:
    """Return raw bits that are simpler than some, the simplest first; never zero.

    One; powers of two, the nearer to one the simpler; few bits of the significand; positive ones.
    """
    offers = {_cost(type_, other): other for other in _offers(type_, value) if other}
    return [offers[cost] for cost in sorted(offers) if cost < _cost(type_, value)]


def _offers(type_: Format, value: int) -> Iterator[int]:
    yield type_.one
    sign = type_.magnitude + 1
    if type_.kind is FormatKind.FLOAT:
        unit = sign >> type_.exponent_bits
        fraction, exponent = value & (unit - 1), value & (sign - 1) & ~(unit - 1)
        yield value & ~sign
        yield value & ~(unit - 1)
        yield exponent
        middle = (exponent // unit + type_.bias) // 2
        nearer = exponent // unit + (1 if exponent // unit < type_.bias else -1)
        for other in (type_.bias, middle, nearer):
            yield other * unit
            yield value & sign | other * unit | fraction
        for bit in range(unit.bit_length() - 1):
            yield value & ~(1 << bit)
        return
    yield value & ~sign
    magnitude = (1 << type_.bits) - value if _negative(type_, value) else value
    yield magnitude & (sign | sign - 1)
    yield 1 << (magnitude.bit_length() - 1)
    yield -(1 << (magnitude.bit_length() - 1)) & ((1 << type_.bits) - 1)
    yield magnitude >> 1
    for bit in range(type_.bits):
        yield value & ~(1 << bit)


def _negative(type_: Format, value: int) -> bool:
    return type_.kind is not FormatKind.UNSIGNED and bool(value & (type_.magnitude + 1))


def _cost(type_: Format, value: int) -> _Cost:
    if value == type_.one:
        return (0,)
    negative = _negative(type_, value)
    if type_.kind is FormatKind.FLOAT:
        unit = (type_.magnitude + 1) >> type_.exponent_bits
        exponent = (value >> (unit.bit_length() - 1)) & ((1 << type_.exponent_bits) - 1)
        distance = abs(exponent - type_.bias)
        return (1, (value & (unit - 1)).bit_count(), negative, distance, value)
    magnitude = (1 << type_.bits) - value if negative else value
    return (1, negative, magnitude.bit_count(), magnitude.bit_length(), magnitude)


ENOUGH = 3  # Elements of one dot product that need not become fewer: a product and C
_OUTPUTS = 8  # Most dot products of one multiplication that are looked at


@dataclass(frozen=True, kw_only=True, eq=False)
class Dot:
    """One dot product of an image: the cells of a row of A, of a column of B and of C's element."""

    cells: Cells
    image: Image
    form: Form
    a: Sequence[int]
    b: Sequence[int]
    c: int

    @cached_property
    def _left(self) -> frozenset[int]:
        return frozenset(self.cells.nonzero(self.image).tolist())

    @cached_property
    def terms(self) -> list[int]:
        """The k of the terms with a factor that is not zero."""
        return [k for k in range(len(self.a)) if not self._left.isdisjoint((self.a[k], self.b[k]))]

    @property
    def size(self) -> int:
        """How many of its elements are not zero."""
        return len(self._left.intersection((*self.a, *self.b, self.c)))

    @cached_property
    def _cleared(self) -> Image:
        return self.cells.without(self.image, np.unique([*self.a, *self.b, self.c]))

    def of(self, factors: Mapping[int, tuple[int, int]], c: int = 0) -> Image:
        """Return the image with these terms alone, by their k, and C."""
        image = self._cleared
        for k, (a, b) in factors.items():
            image = self.cells.with_value(image, self.a[k], a)
            image = self.cells.with_value(image, self.b[k], b)
        return self.cells.with_value(image, self.c, c) if c else image


def dots(cells: Cells, image: Image) -> Iterator[Dot]:
    """Iterate over dot products with more than ENOUGH elements that are not zero, a few at most.

    They are of the multiplications whose A, B and C were loaded and not changed since: of A (m, k),
    B (k, n) and C (m, n) the largest, where most of the terms meet.
    """
    held: dict[tuple[Register, ...], Ids] = {}
    nonzero = cells.nonzero(image)
    for _, step in visit(cells.program.steps):
        if multiplies_fragments(step):
            ids = [held[use.registers] for use in step.reads if use.registers in held]
            if len(ids) == 3:
                a, b, c = (np.isin(some, nonzero) for some in ids)
                # Single bits make terms that are not zero without any in B.
                sizes = a.sum(axis=1)[:, None] + b.sum(axis=0) + c
                for at in np.argsort(-sizes, axis=None, kind="stable")[:_OUTPUTS].tolist():
                    row, column = divmod(at, sizes.shape[1])
                    if sizes[row, column] > ENOUGH:
                        yield Dot(
                            cells=cells, image=image, form=step.form, a=ids[0][row].tolist(),
                            b=ids[1][:, column].tolist(), c=int(ids[2][row, column]),
                        )  # fmt: skip
        elif not loads_fragment(step):
            continue
        written = set(step.writes.registers) if step.writes is not None else set()
        held = {vector: ids for vector, ids in held.items() if written.isdisjoint(vector)}
        if loads_fragment(step):
            for place in places_of(cells.program, step.memory.place):
                placed = Placed(operand=step.form.matrix().operand, place=place, tile=step.tile)
                held[step.uses[0].registers] = cells.of_matrix(placed)


def _product(form: Form, raw: tuple[int, int]) -> Fraction:
    a, b = number(form.a_type, raw[0]), number(form.b_type, raw[1])
    return (a or Fraction(0)) * (b or Fraction(0))


_SEED = 20261121  # Fixed, so that shrinking a case twice gives the same
_DRAWN = 2048  # Sums of each size that are drawn: about a second on the simulated device
_SIZES = ((1, True, 3), (2, False, 4), (2, True, 5))
"""Products, whether C is anything but zero, elements."""
_FEW_BITS = 5  # Behind the leading one of a short significand: products of two are ties in f16
_AWAY, _ABOVE_ONE = 8, 4
"""Most powers of two by which a factor is away from one that was there, and above one."""
_BELOW, _SMALL_ONES = range(33), 6
"""Powers of two by which a second product is below the first, and how many of these are tried."""
_ADDED = (1, 11, *range(22, 28))
"""Powers of two by which C is below a product: mostly the 23 to 25 bits that adders keep."""


def replaced(dot: Dot) -> Iterator[Iterator[Image]]:
    """Iterate over ways to put a smaller dot product in the place of one, the smallest first.

    A way is images of which one may do: sums of few products and C that make rounding difficult. Of
    sixteen random terms that make a tie and a minute part by chance, none can be left out.
    """
    for products, with_c, size in _SIZES if dot.form.op is None else ():
        if dot.size <= size or len(dot.terms) < products:
            return
        yield islice(_drawn(Random(_SEED), dot, products, with_c=with_c), _DRAWN)


def _drawn(random: Random, dot: Dot, products: int, *, with_c: bool) -> Iterator[Image]:
    form = dot.form
    known_a, known_b = (
        [dot.cells.value(dot.image, cells[k]) for k in dot.terms] for cells in (dot.a, dot.b)
    )
    while True:
        near, ks = random.randrange(2) == 0, random.sample(dot.terms, products)
        factors = [
            (_factor(random, form.a_type, known_a, near=near),
             _factor(random, form.b_type, known_b, near=near))
            for _ in ks
        ]  # fmt: skip
        ways = [factors]
        if products > 1 and (divisor := number(form.a_type, factors[1][0])):
            # And with the second product far below the first.
            for below in random.sample(_BELOW, _SMALL_ONES):
                wanted = _product(form, factors[0]) / divisor * Fraction(2) ** -below
                small = nearest(form.b_type, random.choice((1, -1)) * wanted)
                ways.append([factors[0], (factors[1][0], small)])
        for pairs in ways:
            total = sum((_product(form, pair) for pair in pairs), Fraction(0))
            addends = _addends(form.c_type, total) if with_c else [0]
            for c in random.sample(addends, 2) if with_c and products > 1 else addends:
                yield dot.of(dict(zip(ks, pairs, strict=True)), c)


def _factor(random: Random, type_: Format, known: Sequence[int], *, near: bool) -> int:
    """Draw a factor: one that was there, a minute one, a power of two, or a short odd one.

    With `near`, the last two are about as large as one that was there; else about one.
    """
    raw = random.choice(known)
    if not type_.is_float:
        return random.choice((raw, 1, *_ends(type_)))
    match random.randrange(6):
        case 0:
            return raw
        case 1:
            return random.randint(1, 4) << type_.ignored_bits
    value = number(type_, raw)
    size = random.randint(0, _ABOVE_ONE)
    if near and value:
        size = value.numerator.bit_length() - value.denominator.bit_length()
        size += random.randint(-_AWAY, _AWAY)
    significand = 1 << _FEW_BITS
    if random.randrange(2):
        significand += 1 + 2 * random.randrange(1 << _FEW_BITS - 1)
    scale = Fraction(2) ** (size - _FEW_BITS)
    return nearest(type_, random.choice((1, -1)) * significand * scale)


def _ends(type_: Format) -> tuple[int, int]:
    beyond = Fraction(1 << type_.bits)
    return nearest(type_, -beyond), nearest(type_, beyond)


def _addends(type_: Format, total: Fraction) -> list[int]:
    """Return what is added: far below a product, or about what is left to zero or an end."""
    mask, rest = (1 << type_.bits) - 1, [-total]
    small = [total * Fraction(sign, 1 << below) for below in _ADDED for sign in (1, -1)]
    if not type_.is_float:
        small = []
        rest += [(number(type_, end) or Fraction(0)) - total for end in _ends(type_)]
    about = [nearest(type_, value) + off & mask for value in rest for off in (0, 1, -1)]
    return [*(nearest(type_, value) for value in small), *about]
