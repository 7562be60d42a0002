"""Compilers with a bug from a certain version and level on are found out, and the bug is dated."""

import json
import shutil
from xml.etree import ElementTree

import pytest
from answering import address
from command_line import warpfuzz
from planted_ptxas import planted_ptxas

FAULT = "store-layout-flipped"
FORM = "wmma.mma*row.col.m16n16k16.f32.f32"


def campaign_of(home, *words, runner="sim", level=3, seed=1, planted=(), **each):
    """Plant compilers, the first of version 1.0, and run a campaign that compares them."""
    for number, own in enumerate(planted, start=1):
        faults = own.get("faults", ())
        others = {name: value for name, value in own.items() if name != "faults"}
        planted_ptxas(home / "c" / str(number), f"{number}.0", faults, **each, **others)
    return warpfuzz(
        home, "run", "--runner", runner, "--compilers", "c", "--opt", level, "--seed", seed,
        "--corpus", "found", "--json", *words,
    )  # fmt: skip


def bisected(home, *words):
    """Bisect a finding; return the exit code and the row."""
    ended = warpfuzz(home, "bisect", *words, "--json")
    return ended.code, ended.rows[0]["bisect"]


@pytest.fixture(scope="module")
def compilers(tmp_path_factory):
    """Return a folder of four versions; from the third on, -O2 and up have the bug."""
    folder = tmp_path_factory.mktemp("compilers")
    for number in range(1, 5):
        faults = [FAULT] if number >= 3 else []
        planted_ptxas(
            folder / str(number), f"{number}.0", faults, levels=(2, 3), answering=address()
        )
    return folder


@pytest.fixture(scope="module")
def campaign(compilers, tmp_path_factory):
    """Return a home with the corpus of a campaign over all of them, and how it ended."""
    home = tmp_path_factory.mktemp("home")
    ended = warpfuzz(
        home, "run", "--runner", "sim", "--compilers", compilers, "--opt", "1,2",
        "--cases", 16, "--seed", 5, "--corpus", "found",
        "--only", "wmma.mma*row.col.m16n16k16.f32.f32", "--json",
    )  # fmt: skip
    return home, ended


def test_a_campaign_finds_the_bug_and_says_who_has_it(campaign):
    _, ended = campaign
    assert ended.code == 1
    assert any(
        finding["kind"] in ("violation", "deviation")
        and "wmma.store" in finding["family"]
        and finding["compilers"] == "only V3.0.0 to V4.0.0 -O2"
        and not finding["provisional"]
        for finding in ended.findings
    )
    assert len(ended.summary["members"]) == 8
    assert ended.summary["binaries"] == 8 * ended.summary["programs"]
    assert ended.summary["distinct"] <= 2 * ended.summary["programs"]
    assert 0 < ended.summary["differences"] <= ended.summary["programs"]


def wrong(campaign):
    """Return the folder of the finding."""
    home, ended = campaign
    (shown,) = {one["id"] for one in ended.findings if "-O2" in one["compilers"]}
    return home / "found" / "findings" / shown


def test_the_finding_lists_what_each_member_did(campaign):
    finding = json.loads((wrong(campaign) / "finding.json").read_text())
    said = {
        (one["version"], one["options"]): one["outcome"]
        for one in finding["runners"]
        if one["runner"] == "ptxas"
    }
    assert len(said) == 8
    for (version, options), outcome in said.items():
        bad = version >= "V3" and options == "-O2"
        assert (outcome != "match") is bad


def test_bisection_names_the_version_and_the_level(campaign, compilers, tmp_path):
    code, row = bisected(tmp_path, wrong(campaign), "--compilers", compilers, "--opt", "1,2")
    assert (code, row["course"], row["flaky"]) == (1, "changed", False)
    assert row["first"] == {"version": "V3.0.0", "level": 2, "before": "V2.0.0"}
    assert [level["course"] for level in row["levels"]] == ["never", "changed"]


def test_a_case_written_by_hand_is_bisected_on_what_it_expects(campaign, compilers, tmp_path):
    hand = tmp_path / "hand"
    hand.mkdir()
    for name in ("module.ptx", "input.npy", "expected.npy"):
        shutil.copy(wrong(campaign) / name, hand)
    case = {"kind": "violation", "made": {"runner": "sim"}}
    (hand / "case.json").write_text(json.dumps(case))
    imported = warpfuzz(tmp_path, "corpus", "import", hand, "--corpus", "own", "--json")
    assert imported.code == 0, imported.err
    (own,) = (tmp_path / "own" / "findings").iterdir()
    code, row = bisected(tmp_path, own, "--compilers", compilers, "--opt", "1,2")
    assert (code, row["first"]) == (1, {"version": "V3.0.0", "level": 2, "before": "V2.0.0"})
    refused = warpfuzz(tmp_path, "bisect", own, "--compilers", compilers, "--ptx-version", "7.7")
    assert refused.code == 2
    assert "--ptx-version 7.7 cannot be" in refused.err


