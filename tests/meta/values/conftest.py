"""The way to the helpers of other tests, and to the stand-ins for PyCUDA."""

import sys
from pathlib import Path

_TESTS = Path(__file__).parents[2]
sys.path[:0] = [
    str(_TESTS / "fuzz"), str(_TESTS / "fuzz" / "checks"), str(_TESTS / "runners" / "cuda"),
]  # fmt: skip
