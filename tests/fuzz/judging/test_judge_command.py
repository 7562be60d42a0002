"""`warpfuzz judge`: a pass and compilers on kernels of anybody, and what cannot be judged."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from answering import address
from command_line import ROOT, Ended, warpfuzz
from planted_ptxas import planted_ptxas
from repro_cases import by_python, c_program, in_c

from corpus import Kind
from fuzz.explain.document import escaped
from fuzz.findings.launches import Setup, parse_launch, setup_of
from fuzz.judging import judging
from fuzz.judging.judging import Holds, KernelReducer, shows
from fuzz.judging.reference import Expected, Left, Reference, forgetting
from runners.protocol import Failure, Trouble

HEAD = """\
.version 8.0
.target sm_80
.address_size 64
"""
SUMS = f"""\
// sums of a block, three times as much of one half
{HEAD}.visible .entry sums(.param .u64 in, .param .u64 out, .param .u32 n)
{{
    .reg .pred %p<4>;
    .reg .b32 %r<20>;
    .reg .b64 %rd<10>;
    .shared .align 4 .b32 tile[64];
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    ld.param.u32 %r1, [n];
    cvta.to.global.u64 %rd3, %rd1;
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mad.lo.s32 %r5, %r3, %r4, %r2;
    mul.wide.u32 %rd5, %r5, 4;
    add.s64 %rd6, %rd3, %rd5;
    ld.global.u32 %r6, [%rd6];
    shl.b32 %r7, %r2, 2;
    mov.u32 %r8, tile;
    add.s32 %r9, %r8, %r7;
    st.shared.u32 [%r9], %r6;
    mov.u32 %r10, 32;
LOOP:
    bar.sync 0;
    setp.ge.u32 %p1, %r2, %r10;
    @%p1 bra NEXT;
    shl.b32 %r11, %r10, 2;
    add.s32 %r12, %r9, %r11;
    ld.shared.u32 %r13, [%r12];
    ld.shared.u32 %r14, [%r9];
    mad.lo.s32 %r15, %r13, 3, %r14;
    st.shared.u32 [%r9], %r15;
NEXT:
    shr.u32 %r10, %r10, 1;
    setp.ne.u32 %p2, %r10, 0;
    @%p2 bra LOOP;
    bar.sync 0;
    ld.shared.u32 %r16, [tile];
    add.s64 %rd7, %rd2, %rd5;
    st.global.u32 [%rd7], %r16;
    ret;
}}
"""
THIRD, FIFTH = "mad.lo.s32 %r15, %r13, 3", "mad.lo.s32 %r15, %r13, 5"
PASS = f"sed 's/{THIRD}/{FIFTH}/'"
FEW = ("--runner", "sim", "--images", "8")
CAT = ("--ptx-pass", "cat")


def reduce_little() -> None:
    """Give up on a smaller case at once: each try starts two processes (`prepare`)."""
    judging.REDUCE_SECONDS = 0.5


def judge(folder: Path, *words: object, text: str = SUMS, **more: Any) -> Ended:
    """Judge a kernel on eight images of the simulated device."""
    (folder / "sums.ptx").write_text(text)
    return warpfuzz(folder, "judge", "sums.ptx", *FEW, *words, **more)


def test_a_pass_that_breaks_a_kernel_is_found_and_made_small(tmp_path: Path) -> None:
    ended = judge(tmp_path, "--ptx-pass", PASS, "--json")
    assert ended.code == 1, ended.err
    (finding,) = ended.findings
    assert re.search(r"the word at out\+\d+ is 0x", finding["difference"])
    assert finding["kind"] == "violation"
    assert finding["shrink"] == "complete"
    folder = tmp_path / finding["path"]
    small = (folder / "module.ptx").read_text()
    assert "mad.lo.s32" in small
    assert "bar.sync" not in small
    assert "LOOP" not in small
    assert len(small.splitlines()) <= 18
    assert (folder / "original.ptx").read_text() == SUMS
    assert "block = [1, 1, 1]" in (folder / "launch.toml").read_text()
    assert ended.summary["cases"] == ended.summary["images"] == 8
    # It is replayed like a case of a person; without the pass it is gone.
    stranger = {"XDG_CACHE_HOME": str(tmp_path / "of somebody else")}
    refused = warpfuzz(tmp_path, "replay", finding["path"], **stranger)
    assert (refused.code, "not given in this folder" in " ".join(refused.err.split())) == (2, True)
    again = warpfuzz(tmp_path, "replay", finding["path"], "--json")
    assert (again.code, again.rows[0]["verdict"]) == (1, "reproduced")
    mended = warpfuzz(tmp_path, "replay", finding["path"], "--ptx-pass", "none", "--json")
    assert (mended.code, mended.rows[0]["verdict"]) == (0, "gone")
    # Of its text a list has a line; the page has files, and commands that can be copied.
    listed = warpfuzz(tmp_path, "corpus", "list", COLUMNS="80").out
    assert len(listed.splitlines()) < 8
    page = warpfuzz(tmp_path, "corpus", "show", finding["path"], COLUMNS="80").out
    assert "\\n" not in page
    assert "not asked" not in page
    (command,) = (line for line in page.splitlines() if line.startswith("run it again "))
    assert shlex.split(command)[-2:] == ["--ptx-pass", PASS]


@pytest.fixture(scope="module")
def reproduction(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of `warpfuzz repro` of a kernel that a pass broke."""
    folder = tmp_path_factory.mktemp("judged")
    (finding,) = judge(folder, "--ptx-pass", PASS, "--json", prepare=reduce_little).findings
    made = warpfuzz(folder, "repro", finding["path"], "--output", "repro")
    assert made.code == 0, made.err
    return folder / "repro"


