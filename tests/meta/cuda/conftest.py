"""The way to the stand-ins for PyCUDA, and to programs of one multiplication."""

import sys
from pathlib import Path

for folder in ("cuda", "conformance"):
    sys.path.insert(0, str(Path(__file__).parents[2] / "runners" / folder))
