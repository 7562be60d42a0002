import numpy as np
import pytest

from oracle import mma, permitted
from oracle.errors import UsageError
from oracle.isa import lookup as isa
from oracle.isa.lookup import mma_form

ALL_FORMS = [form for form in isa.FORMS if form.mnemonic == "wmma.mma"]
SATURATED_FLOATS = [form for form in ALL_FORMS if form.satfinite and form.a_type.is_float]
F16_F32 = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"
F64 = "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64"


def random_operands(form, leading, seed=0):
    """Any bits that the formats allow."""
    rng = np.random.default_rng(seed)
    shape = form.shape
    sizes = ((shape.m, shape.k), (shape.k, shape.n), (shape.m, shape.n))
    operands = []
    for fmt, size in zip((form.a_type, form.b_type, form.c_type), sizes, strict=True):
        dtype = np.dtype(fmt.raw)
        if fmt.bits < 8:
            least = -(1 << (fmt.bits - 1)) if fmt.raw == "int8" else 0
            values = rng.integers(least, least + (1 << fmt.bits), (*leading, *size))
            operands.append(values.astype(dtype))
        else:
            info = np.iinfo(dtype)
            operands.append(rng.integers(info.min, info.max, (*leading, *size), dtype, True))
    return operands


@pytest.mark.parametrize("function", [mma, permitted])
def test_saturated_floats_are_refused(function):
    """PTX ISA 6.5 removed them, and the page no longer says what they did."""
    assert len(SATURATED_FLOATS) == 48
    form = SATURATED_FLOATS[0]
    with pytest.raises(UsageError, match="satfinite"):
        function(form.opcode, *random_operands(form, ()))


@pytest.mark.parametrize("opcode", [F16_F32, F64])
def test_strided_operands_and_batches_beyond_a_chunk_give_the_same(opcode):
    form = mma_form(opcode)
    a, b, c = random_operands(form, (1100,), seed=1)
    d = mma(opcode, a, b, c)
    shuffled = [
        np.asfortranarray(x.reshape(11, 100, *x.shape[1:])).transpose(1, 0, 2, 3) for x in (a, b, c)
    ]
    result = mma(opcode, *shuffled)
    assert np.array_equal(result.transpose(1, 0, 2, 3).reshape(d.shape), d)
    assert np.array_equal(mma(opcode, a[::-1], b[::-1], c[::-1])[::-1], d)
    few = [x[:100] for x in (a, b, c)]
    last = [np.ascontiguousarray(x.transpose(1, 2, 0)).transpose(2, 0, 1) for x in few]
    assert np.array_equal(mma(opcode, *last), d[:100])
    assert all(map(np.array_equal, last, few)), "operands stay, where tiles are last too"


def _with(index, value):
    operands = random_operands(mma_form(F16_F32), (2,))
    operands[index] = value
    return operands


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        (_with(0, [[0] * 16] * 16), "array of list"),
        (_with(0, np.zeros((2, 16, 16), np.float16)), "uint16"),
        (_with(1, np.zeros((2, 16, 16), np.int16)), "uint16"),
        (_with(2, np.zeros((2, 16, 16), np.uint16)), "uint32"),
        (_with(0, np.zeros((2, 16, 15), np.uint16)), r"\(\.\.\., 16, 16\)"),
        (_with(2, np.zeros((3, 16, 16), np.uint32)), "leading dimensions"),
        (_with(1, np.zeros((16, 16), np.uint16)), "leading dimensions"),
        (_with(1, np.zeros(16, np.uint16)), r"\(\.\.\., 16, 16\)"),
    ],
)
@pytest.mark.parametrize("function", [mma, permitted])
def test_wrong_operands_are_refused_with_what_is_allowed(function, operands, message):
    with pytest.raises(UsageError, match=message):
        function(F16_F32, *operands)


@pytest.mark.parametrize(
    ("opcode", "wrong"),
    [
        ("wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32", 8),
        ("wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32", -9),
        ("wmma.mma.sync.aligned.row.col.m8n8k32.s32.u4.u4.s32", 16),
        ("wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32", 2),
    ],
)
@pytest.mark.parametrize("operand", [0, 1])
def test_elements_outside_a_narrow_format_are_refused(opcode, wrong, operand):
    operands = random_operands(mma_form(opcode), (2,))
    operands[operand][1, 3, 4] = wrong
    with pytest.raises(UsageError, match=str(wrong)):
        mma(opcode, *operands)
