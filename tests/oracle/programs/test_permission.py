from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import program_draws
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from oracle.bounds.enclosure import enclosure
from oracle.bounds.permission import EXACT, UNKNOWN, allowed_bytes, bounds_of, permitted
from oracle.errors import UndefinedProgramError, UsageError
from oracle.execution.execution import Planes, Warps, execute, run
from oracle.execution.tracing import trace, writer_of
from oracle.isa import lookup as isa
from oracle.isa.forms import Form, Format
from oracle.models import model_for
from oracle.program.operands import WITH_CONSTANT, Buffer, Operation, Place, Word
from oracle.program.operations import FLOATS, Elementwise, pack_registers
from oracle.program.program import Program
from oracle.program.steps import Barrier, Branch, Copy, Op, Step, plain_load, plain_store

QUIET = settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TARGETS = ("sm_75", "sm_80", "sm_90", "sm_100")
BUFFERS = (
    Buffer(name="data", space="global", size=4096),
    Buffer(name="out", space="global", size=4096),
    Buffer(name="tile", space="shared", size=4096),
)
OPCODE = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"


def _load(form: Form, operand: str, place: Place) -> Op:
    layout = {"a": form.a_layout, "b": form.b_layout}.get(operand, "row")
    load = isa.ACCESS_FORMS[form.matrix(operand), layout, ""]
    return Op.of(form=load, fragment=operand, place=place)


def _store(form: Form, place: Place, fragment: str = "d") -> Op:
    store = isa.ACCESS_FORMS[form.matrix("d"), "row", ""]
    return Op.of(form=store, fragment=fragment, place=place)


def _product(opcode: str = OPCODE) -> tuple[Step, ...]:
    form = isa.mma_form(opcode)
    places = {"a": 0, "b": 512, "c": 1024}
    loads = [_load(form, o, Place(buffer="data", offset=offset)) for o, offset in places.items()]
    return (*loads, Op.of(form=form, d="d", a="a", b="b", c="c"))


def _program(*steps: Step) -> Program:
    return Program(buffers=BUFFERS, steps=steps)


OUT = Place(buffer="out")
FORM = isa.mma_form(OPCODE)


def _images(count: int = 2, seed: int = 0) -> np.ndarray:
    """Images whose data are normally distributed as f16 and, from byte 1024 on, as f32."""
    rng = np.random.default_rng(seed)
    data = np.zeros((count, 8192), dtype=np.uint8)
    data[:, :1024] = rng.standard_normal((count, 512)).astype(np.float16).view(np.uint8)
    data[:, 1024:4096] = rng.standard_normal((count, 768)).astype(np.float32).view(np.uint8)
    return data


@QUIET
@given(
    program=program_draws.programs(),
    seed=st.integers(0, 2**32 - 1),
    target=st.sampled_from(TARGETS),
)
def test_what_the_model_of_any_target_returns_is_permitted(
    program: Program, seed: int, target: str
) -> None:
    images = program_draws.images(program, seed, 3)
    try:
        modelled = execute(program, images, target=target).images
    except (UsageError, UndefinedProgramError):
        assume(False)
    allowed = allowed_bytes(permitted(program, images), modelled)
    assert allowed.all(), np.argwhere(~allowed)[:8].tolist()


