"""Fetching, with a pip that is a script: each way in which it can fail is a sentence."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from fakes import FAKE

from oracle.errors import InfrastructureError, UsageError
from runners import toolchains
from runners.assemblers.assembler import identify
from runners.compilers import assembler_version
from runners.compilers import fetched_assembler as fetch
from runners.compilers import find_assembler as find
from runners.folders import cache_folder
from runners.toolchains import ToolOrigin

WHEEL = "nvidia_cuda_nvcc-99.1.7-py3-none-any.whl"
PIP = """#!{python} -IS
import shutil, sys
open({log!r}, "a").write(" ".join(sys.argv[1:]) + "\\n")
{body}
"""
DOWNLOAD = """
print("Collecting things")
shutil.copy({wheel!r}, sys.argv[sys.argv.index("--dest") + 1])
"""


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def wheel(folder, members=None):
    program = f'#!/bin/sh\nexec {sys.executable} -IS {FAKE} sound "$@"\n'
    content = members or {
        "nvidia/cu13/bin/nvcc": "another program",
        "nvidia/cu13/bin/ptxas": program,
        "nvidia_cuda_nvcc-99.1.7.dist-info/licenses/License.txt": "be good",
        "nvidia_cuda_nvcc-99.1.7.dist-info/METADATA": "Name: nvidia-cuda-nvcc",
    }
    path = folder / WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in content.items():
            archive.writestr(name, text)
    return path


def fetched_folder():
    return cache_folder() / "assemblers"


def unpack(wheel):
    folder = toolchains.unpacked("ptxas", [wheel], version_of=assembler_version)
    return identify(folder / "ptxas")


def pip_says(tmp_path, monkeypatch, body):
    python = tmp_path / "python"
    python.write_text(PIP.format(python=sys.executable, log=str(tmp_path / "log"), body=body))
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))


def test_a_fetched_assembler_is_unpacked_whole_with_its_licence_and_found(tmp_path, monkeypatch):
    pip_says(tmp_path, monkeypatch, DOWNLOAD.format(wheel=str(wheel(tmp_path))))
    assembler = fetch("99.1")
    assert assembler.origin is ToolOrigin.CACHE
    assert assembler.path == fetched_folder() / "99.1.7/ptxas"
    assert (fetched_folder() / "99.1.7/License.txt").read_text() == "be good"
    note = json.loads((fetched_folder() / "99.1.7/origin.json").read_text())
    assert note == {"wheels": [WHEEL], "member": "nvidia/cu13/bin/ptxas"}
    assert sorted(path.name for path in fetched_folder().iterdir()) == ["99.1.7"]
    assert find("99.1") == assembler


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        ("99.1", "nvidia-cuda-nvcc==99.1.*"),
        ("12.4.131", "nvidia-cuda-nvcc-cu12==12.4.131"),
        ("11.8", "nvidia-cuda-nvcc-cu11==11.8.*"),
    ],
)
def test_pip_is_asked_for_the_wheel_of_the_version_and_for_no_index(
    tmp_path, monkeypatch, version, wanted
):
    pip_says(tmp_path, monkeypatch, DOWNLOAD.format(wheel=str(wheel(tmp_path))))
    fetch(version)
    asked = (tmp_path / "log").read_text().split()
    assert asked[:4] == ["-P", "-m", "pip", "download"]
    assert asked[-1] == wanted
    assert "--no-deps" in asked
    assert not any("index" in word or "http" in word for word in asked)


def test_what_is_there_is_not_fetched_again(tmp_path, monkeypatch):
    unpack(wheel(tmp_path))
    pip_says(tmp_path, monkeypatch, "sys.exit(1)")
    assert fetch("99.1").version == "V99.1.7"
    assert fetch("99.1.7").version == "V99.1.7"
    with pytest.raises(InfrastructureError):
        fetch("99.2")


MISSING = (
    "print('ERROR: Could not find a version that satisfies the requirement "
    "nvidia-cuda-nvcc==13.9.* (from versions: 0.0.0a0, 13.0.48, 13.0.88, 13.10.1, 13.5.37)')\n"
    "print('ERROR: No matching distribution found for nvidia-cuda-nvcc==13.9.*')\nsys.exit(1)"
)


def test_a_version_that_does_not_exist_is_a_sentence_with_those_that_do(tmp_path, monkeypatch):
    pip_says(tmp_path, monkeypatch, MISSING)
    with pytest.raises(UsageError, match=r"no wheel of ptxas 13.9 .* has .*13.0.88, 13.10.1"):
        fetch("13.9")


@pytest.mark.parametrize("version", ["13", "", "13.5; rm"])
def test_what_is_no_version_is_a_usage_error(version):
    with pytest.raises(UsageError, match=r"there is no wheel of ptxas '.*'; there are 11.7"):
        fetch(version)


def test_every_llvm_that_the_page_names_can_be_fetched():
    page = (Path(__file__).parents[3] / "docs" / "compilers.md").read_text()
    named = set(re.findall(r"llvm:(\d+)", page))
    assert len(named) >= 3
    assert named <= set(toolchains.WHEELS["llvm"].releases)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("print('python: No module named pip'); sys.exit(1)", "has no pip to fetch with; install"),
        (
            "print('WARNING: Retrying after connection broken by NewConnectionError')\n"
            "print('ERROR: Could not find a version that satisfies x (from versions: none)')\n"
            "print('ERROR: No matching distribution found for x')\nsys.exit(1)",
            "pip could not download .*No matching distribution.*check the network",
        ),
        ("print('ERROR: [Errno 28] No space left on device'); sys.exit(1)", "No space left"),
        ("sys.exit(1)", "pip could not download .* it said 'nothing'"),
        ("pass", "pip could not download .* it said 'nothing'"),
    ],
)
def test_a_pip_that_fails_is_a_sentence(tmp_path, monkeypatch, body, says):
    pip_says(tmp_path, monkeypatch, body)
    with pytest.raises(InfrastructureError, match=says):
        fetch("13.5")
    assert list(fetched_folder().iterdir()) == []


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"nvidia/bin/nvcc": "x"}, "holds no bin/ptxas"),
        ({"nvidia/bin/ptxas": "#!/bin/sh\necho hello\n"}, "holds no working ptxas"),
    ],
)
def test_a_wheel_without_a_working_ptxas_leaves_nothing(tmp_path, members, says):
    with pytest.raises(InfrastructureError, match=says):
        unpack(wheel(tmp_path, members))
    assert list(fetched_folder().iterdir()) == []


def test_a_wheel_that_unpacks_to_far_more_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(toolchains, "_MEMBER_BYTES", 1 << 20)
    bomb = tmp_path / WHEEL
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("nvidia/bin/ptxas", bytes(2 << 20))
    with pytest.raises(InfrastructureError, match="has more than 1 MiB"):
        unpack(bomb)
    assert list(fetched_folder().iterdir()) == []


def test_a_full_disk_is_a_sentence_and_leaves_nothing(tmp_path, monkeypatch):
    def full(source, sink):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(InfrastructureError, match="no space is left"):
        unpack(wheel(tmp_path))
    assert list(fetched_folder().iterdir()) == []


def test_pip_dies_with_whoever_fetches(tmp_path, monkeypatch):
    pid = tmp_path / "pid"
    body = f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    pip_says(tmp_path, monkeypatch, body)

    def interrupt(self):
        while not (pid.exists() and pid.read_text()):
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch("13.5")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
