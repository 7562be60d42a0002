"""What a compiler or a device answers about a stored finding: one sample a run, all of one kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from corpus import Kind
from oracle.errors import DeviceLostError, InfrastructureError


class Way(StrEnum):
    """How much an answer says."""

    COMPARED = "compared"
    """The code ran, and every byte of the image was compared with what is expected."""
    JUDGED = "accepted or rejected"
    """A compiler accepted or rejected it, or it did not run to its end: nothing was compared."""
    NOT_ASKED = "could not be asked"


class CannotBeAskedError(InfrastructureError):
    """Nothing can be learnt of a finding in this way: the target is not known there, say."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What one run showed."""

    label: str
    """Equal for results that are the same: "accepted", "match", "violation 3f2a91c0"."""
    kind: Kind | None
    """What a finding of it is called; None where it is as the ISA says."""
    way: Way = Way.COMPARED
    message: str = field(default="", compare=False)
    """What the tool said, or what differs."""

    @property
    def bad(self) -> bool:
        """Whether this is a disagreement with the ISA."""
        return self.kind is not None


_FULLEST_FIRST = (Way.COMPARED, Way.JUDGED, Way.NOT_ASKED)


@dataclass(kw_only=True)
class Answer:
    """What several runs of one finding showed, with one compiler on one device."""

    samples: Counter[Sample] = field(default_factory=Counter)
    """Empty where nothing could be asked."""
    reason: str = ""
    """Why nothing could be asked."""

    @property
    def known(self) -> bool:
        """Whether it could be asked."""
        return bool(self.samples)

    @property
    def way(self) -> Way:
        """How much the fullest of its runs says."""
        ways = {sample.way for sample in self.samples} or {Way.NOT_ASKED}
        return next(way for way in _FULLEST_FIRST if way in ways)

    @property
    def flaky(self) -> bool:
        """Whether its runs were not alike."""
        return len(self.samples) > 1

    @property
    def bad(self) -> bool:
        """Whether any of its runs disagreed with the ISA."""
        return any(sample.bad for sample in self.samples)

    @property
    def kind(self) -> Kind | None:
        """What a finding of it is called; None where it is as the ISA says every time."""
        if self.flaky:
            return Kind.FLAKY
        return next((sample.kind for sample in self.samples), None)

    @property
    def runs(self) -> int:
        """Number of runs."""
        return self.samples.total()

    @property
    def label(self) -> str:
        """What it did, in words."""
        if not self.known:
            return Way.NOT_ASKED.value
        if not self.flaky:
            return next(iter(self.samples)).label
        failed = sum(count for sample, count in self.samples.items() if sample.bad)
        return f"flaky ({failed} of {self.runs} bad)"

    @property
    def message(self) -> str:
        """What the tool said, or what differs; why nothing could be asked."""
        bad_first = sorted(self.samples, key=lambda sample: not sample.bad)
        return next((sample.message for sample in bad_first if sample.message), self.reason)

    @property
    def counts(self) -> dict[str, int]:
        """How often each result came out, by its label."""
        counted: Counter[str] = Counter()
        for sample, count in self.samples.items():
            counted[sample.label] += count
        return dict(counted)

    def same(self, other: Answer) -> bool:
        """Whether two compilers do the same; of what is flaky, whether it is ever bad."""
        if self.known and other.known and (self.flaky or other.flaky):
            return self.bad == other.bad
        return self.label == other.label

    def verdict(self, was: Kind) -> str:
        """Say what became of a finding of this kind.

        Returns
        -------
        str
            "reproduced", "changed" (into another kind), "flaky", "gone" or "could not be asked".
        """
        if not self.known:
            return Way.NOT_ASKED.value
        if self.kind is None:
            return "gone"
        # What was not the same every time need not be so in a few runs.
        if self.kind is was or was is Kind.FLAKY:
            return "reproduced"
        return "flaky" if self.kind is Kind.FLAKY else "changed"


def asked(sample: Callable[[], Sample | None], *, times: int, into: Answer | None = None) -> Answer:
    """Ask some times, and return the answer.

    Parameters
    ----------
    sample
        Asks once; None, or `CannotBeAskedError`, where nothing can be learnt.
    into
        An answer to which the samples are added.

    Raises
    ------
    WarpfuzzError
        Whatever else `sample` raises.
    """
    answer = Answer() if into is None else into
    for _ in range(times):
        try:
            one = sample()
        except DeviceLostError:
            raise
        except CannotBeAskedError as error:
            answer.reason = str(error)
            break
        if one is None:
            break
        answer.samples[one] += 1
    return answer
