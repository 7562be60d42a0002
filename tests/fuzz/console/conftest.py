"""The way to the helpers of the tests of the console, and to stored findings."""

import sys
from pathlib import Path

_FUZZ = Path(__file__).parents[1]
sys.path[:0] = [str(_FUZZ / "console"), str(_FUZZ / "explain")]
