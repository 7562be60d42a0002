"""How soon a campaign finds each planted fault, and what its programs reach."""

from fuzz.bench.measuring import Column, Measurement, Row, measure
from fuzz.bench.reaching import Reach, campaigns_of, measure_reach
from fuzz.bench.searching import Plan
from fuzz.bench.subjects import Contents, Subject, chosen

__all__ = [
    "Column",
    "Contents",
    "Measurement",
    "Plan",
    "Reach",
    "Row",
    "Subject",
    "campaigns_of",
    "chosen",
    "measure",
    "measure_reach",
]
