"""What is found, asked and remembered of assemblers that are sound or not."""

import json
import sys

import pytest

from oracle.errors import InfrastructureError, UsageError
from oracle.isa.targets import PtxVersion
from runners import toolchains
from runners.assemblers.assembler import identify
from runners.compilers import discover_assemblers as discover
from runners.compilers import find_assembler as find
from runners.folders import cache_folder
from runners.toolchains import ToolOrigin

# A ptxas for questions: `highest` .version, targets with the first .version of each.
ASKED = """#!{python} -IS
import re, sys
open({log!r}, "a").write(" ".join(sys.argv[1:]) + "\\n")
if "--version" in sys.argv:
    print("Cuda compilation tools, release {release}, V{version}")
elif "--help" in sys.argv:
    print("Allowed values:  'compute_75', 'lto_90', 'sm_100a', 'sm_75',\\n 'sm_90', 'sm_100'.")
else:
    text = open("a.ptx").read()
    version = tuple(map(int, re.search(r"version (.*)", text)[1].split(".")))
    since = {{"sm_75": (6, 3), "sm_90": (7, 8), "sm_100": (8, 6), "sm_100a": (8, 6)}}
    target = re.search(r"target (.*)", text)[1]
    if version > {highest} or version < since.get(target, (99, 0)) or "entry" not in text:
        sys.exit(255)
"""


