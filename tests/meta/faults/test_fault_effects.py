"""Every planted fault changes a result, wherever it says that it applies."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice

import numpy as np
import pytest
from lane_programs import moves, plain
from numpy.typing import NDArray
from simulated_contents import FORMATS, flavours, images_of
from simulated_kernels import (
    VARIANTS,
    Multiplication,
    kernel,
    ldmatrix,
    multiplication,
    transfer,
)

from oracle.isa import forms
from oracle.isa.forms import Form
from oracle.isa.lookup import (
    INSTRUCTIONS,
    MMA_SYNC_FORMS,
    NARROW_FORMS,
    form_of,
    mma_sync_form,
    selectors_of,
)
from oracle.isa.targets import Module
from oracle.program.operands import Buffer, Place, Turn
from oracle.program.program import Program
from oracle.program.steps import Barrier, Copy, Loop, plain_load, plain_store, product_of
from oracle.program.warpgroup import THREADS, AsyncProduct, SharedTile, WarpgroupSync
from runners.emission import emit
from runners.faults import CATALOGUE, Fault, by_name
from runners.faults.device import silent_corruption
from runners.kernels import Kernel
from runners.simulated import LoadedModule, SimulatedDevice, SimulatedTrap, TrapKind
from runners.simulated.warps import Site
from strategies.contents import Recipe, ValueClass, expand
from strategies.matrices import single_program

SM_WITH_NARROW_ROWS = "sm_100a"
GROUP_FORMS = (
    "wgmma.mma_async.sp.sync.aligned.m64n24k64.f32.e5m2.e4m3",
    "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16",
)
SHARED = 16 << 10  # Bytes of shared memory, all of them written
REFUSALS = (TrapKind.RACE, TrapKind.UNINITIALISED, TrapKind.OUT_OF_BOUNDS)
# Bytes: faults move a store by up to a whole matrix.
ROOM_FOR_MOVED_MATRICES = 4096


def representatives() -> Iterator[Multiplication]:
    """One multiplication for each combination of types and modifiers; the rest varies along."""
    groups: dict[tuple[str | bool, ...], list[Form]] = {}
    for each in VARIANTS:
        key = (each.types, each.rounding, each.op, each.satfinite)
        groups.setdefault(key, []).append(each)
    for index, group in enumerate(groups.values()):
        # Of layouts and shapes, another combination for each combination of types.
        chosen = group[5 * index % len(group)]
        yield multiplication(
            chosen, padding=1, target="sm_90", c_order="col", slack=ROOM_FOR_MOVED_MATRICES
        )


MULTIPLICATIONS = {each.form.opcode: each for each in representatives()}


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """A kernel and images to run it on, in one or more flavours."""

    name: str
    ptx: str
    image_bytes: int = 0
    multiplication: Multiplication | None = None
    nan_of: str = ""
    """Format of which NaN are put into every fourth element."""
    target: str = "sm_90"
    lanes: Program | None = None
    """A program of mma.sync, or of a warpgroup."""
    kernel: Kernel | None = None

    def images(self) -> Iterator[NDArray[np.uint8]]:
        if self.lanes is not None:
            count = 190 if self.lanes.warps == 1 else 2
            yield expand(Recipe(classes=tuple(ValueClass), seed=5), self.lanes, count)
            return
        if self.multiplication is not None:
            for flavour in flavours(self.multiplication.form):
                yield images_of(self.multiplication, flavour)
        else:
            rng = np.random.default_rng(7)
            images = rng.integers(0, 256, (24, self.image_bytes)).astype(np.uint8)
            if self.nan_of:
                exponent, fraction, _ = FORMATS[self.nan_of]
                words = images.view(forms.FORMATS[self.nan_of].raw)
                words[:, ::4] |= words.dtype.type(((1 << exponent) - 1) << fraction)
            yield images


def elementwise(opcode: str, constant: str, *, kind: str, bits: str = "b32") -> Case:
    """Load C, change every register, store."""
    count = {"f64": 2, "f16": 4}.get(kind, 8)
    shape = "m8n8k4" if kind == "f64" else "m16n16k16"
    names = "{" + ", ".join(f"%c{i}" for i in range(count)) + "}"
    operand = ", %k" if constant else ""
    lines = [f"    mov.{bits} %k, {constant};"] if constant else []
    lines += [
        f"    wmma.load.c.sync.aligned.row.{shape}.global.{kind} {names}, [%rd2];",
        *(f"    {opcode} %c{i}, %c{i}{operand};" for i in range(count)),
        f"    wmma.store.d.sync.aligned.row.{shape}.global.{kind} [%rd2+4096], {names};",
    ]
    registers = f"    .reg .{'f64' if bits == 'b64' else 'b32'} %c<{count}>;\n    .reg .{bits} %k;"
    ptx = kernel("\n".join(lines), image_bytes=8192, registers=registers)
    return Case(name=f"{opcode} on {kind}", ptx=ptx, image_bytes=8192)


CONTROL = kernel(
    """
    ld.global.b32 %r20, [%rd2];
    and.b32 %r20, %r20, 1;
    setp.eq.u32 %p4, %r20, 0;
    @%p4 bra EVEN;
    mov.b32 %r21, 7;
    bra BOTH;
