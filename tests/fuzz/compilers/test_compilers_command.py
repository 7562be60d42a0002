"""`warpfuzz compilers`: what it says where nothing can be fetched."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import warpfuzz


@pytest.mark.parametrize("version", ["1.0", "newest"])
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_version_that_does_not_exist_is_one_sentence_and_no_output(
    tmp_path: Path, version: str, options: tuple[str, ...]
) -> None:
    ended = warpfuzz(tmp_path, "compilers", "fetch", version, *options)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert version in ended.err
