"""`warpfuzz reduce`: what stays, what goes, and what is said where there is nothing to keep."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command_line import ROOT, started, warpfuzz

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
FILLER = "".join(f"    add.u32 %r{n}, %r{n - 1}, {n};\n" for n in range(1, 40))
MODULE = f"""\
// of a generator
{HEAD}.func helper(.param .b32 a)
{{
    ret;
}}
.visible .entry k(.param .u64 out, .param .u32 n)
{{
    .reg .b32 %r<40>;
    .reg .pred %p, %unused;
{FILLER}LOOP:
    prmt.b32 %r7, %r8, 77, %r9;
    bra LOOP;
{FILLER}    ret;
}}
"""
PTXAS = r"""#!/bin/sh
case "$*" in *--version*) echo "Cuda compilation tools, release 99.0, V99.0.1"; exit;; esac
for one; do
  case $one in *.ptx) ptx=$one;; esac
  [ "$last" != -o ] || printf '\177ELF%014d\276\000%048d' 0 0 > "$one"
  last=$one
done
case "$*" in *-O0*) exit;; esac
[ -z "$PACE" ] || sleep "$PACE"
if grep -q 'prmt.b32 [^;]*77' "$ptx"; then
    grep -q bra "$ptx" && { HOW; }
    # What shows another bug is no smaller form of this one.
    echo "ptxas fatal   : (C5555) Internal compiler error."; exit 255
fi
grep -q '[.]entry' "$ptx" || { echo "ptxas fatal : no entry"; exit 255; }
exit 0
"""
SAYS = (
    """echo "ptxas fatal   : (C1234) Internal compiler error: $(wc -l < "$ptx") lines"; exit 255"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    for name, says in (("ptxas", SAYS), ("killed", "kill -SEGV $$"), ("silent", "exit 0")):
        path = tmp_path / "bin" / name
        path.write_text(PTXAS.replace("HOW", says))
        path.chmod(0o755)
    (tmp_path / "module.ptx").write_text(MODULE)
    return tmp_path


LEFT = f"""\
{HEAD}.visible .entry k()
{{
prmt.b32 0, 0, 77, 0;
bra LOOP;
}}
"""


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        ("ptxas", ("--message", "C1234")),
        ("killed", ("--crash", "-O3")),
        ("ptxas", ("--command", "bin/ptxas -O3 {} | grep C1234 && ! bin/ptxas -O0 {} | grep C")),
    ],
)
def test_what_is_left_is_what_shows_it(folder: Path, name: str, ways: tuple[str, ...]) -> None:
    """In the fixed order, in which nothing depends on chance: the same lines each time."""
    compiler = () if "--command" in ways else ("--compiler", folder / "bin" / name)
    ended = warpfuzz(folder, "reduce", "module.ptx", *ways, *compiler, "--json")
    assert ended.code == 0, ended.err
    left = (folder / "module.small.ptx").read_text()
    assert re.sub(r"%r\d+|\.reg .*\n", lambda found: "0" * (found[0][0] == "%"), left) == LEFT
    summary = ended.summary
    assert (summary["lines_before"], summary["shrink"]) == (len(MODULE.splitlines()), "complete")
    assert summary["lines"] == len(left.splitlines()) <= 8
    assert summary["output"] == "module.small.ptx"
    if compiler:
        assert summary["kind"] == {"ptxas": "internal error", "killed": "crash"}[name]


