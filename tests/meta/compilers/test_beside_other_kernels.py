"""What is wrong only beside other kernels of its module, as a compiler may have it."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from command_line import warpfuzz

OPCODE = "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"
THIRD = r"""
import re, sys
text = sys.stdin.read()
parts = re.split(r"(?m)^(?=\.visible \.entry)", text)
if len(parts) > 3:
    parts[3] = re.sub(r"(mma\.sync[^{]*\{)(%\w+), (%\w+)", r"\1\3, \2", parts[3])
sys.stdout.write("".join(parts))
"""
"""Exchanges registers of D in the third kernel of a module."""


def test_a_campaign_keeps_the_kernels_without_which_a_program_is_right(tmp_path: Path) -> None:
    """It was called flaky, which blames the GPU, after 41 runs of the program alone."""
    script = tmp_path / "third.py"
    script.write_text(THIRD)
    exchange = shlex.join([sys.executable, "-S", "-E", str(script)])
    ended = warpfuzz(
        tmp_path, "run", "--runner", "sim", "--only", OPCODE, "--ptx-pass", exchange,
        "--seed", 1, "--cases", 24, "--workers", 1, "--corpus", "c", "--json",
    )  # fmt: skip
    assert ended.code == 1, ended.err
    assert ended.findings
    for found in ended.findings:
        assert found["kind"] in ("violation", "deviation")
        assert found["family"].endswith(" | beside other kernels")
        folder = tmp_path / "c" / "findings" / found["id"]
        finding = json.loads((folder / "finding.json").read_text())
        assert finding["details"]["other kernels"] == 2
        assert (folder / "module.ptx").read_text().count(".visible .entry") == 3
        shown = warpfuzz(tmp_path, "corpus", "show", found["id"], "--corpus", "c")
        said = "The module has 2 other kernels, and without them it is right."
        assert said in " ".join(shown.out.split())
    again = warpfuzz(tmp_path, "replay", "c", "--ptx-pass", exchange)
    assert again.code == 1
    assert again.out.count("reproduced") == len(ended.findings)
