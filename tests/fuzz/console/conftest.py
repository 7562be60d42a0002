"""The way to the helpers of the tests of the console."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
