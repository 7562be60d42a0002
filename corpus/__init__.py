"""Findings on disk: stored once, versioned, found again, merged, compared and exported."""

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
from corpus.store import Corpus, Entry, Saved, create_corpus, open_corpus

__all__ = [
    "BrokenEntryError", "Case", "Cause", "Corpus", "Entry", "FileRecord", "Finding", "Identity",
    "Kind", "Making", "OracleVerdict", "Origin", "Problem", "RunnerVerdict", "SaidReason", "Saved",
    "ShrinkStatus", "Versions", "create_corpus", "open_corpus",
]  # fmt: skip
