"""A known discrepancy explains what it describes, as long as it holds, and nothing else."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path

import pytest
from corpus_cases import CASE, changed
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corpus import Case, Finding, Identity, Kind, Making, RunnerVerdict
from corpus.finding import Build
from corpus.known import Known, known_with, load_known, mark_known, parse_known, recorded
from oracle.errors import UsageError

DAY = date(2026, 11, 21)


_CUDA = Making(runner="cuda")


def known(*entries: str) -> Known:
    return parse_known(("schema = 2\n" + "".join(entries)).encode(), "known.toml")


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
    mark_known(path, wrong("sub.sat.s32"), cause="r", evidence="", until=None)
    with pytest.raises(UsageError, match="lack of a compiler or runner"):
        mark_known(path, changed(wrong("x"), runners=()), cause="r", evidence="", until=None)
    listed = load_known(path)
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
    (one,) = known(row('["x"]', compilers=spans)).entries
    assert one.covers(build) is holds


def test_what_two_rows_name_alike_is_known_as_the_one_of_its_build() -> None:
    spans = [f'[{{name = "ptxas", levels = [{level}]}}]' for level in (3, 0)]
    optimised, plain = (row('["x"]', compilers=span) for span in spans)
    listed = known(optimised, plain.replace('"one"', '"two"'))
    found = [listed.match(wrong("x", level=level)) for level in (3, 0, 1)]
    assert [one and one.id for one in found] == ["one", "two", None]


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
    (one,) = known(row(instructions)).entries
    assert one.fits(wrong(*names)) is holds


def test_a_row_asks_for_all_that_it_has() -> None:
    listed = known(row('["x"]', condition="in a *", program="set.*", ptx_versions="<8.1"))
    found = changed(wrong("x", condition="in a loop"), instructions=("mov.b32", "set.f32"))
    assert listed.match(found) is not None
    for other in (
        changed(found, instructions=("mov.b32",)),
        changed(found, ptx_version="8.1"),
        changed(wrong("x"), instructions=("set.f32",)),
    ):
        assert listed.match(other) is None


@given(days=st.integers(-400, 400))
def test_an_entry_holds_through_its_last_day_and_is_reported_after_it(days: int) -> None:
    listed = known(row('["x"]') + f"expires = {DAY + timedelta(days=days)}\n")
    holds = listed.match(wrong("x"), today=DAY) is not None
    assert holds is (days >= 0)
    assert [one.id for one in listed.expired(today=DAY)] == ([] if holds else ["one"])


HEAD = "schema = 2\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("schema = ", "is not TOML"),
        ("\x00", "is not TOML"),
        ("", "schema None"),
        ("schema = 1", "schema 1"),
        ("schema = 3", "schema 3"),
        (HEAD + "knwon = 1", "here are knwon, schema"),
        (HEAD + "known = 1", "for each row"),
        (HEAD + "known = [1]", "entry 1: Expected `object`, got `int`"),
        (HEAD + row('["x"]', colour="red"), "unknown field `colour`"),
        (HEAD + row("[1]"), r"entry 1 \(one\): .*got `int`"),
        (HEAD + row('["x"]', expires="soon"), "in field expires"),
        (HEAD + row('["x"]') + row('["y"]'), "two entries have the id 'one'"),
        (HEAD + "[[known]]\nid = 'x'", r"entry 1 \(x\): .*missing required field `failure`"),
        (HEAD + row('["x"]', compilers="[]"), "length >= 1 in field compilers"),
        (HEAD + row('["x"]').replace('evidence = "seen"', ""), "nothing shows it"),
        (HEAD + row('["x"]', ptx_versions="8"), "'8' is no range of versions"),
        (HEAD + row('["x"]', compilers="[{name = 'x', first = 'a'}]"), "'>=a' is no range"),
    ],
)
def test_a_mistake_is_named_with_file_entry_and_field(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        parse_known(text.encode(), "known.toml")
    assert str(caught.value).startswith("known.toml")
