"""What a campaign and its check say to each other: what is tried, and what came of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from corpus import Case, Kind
from fuzz.findings.families import Bucket
from fuzz.runner import OpenRunner
from oracle.errors import UsageError
from runners.cuda.libraries import DeviceHealth
from runners.cuda.runner import CudaRunner
from runners.protocol import Failure
from strategies.draws import PtxVersions, only_version
from strategies.rounds import Coverage

Options = Mapping[str, Any]
"""Options of a campaign, by the name that a person knows them by, as JSON can hold them."""
Counts = Counter[tuple[str, ...]]  # counters of a check, such as ("programs", "compiled")
BY_MEMBER = "by_member"
"""First word of the counters of each of several that are compared with each other; the second is
its name, and the third tells its programs apart ("compared", "compiled", "not compiled", "not
readable": of a PTX ISA version that it does not read), or is "images": those compared."""
REFERENCE = "device_reference"
"""First word of the counters of images that were compared with the device's reference. The second
is "images", those compared; "differing", those of them that differ; "judged", those that the oracle
judged too; "programs"; "programs left out", which the reference cannot do; "failed", images of
comparisons that did not come to their end; "once", images of which the reference said something
else the first time; "reference wrong", whose third word is what a program is about; and "wrong on",
images that the oracle calls wrong, by device and multiprocessor ("" where that is not known)."""
FAULTS = "faults"
"""First word of the counters of programs that planted faults touch; the second is the fault."""


def nested(counts: Counts) -> dict[str, Any]:
    """Return counters as JSON takes them: an object for each first word, and so on."""
    table: dict[str, Any] = {}
    for words, count in sorted(counts.items()):
        inner = table
        for word in words[:-1]:
            inner = inner.setdefault(word, {})
        inner[words[-1]] = count
    return table


def flattened(table: Mapping[str, Any], before: tuple[str, ...] = ()) -> Counts:
    """Return the counters that `nested` gave; TypeError or ValueError if they are no such."""
    counts: Counts = Counter()
    for word, inner in table.items():
        if isinstance(inner, Mapping):
            counts.update(flattened(inner, (*before, word)))
        else:
            counts[(*before, word)] = int(inner)
    return counts


class Stage(StrEnum):
    """What a worker does; its time is the sum of these."""

    DRAW = "draw"  # programs or instructions, and their PTX
    COMPILE = "compile"
    EXPAND = "fill"
    ORACLE = "oracle"  # what must come out
    RUN = "run"  # waiting for the runner: a device, or an assembler
    COMPARE = "compare"
    WAIT = "wait"  # for the next round


class Heartbeat(Protocol):
    """What a check tells while it works, so that nobody takes it for stuck."""

    @property
    def interrupted(self) -> bool:
        """Whether to come to an end with what is being done."""

    def enter(self, stage: Stage, *, round: int | None = None) -> None:  # noqa: A002
        """Say that a stage begins; the one before it has ended."""

    def count(self, cases: int) -> None:
        """Add cases that were compared."""

    def beat(self) -> None:
        """Give a sign of life."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a worker says of what it has opened."""

    target: str  # value of `.target`; where rounds go over several, that of the first
    groups: str = ""  # that of programs of forms that it lacks; empty: there are none
    ptx_version: str  # of the modules; if rounds draw it, the newest
    drawn: PtxVersions | None = None  # what rounds draw `.version` from; None: all have the one
    version: str  # of the runner
    device: str  # names what is judged, in one line
    left_out: tuple[str, ...] = ()  # sentences about what was asked for and cannot be
    members: tuple[str, ...] = ()  # names of what is compared with each other, if several are

    @property
    def where(self) -> str:
        """What modules are written for, in words."""
        targets = " and ".join(filter(None, (self.target, self.groups)))
        return f"{targets} · PTX ISA {self.versions}"

    @property
    def versions(self) -> PtxVersions:
        """What rounds draw `.version` from: several, or the one."""
        return self.drawn or only_version(self.ptx_version)

    @property
    def version_options(self) -> Options:
        """The options that decide which versions there are, for a resumption."""
        if self.drawn is None:
            return {"--ptx-version": self.ptx_version}
        every = ", ".join(self.drawn.every)
        return {"--ptx-version": None, "PTX ISA versions": f"{every}; mostly {self.drawn.main}"}

    @property
    def version_rows(self) -> Mapping[str, Any]:
        """What a summary says of versions; `ptx_version` is null where several are drawn."""
        return {
            "ptx_version": None if self.drawn is not None else self.ptx_version,
            "ptx_versions": list(self.versions.every),
        }


@dataclass(frozen=True, kw_only=True)
class DeviceStatus:
    """One device, as its management library tells; empty values where it does not."""

    name: str
    uuid: str = ""
    host: str = ""
    temperature: int | None = None  # degrees Celsius
    sm_clock: int | None = None  # MHz
    busy: int | None = None  # percent of the last moment in which a kernel ran
    power: int | None = None  # watts
    power_limit: int | None = None  # watts
    memory_clock: int | None = None  # MHz
    throttle_reasons: int | None = None  # bits of NVML's clocksEventReasons
    errors: Mapping[str, int] = field(default_factory=dict)  # by name, such as ECC errors
    note: str = ""  # why nothing is known


def health_of(ready: OpenRunner) -> DeviceStatus | None:
    """Return what a runner's device reports about its health; None if it reports nothing."""
    if not isinstance(ready.runner, CudaRunner):
        return None
    facts, health = ready.runner.facts(), ready.runner.health()
    if isinstance(facts, Failure) or isinstance(health, Failure):
        return None
    return device_status(facts.name, facts.uuid, health)


def device_status(name: str, uuid: str, health: DeviceHealth) -> DeviceStatus:
    """Return what the management library says of a device, in the units of a status."""
    counts = {"ECC corrected": health.ecc_corrected, "ECC uncorrected": health.ecc_uncorrected}
    power, limit = (
        None if milliwatts is None else round(milliwatts / 1000)
        for milliwatts in (health.power_mw, health.power_limit_mw)
    )
    return DeviceStatus(
        name=name, uuid=uuid, temperature=health.temperature_c, sm_clock=health.sm_clock_mhz,
        busy=health.busy_percent, power=power, power_limit=limit,
        memory_clock=health.memory_clock_mhz, throttle_reasons=health.throttle_reasons,
        errors={name: count for name, count in counts.items() if count is not None},
        note=health.note,
    )  # fmt: skip


# Jobs


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One of `count` campaigns with the same seed: the rounds `index` - 1, + `count`, and so on."""

    index: int = 1  # from 1 to `count`
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the shard that a text such as "3/8" names. Raises UsageError if it names none."""
        match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text.strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(
                f"--shard {text!r} is no shard; write I/N with I from 1 to N, and N at most "
                "999999, such as 3/8 for the third of eight"
            )
        return cls(index=int(match[1]), count=int(match[2]))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def number(self, place: int) -> int:
        """Return the number of a round from its place, from 0, among those of the shard."""
        return place * self.count + self.index - 1


@dataclass(frozen=True, kw_only=True)
class RoundPlan:
    """What a round is about, as its worker has to know it: small, and pickled."""

    round: int  # its number among the rounds of its seed
    work: Any
    cases: int  # at most


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """What a device made of the images of a round, to be compared with another device."""

    device: str  # its UUID, where it has one, and place
    sums: NDArray[np.uint32]  # (cases,) a CRC-32 of each image afterwards, in the round's order


@dataclass(frozen=True, kw_only=True)
class RoundJob:
    """Carry out a round, or the rest of one."""

    number: int  # among the rounds of the campaign, which may be those of a shard
    plan: RoundPlan
    skip: int = 0  # cases of it that were committed before, from its start
    limit: int | None = None  # cases after which to stop; None: the whole round
    settled: frozenset[str] = frozenset()
    """Keys of families of which no further case is needed, and forms about which the device's
    reference was wrong."""
    summed: bool = False  # whether the report is to have outcomes
    against: Outcomes | None = None  # of another device of the kind, if this is the repetition
    device: str = ""  # place of the device, where outcomes are asked for


@dataclass(frozen=True, kw_only=True)
class Examination:
    """Replay a suspect that was stored raw, or make a confirmed finding smaller."""

    corpus: Path
    id: str
    bucket: Bucket  # what the finding stands for
    seconds: float | None = None  # for making it and its kernel smaller; None: it is replayed
    replayed: frozenset[Bucket] = frozenset()
    """Other families of which a case was replayed: of one more, the name is enough."""


Job = RoundJob | Examination


# Reports


class FoundState(StrEnum):
    """How much is known of a finding."""

    RAW = "raw"  # it differed in a round, and was not run again yet
    REPLAYED = "replayed"  # it was run again, or made smaller
    GONE = "gone"  # it did not differ when it was run again
    LEFT = "left"  # its folder was removed, or the examination failed


Stored = tuple[Case | None, Mapping[str, bytes]]  # a case to be stored, and its files


@dataclass(kw_only=True)
class Found:
    """A finding on its way into the corpus, as a round or an examination leaves it."""

    bucket: Bucket
    case: Case | None = None  # None: the family is settled, or there is nothing to show
    files: Mapping[str, bytes] = field(default_factory=dict)  # of the case, by name
    cases: int = 1  # of the round that belong to it; the stored one is the first of them
    state: FoundState = FoundState.RAW
    settles: bool = False
    """Whether every case of the family that it was found under is the same finding."""
    lost: str = ""  # how the device was lost over it; empty while it is there

    @property
    def is_raw(self) -> bool:
        """Whether it is to be examined: it was not replayed, and took no device with it."""
        lost = self.case is not None and self.case.kind is Kind.DEVICE_LOST
        return not lost and self.state is not FoundState.REPLAYED


@dataclass(kw_only=True)
class RoundReport:
    """What came of a round, or of the part of it that was done."""

    number: int
    skip: int  # cases that were left out at its start
    coverage: Coverage
    complete: bool = False
    cases: int = 0
    compared: int = 0  # their outcome was compared with what must come out
    answered: int = 0  # accepted or rejected, with nothing to compare that with
    failed: int = 0  # not compiled, or not run to their end, though they have to
    unasked: int = 0
    counts: Counts = field(default_factory=Counter)
    said: str = ""  # by the runner, when it failed last
    suspects: dict[str, Found] = field(default_factory=dict)  # by key, as they came up
    lost: str = ""  # how the device was lost; empty while it is there
    device: int = 0
    health: DeviceStatus | None = None  # what the device said of itself, now and then
    apart: list[Found] = field(default_factory=list)
    """What programs of this and earlier rounds showed in idle time: it waits for no round."""
    outcomes: Outcomes | None = None  # where they were asked for, and every image ran
    disagreement: Found | None = None  # with the device that the round was compared with


Report = RoundReport | Found


def add_suspect(
    report: RoundReport, job: RoundJob, bucket: Bucket, store: Callable[[], Stored], cases: int = 1
) -> None:
    """Add cases of a bucket; the first has all that it takes, unless the bucket is settled."""
    there = report.suspects.get(bucket.key)
    if there is None:
        case, files = (None, {}) if bucket.key in job.settled else store()
        there = report.suspects[bucket.key] = Found(bucket=bucket, case=case, files=files, cases=0)
    there.cases += cases


# Checks


class ShownCounter(NamedTuple):
    """A counter of a check that people are shown."""

    words: tuple[str, ...]  # its key in `Counts`
    one: str  # noun or words behind a 1
    many: str = ""  # plural of the noun; if it is empty, an s is appended
    odd: bool = False  # whether it is shown only where it is not 0, and then stands out


@dataclass(frozen=True, kw_only=True)
class CheckWords:
    """How a campaign with a check is told to people."""

    subject: str  # what is judged
    where: str  # target and PTX ISA version
    case: str  # noun of a case
    agreement: str  # if all that was compared agrees, without a full stop
    nothing_compared: str  # why nothing may have been compared, and what to do
    runner: str = "the runner"  # whom workers wait for
    unasked: str = "not tried"
    answered: str = "only accepted or rejected"
    counters: tuple[ShownCounter, ...] = ()
    replay: tuple[str, ...] = ()  # options that a replay of the findings needs


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The coordinator's side of a check: what there is to be done, and how it is told."""

    words: CheckWords
    forms: frozenset[str]  # opcodes of the documented forms that are selected
    coverage: type[Coverage]
    round: Callable[[int, Coverage], RoundPlan]
    """What a round is about, by its number and what all epochs before the last have reached."""
    shrinks: Callable[[Case], bool]  # whether a confirmed finding is to be made smaller
    trouble: Callable[[Counts, str], str] = lambda counts, said: ""
    """Why nothing can come of a campaign with these counters, whose runner said this last; empty
    while something can."""
    summary: Mapping[str, Any]  # what the last JSON object says beside what all campaigns have


@dataclass(frozen=True, kw_only=True)
class OpenCheck:
    """A worker's side of a check. All functions raise WarpfuzzError."""

    facts: Facts
    round: Callable[[RoundJob], RoundReport]  # up to its limit or until an end is wanted
    examine: Callable[[Examination], Found]  # replays a finding, or makes it smaller
    health: Callable[[], DeviceStatus | None] = lambda: None  # None: the device tells nothing


class Check(Protocol):
    """What a campaign tries, and how it is judged."""

    @property
    def seed(self) -> int:
        """Seed of the campaign: the same seed gives the same cases."""

    @property
    def patience(self) -> float:
        """Seconds of silence after which a worker is killed."""

    def on(self, device: int) -> Check:
        """Return the same for a worker that has this device."""

    def opened(self, heartbeat: Heartbeat) -> AbstractContextManager[OpenCheck]:
        """Open what a worker needs; WarpfuzzError if something cannot be, or is missing."""

    def plan(self, facts: Facts) -> Plan:
        """Return the coordinator's side. Raises UsageError if nothing is selected that there is."""

    def options(self, facts: Facts) -> Options:
        """Return what decides which cases there are, for a resumption."""
