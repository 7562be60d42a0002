"""What the ISA permits images to hold after a program: `docs/oracle.md`, "Bounds of programs"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oracle import layouts
from oracle.bounds.enclosure import enclosure
from oracle.errors import UsageError
from oracle.execution.chosen import Metadata, Scales, chosen_by, scale_places, scales_of
from oracle.execution.execution import Planes, Warps, has_figures, packed, run, slices_of
from oracle.isa.forms import FORMATS, Form, Format
from oracle.isa.targets import DEFAULT_TARGET
from oracle.models import Model, model_for
from oracle.program.definedness import check_defined
from oracle.program.lane_code import LaneCode, may_be_open
from oracle.program.lane_runs import run_lanes
from oracle.program.operands import Operation, Place, Use, Word
from oracle.program.operations import CANONICAL_NAN, FLOATS, Elementwise, Scalar, apply
from oracle.program.program import (
    Program,
    check_images,
    different,
    locate,
    walk,
    writable,
)
from oracle.program.steps import AnyOp, Copy, MatrixAccess, Product, RowAccess, is_lane_code
from oracle.program.warpgroup import AsyncProduct

EXACT = 0
"""Tag of a byte or an element whose bits are known."""
UNKNOWN = 0xFF
"""Tag of a byte or an element that may be anything."""
_ALL_UNKNOWN = np.uint32(UNKNOWN * 0x01010101)
BOUNDED = 1
"""Tag of an element that lies between its low and its high bound."""
BOUNDED_OR_NAN = 3
"""Tag of an element that lies between its bounds or is a NaN. Empty bounds leave only NaN."""

_MULTIPLIED = "bits", "tag"
"""What is asked of multiplicands: what they multiply to is exact, or unknown where they are not."""

# Memory carries one tag a byte, fragments one an element. A byte of a bounded element says what it
# is, so that copies carry elements along and a torn one is noticed: bit 0 set, bits 1 to 3
# which byte, bit 4 NaN, bits 5 and 6 format.
_CODES = {name: code for code, name in enumerate(FLOATS, start=1)}
_NAN = 1 << 4


def element_size(name: str) -> int:
    """Bytes of an element of f16, f32 or f64."""
    return np.dtype(FLOATS[name]).itemsize


def byte_tags(name: str, *, nan: bool) -> NDArray[np.uint8]:
    """Return the tags of the bytes of one bounded element of a format, uint8 (bytes,)."""
    first = 1 | (_NAN if nan else 0) | _CODES[name] << 5
    return (first + 2 * np.arange(element_size(name))).astype(np.uint8)


def _bounded_tags(type_: Format) -> Iterator[tuple[int, Any]]:
    """Yield tags of bounded elements, with the word of the tags of their bytes."""
    if type_.name in FLOATS:
        for tag, nan in ((BOUNDED, False), (BOUNDED_OR_NAN, True)):
            yield tag, byte_tags(type_.name, nan=nan).view(f"<u{type_.bits // 8}")[0]


def spread(tags: NDArray[np.uint8], type_: Format) -> NDArray[Any]:
    """Turn tags of elements of at least 8 bits into words whose bytes are the tags of the bytes."""
    words = np.repeat(np.where(tags == UNKNOWN, tags, EXACT)[..., None], type_.bits // 8, axis=-1)
    words = words.view(f"<u{type_.bits // 8}")[..., 0]
    for tag, word in _bounded_tags(type_):
        words[tags == tag] = word
    return words


def gather(words: NDArray[Any], type_: Format) -> NDArray[np.uint8]:
    """Turn words of the tags of memory into tags of elements; what is torn is unknown."""
    tags = np.where(words == 0, EXACT, UNKNOWN).astype(np.uint8)
    for tag, word in _bounded_tags(type_):
        tags[words == word] = tag
    return tags


def starts(tags: NDArray[np.uint8], name: str) -> NDArray[np.bool_]:
    """Return where whole bounded elements of "f16", "f32" or "f64" start, along the last axis."""
    size = element_size(name)
    found = np.zeros(tags.shape, dtype=bool)
    last = tags.shape[-1] - size + 1
    if last > 0:
        for nan in (False, True):
            wanted = byte_tags(name, nan=nan)
            match = [tags[..., i : i + last] == wanted[i] for i in range(size)]
            found[..., :last] |= np.logical_and.reduce(match)
    return found


def without_torn(tags: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return tags of what was moved together, elements that are not whole and in order unknown."""
    whole = tags == EXACT
    if whole.all():
        return tags
    for name in FLOATS:
        first = starts(tags, name)
        for byte in range(min(element_size(name), tags.shape[-1])):
            whole[..., byte:] |= first[..., : tags.shape[-1] - byte]
    return np.where(whole, tags, np.uint8(UNKNOWN))


