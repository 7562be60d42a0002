"""Parts of the engine by themselves: states, folders, budgets, options, signs of life."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus import (
    Case,
    Corpus,
    Identity,
    Kind,
    RunnerVerdict,
    ShrinkStatus,
    create_corpus,
    durable,
)
from corpus.finding import KERNEL, WRONG_STEP, Making
from corpus.known import Known, KnownRow, VersionSpan
from fuzz.campaign.campaign import RoundQueue, check_options, limit_reached
from fuzz.campaign.pool import STAGES, WorkerHeartbeat, shared_heartbeats
from fuzz.campaign.store import (
    GRACE,
    STATISTICS,
    SUMMARY,
    Budget,
    CampaignStore,
    FamilyRecord,
    State,
    Triage,
    decode,
)
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import (
    Examination,
    Facts,
    Found,
    FoundState,
    RoundPlan,
    RoundReport,
    Stage,
)
from fuzz.findings.families import Bucket, FamilyState, stored_id
from fuzz.kinds import is_provisional
from fuzz.runner import RunnerChoice
from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.assembler import Assembler
from strategies.rounds import ProgramCoverage

TEXTS = st.text(max_size=20)
COUNTS = st.integers(0, 10**15)
FAMILIES = st.builds(
    FamilyRecord,
    kind=st.sampled_from(Kind),
    identity=st.builds(Identity.of, st.sampled_from(Kind), TEXTS.filter(bool), condition=TEXTS),
    builds=TEXTS,
    cases=COUNTS,
    id=TEXTS,
    confirmed=st.booleans(),
    finished=st.booleans(),
)  # fmt: skip
STATES = st.builds(
    State,
    options=st.dictionaries(TEXTS, TEXTS | COUNTS | st.none(), max_size=3),
    started=TEXTS,
    seconds=st.floats(0, 1e9),
    rounds=COUNTS,
    parts=st.dictionaries(COUNTS, COUNTS, max_size=3),
    whole=st.lists(COUNTS, max_size=3),
    skipped=st.dictionaries(COUNTS, TEXTS, max_size=2),
    cases=COUNTS,
    counts=st.dictionaries(TEXTS, st.dictionaries(TEXTS, COUNTS, max_size=3), max_size=3),
    families=st.lists(FAMILIES, max_size=3),
    tries=st.dictionaries(TEXTS, COUNTS, max_size=3),
)


@given(STATES)
def test_a_state_comes_back_from_json(state: State) -> None:
    assert decode(msgspec.json.encode(state)) == state


@given(STATES, st.floats(0, 1, exclude_max=True))
def test_no_part_of_a_state_passes_for_a_whole_one(state: State, share: float) -> None:
    data = msgspec.json.encode(state)
    with pytest.raises(ValueError, match=r"not whole|schema|is empty"):
        decode(data[: int(share * len(data))])


def some_state(cases: int) -> State:
    return State(options={}, started="now", cases=cases)


@pytest.mark.parametrize("step", ["write_file", "sync_folder"])
def test_a_full_disk_leaves_a_state_that_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with CampaignStore(tmp_path) as store:
        store.save(some_state(1))
        store.save(some_state(2))
        with monkeypatch.context() as patch:
            patch.setattr(durable, step, full)
            with pytest.raises(InfrastructureError, match="quota is full; free some space"):
                store.save(some_state(3))
        loaded = store.load()
        assert loaded is not None
        assert loaded.cases in ((2,) if step == "write_file" else (2, 3))


def test_a_folder_whose_name_is_no_text_has_figures_that_are(tmp_path: Path) -> None:
    """The first finding of a campaign there was an internal error (2026-11-24)."""
    with CampaignStore(tmp_path) as store:
        store.summarise({"path": "a\udcff"})
        store.record({"path": "a\udcff"})
        for name in (SUMMARY, STATISTICS):
            assert json.loads((store.folder / name).read_text()) == {"path": "a?"}


def test_a_line_of_statistics_that_was_cut_off_spoils_no_other(tmp_path: Path) -> None:
    with CampaignStore(tmp_path) as store:
        store.record({"a": 1})
        path = store.folder / STATISTICS
        path.write_bytes(path.read_bytes() + b'{"half')
        store.record({"a": 2})
    lines = path.read_text().splitlines()
    assert [json.loads(line) for line in (lines[0], lines[2])] == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (Budget(), ""),
        (Budget(seconds=10, cases=100, findings=3, quiet=5), ""),
        (Budget(seconds=9), "budget spent"),
        (Budget(cases=99), "budget spent"),
        (Budget(findings=2), "2 families found"),
        (Budget(quiet=4), "nothing new for 4 s"),
    ],
)
def test_whichever_limit_is_reached_ends_a_campaign(budget: Budget, reason: str) -> None:
    assert limit_reached(budget, 9, 99, found=2, quiet=4) == reason


def test_the_options_that_differ_are_named_and_no_others() -> None:
    check = Programs(choice=RunnerChoice(name="sim"), seed=1)
    facts = Facts(target="sm_90", ptx_version="8.0", version="1", device="a device")
    before = check.options(facts)
    check_options(before, before)
    check_options(json.loads(json.dumps(before)), before)
    with pytest.raises(UsageError, match=r"begun with --seed 1 \(now 2\); resume"):
        check_options(before, replace(check, seed=2).options(facts))


def test_a_sign_of_life_says_what_is_done_and_for_how_long() -> None:
    heartbeats = shared_heartbeats(2)
    heartbeat = WorkerHeartbeat(heartbeats, 1)
    heartbeat.enter(Stage.ORACLE, round=7)
    heartbeat.count(12)
    heartbeat.enter(Stage.COMPARE)
    other, row = heartbeats.rows
    assert (STAGES[row["stage"]], row["round"], row["cases"]) == (Stage.COMPARE, 7, 12)
    spent = row["spent"][STAGES.index(Stage.ORACLE)]
    assert spent > 0
    assert other["written"] == 0
    # Who takes the place of one that was killed goes on with its figures.
    WorkerHeartbeat(heartbeats, 1)
    assert (row["cases"], row["spent"][STAGES.index(Stage.ORACLE)]) == (12, spent)
    assert not heartbeat.interrupted
    heartbeats.flag[0] = 1
    assert heartbeat.interrupted
    os.close(heartbeats.descriptor)


def test_options_of_a_finding_do_not_name_the_folders_of_a_machine() -> None:
    one, other = (
        RunnerChoice(
            name="cuda",
            assembler=Assembler(path=Path(folder) / "ptxas"),
            ptx_pass=f"{folder}/python {folder}/pass.py --twice",
            level=3,
        )
        for folder in ("/opt/one", "tools/other")
    )
    assert one.options == other.options
    assert one.options == "--ptx-pass 'python pass.py --twice' --opt 3 --assembler ptxas"


def test_a_provisional_family_is_confirmed_ever_more_rarely_and_never_for_the_last_time(
    tmp_path: Path,
) -> None:
    triage = Triage(
        corpus=create_corpus(tmp_path / "found", generator="test"),
        known=Known(entries=()),
        shrinks=lambda _: False,
    )
    bucket = Bucket.of(Kind.VIOLATION, "provisional")
    confirmed = []
    for met in range(1, 65):
        if bucket.key not in triage.settled:
            confirmed.append(met)
            triage.turned[bucket.key] = "violation/what it is"
            triage.tries[bucket.key] = len(confirmed)
        triage.suspect(Found(bucket=bucket))
    assert confirmed == [1, 2, 4, 8, 16, 32, 64]


def test_of_what_looks_alike_some_wait_on_the_disk_and_the_others_are_met_again(
    tmp_path: Path,
) -> None:
    corpus = create_corpus(tmp_path / "found", generator="test")
    triage = Triage(corpus=corpus, known=Known(entries=()), shrinks=lambda _: False)

    def suspect(number: int, title: str = "wmma.mma m16n16k16") -> bool:
        bucket = Bucket.of(Kind.VIOLATION, f"{title} {number}")
        case = Case(
            kind=Kind.VIOLATION, identity=bucket.identity, instructions=(f"wmma.mma {number};",),
            target="sm_90", ptx_version="8.0",
            runners=(RunnerVerdict(runner="sim", version="1", outcome="violation"),),
        )  # fmt: skip
        return triage.suspect(Found(bucket=bucket, case=case, cases=2))

    stored = [suspect(number) for number in range(100)]
    assert stored == [True] * 32 + [False] * 68
    assert len([*corpus.entries()]) == 32
    assert triage.unstored == 68
    assert suspect(0, "mma.sync m16n8k8"), "another instruction is stored all the same"
    next(iter(triage.members.values())).finished = True
    assert suspect(99), "there is room for one"
    last = Bucket.of(Kind.VIOLATION, "wmma.mma m16n16k16 99")
    assert triage.members[last.key].cases == 4, "none is forgotten"
    assert triage.unstored == 67


def waiting_in(triage: Triage, corpus: Corpus, confirmed: Sequence[bool]) -> list[Bucket]:
    """Have families wait, some of which were replayed; return their buckets."""
    buckets = [Bucket.of(Kind.VIOLATION, f"{number}") for number in range(len(confirmed))]
    for bucket, done in zip(buckets, confirmed, strict=True):
        case = Case(
            kind=Kind.VIOLATION, identity=bucket.identity, target="sm_90", ptx_version="8.0",
            instructions=(f"wmma.mma {bucket.key};",),
        )  # fmt: skip
        triage.members[bucket.key] = FamilyState(
            bucket=bucket, case=case, saved=corpus.add(case, {}), confirmed=done
        )
    return buckets


@given(confirmed=st.lists(st.booleans(), max_size=6), hands=st.integers(1, 6))
def test_replays_come_first_and_one_of_several_hands_makes_findings_smaller(
    confirmed: list[bool], hands: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    corpus = create_corpus(tmp_path_factory.mktemp("found") / "here", generator="test")
    triage = Triage(corpus=corpus, known=Known(entries=()), shrinks=lambda _: True)
    waiting_in(triage, corpus, confirmed)
    shrinking = []
    for _ in range(hands):
        assert len(triage.waiting_for(ending=False)) == len(confirmed) - len(shrinking)
        if (job := triage.next_job(1.0)) is not None:
            shrinking.append(job.seconds is not None)
    # The second hand makes one smaller while another is replayed; all others replay first.
    replays, smaller = confirmed.count(False), confirmed.count(True)
    order = [False] * replays + [True] * smaller
    if replays and smaller:
        order = [False, True, *order[1:replays], *order[replays + 1 :]]
    assert shrinking == order[:hands]


def test_what_has_its_name_is_made_smaller_last(tmp_path: Path) -> None:
    """That takes longest and names nothing: of a campaign's findings 20 waited for a replay."""
    corpus = create_corpus(tmp_path / "here", generator="test")
    triage = Triage(corpus=corpus, known=Known(entries=()), shrinks=lambda _: True)
    named, met, unnamed, new = waiting_in(triage, corpus, [True, False, True, False])
    case = triage.members[named.key].case
    told = msgspec.structs.replace(case, details={WRONG_STEP: "wmma.mma"})
    triage.members[named.key].case = told
    triage.tries[met.key] = 2
    for ending, order in ((False, (new, unnamed, met, named)), (True, (new, met, unnamed, named))):
        jobs = [triage.next_job(1.0, ending=ending) for _ in order]
        assert [job.bucket for job in jobs if job is not None] == [*order]
        triage._examined.clear()