EVEN:
    mov.b32 %r21, 9;
BOTH:
    ld.global.b32 %r22, [%rd2+4];
    and.b32 %r22, %r22, 3;
AGAIN:
    setp.eq.u32 %p5, %r22, 0;
    @%p5 bra OUT;
    sub.u32 %r22, %r22, 1;
    add.u32 %r21, %r21, %r21;
    bra AGAIN;
OUT:
    st.global.b32 [%rd2+8], %r21;
    """,
    image_bytes=64,
)


LANE_CODE = kernel(
    """
    mul.wide.u32 %rd20, %r7, 4;
    add.s64 %rd20, %rd20, %rd2;
    ld.global.b32 %r20, [%rd20];
    and.b32 %r21, %r20, 40;
    shf.l.wrap.b32 %r22, %r20, %r7, %r21;
    setp.lt.u32 %p4, %r21, 24;
    selp.b32 %r23, %r20, %r22, %p4;
    @!%p4 add.s32 %r23, %r23, %r7;
    and.b32 %r24, %r20, 7;
    mov.b32 %r25, 0;
AGAIN:
    setp.ge.u32 %p5, %r25, %r24;
    @%p5 bra OUT;
    add.s32 %r23, %r23, %r23;
    add.s32 %r25, %r25, 1;
    bra AGAIN;
