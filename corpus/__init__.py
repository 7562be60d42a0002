"""Findings on disk: stored once, versioned, found again, merged, compared and exported."""

from corpus.entry import Entry
from corpus.finding import (
    BrokenEntryError,
    Case,
    Cause,
    FileRecord,
    Finding,
    Identity,
    Kind,
    Making,
    OracleVerdict,
    Origin,
    Problem,
    RunnerVerdict,
    SaidReason,
    ShrinkStatus,
    Versions,
)
from corpus.opening import create_corpus, open_corpus
from corpus.store import Corpus, Saved

__all__ = [
    "BrokenEntryError",
    "Case",
    "Cause",
    "Corpus",
    "Entry",
    "FileRecord",
    "Finding",
    "Identity",
    "Kind",
    "Making",
    "OracleVerdict",
    "Origin",
    "Problem",
    "RunnerVerdict",
    "SaidReason",
    "Saved",
    "ShrinkStatus",
    "Versions",
    "create_corpus",
    "open_corpus",
]
