"""A known discrepancy explains what it describes, as long as it holds, and nothing else."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from corpus_cases import CASE, changed
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corpus import Case, Finding, Identity, Kind, Making, RunnerVerdict
from corpus.finding import Build
from corpus.known import Known, known_with, load_known, mark_known, parse_known, recorded
from oracle.errors import UsageError

DAY = date(2026, 11, 21)


def entry(match: str, *, kind: str = "accepted although undocumented", more: str = "") -> str:
    return (
        f'[[known]]\nid = "one"\nkind = "{kind}"\nreason = "because"\nevidence = "seen"\n{more}\n'
        f"[known.match]\n{match}\n"
    )


_CUDA = Making(runner="cuda")


def known(*entries: str, schema: int = 1) -> Known:
    return parse_known((f"schema = {schema}\n" + "".join(entries)).encode(), "known.toml")


def row(
    instructions: str, *, compilers: str = '[{name = "ptxas", last = "13.5"}]', **more: str
) -> str:
    fields = "".join(f'{name} = "{value}"\n' for name, value in more.items())
    return (
        f'[[known]]\nid = "one"\nfailure = "wrong result"\ninstructions = {instructions}\n'
        f'compilers = {compilers}\ncause = "because"\nevidence = "seen"\n{fields}'
    )


def wrong(
    *instructions: str,
    kind: Kind = Kind.VIOLATION,
    condition: str = "",
    message: str = "",
    version: str = "V13.5.37",
    level: int = 3,
    made: Making = _CUDA,
    runner: str = "ptxas",
    number: int = 0,
) -> Finding:
    """A finding that one build of ptxas shows."""
    verdict = RunnerVerdict(
        runner=runner, version=version, options=f"-O{level}", outcome=kind.value
    )
    identity = Identity.of(kind, *instructions, condition=condition, message=message)
    case = changed(CASE, kind=kind, identity=identity, runners=(verdict,), made=made)
    fields = {name: getattr(case, name) for name in Case.__struct_fields__}
    return Finding(**fields, id=f"{number:016x}", files={})


def explained(match: str, case: Case = CASE, **more: Any) -> bool:
    return known(entry(match, **more)).match(case, today=DAY) is not None


def by(*verdicts: tuple[str, str]) -> Case:
    return changed(
        CASE,
        runners=tuple(
            RunnerVerdict(runner=runner, version=version, outcome="accepted")
            for runner, version in verdicts
        ),
    )


@given(
    texts=st.lists(st.text(min_size=1, max_size=20), min_size=4, max_size=4),
    until=st.none() | st.dates(date(2100, 1, 1)),
)
# What TOML 1.0 does not allow in a basic string as it is.
@example(texts=["".join(map(chr, (*range(32), 127))), '"', "\\", "|"], until=None)
@settings(max_examples=30)
def test_what_is_marked_is_known_until_its_day_and_other_entries_stay(
    texts: list[str], until: date | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("marked") / "known.toml"
    name, condition, cause, evidence = texts
    found = wrong(name, condition=condition)
    for one in (wrong(f"{name}?", number=1), found):
        entry = mark_known(path, one, cause=cause, evidence=evidence, until=until)
        assert entry == load_known(path).entries[-1]
    matched = load_known(path).match(found)
    assert matched is not None
    assert matched.expires == until
    if until is not None:
        assert load_known(path).match(found, today=until + timedelta(days=1)) is None
    with pytest.raises(UsageError, match="two entries have the id"):
        mark_known(path, found, cause=cause, evidence=evidence, until=None)


def test_what_is_marked_is_no_more_than_the_finding(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    path.write_text("schema = 1\n" + entry('family = "*"'))
    mark_known(path, wrong("sub.sat.s32"), cause="r", evidence="", until=None)
    assert load_known(path).match(CASE, today=DAY) is not None, "rows of schema 1 stay"
    with pytest.raises(UsageError, match="lack of a compiler or runner"):
        mark_known(path, changed(wrong("x"), runners=()), cause="r", evidence="", until=None)
    listed = Known(entries=load_known(path).entries[1:])
    same = wrong("sub.sat.s32", kind=Kind.DEVIATION)
    assert listed.match(same) is not None
    others = [
        wrong("sub.sat.s32", condition="in a loop of lanes"),
        wrong("sub.sat.s32", "add.s32"),
        wrong("sub.sat.s32", message="Internal error: C7600"),
        wrong("sub.s32"),
        wrong("sub.sat.s32", kind=Kind.CRASH),
    ]
    assert [listed.like(one) for one in others] == [None] * len(others)
    elsewhere = [
        wrong("sub.sat.s32", version="V12.9.86"),
        wrong("sub.sat.s32", level=2),
        wrong("sub.sat.s32", made=Making(runner="cuda", faults=("trans-lost",))),
        wrong("sub.sat.s32", made=Making(runner="cuda", ptx_pass="cat")),
        wrong("sub.sat.s32", made=Making(runner="./mine"), runner="mine"),
        changed(same, runners=(*same.runners, *wrong("x", version="V12.9.86").runners)),
    ]
    for one in elsewhere:
        assert listed.match(one) is None
        assert listed.like(one) is not None


@pytest.mark.parametrize(
    ("name", "known_as"),
    [
        ("a loop of lanes", None),
        ("branch or loop", None),
        ("scalar code that ends in lop3", None),
        ("wmma.mma m16n16k16 f16 f16", None),
        ("cvt.s64.u32", None),
        ("lop3.or.b32, xor.b32", "bf0d6aa8abc85ab0"),
    ],
)
def test_what_the_record_has_is_known_where_its_name_is_of_one_cause(
    name: str, known_as: str | None
) -> None:
    """One was known by "branch or loop and ...", which is all that is known of it (2026-11-26)."""
    device = "NVIDIA H200, driver 580.159.04, CUDA 13.0, PyCUDA 2026.1"
    own = RunnerVerdict(runner="cuda", version="1", outcome="violation", device=device)
    found = changed(
        wrong(*name.split(", ")),
        runners=(own,),
        details={"compiler": "the driver's compiler, -O3"},
    )
    matched = Known(recorded=recorded()).match(found)
    assert (matched and matched.id) == known_as
    elsewhere = changed(found, details={"compiler": "the driver's compiler, -O0"})
    assert Known(recorded=recorded()).match(elsewhere) is None


def test_another_fault_in_the_instruction_of_a_row_is_new() -> None:
    known = known_with(None)
    assert known.match(wrong("sub.sat.s32", version="V12.8.93")) is not None
    for other in (
        wrong("sub.sat.s32", condition="in a loop of lanes", version="V12.8.93"),
        wrong("sub.sat.s32", "shl.b32", version="V12.8.93"),
        wrong("sub.sat.s32", version="V13.0.88"),
        wrong("sub.sat.s32", version="V12.8.93", made=Making(runner="cuda", faults=("x",))),
    ):
        assert known.match(other) is None


def test_all_that_is_marked_at_once_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    found = [wrong("x", number=number) for number in range(8)]

    def mark(one: Finding) -> None:
        mark_known(path, one, cause="r", evidence="", until=None)

    with ThreadPoolExecutor(len(found)) as pool:
        list(pool.map(mark, found))
    assert sorted(entry.id for entry in load_known(path).entries) == [one.id for one in found]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("build", "holds"),
    [
        (Build("ptxas", "11.8.89", 1), True),
        (Build("ptxas", "13.5.37", 3), True),
        (Build("ptxas", "13.5.37 target=sm_90a", 3), True),
        (Build("ptxas", "13.5.37", 0), False),
        (Build("ptxas", "11.7.99", 1), False),
        (Build("ptxas", "13.6.1", 3), False),
        (Build("driver", "13.0", 0), True),
        (Build("driver", "13.1", 3), False),
        (Build("driver", "", 3), False),
        (Build("ptxas --fault x", "12.8.93", 3), False),
    ],
)
def test_a_row_is_of_the_builds_that_it_names(build: Build, holds: bool) -> None:
    spans = (
        '[{name = "ptxas", first = "11.8", last = "13.5", levels = [1, 2, 3]},'
        '{name = "driver", first = "13.0", last = "13.0"}]'
    )
    (one,) = known(row('["x"]', compilers=spans), schema=2).entries
    assert one.covers(build) is holds


@pytest.mark.parametrize(
    ("instructions", "names", "holds"),
    [
        ('["bfe.?64|bfi.b64"]', ("bfe.s64",), True),
        ('["bfe.?64|bfi.b64"]', ("bfi.b64",), True),
        ('["bfe.?64|bfi.b64"]', ("bfe.s32",), False),
        ('["bfe.*"]', ("bfe.s32", "shl.b32"), False),
        ('["bfe.*", "shl.*"]', ("shl.b32", "bfe.s32"), True),
        ('["bfe.*", "shl.*"]', ("bfe.s32", "bfe.u32"), False),
        ('["*"]', ("bfe.s32", "bfe.u32"), True),
        ("[]", (), True),
        ("[]", ("bfe.s32",), False),
    ],
)
def test_each_instruction_has_its_pattern(
    instructions: str, names: tuple[str, ...], holds: bool
) -> None:
    (one,) = known(row(instructions), schema=2).entries
    assert one.fits(wrong(*names)) is holds


def test_a_row_asks_for_all_that_it_has() -> None:
    listed = known(row('["x"]', condition="in a *", program="set.*", ptx_versions="<8.1"), schema=2)
    found = changed(wrong("x", condition="in a loop"), instructions=("mov.b32", "set.f32"))
    assert listed.match(found) is not None
    for other in (
        changed(found, instructions=("mov.b32",)),
        changed(found, ptx_version="8.1"),
        changed(wrong("x"), instructions=("set.f32",)),
    ):
        assert listed.match(other) is None


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        ('family = "wmma.load .b8"', True),
        ('family = "wmma.load*"', True),
        ('family = "wmma.load .?8"', True),
        ('family = "wmma.load"', False),
        ('family = "WMMA.load .b8"', False),
        ("family_regex = 'wmma\\.(load|store) \\.b\\d'", True),
        ("family_regex = 'wmma'", False),
        ('instruction = "wmma.load.a.*.b8 {*}, [%addr];"', True),
        ('instruction = "wmma.load.a.*.b8 {*}, [%ddra];"', False),
        ("instruction_regex = '.*\\.(b8|b16) .*'", True),
        ('family = "wmma.load*"\ninstruction = "*.b8 *"', True),
        ('family = "wmma.mma*"\ninstruction = "*.b8 *"', False),
        ('family = "*"\ntargets = ["sm_80", "sm_9*"]', True),
        ('family = "*"\ntargets = ["sm_80", "sm_9?a"]', False),
        ('family = "*"\nptx_versions = ">=7.8,<8.1"', True),
        ('family = "*"\nptx_versions = "<8.0"', False),
        ('family = "*"\nrunner = "made-up assembler"', True),
        ('family = "*"\nrunner = "ptxas"', False),
        ('family = "*"\nversions = ">=1.2,<1.3"', True),
        ('family = "*"\nversions = "<1.2"', False),
    ],
)
def test_all_that_is_given_has_to_fit(match: str, holds: bool) -> None:
    assert explained(match) is holds


def test_what_one_assembler_is_known_for_does_not_hide_another() -> None:
    match = 'family = "*"\nrunner = "ptxas"\nversions = ">=13"'
    assert explained(match, by(("ptxas", "V13.5.37")))
    assert explained(match, by(("ptxas", "V13.5.37"), ("ptxas", "V13.0.48")))
    assert not explained(match, by(("ptxas", "V13.5.37"), ("ptxas", "V12.8.93")))
    assert not explained(match, by(("ptxas", "V13.5.37"), ("another", "V13.5.37")))
    assert not explained(match, by())


def test_every_instruction_has_to_fit_where_that_is_asked() -> None:
    match = "instruction = 'set.f*'\nevery_instruction_regex = 'set\\.f.*|(?!set).*'"
    assert explained(match, changed(CASE, instructions=("mov.b32", "set.f32", "set.f16")))
    assert not explained(match, changed(CASE, instructions=("mov.b32", "set.f32", "set.u32")))
    assert not explained(match, changed(CASE, instructions=("mov.b32",)))


@given(text=st.text(st.characters(codec="utf-8", exclude_characters="*?"), min_size=1, max_size=9))
def test_a_pattern_without_wildcards_fits_its_own_text_alone(text: str) -> None:
    quoted = '"' + "".join(f"\\U{ord(sign):08x}" for sign in text) + '"'
    case = changed(CASE, key=text, instructions=(text,))
    assert explained(f"family = {quoted}\ninstruction = {quoted}", case)
    assert not explained(f"family = {quoted}", changed(case, key=text + "x"))


@given(days=st.integers(-400, 400))
def test_an_entry_holds_through_its_last_day_and_is_reported_after_it(days: int) -> None:
    listed = known(entry('family = "*"', more=f"expires = {DAY + timedelta(days=days)}"))
    holds = listed.match(CASE, today=DAY) is not None
    assert holds is (days >= 0)
    assert [one.id for one in listed.expired(today=DAY)] == ([] if holds else ["one"])


OLD, NEW = "schema = 1\n", "schema = 2\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("schema = ", "is not TOML"),
        ("\x00", "is not TOML"),
        ("", "schema None"),
        ("schema = 3", "schema 3"),
        (OLD + "knwon = 1", "here are knwon, schema"),
        (OLD + "known = 1", "for each row"),
        (OLD + "known = [1]", "entry 1: Expected `object`, got `int`"),
        (OLD + "[[known]]\nid = 'x'", r"entry 1 \(x\): .*missing required field `kind`"),
        (OLD + entry(""), r"entry 1 \(one\): it names neither .* in field match"),
        (OLD + entry("targets = ['sm_90']"), r"entry 1 \(one\): it names neither"),
        (OLD + entry("family = 'a'\nfamly = 'b'"), "unknown field `famly` in field match"),
        (OLD + entry("family = 1"), "got `int` in field match.family"),
        (OLD + entry("family_regex = '('"), r"'\(' is no regular expression"),
        (OLD + entry("family = 'a'\nversions = '12'"), "'12' is no range of versions"),
        (OLD + entry("family = 'a'\ncompilers = 'gcc >=4'"), "'gcc' is none of ptxas, driver"),
        (OLD + entry("family = ''"), "length >= 1 in field match.family"),
        (OLD + entry("family = 'a'", kind="odd"), "'odd' in field kind"),
        (OLD + entry("family = 'a'", more="expires = 'soon'"), "in field expires"),
        (OLD + entry("family = 'a'") + entry("family = 'b'"), "two entries have the id 'one'"),
        (NEW + "[[known]]\nid = 'x'", r"entry 1 \(x\): .*missing required field `failure`"),
        (NEW + row('["x"]', compilers="[]"), "length >= 1 in field compilers"),
        (NEW + row('["x"]').replace('evidence = "seen"', ""), "nothing shows it"),
        (NEW + row('["x"]', ptx_versions="8"), "'8' is no range of versions"),
        (NEW + row('["x"]', compilers="[{name = 'x', first = 'a'}]"), "'>=a' is no range"),
    ],
)
def test_a_mistake_is_named_with_file_entry_and_field(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        parse_known(text.encode(), "known.toml")
    assert str(caught.value).startswith("known.toml")