OUT:
    and.b32 %r24, %r20, 0x8000;
    mov.b32 {%h0, %h1}, %r24;
    neg.s16 %h0, %h0;
    setp.lt.s16 %p4, %h0, 0;
    selp.b32 %r24, 1, 0, %p4;
    add.s32 %r23, %r23, %r24;
    mov.b32 %r25, 0x30005;
    add.s16x2 %r24, %r20, %r25;
    mov.b32 {%h2, %h3}, %r24;
    cvt.u32.u16 %r24, %h2;
    add.s32 %r23, %r23, %r24;
    st.global.b32 [%rd20+128], %r23;
    """,
    image_bytes=256,
    registers=".reg .b16 %h<4>;",
)


def others() -> Iterator[Case]:
    for kind, shape in (("f16", "m8n32k16"), ("f32", "m16n16k8"), ("f64", "m8n8k4")):
        for order in ("row", "col"):
            yield Case(
                name=f"transfer {kind} {order}",
                ptx=transfer(kind, shape, order),
                image_bytes=8192,
                nan_of=kind,
            )
    yield elementwise("mul.rn.f16x2", "0x3e003e00", kind="f16")
    yield elementwise("add.rn.f16x2", "0x3c003c00", kind="f16")
    yield elementwise("add.rn.f32", "0x3f800001", kind="f32")
    yield elementwise("mul.rn.f64", "0x3ff0000000000001", kind="f64", bits="b64")
    yield elementwise("add.rn.f64", "0x3ff0000000000001", kind="f64", bits="b64")
    yield elementwise("neg.s32", "", kind="s32")
    yield elementwise("xor.b32", "0x80008000", kind="f16")
    narrow = ldmatrix("m8n8.x4@.b16", 4).replace("[%rd16]", "[%r20]")
    added = "add.s64 %rd16, %rd11, %rd17;"
    yield Case(
        name="ldmatrix of an address of 32 bits",
        ptx=narrow.replace(added, f"{added} cvt.u32.u64 %r20, %rd16;"),
        image_bytes=1024 + 128 * 4,
    )
    for qualifiers, registers in (
        ("m8n8.x1@.b16", 1),
        ("m8n8.x2.trans@.b16", 2),
        ("m8n8.x4@.b16", 4),
        ("m8n8.x4.trans@.b16", 4),
        ("m16n16.x1.trans@.b8", 2),
        ("m16n16.x2.trans@.b8x16.b6x16_p32", 4),
        ("m16n16.x1.trans@.b8x16.b4x16_p64", 2),
        ("m8n16.x2@.b8x16.b6x16_p32", 2),
        ("m8n16.x4@.b8x16.b4x16_p64", 4),
        ("m8n16.x2@.s8.s4", 2),
    ):
        target = "sm_90" if "m8n8" in qualifiers else SM_WITH_NARROW_ROWS
        yield Case(
            name=f"ldmatrix {qualifiers}",
            ptx=ldmatrix(qualifiers, registers, target=target),
            image_bytes=1024 + 128 * registers,
            target=target,
        )
    yield Case(name="branch and loop", ptx=CONTROL, image_bytes=64)
    yield Case(name="code of lanes", ptx=LANE_CODE, image_bytes=256)
    for types in ("f32.f16.f16.f32", "s32.s8.s8.s32"):
        chosen = next(one for one in VARIANTS if one.types == types)
        each = multiplication(chosen, target="sm_90", slack=ROOM_FOR_MOVED_MATRICES)
        ptx = re.sub(r"%d(\d)", lambda match: f"%c{7 - int(match[1])}", each.ptx)
        yield Case(name=f"{chosen.opcode}, c reversed", ptx=ptx, multiplication=each)


def lane_programs() -> Iterator[Case]:
    """One form of mma.sync for each combination of types, and moves between lanes."""
    chosen = {
        (form.groups, *(form.type(operand) for operand in "dabc"), form.satfinite, form.op,
         form.rounding): form
        for form in MMA_SYNC_FORMS
    }  # fmt: skip
    made = {form.opcode: plain(form) for form in chosen.values()}
    halves = mma_sync_form("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16")
    made["d over a"] = plain(halves, over="a.1 a.0")
    made |= {f"moves of {count}": moves(count) for count in (1, 2, 4)}
    for name, program in made.items():
        module = emit(program, module=Module.named("sm_90", "8.7"))
        yield Case(name=name, ptx=module.ptx, lanes=program)
    for form in NARROW_FORMS[::2]:
        step = product_of(form)
        if form.is_scaled:
            step = step.changed(selector=selectors_of(form)[-1])
        program = single_program(step)
        module = emit(program, module=Module.named("sm_120a", "9.1"))
        yield Case(name=form.opcode, ptx=module.ptx, lanes=program, target="sm_120a")


LATER = Turn(asks="ne", number=0)


def group_program(form: Form) -> Program:
    """Two groups in flight: A in shared memory and B without a swizzle, A in registers and with."""
    sparse = {"e": "e", "selector": 0} if form.has_metadata else {}
    count, tile = form.words("d"), SharedTile(place=Place(buffer="s"), leading=512, stride=1024)
    turned = replace(tile, swizzle=64, stride=512, place=Place(buffer="s", offset=8192))
    product = partial(AsyncProduct, form=form, **sparse)
    rest = Place(buffer="g", offset=128)
    steps = [
        *(
            plain_load(registers=name, count=size, place=Place(buffer=f"g{name}"), lanes=THREADS)
            for name, size in (("c", count), ("d", count), ("x", 4), ("e", 1))
        ),
        Copy(source=Place(buffer="g"), destination=Place(buffer="s"), size=128, mbarrier=0),
        Copy(source=rest, destination=replace(rest, buffer="s"), size=SHARED - 128),
        WarpgroupSync(kind="proxy_fence"),
        Barrier(),
        WarpgroupSync(kind="bulk_wait", mbarrier=0),
        WarpgroupSync(kind="fence"),
        product(d="c", a_tile=tile, b_tile=tile, scale_d=0, scale_b=-1),
        WarpgroupSync(kind="commit_group"),
        Loop(count=2, body=(product(d="d", a="x", b_tile=turned, scale_d=LATER),)),
        WarpgroupSync(kind="commit_group"),
    ]
    for pending, name in ((1, "c"), (0, "d")):
        place = Place(buffer=f"o{name}")
        steps.append(WarpgroupSync(kind="wait_group", pending=pending))
        steps.append(plain_store(registers=name, count=count, place=place, lanes=THREADS))
    names = ("gc", "gd", "gx", "ge", "oc", "od")
    buffers = [Buffer(name=name, space="global", size=512 * max(4, count)) for name in names]
    buffers.append(Buffer(name="g", space="global", size=SHARED))
    buffers.append(Buffer(name="s", space="shared", size=SHARED))
    return Program(buffers=tuple(buffers), steps=tuple(steps), warps=4)


def group_programs() -> Iterator[Case]:
    for opcode in GROUP_FORMS:
        program = group_program(form_of(opcode))
        module = emit(program, module=Module.named("sm_90a", "8.4"))
        yield Case(
            name=opcode, ptx=module.ptx, lanes=program, target="sm_90a", kernel=module.kernel()
        )


def sparse_products() -> Iterator[Case]:
    """Forms of mma.sp with the last selector, every other one of ordered metadata."""
    plain = INSTRUCTIONS["mma.sp"].forms
    ordered = [one for one in INSTRUCTIONS["mma.sp::ordered_metadata"].forms if not one.kind]
    for index, pair in enumerate(zip(plain, ordered, strict=True)):
        form = pair[index % 2]
        program = single_program(product_of(form).changed(selector=selectors_of(form)[-1]))
        ptx = emit(program, module=Module.named("sm_90", "8.7")).ptx
        yield Case(name=form.opcode, ptx=ptx, lanes=program)
        last = form.words("d") - 1
        over = re.sub(r"%d_(\d)\b", lambda match, last=last: f"%c_{last - int(match[1])}", ptx)
        yield Case(name=f"{form.opcode}, c reversed", ptx=over, lanes=program)


CASES = (
    *(
        Case(name=opcode, ptx=each.ptx, multiplication=each)
        for opcode, each in MULTIPLICATIONS.items()
    ),
    *others(),
    *lane_programs(),
    *sparse_products(),
    *group_programs(),
)

# A multiplication makes every NaN quiet by itself; transfers show these.
ONLY_IN_TRANSFERS = ("load-quiets-nan", "store-quiets-nan")
# One in 20,000 has a test of its own; so have those that screening has to look for.
TOO_RARE = ("transient-rare",)


def launched(module: LoadedModule, case: Case, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if case.kernel is not None:
        return module.launch_kernel(case.kernel, images)[0]
    return module.launch("kernel", images)[0]


@cache
def runs(case: Case) -> tuple[tuple[NDArray[np.uint8], NDArray[np.uint8]], ...]:
    """Images before and after, without a fault."""
    module = SimulatedDevice(case.target).load(case.ptx)
    return tuple((images, launched(module, case, images)) for images in case.images())


def blindness(fault: Fault, case: Case) -> str | None:
    """Why the fault is not seen in the images, or None if it is."""
    try:
        module = SimulatedDevice(case.target, faults=[fault]).load(case.ptx)
        for images, expected in runs(case):
            if not np.array_equal(launched(module, case, images), expected):
                return None
    except SimulatedTrap as trap:
        # What has no order, or was never written, is refused, which a campaign finds.
        seen = case.kernel is not None and trap.trap.kind in REFUSALS
        return None if seen else f"{case.name}: {trap}"
    return f"{case.name}: the same images"


def concerned(fault: Fault, cases: Sequence[Case] = CASES) -> Iterator[Case]:
    """Yield the cases that a fault applies to."""
    for case in cases:
        shows = fault.name not in ONLY_IN_TRANSFERS or case.name.startswith("transfer")
        if shows and fault.applies(case.ptx):
            yield case


SEEN = pytest.mark.parametrize(
    "fault",
    [each for each in CATALOGUE if not each.rare and each.name not in TOO_RARE],
    ids=lambda each: each.name,
)


@SEEN
def test_a_fault_is_seen_in_the_first_and_the_last_form_that_it_applies_to(fault: Fault) -> None:
    cases = {case for way in (CASES, CASES[::-1]) for case in islice(concerned(fault, way), 1)}
    assert cases, "no program contains what the fault applies to"
    assert [why for case in cases if (why := blindness(fault, case))] == []


@pytest.mark.slow
@SEEN
def test_a_fault_is_seen_in_every_form_that_it_applies_to(fault: Fault) -> None:
    assert [why for case in concerned(fault) if (why := blindness(fault, case))] == []


def test_a_fault_of_one_multiprocessor_leaves_the_others_alone() -> None:
    case = multiplication(next(each for each in VARIANTS if each.a_type.name == "s8"))
    images = images_of(case, "bits", count=800)
    clean, _ = SimulatedDevice("sm_90").load(case.ptx).launch("kernel", images)
    broken = SimulatedDevice("sm_90", faults=[by_name("stuck-bit-on-one-sm")])
    found, sms = broken.load(case.ptx).launch("kernel", images)
    assert set(sms[(found != clean).any(axis=1)]) == {1}


def test_silent_corruption_has_the_published_distribution() -> None:
    """Of arXiv:2605.04213: NaN and infinity in 1.01 %, single bits in fewer than 40 % of flips."""
    words = np.random.default_rng(0).normal(size=(32, 20_000)).astype(np.float32).view(np.uint32)
    site = Site(warps=np.arange(20_000), sms=np.zeros(20_000, np.uint32), launch=0, line=1)
    for lane, period in ((13, 32), (5, 8)):
        corrupt = silent_corruption(register=1, lane=lane, period=period)
        first, second = corrupt([words, words], site)
        struck = slice(lane, None, period)
        assert (first == words).all()
        assert (np.delete(second, np.s_[struck], 0) == np.delete(words, np.s_[struck], 0)).all()
        wrong, right = second[struck], words[struck]
        assert (wrong != right).all()
        finite = np.isfinite(wrong.view(np.float32))
        assert np.mean(~finite) == pytest.approx(0.0101, abs=0.003)
        flips = np.ascontiguousarray((wrong ^ right)[finite])
        bits = np.unpackbits(flips.view(np.uint8).reshape(-1, 4), axis=1).sum(axis=1)
        assert np.mean(bits == 1) == pytest.approx(0.39, abs=0.015)
        again = corrupt([words, words], site)[1]
        assert (again == second).all()


@pytest.mark.parametrize(("name", "sm"), [("transient-on-one-sm", 57), ("transient-under-load", 7)])
def test_a_fault_of_one_multiprocessor_that_is_rare_is_seen_there_alone(name: str, sm: int) -> None:
    small = multiplication(next(each for each in VARIANTS if each.a_type.name == "s4"))
    # Eight warps of every multiprocessor, time and again.
    images = np.repeat(images_of(small, "bits"), 150, axis=0)
    clean, _ = SimulatedDevice("sm_90").load(small.ptx).launch("kernel", images)
    module = SimulatedDevice("sm_90", faults=[by_name(name)]).load(small.ptx)
    struck: set[int] = set()
    for _ in range(1000):
        found, sms = module.launch("kernel", images, threads=256)
        struck |= set(sms[(found != clean).any(axis=1)].tolist())
        if struck:
            break
    assert struck == {sm}


@pytest.mark.slow
def test_a_rare_transient_is_seen_and_differs_from_launch_to_launch() -> None:
    small = multiplication(next(each for each in VARIANTS if each.a_type.name == "s4"))
    images = np.repeat(images_of(small, "bits"), 2000, axis=0)
    clean, _ = SimulatedDevice("sm_90").load(small.ptx).launch("kernel", images)
    module = SimulatedDevice("sm_90", faults=[by_name("transient-rare")]).load(small.ptx)
    first, second = (module.launch("kernel", images)[0] for _ in range(2))
    struck = [np.flatnonzero((each != clean).any(axis=1)) for each in (first, second)]
    assert 1 <= len(struck[0]) <= 12
    assert list(struck[0]) != list(struck[1])


def test_another_convention_for_nan_changes_one_nan_into_another() -> None:
    """Invalid operations, operands that are NaN: whatever is no NaN, stays."""
    fault = by_name("f64-payload-dropped")
    (case,) = [one for one in concerned(fault) if one.name.endswith("m8n8k4.rn.f64.f64.f64.f64")]
    module = SimulatedDevice(case.target, faults=[fault]).load(case.ptx)
    for images, expected in runs(case):
        actual = module.launch("kernel", images)[0].view(np.float64)
        wanted = expected.view(np.float64)
        assert np.array_equal(np.isnan(actual), np.isnan(wanted))
        number = ~np.isnan(wanted)
        assert np.array_equal(actual[number], wanted[number])
