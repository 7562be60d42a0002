"""The way to the runner of the command line and to the fake assemblers."""

import sys
from pathlib import Path

_TESTS = Path(__file__).parents[2]
sys.path[:0] = [str(_TESTS / "fuzz"), str(_TESTS / "meta" / "campaign")]