class BoundedWarps(Warps):
    """A batch of warps, with bounds; bits of what is not exact are the model's, and not used."""

    PLANES: ClassVar[tuple[str, ...]] = ("bits", "low", "high", "tag")

    def __init__(self, program: Program, images: NDArray[np.uint8], model: Model) -> None:
        super().__init__(program, images, model)
        for planes in self.memory.values():
            for plane in self.PLANES[1:]:
                planes[plane] = np.zeros_like(planes["bits"])
        self.memory["warp"] = {
            name: np.zeros((len(images), 1), dtype=bool) for name in ("lost", "undefined")
        }

    @property
    def lost(self) -> NDArray[np.bool_]:
        """Which warps may have taken another path, bool (count,)."""
        return self.memory["warp"]["lost"][:, 0]

    @property
    def undefined(self) -> NDArray[np.bool_]:
        """Which warps took what has no meaning, of metadata, or of a NaN, bool (count,)."""
        return self.memory["warp"]["undefined"][:, 0]

    def uniform(self, use: Use, constant: int) -> Planes:
        return _exactly(super().uniform(use, constant)["bits"], np.uint8)

    def set_registers(self, step: Scalar) -> Planes:
        return _exactly(super().set_registers(step)["bits"], np.uint32)

    def load(self, step: MatrixAccess) -> Planes:
        """Return the matrix at a place; bounds of exact elements are their bits."""
        matrix = super().load(step)
        # A tag cut into 4-bit or single-bit elements may leave some of them 0, that is exact. Every
        # tag has bit 0 set, however, so each row or column of whole bytes has one that is not,
        # and that is all that a product asks of its multiplicands.
        return _gathered(matrix, step.form.type())

    def store(self, step: MatrixAccess, matrix: Planes) -> None:
        super().store(step, {**matrix, "tag": spread(matrix["tag"], step.form.type())})

    def multiply(self, step: Product, a: Planes, b: Planes, c: Planes) -> Planes:
        return self._product(step.form, (a, b, c, super().multiply(step, a, b, c)))

    def multiply_registers(
        self, step: Product, a: Planes, b: Planes, c: Planes, *others: Planes
    ) -> Planes:
        form, exact = step.form, super().multiply_registers(step, a, b, c, *others)
        given = zip("abc", map(self.by_warp, (a, b, c)), strict=True)
        a, b, c = (self._elements(form, *one) for one in given)
        further = [self.by_warp(one) for one in others]
        metadata, scaling = chosen_by(step, [one["bits"] for one in further])
        if scaling is not None:
            for operand, held in zip("ab", further[-2:], strict=True):
                holders, _ = scale_places(form, operand, scaling[2])
                unclear = held["tag"][:, holders, 0] != EXACT
                unclear = unclear[:, :, None] if operand == "a" else unclear[:, None]
                c["tag"] = np.where(unclear, np.uint8(UNKNOWN), c["tag"])
        placed = None if metadata is None else (metadata, further[0]["tag"])
        scales = None if scaling is None else scales_of(form, scaling)
        made = self._packed(form, (a, b, c), self.by_warp(exact)["bits"], placed, scales)
        return {plane: words.reshape(exact["bits"].shape) for plane, words in made.items()}

    def multiply_async(self, step: AsyncProduct, *given: Planes) -> Planes:
        form, exact = step.form, super().multiply_async(step, *given)["bits"]
        of = {use.field: planes for use, planes in zip(step.reads, given, strict=True)}
        c = _exactly(np.zeros((self.count, form.shape.m, form.shape.n), form.c_type.raw), np.uint8)
        if "d" in of:
            c = self._elements(form, "c", of["d"])
        found = {"c": c}
        for operand, scale in (("a", step.scale_a), ("b", step.scale_b)):
            if operand in step.tiles:
                matrix = {plane: self.tile(step, operand, plane) for plane in _MULTIPLIED}
                matrix = _gathered(matrix, form.type(operand))
            else:
                matrix = self._elements(form, operand, of[operand])
            sign = matrix["bits"].dtype.type(1 << form.type(operand).bits - 1 if scale < 0 else 0)
            matrix["bits"] = matrix["bits"] ^ sign
            found[operand] = matrix
        matrices = tuple(found[operand] for operand in "abc")
        e, placed = of.get("e"), None
        if e is not None:
            placed = (e["bits"][..., 0], step.selector or 0), e["tag"]
        return self._packed(form, matrices, exact, placed)

    def _packed(
        self, form: Form, matrices: tuple[Planes, ...], exact: NDArray[Any],
        placed: tuple[Metadata, NDArray[Any]] | None, scales: Scales | None = None,
    ) -> Planes:  # fmt: skip
        """Return the registers of D; `matrices` are A, B and C, `exact` the model's registers.

        `placed`: Metadata, and the tags of their registers.
        """
        matrices = *matrices, {"bits": layouts.unpack(form, "d", exact)}
        if placed is None:
            found = self._product(form, matrices, scales)
        else:
            found = self._placed_product(form, matrices, *placed, scales)
        found["tag"] = spread(found["tag"], form.d_type)
        registers = {}
        for plane in self.PLANES:
            registers[plane] = np.empty_like(exact)
            elements = found[plane].astype(form.d_type.raw, copy=False)
            layouts.pack(form, elements, registers[plane])
        return registers

    def _product(
        self, form: Form, matrices: tuple[Planes, ...], scales: Scales | None = None
    ) -> Planes:
        """Return the matrices D, of A, B, C and the model's D, with what is known of them."""
        a, b, c, d = matrices
        bits = d["bits"]
        unknown = (c["tag"] == UNKNOWN) | (a["tag"] != EXACT).any(axis=-1)[:, :, None]
        unknown |= (b["tag"] != EXACT).any(axis=-2)[:, None, :]
        if form.d_type.name not in FLOATS:
            tags = np.where(unknown, np.uint8(UNKNOWN), np.uint8(EXACT))
            return {"bits": bits, "low": bits, "high": bits, "tag": tags}
        least, most = _ends(c, form.c_type)
        low, high, nan = enclosure(form, a["bits"], b["bits"], least, most, scales)
        nan |= c["tag"] == BOUNDED_OR_NAN
        return _bounded(bits, low, high, nan, unknown, form.d_type)

    def _placed_product(
        self, form: Form, matrices: tuple[Planes, ...], metadata: Metadata, tags: NDArray[Any],
        scales: Scales | None,
    ) -> Planes:  # fmt: skip
        """Return the matrices D of an A that metadata place: unknown where these are unclear."""
        words, selector = metadata
        a, c, d = (
            {name: layouts.by_row(one) for name, one in matrices[i].items()} for i in (0, 2, 3)
        )
        b = {name: layouts.met(form, one, *metadata) for name, one in matrices[1].items()}
        of_rows = None if scales is None else layouts.scales_by_row(*scales)
        found = self._product(layouts.row_form(form), (a, b, c, d), of_rows)
        known = layouts.defined_rows(form, words, selector)
        self.undefined[...] |= ~known.reshape(self.count, -1).all(axis=1)
        known &= (tags[:, layouts.holders(form, selector), 0] == EXACT).all(axis=1)[:, None]
        found = {name: layouts.of_rows(one, form.shape.m) for name, one in found.items()}
        found["tag"] = np.where(known[:, :, None], found["tag"], np.uint8(UNKNOWN))
        return found

    def _elements(self, form: Form, operand: str, registers: Planes) -> Planes:
        """Return the matrices of an operand, (form.groups * count, rows, columns)."""
        planes = _MULTIPLIED if operand in "ab" else self.PLANES
        matrix = {plane: layouts.unpack(form, operand, registers[plane]) for plane in planes}
        return _gathered(matrix, form.type(operand))

    def pack_registers(self, step: Scalar, source: Planes) -> Planes:
        """Return pairs of f32 registers, rounded: monotone, so that bounds become bounds."""
        tags = gather(source["tag"], FORMATS["f32"])
        wide = _filled({**source, "tag": tags})
        nan = np.isnan(wide["bits"].view(np.float32)) & (tags == EXACT)
        # The bits of a NaN that a conversion returns are open, and only f16 has tags of bounds.
        tags = np.where(nan, np.uint8(BOUNDED_OR_NAN), tags)
        if step.type not in FLOATS:
            tags = np.where(tags == EXACT, np.uint8(EXACT), np.uint8(UNKNOWN))
        low, high = (wide[plane].view(np.float32) for plane in ("low", "high"))
        empty = nan | ~(low <= high)
        ends = {
            "low": np.where(empty, np.float32(np.inf), low).view(np.uint32),
            "high": np.where(empty, np.float32(-np.inf), high).view(np.uint32),
        }
        halves = spread(tags, FORMATS[step.type]).astype(np.uint32)
        made = {name: packed(step, plane) for name, plane in (source | ends).items()}
        return made | {"tag": halves[..., 0::2] | halves[..., 1::2] << np.uint32(16)}

    def lane_code(self, step: LaneCode, source: Planes | None = None) -> Planes:
        """Return what lanes compute: unknown where they read what is not exact; note open bits."""
        if source is None:
            none = np.zeros((self.count, self.threads, 0), np.uint32)
            source = _exactly(none, np.uint32)
        bits, unknown = run_lanes(step, self.by_warp(source)["bits"])
        bits = bits.reshape(self.count, self.threads, -1)
        unknown = unknown.reshape(self.count, self.threads)
        inexact = (source["tag"] != EXACT).any(axis=-1)
        if step.crosses_lanes:
            unknown, inexact = (
                np.broadcast_to(lanes.any(axis=-1, keepdims=True), lanes.shape)
                for lanes in (unknown, inexact)
            )
        self.undefined[...] |= (unknown & ~inexact).any(axis=1)
        unknown = unknown | inexact
        made = _exactly(bits, np.uint32)
        made["tag"][unknown] = _ALL_UNKNOWN
        return made

    def load_rows(self, step: RowAccess) -> Planes:
        """Return what ldmatrix loads; only what stays together in a register stays bounded."""
        registers = super().load_rows(step)
        if layouts.is_packed(step.form):  # narrower than a byte: where a row is unclear, all are
            memory, rows = self.rows(step)
            unclear = (memory["tag"][:, rows.ravel()] != EXACT).any(axis=1)
            registers["tag"] = np.where(
                unclear[:, None, None], _ALL_UNKNOWN, np.zeros_like(registers["bits"])
            )
        return {**registers, "tag": _together(step.form, registers["tag"])}

    def store_rows(self, step: RowAccess, registers: Planes) -> None:
        super().store_rows(step, registers | {"tag": _together(step.form, registers["tag"])})

    def move(self, step: AnyOp, registers: Planes) -> Planes:
        return super().move(step, registers | {"tag": _together(step.form, registers["tag"])})

    def elementwise(self, step: Elementwise, source: Planes) -> Planes:
        if step.operation is Operation.COPY:
            return source
        type_ = step.matrix.type
        result = {
            plane: apply(step.operation, type_, source[plane], step.constant)
            for plane in ("bits", "low", "high")
        }
        result["tag"] = source["tag"]
        if type_.name in FLOATS:
            result = _reordered(source, result, step.operation, step.constant, type_)
        return _filled(result)

    def copy(self, step: Copy) -> None:
        """Copy bytes; elements that are torn at the ends become unknown."""
        super().copy(step)
        memory, offset = self.at(step.destination)
        part = memory["tag"][:, offset : offset + step.size]
        part[...] = without_torn(part)

    def word(self, word: Word) -> NDArray[np.uint32]:
        """Return a masked word of each image; warps whose word is not exact are lost."""
        memory, offset = self.at(word.place)
        self.lost[...] |= (memory["tag"][:, offset : offset + 4] != EXACT).any(axis=-1)
        return super().word(word)