def test_the_folder_of_a_judged_kernel_says_what_was_judged(reproduction: Path) -> None:
    page = (reproduction / "README.md").read_text()
    assert page.startswith("# violation: mad.lo.s32\n"), "the instruction that the pass changes"
    assert "A person wrote this case" not in page
    assert f"| PTX pass | {escaped(PASS)} |\n" in page
    assert "compared with the simulated device" in page
    small = (reproduction / "module.ptx").read_text()
    assert THIRD in small
    assert (reproduction / "kernel.ptx").read_text() == small.replace(THIRD, FIFTH)
    assert (reproduction / "original.ptx").read_text() == SUMS
    (launch,) = reproduction.parent.glob("warpfuzz-corpus/findings/*/launch.toml")
    setup = setup_of(small, parse_launch(launch.read_bytes(), "here"))
    grid, block = (" x ".join(map(str, shape)) for shape in (setup.grid, setup.block))
    assert f"sums, launched with a grid of {grid} blocks of {block} threads" in page


def test_the_programs_of_a_judged_kernel_launch_it_as_it_was(reproduction: Path) -> None:
    """Both programs, where PyCUDA and CUDA are stand-ins."""
    ran = by_python(reproduction)
    assert ran.code == 1, ran.out
    actual, expected = (
        np.frombuffer((reproduction / f"{name}.bin").read_bytes(), np.uint8)
        for name in ("actual", "expected")
    )
    at = int(np.flatnonzero(actual != expected)[0])
    told = f"byte {at} of image 0: expected {expected[at]:#04x}, actual {actual[at]:#04x}\n"
    assert ran.out.startswith(told), "as it was recorded"
    wrong = np.count_nonzero(actual != expected)
    assert ran.out.endswith(f"{wrong} of {expected.size} bytes are not as the PTX ISA says\n")
    assert by_python(reproduction, "--ptx", reproduction / "module.ptx").code == 0
    program = c_program(reproduction, reproduction.parent)
    for name, code in (("actual", 1), ("expected", 0)):
        result = reproduction / f"{name}.bin"
        assert in_c(program, reproduction, result, FAKE_OFFSET="256").code == code


