"""How soon a campaign finds each planted fault, and what its programs reach."""

from fuzz.bench.contents import Contents
from fuzz.bench.measuring import Column, Measurement, Row, measure
from fuzz.bench.pooling import Advance
from fuzz.bench.searching import Plan
from fuzz.bench.subjects import Subject, chosen

__all__ = [
    "Advance",
    "Column",
    "Contents",
    "Measurement",
    "Plan",
    "Row",
    "Subject",
    "chosen",
    "measure",
]
