"""Lets the tests of judged kernels run the command, and plant compilers."""

import sys
from pathlib import Path

_TESTS = Path(__file__).parents[2]
sys.path[:0] = [
    str(_TESTS / "fuzz"),
    str(_TESTS / "fuzz" / "explain"),
    str(_TESTS / "meta" / "compilers"),
]