def test_a_launch_file_says_it_otherwise(tmp_path: Path) -> None:
    (tmp_path / "launch.toml").write_text(
        "grid = 3\nblock = [64]\n[arguments]\n"
        'in = { bytes = 768, type = "u32", below = 9 }\nout = { bytes = 768, fill = "zeros" }\n'
    )
    ended = judge(tmp_path, "--launch", "launch.toml", *CAT, "--json")
    assert ended.code == 0, ended.err
    assert ended.summary["guessed"] == ["n = 192 (the threads of the launch)"]
    assert "grid = [3, 1, 1]" in ended.summary["launch"]


def in_no_time() -> None:
    """Have no time for more than one image on the simulated device (`prepare`)."""
    judging.REFERENCE_SECONDS = 0.0


def test_images_for_which_there_is_no_time_are_counted(tmp_path: Path) -> None:
    ended = judge(tmp_path, *CAT, prepare=in_no_time)
    assert ended.code == 0, ended.err
    said = " ".join(ended.out.split())
    assert "7 images not tried: the simulated device took" in said
    assert "1 image compared, whole and bit for bit" in said


def test_images_that_leave_their_buffers_are_counted_together(tmp_path: Path) -> None:
    """Each does so at an address of its own."""
    text = f"""{HEAD}.visible .entry k(.param .u64 in)
{{
    .reg .b32 %r1;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [in];
    ld.global.u32 %r1, [%rd1];
    and.b32 %r1, %r1, 0x3000;
    cvt.u64.u32 %rd2, %r1;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
    ret;
}}
"""
    (tmp_path / "l.toml").write_text(
        'grid = 1\nblock = 1\n[arguments]\nin = { bytes = 512, type = "u32", below = 16384 }\n'
    )
    ended = judge(tmp_path, "--launch", "l.toml", *CAT, "--json", text=text)
    (count,) = ended.summary["left_out"].values()
    assert count + ended.summary["images"] == 8
    assert count > 3


LISTING = """
Fatbin {kind} code:
================
arch = sm_80
code version = [8,0]
host = linux
compile_size = 64bit

"""
MOVED = SUMS.replace("[tile]", "[%r8]").replace(
    "bar.sync 0;\n    ld", "bar.sync 0;\n    mov.u32 %r8, tile;\n    ld"
)
OLD = SUMS.replace("sm_80", "sm_61").replace(".version 8.0", ".version 6.0")


def by_sed(script: str) -> tuple[str, str]:
    return "--ptx-pass", f"sed '{script}'"


