"""Lets the tests of findings run the command and the cases that others are written with."""

import sys
from pathlib import Path

_TESTS = Path(__file__).parents[2]
sys.path[:0] = [
    str(_TESTS / "fuzz"),
    str(_TESTS / "fuzz" / "explain"),
    str(_TESTS / "meta" / "campaign"),
    str(_TESTS / "meta" / "compilers"),
]