def test_a_bug_of_modules_with_several_kernels_keeps_as_many_as_it_needs(tmp_path):
    """It was counted as not confirmed, and a campaign with one compiler called it flaky."""
    ended = campaign_of(
        tmp_path, "--cases", 32, "--only", FORM, level=2, seed=5, kernels=2,
        planted=({}, {"faults": [FAULT]}), answering=address(),
    )  # fmt: skip
    assert ended.code == 1
    assert ended.findings
    for found in ended.findings:
        assert "beside other kernels" in found["family"]
        assert found["compilers"] == "only V2.0.0 -O2"
        folder = tmp_path / "found" / "findings" / found["id"]
        details = json.loads((folder / "finding.json").read_text())["details"]
        assert details["other kernels"] == 1
        assert (folder / "module.ptx").read_text().count(".entry") == 2
    words = (ended.findings[0]["id"], "--corpus", "found", "--compilers", "c", "--opt", 2)
    _, row = bisected(tmp_path, *words)
    assert row["first"] == {"version": "V2.0.0", "level": 2, "before": "V1.0.0"}


def test_a_bug_that_is_there_in_one_run_of_three_is_flaky_and_dated(campaign, compilers, tmp_path):
    for number in (3, 4):
        bad = planted_ptxas(tmp_path / f"bad{number}", f"{number}.0", [FAULT], answering=address())
        good = planted_ptxas(tmp_path / f"good{number}", f"{number}.0")
        path = tmp_path / str(number) / "ptxas"
        path.parent.mkdir()
        path.write_text(
            f"#!/bin/sh\ncount='{path}.count'\n"
            'case "$*" in *--version*|*--help*) ;; *) echo x >> "$count";; esac\n'
            f'[ -f "$count" ] && [ $(($(wc -l < "$count") % 3)) = 0 ] && exec \'{bad}\' "$@"\n'
            f"exec '{good}' \"$@\"\n"
        )
        path.chmod(0o755)
    folders = f"{compilers / '1'},{compilers / '2'},{tmp_path / '3'},{tmp_path / '4'}"
    code, row = bisected(
        tmp_path, wrong(campaign), "--compilers", folders, "--opt", "2", "--times", 3
    )
    assert (code, row["flaky"]) == (1, True)
    assert row["first"] == {"version": "V3.0.0", "level": 2, "before": "V2.0.0"}
    outcomes = row["levels"][0]["versions"]
    assert outcomes["V2.0.0"] == {
        "outcome": "match", "bad": False, "runs": 6, "failed": 0, "executions": 6,
    }  # fmt: skip
    assert outcomes["V3.0.0"]["outcome"] == "flaky (2 of 6 bad)"


@pytest.mark.parametrize(
    ("new", "old", "code", "result"), [("4", "1", 1, "failures"), ("4", "3", 0, None)]
)
def test_only_what_the_baseline_does_otherwise_counts(
    campaign, compilers, tmp_path, new, old, code, result
):
    home, _ = campaign
    ended = warpfuzz(
        tmp_path, "replay", home / "found", "--compiler", compilers / new / "ptxas",
        "--baseline", compilers / old / "ptxas", "--opt", 2, "--junit", "out.xml", "--quiet",
    )  # fmt: skip
    assert ended.code == code, ended.err
    assert bool(ended.out) == bool(code)
    suite = ElementTree.parse(tmp_path / "out.xml").getroot()
    counted = {name: suite.get(name) for name in ("failures", "errors", "skipped")}
    assert counted == {**dict.fromkeys(counted, "0"), **({result: "1"} if result else {})}


def test_one_that_rejects_what_others_accept_is_a_finding(tmp_path):
    ended = campaign_of(
        tmp_path, "--cases", 3, "--only", "wmma.mma*row.row.m16n16k16.f32.f32", runner="ptxas",
        planted=({}, *[{"rejects": ".row.row."}] * 2), text=False,
    )  # fmt: skip
    assert ended.code == 1
    assert {one["kind"] for one in ended.findings} == {"assemblers differ"}
    assert {one["compilers"] for one in ended.findings} == {"only V2.0.0 to V3.0.0 -O3"}
    assert ended.summary["uncompiled"] > 0


