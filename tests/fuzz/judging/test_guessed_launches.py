"""Launches of files and guesses: where parameters lie, what is a pointer, how large buffers are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fuzz.findings.launches import (
    TYPES,
    BufferRow,
    LaunchRows,
    parameters_of,
    parse_launch,
    setup_of,
)
from fuzz.judging.reference import edges_of, guess, image_of, rounded, undecided
from fuzz.reducer import pieces_of
from oracle.errors import UsageError
from runners.kernels import parameters_at
from runners.simulated import SimulatedDevice
from strategies.contents.expansion import below, filled

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def module(parameters: str, body: str = "", behind: str = "") -> str:
    registers = (
        ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f64 %d<3>; .reg .f32 %f<3>; .reg .pred %p;"
    )
    return f"{HEAD}.visible .entry k({parameters})\n{behind}\n{{\n{registers}\n{body}\nret;\n}}\n"


def test_parameters_lie_where_their_types_put_them() -> None:
    ptx = module(
        ".param .u32 n, .param .u64 .ptr .global .align 8 x, .param .u8 c,\n"
        ".param .align 16 .b8 s[24], .param .f32 f // , .param .u64 no"
        "\n"
    )
    found = {one.name: (one.offset, one.size) for one in parameters_of(ptx, "k")}
    assert found == {"n": (0, 4), "x": (8, 8), "c": (16, 1), "s": (32, 24), "f": (56, 4)}


def test_a_kernel_without_parameters_is_launched_without_any() -> None:
    setup = setup_of(module(""), parse_launch(b"grid = 1\nblock = 32\n", "here"))
    assert (setup.launch.parameters, setup.launch.pointers, setup.launch.buffers) == (b"", (), ())


def test_buffers_hold_what_ptx_loads() -> None:
    """PTX ISA 5.2.1, Fundamental Types, those of 8 to 64 bits, and bf16."""
    bits = {"b": (8, 16, 32, 64), "u": (8, 16, 32, 64), "s": (8, 16, 32, 64), "f": (16, 32, 64)}
    every = {f"{kind}{size}": size for kind, sizes in bits.items() for size in sizes}
    assert every | {"bf16": 16} == TYPES


def test_a_launch_is_read_back_as_it_is_written() -> None:
    ptx = module(".param .u64 x, .param .align 8 .b8 s[16], .param .f32 f")
    text = (
        'grid = [2, 3]\nblock = 5\nshared = 8\n[arguments]\nx = { bytes = 100, type = "f32" }\n'
        '"s" = 7\n"s+8" = { bytes = 300, type = "u16", below = 9, fill = "drawn" }\nf = 1.5\n'
    )
    setup = setup_of(ptx, parse_launch(text.encode(), "here"))
    assert setup_of(ptx, parse_launch(setup.toml.encode(), "again")) == setup
    launch = setup.launch
    assert (launch.grid, launch.block) == ((2, 3, 1), (5, 1, 1))
    (x, first), (y, second) = launch.buffers
    assert (first, second) == (100, 300)
    assert x % 256 == y % 256 == 0
    assert y - (x + first) >= 256
    assert setup.image_bytes >= y + second + 256
    block = parameters_at(launch, 0x1000)
    assert len(block) == 28
    words = [int.from_bytes(block[at : at + 8], "little") for at in (0, 8, 16)]
    assert words == [0x1000 + x, 7, 0x1000 + y]
    assert np.frombuffer(block[24:], np.float32)[0] == 1.5


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("grid = 0", "grid"),
        ("colour = 1", "colour"),
        ("grid = 1\nblock = [64, 32]\n[arguments]\nn = 1", "too many"),
        ("grid = 1\nblock = 1\n[arguments]\nm = 3\nn = 1", "no parameter m"),
        ("grid = 1\nblock = 1\n[arguments]\nn = 1.5", "no integer of 32 bits"),
        ('[arguments]\nn = { bytes = 16, type = "f8" }', "regex.*b8.b16"),
        ('entry = "other"', "asks for the entry other, and the module has k"),
        ("[", "TOML"),
    ],
)
def test_a_launch_that_is_none_is_a_sentence(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        setup_of(module(".param .u32 n"), parse_launch(text.encode(), "here"))


GUESSES = {
    "a structure of pointer and number": (
        module(".param .align 8 .b8 s[16]",
               "ld.param.u64 %rd1, [s]; ld.param.u32 %r1, [s+8]; mul.wide.u32 %rd2, %r1, 4;"
               "cvta.to.global.u64 %rd3, %rd1; mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 8;"
               "add.u64 %rd3, %rd3, %rd2; st.global.f64 [%rd3], 0d0000000000000000;"),
        (64, 1, 1), {"s+0": BufferRow(bytes=512, type="f64"), "s+8": 64},
    ),
    "bounds of the text": (
        module(".param .u64 x", "ld.param.u64 %rd1, [x]; st.global.u32 [%rd1+1020], 5;",
               ".reqntid 4, 2, 1"),
        (4, 2, 1), {"x": BufferRow(bytes=1024, type="u32")},
    ),
    "lanes alone": (
        module(".param .u64 x, .param .f64 f",
               "ld.param.u64 %rd1, [x]; mov.u32 %r1, %laneid; mul.wide.u32 %rd2, %r1, 4;"
               "add.u64 %rd1, %rd1, %rd2; ld.param.f64 %d1, [f]; st.global.u32 [%rd1], 5;"),
        (32, 1, 1), {"x": BufferRow(bytes=256, type="u32"), "f": 1.5},
    ),
    "a structure that is reached by its address": (
        module(".param .align 8 .b8 s[32]",
               "mov.b64 %rd1, s; add.s64 %rd2, %rd1, 24; ld.param.u64 %rd3, [%rd2+-8];"
               "ld.param.u32 %r1, [%rd1+8]; st.global.u16 [%rd3+510], 5;"),
        (1, 1, 1), {"s+16": BufferRow(bytes=512, type="u16"), "s+8": 1},
    ),
    "sides of a cube": (
        module(".param .u64 x, .param .u32 n",
               "ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [n]; mul.lo.u32 %r2, %r1, %r1;"
               "mul.wide.u32 %rd2, %r2, %r1; add.u64 %rd1, %rd1, %rd2; mov.u32 %r1, %ctaid.x;"
               "st.global.u8 [%rd1+-1], 5;", ".reqntid 8, 8, 2"),
        (8, 8, 2), {"x": BufferRow(bytes=16**3, type="u8"), "n": 16},
    ),
    "nothing but a number": (module(".param .u16 n", ""), (1, 1, 1), {"n": 1}),
}  # fmt: skip


@pytest.mark.parametrize("what", GUESSES)
def test_what_the_text_tells_is_guessed(what: str) -> None:
    ptx, block, arguments = GUESSES[what]
    found, guessed = guess(ptx, LaunchRows(), SimulatedDevice("sm_80"))
    assert found.block == block
    assert found.arguments == arguments
    assert len(guessed) == 2 + len(arguments)


def test_a_block_that_races_is_named_with_the_race() -> None:
    ptx = module(".param .u64 x",
                 ".shared .b32 s[64]; ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mov.u32 %r2, s;"
                 "mul.lo.u32 %r3, %r1, 4; add.u32 %r3, %r2, %r3; st.shared.u32 [%r3], 5;"
                 "bar.warp.sync 0xffffffff; ld.shared.u32 %r4, [%r2];"
                 "st.global.u32 [%rd1], %r4;")  # fmt: skip
    found, guessed = guess(ptx, LaunchRows(), SimulatedDevice("sm_80"))
    assert found.block == (32, 1, 1)
    assert "64, 32, 128 and 256 threads are tried" in guessed[0]
    assert "a block of (64, 1, 1) is refused" in guessed[0]
    assert "race: thread 32" in guessed[0]


def test_dynamic_shared_memory_is_what_other_variables_leave() -> None:
    """Of 48 KiB, in whole KiB; kernels of Triton have most of it."""
    ptx = module(
        ".param .u64 x",
        ".shared .b32 own[300]; ld.param.u64 %rd1, [x]; mov.u32 %r1, more; mov.u32 %r2, own;"
        "st.shared.u32 [%r1+40000], 5; st.global.u32 [%rd1], 5;",
    )
    ptx = ptx.replace(".visible", ".extern .shared .align 16 .b8 more[];\n.visible", 1)
    assert guess(ptx, LaunchRows(), SimulatedDevice("sm_80"))[0].shared == 46 << 10


UNKNOWN = (
    ".shared .align 8 .b64 bar; ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mov.u32 %r2, bar;"
    "mbarrier.init.shared.b64 [%r2], 1; WAIT: mbarrier.try_wait.parity.shared.b64 %p, [%r2], 0;"
    "@!%p bra WAIT; mul.wide.u32 %rd2, %r1, 8192; add.u64 %rd1, %rd1, %rd2;"
    "@%p frobnicate.v2.b32 {%r3, %r4}, [%rd1, {%r1}]; st.global.u32 [%rd1+-4096], %r3;"
)


def test_buffers_of_a_kernel_that_is_not_known_whole_are_large() -> None:
    ptx = module(".param .u64 x", UNKNOWN)
    found, guessed = guess(ptx, LaunchRows(), SimulatedDevice("sm_90"))
    assert found.arguments == {"x": BufferRow(bytes=256 << 10, type="u32")}
    assert "the simulated device cannot run it" in guessed[-1]


BOTH = "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];"
POINTERS = {
    "one after the other": "add.u64 %rd3, %rd1, 16; ld.global.u32 %r1, [%rd3];"
                           "add.u64 %rd3, %rd2, 16; st.global.u32 [%rd3], %r1;",
    "one of two": "setp.eq.u64 %p, %rd1, 0; selp.u64 %rd3, %rd1, %rd2, %p;"
                  "ld.global.u32 %r1, [%rd2]; st.global.u32 [%rd3], 5;",
    "under a guard": "setp.ne.u64 %p, %rd1, 0; mov.u64 %rd3, %rd1; @%p mov.u64 %rd3, %rd2;"
                     "st.global.u32 [%rd3], 5; st.global.u32 [%rd1], 6;",
    "two ways": "setp.ne.u64 %p, %rd1, 0; mov.u64 %rd3, %rd1; @%p bra L; mov.u64 %rd3, %rd2;"
                "L: add.u64 %rd3, %rd3, 4; st.global.u32 [%rd3], 5;",
    "a loop": "mov.u32 %r1, 3; mov.u64 %rd3, %rd1; L: st.global.u32 [%rd3], 5;"
              "add.u64 %rd3, %rd3, 4; sub.u32 %r1, %r1, 1; setp.ne.u32 %p, %r1, 0; @%p bra L;"
              "mov.u64 %rd3, %rd2; st.global.u32 [%rd3], 5;",
    "from one to the other": "sub.u64 %rd3, %rd2, %rd1; st.global.u32 [%rd1], 5;"
                             "st.global.u32 [%rd2], 5; add.u64 %rd3, %rd1, %rd3;"
                             "st.global.u32 [%rd3], 5;",
}  # fmt: skip
"""Uses of two pointers, whose addresses have a register in common."""


@pytest.mark.parametrize("what", POINTERS)
def test_registers_are_followed_to_the_pointers_that_they_hold(what: str) -> None:
    ptx = module(".param .u64 x, .param .u64 y", BOTH + POINTERS[what])
    found, _ = guess(ptx, LaunchRows(), SimulatedDevice("sm_80"))
    assert found.arguments == dict.fromkeys("xy", BufferRow(bytes=256, type="u32"))


def test_what_a_kernel_touches_is_told_apart_from_what_it_gets() -> None:
    ptx = module(".param .u64 x, .param .u64 y", BOTH + "st.global.u32 [%rd1+60], 5;"
                 "st.global.u32 [%rd2+1020], 5;")  # fmt: skip
    _, guessed = guess(ptx, LaunchRows(), SimulatedDevice("sm_80"))
    assert guessed[-2:] == (
        "x = 256 bytes of u32 (the kernel touches bytes below 64; 256 is the least)",
        "y = 1024 bytes of u32 (the kernel touches bytes below 1024)",
    )


SUM = "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; add.u64 %rd3, %rd1, %rd2;"
STORED = "st.global.u32 [%rd3], 5;"
FAR = "ld.param.u64 %rd1, [x]; st.global.u32 [%rd1+700], 5;"
APART = BOTH + "sub.u64 %rd3, %rd2, %rd1; add.u64 %rd3, %rd3, %rd1; st.global.u32 [%rd3], 5;"
SHARED = (
    "ld.param.u64 %rd1, [x]; cvta.to.shared.u64 %rd2, %rd1;"
    "ld.shared.u32 %r1, [%rd2]; st.global.u32 [%rd1], %r1;"
)
REFUSED = {
    "one that does not end": ("mov.u32 %r1, %tid.x; L: bra L;", {}, "hang: still running"),
    "two pointers in one address": (
        SUM + STORED, {}, "an address of the parameters x, y, and nothing says",
    ),
    "one apart from the other": (APART, {}, "the parameters x, y"),
    "an address of other memory": (SHARED, {}, "not run the kernel.*of shared memory"),
    "a buffer that is too small": (
        FAR, {one: BufferRow(bytes=512) for one in "xy"}, "a buffer may be too small",
    ),
    "a race in every block": (
        ".shared .b32 s; mov.u32 %r1, %tid.x; st.shared.u32 [s], %r1;", {},
        r"\(64, 1, 1\) is refused.*race.*\(32, 1, 1\).*\(256, 1, 1\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_guessed_is_said(what: str) -> None:
    body, arguments, says = REFUSED[what]
    device, ptx = SimulatedDevice("sm_80"), module(".param .u64 x, .param .u64 y", body)
    with pytest.raises(UsageError, match=says) as caught:
        guess(ptx, LaunchRows(arguments=arguments), device)
    assert "too small" not in str(caught.value) or what == "a buffer that is too small"
    # Each time takes seconds.
    assert device.launches == 1 or what != "one that does not end"


@pytest.mark.parametrize(("body", "y"), [(SUM + STORED, 60), (APART, BufferRow(bytes=64))])
def test_what_a_file_gives_is_taken_as_it_is(body: str, y: int | BufferRow) -> None:
    rows = LaunchRows(arguments={"x": BufferRow(bytes=64), "y": y})
    ptx = module(".param .u64 x, .param .u64 y", body)
    assert guess(ptx, rows, SimulatedDevice("sm_80"))[0].arguments == rows.arguments


def test_sums_and_products_without_a_rounding_get_one() -> None:
    text = "add.f32 a; mul.ftz.sat.f32 b; sub.f16x2 c; add.rn.f32 d; add.u32 e;"
    assert rounded(text) == (
        "add.rn.f32 a; mul.rn.ftz.sat.f32 b; sub.rn.f16x2 c; add.rn.f32 d; add.u32 e;",
        3,
    )
    for text in ("atom.global.add.f32 a;", "red.relaxed.gpu.global.add.noftz.f16x2 a;"):
        assert rounded(text) == (text, 0)
        assert "the order of " in undecided(text)
    assert not undecided("atom.global.add.u32 a; red.shared.max.f32 b; add.f32 c;")


@pytest.mark.parametrize("kind", ["u", "s", "b", "f"])
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_contents_depend_on_their_names_alone_and_reach_the_edges(kind: str, bits: int) -> None:
    def contents(**other: int) -> np.ndarray:
        names = {"seed": 3, "image": 0, "buffer": 1, **other}
        return np.frombuffer(filled(kind, bits, 1 << 15, **names), f"u{bits // 8}")

    assert np.array_equal(contents(), contents())
    for other in ({"seed": 4}, {"image": 4}, {"buffer": 2}):
        assert not np.array_equal(contents(), contents(**other))
    edges = {0, (1 << bits - 1) - 1, (1 << bits) - 1, 1 << bits - 1}
    if kind == "f":
        top = {16: 0x7C00, 32: 0x7F80_0000, 64: 0x7FF0_0000_0000_0000}[bits]
        quiet = {16: 0x7E00, 32: 0x7FC0_0000, 64: 0x7FF8_0000_0000_0000}[bits]
        edges = {0, 1, 1 << bits - 1, top, top - 1, top + 1, quiet, quiet | 1 << bits - 1}
    assert edges <= set(contents().tolist())
    scale = 4 if kind == "f" else 1
    small = contents(image=2).view(f"f{bits // 8}" if kind == "f" else f"u{bits // 8}")
    assert set((small * scale).tolist()) == set(range(16))


def test_bounded_integers_stay_below_their_bound() -> None:
    found = np.frombuffer(below(7, 32, 4000, seed=0, image=0, buffer=0), np.uint32)
    assert set(found.tolist()) == set(range(7))


TAKEN, RARE = "selp.u32 %r3, 5, 1, %p; ", "mov.u32 %r3, 1; "
TURNS = {
    "a rare number": ("setp.eq.u32 %p, %r1, 305419896; ", TAKEN, RARE),
    "two rare numbers": (
        "setp.eq.u32 %p, %r1, 305419896; setp.eq.and.u32 %p, %r2, 19088743, %p; ", TAKEN, RARE),
    "the last below a bound": ("", "setp.lt.s32 %p, %r1, 99999; " + TAKEN,
                               "setp.le.s32 %p, %r1, 99999; " + TAKEN),
    "a field": ("bfe.u32 %r4, %r1, 8, 16; setp.eq.u32 %p, %r4, 4660; ", TAKEN, RARE),
    "a half": ("shr.u32 %r4, %r1, 16; setp.eq.u32 %p, %r4, 54321; ", TAKEN, RARE),
    "a range": ("add.s32 %r4, %r1, -70000; ", "setp.lt.u32 %p, %r4, 100; " + TAKEN,
                "setp.le.u32 %p, %r4, 100; " + TAKEN),
    "a product": ("mul.lo.u32 %r4, %r1, 12; setp.eq.u32 %p, %r4, 12000; ", TAKEN, RARE),
    "a negative": ("neg.s32 %r4, %r1; setp.eq.s32 %p, %r4, 123456; ", TAKEN, RARE),
    "an argument": ("ld.param.u32 %r4, [n]; setp.eq.u32 %p, %r1, %r4; ", TAKEN, RARE),
    "half of a number": ("mov.b32 %f1, %r1; mul.rn.f32 %f1, %f1, 0f3F000000; ",
                         "setp.gt.f32 %p, %f1, 0f42C80000; " + TAKEN,
                         "setp.ge.f32 %p, %f1, 0f42C80000; " + TAKEN),
    "an integer": ("mov.b32 %f1, %r1; cvt.rzi.s32.f32 %r4, %f1; setp.eq.s32 %p, %r4, 1234; ",
                   TAKEN, RARE),
    **{f"a shift by {by}": (f"setp.eq.u32 %p, %r2, {by}; shr.s32 %r3, %r1, %r2; ", "",
                            "@%p not.b32 %r3, %r3; ")
       for by in (31, 32, 33)},
}  # fmt: skip
"""What a kernel does with two numbers, what follows, and what a wrong build makes of that."""


@pytest.mark.parametrize("what", TURNS)
def test_contents_are_where_the_results_of_a_kernel_turn(what: str) -> None:
    before, right, wrong = TURNS[what]
    loads = (
        "ld.param.u64 %rd1, [x]; mov.u32 %r5, %tid.x; mad.wide.u32 %rd1, %r5, 12, %rd1; "
        "ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd1+4]; mov.u32 %r3, 0; "
    )
    ends = "st.global.u32 [%rd1+8], %r3;"
    texts = [
        module(".param .u64 x, .param .u32 n", loads + before + then + ends)
        for then in (right, wrong)
    ]
    arguments = {"x": BufferRow(bytes=768, type="u32"), "n": 777}
    setup = setup_of(texts[0], LaunchRows(grid=1, block=64, arguments=arguments))
    edges, device = edges_of(texts[0], setup), SimulatedDevice("sm_90")

    def turns(seed: int, number: int) -> bool:
        image = image_of(setup, seed=seed, number=number, edges=edges)
        made = (device.load(ptx).launch_grid("k", image, setup.launch).image for ptx in texts)
        return len({one.tobytes() for one in made}) == 2

    for seed in range(2):
        assert any(turns(seed, number) for number in range(64)), seed


def test_floats_of_other_widths_and_no_constants_at_all_have_edges() -> None:
    lines = "setp.lt.f64 %p, %d1, 0d4010000000000000; cvt.rn.f64.u32 %d1, %r1;"
    ptx = module(".param .u64 x", lines)
    kinds = ("f16", "bf16", "f32", "f64", "u8", "s64")
    rows = {f"x+{at}": BufferRow(bytes=64, type=kind) for at, kind in enumerate(kinds)}
    setup = setup_of(ptx, LaunchRows(grid=1, block=1, arguments={"x": rows["x+0"]}))
    found = {
        kind: edges_of(ptx, replace(setup, arguments={"x": row})).get(kind)
        for kind, row in zip(kinds, rows.values(), strict=True)
    }
    four = {"f16": 0x4400, "bf16": 0x4080, "f32": 0x4080_0000, "f64": 0x4010 << 48, "s64": 4}
    assert all(one and four.get(kind, 4) in one.exact for kind, one in found.items())
    assert edges_of(module(".param .u64 x"), setup) == {}


def test_an_image_has_every_buffer_in_its_place() -> None:
    ptx = module(".param .u64 x, .param .u64 y")
    arguments = {"x": BufferRow(bytes=12, type="u32", fill="count"),
                 "y": BufferRow(bytes=8, fill="zeros")}  # fmt: skip
    setup = setup_of(ptx, LaunchRows(grid=1, block=1, arguments=arguments))
    image = image_of(setup, seed=0, number=0)
    assert image.shape == (setup.image_bytes,)
    x, y = setup.offsets.values()
    assert image[x : x + 12].view(np.uint32).tolist() == [0, 1, 2]
    assert not image[y : y + 8].any()
    assert image[y + 8 :].any()


def test_a_module_is_taken_apart_and_put_together_again() -> None:
    text = """// made by a compiler
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 4 .b8 more[];
.global .align 4 .u32 table[3] = {1, 2, 3}; // of numbers
.func (.param .b32 r) one(.param .b32 a) { .reg .b32 %r<2>; ld.param.b32 %r1, [a];
  st.param.b32 [r], %r1; ret; }
