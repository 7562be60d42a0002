"""Lets these tests use the PTX that was written by hand for the simulated device's tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "runners" / "simulated"))