def _ends(matrix: Planes, type_: Format) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the bounds of a matrix, NaN where they leave nothing else."""
    low, high = (matrix[plane].view(FLOATS[type_.name]) for plane in ("low", "high"))
    only_nan = (matrix["tag"] == BOUNDED_OR_NAN) & (low > high)
    nan = np.array(CANONICAL_NAN[type_.name], dtype=type_.raw)
    return np.where(only_nan, nan, matrix["low"]), np.where(only_nan, nan, matrix["high"])


def _together(form: Form, tags: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return tags of registers with what an instruction tears apart turned to unknown."""
    bytes_ = layouts.bytes_of(tags)
    whole = without_torn(bytes_.reshape(*bytes_.shape[:-1], -1, layouts.unit(form)))
    return layouts.words_of(whole.reshape(bytes_.shape))


def _exactly(bits: NDArray[Any], tags: type[np.unsignedinteger[Any]]) -> Planes:
    """Return planes of which these are the bits; `tags` is what holds a tag."""
    return {"bits": bits, "low": bits, "high": bits, "tag": np.zeros(bits.shape, tags)}


def _filled(matrix: Planes) -> Planes:
    """Give exact elements their bits as bounds, where they have bounds."""
    exact = matrix["tag"] == EXACT
    for plane in {"low", "high"} & matrix.keys():
        matrix[plane] = np.where(exact, matrix["bits"], matrix[plane])
    return matrix


