"""mma.sp against mma.sync on an expanded A, and what it refuses."""

import numpy as np
import pytest
from numpy.typing import NDArray
from simulated_kernels import kernel, names
from sparse_products import FORMS, PAIRS, PLAIN, Sparse, Words, finite, random_words

from runners.faults import by_name
from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind

DEVICE = SimulatedDevice("sm_90")
FLOATS = [form for form in PLAIN if form.d != "s32"]
WHOLE = range(-3, 4)
EIGHT_BITS = {"e4m3": (0, 0x38, 0x40, 0x44), "e5m2": (0, 0x3C, 0x40, 0x42)}


def test_there_are_44_forms_and_76_with_a_selector_of_each_kind_of_metadata() -> None:
    assert (len({form.opcode for form in FORMS}), len(PAIRS)) == (88, 152)


def word(value: int, kind: str) -> int:
    """Return a whole number in a format."""
    if kind in EIGHT_BITS:
        return EIGHT_BITS[kind][abs(value)] | (0x80 if value < 0 else 0)
    if kind == "f16":
        return int(np.float16(value).view(np.uint16))
    if kind in ("bf16", "tf32", "f32"):
        return int(np.float32(value).view(np.uint32)) >> (16 if kind == "bf16" else 0)
    return value & ((1 << {"s32": 32}.get(kind, int(kind[1:]))) - 1)


