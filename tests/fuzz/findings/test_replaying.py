"""`warpfuzz replay`: other targets, baselines, JUnit, cases by hand, and the file for pytest."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from command_line import ROOT, environment, warpfuzz
from repro_cases import contents, half, multiplication, stored

from corpus import create_corpus
from corpus.exchange import read_case
from corpus.programs import pack
from fuzz.output import Test as JUnitTest
from fuzz.output import write_junit
from oracle.execution.execution import execute
from oracle.isa.lookup import mma_form
from runners.emission import emit

FAULT = "accumulator-ignored"
INTEGERS = multiplication(mma_form("wmma.mma.sync.aligned.row.row.m8n32k16.s32.s8.s8.s32"))
HALVES = multiplication(half())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replays")
    for program in (INTEGERS, HALVES):
        stored(folder / "findings", program, faults=(FAULT,))
    return folder


def cases(path: Path) -> list[ElementTree.Element]:
    """Check the structure that Jenkins' and Ant's readers expect, and return the tests."""
    root = ElementTree.parse(path).getroot()
    assert root.tag == "testsuites"
    (suite,) = root
    assert suite.tag == "testsuite"
    found = list(suite)
    assert all(case.tag == "testcase" for case in found)
    for case in found:
        assert {"classname", "name", "time"} <= set(case.attrib)
        assert float(case.attrib["time"]) >= 0
        assert len(case) <= 1
        assert {child.tag for child in case} <= {"failure", "error", "skipped"}
        assert all(child.get("message") for child in case)
    for element in (root, suite):
        assert int(element.attrib["tests"]) == len(found)
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            count = sum(case.find(tag) is not None for case in found)
            assert int(element.attrib[name]) == count
    return found


def test_a_fault_that_applies_to_no_finding_is_not_called_one_that_does_no_harm(
    corpus: Path,
) -> None:
    """All findings were "no longer" wrong, with exit code 0: what was planted was nowhere."""
    ran = warpfuzz(corpus, "replay", "findings", "--fault", "movmatrix-lost", "--json")
    assert ran.code == 3
    said = "applied to 0 of 2 programs, so not tested: --fault movmatrix-lost"
    assert ran.summary["untested"] == said
    assert said in ran.err


def test_junit_has_a_failed_test_for_each_finding_that_disagrees(corpus: Path) -> None:
    ran = warpfuzz(corpus, "replay", "findings", "--fault", FAULT, "--junit", "out.xml", "--quiet")
    assert ran.code == 1
    assert len(ran.out.splitlines()) == 2
    tests = cases(corpus / "out.xml")
    assert len(tests) == 2
    assert all(test.find("failure") is not None for test in tests)
    ids = {entry.name for entry in (corpus / "findings" / "findings").iterdir()}
    assert {test.attrib["name"].split()[0] for test in tests} == ids


def test_what_cannot_be_replayed_is_an_error_in_junit(corpus: Path) -> None:
    ran = warpfuzz(
        corpus, "replay", "findings", "--target", "sm_70", "--fault", "none", "--junit", "out.xml"
    )
    assert ran.code == 3
    assert [test.find("error") is not None for test in cases(corpus / "out.xml")].count(True) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--compiler", "1.0"), "no ptxas 1.0 is here"),
        (("--opt", "2"), "reads the PTX itself"),
        (("--junit", "."), "in a folder that is there"),
    ],
)
def test_what_is_wrong_with_every_finding_is_a_usage_error_said_once(
    corpus: Path, options: tuple[str, ...], words: str
) -> None:
    ran = warpfuzz(corpus, "replay", "findings", "--runner", "sim", *options)
    assert ran.code == 2
    assert " ".join(ran.err.split()).count(words) == 1


def test_the_current_folder_may_be_the_finding(corpus: Path) -> None:
    """Its name was said not to be its id (2026-11-24)."""
    finding = min((corpus / "findings" / "findings").iterdir())
    for here, name in ((finding, f"../{finding.name}/"), (corpus / "findings", ".")):
        ended = warpfuzz(here, "replay", name, "--runner", "sim", "--json")
        assert (ended.code, ended.summary["broken"]) == (1, [])


def test_only_what_differs_from_the_baseline_counts(corpus: Path) -> None:
    changed = warpfuzz(
        corpus, "replay", "findings", "--fault", FAULT, "--baseline", "none", "--json"
    )
    assert changed.code == 1
    assert [row["regressed"] for row in changed.rows[:-1]] == [True, True]
    assert {row["baseline_verdict"] for row in changed.rows[:-1]} == {"gone"}
    assert len(changed.findings) == 2
    keys = {"id", "family", "kind", "verdict", "known", "path"}
    assert all(keys <= finding.keys() for finding in changed.findings)
    plain = ("replay", "findings", "--fault", "none", "--baseline", "none")
    same = warpfuzz(corpus, *plain, "--json")
    assert (same.code, same.findings) == (0, [])
    assert same.summary["counts"]["compared"] == 2


def test_programs_are_written_anew_for_another_target(corpus: Path) -> None:
    target = "sm_100a"
    found = warpfuzz(corpus, "replay", "findings", "--target", target, "--fault", FAULT, "--json")
    assert found.code == 1
    assert all(f"simulated {target.rstrip('a')}" in row["device"] for row in found.rows[:-1])


def by_hand(folder: Path, *, wrong: bool) -> None:
    """Write a case as a person does: a module, before, after."""
    folder.mkdir()
    image = contents(INTEGERS, 1)
    expected = execute(INTEGERS, image).images
    if wrong:
        expected[0, INTEGERS.offset("gd") + 7] ^= 4
    (folder / "module.ptx").write_text(emit(INTEGERS).ptx)
    (folder / "input.npy").write_bytes(pack(image))
    (folder / "expected.npy").write_bytes(pack(expected))
    case = {"kind": "violation", "made": {"runner": "sim"}, "comment": "by hand"}
    (folder / "case.json").write_text(json.dumps(case))


def test_a_case_by_hand_is_compared_with_the_image_that_it_expects(tmp_path: Path) -> None:
    for name, wrong in (("right", False), ("wrong", True)):
        by_hand(tmp_path / name, wrong=wrong)
        imported = warpfuzz(tmp_path, "corpus", "import", name, "--corpus", f"corpus-{name}")
        assert imported.code == 0
    right = warpfuzz(tmp_path, "replay", "corpus-right", "--json")
    assert (right.code, right.rows[0]["verdict"]) == (0, "gone")
    wrong_again = warpfuzz(tmp_path, "replay", "corpus-wrong", "--times", 2, "--json")
    assert (wrong_again.code, wrong_again.rows[0]["verdict"]) == (1, "reproduced")
    assert "1 byte differs" in wrong_again.rows[0]["message"]
    planted = warpfuzz(tmp_path, "replay", "corpus-right", "--fault", FAULT)
    assert planted.code == 1


def test_the_file_for_pytest_fails_for_what_disagrees_and_passes_when_it_is_gone(
    corpus: Path, tmp_path: Path
) -> None:
    text = (ROOT / "docs" / "regression.md").read_text()
    found = re.search(r"<!-- test_findings.py -->\n```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    (tmp_path / "findings").symlink_to(corpus / "findings")
    (tmp_path / "test_there.py").write_text(found[1])
    (tmp_path / "test_gone.py").write_text(
        found[1].replace("ReplayOptions()", "ReplayOptions(faults=())")
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA"]
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True,
        check=False, timeout=600,
    )  # fmt: skip
    assert (ended.returncode, "2 failed, 4 passed" in ended.stdout) == (1, True), ended.stdout
    assert ended.stdout.count("PASSED test_gone.py") == 3, ended.stdout


def test_any_text_is_xml(tmp_path: Path) -> None:
    text = "".join(map(chr, range(0x120))) + "\ud800\ufffe<&>]]>"
    write_junit(
        tmp_path / "out.xml",
        [JUnitTest(group="a", name=text, seconds=0.5, result="failure", message=text, text=text)],
        suite="all signs",
    )
    (case,) = cases(tmp_path / "out.xml")
    assert case.attrib["name"].endswith("<&>]]>")


@pytest.mark.parametrize("name", ["_Z4copyPvS_j", "$go"])
def test_a_kernel_is_looked_for_in_the_code_of_a_module(tmp_path: Path, name: str) -> None:
    by_hand(tmp_path / "case", wrong=True)
    module = tmp_path / "case" / "module.ptx"
    text = module.read_text().replace(".entry kernel", f".entry\n  {name}")
    assert name in text
    module.write_text(f"// the .entry point below\n/* .entry this */\n{text}")
    assert warpfuzz(tmp_path, "corpus", "import", "case", "--corpus", "corpus").code == 0
    (row, _) = warpfuzz(tmp_path, "replay", "corpus", "--times", 3, "--json").rows
    assert (row["runs"], row["failed"]) == (3, 3)


def test_a_case_by_hand_with_images_is_reproduced_without_warpfuzz(tmp_path: Path) -> None:
    by_hand(tmp_path / "case", wrong=True)
    (row,) = warpfuzz(tmp_path, "corpus", "import", "case", "--json").rows
    made = warpfuzz(tmp_path, "repro", row["id"], "--output", "theirs")
    assert made.code == 0, made.err
    files = {path.name for path in (tmp_path / "theirs").iterdir()}
    assert {"input.bin", "expected.bin", "kernel.ptx", "repro.py", "repro.cu"} <= files
    image = contents(INTEGERS, 1)
    assert (tmp_path / "theirs" / "input.bin").read_bytes() == image.tobytes()
    explain = Path(__file__).parents[1] / "explain"
    done = subprocess.run(
        [sys.executable, str(tmp_path / "theirs" / "repro.py")],
        capture_output=True, text=True, check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(explain / "fakes"), str(ROOT))),
        },
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr


def test_an_entry_with_images_of_other_shapes_is_told(tmp_path: Path) -> None:
    by_hand(tmp_path / "case", wrong=False)
    case, files = read_case(tmp_path / "case")
    other = pack(np.zeros((1, 3), np.uint8))
    create_corpus(tmp_path / "corpus", generator="test").add(case, {**files, "expected.npy": other})
    ran = warpfuzz(tmp_path, "replay", "corpus")
    assert (ran.code, "of shape (1, 3)" in ran.err) == (3, True)
