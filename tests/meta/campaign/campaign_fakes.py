"""Makes fake assemblers with one fault each."""

import sys
from pathlib import Path

import answering

FAKE = Path(__file__).with_name("campaign_ptxas.py")


def fake_ptxas(folder: Path, fault: str = "none", word: str = "", release: str = "12.0") -> Path:
    """Write a fake assembler and return its path."""
    asked = folder / "asked"
    asked.mkdir(parents=True, exist_ok=True)
    program = folder / "ptxas"
    program.write_text(
        f"#!/bin/sh\nexport PYTHONPATH='{Path(answering.__file__).parent}' ASKED='{asked}'\n"
        f"exec '{sys.executable}' -S '{FAKE}' '{release}' '{answering.address()}' "
        f"'{fault}' '{word}' \"$@\"\n"
    )
    program.chmod(0o755)
    return program