ENDS: dict[str, tuple[Any, ...]] = {
    "a pass that changes nothing": (SUMS, CAT, 0, "2 images compared, whole and bit for bit, with"),
    "what was guessed": (SUMS, CAT, 0, "guessed: block = [64, 1, 1]"),
    "a race": (
        SUMS.replace("    bar.sync 0;\n", "", 1), CAT, 2, "line 32: race: thread 0 of block",
    ),
    "a clock": (SUMS.replace("%tid.x", "%clock"), CAT, 2, "line 15: %clock"),
    "shared memory that nobody wrote": (
        SUMS.replace("    st.shared.u32 [%r9], %r6;\n", ""), CAT, 2, "nobody wrote",
    ),
    "an address": (SUMS.replace("[%rd7], %r16;", "[%rd7], %r8;"), CAT, 2, "depends on an address"),
    "no module": ("text", CAT, 2, "no .target"),
    # It was compared, "whole and bit for bit", with code 0.
    "no buffer": (f"{HEAD}.visible .entry k(.param .u32 n) {{ ret; }}", CAT, 2, "given no buffer"),
    # It took gigabytes and minutes, and SIGTERM did not end it.
    "gigabytes of parameters": (
        f"{HEAD}.visible .entry k(.param .b8 p[2000000000]) {{ ret; }}", CAT, 2,
        "32,764 are the most",
    ),
    "a fault of matrices": (SUMS, ("--fault", "load-a-layout-flipped"), 2, "changes nothing in"),
    "the simulated device alone": (SUMS, ("--seed", 1), 2, "--ptx-pass"),
    "what only a pass knows": (
        SUMS, by_sed("s/mad.lo.s32/foo.b32/"), 3, "device stops: line 18: unsupported: foo.b32 is",
    ),
    "what nobody knows": (
        SUMS.replace("shl.b32 %r7", "foo.b32 %r7"), CAT, 3, "nothing else to compare with",
    ),
    "a pass that fails": (SUMS, ("--ptx-pass", "false"), 3, "ended with status 1"),
    "a pass that writes no PTX": (SUMS, ("--ptx-pass", "echo hello"), 3, "begins with 'hello'"),
    "a pipeline that breaks": (
        SUMS, ("--ptx-pass", "cat | nosuchprogram | cat"), 3, "begins with ''",
    ),
    "a pipeline": (SUMS, ("--ptx-pass", "tee i | sed 's/no such/words/' | tee o"), 0, "compared"),
    # Where shared variables lie, the ISA leaves open; the first one may be at 0.
    "a variable taken to be at 0": (MOVED, by_sed("s/mov.u32 %r8, tile/mov.u32 %r8, 0/"), 1, "out"),
    "no build that ends": (
        SUMS, by_sed(r"s/\[%rd7\]/[%rd7+4096]/"), 1, "No build ran to its end",
    ),
    "a listing of cuobjdump": (
        LISTING.format(kind="elf") + LISTING.format(kind="ptx") + SUMS, CAT, 0, "taken out of sums",
    ),
    "a listing of two modules": (
        (LISTING.format(kind="ptx") + SUMS) * 2, CAT, 2, "2 PTX modules (sm_80, sm_80); build it",
    ),
    "a listing of machine code": (
        LISTING.format(kind="elf"), CAT, 2, "machine code alone; build it with",
    ),
    "an old target": (OLD, CAT, 0, "2 images compared"),
    "an old target for a new one": (
        OLD, ("--target", "sm_89", *CAT), 0,
        ".target sm_61 became sm_89 (--target), with PTX ISA 7.8.",
    ),
}  # fmt: skip
"""The kernel, options, exit code, and what is said."""


@pytest.mark.parametrize("what", ENDS)
def test_each_end_has_its_exit_code_and_its_sentence(tmp_path: Path, what: str) -> None:
    text, words, code, says = ENDS[what]
    ended = judge(tmp_path, *words, "--images", 2, text=text, prepare=reduce_little)
    assert ended.code == code, ended.out + ended.err
    assert says in " ".join((ended.out + ended.err).split())
    assert (tmp_path / "warpfuzz-corpus").exists() == (code == 1)
    assert "agreeing" not in ended.out or code < 2
    assert not (tmp_path / "|").exists()


