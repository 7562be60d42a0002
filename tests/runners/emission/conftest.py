"""The way to the programs that other tests make."""

import sys
from pathlib import Path

_TESTS = Path(__file__).parents[2]
for folder in (_TESTS / "oracle" / "programs", _TESTS / "runners" / "conformance"):
    sys.path.insert(0, str(folder))