.visible .entry k(.param .u64 x)
.maxntid 32, 1, 1
{ .reg .b64 %rd<3>; .reg .b32 %r<5>; /* two
lines */ .pragma "nounroll"; .loc 1 2 3
  ld.param.u64 %rd1, [x]; ld.global.v2.u32 {%r1, %r2}, [%rd1]; { .reg .b32 %t; mov.u32 %t, 5; }
LOOP: @%p bra LOOP; st.global.v2.u32 [%rd1], {%r2,
  %r1}; ret; }
.section .debug_info { .b8 1, 2
.b32 x }
"""
    pieces = [words for words, free in pieces_of(text) if free]
    assert "ld.global.v2.u32 {%r1, %r2}, [%rd1];" in pieces
    assert "st.global.v2.u32 [%rd1], {%r2, %r1};" in pieces
    debugged = text.replace("sm_80", "sm_80, debug")
    assert [words for words, _ in pieces_of(debugged)][1] == ".target sm_80", "needs sections"
    assert '.pragma "nounroll";' in pieces
    assert "LOOP:" in pieces
    assert ".loc 1 2 3" not in pieces, "for debuggers"
    kept = [words for words, free in pieces_of(text) if not free]
    assert kept.count("{") == kept.count("}") == 3
    assert ".visible .entry k(.param .u64 x) .maxntid 32, 1, 1" in kept
    together = "\n".join(words for words, _ in pieces_of(text))
    assert pieces_of(together) == pieces_of(text)
    assert pieces_of(".version 8.0\nstrange }} {{")[-1][1] is False
