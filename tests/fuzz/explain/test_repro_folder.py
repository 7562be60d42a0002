"""The folder of `warpfuzz repro`: both programs show the fault, and its absence, by themselves."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from command_line import warpfuzz
from repro_cases import by_python, c_program, half, in_c, multiplication, row_load, stored

from corpus import Entry
from fuzz.explain.folder import write_reproduction
from oracle.isa.lookup import ldmatrix_form, mma_form
from oracle.program.operands import Operation
from oracle.program.program import Program

HERE = Path(__file__).parent
ROWS = row_load(ldmatrix_form("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"))
INTEGERS = multiplication(
    mma_form("wmma.mma.sync.aligned.row.row.m8n32k16.s32.s8.s8.s32"), d_layout="col"
)
DOUBLES = multiplication(mma_form("wmma.mma.sync.aligned.col.row.m8n8k4.f64.f64.f64.f64"))
HALVES = multiplication(half(), changes=(Operation.NEGATE,), times=2)


def reproduced(entry: Entry, folder: Path) -> Path:
    write_reproduction(entry, folder / "repro")
    return folder / "repro"


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("halves")
    return reproduced(stored(folder / "corpus", HALVES, faults=("accumulator-ignored",)), folder)


@pytest.mark.parametrize(
    ("program", "fault"),
    [
        (INTEGERS, "mma-b-register-slip"),
        (ROWS, "trans-lost"),
        pytest.param(DOUBLES, "multiplication-doubled", marks=pytest.mark.slow),
        pytest.param(INTEGERS, "store-one-row-off", marks=pytest.mark.slow),
    ],
)
def test_python_fails_on_what_was_run_and_passes_on_what_was_written(
    tmp_path: Path, program: Program, fault: str
) -> None:
    folder = reproduced(stored(tmp_path / "corpus", program, faults=(fault,)), tmp_path)
    wrong = by_python(folder)
    assert wrong.code == 1
    assert "bytes are not as the PTX ISA says" in wrong.out
    right = by_python(folder, "--ptx", folder / "module.ptx", "--times", 2)
    assert right.code == 0
    assert right.out.count("0 of ") == 2


@pytest.mark.parametrize(
    ("front_end", "name", "command"),
    [
        ("nvcc:13.0.88", "kernel.cu", "nvcc -ptx -arch=sm_90 -Xcicc -O3 kernel.cu -o new.ptx"),
        ("nvcc:own -O{level} | more", "kernel.cu", "own -O3 < kernel.cu | more > new.ptx"),
        ("llvm:15.0.7", "kernel.ll", "llc -O2 -mcpu=sm_90 -mattr=+ptx80 optimised.ll -o new.ptx"),
    ],
)
def test_what_a_front_end_compiled_lies_beside_its_ptx(
    tmp_path: Path, front_end: str, name: str, command: str
) -> None:
    entry = stored(tmp_path / "corpus", HALVES, faults=("accumulator-ignored",))
    made = msgspec.structs.replace(entry.finding.made, front_end=front_end)
    entry = replace(entry, finding=msgspec.structs.replace(entry.finding, made=made))
    folder = reproduced(entry, tmp_path)
    page = (folder / "README.md").read_text()
    assert f"| {name} |" in page
    assert command in page
    text = (folder / name).read_text()
    assert ("__global__" in text) == (name == "kernel.cu")
    assert ("target triple" in text) == (name == "kernel.ll")


def test_python_names_bytes_with_both_values(halves: Path) -> None:
    expected, actual = (
        np.fromfile(halves / f"{name}.bin", np.uint8) for name in ("expected", "actual")
    )
    out = by_python(halves).out
    places = np.flatnonzero(expected != actual)
    for place in places[:16].tolist():
        assert (
            f"byte {place} of image 0: expected {expected[place]:#04x}, actual {actual[place]:#04x}"
        ) in out
    assert f"{len(places)} of {len(expected)} bytes" in out


@pytest.mark.slow
def test_python_compiles_with_an_assembler_or_loads_machine_code(
    halves: Path, tmp_path: Path
) -> None:
    ptxas = tmp_path / "echoing_ptxas.py"
    shutil.copy(HERE / ptxas.name, ptxas)
    ptxas.chmod(0o755)
    assembled = by_python(halves, "--ptxas", ptxas, "--opt", 1)
    assert assembled.code == 1
    assert "echoing_ptxas.py -arch=sm_90 -O1" in assembled.out
    other = by_python(halves, "--ptxas", ptxas, "--opt", 1, "--ptx", halves / "module.ptx")
    assert other.code == 0
    unknown = shutil.copytree(halves, tmp_path / "unknown")
    case = unknown / "repro.json"
    case.write_text(case.read_text().replace("sm_90", "sm_1"))
    refused = by_python(unknown, "--ptxas", ptxas, "--opt", 1)
    assert (refused.code, "not defined for option" in refused.out) == (1, True)
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(b"\x7fELF" + (halves / "kernel.ptx").read_bytes())
    assert by_python(halves, "--cubin", cubin).code == 1


@pytest.mark.parametrize(
    ("options", "mode", "code", "words"),
    [
        ((), "gone", 3, "no CUDA-capable device"),
        (("--device", "1"), "", 3, "invalid device ordinal"),
        (("--ptx", "nowhere.ptx"), "", 3, "nowhere.ptx cannot be read"),
        (("--ptxas", "nowhere"), "", 3, "nowhere cannot be run"),
        ((), "misaligned", 1, "misaligned address"),
        (("--opt", "4"), "", 2, "invalid choice"),
    ],
)
def test_python_says_what_is_missing_or_failed(
    halves: Path, options: tuple[str, ...], mode: str, code: int, words: str
) -> None:
    run = by_python(halves, *options, FAKE_DEVICE=mode)
    assert (run.code, words in run.out) == (code, True), run.out


@pytest.fixture(scope="module")
def program_in_c(halves: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return c_program(halves, tmp_path_factory.mktemp("c"))


def test_c_tells_right_from_wrong(halves: Path, program_in_c: Path) -> None:
    wrong = in_c(program_in_c, halves, halves / "actual.bin")
    assert wrong.code == 1
    assert "expected" in wrong.out
    right = in_c(program_in_c, halves, halves / "expected.bin", halves / "module.ptx")
    assert right.code == 0


@pytest.mark.parametrize(
    ("options", "mode", "code", "words"),
    [
        ((), "gone", 3, "cuInit failed"),
        (("nowhere.ptx",), "", 3, "nowhere.ptx cannot be read"),
        ((str(HERE / "repro_cases.py"),), "", 1, "repro_cases.py failed"),
        ((), "misaligned", 1, "the kernel failed"),
    ],
)
def test_c_says_what_is_missing_or_failed(
    halves: Path, program_in_c: Path, options: tuple[str, ...], mode: str, code: int, words: str
) -> None:
    run = in_c(program_in_c, halves, halves / "expected.bin", *options, FAKE_DEVICE=mode)
    assert (run.code, words in run.out) == (code, True), run.out


def test_the_command_writes_the_folder_by_id_and_by_path(tmp_path: Path) -> None:
    entry = stored(tmp_path / "corpus", INTEGERS, faults=("store-one-row-off",))
    by_id = warpfuzz(tmp_path, "repro", entry.id[:6], "--corpus", "corpus", "--json")
    assert by_id.code == 0
    (row,) = by_id.rows
    assert row["id"] == entry.id
    assert sorted(row["files"]) == sorted(path.name for path in (tmp_path / row["path"]).iterdir())
    by_path = warpfuzz(tmp_path, "repro", entry.path, "--output", "here")
    assert by_path.code == 0
    assert {path.name for path in (tmp_path / "here").iterdir()} == set(row["files"])
    again = warpfuzz(tmp_path, "repro", entry.path, "--output", "here")
    assert again.code == 0
    (tmp_path / "here" / "mine.txt").write_text("keep this")
    refused = warpfuzz(tmp_path, "repro", entry.path, "--output", "here")
    assert (refused.code, "holds other files" in refused.err) == (2, True)
    in_the_way = warpfuzz(tmp_path, "repro", entry.path, "--output", "here/mine.txt")
    assert (in_the_way.code, "is a file; name a folder" in in_the_way.err) == (2, True)
    missing = warpfuzz(tmp_path, "repro", "0000", "--corpus", "corpus")
    assert missing.code == 2
