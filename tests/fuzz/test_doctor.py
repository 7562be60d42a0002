"""`warpfuzz doctor` names what is here, and what a missing part would give."""

from __future__ import annotations

from pathlib import Path

from command_line import Ended, warpfuzz


def _nvidia_smi(folder: Path, script: str) -> None:
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)


def _doctor(folder: Path) -> Ended:
    """Ask with `folder` first on PATH."""
    return warpfuzz(folder, "doctor", "--json", PATH=f"{folder}:/usr/bin:/bin")


def test_each_gpu_is_named(tmp_path: Path) -> None:
    _nvidia_smi(tmp_path, "printf 'NVIDIA H200, 580.159.04, 9.0\\nNVIDIA L4, 580.159.04, 8.9\\n'")
    ran = _doctor(tmp_path)
    gpus = [row for row in ran.rows if row["name"] == "GPU"]
    assert ran.code == 0
    assert [row["here"] for row in gpus] == [True, True]
    assert [row["found"].split(",")[0] for row in gpus] == ["NVIDIA H200", "NVIDIA L4"]
    assert "compute capability 8.9" in gpus[1]["found"]


def test_what_the_driver_says_instead_is_passed_on(tmp_path: Path) -> None:
    _nvidia_smi(tmp_path, "echo 'driver/library version mismatch'; exit 18")
    ran = _doctor(tmp_path)
    (gpu,) = (row for row in ran.rows if row["name"] == "GPU")
    assert ran.code == 0
    assert not gpu["here"]
    assert "version mismatch" in gpu["found"]


def test_every_missing_part_says_how_to_get_it(tmp_path: Path) -> None:
    ran = _doctor(tmp_path)
    assert {
        "warpfuzz", "ptxas", "nvdisasm", "pycuda", "llvm", "nvcc", "nvrtc", "ray",
        "prometheus-client",
    } <= {row["name"] for row in ran.rows}  # fmt: skip
    assert all(row["install"] for row in ran.rows if not row["here"])
    # No index has warpfuzz itself.
    assert not any("install 'warpfuzz" in row["install"] for row in ran.rows)
