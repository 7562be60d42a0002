"""The recipes of the page: what can be checked of them without their servers."""

from __future__ import annotations

import json
import re
import shlex
import stat
import subprocess
from pathlib import Path

import pytest
from command_line import ROOT, environment

from fuzz.cli import Exit, app
from fuzz.console.screening import ScreenedDevice, Soundness, preflight_row
from fuzz.runner import RunnerChoice, opened
from fuzz.screening.screen import ScreenRun
from fuzz.screening.sets import describe, scope_of
from oracle.isa.targets import Module

PAGE = (ROOT / "docs" / "preflight.md").read_text()


def block(mark: str) -> str:
    return PAGE.split(f"<!-- {mark} -->\n```", 1)[1].partition("\n")[2].split("```", 1)[0]


def checked(words: list[str]) -> None:
    """Have the command line parse a command, and see that it is a preflight."""
    context = app.make_context("warpfuzz", list(words))
    name, command, rest = app.resolve_command(context, [*context._protected_args, *context.args])
    assert command is not None
    made = command.make_context(name, rest, parent=context)
    assert made.params["preflight"]
    assert made.params["time"] == "60"
    assert str(made.params["corpus"]).endswith("/findings")


@pytest.mark.parametrize(
    ("code", "ended"), [(0, 0), (1, 1), (3, 0), (4, 1)], ids=lambda code: str(code)
)
def test_the_prolog_drains_for_a_gpu_that_is_wrong_or_lost(
    tmp_path: Path, code: int, ended: int
) -> None:
    script = tmp_path / "prolog.sh"
    script.write_text(block("slurm"))
    tool = tmp_path / "warpfuzz"
    tool.write_text(f'#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES $*"\nexit {code}\n')
    tool.chmod(stat.S_IRWXU)
    variables = environment(
        tmp_path, WARPFUZZ_FOLDER=str(tmp_path / "kept"), SLURM_JOB_ID="7", SLURM_JOB_GPUS="0,3",
        PATH=f"{tmp_path}:/usr/bin:/bin",
    )  # fmt: skip
    told = subprocess.run(
        ["bash", str(script)], env=variables, capture_output=True, text=True, check=False
    )
    assert told.returncode == ended, told.stderr
    assert (str(tmp_path / "kept" / "lines" / "7.jsonl") in told.stdout) == bool(code)
    devices, *words = shlex.split((tmp_path / "kept" / "lines" / "7.jsonl").read_text())
    assert devices == "0,3"
    checked(words)
    del variables["SLURM_JOB_GPUS"]
    assert subprocess.run(["bash", str(script)], env=variables, check=False).returncode == 0


def test_the_table_has_every_exit_code_and_standing() -> None:
    codes = [int(code) for code in re.findall(r"^\| (\d) \|", PAGE, re.MULTILINE)]
    assert codes == [code.value for code in Exit]
    assert all(f"`{one}`" in PAGE for one in Soundness)


def test_the_line_on_the_page_has_the_keys_of_a_line() -> None:
    shown = json.loads(block("line"))
    module = Module.named("sm_90", "9.5")
    with opened(RunnerChoice(name="sim", target="sm_90")) as ready:
        screen = ScreenRun(ready, describe(module, seed=0))
        scope = scope_of(module, "sm_90")
        device = ScreenedDevice(
            name="simulated device", choice=ready.choice, screen=screen, scope=scope
        )
        row = preflight_row(device)
    assert list(shown) == list(row)
    groups = row["groups"]
    assert isinstance(groups, dict)
    for name, one in shown["groups"].items():
        assert list(one) == list(groups[name])
        assert (one["forms"], one["known"]) == (groups[name]["forms"], groups[name]["known"])
