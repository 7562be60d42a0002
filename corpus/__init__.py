"""Findings on disk: stored once, versioned, found again, merged, compared and exported."""

from corpus.entry import Entry
from corpus.finding import (
    Case,
    Family,
    FileRecord,
    Finding,
    Kind,
    OracleVerdict,
    Origin,
    Reason,
    RunnerVerdict,
    ShrinkStatus,
    Versions,
)
from corpus.opening import create_corpus, open_corpus
from corpus.problems import BrokenEntryError, Cause, Problem
from corpus.store import Corpus, Saved

__all__ = [
    "BrokenEntryError",
    "Case",
    "Cause",
    "Corpus",
    "Entry",
    "Family",
    "FileRecord",
    "Finding",
    "Kind",
    "OracleVerdict",
    "Origin",
    "Problem",
    "Reason",
    "RunnerVerdict",
    "Saved",
    "ShrinkStatus",
    "Versions",
    "create_corpus",
    "open_corpus",
]
