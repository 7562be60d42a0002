"""Packages with runners, as somebody else would install them, and commands that are runners."""

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return a function that installs a package with an entry point for each name and value."""
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.syspath_prepend(tmp_path)
    paths = (str(tmp_path), str(HERE), str(ROOT), os.environ.get("PYTHONPATH", ""))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))

    def install(**runners):
        folder = tmp_path / "theirs-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
        lines = "".join(f"{name} = {value}\n" for name, value in runners.items())
        (folder / "entry_points.txt").write_text(f"[warpfuzz.runners]\n{lines}")

    return install
