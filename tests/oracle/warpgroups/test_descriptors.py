"""Matrix descriptors: fields, and the byte at which a multiplication reads each element."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.descriptors import SWIZZLES, MatrixDescriptor, byte_addresses, read_matrix
from oracle.errors import UsageError
from oracle.isa.forms import Matrix
from oracle.isa.lookup import form_of, warpgroup_forms

MATRICES = [
    form.matrix(operand)
    for form in warpgroup_forms()
    if form.is_product and form.shape.n in (8, 24, 64)
    for operand in "ab"
]
matrices = st.sampled_from(MATRICES)
offsets = st.integers(0, (1 << 14) - 1).map(lambda units: 16 * units)
descriptors = st.builds(
    MatrixDescriptor, start=offsets, leading=offsets, stride=offsets,
    base_offset=st.integers(0, 7), swizzle=st.sampled_from([*SWIZZLES]),
)  # fmt: skip


def sizes(matrix: Matrix) -> tuple[int, int]:
    """Return rows of A or columns of B, and bytes along k."""
    lines = matrix.columns if matrix.operand == "b" else matrix.rows
    return lines, matrix.rows * matrix.columns // lines * matrix.type.bits // 8


def apart(matrix: Matrix, width: int, transposed: bool) -> dict[str, int]:
    """Return offsets with which the patterns of a matrix lie one behind the other."""
    _, size = sizes(matrix)
    pattern = 8 * width
    if not transposed:
        return {"leading": pattern, "stride": pattern * -(-size // width)}
    outer = pattern * (size // 16)
    along, other = ("leading", "stride") if width > 16 else ("stride", "leading")
    return {along: outer, other: pattern}


@given(descriptors)
def test_a_descriptor_is_read_back_from_its_bits(one: MatrixDescriptor) -> None:
    assert MatrixDescriptor.of_bits(one.bits) == one


@given(st.integers(0, (1 << 64) - 1))
def test_bits_outside_of_the_fields_do_not_count(bits: int) -> None:
    # The table of 9.7.15.5.1.2.2.
    fields = 0x3FFF | 0x3FFF << 16 | 0x3FFF << 32 | 7 << 49 | 3 << 62
    assert MatrixDescriptor.of_bits(bits).bits == bits & fields


@pytest.mark.parametrize(
    "wrong",
    [{"start": 8}, {"leading": -16}, {"stride": 1 << 18}, {"base_offset": 8}, {"swizzle": 48}],
)
def test_what_no_descriptor_can_hold_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        MatrixDescriptor(**{"start": 0, "leading": 0, "stride": 0, **wrong})


@given(matrices, st.sampled_from([*SWIZZLES]), st.booleans(), offsets, st.integers(0, 7))
def test_each_byte_of_patterns_that_lie_apart_has_an_address_of_its_own(
    one: Matrix, width: int, transposed: bool, start: int, base: int
) -> None:
    transposed = transposed and one.type.bits == 16
    start -= start % 1024
    found = byte_addresses(
        one,
        MatrixDescriptor(
            start=start, base_offset=base, swizzle=width, **apart(one, width, transposed)
        ),
        transposed,
    )
    lines, size = sizes(one)
    assert found.shape == (lines, size)
    assert np.unique(found).size == found.size
    # Units of 16 bytes stay together, in the order of their bytes.
    units = np.sort(found, axis=None).reshape(-1, 16 if lines * size % 16 == 0 else 1)
    assert (units == units[:, :1] + np.arange(units.shape[1])).all()
    assert (units[:, 0] % 16 == 0).all()


def colexicographic(places: np.ndarray, shape: tuple[int, ...], stride: tuple[int, ...]):
    """Return what a CuTe layout of one mode makes of coordinates; its last extent is endless."""
    total = np.zeros_like(places)
    for size, step in zip(shape[:-1], stride[:-1], strict=True):
        total += places % size * step
        places = places // size
    return total + places * stride[-1]


@given(matrices, st.sampled_from([*SWIZZLES]), st.booleans(), offsets, offsets)
def test_unswizzled_from_zero_addresses_are_those_of_the_canonical_layouts(
    one: Matrix, width: int, transposed: bool, leading: int, stride: int
) -> None:
    """The table of 9.7.15.5.1.2.1.3, in units of elements, and `Swizzle<B, 4, 3>`."""
    transposed = transposed and one.type.bits == 16
    lines, size = sizes(one)
    bits = max(8, one.type.bits)  # single bits by the byte
    t, w, count = 128 // bits, width // 16, size * 8 // bits
    lbo, sbo = leading * 8 // bits, stride * 8 // bits
    if transposed:
        along = (1, t, sbo) if w == 1 else (1, t, lbo)
        line, depth = ((t, w, 0), along), ((8, 0), (w * t, lbo if w == 1 else sbo))
    else:
        # "not used, assumed to be 1" with a swizzle: the next 16 bytes.
        line, depth = ((8, 0), (w * t, sbo)), ((t, 0), (1, lbo if w == 1 else t))
    expected = (
        colexicographic(np.arange(lines), *line)[:, None]
        + colexicographic(np.arange(count), *depth)[None]
    ) * (bits // 8)
    expected ^= expected >> 3 & (w - 1) << 4
    found = byte_addresses(
        one, MatrixDescriptor(start=0, leading=leading, stride=stride, swizzle=width), transposed
    )[:, :: bits // 8]
    if size > width > 16 and not transposed:  # a sparse B, of which the table says nothing
        found, expected = found[:, : width * 8 // bits], expected[:, : width * 8 // bits]
    assert (found == expected).all()


@given(matrices, descriptors, st.booleans(), st.integers(0, 7))
def test_a_pattern_that_starts_anywhere_looks_like_an_aligned_one_through_its_base_offset(
    one: Matrix, given_: MatrixDescriptor, transposed: bool, row: int
) -> None:
    """ "(pattern start addr >> 0x7) & 0x7" (9.7.15.5.1.2.2)."""
    transposed = transposed and one.type.bits == 16
    strides = {
        "leading": given_.leading, "stride": given_.stride, "swizzle": given_.swizzle,
    }  # fmt: skip
    aligned, anywhere = (
        byte_addresses(
            one, MatrixDescriptor(start=1024 + 128 * at, base_offset=at, **strides), transposed
        )
        for at in (0, row)
    )
    assert (anywhere == aligned + 128 * row).all()


# Read on H200, 2026-11-28.
@pytest.mark.parametrize(
    ("opcode", "operand", "fields", "element", "expected"),
    [
        ("sync.aligned.m64n8k16.f32.f16.f16", "a", (0x420, 16, 1024, 0, 128), (9, 4), 0x8B8),
        ("sync.aligned.m64n8k16.f32.f16.f16", "a", (0x420, 16, 1024, 1, 128), (9, 4), 0x8A8),
        ("sp.sync.aligned.m64n8k32.f32.f16.f16", "b", (0, 512, 256, 0, 32), (0, 16), 512),
        ("sp.sync.aligned.m64n8k32.f32.f16.f16", "b", (0, 512, 256, 0, 32), (1, 24), 560),
    ],
)
def test_elements_lie_where_an_h200_reads_them(
    opcode: str, operand: str, fields: tuple[int, ...], element: tuple[int, int], expected: int
) -> None:
    names = ("start", "leading", "stride", "base_offset", "swizzle")
    one = form_of(f"wgmma.mma_async.{opcode}").matrix(operand)
    found = byte_addresses(one, MatrixDescriptor(**dict(zip(names, fields, strict=True))))
    assert found[element[0], element[1] * one.type.bits // 8] == expected


def test_the_bits_are_those_that_an_h200_took() -> None:
    one = MatrixDescriptor(start=0x400 + 64, leading=16, stride=1024, swizzle=128)
    assert one.bits == 0x4000004000010040 + 4


def test_only_elements_of_16_bits_can_be_transposed() -> None:
    one = form_of("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32").matrix("a")
    with pytest.raises(UsageError, match="tf32"):
        byte_addresses(one, MatrixDescriptor(start=0, leading=0, stride=0), True)


@given(matrices, st.sampled_from([*SWIZZLES]), st.booleans(), st.data())
def test_a_matrix_is_read_from_where_its_bytes_were_put(
    one: Matrix, width: int, transposed: bool, data: st.DataObject
) -> None:
    transposed = transposed and one.type.bits == 16
    descriptor = MatrixDescriptor(start=1024, swizzle=width, **apart(one, width, transposed))
    addresses = byte_addresses(one, descriptor, transposed)
    lines, size = sizes(one)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    content = rng.integers(0, 256, (2, lines, size), np.uint8)
    memory = rng.integers(0, 256, (2, int(addresses.max()) + 1), np.uint8)
    memory[:, addresses] = content
    read = read_matrix(memory, one, addresses)
    assert read.shape == (2, one.rows, one.columns)
    rows = read.swapaxes(1, 2) if one.operand == "b" else read
    if one.type.bits == 1:
        again = np.packbits(rows, axis=-1, bitorder="little")
    else:
        again = np.ascontiguousarray(rows).view(np.uint8)
    assert (again == content).all()
