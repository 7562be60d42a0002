"""The way to the helpers of the tests of commands, and to fake assemblers."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]
sys.path[:0] = [
    str(TESTS / "fuzz"),
    str(TESTS / "meta" / "campaign"),
    str(TESTS / "meta" / "compilers"),
    str(TESTS / "runners" / "conformance"),
]
