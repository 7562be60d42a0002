"""Lets these tests use the kernels and programs of the tests of the runners."""

import sys
from pathlib import Path

for folder in ("simulated", "conformance"):
    sys.path.insert(0, str(Path(__file__).parents[2] / "runners" / folder))