def test_it_says_what_stays_and_how_it_is_seen(folder: Path) -> None:
    words = ("--message", "C1234", "--compiler", folder / "bin" / "ptxas", "--output", "a b.ptx")
    ended = warpfuzz(folder, "reduce", "module.ptx", *words)
    assert ended.code == 0, ended.err
    kept, became, seen = ended.out.splitlines()
    assert "ptxas V99.0.1 -O3, internal error: '(C1234)" in kept
    assert "ptxas V99.0.1 -O0 accepts it" in kept
    assert re.match(
        r"\d+ lines became 8 in \d+ runs, .* \(nothing more can be left out\): a b.ptx", became
    )
    command = seen.removeprefix("It is seen with: ")
    said = subprocess.run(
        ["sh", "-c", command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (said.returncode, "C1234" in said.stdout) == (255, True)


NOT_SHOWN = {
    "another message": (("--message", "C9999"), "which says: (C1234) Internal compiler error"),
    "no crash": (("--crash",), "does not show a crash or a hang"),
    "level": (("--message", "C1234", "--opt", 0), "V99.0.1 -O0, which accepts it"),
    "command": (("--command", "false"), "'false' does not end with 0 for module.ptx"),
}  # fmt: skip


@pytest.mark.parametrize("what", NOT_SHOWN)
def test_what_is_not_shown_is_said_with_what_is(folder: Path, what: str) -> None:
    words, says = NOT_SHOWN[what]
    compiler = () if "--command" in words else ("--compiler", folder / "bin" / "ptxas")
    ended = warpfuzz(folder, "reduce", "module.ptx", *words, *compiler)
    assert (ended.code, ended.out) == (3, "")
    assert says in ended.err
    assert not (folder / "module.small.ptx").exists()


REFUSED = {
    "nothing to keep": ((), "none of them given"),
    "two things to keep": (("--crash", "--command", "true"), "2 of them given"),
    "no compiler": (("--crash", "--compiler", "bin/none"), "there is no file bin/none"),
    "a difference of nothing": (("--differs", "--runner", "sim"), "with what a --ptx-pass"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_bad_input_is_a_sentence(folder: Path, what: str) -> None:
    words, says = REFUSED[what]
    ended = warpfuzz(folder, "reduce", "module.ptx", *words)
    assert ended.code == 2, ended.err
    assert says in ended.err


def test_a_signal_writes_the_smallest_so_far(folder: Path) -> None:
    words = ("--message", "C1234", "--compiler", folder / "bin" / "ptxas", "--json")
    with started(folder, "reduce", "module.ptx", *words, PACE="0.3") as command:
        time.sleep(4)
        command.send_signal(signal.SIGTERM)
        ended = command.ended(60)
    assert ended.code == 128 + signal.SIGTERM, ended.err
    assert ended.summary["shrink"] == "stopped"
    left = (folder / "module.small.ptx").read_text()
    assert "prmt.b32" in left
    assert len(left.splitlines()) == ended.summary["lines"] < len(MODULE.splitlines())


DIFFERING = f"""{HEAD}.visible .entry k(.param .u64 out)
{{
    .reg .b32 %r<9>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd2, %rd1, %rd2;
    ld.global.u32 %r2, [%rd2];
    mul.hi.u32 %r3, %r2, 16777217;
    xor.b32 %r4, %r3, %r2;
    st.global.u32 [%rd2], %r4;
    ret;
}}
"""


def test_a_difference_stays_one_with_its_launch(folder: Path) -> None:
    (folder / "k.ptx").write_text(DIFFERING)
    words = ("--differs", "--runner", "sim", "--ptx-pass", "sed s/mul.hi.u32/mul.hi.s32/")
    ended = warpfuzz(folder, "reduce", "k.ptx", *words, "--json")
    assert ended.code == 0, ended.err
    left = (folder / "k.small.ptx").read_text()
    assert "mul.hi.u32" in left
    assert "xor" not in left
    assert "block = [1, 1, 1]" in (folder / "k.small.toml").read_text()
    assert ended.summary["see"].startswith("warpfuzz judge k.small.ptx --launch k.small.toml")


def test_the_command_of_the_page_is_taken(folder: Path) -> None:
    page = (ROOT / "docs" / "reduce.md").read_text()
    (line,) = re.findall(r"^warpfuzz (reduce .*--message.*?)  +#", page, re.MULTILINE)
    words = line.replace("13.5", str(folder / "bin" / "ptxas")).replace("C7907", "C1234").split()
    assert warpfuzz(folder, *words).code == 0