class ArbitraryWarps(Warps):
    """Warps on a device of its own: any permitted result, a bound more often than not, any NaN."""

    rng: np.random.Generator

    def multiply(self, step: Op, *operands: Planes) -> Planes:
        type_ = step.form.d_type
        if not type_.is_float:
            return super().multiply(step, *operands)
        a, b, c = (planes["bits"] for planes in operands)
        low, high, nan_ok = enclosure(step.form, a, b, c)
        choice = self.rng.integers(0, 4, low.shape)
        with np.errstate(all="ignore"):
            middle = np.clip(low + (high - low) * self.rng.random(low.shape), low, high)
            value = np.select([choice == 0, choice == 1], [low, high], middle)
            value = np.where(np.isnan(value), high, value).astype(FLOATS[type_.name])
        zero = (low <= 0) & (high >= 0) & (value == 0)
        bits = np.where(zero & (choice == 3), -value, value).view(type_.raw)
        nan = nan_ok & ((choice == 3) | np.isnan(value))
        return {"bits": np.where(nan, self.any_nan(type_, bits.shape), bits)}

    def elementwise(self, step: Elementwise, source: Planes) -> Planes:
        result = super().elementwise(step, source)
        type_ = step.matrix.type
        if step.operation in (Operation.MULTIPLY, Operation.ADD) and type_.is_float:
            nan = np.isnan(result["bits"].view(FLOATS[type_.name]))
            result["bits"] = np.where(nan, self.any_nan(type_, nan.shape), result["bits"])
        return result

    def any_nan(self, type_: Format, shape: tuple[int, ...]) -> np.ndarray:
        quiet = np.array(np.nan, FLOATS[type_.name]).view(type_.raw)
        payload = self.rng.integers(0, 1 << (type_.fraction_bits - 1), shape, dtype=type_.raw)
        sign = self.rng.integers(0, 2, shape, dtype=type_.raw) << (type_.bits - 1)
        return quiet | payload | sign


@settings(QUIET, max_examples=15)
@given(program=program_draws.programs(), seed=st.integers(0, 2**32 - 1))
def test_what_any_permitted_arithmetic_leads_to_is_permitted(program: Program, seed: int) -> None:
    images = program_draws.images(program, seed, 4)
    actual = images.copy()
    ArbitraryWarps.rng = np.random.default_rng(seed)
    run(program.steps, ArbitraryWarps(program, actual, model_for("sm_90")))
    allowed = allowed_bytes(permitted(program, images), actual)
    assert allowed.all(), np.argwhere(~allowed)[:8].tolist()


@pytest.mark.parametrize("seed", range(3))
def test_a_byte_changed_outside_of_the_stored_matrix_is_not_permitted(seed: int) -> None:
    program = _program(*_product(), _store(FORM, OUT))
    images = _images()
    result = execute(program, images).images
    permission = permitted(program, images)
    assert allowed_bytes(permission, result).all()
    byte = int(np.random.default_rng(seed).choice(np.flatnonzero(permission.tags[0] == EXACT)))
    result[0, byte] ^= 1
    assert np.argwhere(~allowed_bytes(permission, result)).tolist() == [[0, byte]]


def test_an_element_outside_of_its_bounds_is_not_permitted() -> None:
    program = _program(*_product(), _store(FORM, OUT))
    images = _images()
    permission = permitted(program, images)
    bound = next(b for b in bounds_of(permission) if b.image == 1 and b.byte == 4096 + 4 * 37)
    assert bound.place == Place(buffer="out", offset=148)
    assert bound.type == "f32"
    for value, good in (
        (bound.low, True),
        (bound.high, True),
        (np.nextafter(np.float32(bound.low), np.float32(-np.inf)), False),
        (np.nextafter(np.float32(bound.high), np.float32(np.inf)), False),
        (np.nan, False),
        (np.inf, False),
    ):
        actual = execute(program, images).images
        actual[1, bound.byte : bound.byte + 4] = np.frombuffer(np.float32(value), dtype=np.uint8)
        allowed = allowed_bytes(permission, actual)
        assert allowed.all() == good
        if not good:
            wrong = [[1, byte] for byte in range(bound.byte, bound.byte + 4)]
            assert np.argwhere(~allowed).tolist() == wrong, "the element is wrong as a whole"


def test_bounds_survive_copies_shared_memory_and_loads() -> None:
    shared = Place(buffer="tile", offset=1024)
    again = _load(FORM, "c", shared)
    program = _program(
        *_product(), _store(FORM, OUT), Barrier(),
        Copy(source=OUT, destination=shared, size=1024), Barrier(),
        again, _store(FORM, Place(buffer="out", offset=2048), "c"),
    )  # fmt: skip
    permission = permitted(program, _images())
    for plane in (permission.tags, permission.low, permission.high):
        assert np.array_equal(plane[:, 4096:5120], plane[:, 4096 + 2048 : 5120 + 2048])
    assert not (permission.tags == UNKNOWN).any()


