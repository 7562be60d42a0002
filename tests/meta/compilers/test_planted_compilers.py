"""Compilers with a bug from a certain version and level on are found out, and the bug is dated."""

import json

import pytest
from command_line import warpfuzz
from planted_ptxas import planted_ptxas

FAULT = "store-layout-flipped"


@pytest.fixture(scope="module")
def compilers(tmp_path_factory):
    """Return a folder of five versions; from the third on, -O2 and up have the bug."""
    folder = tmp_path_factory.mktemp("compilers")
    for number in range(1, 6):
        faults = [FAULT] if number >= 3 else []
        planted_ptxas(folder / str(number), f"{number}.0", faults, levels=(2, 3))
    return folder


@pytest.fixture(scope="module")
def campaign(compilers, tmp_path_factory):
    """Return a home with the corpus of a campaign over all of them, and how it ended."""
    home = tmp_path_factory.mktemp("home")
    ended = warpfuzz(
        home, "run", "--runner", "sim", "--compilers", compilers, "--opt", "1,2",
        "--cases", 128, "--seed", 5, "--corpus", "found",
        "--only", "wmma.mma*row.col.m16n16k16.f32.f32", "--json",
    )  # fmt: skip
    return home, ended


def test_a_campaign_finds_the_bug_and_says_who_has_it(campaign):
    _, ended = campaign
    assert ended.code == 1
    assert any(
        finding["kind"] in ("violation", "deviation")
        and finding["family"].endswith("only V3.0.0 to V5.0.0 -O2")
        for finding in ended.findings
    )
    assert len(ended.summary["members"]) == 10
    assert ended.summary["binaries"] == 10 * ended.summary["programs"]
    assert ended.summary["distinct"] <= 2 * ended.summary["programs"]
    assert 0 < ended.summary["differences"] <= ended.summary["programs"]


def test_the_finding_lists_what_each_member_did(campaign):
    home, ended = campaign
    (shown,) = {one["id"] for one in ended.findings if "-O2" in one["family"]}
    (path,) = (home / "found" / "findings").glob(f"{shown}/finding.json")
    finding = json.loads(path.read_text())
    said = {
        (one["version"], one["options"]): one["outcome"]
        for one in finding["runners"]
        if one["runner"] == "ptxas"
    }
    assert len(said) == 10
    for (version, options), outcome in said.items():
        bad = version >= "V3" and options == "-O2"
        assert (outcome != "match") is bad
    assert finding["details"]["agree with the oracle"].startswith("V1.0.0 to V2.0.0 -O1 -O2")


def test_bisection_names_the_version_and_the_level(campaign, compilers):
    home, ended = campaign
    (shown,) = {one["id"] for one in ended.findings if "-O2" in one["family"]}
    bisected = warpfuzz(
        home,
        "bisect",
        shown,
        "--corpus",
        "found",
        "--compilers",
        compilers,
        "--opt",
        "1,2",
        "--json",
    )
    row = bisected.rows[0]["bisect"]
    assert bisected.code == 1
    assert row["course"] == "changed"
    assert row["first"] == {"version": "V3.0.0", "level": 2, "before": "V2.0.0"}
    assert not row["flaky"]
    assert [level["course"] for level in row["levels"]] == ["never", "changed"]


def test_a_campaign_ends_after_as_many_families_as_were_asked_for(compilers, tmp_path):
    ended = warpfuzz(
        tmp_path, "run", "--runner", "sim", "--compilers", compilers, "--opt", "1,2",
        "--findings", 1, "--seed", 5, "--workers", 1, "--quiet-time", "10m",
        "--only", "wmma.mma*row.col.m16n16k16.f32.f32", "--json",
    )  # fmt: skip
    assert ended.code == 1
    assert ended.summary["stopped"] == "1 families found"
    assert len(ended.findings) == 1


@pytest.mark.parametrize("runner", ["ptxas", "sim"])
def test_one_that_rejects_what_others_accept_is_a_finding(tmp_path, runner):
    for number, rejects in enumerate(("", ".row.row.", ".row.row."), start=1):
        planted_ptxas(
            tmp_path / "c" / str(number), f"{number}.0", rejects=rejects, text=runner == "sim"
        )
    ended = warpfuzz(
        tmp_path, "run", "--runner", runner, "--compilers", "c", "--opt", "3", "--cases", 3,
        "--seed", 1, "--only", "wmma.mma*row.row.m16n16k16.f32.f32", "--json",
    )  # fmt: skip
    assert ended.code == 1
    kinds = {finding["kind"] for finding in ended.findings}
    assert kinds == {"assemblers differ"}
    assert all("only V2.0.0 to V3.0.0 -O3" in finding["family"] for finding in ended.findings)
    assert ended.summary["uncompiled"] > 0


def test_one_that_crashes_is_a_finding_and_is_bisected(tmp_path):
    for number, crashes in enumerate(("", "", "satfinite"), start=1):
        planted_ptxas(tmp_path / "c" / str(number), f"{number}.0", crashes=crashes, text=False)
    ended = warpfuzz(
        tmp_path, "run", "--runner", "ptxas", "--compilers", "c", "--opt", "3", "--cases", 3,
        "--seed", 1, "--only", "wmma.mma*s32*satfinite", "--corpus", "found", "--json",
    )  # fmt: skip
    assert {finding["kind"] for finding in ended.findings} == {"crash"}
    bisected = warpfuzz(
        tmp_path, "bisect", ended.ids[0], "--corpus", "found", "--compilers", "c", "--json"
    )
    assert bisected.rows[0]["bisect"]["first"]["version"] == "V3.0.0"


