"""`oracle.wgmma` against sums of fractions, element by element, and what no form may break."""

from __future__ import annotations

import numpy as np
import pytest
from one_block import dot, holder, nibble_at

import oracle
from oracle import layouts
from oracle.arithmetic import dots
from oracle.errors import UsageError
from oracle.isa.forms import Form
from oracle.isa.lookup import form_of, warpgroup_forms

PRODUCTS = [form for form in warpgroup_forms() if form.is_product]
SMALL = [form for form in PRODUCTS if form.shape.n == 8]
RNG = np.random.default_rng(20261129)


def name(form: object) -> str:
    return form.opcode.removeprefix("wgmma.mma_async.") if isinstance(form, Form) else str(form)


def patterns(form: Form, operand: str, shape: tuple[int, ...], rng: np.random.Generator):
    """Raw patterns: all bits, close to one another, tiny, zeros; few special values."""
    fmt = form.type(operand)
    if not fmt.is_float:
        least = -128 if fmt.name == "s8" else 0
        return rng.integers(least, least + (1 << min(fmt.bits, 8)), shape).astype(fmt.raw)
    bits = rng.integers(0, 1 << fmt.bits, shape, np.uint64)
    exponents = fmt.infinity >> (fmt.fraction_bits + fmt.ignored_bits)
    shift = np.uint64(fmt.fraction_bits + fmt.ignored_bits)
    middle = rng.integers(1, exponents)
    near = np.clip(middle + rng.integers(-3, 4, shape), 0, exponents - 1).astype(np.uint64)
    field = [bits >> shift & np.uint64(exponents), near, np.zeros_like(bits)]
    chosen = np.choose(rng.integers(0, 3, shape) if rng.integers(2) else 1, field)
    if rng.integers(4):
        chosen = np.minimum(chosen, np.uint64(exponents - 1))
    made = bits & ~(np.uint64(exponents) << shift) | chosen << shift
    made = np.where(rng.integers(0, 8, shape) == 0, np.uint64(0), made)
    return made.astype(fmt.raw)


