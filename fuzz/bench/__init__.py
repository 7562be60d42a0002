"""How soon a campaign finds each planted fault, and what its programs reach."""

from fuzz.bench.campaigns import Reach, campaigns_of, measure_reach
from fuzz.bench.faults import Contents, Subject, chosen
from fuzz.bench.search import Column, Measurement, Plan, Row, measure

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
