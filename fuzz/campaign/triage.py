"""Families of findings: stored raw when a suspect comes up, then replayed, then made smaller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from corpus import BrokenEntryError, Case, Corpus, Kind, Saved, ShrinkStatus
from corpus.known import Known
from fuzz.campaign.store import FamilyRecord
from fuzz.checks.protocol import Examination, Found, FoundState
from fuzz.findings.families import Bucket, FamilyState
from oracle.errors import UsageError

_FOR_GOOD = 64  # Confirmations after which a family is only counted: none is met twice as often
_NOTHING = ""  # key in place of a family's: the suspect did not differ when it was replayed
_WAITING_ALIKE = 32
"""Findings alike that wait at most: most are of one cause, 40 KiB each on the disk."""
_EXAMINATIONS = 2  # workers that may die over a finding before it is left as it is


@dataclass(kw_only=True)
class Triage:
    """The families of a campaign."""

    corpus: Corpus
    known: Known
    shrinks: Callable[[Case], bool]  # whether a confirmed finding is to be made smaller
    gone: int = 0  # cases that differed once and did not when they were replayed
    announced: list[FamilyState] = field(default_factory=list)
    """Families with which nothing more is to be done, in that order."""
    tries: dict[str, int] = field(default_factory=dict)
    """By the key of the family that the first run fell into: how often it was confirmed."""
    met: dict[str, int] = field(default_factory=dict)
    """By the key of the provisional family: rounds in which it came up, since the campaign was
    begun or resumed."""
    turned: dict[str, str] = field(default_factory=dict)
    """From the key of a provisional family to the key of its family after shrinking."""
    members: dict[str, FamilyState] = field(default_factory=dict)
    """The families by key, in the order in which they came up."""
    passed: dict[str, int] = field(default_factory=dict)
    """Cases by the key of their family that were not stored, because many like them wait: the next
    case of the family is looked at again."""
    doomed: list[str] = field(default_factory=list)
    """Ids of findings that `sweep` removes, because their families were identified as others."""
    _examined: dict[str, str] = field(default_factory=dict)
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
    def untouched(self) -> bool:
        """Whether a finding waits that nobody is examining."""
        return self.waiting > len(self._examined)

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
        if case is not None and not tired and _to_be_examined(suspect) and self._full(case):
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
        suspected = _to_be_examined(suspect) and case.kind is not Kind.COMPILE_FAILURE
        case = msgspec.structs.replace(case, suspected=suspected)
        cases = suspect.cases + self.passed.pop(key, 0)
        member = self._member(suspect.bucket, case, cases, suspect.files)
        if not _to_be_examined(suspect):
            member.confirmed = True
            self._finish(member)
        return True

    @property
    def unstored(self) -> int:
        """Families of which a case was not stored, because many like it waited, and none since."""
        return len(self.passed.keys() - self.members.keys() - self.turned.keys())

    def _full(self, case: Case) -> bool:
        """Whether so many findings like a suspect wait to be examined that it is not stored."""
        look = _look(case)
        waiting = (one for one in self.members.values() if not one.finished)
        return sum(_look(one.case) == look for one in waiting) >= _WAITING_ALIKE

    def about_to_store(self, suspects: Iterable[Found]) -> list[str]:
        """Return the ids of the raw findings that `suspect` may add to the corpus.

        A state that names them before lets the resumption of a campaign that is killed meanwhile
        remove them: their round is carried out again and finds them again, or knows better.
        """
        identities = (
            self.corpus.identity(one.case, one.files)
            for one in suspects
            if one.case is not None and one.bucket.key not in self.members and _to_be_examined(one)
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

    def next_job(self, seconds: float, *, shrinking: bool = True) -> Examination | None:
        """Return what is to be examined next: replays before shrinking, the oldest first."""
        busy = [one.confirmed for key in self._examined.values() if (one := self.members.get(key))]
        first = shrinking and busy.count(True) < busy.count(False)
        free = [
            (key, one, one.saved)
            for key, one in self.members.items()
            if not one.finished and key not in self._examined.values()
        ]
        for key, member, saved in sorted(free, key=lambda one: one[1].confirmed is not first):
            if saved is not None and (shrinking or not member.confirmed):
                self._examined[saved.id] = key
                return Examination(
                    corpus=self.corpus.path,
                    id=saved.id,
                    bucket=member.bucket,
                    seconds=seconds if member.confirmed else None,
                )
        return None

    def examined(self, job: Examination, result: Found) -> None:
        """Take in what an examination gave; leave a finding that is no longer in the corpus.

        Raises InfrastructureError if it cannot be stored; what was stored before stays.
        """
        key = self._examined.get(job.id, "")
        member = self.members.get(key)
        try:
            if member is not None:
                self._take_in(job, key, member, result)
        except (UsageError, BrokenEntryError):
            if key in self.members:
                self._finish(self.members[key])
        self._examined.pop(job.id, None)

    def _take_in(self, job: Examination, key: str, member: FamilyState, result: Found) -> None:
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
                job.seconds is not None or not self._shrinks(member)
            ):
                self._finish(member)

    def _joined(self, key: str, member: FamilyState) -> bool:
        """Join a family to another one if both have come to the same finding; tell whether."""
        for other, there in self.members.items():
            if other != key and member.id is not None and member.id == there.id:
                there.cases += member.cases
                del self.members[key]
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
        if not self._shrinks(other):
            self._finish(other)

    def _doom(self, member: FamilyState) -> None:
        self.doomed += [member.id] if member.new and member.id is not None else []

    def sweep(self) -> None:
        """Remove what `doomed` names and no family has, once the state on the disk names it."""
        for identity in set(self.doomed) - {one.id for one in self.members.values()}:
            # Somebody else may have removed it, or broken it: then there is nothing to be removed.
            with suppress(UsageError, BrokenEntryError):
                entry = self.corpus.get(identity)
                if entry.id == identity:
                    with self.corpus.exclusively():
                        self.corpus.remove(entry)
        self.doomed.clear()

    def _replace(self, member: FamilyState, case: Case, files: Mapping[str, bytes]) -> None:
        """Store what an examination made of a finding in place of what was there."""
        saved = member.saved
        if saved is None:
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
        saved = member.saved
        if member.case.shrink is not ShrinkStatus.RAW or saved is None:
            return False
        return self.shrinks(self.corpus.get(saved.id).finding)

    def _finish(self, member: FamilyState) -> None:
        member.finished = True
        self.announced.append(member)

    def died(self, job: Examination, *, guilty: bool) -> None:
        """Note that a worker died examining a finding; leave it the second time."""
        key = self._examined.pop(job.id, "")
        member = self.members.get(key)
        if member is None:
            return
        member.deaths += guilty
        if member.deaths >= _EXAMINATIONS:
            self._finish(member)

    def end(self) -> None:
        """Announce what happened twice and was not examined to its end."""
        self.announced += [one for one in self.suspects if one.kind is Kind.COMPILE_FAILURE]
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
                member.finished = record.finished
                if member.finished:
                    self.announced.append(member)


def _look(case: Case) -> tuple[Kind, str]:
    # What a compiler says tells a cause without an instruction.
    about = next(iter(case.identity.instructions), case.identity.message)
    return case.kind, about.partition(" ")[0]


def _to_be_examined(found: Found) -> bool:
    lost = found.case is not None and found.case.kind is Kind.DEVICE_LOST
    return not lost and found.state is not FoundState.REPLAYED