def drawn(form: Form, seed: int):
    rng = np.random.default_rng([seed, form.shape.n, form.shape.k])
    a = patterns(form, "a", (64, form.matrix("a").columns), rng)
    b = patterns(form, "b", (form.shape.k, form.shape.n), rng)
    if form.d_type.name == "s32":
        ends = rng.choice(np.array([0, 2**31 - 1, -(2**31)]), (64, form.shape.n))
        c = (ends // (1 + rng.integers(0, 2))).astype(np.int32)
    else:
        c = patterns(form, "c", (64, form.shape.n), rng)
    metadata = None
    if form.has_metadata:
        pairs = (0b0100, 0b1110) if form.a_type.bits == 32 else (4, 8, 9, 12, 13, 14)
        metadata = np.zeros(128, np.uint32)
        for bit in range(0, 32, 4):
            metadata |= rng.choice(np.array(pairs, np.uint32), 128) << np.uint32(bit)
    return a, b, c, metadata


def registers(c: np.ndarray) -> np.ndarray:
    bits = 8 * c.dtype.itemsize
    found = np.zeros((128, c.size * bits // (128 * 32)), np.uint32)
    for (row, column), value in np.ndenumerate(c):
        thread, register, low = holder(row, column, bits)
        found[thread, register] |= np.uint32((int(value) & ((1 << bits) - 1)) << low)
    return found


def rows_met(form: Form, metadata: np.ndarray, selector: int, row: int) -> list[int]:
    stored = form.matrix("a").columns
    wide = form.a_type.bits == 32
    nibbles = stored if wide else stored // 2
    found = []
    for place in range(nibbles):
        thread, bit = nibble_at(row, place, nibbles, selector)
        nibble = int(metadata[thread]) >> bit & 15
        if wide:
            found.append(2 * place + (nibble >> 3))
        else:
            found += [4 * place + (nibble & 3), 4 * place + (nibble >> 2)]
    return found


def element(form: Form, a, b, c, met, row: int, column: int) -> int:
    """Return the pattern of one element of D, of s32 in two's complement."""
    left, right = a[row].tolist(), [int(b[k, column]) for k in met]
    before = int(c[row, column])
    if form.a_type.is_float:
        return dot(".".join(form.types.split(".")[:3]), left, right, before)
    total = before + sum(x * y for x, y in zip(left, right, strict=True))
    if form.satfinite:
        total = max(-(2**31), min(2**31 - 1, total))
    return total & 0xFFFFFFFF


@pytest.mark.parametrize("form", SMALL, ids=name)
def test_each_element_of_d_is_the_sum_that_was_measured(form: Form) -> None:
    bits = form.d_type.bits
    for seed in range(2):
        a, b, c, metadata = drawn(form, seed)
        selector = seed if form.has_metadata and form.a_type.bits >= 16 else 0
        more = {} if metadata is None else {"metadata": metadata, "selector": selector}
        found = oracle.wgmma(form.opcode, a, b, registers(c), **more)
        for row in range(seed, 64, 2):
            met = range(form.shape.k)
            if metadata is not None:
                met = rows_met(form, metadata, selector, row)
            for column in {row % 8, (row * 5 + seed) % 8}:
                thread, register, low = holder(row, column, bits)
                held = int(found[thread, register]) >> low & ((1 << bits) - 1)
                assert held == element(form, a, b, c, met, row, column), (row, column)


@pytest.mark.parametrize("form", PRODUCTS[::53], ids=name)
def test_a_wide_product_is_narrow_ones_side_by_side(form: Form) -> None:
    """Eight columns have registers of their own, and no sum goes beyond its column."""
    a, b, c, metadata = drawn(form, 0)
    more = {} if metadata is None else {"metadata": metadata}
    narrow = form.varied(shape=f"m64n8k{form.shape.k}")
    wide = oracle.wgmma(form.opcode, a, b, registers(c), **more)
    each = form.words("d") * 8 // form.shape.n
    for block in range(0, form.shape.n, 8):
        part = np.s_[:, block : block + 8]
        d = oracle.wgmma(narrow.opcode, a, b[part], registers(c[part]), **more)
        assert (wide[:, block // 8 * each :][:, :each] == d).all()


@pytest.mark.parametrize("form", SMALL[::3], ids=name)
def test_images_are_independent_and_scales_negate_or_drop(form: Form) -> None:
    a, b, c, metadata = drawn(form, 1)
    more = {} if metadata is None else {"metadata": metadata}
    d = registers(c)
    one = oracle.wgmma(form.opcode, a, b, d, **more)
    batch = {name: np.stack([x, x]).reshape(2, 1, *x.shape) for name, x in more.items()}
    left, right, before = (np.stack([x, x])[:, None] for x in (a, b, d))
    assert (oracle.wgmma(form.opcode, left, right, before, **batch) == one).all()
    alone = oracle.wgmma(form.opcode, a, b, np.zeros_like(d), **more)
    assert (oracle.wgmma(form.opcode, a, b, d, scale_d=0, **more) == alone).all()
    if not form.a_type.is_float:
        with pytest.raises(UsageError, match="scale_a"):
            oracle.wgmma(form.opcode, a, b, d, scale_a=-1, **more)
        return
    signs = {"scale_a": -1, "scale_b": -1}
    assert (oracle.wgmma(form.opcode, a, b, d, **signs, **more) == one).all()
    negated = a ^ a.dtype.type(form.a_type.magnitude + 1)
    again = oracle.wgmma(form.opcode, negated, b, d, scale_b=-1, **more)
    assert (again == one).all()


DENSE = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
SPARSE = "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16"


@pytest.mark.parametrize(
    ("opcode", "changes", "said"),
    [
        ("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc", {}, "oracle.mma_sync"),
        ("wgmma.fence.sync.aligned", {}, "wgmma.mma_async"),
        (DENSE, {"target": "sm_90"}, "sm_90a"),
        (DENSE, {"target": "sm_100a"}, "sm_90a"),
        (DENSE, {"scale_d": 2}, "scale_d"),
        (DENSE, {"scale_b": 0}, "1 or -1"),
        (DENSE, {"metadata": np.zeros(128, np.uint32)}, "no metadata"),
        (DENSE, {"d": np.zeros((32, 4), np.uint32)}, "128"),
        (DENSE, {"a": np.zeros((64, 16), np.float16)}, "uint16"),
        (SPARSE, {"b": np.zeros((32, 8), np.uint16)}, "metadata"),
    ],
)
def test_what_is_wrong_with_arguments_is_said(opcode: str, changes: dict, said: str) -> None:
    arguments = {
        "a": np.zeros((64, 16), np.uint16), "b": np.zeros((16, 8), np.uint16),
        "d": np.zeros((128, 4), np.uint32),
    }  # fmt: skip
    with pytest.raises(UsageError, match=said):
        oracle.wgmma(opcode, **{**arguments, **changes})


def test_a_sum_of_f16_that_underflows_is_plus_0() -> None:
    """A second way of adding, of what is exact in float32, gave -0 (H200, 2026-11-29)."""
    few = RNG.integers(-3, 4, (2, 64, 16)) * 2.0**-14
    a, b = few.astype(np.float16).view(np.uint16)
    d = RNG.choice(np.array([0, 0x8000, 0x8001, 0x8000_0000], np.uint32), (128, 2))
    opcode = "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16"
    found = oracle.wgmma(opcode, a, b[:16, :8], d).view(np.uint16)
    assert (found == 0).any()
    assert not (found == 0x8000).any()


SHORT = {
    "whole": True, "zeros": True, "all zero": True, "special": False, "subnormal": None,
    "overflow": None, "far above": None, "far below": False,
}  # fmt: skip
"""Contents at the edge of what no sum truncates, and whether it is then added as it is."""


def at_an_edge(form: Form, content: str, rng: np.random.Generator):
    made = []
    special = rng.choice(["a", "b", "c"])
    for operand, rows, columns in (
        ("a", 64, form.matrix("a").columns), ("b", form.shape.k, 8), ("c", 64, 8)
    ):  # fmt: skip
        fmt, shape = form.type(operand), (rows, columns)
        step = 1 << fmt.ignored_bits
        field = step << fmt.fraction_bits
        whole = [0, fmt.one, fmt.one + field, fmt.one + field + field // 2, fmt.one + 2 * field]
        bits = np.array(whole)[rng.integers(0, len(whole), shape)]  # 0 to 4
        bits[rng.random(shape) < 0.2] = 0
        last = fmt.infinity - step
        match content:
            case "zeros" if operand != "a":
                bits[:] = 0
            case "all zero":
                bits[:] = 0
            case "special" if operand == special:
                bits.flat[rng.integers(bits.size)] = rng.choice([last + step, fmt.magnitude])
            case "subnormal":
                bits = rng.integers(0, field // step + 2, shape) * step
            case "overflow":
                bits[rng.random(shape) < 0.5] = last - last % field
            case "far above" if operand == "c":
                bits = np.where(bits, np.minimum(bits + rng.integers(4, 16) * field, last), 0)
            case "far below" if operand == "c":
                bits = rng.integers(1, 2 * field // step, shape) * step
        signs = rng.integers(0, 2, shape) * (fmt.magnitude + 1)
        made.append((bits | signs).astype(fmt.raw))
    return made


@pytest.mark.parametrize("content", SHORT)
@pytest.mark.parametrize("form", [one for one in SMALL if one.a_type.is_float], ids=name)
def test_what_no_sum_truncates_is_added_to_the_same_bits(
    form: Form, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros of both signs, too, subnormals, and sums that overflow or end below the last bit."""
    short, taken = dots._untruncated, list[bool]()

    def noted(*given):
        found = short(*given)
        taken.append(found is not None)
        return found

    rng = np.random.default_rng([list(SHORT).index(content), form.shape.k])
    a, b, c = at_an_edge(form, content, rng)
    *_, metadata = drawn(form, 3)
    more = {} if metadata is None else {"metadata": metadata}
    monkeypatch.setattr(dots, "_untruncated", noted)
    found = oracle.wgmma(form.opcode, a, b, registers(c), **more)
    # Metadata without a meaning, too.
    other = {key: rng.integers(0, 1 << 32, 128, np.uint32) for key in more}
    again = oracle.wgmma(form.opcode, a, b, registers(c), **other)
    monkeypatch.setattr(dots, "_untruncated", lambda *_: None)
    assert (oracle.wgmma(form.opcode, a, b, registers(c), **more) == found).all()
    assert (oracle.wgmma(form.opcode, a, b, registers(c), **other) == again).all()
    if form.a_type.bits < 32 or metadata is None:
        assert taken == [SHORT[content]] * 2 or SHORT[content] is None
    bits = form.d_type.bits
    for row, column in zip(range(64), [*range(8)] * 8, strict=True):
        met = range(form.shape.k)
        if metadata is not None:
            met = rows_met(form, metadata, 0, row)
        thread, register, low = holder(row, column, bits)
        held = int(found[thread, register]) >> low & ((1 << bits) - 1)
        assert held == element(form, a, b, c, met, row, column), (row, column)


def test_a_selector_without_a_meaning_is_refused() -> None:
    form = form_of(SPARSE)
    a, b, c, metadata = drawn(form, 0)
    with pytest.raises(UsageError, match="0 or 1"):
        oracle.wgmma(SPARSE, a, b, registers(c), metadata=metadata, selector=2)


@pytest.mark.parametrize("form", SMALL, ids=name)
def test_the_model_lies_within_what_the_isa_permits(form: Form) -> None:
    a, b, c, metadata = drawn(form, 2)
    more = {} if metadata is None else {"metadata": metadata, "selector": 0}
    d = registers(c)
    low, high, nan_ok = oracle.permitted(form.opcode, a, b, d, **more)
    found = oracle.wgmma(form.opcode, a, b, d, **more)
    dtype = {"f32": "<f4", "f16": "<f2", "s32": "<i4"}[form.d_type.name]
    numbers = found.view(dtype).astype(low.dtype)
    nan = np.isnan(numbers)
    assert low.shape == numbers.shape
    assert (((low <= numbers) & (numbers <= high)) | (nan & nan_ok)).all()


@pytest.mark.parametrize("form", SMALL, ids=name)
def test_a_in_registers_lies_as_the_page_has_it(form: Form) -> None:
    """9.7.15.5.1.1 and 9.7.15.6.2: of a sparse A as a dense one of half its columns."""
    words = RNG.integers(0, 1 << 32, (1, 128, 4), np.uint32)
    (found,) = layouts.unpack(form, "a", words)
    bits = form.a_type.bits
    per = 32 // bits
    assert found.shape == (64, 16 * per // 2)
    for thread in range(0, 128, 5):
        warp, lane = divmod(thread, 32)
        for register in range(4):
            for j in range(per):
                row = 16 * warp + lane // 4 + 8 * (register % 2)
                column = 4 * per * (register // 2) + per * (lane % 4) + j
                held = int(words[0, thread, register]) >> bits * j & ((1 << bits) - 1)
                assert int(found[row, column]) & ((1 << bits) - 1) == held
    again = np.zeros_like(words)
    layouts.pack(form, found[None], again, "a")
    assert (again == words).all()
