"""The way to findings that other tests make."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "fuzz" / "explain"))
