"""mma.sp against one dot product at a time: layouts, metadata and sums read from the page's words.

What an H200 does beyond the page is from its recordings of 2026-11-23: every index chooses for
itself, and what is not chosen is no term.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from reference.dot_products import H100_F16, H100_F32, Rule, integer_dot, truncated_dot
from reference.numbers import BF16, F16, F32, TF32, decode, encode

from oracle import UsageError, mma_sp, permitted
from oracle.isa.forms import Form
from oracle.isa.lookup import INSTRUCTIONS, chunks_of, metadata_lanes, selectors_of
from oracle.layouts import defined_rows

PLAIN = INSTRUCTIONS["mma.sp"].forms
ORDERED = INSTRUCTIONS["mma.sp::ordered_metadata"].forms
FORMS = [*PLAIN, *(form for form in ORDERED if not form.texts["kind"])]
LAYOUTS = {"f16": F16, "bf16": BF16, "tf32": TF32, "e4m3": F16, "e5m2": F16}
F16_K32 = "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
FP8 = "mma.sp.sync.aligned.m16n8k64.row.col.f32.{}.{}.f32"
# Types and K of the shapes: lanes of each group of four that hold metadata (9.7.14.6.1).
CONTRIBUTORS = {
    (16, 16): 1, (16, 32): 2, (32, 8): 1, (32, 16): 2,
    (8, 32): 2, (8, 64): 4, (4, 64): 2, (4, 128): 4,
}  # fmt: skip
TOP = {"f16": 5, "bf16": 8, "tf32": 8, "f32": 8, "e4m3": 4, "e5m2": 5}


def element(words: Any, lane: int, number: int, bits: int) -> int:
    """Return one element of a lane's registers, the first in the lowest bits."""
    text = sum(int(word) << 32 * place for place, word in enumerate(words[lane]))
    return text >> (bits * number) & ((1 << bits) - 1)


def at(words: Any, bits: int, row: int, column: int, *, of_b: bool = False) -> int:
    """Return an element of the compressed A, or of B, from the registers that hold it."""
    per = 32 // bits
    along, across = (row, column) if of_b else (column, row)
    strip, rest = divmod(along, 4 * per)
    thread, part = divmod(rest, per)
    register = strip if of_b else 2 * strip + across // 8
    return element(words, 4 * (across % 8) + thread, register * per + part, bits)