def _gathered(matrix: Planes, type_: Format) -> Planes:
    """Return a matrix of which each element has a tag, in place of those of its bytes."""
    words = matrix["tag"]
    return _filled({**matrix, "tag": gather(words.view(f"u{words.dtype.itemsize}"), type_)})


def _bounded(
    bits: NDArray[Any], low: NDArray[np.float64], high: NDArray[np.float64], nan: NDArray[np.bool_],
    unknown: NDArray[np.bool_], type_: Format,
) -> Planes:  # fmt: skip
    """Make a fragment of an enclosure; one number alone, other than zero, is exact."""
    floats = FLOATS[type_.name]
    only_nan = np.isnan(low)
    least = np.where(only_nan, np.inf, low).astype(floats)
    most = np.where(only_nan, -np.inf, high).astype(floats)
    least = np.where(least == 0, floats(-0.0), least)
    most = np.where(most == 0, floats(0.0), most)
    tags = np.where(nan, np.uint8(BOUNDED_OR_NAN), np.uint8(BOUNDED))
    single = (least == most) & (least != 0) & ~nan
    tags[single] = EXACT
    tags[unknown] = UNKNOWN
    low, high = least.view(type_.raw), most.view(type_.raw)
    return _filled({"bits": np.where(single, low, bits), "low": low, "high": high, "tag": tags})


