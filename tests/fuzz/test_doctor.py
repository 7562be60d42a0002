"""`warpfuzz doctor` names what is here, and what a missing part would give."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import warpfuzz

SMI = {
    "printf 'NVIDIA H200, 580.159.04, 9.0\\nNVIDIA L4, 580.159.04, 8.9\\n'": [
        (True, "NVIDIA H200"), (True, "compute capability 8.9"),
    ],
    "echo 'driver/library version mismatch'; exit 18": [(False, "version mismatch")],
}  # fmt: skip


@pytest.mark.parametrize("script", SMI)
def test_each_gpu_is_named_or_what_the_driver_says_instead(script: str, tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    ran = warpfuzz(tmp_path, "doctor", "--json", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert ran.code == 0
    gpus = [row for row in ran.rows if row["name"] == "GPU"]
    for row, (here, said) in zip(gpus, SMI[script], strict=True):
        assert row["here"] is here
        assert said in row["found"]
    # Every missing part says how to get it.
    assert {
        "warpfuzz", "ptxas", "nvdisasm", "pycuda", "llvm", "nvcc", "nvrtc", "ray",
        "prometheus-client",
    } <= {row["name"] for row in ran.rows}  # fmt: skip
    assert all(row["install"] for row in ran.rows if not row["here"])
    # No index has warpfuzz itself.
    assert not any("install 'warpfuzz" in row["install"] for row in ran.rows)