def index(form: Form, metadata: Any, selector: int, row: int, item: int) -> int:
    """Return 2 bits of metadata: of an element, a pair of 4-bit ones, or a half of tf32."""
    group, half = row % 8, row // 8
    size, long = form.a_type.bits, CONTRIBUTORS[form.a_type.bits, form.shape.k]
    if size >= 16:  # figures of m16n8k16, m16n8k32, m16n8k8: a lane for 8 indices of both halves
        lane = 4 * group + (selector if long == 1 else 2 * selector + item // 8)
        return int(metadata[lane]) >> (16 * half + 2 * (item % 8)) & 3
    lane = 4 * group + half + (2 * selector if long == 2 else 2 * (item // 16))
    return int(metadata[lane]) >> (2 * (item % 16)) & 3


def partner(form: Form, b: Any, metadata: Any, selector: int, at_: tuple[int, int, int]) -> int:
    """Return the element of B that stored element z of a row meets, in a column."""
    row, z, column = at_
    bits = form.a_type.bits
    if bits == 32:
        word = 0
        for half in range(2):
            chosen = index(form, metadata, selector, row, 2 * z + half)
            taken = at(b, 32, 2 * z + chosen // 2, column, of_b=True)
            word |= (taken >> 16 * (chosen % 2) & 0xFFFF) << 16 * half
        return word
    if bits == 4:
        place = 8 * (z // 4) + 2 * index(form, metadata, selector, row, z // 2) + z % 2
    else:
        place = 4 * (z // 2) + index(form, metadata, selector, row, z)
    return at(b, bits, place, column, of_b=True)


def half_of(pattern: int, name: str) -> int:
    """Return an element of 8 bits as f16."""
    if name == "e5m2":
        return pattern << 8
    sign, field, fraction = pattern >> 7, pattern >> 3 & 15, pattern & 7
    if pattern & 0x7F == 0x7F:
        return 0x7FFF
    value = Fraction(8 * bool(field) + fraction, 8) * Fraction(2) ** (max(field, 1) - 7)
    return encode(-value if sign else value, F16, "rn", negative_zero=bool(sign))


def added(x: int, y: int) -> int:
    """Return the f32 sum of two f32, as IEEE 754 adds; any NaN is canonical."""
    left, right = decode(x, F32), decode(y, F32)
    kinds = {left.kind, right.kind}
    if "nan" in kinds or (left.kind == right.kind == "inf" and left.negative != right.negative):
        return 0x7FFF_FFFF
    if "inf" in kinds:
        return x if left.kind == "inf" else y
    both = left.negative and right.negative
    return encode(left.value + right.value, F32, "rn", negative_zero=both)


def expected(form: Form, given: dict[str, Any], selector: int, row: int, column: int) -> int:
    """Return one element of D, as a pattern; the newest compiler's of 8-bit floats."""
    bits, depth = form.a_type.bits, form.shape.k // 2
    left = [at(given["a"], bits, row, z) for z in range(depth)]
    right = [
        partner(form, given["b"], given["metadata"], selector, (row, z, column))
        for z in range(depth)
    ]
    c_bits = form.c_type.bits
    per = 32 // c_bits
    lane, number = 4 * (row % 8) + column // 2, 2 * (row // 8) + column % 2
    register, part = divmod(number, per)
    c = int(given["c"][lane, register]) >> c_bits * part & ((1 << c_bits) - 1)
    if not form.a_type.is_float:
        values = [
            [x - (x >> bits - 1 << bits) if type_.name[0] == "s" else x for x in some]
            for some, type_ in ((left, form.a_type), (right, form.b_type))
        ]
        start = c - (c >> 31 << 32)
        return integer_dot(*values, start, saturate=form.satfinite) & 0xFFFF_FFFF
    if bits == 8:
        left = [half_of(x, form.a_type.name) for x in left]
        right = [half_of(x, form.b_type.name) for x in right]
        total = 0
        for chunks in (0, 1):  # of four columns of the whole A: those of even number, then the rest
            some = [z for z in range(depth) if z // 2 % 2 == chunks]
            terms = [[x[z] for z in some] for x in (left, right)]
            total = truncated_dot(*terms, total, F16, H100_F32)
        return added(total, c)
    rule = H100_F16 if form.d_type.name == "f16" else H100_F32
    whole = Rule(
        block=depth, fraction_bits=rule.fraction_bits, zero_exponent=rule.zero_exponent,
        accumulator=rule.accumulator,
    )  # fmt: skip
    return truncated_dot(left, right, c, LAYOUTS[form.a_type.name], whole)


def found_at(form: Form, d: Any, row: int, column: int) -> int:
    """Return one element of D, as a pattern."""
    bits = form.d_type.bits
    register, part = divmod(2 * (row // 8) + column % 2, 32 // bits)
    return int(d[4 * (row % 8) + column // 2, register]) >> bits * part & ((1 << bits) - 1)


def near_one(rng: Any, words: Any, type_: Any, width: int) -> Any:
    """Return registers of floats with exponents in a window about one."""
    bits, exponent = type_.bits, TOP[type_.name]
    shift, bias = bits - 1 - exponent, 2 ** (exponent - 1) - 1
    found = words.copy()
    for part in range(0, 32, bits):
        field = rng.integers(bias - width, bias + width + 1, words.shape).astype(np.uint32)
        mask = np.uint32(((1 << exponent) - 1) << shift + part & 0xFFFF_FFFF)
        found = found & ~mask | field << np.uint32(shift + part) & mask
    return found


def registers(form: Form, seed: int, kind: str) -> dict[str, Any]:
    """Return random registers of one case: any bits, near one, wide, or cancelling ones."""
    rng = np.random.default_rng(seed)

    def drawn(*shape: int) -> Any:
        return rng.integers(0, 2**32, shape, dtype=np.uint32)

    given = {name: drawn(32, form.words(name)) for name in "abc"}
    given["metadata"] = drawn(32)
    if form.a_type.is_float and kind != "bits":
        width = 1 if kind in ("near one", "cancelling") else 2 ** (TOP[form.a_type.name] - 1) - 1
        for name in "abc":
            wide = width if name != "c" or width == 1 else 2 ** (TOP[form.c_type.name] - 1) - 1
            given[name] = near_one(rng, given[name], form.type(name), wide)
    if form.a_type.is_float and kind == "cancelling":
        # Neighbouring elements of opposite sign that may meet the same element of B.
        bits = form.a_type.bits
        if bits < 32:
            low = given["a"] & np.uint32((1 << bits) - 1)
            mirrored = low ^ np.uint32(1 << bits - 1)
            given["a"] = sum(
                (low if part % 2 else mirrored) << np.uint32(bits * part)
                for part in range(32 // bits)
            )
        given["c"] &= np.uint32(0x8000_8000)
    return given


@pytest.mark.parametrize("kind", ["bits", "near one", "wide", "cancelling"])
def test_every_form_and_selector_gives_what_one_dot_product_at_a_time_gives(kind: str) -> None:
    rng = np.random.default_rng(len(kind))
    first = {"bits": 0, "near one": 1, "wide": 2, "cancelling": 0}[kind]
    for number, form in enumerate(FORMS[first::3]):
        for selector in selectors_of(form):
            given = registers(form, 1000 * number + selector, kind)
            d = mma_sp(form.opcode, given["a"], given["b"], given["c"], given["metadata"], selector)
            for row, column in zip(rng.integers(0, 16, 8), rng.integers(0, 8, 8), strict=True):
                wanted = expected(form, given, selector, int(row), int(column))
                assert found_at(form, d, row, column) == wanted, (form.opcode, selector, row)


@pytest.mark.parametrize("form", FORMS[::5], ids=lambda form: form.opcode)
def test_the_model_is_permitted_and_rows_whose_metadata_mean_nothing_may_be_anything(
    form: Form,
) -> None:
    type_ = {"f16": np.float16, "f32": np.float32, "s32": np.int32}[form.d_type.name]
    places = [(lane // 4 + 8 * (item // 2)) for lane in range(32) for item in range(4)]
    outside = 0
    for kind in ("bits", "near one", "wide", "cancelling"):
        given = registers(form, 7, kind)
        for selector in selectors_of(form):
            for metadata in (given["metadata"], np.full(32, 0x1111_1111 * chunks_of(form)[0])):
                own = {**given, "metadata": metadata.astype(np.uint32)}
                d = mma_sp(form.opcode, **own, selector=selector)
                low, high, nan_ok = permitted(form.opcode, **own, selector=selector)
                known = defined_rows(form, own["metadata"][None], selector)[0][places]
                known = known.reshape(32, 4)
                for words, right in ((d, True), (np.roll(d, 1, axis=0), False)):
                    values = np.ascontiguousarray(words).view(type_)
                    assert values.shape == low.shape == known.shape
                    inside = (low <= values) & (values <= high) | np.isnan(values) & nan_ok
                    assert inside.all() if right else inside[~known].all()
                    outside += int((~inside).sum())
    assert outside > 32


def test_the_forms_and_their_selectors_are_those_of_the_page() -> None:
    assert len(PLAIN) == 44
    assert len(FORMS) == 88
    assert sum(len(selectors_of(form)) for form in FORMS) == 152
    for form in FORMS:
        assert metadata_lanes(form) == CONTRIBUTORS[form.a_type.bits, form.shape.k]
        assert list(selectors_of(form)) == list(range(4 // metadata_lanes(form)))


def test_meaningful_metadata_are_those_of_the_page() -> None:
    ordered = (4, 8, 9, 12, 13, 14)
    for form in FORMS:
        if form.a_type.name == "tf32":
            wanted: tuple[int, ...] = (4, 14)
        elif form in PLAIN and form.a_type.name not in ("e4m3", "e5m2"):
            wanted = tuple(one for one in range(16) if one not in (0, 5, 10, 15))
        else:
            wanted = ordered
        assert chunks_of(form) == wanted
        metadata = np.full((1, 32), 0x1111_1111 * wanted[0], np.uint32)
        assert defined_rows(form, metadata, 0).all()
        # One wrong pair in one lane leaves two rows undefined, or one.
        metadata[0, 4 * 3 + 0] ^= np.uint32(wanted[0])
        broken = ~defined_rows(form, metadata, 0)[0]
        assert broken.any()
        assert set(np.flatnonzero(broken)) <= {3, 11}


def word(*halves: int) -> int:
    return sum(half << 16 * place for place, half in enumerate(halves))


def test_what_is_not_chosen_adds_nothing_not_even_an_exponent() -> None:
    """Rows of B that no index names hold infinities, NaN and large numbers; C is tiny."""
    a, metadata = np.zeros((32, 4), np.uint32), np.full(32, 0x4444_4444, np.uint32)
    a[:, :] = word(0x0001, 0x8001)  # 2^-24 and -2^-24: they cancel
    b = np.full((32, 4), word(0x7C00, 0x7E00), np.uint32)
    b[0::2] = word(0x3C00, 0x3C00)  # t even: rows 4 n and 4 n + 1
    c = np.full((32, 4), 1, np.uint32)  # the least f32
    for selector in (0, 1):
        d = mma_sp(F16_K32, a, b, c, metadata, selector)
        assert (d == 0).all()  # cut at 2^-24 (2^-25)
        metadata_of_others = np.full(32, 0xEEEE_EEEE, np.uint32)
        assert (mma_sp(F16_K32, a, b, c, metadata_of_others, selector) == 0x7FFF_FFFF).all()
    zeros = np.zeros_like(a)
    assert (mma_sp(F16_K32, zeros, b, c, metadata, 0) == c).all()


def test_a_negative_sum_that_is_rounded_to_zero_is_positive_zero() -> None:
    opcode = "mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"
    a = np.full((32, 2), word(0x8001, 0), np.uint32)
    b = np.full((32, 2), word(0x0001, 0x0001), np.uint32)
    d = mma_sp(opcode, a, b, np.zeros((32, 2), np.uint32), np.full(32, 0x4444_4444, np.uint32), 0)
    assert (d == 0).all()
    big = 0x7F00_7F00  # bf16 2^127: products of 2^254, which cancel
    bf16 = "mma.sp.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
    a, b = (np.full((32, 2), text, np.uint32) for text in (big ^ 0x8000_0000, big))
    c = np.zeros((32, 4), np.uint32)
    assert (mma_sp(bf16, a, b, c, np.full(32, 0x4444_4444, np.uint32), 0) == 0).all()


def arrays(**changes: Any) -> dict[str, Any]:
    given = {name: np.zeros((5, 32, 4), np.uint32) for name in "abc"}
    return {
        "opcode": F16_K32, **given, "metadata": np.zeros((5, 32), np.uint32), "selector": 0,
        **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"selector": 2}, "it is 0 or 1, and any other is undefined"),
        ({"selector": -1}, "it is 0 or 1"),
        ({"selector": True}, "it is 0 or 1"),
        ({"selector": np.array([0, 1])}, "it is 0 or 1"),
        ({"metadata": np.zeros((5, 32, 1), np.uint32)}, r"must be \(\.\.\., 32\)"),
        ({"metadata": np.zeros((5, 32), np.int64)}, "uint32"),
        ({"metadata": np.zeros((4, 32), np.uint32)}, "leading dimensions differ"),
        ({"metadata": None}, "uint32"),
        ({"a": np.zeros((5, 32, 2), np.uint32)}, r"\(\.\.\., 32, 4\)"),
        ({"opcode": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"}, "a form of mma.sp"),
        ({"opcode": FP8.format("e4m3", "f16")}, "not a documented form"),
        ({"target": "sm_75"}, "sm_75 does not have"),
        ({"target": "sm_80"}, "has no figures"),
    ],
)
def test_a_wrong_request_is_said_in_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        mma_sp(**arrays(**changes))
