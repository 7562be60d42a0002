"""The way to the programs that the oracle's own tests draw."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "oracle" / "programs"))
