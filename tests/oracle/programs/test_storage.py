from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.errors import UsageError
from oracle.isa.forms import FORMATS, LAYOUTS, Matrix
from oracle.isa.lookup import LOAD_FORMS, SHAPES, STORE_FORMS
from oracle.layouts import Tile, read, write

MATRICES = sorted({form.matrix() for form in (*LOAD_FORMS, *STORE_FORMS)}, key=repr)


@st.composite
def tiles(draw: st.DrawFn) -> Tile:
    matrix = draw(st.sampled_from(MATRICES))
    layout = draw(st.sampled_from(LAYOUTS))
    unit = max(1, 8 // matrix.type.bits)
    extra = draw(st.none() | st.integers(0, 9).map(lambda n: n * unit))
    default = matrix.default_stride(layout)
    return Tile(matrix=matrix, layout=layout, stride=None if extra is None else default + extra)


def _values(tile: Tile, rng: np.random.Generator, count: int) -> np.ndarray:
    type_ = tile.matrix.type
    shape = (count, tile.matrix.rows, tile.matrix.columns)
    low = -(1 << (type_.bits - 1)) if type_.name in ("s4", "s8", "s32") else 0
    return rng.integers(low, low + (1 << type_.bits) - 1, shape, dtype=type_.raw, endpoint=True)


@given(tile=tiles(), offset=st.integers(0, 40), seed=st.integers(0, 99))
def test_what_is_written_is_read_back_and_no_other_byte_changes(
    tile: Tile, offset: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    memory = rng.integers(0, 256, (2, offset + tile.extent + 7), dtype=np.uint8)
    before = memory.copy()
    values = _values(tile, rng, 2)
    write(memory, offset, tile, values)
    assert np.array_equal(read(memory, offset, tile), values)
    assert read(memory, offset, tile).dtype == tile.matrix.type.raw
    outside = np.ones(memory.shape[1], dtype=bool)
    outside[offset + tile.byte_offsets] = False
    assert np.array_equal(memory[:, outside], before[:, outside])


def test_packed_elements_start_in_the_low_bits() -> None:
    s4 = Tile(matrix=Matrix(operand="a", shape=SHAPES["m8n8k32"], type=FORMATS["s4"]), layout="row")
    memory = np.zeros((1, s4.extent), dtype=np.uint8)
    memory[0, :2] = 0xF1, 0x87
    assert read(memory, 0, s4)[0, 0, :4].tolist() == [1, -1, 7, -8]
    b1 = Tile(
        matrix=Matrix(operand="b", shape=SHAPES["m8n8k128"], type=FORMATS["b1"]), layout="col"
    )
    memory = np.zeros((1, b1.extent), dtype=np.uint8)
    memory[0, 16] = 0b00000110
    assert np.argwhere(read(memory, 0, b1)[0]).tolist() == [[1, 1], [2, 1]]


@pytest.mark.parametrize("offset", [-1, 1])
def test_a_tile_that_leaves_the_memory_is_refused(offset: int) -> None:
    tile = Tile(
        matrix=Matrix(operand="a", shape=SHAPES["m16n16k16"], type=FORMATS["s8"]), layout="row"
    )
    memory = np.zeros((1, 256), dtype=np.uint8)
    with pytest.raises(UsageError, match="256 bytes"):
        read(memory, offset, tile)
    with pytest.raises(UsageError, match="256 bytes"):
        write(memory, offset, tile, np.zeros((1, 16, 16), dtype=np.int8))


def test_strides_that_are_no_whole_bytes_and_unknown_layouts_are_refused() -> None:
    matrix = Matrix(operand="a", shape=SHAPES["m8n8k32"], type=FORMATS["u4"])
    with pytest.raises(UsageError, match="multiple of 2"):
        Tile(matrix=matrix, layout="row", stride=33)
    with pytest.raises(UsageError, match="row, col"):
        Tile(matrix=matrix, layout="diagonal")
