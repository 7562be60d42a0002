"""What was compared, what was only judged and what could not be asked are told apart."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from campaign_fakes import fake_ptxas
from command_line import warpfuzz
from planted_ptxas import planted_ptxas
from repro_cases import half, multiplication, stored

from corpus import Case, Entry, Identity, Kind, RunnerVerdict, create_corpus, open_corpus
from fuzz.cli import _exit_code
from fuzz.findings.case import (
    ReplayOptions,
    UntrustedError,
    check_trusted,
    commands_of,
)
from fuzz.findings.replay import ModuleProbe, Replays
from fuzz.findings.verdicts import CannotBeAskedError
from oracle.errors import UsageError
from runners.assemblers.assembler import identify
from runners.compilers import named_assembler

FAULT = "accumulator-ignored"
ILLEGAL = "wmma.load.a.sync.aligned.row.m16n16k16.global.f64 {%d0, %d1}, [%addr];"


def module_finding(folder: Path, version: str, target: str = "sm_90") -> Entry:
    corpus = create_corpus(folder, generator="test")
    case = Case(
        kind=Kind.ACCEPTED, identity=Identity(failure="x k"), instructions=(ILLEGAL,),
        target=target, ptx_version=version,
        runners=(RunnerVerdict(runner="ptxas", version="V13.0.1", outcome="accepted"),),
    )  # fmt: skip
    text = f".version {version}\n.target {target}\n.visible .entry k()\n{{\n{ILLEGAL}\nret;\n}}\n"
    return corpus.get(corpus.add(case, {"module.ptx": text.encode()}).id)


@pytest.fixture
def program(tmp_path: Path) -> Entry:
    return stored(tmp_path / "found", multiplication(half()), faults=(FAULT,))


def test_faults_of_the_simulated_device_are_planted_there_alone(tmp_path: Path) -> None:
    faults = ("store-missing", "stuck-bit")
    entry = stored(tmp_path / "both", multiplication(half()), faults=faults)
    for runner, planted in ((None, faults), ("sim", faults), ("cuda", faults[:1])):
        assert ReplayOptions().planted(entry, runner) == planted


def ended(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Run a command in this process; return its exit code, output and errors."""
    capsys.readouterr()
    code = _exit_code([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def summary(out: str) -> Any:
    return json.loads(out.splitlines()[-1])["summary"]


@pytest.mark.parametrize(
    ("command", "kind"), [("false", "compile failure"), ("sed 's/ret;//'", "")]
)
def test_what_failed_is_neither_compared_nor_accepted(
    program: Entry, command: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Divergences, compile and launch failures were "accepted or rejected" (2026-11-23)."""
    words = ("replay", program.path, "--ptx-pass", command, "--json")
    _, out, _ = ended(capsys, *words)
    failed = "not compiled or not run to the end"
    assert summary(out)["counts"].get(failed, 0) == bool(kind)
    assert summary(out)["counts"]["accepted or rejected"] == 0


def test_a_bisection_is_offered_only_where_one_can_tell(program: Entry, tmp_path: Path) -> None:
    """The simulated device runs no machine code: every answer was "could not be asked"."""
    offered = {what for what, _ in commands_of(program)}
    assert offered == {"run it again", "without warpfuzz"}
    accepted = module_finding(tmp_path / "module", "8.0")
    assert "since when" in dict(commands_of(accepted))


def test_an_older_assembler_is_asked_in_the_highest_version_that_it_knows(tmp_path: Path) -> None:
    entry = module_finding(tmp_path / "found", "9.5")
    assembler = identify(fake_ptxas(tmp_path / "old"))
    question = ModuleProbe(entry)
    assert question.module_for([assembler]) == ("sm_90", assembler.highest_version)
    assert question.ask([(assembler, 3)]).label == "rejected"
    with pytest.raises(CannotBeAskedError, match="takes no module with"):
        ModuleProbe(entry, version="9.5").ask([(assembler, 3)])


def test_a_refused_version_or_target_is_no_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = fake_ptxas(tmp_path / "old")
    module_finding(tmp_path / "found", "9.5", "sm_121f")
    code, out, err = ended(
        capsys, "replay", tmp_path / "found", "--compiler", old, "--junit", tmp_path / "out.xml",
        "--json",
    )  # fmt: skip
    assert code == 3
    assert summary(out)["counts"] == {
        "compared": 0, "accepted or rejected": 0, "could not be asked": 1,
    }  # fmt: skip
    assert not summary(out)["findings"]
    assert "sm_121f" in err
    assert ElementTree.parse(tmp_path / "out.xml").getroot().get("errors") == "1"


def test_a_bisection_says_what_it_asked_and_takes_another_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = fake_ptxas(tmp_path / "old")
    entry = module_finding(tmp_path / "found", "9.5", "sm_121f")
    words = ("bisect", entry.path, "--compilers", old, "--opt", "3", "--json")
    code, out, err = ended(capsys, *words)
    assert (code, "sm_121f" in err) == (3, True)
    assert json.loads(out)["bisect"]["counts"]["could not be asked"] == 1
    code, out, _ = ended(capsys, *words, "--target", "sm_90")
    highest = identify(old).highest_version
    assert code == 0
    assert json.loads(out)["bisect"]["modules"] == {"V12.0.1": f"sm_90, {highest}"}


def test_a_module_is_judged_and_never_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module_finding(tmp_path / "found", "8.0")
    words = ("replay", tmp_path / "found", "--compiler", fake_ptxas(tmp_path / "old"))
    code, out, _ = ended(capsys, *words)
    assert code == 0
    assert "0 compared, 1 accepted or rejected, 0 could not be asked" in " ".join(out.split())
    assert ended(capsys, *words, "--at-least", "2")[0] == 3


def test_machine_code_is_never_judged_on_the_simulated_device(
    tmp_path: Path, program: Entry, capsys: pytest.CaptureFixture[str]
) -> None:
    new, old = (planted_ptxas(tmp_path / name, f"{name}.0", text=False) for name in ("2", "1"))
    found = tmp_path / "found"
    for extra in (("--baseline", old),):
        code, _, err = ended(capsys, "replay", found, "--compiler", new, *extra)
        assert code == 3
        assert "does not run the machine code" in err
    code, _, err = ended(capsys, "bisect", program.path, "--compilers", f"{old},{new}")
    assert code == 3
    assert "does not run the machine code" in err


def test_a_bisection_plants_what_the_finding_was_made_with(
    tmp_path: Path, program: Entry, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--compilers", planted_ptxas(tmp_path / "c", "1.0"), "--opt", "3")
    for more, code, course in (((), 1, "always was so"), (("--fault", "none"), 0, "never")):
        ended_with, out, _ = ended(capsys, "bisect", program.path, *words, "--json", *more)
        assert (ended_with, json.loads(out)["bisect"]["course"]) == (code, course)


def imported(folder: Path, capsys: pytest.CaptureFixture[str], **case: object) -> Entry:
    """Import a case that a person wrote, without images."""
    folder.mkdir()
    text = f".version 8.0\n.target sm_90\n.visible .entry k()\n{{\n{ILLEGAL}\nret;\n}}\n"
    (folder / "module.ptx").write_text(text)
    (folder / "case.json").write_text(json.dumps(case))
    code, out, _ = ended(capsys, "corpus", "import", folder, "--corpus", folder / "c", "--json")
    assert code == 0
    return open_corpus(folder / "c").get(json.loads(out)["id"])


@pytest.mark.parametrize("kind", ["violation", "divergence"])
def test_what_a_program_did_is_not_gone_because_its_module_is_accepted(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = imported(tmp_path / "case", capsys, kind=kind, made={"runner": "sim"})
    path = fake_ptxas(tmp_path / "ptxas")
    for command, option in (("replay", "--assembler"), ("bisect", "--compilers")):
        code, out, err = ended(capsys, command, entry.path, option, path)
        assert (code, out) == (3, ""), (out, err)
        assert "nothing that it could run on" in err
    assert {what for what, _ in commands_of(entry)} == {"without warpfuzz"}


def test_a_case_that_names_no_compiler_is_asked_of_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command of its page ended with 2: "made with ptxas of no known version"."""
    entry = imported(tmp_path / "case", capsys, kind="accepted although undocumented")
    path = planted_ptxas(tmp_path / "c", "1.0")
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    for what, command in commands_of(entry):
        if what == "run it again":
            code, out, err = ended(capsys, *shlex.split(command)[1:], "--json")
            assert code in (0, 1), err
            assert len(json.loads(out.splitlines()[0])["assemblers"]) == 1


@pytest.mark.parametrize("command", ["judge", "replay"])
def test_a_command_that_was_given_to_any_command_was_given_here(
    tmp_path: Path,
    command: str,
    program: Entry,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of a pass of `judge` and `screen`, `replay` said that it "was never given here"."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    given = f"sed 's/no such/{command}/'"
    entry = stored(tmp_path / "passed", multiplication(half()), faults=(FAULT,), ptx_pass=given)
    assert "not given in this folder before" in ended(capsys, "replay", entry.path)[2]
    words: tuple[object, ...] = (command, program.path, "--runner", "sim", "--ptx-pass", given)
    ended(capsys, *words)  # whatever comes of it
    code, _, err = ended(capsys, "replay", entry.path)
    assert code == 1, err


def test_a_campaign_goes_on_with_the_assembler_that_is_taken_by_itself(tmp_path: Path) -> None:
    """`run --runner ptxas` and `run --resume` ended with 2: its path "was never given here"."""
    fakes = fake_ptxas(tmp_path / "bin").parent
    begun = ("run", "--runner", "ptxas", "--workers", "1", "--corpus", "c", "--only", "ldmatrix")
    path = f"{fakes}:/usr/bin:/bin"
    assert warpfuzz(tmp_path, *begun, "--cases", "8", PATH=path).code in (0, 1)
    resumed = warpfuzz(tmp_path, "run", "--resume", "--corpus", "c", "--cases", "16", PATH=path)
    assert resumed.code in (0, 1), resumed.err
    assert "16 instructions" in resumed.out


def test_of_paths_those_of_assemblers_that_are_found_here_are_no_strangers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = str(fake_ptxas(tmp_path / "bin"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    for trusted in (named, f"{named}+maxrregcount=32"):
        check_trusted(trusted, option="--assembler", named_by="the state", trust=False)
    for option, other in (
        ("--assembler", f"{named}x"), ("--assembler", "ptxas"), ("--ptx-pass", named),
    ):  # fmt: skip
        with pytest.raises(UsageError, match="you have not given in this folder before"):
            check_trusted(other, option=option, named_by="the state", trust=False)


def test_a_program_that_a_finding_names_runs_with_the_users_word_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = tmp_path / "ran"
    script = tmp_path / "a pass"
    script.write_text(f"#!/bin/sh\ntouch '{ran}'\nexec sed s/f32.f32/f32.f32/\n")
    script.chmod(0o755)
    command = f"'{script}' --some"
    entry = stored(tmp_path / "found", multiplication(half()), faults=(FAULT,), ptx_pass=command)
    ran.unlink()
    assert entry.finding.made.ptx_pass == command
    for words in (("replay", entry.path), ("replay", tmp_path / "found", "--junit",
                  tmp_path / "o.xml"), ("bisect", entry.path)):  # fmt: skip
        code, _, err = ended(capsys, *words)
        assert code == 2
        assert "which you have not given in this folder before" in " ".join(err.split())
        assert not ran.exists()
    assert ended(capsys, "replay", entry.path, "--trust")[0] == 1
    assert ran.exists()
    with pytest.raises(UntrustedError), Replays(ReplayOptions()) as replays:
        raise replays.replay(entry, times=1).error or AssertionError


def test_every_command_on_a_page_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    path = planted_ptxas(tmp_path / "c c", "1.0")
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    # No other compilers than this one are there.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "400")
    entry = stored(
        tmp_path / "a folder", multiplication(half()), faults=(FAULT,), ptx_pass="sed 's/ ;/;/'",
        assembler=named_assembler(str(path)),
    )  # fmt: skip
    page = ended(capsys, "corpus", "show", entry.path)[1]
    commands = [line.rpartition(" warpfuzz ")[2] for line in page.splitlines()
                if " warpfuzz " in line]  # fmt: skip
    (every,) = [command for command in commands if command.endswith(" --compilers all")]
    commands.remove(every)
    assert every.removesuffix(" --compilers all") in commands, "what is not run is asked alike"
    assert len(commands) == 3
    codes = [ended(capsys, *shlex.split(command))[0] for command in commands]
    assert codes == [1, 1, 0], commands


def test_a_compiler_that_is_missing_is_named_once_for_all_its_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The record had a line for each of 87 findings (2026-11-23)."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    entry = module_finding(tmp_path / "found", "8.0")
    corpus = create_corpus(tmp_path / "both", generator="test")
    for key in ("k", "l"):
        family = Identity(failure="wrong result", instructions=(key,))
        case = Case(
            kind=Kind.ACCEPTED, identity=family, instructions=(ILLEGAL,), target="sm_90",
            ptx_version="8.0", runners=entry.finding.runners,
        )  # fmt: skip
        corpus.add(case, {"module.ptx": (entry.path / "module.ptx").read_bytes() + key.encode()})
    code, _, err = ended(capsys, "replay", tmp_path / "both")
    said = [line for line in err.splitlines() if "V13.0.1" in line]
    assert (code, len(said)) == (2, 1), err
    assert "`warpfuzz compilers fetch 13.0`" in said[0]
    assert said[0].endswith("(2 findings)")
