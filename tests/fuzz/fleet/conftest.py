"""The way to the helpers of other tests."""

import sys
from pathlib import Path

_TESTS = Path(__file__).parents[2]
sys.path[:0] = [str(_TESTS / "fuzz"), str(_TESTS / "fuzz" / "checks")]
