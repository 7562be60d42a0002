"""What a campaign has found (`Triage`), and its folder in the corpus, from which it goes on.

campaign/state.json        what `--resume` goes on from; replaced as a whole
campaign/statistics.jsonl  a line of figures every few seconds
campaign/summary.json      the figures of now; its time of change is a heartbeat
campaign/lock              held by the process that runs the campaign
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from corpus import BrokenEntryError, Case, Corpus, Identity, Kind, Saved, ShrinkStatus, durable
from corpus.durable import open_plain, read_plain
from corpus.finding import KERNEL
from corpus.known import Known, KnownRow
from fuzz.checks.protocol import Examination, Found, FoundState
from fuzz.findings.families import Bucket, FamilyState, behind_worse, group_name, stored_id
from fuzz.kinds import is_provisional
from oracle.errors import InfrastructureError, UsageError
from runners.protocol import ClosedAtTheEnd
from strategies.rounds import LONGEST_EPOCH

SCHEMA = 3  # version of `state.json` that this module writes
MOST = 2**63 - 1  # the largest number that a state has
Count = Annotated[int, Meta(ge=0, le=MOST)]  # a count, in 64 bits: a state may come from anybody
_Seconds = Annotated[float, Meta(ge=0)]
MOST_EVENTS = 200  # latest changes of a fleet that a state keeps: more than anybody reads
_STATE_BYTES = 256 << 20
"""Most bytes of a state: 100,000 families, which no person would read, take half of it."""
_MOST_WHOLE = 2 * LONGEST_EPOCH  # rounds that are given at once at most
FOLDER, STATE, ABANDONED = "campaign", "state.json", "state.abandoned.json"
STATISTICS, SUMMARY, LOCK = "statistics.jsonl", "summary.json", "lock"


class FamilyRecord(Struct, kw_only=True, forbid_unknown_fields=True):
    """A family of findings, as `fuzz.findings.families.FamilyState` has it."""

    kind: Kind
    identity: Identity
    builds: str = ""
    id: str
    cases: Count
    new: bool = True
    confirmed: bool = False
    finished: bool = False


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of a campaign; whichever is reached first ends it. None: no such limit."""

    seconds: _Seconds | None = None
    cases: Count | None = None
    findings: Count | None = None  # families that nobody has explained yet
    quiet: _Seconds | None = None
    """Seconds without anything new: a family, or something reached for the first time."""