def test_a_crash_at_scalar_code_is_named_by_that_and_bisected(tmp_path):
    """It was a line for each matrix instruction of those programs (2026-11-26)."""
    ended = campaign_of(
        tmp_path, "--cases", 24, "--only", "mma.sync*f16*", runner="ptxas", text=False,
        planted=({}, {"crashes": "selp.b32"}),
    )  # fmt: skip
    assert [one["family"] for one in ended.findings] == ["crash | selp | killed by SIGSEGV"]
    assert ended.findings[0]["cases"] > 1
    text = (tmp_path / "found" / "findings" / ended.ids[0] / "module.ptx").read_text()
    assert "selp.b32" in text
    assert "mma" not in text
    words = (ended.ids[0], "--corpus", "found", "--compilers", "c", "--opt", 3)
    _, row = bisected(tmp_path, *words)
    assert row["first"]["version"] == "V2.0.0"


APART = ({"newest": "8.4"}, {})
"""A compiler that reads up to PTX 8.4, where fp8 begins, and one that reads all."""


def test_every_compiler_gets_the_programs_that_it_reads(tmp_path):
    ended = campaign_of(tmp_path, "--cases", 512, "--only", "mma*e4m3*", seed=5, planted=APART)
    assert ended.code == 0, ended.err
    summary = ended.summary
    assert (summary["ptx_version"], summary["ptx_versions"][-1]) == (None, "9.5")
    old, new = (summary["by_member"][f"V{number}.0.0 -O3"] for number in (1, 2))
    assert new == {
        "compared": summary["programs"], "images": summary["compared"],
        "compiled": summary["programs"], "not compiled": 0, "not readable": 0,
    }  # fmt: skip
    # Forms of 8.7 (m16n8k16, results in f16) are not among those that the old one reads.
    assert old["compared"] > 0
    assert old["not readable"] > 0
    assert old["not compiled"] == 0
    assert old["compared"] + old["not readable"] == summary["programs"]
    assert summary["binaries"] == old["compiled"] + new["compiled"]


def test_equal_compilers_give_no_finding(tmp_path):
    ended = campaign_of(tmp_path, "--cases", 16, seed=2, planted=({}, {}))
    assert (ended.code, ended.findings, ended.summary["differences"]) == (0, [], 0)
    assert ended.summary["distinct"] == ended.summary["programs"]


@pytest.mark.parametrize(
    ("runner", "code", "said"),
    [(("--runner", "ptxas"), 0, "No binary ran"), ((), 3, "no GPU is here, so no binary ran")],
)
def test_where_no_binary_ran_nobody_says_that_binaries_agree(
    tmp_path, monkeypatch, runner, code, said
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for number in (1, 2):
        planted_ptxas(tmp_path / "c" / str(number), f"{number}.0", text=False)
    ended = warpfuzz(tmp_path, "run", *runner, "--compilers", "c", "--opt", "3", "--cases", 2)
    assert ended.code == code
    assert said in " ".join((ended.out + ended.err).split())
    assert "that ran give" not in ended.out


def test_a_compiler_that_does_not_know_the_target_is_skipped_and_said(tmp_path):
    old = planted_ptxas(tmp_path / "c" / "2", "2.0")
    text = old.read_text().replace('"$@"', '"$@" --older')
    old.write_text(f'#!/bin/sh\ncase "$*" in *--help*) echo "\'sm_70\'"; exit 0;; esac\n{text}')
    ended = campaign_of(tmp_path, "--cases", 4, planted=({},))
    assert ended.code == 0
    assert ended.summary["members"] == ["V1.0.0 -O3"]
    assert "does not know sm_90" in ended.summary["left_out"][0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--assembler", "13.5"), "--assembler names a compiler, and --compilers"),
        (("--fault", FAULT), "--fault changes what every compiler gets"),
        (("--include-undefined",), "leave one of the two out"),
        (("--compilers", "driver"), "the driver's compiler needs --runner cuda; choose"),
        (("--compilers", ","), "'' names no compiler"),
    ],
)
def test_what_does_not_go_together_is_said(tmp_path, arguments, said):
    planted_ptxas(tmp_path / "c" / "1", "1.0")
    ended = warpfuzz(tmp_path, "run", "--runner", "sim", "--compilers", "c", *arguments)
    assert (ended.code, said in ended.err) == (2, True)