def _reordered(
    source: Planes, result: Planes, operation: Operation, constant: int, type_: Format
) -> Planes:
    """Put the bounds of a float operation in order, and allow the NaNs that it can make."""
    floats = FLOATS[type_.name]
    ends = [result[plane].view(floats) for plane in ("low", "high")]
    before = [source[plane].view(floats) for plane in ("low", "high")]
    exact, nan = source["tag"] == EXACT, source["tag"] == BOUNDED_OR_NAN
    bounded = nan | (source["tag"] == BOUNDED)
    empty = bounded & ~(before[0] <= before[1])
    low, high = np.fmin(*ends), np.fmax(*ends)
    if operation is Operation.ABSOLUTE:
        low = np.where((before[0] <= 0) & (before[1] >= 0), floats(0), low)
    if operation in (Operation.MULTIPLY, Operation.ADD):
        nan = nan | np.isnan(ends[0]) | np.isnan(ends[1])
        if not np.isfinite(np.array(constant, dtype=type_.raw).view(floats)):
            # between its bounds, an element may be a number that makes the operation invalid
            nan = nan | bounded
            low, high = np.where(bounded, floats(-np.inf), low), np.where(bounded, np.inf, high)
        # A NaN made from an exact element has open bits, unless only the sign is moved.
        nan = np.where(exact, np.isnan(result["bits"].view(floats)), nan)
    empty = empty | np.isnan(low)
    low, high = np.where(empty, floats(np.inf), low), np.where(empty, floats(-np.inf), high)
    return {
        "bits": result["bits"],
        "low": low.astype(floats).view(type_.raw),
        "high": high.astype(floats).view(type_.raw),
        "tag": np.where((bounded | exact) & nan, np.uint8(BOUNDED_OR_NAN), source["tag"]),
    }


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What one floating-point element of an image may be."""

    image: int
    byte: int
    """Of its first byte."""
    place: Place | None
    type: str
    low: float
    """Greater than `high` if only NaN is permitted."""
    high: float
    nan_ok: bool
    """Of any payload."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Permission:
    """What the images of a batch may hold after a program; arrays uint8 (count, image_bytes)."""

    program: Program
    bits: NDArray[np.uint8]
    """The bytes that must be there where `exact` says so."""
    low: NDArray[np.uint8]
    """Bytes of the low bound of each bounded element, in its format."""
    high: NDArray[np.uint8]
    tags: NDArray[np.uint8]
    """What is known of each byte: see `oracle.bounds.permission`."""
    undefined: NDArray[np.bool_]
    """Images of which metadata have no meaning, or lanes take bits of NaNs that PTX leaves open."""


