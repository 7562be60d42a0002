"""Lets these tests run the command line as those of its neighbours do."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