def test_both_halves_of_packed_registers_are_bounded_by_what_was_packed() -> None:
    form = isa.mma_sync_form("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    loads = [
        plain_load(registers=name, count=count, place=Place(buffer="data", offset=offset))
        for name, count, offset in (("a", 4, 0), ("b", 2, 512), ("c", 4, 1024))
    ]
    program = _program(
        *loads,
        Op.of(form=form, d="d", a="a", b="b", c="c"),
        plain_store(registers="d", count=4, place=OUT),
        pack_registers(source="d", destination="e", count=4, type="f16"),
        plain_store(registers="e", count=2, place=Place(buffer="out", offset=2048)),
    )
    permission = permitted(program, _images())
    bounds = {bound.byte: bound for bound in bounds_of(permission) if bound.image == 0}
    wide = {at: one for at, one in bounds.items() if at < 6144}
    assert len(wide) > 100
    for at, one in wide.items():
        half = bounds[6144 + (at - 4096) // 2]
        assert half.low <= np.float16(one.low) <= np.float16(one.high) <= half.high


def test_bounds_survive_ldmatrix_unless_it_tears_elements() -> None:
    for trans, survives in (("", True), (".trans", False)):
        form = isa.ldmatrix_form(f"ldmatrix.sync.aligned.m8n8.x1{trans}.shared.b16")
        program = _program(
            *_product(), _store(FORM, OUT), Barrier(),
            Copy(source=OUT, destination=Place(buffer="tile"), size=1024), Barrier(),
            Op.of(form=form, registers="r", buffer="tile", addresses=tuple(range(0, 512, 16))),
            plain_store(registers="r", count=1, place=Place(buffer="out", offset=2048)),
        )  # fmt: skip
        permission = permitted(program, _images())
        first, second = slice(4096, 4096 + 128), slice(6144, 6144 + 128)
        if survives:
            assert np.array_equal(permission.tags[:, first], permission.tags[:, second])
            assert np.array_equal(permission.low[:, first], permission.low[:, second])
        else:
            assert (permission.tags[:, second] == UNKNOWN).any()
            assert allowed_bytes(permission, execute(program, _images()).images).all()


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_elements_torn_by_a_copy_are_unknown(offset: int) -> None:
    source, destination = Place(buffer="out", offset=offset), Place(buffer="out", offset=2048)
    program = _program(
        *_product(), _store(FORM, OUT), Barrier(),
        Copy(source=source, destination=destination, size=8),
    )  # fmt: skip
    permission = permitted(program, _images())
    torn = (permission.tags[0, 6144 : 6144 + 8] == UNKNOWN).tolist()
    assert torn == [True] * (4 - offset) + [False] * 4 + [True] * offset


def test_products_with_inexact_multiplicands_are_unknown_where_they_reach() -> None:
    half = isa.mma_form("wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16")
    first = _product("wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16")
    images = _images()
    images[:, 1024:1536] = 0
    images[:, 32:512] = 0  # only row 0 of A is not zero
    images[:, :512] = np.where(np.arange(512) < 32, images[:, :512], 0)
    program = _program(
        *first, _store(half, OUT), Barrier(), _load(half, "a", OUT),
        Op.of(form=half, d="e", a="a", b="b", c="c"),
        _store(half, Place(buffer="out", offset=2048), "e"),
    )  # fmt: skip
    permission = permitted(program, images)
    assert (permission.tags[:, 6144 : 6144 + 32] == UNKNOWN).all()
    assert allowed_bytes(permission, execute(program, images).images).all()


@pytest.mark.parametrize(
    ("operation", "constant", "expected"),
    [
        (Operation.NEGATE, 0.0, lambda low, high: (-high, -low)),
        (Operation.MULTIPLY, -2.0, lambda low, high: (-2 * high, -2 * low)),
        (Operation.MULTIPLY, 0.0, lambda low, high: (0.0, 0.0)),
        (Operation.ADD, 1.0, lambda low, high: (np.float32(low) + 1, np.float32(high) + 1)),
        (
            Operation.ABSOLUTE,
            0.0,
            lambda low, high: (0.0 if low <= 0 <= high else min(abs(low), abs(high)),
                               max(abs(low), abs(high))),
        ),
    ],
)  # fmt: skip
def test_elementwise_operations_act_on_both_bounds(
    operation: Operation, constant: float, expected: object
) -> None:
    assert callable(expected)
    bits = int(np.float32(constant).view(np.uint32)) if operation in WITH_CONSTANT else 0
    step = Elementwise(
        operation=operation, matrix=FORM.matrix("c"), source="d", destination="d", constant=bits
    )
    plain = permitted(_program(*_product(), _store(FORM, OUT)), _images())
    program = _program(*_product(), step, _store(FORM, OUT))
    changed = permitted(program, _images())
    before = {(b.image, b.byte): b for b in bounds_of(plain)}
    after = {(b.image, b.byte): b for b in bounds_of(changed)}
    assert before.keys() == after.keys()
    for key, bound in after.items():
        low, high = expected(before[key].low, before[key].high)
        assert (bound.low, bound.high, bound.nan_ok) == (low, high, False)
    for target in TARGETS:
        actual = execute(program, _images(), target=target).images
        assert allowed_bytes(changed, actual).all()


@pytest.mark.parametrize("constant", [np.inf, -np.inf, np.nan])
def test_invalid_elementwise_operations_permit_any_nan(constant: float) -> None:
    step = Elementwise(
        operation=Operation.MULTIPLY, matrix=FORM.matrix("c"), source="c", destination="c",
        constant=int(np.float32(constant).view(np.uint32)),
    )  # fmt: skip
    program = _program(_load(FORM, "c", Place(buffer="data")), step, _store(FORM, OUT, "c"))
    images = np.zeros((1, program.image_bytes), dtype=np.uint8)  # 0 x inf, 0 x NaN
    permission = permitted(program, images)
    actual = execute(program, images).images
    assert allowed_bytes(permission, actual).all()
    for nan, good in ((0x7FC00001, True), (0xFFFFFFFF, True), (0x7F800000, False), (0, False)):
        actual[0, 4096:5120] = np.full(256, nan, dtype=np.uint32).view(np.uint8)
        assert allowed_bytes(permission, actual)[0, 4096:5120].all() == good


def test_a_path_chosen_by_an_inexact_word_leaves_all_that_can_be_written_unknown() -> None:
    """The last bit of a result may differ, and with it what is copied where."""
    word = Word(place=OUT, mask=1)
    copies = [
        Copy(source=Place(buffer="data"), destination=Place(buffer="out", offset=o), size=16)
        for o in (2048, 3072)
    ]
    branch = Branch(condition=word, then=(copies[0],), otherwise=(copies[1],))
    program = _program(*_product(), _store(FORM, OUT), Barrier(), branch)
    permission = permitted(program, _images())
    unknown = np.zeros(8192, dtype=bool)
    for start, size in ((4096, 1024), (4096 + 2048, 16), (4096 + 3072, 16)):
        unknown[start : start + size] = True
    assert np.array_equal(permission.tags == UNKNOWN, np.broadcast_to(unknown, (2, 8192)))
    exact = replace(branch, condition=Word(place=Place(buffer="data", offset=2048), mask=1))
    permission = permitted(_program(*_product(), _store(FORM, OUT), exact), _images())
    assert not (permission.tags == UNKNOWN).any()


def _half_of(data: np.ndarray, start: int) -> np.ndarray:
    return data[:, start : start + 512].view(np.float16).reshape(-1, 16, 16)


def _cancelling() -> np.ndarray:
    """Images whose products cancel in pairs: results are bounded by zero from neither side."""
    images = _images()
    a, b = _half_of(images, 0), _half_of(images, 512)
    a[:, :, 1::2] = a[:, :, ::2]
    b[:, :, 1::2] = -b[:, :, ::2]  # column-major: the last axis of memory is k
    images[:, 1024:2048] = 0
    return images


@pytest.mark.parametrize("operation", [Operation.MULTIPLY, Operation.ADD])
@pytest.mark.parametrize("constant", [np.inf, -np.inf, np.nan])
def test_infinite_and_nan_constants_permit_everything_of_bounded_elements(
    operation: Operation, constant: float
) -> None:
    step = Elementwise(
        operation=operation, matrix=FORM.matrix("d"), source="d", destination="d",
        constant=int(np.float32(constant).view(np.uint32)),
    )  # fmt: skip
    permission = permitted(_program(*_product(), step, _store(FORM, OUT)), _cancelling())
    kinds = {(bound.low, bound.high, bound.nan_ok) for bound in bounds_of(permission)}
    assert kinds == {(-np.inf, np.inf, True)}


def _overflowing(infinite: bool) -> np.ndarray:
    """Images for bf16 whose products, about 2^127 each, overflow on one side, or are infinite."""
    images = np.zeros((1, 8192), dtype=np.uint8)
    images[:, :512].view(np.uint16)[:] = 0x7F80 if infinite else 0x5F00  # inf or 2^63
    images[:, 512:1024].view(np.uint16)[:] = 0x5F80  # 2^64
    return images


WIDE = isa.mma_form("wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32")


def test_a_nan_that_was_permitted_once_is_permitted_in_what_comes_after() -> None:
    times_zero = Elementwise(
        operation=Operation.MULTIPLY, matrix=WIDE.matrix("d"), source="d", destination="d"
    )
    small = _load(WIDE, "a", Place(buffer="data", offset=2048))
    more = Op.of(form=WIDE, d="d", a="a", b="b", c="d")
    program = _program(
        *_product(WIDE.opcode), times_zero, _store(WIDE, OUT), small, more,
        _store(WIDE, Place(buffer="out", offset=2048)),
    )  # fmt: skip
    permission = permitted(program, _overflowing(False))
    for start in (4096, 6144):
        (kind,) = {
            (bound.low, bound.high, bound.nan_ok)
            for bound in bounds_of(permission)
            if start <= bound.byte < start + 1024
        }
        assert kind == (0.0, 0.0, True)


def test_where_nan_alone_is_permitted_no_number_is() -> None:
    """0 x inf in every product; the bounds are empty, and stay so through what follows."""
    images = _overflowing(True)
    images[:, 512:1024] = 0
    negate = Elementwise(
        operation=Operation.NEGATE, matrix=WIDE.matrix("d"), source="d", destination="d"
    )
    more = Op.of(form=WIDE, d="d", a="b2", b="b", c="d")
    zeros = _load(WIDE, "a", Place(buffer="data", offset=2048)).changed(fragment="b2")
    program = _program(
        *_product(WIDE.opcode), _store(WIDE, OUT), negate, zeros, more,
        _store(WIDE, Place(buffer="out", offset=2048)),
    )  # fmt: skip
    permission = permitted(program, images)
    kinds = {(bound.low, bound.high, bound.nan_ok) for bound in bounds_of(permission)}
    assert kinds == {(np.inf, -np.inf, True)}
    actual = execute(program, images).images
    assert allowed_bytes(permission, actual).all()
    for pattern, good in ((0xFF800001, True), (0x7F800000, False), (0, False)):
        actual[0, 4096:5120].view(np.uint32)[:] = pattern
        assert allowed_bytes(permission, actual)[0, 4096:5120].all() == good


@pytest.mark.parametrize("layout", ["row", "col"])
def test_the_writer_of_a_byte_is_the_element_that_lies_there(layout: str) -> None:
    """Of m32n8, whose rows and columns cannot be taken for each other."""
    form = isa.mma_form("wmma.mma.sync.aligned.row.col.m32n8k16.f32.f32")
    store = isa.ACCESS_FORMS[form.matrix("d"), layout, ""]
    load = _load(form, "c", Place(buffer="data"))
    program = _program(load, Op.of(form=store, fragment="c", place=OUT))
    traced = trace(program, _images()[0], target="sm_90")
    for row, column in product(range(32), range(8)):
        number = row * 8 + column if layout == "row" else column * 32 + row
        for byte in range(4096 + 4 * number, 4100 + 4 * number):
            written = writer_of(traced, byte)
            assert written is not None
            assert (written.row, written.column) == (row, column)
