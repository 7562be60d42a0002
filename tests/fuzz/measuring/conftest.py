"""Lets these tests draw silicon as those of the simulated device do."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]
sys.path.insert(0, str(TESTS / "runners" / "simulated"))
sys.path.insert(0, str(TESTS / "fuzz"))
