"""The way to the helpers of the tests of commands."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
