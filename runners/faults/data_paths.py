"""Faults of the simulated device's loads, stores and wires."""

from dataclasses import replace

from runners.faults.corruptions import (
    lanes_crossed,
    on_loaded_multiprocessors,
    on_one_multiprocessor,
    register_lost,
    stuck_bit,
    transient,
)
from runners.faults.device_rows import DeviceRow, with_fields
from runners.faults.fault import Fault
from runners.simulated.units import RowUnit, TransferUnit

_ANY_MMA = r"^wmma\.mma"

_TRANSFERS = (
    DeviceRow(
        name="load-c-row-missing",
        meaning="wmma.load.c gives zeros for the last row or column of the leading dimension",
        stands_for="a loop over rows that ends too early",
        pattern=r"^wmma\.load\.c",
        unit=TransferUnit,
        change=with_fields(missing=1),
    ),
    DeviceRow(
        name="store-row-missing",
        meaning="wmma.store.d does not write the last row or column of the leading dimension",
        stands_for="a loop over rows that ends too early",
        pattern=r"^wmma\.store",
        unit=TransferUnit,
        change=with_fields(missing=1),
    ),
    DeviceRow(
        name="load-rows-exchanged",
        meaning="wmma.load exchanges the first two rows or columns of the leading dimension",
        stands_for="addresses of two lanes crossed",
        pattern=r"^wmma\.load",
        unit=TransferUnit,
        change=with_fields(swapped_pair=True),
    ),
    DeviceRow(
        name="load-quiets-nan",
        meaning="wmma.load.c makes floating-point NaN quiet",
        stands_for="data moved through an arithmetic path",
        pattern=r"^wmma\.load\.c.*\.f(?:16|32|64)$",
        unit=TransferUnit,
        change=with_fields(quieting=True),
    ),
    DeviceRow(
        name="store-quiets-nan",
        meaning="wmma.store makes floating-point NaN quiet",
        stands_for="data moved through an arithmetic path",
        pattern=r"^wmma\.store\..*\.f(?:16|32|64)$",
        unit=TransferUnit,
        change=with_fields(quieting=True),
    ),
    DeviceRow(
        name="ldmatrix-wrong-transpose",
        meaning="ldmatrix transposes m8n8 exactly where it should not",
        stands_for="a modifier bit inverted in decoding",
        pattern=r"^ldmatrix.*\.m8n8",
        unit=RowUnit,
        change=lambda unit: replace(unit, transposed=not unit.transposed),
    ),
    DeviceRow(
        name="ldmatrix-rotated-rows",
        meaning="ldmatrix takes each row address from the next lane",
        stands_for="an address crossbar off by one",
        pattern=r"^ldmatrix",
        unit=RowUnit,
        change=with_fields(rotation=1),
    ),
    DeviceRow(
        name="ldmatrix-halves-exchanged",
        meaning="ldmatrix exchanges the 16-bit halves of each register",
        stands_for="a byte order confused",
        pattern=r"^ldmatrix",
        unit=RowUnit,
        change=with_fields(swapped_halves=True),
    ),
    DeviceRow(
        name="ldmatrix-registers-exchanged",
        meaning="ldmatrix exchanges its first two registers",
        stands_for="write ports crossed",
        pattern=r"^ldmatrix.*\.(?:x[24]|m16n16)",
        unit=RowUnit,
        change=with_fields(exchanged_registers=True),
    ),
    DeviceRow(
        name="ldmatrix-signed",
        meaning="ldmatrix sign-extends 4- and 6-bit elements",
        stands_for="an expansion for another format",
        pattern=r"^ldmatrix.*b8x16",
        unit=RowUnit,
        change=with_fields(signed=True),
    ),
    DeviceRow(
        name="ldmatrix-packed-backwards",
        meaning="ldmatrix unpacks 4- and 6-bit elements from the high end of the row",
        stands_for="a byte order confused",
        pattern=r"^ldmatrix.*b8x16",
        unit=RowUnit,
        change=with_fields(swapped_nibbles=True),
    ),
)

_WIRES = (
    DeviceRow(
        name="stuck-bit",
        meaning="bit 9 of lane 13's second result register is always set",
        stands_for="a stuck-at fault in one lane of a data path",
        pattern=_ANY_MMA,
        corrupt=stuck_bit(register=1, lane=13, bit=9, high=True),
    ),
    DeviceRow(
        name="stuck-sign",
        meaning="bit 31 of lane 0's first result register is always clear",
        stands_for="a stuck-at fault in one lane of a data path",
        pattern=_ANY_MMA,
        corrupt=stuck_bit(register=0, lane=0, bit=31, high=False),
    ),
    DeviceRow(
        name="stuck-bit-on-one-sm",
        meaning="bit 3 of lane 21's third result register is always set on SM 1",
        stands_for="one bad multiprocessor",
        pattern=_ANY_MMA,
        corrupt=on_one_multiprocessor(1, stuck_bit(register=2, lane=21, bit=3, high=True)),
    ),
    DeviceRow(
        name="stuck-load-bit",
        meaning="bit 14 of lane 3's first register of A is always set",
        stands_for="a stuck-at fault in the load path",
        pattern=r"^wmma\.load\.a",
        corrupt=stuck_bit(register=0, lane=3, bit=14, high=True),
    ),
    DeviceRow(
        name="lanes-crossed",
        meaning="lanes 4 and 5 get each other's results of wmma.mma",
        stands_for="a crossbar set wrongly",
        pattern=_ANY_MMA,
        corrupt=lanes_crossed(4, 5),
    ),
    DeviceRow(
        name="result-register-lost",
        meaning="the second result register of wmma.mma is zero",
        stands_for="a register file write that is lost",
        pattern=_ANY_MMA,
        corrupt=register_lost(1),
    ),
    DeviceRow(
        name="transient-often",
        meaning="about one wmma.mma in 50 flips one random bit of its result, anew each launch",
        stands_for="a marginal path at the edge of its timing",
        pattern=_ANY_MMA,
        corrupt=transient(one_in=50, seed=1),
    ),
    DeviceRow(
        name="transient-rare",
        meaning="about one wmma.mma in 20,000 flips one random bit of its result, anew each launch",
        stands_for="silent data corruption",
        pattern=_ANY_MMA,
        corrupt=transient(one_in=20_000, seed=2),
    ),
    DeviceRow(
        name="transient-on-one-sm",
        meaning="on SM 57, about one wmma.mma in 200 flips one random bit of its result",
        stands_for="one multiprocessor with a marginal path",
        pattern=_ANY_MMA,
        corrupt=on_one_multiprocessor(57, transient(one_in=200, seed=3)),
        rare=True,
    ),
    DeviceRow(
        name="transient-under-load",
        meaning="on SM 7, about one wmma.mma in 50 flips a bit, while 8 warps or more are there",
        stands_for="a supply voltage that sags when a multiprocessor is busy",
        pattern=_ANY_MMA,
        corrupt=on_one_multiprocessor(
            7, on_loaded_multiprocessors(8, transient(one_in=50, seed=4))
        ),
        rare=True,
    ),
)

PATH_FAULTS: tuple[Fault, ...] = tuple(row.fault() for row in (*_TRANSFERS, *_WIRES))
"""Every fault of a load, a store or a wire."""
