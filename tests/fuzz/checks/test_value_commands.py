"""`warpfuzz run` and `replay` on values, as a person types them."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import leave_as_found, warpfuzz


def test_a_fault_ends_with_one_and_its_replays_with_one_and_zero(tmp_path: Path) -> None:
    fault = ("--fault", "accumulator-ignored")
    ran = warpfuzz(
        tmp_path, "run", "--runner", "sim", "--cases", 16, "--seed", 7, *fault,
        "--only", "wmma*m8n8k4*", "--json", prepare=leave_as_found,
    )  # fmt: skip
    assert ran.code == 1
    summary = ran.summary
    assert (summary["cases"], summary["seed"], summary["runner"]) == (16, 7, "sim")
    for finding in summary["findings"]:
        assert finding.keys() >= {"id", "family", "kind", "verdict", "known", "path"}
        assert Path(tmp_path, finding["path"], "program.json").is_file()
    again = warpfuzz(tmp_path, "replay", "warpfuzz-corpus", *fault, "--times", 2, "--json")
    assert again.code == 1
    assert again.ids == ran.ids
    assert {row["verdict"] for row in again.rows[:-1]} == {"reproduced"}
    # A finding remembers what was planted.
    remembered = warpfuzz(tmp_path, "replay", "warpfuzz-corpus", "--json")
    assert {row["verdict"] for row in remembered.rows[:-1]} == {"reproduced"}
    gone = warpfuzz(tmp_path, "replay", "warpfuzz-corpus", "--fault", "none")
    assert gone.code == 0
    assert "0 still disagree" in gone.out


def test_without_assembler_and_gpu_the_default_is_the_simulated_device(tmp_path: Path) -> None:
    # An interpreter without this environment's packages finds no assembler among them.
    bare = warpfuzz(tmp_path, "compilers", "list", "--json")
    if bare.rows:
        pytest.skip("an assembler is installed in this environment")
    ran = warpfuzz(tmp_path, "run", "--cases", 20, "--seed", 2, "--json")
    assert (ran.code, ran.summary["runner"], ran.summary["cases"]) == (0, "sim", 20)


def test_the_report_says_what_was_compared(tmp_path: Path) -> None:
    ran = warpfuzz(tmp_path, "run", "--runner", "sim", "--cases", 20, "--report", "report.svg")
    assert ran.code == 0
    assert "Every image that was compared is what the oracle says: " in ran.out
    assert (tmp_path / "report.svg").is_file()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--runner", "cuda", "--fault", "block-halved"), "choose --runner sim"),
        (("--runner", "sim", "--fault", "no-such-fault"), "no planted fault is called"),
        (("--runner", "sim", "--opt", "2"), "reads the PTX itself"),
        (("--runner", "sim", "--opt", "0,1"), "names several levels"),
        (("--runner", "sim", "--assembler", "nowhere/ptxas"), "there is no file"),
        (("--runner", "ptxas", "--opt", "2"), "choose --runner sim or cuda"),
        (("--runner", "sim", "--target", "sm_61"), "no simulated device"),
        (("--runner", "sim", "--target", "sm_100", "--ptx-version", "8.0"), "does not know sm_100"),
        (("--runner", "sim", "--only", "wmma.store*"), "nothing that multiplies or moves matrices"),
        (("--runner", "sim", "--ptx-pass", ""), "PTX pass is empty"),
        (("--runner", "sim", "--ptx-pass", "nowhere/pass -x"), "there is no program nowhere/pass"),
        (("--runner", "sim", "--workers", "1000000"), "not in the range 1<=x<="),
    ],
)
def test_what_does_not_go_together_is_a_usage_error(
    tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    ran = warpfuzz(tmp_path, "run", "--cases", 10, *options)
    assert ran.code == 2
    assert words in " ".join(ran.err.split())
