from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.errors import UndefinedProgramError
from oracle.isa.forms import Form
from oracle.isa.lookup import LDMATRIX_FORMS
from oracle.layouts import ldmatrix

X1 = "ldmatrix.sync.aligned.m8n8.x1.shared.b16"


def test_packed_elements_are_widened_to_bytes_with_zeros_above() -> None:
    six, four = "m8n16.x1.shared.b8x16.b6x16_p32", "m8n16.x1.shared.b8x16.b4x16_p64"
    row = sum(n << (6 * n) for n in range(16)) | 0xFFFFFFFF << 96
    shared = np.frombuffer(row.to_bytes(16, "little"), dtype=np.uint8)
    zeros = np.zeros(32, dtype=np.uint32)
    bytes_ = ldmatrix(f"ldmatrix.sync.aligned.{six}", shared, zeros).view(np.uint8).reshape(8, 16)
    assert bytes_.tolist() == [list(range(16))] * 8
    row = 0xFEDCBA9876543210 | 0xFFFFFFFFFFFFFFFF << 64
    shared = np.frombuffer(row.to_bytes(16, "little"), dtype=np.uint8)
    bytes_ = ldmatrix(f"ldmatrix.sync.aligned.{four}", shared, zeros).view(np.uint8).reshape(8, 16)
    assert bytes_.tolist() == [list(range(16))] * 8


def test_signed_elements_of_4_bits_lie_in_rows_of_8_bytes() -> None:
    shared = np.frombuffer((0xFEDCBA9876543210 << 64 | 0x89ABCDEF01234567).to_bytes(16, "little"),
                           np.uint8)  # fmt: skip
    addresses = (8 * (np.arange(32) % 2)).astype(np.uint32)
    loaded = ldmatrix("ldmatrix.sync.aligned.m8n16.x1.shared.s8.s4", shared, addresses)
    rows = np.ascontiguousarray(loaded).view(np.int8).reshape(8, 16)
    assert rows[1::2].tolist() == [[*range(8), *range(-8, 0)]] * 4
    assert rows[::2].tolist() == [[*range(7, -1, -1), *range(-1, -9, -1)]] * 4


@given(form=st.sampled_from(LDMATRIX_FORMS), lane=st.integers(0, 31))
def test_addresses_of_lanes_beyond_the_rows_are_not_used(form: Form, lane: int) -> None:
    shared = np.random.default_rng(0).integers(0, 256, 512, dtype=np.uint8)
    addresses = (16 * np.arange(32)).astype(np.uint32)
    moved = addresses.copy()
    moved[lane] = 0xFFFFFFFF
    if lane < form.addresses:
        with pytest.raises(UndefinedProgramError, match=r"multiple of (16|8) "):
            ldmatrix(form.opcode, shared, moved)
    else:
        expected = ldmatrix(form.opcode, shared, addresses)
        assert np.array_equal(ldmatrix(form.opcode, shared, moved), expected)


def test_leading_dimensions_broadcast() -> None:
    rng = np.random.default_rng(1)
    shared = rng.integers(0, 256, (2, 1, 512), dtype=np.uint8)
    addresses = (16 * rng.integers(0, 32, (3, 32))).astype(np.uint32)
    registers = ldmatrix(X1, shared, addresses)
    assert registers.shape == (2, 3, 32, 1)
    assert np.array_equal(registers[1, 2], ldmatrix(X1, shared[1, 0], addresses[2]))


@pytest.mark.parametrize("address", [8, 512, 504])
def test_rows_that_are_misaligned_or_outside_are_undefined(address: int) -> None:
    addresses = np.zeros(32, np.uint32)
    addresses[7] = address
    with pytest.raises(UndefinedProgramError, match=str(address)):
        ldmatrix(X1, np.zeros(512, np.uint8), addresses)