def numbers(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return whole numbers of which every sum here is exact."""
    if kind == "s32":
        return rng.integers(-(1 << 31), 1 << 31, shape)
    if kind[1:] in ("4", "8"):
        low = -(1 << int(kind[1:]) - 1) if kind[0] == "s" else 0
        return rng.integers(low, low + (1 << int(kind[1:])), shape)
    return rng.integers(WHOLE.start, WHOLE.stop, shape)


def words(values: NDArray[np.int64], kind: str) -> Words:
    every, inverse = np.unique(values, return_inverse=True)
    table = np.array([word(int(value), kind) for value in every], np.uint32)
    return table[inverse].reshape(values.shape)


def whole_metadata(rng: np.random.Generator, form: Sparse, count: int) -> Words:
    """Return any metadata; of tf32 those that choose whole words."""
    if form.a != "tf32":
        return random_words(rng, count, 32)
    nibbles = rng.choice(np.array([0x4, 0xE], np.uint32), (count, 32, 8))
    return (nibbles << np.arange(0, 32, 4, dtype=np.uint32)).sum(axis=2, dtype=np.uint32)


def dense(form: Sparse, a: Words, b: Words, c: Words) -> Words:
    """Return D of mma.sync for a whole A."""
    counts = {role: form.registers(role) * (2 if role == "a" else 1) for role in "abcd"}
    total = sum(counts.values())
    lines, where = [f"mad.wide.u32 %rd5, %r7, {4 * total}, %rd2;"], 0
    for role in "abcd":
        for register in range(counts[role]):
            lines.append(f"ld.global.b32 %{role}{register}, [%rd5+{4 * where}];")
            where += 1
    opcode = form.opcode.replace("mma.sp", "mma")
    vectors = ", ".join(names(role, counts[role]) for role in "dabc")
    lines.append(f"{opcode} {vectors};")
    first = total - counts["d"]
    lines += [f"st.global.b32 [%rd5+{4 * (first + r)}], %d{r};" for r in range(counts["d"])]
    declared = "".join(f"    .reg .b32 %{role}<{counts[role]}>;\n" for role in "abcd")
    ptx = kernel("\n    ".join(lines), image_bytes=128 * total, registers=declared)
    images = np.concatenate([a, b, c, np.zeros((len(a), 32, counts["d"]), np.uint32)], axis=2)
    found, _ = DEVICE.load(ptx).launch("kernel", images.reshape(len(a), -1).view(np.uint8))
    return found.view(np.uint32).reshape(images.shape)[..., first:]


WITH_DENSE = [
    form for form in PLAIN if f"{form.k} {form.bits('a')}" in ("16 16", "8 32", "32 8", "64 4")
]


@pytest.mark.parametrize("form", WITH_DENSE, ids=lambda form: form.opcode)
def test_an_expanded_a_gives_the_same(form: Sparse) -> None:
    rng = np.random.default_rng(3)
    count = 8
    a, b, c = (random_words(rng, count, 32, form.registers(role)) for role in "abc")
    if form.d != "s32":
        b = form.packed("b", finite(rng, form.b, (count, *form.size("b")), 60))
    nibbles = np.array([0x4, 0xE] if form.a == "tf32" else [0x4, 0x8, 0x9, 0xC, 0xD, 0xE], "u4")
    chosen = rng.choice(nibbles, (count, 32, 8)) << np.arange(0, 32, 4, dtype=np.uint32)
    metadata = chosen.sum(axis=2, dtype=np.uint32)
    # Each row of B holds its own number: what an element meets says where it stands.
    numbered = np.broadcast_to(np.arange(form.k, dtype=np.uint32)[:, None], (count, form.k, 8))
    if form.a == "tf32":
        numbered = numbered | numbered << 16
    where = form.met(form.selectors - 1, metadata, numbered)[..., 0] & 0xFFFF
    whole = np.zeros((count, 16, form.k), np.uint32)
    np.put_along_axis(whole, where.astype(np.int64), form.unpacked("a", a), axis=2)
    # A's dense fragment is that of a form with twice as many columns.
    twice = Sparse(k=2 * form.k, d=form.d, a=form.a, b=form.b, selectors=1)
    expected = dense(form, twice.packed("a", whole), b, c)
    np.testing.assert_array_equal(form.run(DEVICE, form.selectors - 1, a, b, c, metadata), expected)


def test_a_place_that_wrongly_counts_adds_an_exponent_and_no_number() -> None:
    fault = by_name("sparse-place-not-chosen-counts")
    broken = SimulatedDevice("sm_90", faults=[fault])
    rng = np.random.default_rng(6)
    for form in FLOATS:
        kinds = {"a": form.a, "b": form.b, "c": form.d}
        given = [
            form.packed(role, words(numbers(rng, kind, (2, *form.size(role))), kind))
            for role, kind in kinds.items()
        ]
        metadata = whole_metadata(rng, form, 2)
        results = [form.run(device, 0, *given, metadata) for device in (DEVICE, broken)]
        np.testing.assert_array_equal(*results, form.opcode)


def test_metadata_of_other_lanes_are_not_looked_at() -> None:
    rng = np.random.default_rng(4)
    for form, selector in PAIRS:
        a, b, c = (random_words(rng, 2, 32, form.registers(role)) for role in "abc")
        metadata = random_words(rng, 2, 32)
        items = form.depth * {32: 4, 4: 1}.get(form.bits("a"), 2) // 2
        read = {form.index_at(selector, *at)[0] for at in np.ndindex(16, items)}
        others = [lane for lane in range(32) if lane not in read]
        changed = metadata.copy()
        changed[:, others] ^= random_words(rng, 2, len(others))
        results = [form.run(DEVICE, selector, a, b, c, each) for each in (metadata, changed)]
        np.testing.assert_array_equal(*results, form.opcode)
        assert len(read) == 32 // form.selectors


def refused(ptx: str, message: str) -> None:
    with pytest.raises(SimulatedTrap, match=message) as caught:
        DEVICE.load(ptx)
    assert caught.value.trap.kind.at_load


def test_a_selector_that_a_form_has_not_is_refused_or_traps_as_on_an_h200() -> None:
    """f16 m16n8k32 with f32: ptxas takes 2 and 3, and an H200 gives error 715 for both."""
    for form in FORMS:
        for selector in range(form.selectors, 5):
            ptx = form.ptx(selector)
            if (form.k, form.a, form.d) != (32, "f16", "f32") or selector == 4:
                refused(ptx, "the sparsity selector has to be one of the constants 0")
                continue
            shape = 2, 32, sum(form.registers(role) for role in "abcd") + 1
            images = np.zeros(shape, np.uint32).reshape(2, -1).view(np.uint8)
            with pytest.raises(SimulatedTrap, match="illegal") as caught:
                DEVICE.load(ptx).launch("kernel", images)
            assert (caught.value.trap.kind, caught.value.trap.warps) == (TrapKind.STOPPED, (0, 1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%e, 1;", "5, 1;", "the metadata stand in a register"),
        ("%e, 1;", "%e, %e;", "has to be one of the constants 0, 1, 2, 3"),
        ("%e, 1;", "%e;", "has 5 operands where 6 are known"),
        ("%e, 1;", "%rd5, 1;", "32 bits are needed"),
        (".f32.f16.f16.f32", ".f32.f16.f16.f16", "qualifiers is not known"),
        ("m16n8k16", "m16n8k8", "no such shape and types are known"),
        (".row.col", ".col.col", "is not known to the simulated device"),
        (".row.col", ".row.col.satfinite", "qualifiers is not known"),
        ("sm_90", "sm_75", "needs sm_80"),
    ],
)
def test_what_an_assembler_refuses_is_refused(old: str, new: str, message: str) -> None:
    form = next(one for one in PLAIN if (one.k, one.a, one.d) == (16, "f16", "f32"))
    ptx = form.ptx(1)
    assert old in ptx
    refused(ptx.replace(old, new), message)