def test_lines_without_a_small_case_are_made_smaller_first(tmp_path: Path) -> None:
    """A line has cases of several builds and verdicts; one small one tells what it is."""
    corpus = create_corpus(tmp_path / "here", generator="test")
    triage = Triage(corpus=corpus, known=Known(entries=()), shrinks=lambda _: True)
    small, other, alone, suspect = waiting_in(triage, corpus, [True, True, True, False])
    first, second = triage.members[small.key], triage.members[other.key]
    first.case = msgspec.structs.replace(first.case, shrink=ShrinkStatus.CAPPED)
    first.finished = True
    second.case = msgspec.structs.replace(second.case, identity=first.case.identity)
    for ending, order in ((False, (suspect, alone, other)), (True, (suspect, alone, other))):
        jobs = [triage.next_job(1.0, ending=ending) for _ in order]
        assert [job.bucket for job in jobs if job is not None] == [*order]
        triage._examined.clear()
    first.finished = False
    jobs = [triage.next_job(1.0, ending=True) for _ in range(4)]
    assert [job.bucket for job in jobs if job is not None] == [suspect, small, alone, other]


def test_what_a_worse_one_stands_for_is_made_smaller_when_rounds_have_ended(
    tmp_path: Path,
) -> None:
    """A line shows the violation of several verdicts; a deviation beside it took 30 s of a core."""
    corpus = create_corpus(tmp_path / "here", generator="test")
    triage = Triage(corpus=corpus, known=Known(entries=()), shrinks=lambda _: True)
    milder, worse = waiting_in(triage, corpus, [True, True])
    there = triage.members[milder.key]
    there.case = msgspec.structs.replace(
        triage.members[worse.key].case, kind=Kind.DEVIATION, details={WRONG_STEP: "wmma.mma"}
    )
    for ending, order in ((False, [worse]), (True, [worse, milder])):
        jobs = [triage.next_job(1.0, ending=ending) for _ in range(2)]
        assert sorted(job.bucket.key for job in jobs if job) == sorted(one.key for one in order)
        triage._examined.clear()
    # What no experiment has named may be something else.
    there.case = msgspec.structs.replace(there.case, details={})
    assert len(triage.waiting_for(ending=False)) == 2


