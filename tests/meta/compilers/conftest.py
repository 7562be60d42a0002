"""The way to the runner of the command line."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "fuzz"))