def allowed_bytes(permission: Permission, actual: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which bytes of images are permitted, bool (count, image_bytes), elements whole."""
    check_images(permission.program, actual)
    if len(actual) != len(permission.bits):
        raise UsageError(f"{len(actual)} images given; there are {len(permission.bits)}")
    allowed: NDArray[np.bool_] = (permission.tags != EXACT) | (actual == permission.bits)
    for name, floats in FLOATS.items():
        image, byte = np.nonzero(starts(permission.tags, name))
        index = (image[:, None], byte[:, None] + np.arange(element_size(name)))
        value, low, high = (
            np.ascontiguousarray(plane[index]).view(floats)[:, 0]
            for plane in (actual, permission.low, permission.high)
        )
        nan_ok = permission.tags[image, byte] == byte_tags(name, nan=True)[0]
        good = np.where(np.isnan(value), nan_ok, (low <= value) & (value <= high))
        allowed[index] = good[:, None]
    return allowed


def bounds_of(permission: Permission) -> Iterator[Bound]:
    """Iterate over the bounded elements of all images."""
    for name, floats in FLOATS.items():
        nan_tag = byte_tags(name, nan=True)[0]
        for image, byte in np.argwhere(starts(permission.tags, name)).tolist():
            part = slice(byte, byte + element_size(name))
            low, high = (
                float(plane[image, part].view(floats)[0])
                for plane in (permission.low, permission.high)
            )
            yield Bound(
                image=image, byte=byte, place=locate(permission.program, byte), type=name, low=low,
                high=high, nan_ok=bool(permission.tags[image, byte] == nan_tag),
            )  # fmt: skip


def permitted(
    program: Program, images: NDArray[Any], *, target: str = DEFAULT_TARGET
) -> Permission:
    """Return what the ISA permits images, (count, image_bytes), to hold; raises as `execute`."""
    check_defined(program, target=target)
    check_images(program, images)
    model = model_for(target)
    bits = np.array(images, order="C")
    low, high, tags = (np.zeros_like(bits) for _ in range(3))
    undefined = np.zeros(len(bits), np.bool_)
    mask = writable(program)
    for part in slices_of(program, len(bits)):
        warps = BoundedWarps(program, bits[part], model)
        run(program.steps, warps)
        memory = warps.memory["global"]
        low[part], high[part] = memory["low"], memory["high"]
        tags[part] = without_torn(memory["tag"])
        tags[part] = np.where(warps.lost[:, None] & mask, np.uint8(UNKNOWN), tags[part])
        undefined[part] = warps.undefined
    return Permission(
        program=program, bits=bits, low=low, high=high, tags=tags, undefined=undefined
    )


def judged(
    program: Program, images: NDArray[Any], actual: NDArray[Any], *, target: str,
    expected: NDArray[Any], named: bool = True,
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:  # fmt: skip
    """Return the numbers of the images that are wrong, and which of these the ISA forbids.

    With figures of all its products every byte has to be what is `expected`, else what the ISA
    permits. What the ISA leaves undefined, such as bits of a NaN that lanes take, is not wrong.
    Unless `named`, what is forbidden is not asked for where bytes alone tell what is wrong.
    """
    differ = different(expected, actual)
    forbidden = np.zeros(len(differ), np.bool_)
    if not len(differ):
        return differ, forbidden
    known = has_figures(program, target=target)
    codes = (step for step in walk(program.steps) if is_lane_code(step))
    few = named or (len(differ) <= _LOOKED_AT and any(map(may_be_open, codes)))
    if known and not few:
        return differ, forbidden
    permission = permitted(program, images[differ], target=target)
    defined = ~permission.undefined
    forbidden = defined & ~allowed_bytes(permission, actual[differ]).all(axis=1)
    wrong = defined if known else forbidden
    return differ[wrong], forbidden[wrong]


def contradicting(
    program: Program, images: NDArray[Any], actual: NDArray[Any], *, target: str,
    expected: NDArray[Any],
) -> NDArray[np.intp]:  # fmt: skip
    """Return the numbers of the images that are wrong, as `judged` has it."""
    return judged(program, images, actual, target=target, expected=expected, named=False)[0]


_LOOKED_AT = 64
"""Images asked for open bits: drawn programs have none, what is made smaller a few."""
