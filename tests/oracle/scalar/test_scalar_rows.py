"""What holds of every row of a scalar instruction."""

from __future__ import annotations

import numpy as np
import pytest
from scalar_operands import operands

from oracle.arithmetic.conversions import is_nan
from oracle.isa.forms import FORMATS
from oracle.isa.targets import Module
from oracle.scalar import SCALARS
from oracle.scalar.floats import NANS

ROWS = list(SCALARS.values())


def test_a_result_does_not_depend_on_the_shape_or_the_layout_of_operands() -> None:
    for row in ROWS[::7]:
        given = operands(row, 6)
        wanted = row.evaluate(*given)
        shaped = [one.reshape(2, 3, 32) for one in given]
        strided = [np.repeat(one, 2, axis=0)[::2] for one in given]
        for other in (shaped, strided):
            found = row.evaluate(*other)
            for one, want in zip(found, wanted, strict=True):
                assert (one.reshape(want.shape) == want).all(), row.opcode


def test_many_warps_compute_what_each_does() -> None:
    for row in ROWS[::43]:
        given = operands(row, 300)
        wanted = [
            row.evaluate(*(one[part] for one in given)) for part in np.split(np.arange(300), 4)
        ]
        for one, parts in zip(row.evaluate(*given), zip(*wanted, strict=True), strict=True):
            assert (one == np.concatenate(parts)).all(), row.opcode


def test_what_settles_a_nan_is_a_row_that_leaves_none_open() -> None:
    rows = [row for row in ROWS if row.settled_by]
    assert {row.nan for row in ROWS} - {row.nan for row in rows} == {"", "f64"}
    for row in rows:
        settling = SCALARS[row.settled_by]
        assert not settling.nan
        assert settling.sources == row.destinations * 2
        given = operands(row, 40)
        (result,) = row.evaluate(*given)
        (settled,) = settling.evaluate(result, result)
        # Their NaNs are canonical already here, but those of abs and neg; min.f32 knows no tf32,
        # whose NaN has zeros where f32's has ones (NANS).
        changed = settled != result
        assert not changed.any() or row.family in ("abs", "neg") or row.nan == "tf32", row.opcode
        if row.nan == "tf32":
            assert set(result[changed].tolist()) <= {NANS["tf32"]}, row.opcode
            assert set(settled[changed].tolist()) <= {NANS["f32"]}, row.opcode


# "PTX ISA Notes" and "Target ISA Notes" of each page
@pytest.mark.parametrize(
    ("opcode", "since", "before", "target", "older"),
    [
        ("min.relu.s16x2", "8.0", "7.8", "sm_90", "sm_89"),
        ("cvt.rn.f16x2.f32", "7.0", "6.5", "sm_80", "sm_75"),
        ("cvt.rn.tf32.f32", "7.8", "7.7", "sm_90", "sm_89"),
        ("cvt.rn.satfinite.f16x2.f32", "8.1", "8.0", "sm_80", "sm_75"),
        ("cvt.rna.tf32.f32", "7.0", "6.5", "sm_80", "sm_75"),
        ("cvt.pack.sat.s16.s32", "6.5", "6.4", "sm_72", "sm_70"),
        ("cvt.pack.sat.s4.s32.b32", "6.5", "6.4", "sm_75", "sm_72"),
        ("szext.wrap.u32", "7.6", "7.5", "sm_70", "sm_62"),
        ("max.NaN.f32", "7.0", "6.5", "sm_80", "sm_75"),
        ("max.ftz.NaN.xorsign.abs.f16x2", "7.2", "7.1", "sm_86", "sm_80"),
    ],
)
def test_a_row_exists_from_its_version_and_target_on(
    opcode: str, since: str, before: str, target: str, older: str
) -> None:
    row = SCALARS[opcode]
    assert row.exists(Module.named(target, max(since, "8.0")))
    assert row.exists(Module.named("sm_90", since))
    assert not row.exists(Module.named("sm_90", before))
    assert not row.exists(Module.named(older, "8.8"))


@pytest.mark.parametrize(
    ("opcode", "text"),
    [
        ("shf.l.wrap.b32", "shf.l.wrap.b32 x, a, b, c;"),
        ("setp.lt.and.s32", "setp.lt.and.s32 x|y, a, b, c;"),
        ("mov.b32.pack", "mov.b32 x, {a, b};"),
        ("mov.b32.unpack", "mov.b32 {x, y}, a;"),
        ("mov.b64.unpack4", "mov.b64 {x, y, z, w}, a;"),
    ],
)
def test_a_statement_is_written_as_the_page_has_it(opcode: str, text: str) -> None:
    row = SCALARS[opcode]
    assert row.text("xyzw"[: len(row.destinations)], "abc"[: len(row.sources)]) == text


def test_what_reads_numbers_reads_no_bits_of_a_nan() -> None:
    """Nor does its result depend on them, but where that is an open NaN itself."""
    random = np.random.default_rng(32)

    def elements(patterns: np.ndarray, fmt: str) -> np.ndarray:
        kind = FORMATS[fmt.removesuffix("x2")]
        return np.ascontiguousarray(patterns).view(f"u{kind.bits // 8}")

    for row in [row for row in ROWS if row.numbers][::4]:
        given = operands(row, 8)
        kind = FORMATS[row.numbers.removesuffix("x2")]
        other = []
        for values in given:
            both = values.copy(), values.copy()
            if values.dtype.itemsize * 8 >= kind.bits:
                parts = [elements(one, row.numbers) for one in both]
                chosen = random.random(parts[0].shape) < 0.3
                for one in parts:
                    low = random.integers(1, kind.infinity & -kind.infinity, one.shape, one.dtype)
                    signs = random.choice(np.array([0, kind.magnitude + 1], one.dtype), one.shape)
                    one[chosen] = (one.dtype.type(kind.infinity) | low | signs)[chosen]
            other.append(both)
        first, second = (row.evaluate(*some) for some in zip(*other, strict=True))
        for place, (one, two) in enumerate(zip(first, second, strict=True)):
            unlike = one != two
            if place == 0 and row.nan:
                fmt = {"tf32": "f32"}.get(row.nan, row.nan)
                left, right = elements(one, fmt), elements(two, fmt)
                same = FORMATS[fmt.removesuffix("x2")]
                unlike = (left != right) & ~(is_nan(left, same) & is_nan(right, same))
            assert not unlike.any(), row.opcode


def test_lop3_is_the_function_that_each_table_lists() -> None:
    # The pages' way to make a table: the operation on three constants.
    table = np.arange(256, dtype=np.uint32).reshape(8, 32)
    given = [np.full((8, 32), one, np.uint32) for one in (0xF0, 0xCC, 0xAA)]
    assert (SCALARS["lop3.b32"].evaluate(*given, table)[0] & 0xFF == table).all()


def test_carries_chain_to_sums_of_twice_the_size() -> None:
    random = np.random.default_rng(1)
    for name, wide in (("add", np.add), ("sub", np.subtract)):
        a, b = random.integers(0, 1 << 64, (2, 200, 32), np.uint64, endpoint=False)
        b[:50] = ~a[:50]  # carries that run through
        halves = [part.astype(np.uint32) for x in (a, b) for part in (x, x >> np.uint64(32))]
        low, carry = SCALARS[f"{name}.cc.u32"].evaluate(halves[0], halves[2])
        (high,) = SCALARS[f"{name}c.u32"].evaluate(halves[1], halves[3], carry)
        assert (high.astype(np.uint64) << np.uint64(32) | low == wide(a, b)).all()
