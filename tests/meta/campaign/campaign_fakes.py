"""Makes fake assemblers with one fault each."""

import sys
from pathlib import Path

FAKE = Path(__file__).with_name("campaign_ptxas.py")
ROOT = Path(__file__).parents[3]


def fake_ptxas(folder: Path, fault: str = "none", word: str = "", release: str = "12.0") -> Path:
    """Write a fake assembler and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "ptxas"
    program.write_text(
        f"#!/bin/sh\nexport PYTHONPATH='{ROOT}' FAKE_RELEASE={release}\n"
        f"exec '{sys.executable}' '{FAKE}' '{fault}' '{word}' \"$@\"\n"
    )
    program.chmod(0o755)
    return program