def test_without_a_gpu_nothing_falls_back(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(SUMS)
    ended = warpfuzz(tmp_path, "judge", "k.ptx", "--compilers", "driver")
    assert ended.code in (3, 4)
    assert "--runner sim with --ptx-pass" in " ".join(ended.err.split())


@pytest.mark.parametrize("runner", ["sim", pytest.param("cuda", marks=pytest.mark.slow)])
def test_compilers_are_compared_and_the_wrong_ones_named(tmp_path: Path, runner: str) -> None:
    """Compilers that hand on PTX stand in for others, and a stand-in for PyCUDA runs that."""
    registers = "{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}"
    text = f"""{HEAD}.visible .entry tile(.param .u64 in, .param .u64 out)
{{
    .reg .b32 %r<8>;
    .reg .b64 %a, %b;
    ld.param.u64 %a, [in];
    ld.param.u64 %b, [out];
    wmma.load.c.sync.aligned.row.m16n16k16.global.s32 {registers}, [%a];
    wmma.store.d.sync.aligned.row.m16n16k16.global.s32 [%b], {registers};
    ret;
}}
"""
    for version in (1, 2, 3):
        faults = ["store-layout-flipped"] if version > 1 else []
        folder = tmp_path / "p" / str(version)
        planted_ptxas(folder, f"{version}.0", faults, (2, 3), answering=address())
    words = ("--compilers", "p", "--opt", "0,2", "--json", "--runner", runner)
    more = {"PYTHONPATH": f"{ROOT}:{ROOT}/tests/runners/cuda/fakes/working"}
    more = more if runner == "cuda" else {}
    ended = judge(tmp_path, *words, text=text, prepare=reduce_little, **more)
    assert ended.code == 1, ended.err
    (finding,) = ended.findings
    assert finding["blame"] == "only V2.0.0 to V3.0.0 -O2"
    assert "V1.0.0 -O2" in ended.summary["agreeing"]
    assert json.loads((tmp_path / finding["path"] / "finding.json").read_text())["shrink"]


APPROXIMATE = SUMS.replace(
    "    st.global.u32 [%rd7], %r16;",
    "    .reg .f32 %f;\n    cvt.rn.f32.u32 %f, %r2;\n    ex2.approx.f32 %f, %f;\n"
    "    mov.b32 %r17, %f;\n    st.global.u32 [%rd7], %r16;\n    st.global.u32 [%rd7+512], %r17;",
)
WRONG_POWER = (
    "s/cvt.rn.f32.u32 %f/cvt.rz.f32.s16 %f/;s/ex2.approx.f32 %f, %f/add.rn.f32 %f, %f, %f/"
)


@pytest.mark.parametrize(
    ("script", "code", "kinds"),
    [(WRONG_POWER, 0, ["note"]), (f"s/{THIRD}/{FIFTH}/", 1, ["violation"])],
)
def test_what_an_approximate_instruction_computes_is_no_violation(
    tmp_path: Path, script: str, code: int, kinds: list[str]
) -> None:
    """The rest of the kernel is compared bit for bit, and what is not is counted."""
    given: dict[str, Any] = {"text": APPROXIMATE, "prepare": reduce_little}
    words = ("--ptx-pass", shlex.join(["sed", script]))
    ended = judge(tmp_path, *words, "--json", **given)
    assert ended.code == code, ended.err
    assert [one["kind"] for one in ended.findings] == kinds
    assert ended.summary["approximate"] == ["ex2.approx.f32"]
    assert ended.summary["approximate_bytes"] == 512
    assert warpfuzz(tmp_path, "replay", "warpfuzz-corpus", "--json").code == 1


def says_bytes(*answers: int) -> list[SimpleNamespace]:
    """Compilers for a GPU, each of which leaves another number in the first two bytes."""

    def one(number: int) -> SimpleNamespace:
        def answer(_: str, __: object, images: np.ndarray) -> np.ndarray:
            after = images.copy()
            after[:, :2] = number & 0xFF, number >> 8
            return after

        return SimpleNamespace(
            answer=answer, names=(hex(number),), choice=SimpleNamespace(name="cuda")
        )

    return [one(number) for number in answers]


@pytest.mark.parametrize(
    ("answers", "kinds", "agreeing", "results"),
    [
        # The first byte is approximate, the second has to be 7.
        ((0x711, 0x711), [], 2, 4),
        ((0x711, 0x712), [Kind.NOTE], 1, 4),
        ((0x711, 0x812), [Kind.VIOLATION], 1, 4),
        ((0x711,), [], 1, 2),
    ],
)
def test_approximate_bytes_are_compared_among_compilers(
    answers: tuple[int, ...], kinds: list[Kind], agreeing: int, results: int
) -> None:
    image = np.tile(np.array([3, 7, 0, 0], np.uint8), (2, 1))
    expected = Expected(image, np.tile(np.array([True, False, False, False]), (2, 1)))
    images = np.zeros((2, 4), np.uint8)
    came = judging.compared(says_bytes(*answers), "", None, images, expected)
    assert [one.kind for one in came.verdicts] == kinds
    assert (len(came.agreeing), came.codes * came.images) == (agreeing, results)
    for one in came.verdicts:
        # What is stored differs only where it is wrong.
        assert (one.expected != one.actual).tolist()[:2] == [
            one.kind is Kind.NOTE, one.kind is not Kind.NOTE
        ]  # fmt: skip
    everything = Expected(image, np.ones(image.shape, np.bool_))
    alone = judging.compared(says_bytes(answers[0]), "", None, images, everything)
    assert (alone.codes, alone.agreeing) == (0, [])
    assert "nothing else ran that it could be compared with" in alone.unasked[0]


def test_variables_that_a_launch_leaves_changed_need_the_simulated_device() -> None:
    text = SUMS.replace(".visible", ".global .u32 count;\n.visible")
    assert not forgetting(text)
    text = text.replace("    ret;", "    mov.u64 %rd9, count;\n    ret;")
    assert ".global .u32 count changed to the next one" in forgetting(text)


def test_the_commands_and_the_launch_of_the_page_are_taken(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "judge.md").read_text()
    launch = page.split("```toml\n", 1)[1].split("```", 1)[0]
    assert parse_launch(launch.encode(), "the page").arguments["n"] == 512
    (tmp_path / "kernel.ptx").write_text(SUMS)
    my_pass = tmp_path / "my-pass"
    my_pass.write_text("#!/bin/sh\nexec sed 's/shr.u32 %r10/shl.b32 %r10/'\n")
    my_pass.chmod(0o755)
    (line,) = re.findall(r"^warpfuzz (.* --ptx-pass .*?)  +#", page, re.MULTILINE)
    ended = warpfuzz(
        tmp_path, *shlex.split(line), "--images", 2, PATH=f"{tmp_path}:/usr/bin:/bin",
        prepare=reduce_little,
    )  # fmt: skip
    assert ended.code == 1, ended.err
    assert "--ptx-pass" in ended.out


@pytest.mark.parametrize(
    ("answers", "kinds"),
    [
        (("7", "7"), []),
        (("7", "8"), [Kind.DIFFER]),
        (("7", "89"), [Kind.NOTE]),
        (("787", "8"), [Kind.NOTE]),
    ],
)
def test_what_changes_by_itself_is_no_difference_of_compilers(
    answers: tuple[str, str], kinds: list[Kind]
) -> None:
    """Where the simulated device does not know the kernel, and nobody looks for races."""

    def says(digits: str) -> SimpleNamespace:
        left = itertools.cycle(digits)

        def answer(_: str, __: object, images: np.ndarray) -> np.ndarray:
            return np.full_like(images, int(next(left)))

        return SimpleNamespace(answer=answer, names=(digits,))

    came = judging.compared(
        [says(one) for one in answers], "", None, np.zeros((2, 8), np.uint8), None
    )
    assert [one.kind for one in came.verdicts] == kinds
    assert all(one.steady == (one.kind is Kind.DIFFER) for one in came.verdicts)


LOST = Failure(trouble=Trouble.LAUNCH_FAILURE, message="lost")


@pytest.mark.parametrize(
    ("bad", "good", "shows_it"),
    [(1, 0, True), (1, None, True), (0, 0, False), (1, 1, False), (1, LOST, False),
     (LOST, 0, False)],
)  # fmt: skip
def test_a_smaller_case_shows_the_same_where_one_is_wrong_and_the_other_right(
    bad: int | Failure, good: int | Failure | None, shows_it: bool
) -> None:
    def says(change: int | Failure | None) -> SimpleNamespace | None:
        def answer(_: str, __: object, images: np.ndarray) -> np.ndarray | Failure:
            return change if isinstance(change, Failure) else images + np.uint8(change or 0)

        return None if change is None else SimpleNamespace(answer=answer)

    verdict = SimpleNamespace(answerers=(says(bad),), good=says(good), failure=None)
    reference = SimpleNamespace(
        after=lambda ptx, setup, image, **_: Expected(image, np.zeros(image.shape, np.bool_))
    )
    assert shows(verdict, reference, None)("", None, np.zeros(8, np.uint8)) is shows_it


def reduced(holds: Holds, text: str, setup: Setup, image: np.ndarray) -> KernelReducer:
    small = KernelReducer(holds, text, setup, image)
    small.reduce()
    return small


AS_SMALL = [
    *((100, lambda value, one=one: value in (100, one), one) for one in (0, 1, 64, 50, 96)),
    (9, lambda value: value >= 6, 6),
    (9, lambda value: value >= 1, 1),
    (200, lambda value: value >= 192, 192),
    (4096, lambda value: value >= 4096, 4096),
    (-9, lambda value: value <= -3, -3),
]  # fmt: skip
"""Of a number its highest bit, its half and all but its lowest are tried, and one less."""


@pytest.mark.parametrize(("number", "fits", "least"), AS_SMALL)
def test_a_number_becomes_as_small_as_may_be_and_words_of_the_image_too(
    number: int, fits: Callable[[int], bool], least: int
) -> None:
    text = f"""{HEAD}.visible .entry k(.param .u64 out)
{{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    ld.global.u32 %r0, [%rd1];
    add.s32 %r1, %r0, {number};
    st.global.u32 [%rd1], %r1;
    ret;
}}
"""
    setup = setup_of(
        text, parse_launch(b"grid = 1\nblock = 1\n[arguments]\nout = { bytes = 64 }", "here")
    )

    def holds(ptx: str, _: Setup, image: np.ndarray) -> bool:
        found = re.search(r"add\.s32 %r1, [^,]+, (-?\d+);", ptx)
        return bool(found) and "st.global" in ptx and fits(int(found[1])) and image[9] == 7

    small = reduced(holds, text, setup, np.full(setup.image_bytes, 7, np.uint8))
    assert re.search(rf"add\.s32 %r1, [^,]+, {least};", small.text)
    assert np.flatnonzero(small.image).tolist() == [8, 9], "the lower half of a word"


BRANCHES = f"""{HEAD}.visible .entry k(.param .u64 in, .param .u64 out)
{{
    .reg .pred %p<3>;
    .reg .b32 %r<2>, %unused;
    .reg .b64 %rd<5>;
    .reg .b32 %r2, %r3;
    .shared .b32 word[1];
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    mul.wide.u32 %rd3, 3, 4;
    add.s64 %rd4, %rd1, %rd3;
    ld.global.s32 %r1, [%rd4+4];
    setp.gt.s32 %p1, %r1, 0;
    @%p1 bra A;
    mul.hi.u32 %r2, %r1, %r1;
    st.shared.u32 [word], %r2;
A:
    setp.gt.s32 %p2, %r1, 9;
    @%p2 bra B;
    @!%p1 ld.shared.u32 %r3, [word];
    @!%p1 st.global.u32 [%rd2], %r3;
B:
    ret;
}}
"""


def test_what_is_left_has_no_branches_no_copies_and_one_buffer() -> None:
    setup = setup_of(
        BRANCHES,
        parse_launch(b"grid = 1\nblock = 1\n[arguments]\nin = { bytes = 256 }\n"
                     b"out = { bytes = 256 }", "here"),
    )  # fmt: skip
    reference = Reference(target="sm_80")
    before = np.arange(128, 128 + setup.image_bytes).astype(np.uint8)

    def holds(ptx: str, setup: Setup, image: np.ndarray) -> bool:
        """Whether a compiler is wrong that takes numbers for signed, under a predicate."""
        there = re.search(r"@!%p\d .*st.global|@%p\d bra", ptx) and "ld.global" in ptx
        wrong = ptx.replace("mul.hi.u32", "mul.hi.s32")
        after = [reference.after(one, setup, image) for one in (ptx, wrong)]
        if not there or any(isinstance(one, Left) for one in after):
            return False
        return not np.array_equal(after[0].image, after[1].image)

    small = reduced(holds, BRANCHES, setup, before)
    statements = [one for one in small.text.splitlines() if re.match(r"[@a-z].*[;:]", one)]
    opcodes = [re.sub(r"@!%p\d ", "", one).split()[0] for one in statements]
    memory = ["ld.param.u64", "ld.global.s32"]
    assert opcodes == [*memory, "setp.gt.s32", "mul.hi.u32", "st.global.u32"]
    assert ".entry k(.param .u64 in)\n" in small.text
    assert list(small.setup.arguments) == ["in"]
    assert small.image.size == small.setup.image_bytes
    types = re.findall(r"\.reg (\.\w+)", small.text)
    assert types == [".pred", ".b32", ".b64"]
