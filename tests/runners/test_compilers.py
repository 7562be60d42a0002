"""Which compilers the words of --compilers name."""

from pathlib import Path

import pytest

from runners import compilers
from runners.assemblers.assembler import Assembler
from runners.compilers import FoundCompiler, select
from runners.toolchains import ToolOrigin
from runners.wheels import RELEASES


def test_all_are_those_that_are_here_and_every_release_that_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = [
        Assembler(path=Path(f"/{release}/ptxas"), version=version,
                  origin=next(iter(ToolOrigin)))
        for release, version in (("12.4", "V12.4.99"), ("13.5", "V13.5.37"), ("99.1", "V99.1.2"))
    ]  # fmt: skip
    monkeypatch.setattr(
        compilers, "discover_assemblers", lambda: FoundCompiler(assemblers=tuple(here), problems=())
    )
    selected = select("all").candidates
    assert [one.order[:2] for one in selected] == sorted(
        {tuple(map(int, release.split("."))) for release in (*RELEASES, "99.1")}
    )
    assert [one.here for one in selected if one.here is not None] == here
    assert [one.here for one in select("installed").candidates] == here
