"""What is typed wrongly: exit code 2, nothing on standard output, and a sentence that says it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from command_line import warpfuzz

REFUSED = {
    "run --runner cuda --fault block-halved": "choose --runner sim",
    "run --runner sim --fault no-such-fault": "no planted fault is called",
    "run --runner sim --fault block-halved --fault block-halved": "is given 2 times; give it once",
    "run --runner sim --opt 2": "reads the PTX itself",
    "run --runner sim --opt 0,1": "names several levels",
    "run --runner sim --assembler nowhere/ptxas": "there is no file",
    "run --runner ptxas --opt 2": "choose --runner sim or cuda",
    "run --runner sim --target sm_61": "no chip is known of 'sm_61'",
    "run --runner sim --target sm_100 --ptx-version 8.0": "does not know sm_100",
    "run --runner sim --only wmma.nothing*": "no matrix instruction of sm_90",
    "run --runner sim --only mma.sp* --target sm_75": "no matrix instruction of sm_75",
    "run --runner sim --only wgmma* --target sm_90": "but of sm_90a: add --target sm_90a",
    "conform sim --only wgmma*": "no form of sm_90 in PTX ISA 8.7, but of sm_90a: add --target",
    "run --runner sim --ptx-pass ''": "'--ptx-pass': it is empty",
    "run --runner sim --ptx-pass ' '": "PTX pass is empty",
    "run --runner sim --ptx-pass 'nowhere/pass -x'": "there is no program nowhere/pass",
    "run --runner sim --workers 1000000": "not in the range 1<=x<=",
    "run --runner sim --gpus 3": "--gpus 3 is of a --fleet, and there is none",
    "run --runner sim --repeat 5": "--repeat 5.0 is of a --fleet",
    "run --runner sim --shard 1/2": "--seed",
    "status nowhere": "no campaign",
    "bench --only nosuchfault": "nosuchfault",
    "bench --limit 0": "--limit",
    "bench --seeds 0": "--seeds",
    "bench --contents zeros": "zeros",
    "bench --target sm_1": "sm_1",
    "bench --lines --seeds 2": "--seeds",
    "bench --lines --limit 10": "--limit",
    "compilers fetch 1.0": "1.0",
    "compilers fetch newest --json": "newest",
    "models show sm_91": "neither a target nor a file; `warpfuzz models list`",
    "models export ''": "it is empty",
    "models export sm_90 --output missing/file": "--output missing/file cannot be written",
    "measure --runner sim --output missing/file": "--output missing/file cannot be written",
    "measure --runner sim --only nothing": "no multiplication of sm_90",
    "legal .": "warpfuzz: . cannot be read",
}
"""The command line, and words of what it is told."""


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_typed_wrongly_is_told(tmp_path: Path, line: str) -> None:
    ended = warpfuzz(tmp_path, *shlex.split(line))
    assert (ended.code, ended.out) == (2, ""), ended.err
    assert REFUSED[line] in " ".join(ended.err.split())
    assert not (tmp_path / "warpfuzz-corpus").exists()