@given(tries=st.lists(st.integers(1, 4), max_size=6), hands=st.integers(1, 6))
def test_what_looks_new_comes_first_and_until_the_end_one_alone_of_what_was_met_before(
    tries: list[int], hands: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    corpus = create_corpus(tmp_path_factory.mktemp("found") / "here", generator="test")
    triage = Triage(corpus=corpus, known=Known(entries=()), shrinks=lambda _: True)
    buckets = waiting_in(triage, corpus, [False] * len(tries))
    triage.tries = {one.key: times for one, times in zip(buckets, tries, strict=True)}
    before = {one.key for one, times in zip(buckets, tries, strict=True) if times > 1}
    given = [job.bucket.key for _ in range(hands) if (job := triage.next_job(1.0)) is not None]
    new = [one.key for one in buckets if one.key not in before]
    assert given[: len(new)] == new[:hands]
    assert len(given) == min(hands, len(new) + bool(before))
    while (job := triage.next_job(1.0, ending=True)) is not None:
        given.append(job.bucket.key)
    assert sorted(given) == sorted(one.key for one in buckets)


def of_sim(
    name: str, text: str, status: ShrinkStatus = ShrinkStatus.RAW, *, kernel: int = 0
) -> Found:
    """Return a wrong result of the simulated device that was replayed, or made smaller."""
    bucket = Bucket.of(Kind.VIOLATION, name)
    case = Case(
        kind=Kind.VIOLATION, identity=bucket.identity, instructions=(text,), target="sm_90",
        ptx_version="8.0", made=Making(runner="sim"), shrink=status,
        runners=(RunnerVerdict(runner="sim", version="1", outcome="violation"),),
    )  # fmt: skip
    files = {"module.ptx": text.encode(), **({KERNEL: b"\n" * kernel} if kernel else {})}
    return Found(bucket=bucket, case=case, files=files, state=FoundState.REPLAYED)


def test_a_long_kernel_is_made_shorter_while_that_helps_and_nothing_else_waits(
    tmp_path: Path,
) -> None:
    corpus = create_corpus(tmp_path / "here", generator="test")
    triage = Triage(corpus=corpus, known=Known(), shrinks=lambda _: True)

    def given() -> Examination:
        job = triage.next_job(GRACE + 1)
        assert job is not None
        return job

    triage.suspect(replace(of_sim("long", "mma, mma;"), state=FoundState.RAW))
    triage.examined(given(), of_sim("long", "mma, mma;"))
    first = given()
    assert (first.seconds, triage.waiting) == (GRACE + 1, 1)
    triage.examined(first, of_sim("long", "mma, m;", ShrinkStatus.CAPPED, kernel=302))
    assert (triage.waiting, triage.next_job(GRACE)) == (0, None)
    assert triage.next_job(GRACE + 1, ending=True) is None, "the end of a campaign waits for none"
    again = given()
    assert again.seconds == 1.0
    triage.suspect(replace(of_sim("new", "m;"), state=FoundState.RAW))
    assert given().bucket.identity.instructions == ("new",)
    triage.examined(again, of_sim("long", "m, m;", ShrinkStatus.CAPPED, kernel=139))
    triage.examined(given(), of_sim("long", "m, 1;", ShrinkStatus.CAPPED, kernel=139))
    assert [one.case.text for one in triage.announced] == ["m, m;"], "no shorter: as it was"
    assert triage.next_job(GRACE + 1) is None
    (long,) = (one for one in triage.members.values() if one.finished)
    triage.by_name.append(long)
    triage.examined(given(), of_sim("long", "1;", ShrinkStatus.CAPPED, kernel=60))
    assert [one.case.text for one in triage.announced] == ["1;"]
    assert triage.next_job(GRACE + 1) is None, "a person can read it"


def test_what_is_known_by_its_name_is_made_smaller_once_and_when_nothing_else_waits(
    tmp_path: Path,
) -> None:
    corpus = create_corpus(tmp_path / "here", generator="test")
    known = {"short": "mma;", "long": "mma, mma;", "small": "m;", "twin": "mma, m"}
    texts = {**known, "new": "mma, m;", "one": "1;", "two": "2;"}
    rows = [
        KnownRow(
            id=name, failure="wrong result", instructions=(name,), cause="planted",
            compilers=(VersionSpan(name="sim"),), evidence="planted",
            finding="a small one" * (name == "small"),
        )
        for name in known
    ]  # fmt: skip

    def opened() -> Triage:
        return Triage(corpus=corpus, known=Known(entries=tuple(rows)), shrinks=lambda _: True)

    triage = opened()

    def comes_up(name: str) -> None:
        triage.suspect(replace(of_sim(name, texts[name]), state=FoundState.RAW))

    def given() -> Examination:
        job = triage.next_job(GRACE + 1)
        assert job is not None
        return job

    for name in known:
        comes_up(name)
        triage.examined(given(), of_sim(name, texts[name]))
        assert triage.next_job(GRACE) is None, "there is no time for it"
    assert [one.case.text for one in triage.announced] == [*known.values()]
    assert (triage.waiting, triage.shrinking, triage.waiting_for(ending=True)) == (0, [], [])
    long = given()
    assert (long.bucket, long.seconds) == (of_sim("long", "mma;").bucket, 1.0)
    assert triage.next_job(GRACE + 1) is None, "one at a time"
    # Meanwhile others are examined as ever: one hand replays, and another one makes smaller.
    comes_up("new")
    triage.examined(given(), of_sim("new", texts["new"]))
    comes_up("one")
    comes_up("two")
    triage.tries.update({long.bucket.key: 2, of_sim("one", "1;").bucket.key: 2})
    jobs = [given() for _ in range(3)]
    assert [job.seconds for job in jobs] == [None, GRACE + 1, None]
    for job in jobs:
        triage.examined(job, Found(bucket=job.bucket, state=FoundState.GONE))
    triage.examined(long, of_sim("long", "m", ShrinkStatus.COMPLETE))
    triage.examined(given(), of_sim("twin", "m", ShrinkStatus.COMPLETE))
    assert [one.cases for one in triage.announced] == [1, 2, 1], "two are the same when smaller"
    # What has another name when it is smaller stays as it is.
    short = given()
    assert short.bucket == of_sim("short", "mma;").bucket
    triage.examined(short, of_sim("small", "m, m;", ShrinkStatus.COMPLETE))
    assert triage.next_job(GRACE + 1) is None, "once"
    left = [texts["short"], "m", texts["small"]]
    assert [one.case.text for one in triage.announced] == left
    triage.sweep()
    assert sorted(entry.finding.text for entry in corpus.entries()) == sorted(left)
    # A resumption tries once more what is as long as it was, here while its folder is removed.
    records, triage = triage.records(), opened()
    triage.restore(records)
    job = given()
    corpus.remove(corpus.get(job.id))
    triage.examined(job, of_sim("short", "m, m;", ShrinkStatus.COMPLETE))
    assert triage.next_job(GRACE + 1) is None
    assert [one.case.text for one in triage.announced] == left


@pytest.mark.parametrize("skip", [0, 30])
@pytest.mark.parametrize("left", [None, 1, 69, 70, 99, 100, 129, 130, 500])
def test_a_round_is_limited_where_the_budget_ends_inside_of_what_is_left_of_it(
    left: int | None, skip: int
) -> None:
    state = State(options={}, started="", parts={0: skip} if skip else {})
    rounds = RoundQueue(state)
    job = rounds.job(left, lambda _: RoundPlan(round=0, work=None, cases=100), frozenset())
    assert (job.number, job.skip) == (0, skip)
    assert job.limit == (left if left is not None and left < 100 - skip else None)


@pytest.mark.parametrize("left", [None, 500])
def test_a_slow_round_holds_up_others_only_where_cases_are_counted_out(left: int | None) -> None:
    state = State(options={}, started="")
    rounds = RoundQueue(state)
    jobs = [
        rounds.job(left, lambda number: RoundPlan(round=number, work=None, cases=100), frozenset())
        for _ in range(3)
    ]
    for number in (2, 0, 1):
        rounds.finished(
            RoundReport(number=number, skip=0, coverage=ProgramCoverage(), complete=True, cases=100)
        )
        counted = [one.number for one in rounds.ready(lambda: left, frozenset())]
        assert counted == ([number] if left is None else [[], [0], [1, 2]][(2, 0, 1).index(number)])
    assert [job and job.number for job in jobs] == [0, 1, 2]
    assert (state.rounds, state.whole, rounds.held) == (3, [], 0)


@pytest.mark.parametrize("provisional", [False, True])
def test_a_family_is_as_provisional_after_a_resumption_as_its_finding_is(
    tmp_path: Path, provisional: bool
) -> None:
    corpus = create_corpus(tmp_path / "found", generator="test")
    details = {} if provisional else {WRONG_STEP: "wmma.mma"}
    case = Case(
        kind=Kind.VIOLATION, identity=Identity.of(Kind.VIOLATION, "k"),
        instructions=("wmma.mma;",),
        target="sm_90", ptx_version="8.0", details=details,
    )  # fmt: skip
    stored = corpus.add(case, {}).id
    records = [
        FamilyRecord(
            kind=Kind.VIOLATION, identity=Identity.of(Kind.VIOLATION, name), cases=1, id=id_
        )
        for name, id_ in (("k", stored), ("lost", "0" * 16))
    ]
    triage = Triage(corpus=corpus, known=Known(entries=()), shrinks=lambda _: False)
    triage.restore(records)
    states = dict(triage.members)
    assert {key: is_provisional(state.case) for key, state in states.items()} == {
        "violation | wrong result | k": provisional,  # what is no longer there is found again
    }  # fmt: skip
    assert [stored_id(state) for state in states.values()] == [stored]