def test_equal_compilers_give_no_finding(tmp_path):
    for number in (1, 2):
        planted_ptxas(tmp_path / "c" / str(number), f"{number}.0")
    ended = warpfuzz(
        tmp_path,
        "run",
        "--runner",
        "sim",
        "--compilers",
        "c",
        "--cases",
        200,
        "--seed",
        2,
        "--json",
    )
    assert ended.code == 0
    assert ended.findings == []
    assert ended.summary["differences"] == 0
    assert ended.summary["distinct"] == ended.summary["programs"]


def test_a_compiler_that_does_not_know_the_target_is_skipped_and_said(tmp_path):
    planted_ptxas(tmp_path / "c" / "1", "1.0")
    old = planted_ptxas(tmp_path / "c" / "2", "2.0")
    text = old.read_text().replace('"$@"', '"$@" --older')
    old.write_text(f'#!/bin/sh\ncase "$*" in *--help*) echo "\'sm_70\'"; exit 0;; esac\n{text}')
    ended = warpfuzz(
        tmp_path,
        "run",
        "--runner",
        "sim",
        "--compilers",
        "c",
        "--opt",
        "3",
        "--cases",
        32,
        "--json",
    )
    assert ended.code == 0
    assert ended.summary["members"] == ["V1.0.0 -O3"]
    assert "does not know sm_90" in ended.summary["skipped"][0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--opt", "0,5"), "names no -O levels"),
        (("--assembler", "13.5"), "leave --assembler out"),
        (("--fault", FAULT), "leave --fault and --ptx-pass out"),
        (("--disassembler", "nowhere"), "there is no file"),
        (("--ptx-version", "99.9"), "99.9"),
        (("--include-undefined",), "leave one of the two out"),
        (("--resume",), "keeps no state"),
        (("--device", "0"), "--device 0 names a GPU, and the runner is sim"),
        (("--runner", "cuda", "--device", "0", "--device", "1"), "names 2 GPUs"),
        (("--compilers", "driver"), "it needs --runner cuda; choose --runner cuda"),
        (("--compilers", ""), "'' names no compiler"),
    ],
)
def test_what_does_not_go_together_is_said(tmp_path, arguments, said):
    planted_ptxas(tmp_path / "c" / "1", "1.0")
    ended = warpfuzz(tmp_path, "run", "--runner", "sim", "--compilers", "c", *arguments)
    assert ended.code == 2
    assert said in ended.err


def test_a_changed_expansion_is_noted_and_is_no_finding(tmp_path):
    for number in (1, 2, 3):
        planted_ptxas(tmp_path / "c" / str(number), f"{number}.0", text=False)
        # The stand-in for machine code tells the disassembler which version made it.
        row = json.loads((tmp_path / "c" / str(number) / "planted.json").read_text())
        row["mark"] = f"HMMA.{1684 if number < 3 else 16816}"
        (tmp_path / "c" / str(number) / "planted.json").write_text(json.dumps(row))
    tool = tmp_path / "nvdisasm"
    tool.write_text(
        "#!/bin/sh\n"
        'case "$1" in --version) echo "disassembler"; echo "release 13.5, V13.5.1"; exit 0;; esac\n'
        "mark=$(tail -c +101 a.cubin)\n"
        "for kernel in form_0 form_1; do\n"
        'echo ".text.$kernel:"; echo "  /*0000*/  $mark R4, R8, R10, R4 ;"\ndone\n'
    )
    tool.chmod(0o755)
    ended = warpfuzz(
        tmp_path, "run", "--runner", "ptxas", "--compilers", "c", "--opt", "1,3", "--cases", 8,
        "--seed", 1, "--only", "wmma.mma*row.col.m16n16k16.f32.f32", "--disassembler", tool,
        "--json",
    )  # fmt: skip
    assert ended.code == 0
    (note,) = [row for row in ended.rows if "note" in row]
    assert note["note"] == "expansion"
    assert (note["from_version"], note["to_version"]) == ("V2.0.0", "V3.0.0")
    assert (note["before"], note["after"]) == ("HMMA.1684", "HMMA.16816")
    assert note["levels"] == [1, 3]
    listed = warpfuzz(tmp_path, "corpus", "list", "warpfuzz-corpus", "--json")
    assert [row["kind"] for row in listed.rows] == ["note"]


def test_a_campaign_goes_on_without_a_disassembler_that_does_not_take_the_code(tmp_path):
    for number in (1, 2):
        planted_ptxas(tmp_path / "c" / str(number), f"{number}.0", text=False)
    tool = tmp_path / "nvdisasm"
    tool.write_text(
        "#!/bin/sh\n"
        'case "$1" in --version) echo "disassembler"; echo "release 10.0, V10.0.1"; exit 0;; esac\n'
        "echo 'unknown architecture'; exit 1\n"
    )
    tool.chmod(0o755)
    ended = warpfuzz(
        tmp_path, "run", "--runner", "ptxas", "--compilers", "c", "--opt", "3", "--cases", 40,
        "--seed", 1, "--disassembler", tool, "--json",
    )  # fmt: skip
    assert ended.code == 0
    assert ended.summary["programs"] == 40
    (said,) = ended.summary["skipped"]
    assert "expansions are not looked at" in said
    assert "unknown architecture" in said