class HostRecord(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a host of a fleet has lost, and what came back."""

    nodes_lost: Count = 0
    nodes_back: Count = 0
    actors_lost: Count = 0
    actors_back: Count = 0


class State(Struct, kw_only=True, forbid_unknown_fields=True):
    """A campaign at a moment at which everything that it found is stored."""

    schema: int = SCHEMA
    options: dict[str, str | int | float | bool | list[str] | None]
    asked: dict[str, Any] = {}  # options of `warpfuzz run`, which a resumption takes over
    started: str
    seconds: Annotated[float, Meta(ge=0, le=1e10)] = 0.0  # it ran, over all resumptions
    limits: Budget = Budget()
    """Limits of the last run, which a resumption without limits of its own takes over."""
    ended: str = ""  # why it ended; empty while it goes on, and if it was killed
    rounds: Count = 0  # those before this one are committed
    parts: dict[Count, Count] = {}  # rounds from there on that were begun: cases committed
    whole: Annotated[list[Count], Meta(max_length=_MOST_WHOLE)] = []
    """Rounds from there on that are committed."""
    skipped: dict[Count, str] = {}
    cases: Count = 0
    compared: Count = 0
    answered: Count = 0
    failed: Count = 0
    unasked: Count = 0
    gone: Count = 0
    counts: dict[str, Any] = {}  # `nested` counters of the check
    coverage: dict[str, Any] = {}
    families: list[FamilyRecord] = []
    tries: dict[str, Count] = {}  # by the key of a family: how often it was to be confirmed
    hosts: dict[str, HostRecord] = {}
    events: Annotated[list[dict[str, str | int]], Meta(max_length=MOST_EVENTS)] = []
    """The latest nodes and actors of a fleet that went or came, as JSON objects."""
    turned: dict[str, str] = {}
    """From the key of a family that was not confirmed to that of the family it turned out to be."""
    doomed: list[str] = []
    """Ids of findings that a resumption removes if they are there: they were about to be stored and
    counted, or to be removed because their family turned out to be another one."""


def decode(data: bytes) -> State:
    """Return the state that JSON describes; ValueError if it is cut off, or of another schema."""
    if not data.strip(b"\0"):
        raise ValueError("it is empty: what the campaign had reached since is lost")
    try:
        head = msgspec.json.decode(data)
        found = head.get("schema") if isinstance(head, dict) else None
        if found != SCHEMA:
            raise ValueError(f"its schema is {found!r:.80}, and this warpfuzz knows {SCHEMA}")
        state = msgspec.json.decode(data, type=State)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is not whole: {error!s:.300}") from error
    return state


def _encoded(figures: object) -> bytes:
    try:
        return msgspec.json.encode(figures)
    except UnicodeEncodeError:
        # The name of a folder need not be text, and no JSON reader takes what Python makes of it.
        return json.dumps(msgspec.to_builtins(figures), ensure_ascii=False).encode(errors="replace")


def holds_campaign(corpus: Path) -> bool:
    """Whether a corpus holds the state of a campaign, whatever can be done with it."""
    return os.path.lexists(corpus / FOLDER / STATE)


class CampaignStore(ClosedAtTheEnd):
    """The folder of a campaign, locked as long as this is open.

    Raises InfrastructureError if another process runs a campaign there, or nothing can be written.
    """

    def __init__(self, corpus: Path) -> None:
        self.folder = corpus / FOLDER
        with durable.explained("write to", self.folder):
            durable.make_folder(self.folder)
            self._lock = open_plain(self.folder / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            self._take()
            with durable.explained("write to", self.folder):
                durable.sweep(self.folder)
        except BaseException:
            os.close(self._lock)
            raise

    def _take(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self._lock, 32, 0).decode(errors="replace").strip()
            raise InfrastructureError(
                f"a campaign runs in {self.folder.parent} already"
                f"{f' (process {owner})' if owner else ''}; wait for it, end it, or give this one "
                "another folder (--corpus) and merge them later (`warpfuzz corpus merge INTO FROM`)"
            ) from None
        except OSError:
            # A file system without locks: one campaign at a time is up to the user.
            return
        # A full disk is found out, and told, by what has to be written.
        with suppress(OSError):
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """Release the lock."""
        os.close(self._lock)

    def load(self) -> State | None:
        """Return the state, if there is one; InfrastructureError if it cannot be used."""
        path = self.folder / STATE
        with durable.explained("read", path):
            try:
                data = read_plain(path, most=_STATE_BYTES)
            except FileNotFoundError:
                return None
        try:
            return decode(data)
        except ValueError as error:
            raise InfrastructureError(
                f"{path} cannot be used: {error}; --new in place of --resume begins another there "
                "(the findings stay)"
            ) from None

    def save(self, state: State) -> None:
        """Replace the state; killed at any moment or not written, the old one stays."""
        path = self.folder / STATE
        with durable.explained("keep the state of the campaign in", path):
            durable.replace_file(path, msgspec.json.encode(state) + b"\n", self.folder)

    def abandon(self) -> bool:
        """Put the state of a campaign aside; tell whether there was one."""
        with durable.explained("move", self.folder / STATE), suppress(FileNotFoundError):
            (self.folder / STATE).replace(self.folder / ABANDONED)
            return True
        return False

    def forget(self) -> None:
        """Remove the state, statistics and summary of a campaign."""
        with durable.explained("remove", self.folder):
            for name in (STATE, STATISTICS, SUMMARY):
                with suppress(FileNotFoundError):
                    (self.folder / name).unlink()

    def summarise(self, summary: object) -> None:
        """Replace the summary."""
        data = msgspec.json.format(_encoded(summary), indent=2) + b"\n"
        path = self.folder / SUMMARY
        with durable.explained("write", path):
            durable.replace_file(path, data, self.folder)

    def record(self, figures: object) -> None:
        """Add a line to the statistics; a line that was cut off by a kill is ended first."""
        line = _encoded(figures) + b"\n"
        path = self.folder / STATISTICS
        with (
            durable.explained("write", path),
            os.fdopen(open_plain(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "ab+") as file,
        ):
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    line = b"\n" + line
            file.write(line)


# Families of findings: stored raw when a suspect comes up, then replayed, then made smaller

_FOR_GOOD = 64  # Confirmations after which a family is only counted: none is met twice as often
_NOTHING = ""  # key in place of a family's: the suspect did not differ when it was replayed
_WAITING_ALIKE = 32
"""Findings alike that wait at most: most are of one cause, 40 KiB each on the disk."""
_EXAMINATIONS = 2  # workers that may die over a finding before it is left as it is
_READABLE = 60  # lines of a kernel that a person reads, and sends to a vendor
GRACE = 20.0  # behind `--time`, for replaying findings and making them smaller, on all workers


class Triage:
    """The families of a campaign; `shrinks`: whether a confirmed finding is to be made smaller."""

    def __init__(self, *, corpus: Corpus, known: Known, shrinks: Callable[[Case], bool]) -> None:
        self.corpus, self.known, self.shrinks = corpus, known, shrinks
        self.gone = 0  # cases that differed once and did not when they were replayed
        self.announced: list[FamilyState] = []
        """Families with which nothing more is to be done, in that order."""
        self.tries: dict[str, int] = {}
        """By the key of the family that the first run fell into: how often it was confirmed."""
        self.met: dict[str, int] = {}
        """By that key: rounds in which it came up, since the campaign was begun or resumed."""
        self.turned: dict[str, str] = {}  # from that key to the key of the family after shrinking
        self.members: dict[str, FamilyState] = {}  # the families by key, as they came up
        self.by_name: list[FamilyState] = []
        """Families announced whose kernels are long, or known by a row without a small case."""
        self.passed: dict[str, int] = {}
        """Cases by the key of their family that were not stored, because many like them wait: the
        next case of the family is looked at again."""
        self.doomed: list[str] = []
        """Ids of findings that `sweep` removes: their families turned out to be others."""
        self._examined: dict[str, str] = {}
        """By the id of a finding that is being examined: the key of its family."""

    @property
    def confirmed(self) -> list[FamilyState]:
        """Families of which a case was replayed."""
        return [one for one in self.members.values() if one.confirmed or one.finished]

    @property
    def shrinking(self) -> list[FamilyState]:
        """Families of which a case was replayed and is still to be made smaller."""
        return [one for one in self.members.values() if one.confirmed and not one.finished]

    @property
    def settled(self) -> frozenset[str]:
        """Keys of families of which no further case is needed."""
        tired = (key for key in self.turned if self._tired(key))
        return frozenset((*self.members, *tired))

    def _tired(self, key: str) -> bool:
        """Whether cases of a provisional family are counted with what it turned out to be.

        It is confirmed the first time that it comes up, the second, the fourth, the eighth and so
        on: what costs most is bounded, and another cause behind the same looks comes up in the end.
        What is known is never counted so: each case has to show by itself that it is that.
        """
        there = self.members.get(self.turned.get(key, ""))
        known = there is not None and there.known is not None
        return not known and self.met.get(key, 0) + 1 < 2 ** self.tries.get(key, 0)

    @property
    def waiting(self) -> int:
        """Findings that wait to be examined, or are being examined."""
        return sum(not member.finished for member in self.members.values())

    @property
    def suspects(self) -> list[FamilyState]:
        """Families of which no case was replayed yet, but for those that `end` has announced."""
        done = {id(one) for one in (*self.confirmed, *self.announced)}
        return [one for one in self.members.values() if id(one) not in done]

    def suspect(self, suspect: Found) -> bool:
        """Take in what differs in a round; when this returns, it is stored.

        Returns whether the family is new. Raises InfrastructureError if it cannot be stored; the
        family is there all the same.
        """
        key, case = suspect.bucket.key, suspect.case
        if key in self.members:
            member = self.members[key]
            member.cases += suspect.cases
            if suspect.state is FoundState.REPLAYED and case is not None:
                self.corpus.learn(case, suspect.files)
            return False
        if self.turned.get(key) == _NOTHING:
            self.gone += suspect.cases
            return False
        turned = self.members.get(self.turned.get(key, ""))
        tired = self._tired(key)
        if case is not None and not tired and suspect.is_raw:
            waiting = [one.case for one in self.members.values() if not one.finished]
            if sum(_look(one) == _look(case) for one in waiting) >= _WAITING_ALIKE:
                self.passed[key] = self.passed.get(key, 0) + suspect.cases
                return False
        self.met[key] = self.met.get(key, 0) + 1
        if turned is not None and (tired or case is None):
            turned.cases += suspect.cases
            return False
        if case is None:
            return False
        self.tries[key] = self.tries.get(key, 0) + 1
        # What was not compiled was compiled again by itself before (`Rounds`).
        suspected = suspect.is_raw and case.kind is not Kind.COMPILE_FAILURE
        case = msgspec.structs.replace(case, suspected=suspected)
        cases = suspect.cases + self.passed.pop(key, 0)
        member = self._member(suspect.bucket, case, cases, suspect.files)
        if not suspect.is_raw:
            member.confirmed = True
            self._finish(member)
        return True

    @property
    def unstored(self) -> int:
        """Families of which a case was not stored, because many like it waited, and none since."""
        return len(self.passed.keys() - self.members.keys() - self.turned.keys())

    def about_to_store(self, suspects: Iterable[Found]) -> list[str]:
        """Return the ids of the raw findings that `suspect` may add to the corpus.

        A state that names them before lets the resumption of a campaign that is killed meanwhile
        remove them: their round is carried out again and finds them again, or knows better.
        """
        identities = (
            self.corpus.identity(one.case, one.files)
            for one in suspects
            if one.case is not None and one.bucket.key not in self.members and one.is_raw
        )
        return [identity for identity in identities if self.corpus.sound(identity) is None]

    def _member(
        self, bucket: Bucket, case: Case, cases: int, files: Mapping[str, bytes] | None = None
    ) -> FamilyState:
        """Begin a family; with files, its case is stored."""
        member = self.members[bucket.key] = FamilyState(bucket=bucket, case=case, cases=cases)
        member.known, member.like = self.known.match(case), self.known.like(case)
        if files is not None:
            member.saved = self.corpus.add(member.case, files)
            member.new = member.saved.new
        return member

    def _met_before(self, key: str) -> bool:
        """Whether a finding with such looks was examined before, and was given its name."""
        return self.tries.get(key, 0) > 1

    def waiting_for(self, *, ending: bool) -> list[FamilyState]:
        """Return what may be examined now: until the end, one alone of what was met before.

        Most of that has a cause that is there already, and comes up again and again. If there is
        nothing else to be given, one of `by_name`, with the longest instructions.
        """
        busy = {*self._examined.values()}
        free = [
            one
            for key, one in self.members.items()
            if not one.finished and one.saved is not None and key not in busy
        ]
        if ending:
            return free
        # What another stands for in its line is made smaller once no more rounds are wanted.
        behind = {*map(id, behind_worse(self.confirmed))}
        free, by_name = ([x for x in some if id(x) not in behind] for some in (free, self.by_name))
        new = [one for one in free if not self._met_before(one.bucket.key)]
        again = [one for one in free if self._met_before(one.bucket.key)]
        known = {key for key in busy if (one := self.members.get(key)) and one.finished}
        now = [*new, *again[: not any(map(self._met_before, busy - known))]]
        return now or sorted(by_name, key=lambda one: -len(one.case.text))[: not known]

    def next_job(self, seconds: float, *, ending: bool = False) -> Examination | None:
        """Return what is to be examined next: what looks new first, what has its name last.

        One of several hands makes findings smaller first, but at the end.
        """
        examined = [*filter(None, map(self.members.get, self._examined.values()))]
        busy = [one.confirmed for one in examined if not one.finished]
        first = seconds > 0 and not ending and bool(busy) and not any(busy)
        small = (one for one in self.members.values() if one.finished and not self._shrinks(one))
        shown = {group_name(one) for one in (*small, *examined) if one.confirmed}

        def order(one: FamilyState) -> tuple[bool, ...]:
            met, smaller = self._met_before(one.bucket.key), one.confirmed
            named = smaller and not is_provisional(one.case)
            again = smaller and group_name(one) in shown  # its line has a small case
            while_rounds = (met, not smaller, named) if first else (named, met, smaller)
            return again, *((smaller, named, met) if ending else while_rounds)

        for member in sorted(self.waiting_for(ending=ending), key=order):
            left = seconds - GRACE * member.finished
            if member.saved is not None and (left > 0 or not member.confirmed):
                if member.finished:
                    self.by_name.remove(member)
                self._examined[member.saved.id] = member.bucket.key
                return Examination(
                    corpus=self.corpus.path, id=member.saved.id, bucket=member.bucket,
                    seconds=left if member.confirmed else None,
                    replayed=frozenset(one.bucket for one in self.confirmed) - {member.bucket},
                )  # fmt: skip
        return None

    def examined(self, job: Examination, result: Found) -> None:
        """Take in what an examination gave; leave a finding that is no longer in the corpus.

        Raises InfrastructureError if it cannot be stored; what was stored before stays.
        """
        key = self._examined.get(job.id, "")
        try:
            if (member := self.members.get(key)) is not None:
                self._take_in(job, key, member, result)
        except (UsageError, BrokenEntryError):
            if key in self.members:
                self._finish(self.members[key])
        self._examined.pop(job.id, None)

    def _take_in(self, job: Examination, key: str, member: FamilyState, result: Found) -> None:
        case = result.case
        kernel = result.files.get(KERNEL, b"").count(b"\n")
        changed = case is None or result.bucket.key != key or self.known.match(case) != member.known
        if member.finished and not result.lost and (changed or 0 < member.lines <= kernel):
            return  # What was announced stays as it is.
        if result.state is FoundState.GONE:
            # Those like it are counted from now on.
            del self.members[key]
            self.turned[key], self.tries[key] = _NOTHING, _FOR_GOOD
            self.gone += member.cases
            self._doom(member)
        elif result.case is None:
            self._finish(member)
        elif result.lost and result.bucket.key in self.members:
            self.members[result.bucket.key].cases += 1
        elif result.lost:
            there = self._member(result.bucket, result.case, 1, result.files)
            there.confirmed = True
            self._finish(there)
        elif result.bucket.key != key:
            self._turned(key, member, result, result.case)
            if result.settles:
                self.tries[key] = _FOR_GOOD
        else:
            self._replace(member, result.case, result.files)
            member.confirmed = True
            if not self._joined(key, member) and (
                job.seconds is not None or member.known or not self._shrinks(member)
            ):
                self._finish(member)
                is_long = result.case.shrink is ShrinkStatus.CAPPED and kernel > _READABLE
                member.lines = kernel * is_long
                self.by_name += [member] * is_long

    def _joined(self, key: str, member: FamilyState) -> bool:
        """Join a family to another one if both have come to the same finding; tell whether."""
        for other, there in self.members.items():
            if other != key and member.saved and stored_id(member) == stored_id(there):
                there.cases += member.cases
                del self.members[key]
                self.announced = [one for one in self.announced if one is not member]
                # For good: which finding of it is examined first does not depend on chance.
                self.turned[key], self.tries[key] = other, _FOR_GOOD
                return True
        return False

    def _turned(self, key: str, member: FamilyState, result: Found, case: Case) -> None:
        """Put a finding under the name that its replays gave it."""
        del self.members[key]
        self.turned[key] = result.bucket.key
        there = self.members.get(result.bucket.key)
        if there is not None:
            there.cases += member.cases
            self._doom(member)
            return
        other = self._member(result.bucket, case, member.cases)
        other.new, other.saved, other.confirmed = member.new, member.saved, True
        self._replace(other, case, result.files)
        if other.known or not self._shrinks(other):
            self._finish(other)

    def _doom(self, member: FamilyState) -> None:
        self.doomed += [member.saved.id] if member.new and member.saved is not None else []

    def sweep(self) -> None:
        """Remove what `doomed` names and no family has, once the state on the disk names it."""
        for identity in set(self.doomed) - set(map(stored_id, self.members.values())):
            # Somebody else may have removed it, or broken it: then there is nothing to be removed.
            with suppress(UsageError, BrokenEntryError):
                entry = self.corpus.get(identity)
                if entry.id == identity:
                    with self.corpus.exclusively():
                        self.corpus.remove(entry)
        self.doomed.clear()

    def _replace(self, member: FamilyState, case: Case, files: Mapping[str, bytes]) -> None:
        """Store what an examination made of a finding in place of what was there."""
        if (saved := member.saved) is None:
            return
        there = self.corpus.replace(saved.id, case, files)
        # The same case may be there under an earlier name, of an examination that was killed, say.
        self.corpus.learn(case, files)
        entry = self.corpus.get(there.id)
        # Of a finding that was there already, another campaign may have the smaller form.
        member.saved = there
        member.case = msgspec.structs.replace(
            entry.finding, identity=case.identity, runners=case.runners, details=case.details
        )
        member.known, member.like = self.known.match(case), self.known.like(case)

    def _shrinks(self, member: FamilyState) -> bool:
        raw = member.saved is not None and member.case.shrink is ShrinkStatus.RAW
        return raw and self.shrinks(member.case)

    def _finish(self, member: FamilyState) -> None:
        if member.finished:
            return
        member.finished = True
        self.announced.append(member)
        # Of 40 findings of a minute on a GPU 30 were known; of most there is a small case.
        if isinstance(member.known, KnownRow) and not member.known.finding and member.confirmed:
            self.by_name += [member] if self._shrinks(member) else []

    def died(self, job: Examination, *, guilty: bool) -> None:
        """Note that a worker died examining a finding; leave it the second time."""
        key = self._examined.pop(job.id, "")
        if (member := self.members.get(key)) is not None:
            member.deaths += guilty
            if member.deaths >= _EXAMINATIONS:
                self._finish(member)

    def end(self) -> None:
        """Announce what happened twice and was not examined to its end."""
        self.announced += [one for one in self.suspects if one.case.kind is Kind.COMPILE_FAILURE]
        there = {id(one) for one in self.announced}
        self.announced += [one for one in self.confirmed if id(one) not in there]

    def records(self) -> list[FamilyRecord]:
        """Return the families as the state of a campaign keeps them."""
        names = ("cases", "new", "confirmed", "finished")
        return [
            FamilyRecord(
                **vars(one.bucket), id=one.saved.id, **{name: getattr(one, name) for name in names}
            )
            for one in self.members.values()
            if one.saved is not None
        ]

    def restore(self, records: list[FamilyRecord]) -> None:
        """Take families up where a campaign left them."""
        for record in records:
            with suppress(UsageError, BrokenEntryError):
                entry = self.corpus.smaller_form(self.corpus.get(record.id))
                bucket = Bucket(kind=record.kind, identity=record.identity, builds=record.builds)
                member = self._member(bucket, entry.finding, record.cases)
                member.saved = Saved(id=entry.id, path=entry.path, new=False)
                member.new, member.confirmed = record.new, record.confirmed
                if record.finished:
                    self._finish(member)


def _look(case: Case) -> tuple[Kind, str]:
    # What a compiler says tells a cause without an instruction.
    about = next(iter(case.identity.instructions), case.identity.message)
    return case.kind, about.partition(" ")[0]