@pytest.fixture(autouse=True)
def nothing_here(tmp_path, monkeypatch):
    """No assembler of this machine is found, and the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(toolchains, "_TOOLKIT_FOLDER", tmp_path / "local")
    monkeypatch.setattr(toolchains, "HOLDING", {"ptxas": ()})


def put(folder, version="13.5.37", highest=(9, 5), name="ptxas"):
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    release = ".".join(version.split(".")[:2])
    text = ASKED.format(
        python=sys.executable, log=str(folder / "log"), release=release, version=version,
        highest=highest,
    )  # fmt: skip
    program.write_text(text)
    program.chmod(0o755)
    return program


def asked(program):
    return len((program.parent / "log").read_text().splitlines())


def test_every_place_is_searched_and_the_newest_comes_first(tmp_path, monkeypatch):
    put(tmp_path / "bin", "12.4.131")
    put(tmp_path / "home/bin", "12.10.1")
    put(tmp_path / "cuda/bin", "11.8.89")
    put(tmp_path / "local/cuda-13.0/bin", "13.0.88")
    put(cache_folder() / "assemblers" / "13.5.37", "13.5.37")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "cuda"))
    found = discover()
    assert [(one.version, one.origin) for one in found.assemblers] == [
        ("V13.5.37", ToolOrigin.CACHE),
        ("V13.0.88", ToolOrigin.TOOLKIT),
        ("V12.10.1", ToolOrigin.TOOLKIT),
        ("V12.4.131", ToolOrigin.PATH),
        ("V11.8.89", ToolOrigin.TOOLKIT),
    ]
    assert found.problems == ()


def test_installed_wheels_are_searched(tmp_path, monkeypatch):
    put(tmp_path / "site/nvidia/cu13/bin", "13.1.80")
    put(tmp_path / "site/nvidia/cu13/bin/crt", "13.1.81", "ptxas")
    info = tmp_path / "site/nvidia_cuda_nvcc-13.1.80.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: nvidia-cuda-nvcc\nVersion: 13.1.80\n")
    (info / "RECORD").write_text("nvidia/cu13/bin/ptxas,,\nnvidia/cu13/bin/crt/ptxas,,\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(toolchains, "HOLDING", {"ptxas": ("nvidia-cuda-nvcc",)})
    assert [(one.version, one.origin) for one in discover().assemblers] == [
        ("V13.1.80", ToolOrigin.WHEEL)
    ]


def test_a_version_is_listed_once_and_a_link_to_it_is_not_asked(tmp_path, monkeypatch):
    first = put(tmp_path / "bin")
    (tmp_path / "home/bin").mkdir(parents=True)
    (tmp_path / "home/bin/ptxas").symlink_to(first)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    put(tmp_path / "local/cuda/bin")
    assert [one.path for one in discover().assemblers] == [first]
    assert asked(first) == 1


def test_a_broken_one_is_a_problem_and_hides_no_other(tmp_path):
    broken = put(tmp_path / "bin")
    broken.write_text("#!/bin/sh\necho hello\n")
    put(tmp_path / "local/cuda/bin")
    found = discover()
    assert [one.version for one in found.assemblers] == ["V13.5.37"]
    assert [str(broken) in problem and "'hello'" in problem for problem in found.problems] == [True]


@pytest.mark.parametrize(
    ("wanted", "version"),
    [(None, "V12.9.86"), ("12.9", "V12.9.86"), ("12.1", "V12.1.105"), ("12.1.105", "V12.1.105"),
     ("12", "V12.9.86")],
)  # fmt: skip
def test_an_assembler_is_chosen_by_version_and_the_newest_without(tmp_path, wanted, version):
    put(tmp_path / "bin", "12.1.105")
    put(tmp_path / "local/cuda/bin", "12.9.86")
    assert find(wanted).version == version


@pytest.mark.parametrize("wanted", ["12.10", "13", "12.1.1"])
def test_a_version_that_is_not_here_is_a_sentence_with_those_that_are(tmp_path, wanted):
    put(tmp_path / "bin", "12.1.105")
    with pytest.raises(UsageError, match=rf"no ptxas {wanted} is here \(found: V12.1.105\); fetch"):
        find(wanted)


def test_without_any_the_sentence_says_how_to_get_one():
    said = r"no ptxas is here \(found: none\); .*pip install nvidia-cuda-nvcc"
    with pytest.raises(UsageError, match=said):
        find()


@pytest.mark.parametrize(
    ("content", "mode", "says"),
    [
        (None, 0, "there is no file"),
        ("#!/bin/sh\necho hello", 0o755, "answered 'hello'"),
        ("#!/bin/sh\necho release 13.5, V13.5.37\nexit 1", 0o755, "status 1"),
        ("not a program", 0o755, "Exec format error"),
        ("#!/bin/sh\n", 0o644, "Permission denied"),
    ],
)
def test_a_path_that_is_no_assembler_is_a_usage_error(tmp_path, content, mode, says):
    folder = tmp_path / ("a-long-name" * 8)
    folder.mkdir()
    program = folder / "program"
    if content is not None:
        program.write_text(content)
        program.chmod(mode)
    with pytest.raises(UsageError, match=says):
        find(str(program))


@pytest.mark.parametrize("highest", [(6, 3), (8, 8), (9, 5), (9, 7)])
def test_the_highest_version_is_found_by_asking_also_beyond_those_known(tmp_path, highest):
    assembler = identify(put(tmp_path / "x", highest=highest))
    assert assembler.highest_version == PtxVersion(*highest)
    assert asked(assembler.path) < 15


def test_an_assembler_that_accepts_nothing_says_so(tmp_path):
    assembler = identify(put(tmp_path / "x", highest=(1, 0)))
    with pytest.raises(InfrastructureError, match=r"accepts no .version from 6.3 to"):
        assembler.highest_version  # noqa: B018 - the question is the test


def test_targets_are_those_of_the_help_oldest_first(tmp_path):
    assembler = identify(put(tmp_path / "x"))
    assert assembler.targets == ("sm_75", "sm_90", "sm_100", "sm_100a")


def test_pairs_of_version_and_target_are_asked(tmp_path):
    assembler = identify(put(tmp_path / "x"))
    assert assembler.accepts("7.8", "sm_90")
    assert not assembler.accepts("7.7", "sm_90")
    assert not assembler.accepts("9.0", "sm_70")
    assert assembler.accepts(PtxVersion(8, 6), "sm_100a")


def questions(assembler):
    return assembler.targets, assembler.highest_version, assembler.accepts("7.8", "sm_90")


def test_answers_are_remembered_for_the_same_binary_and_no_other(tmp_path):
    program = put(tmp_path / "x")
    answers = questions(identify(program))
    before = asked(program)
    assert questions(identify(program)) == answers
    assert asked(program) == before + 1  # its version is asked each time
    put(tmp_path / "x", highest=(9, 0))
    assert questions(identify(program))[1] == PtxVersion(9, 0)


@pytest.mark.parametrize("content", ["", "[]", '{"targets": 3}'])
def test_answers_that_cannot_be_read_are_asked_again(tmp_path, content):
    program = put(tmp_path / "x")
    answers = questions(identify(program))
    (stored,) = (tmp_path / "cache").rglob("*.json")
    stored.write_text(content)
    assert questions(identify(program)) == answers
    assert json.loads(stored.read_text())["answers"]["highest version"] == "9.5"
