"""What a campaign names is made again in its workers, or refused."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from fuzz.campaign.pool import ProcessPool, pickled, unpickled
from fuzz.checks.programs import Programs
from fuzz.runner import RunnerChoice, opened
from oracle.errors import UsageError
from runners import compilers
from runners.assemblers.assembler import Assembler
from runners.front_ends.languages import Llvmlite
from runners.protocol import Runner
from runners.simulated_runner import SimulatedRunner


def check(**choice: object) -> Programs:
    return Programs(choice=RunnerChoice(name="sim", **choice), seed=1)  # type: ignore[arg-type]


def own(choice: RunnerChoice) -> Runner:
    return SimulatedRunner("sm_80")


def test_a_runner_of_ones_own_is_opened_in_the_workers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a_runner_of_mine.py").write_text(
        "from runners.simulated_runner import SimulatedRunner\n"
        "def make(choice):\n    return SimulatedRunner('sm_75')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    paths = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    monkeypatch.setenv("PYTHONPATH", paths)
    import a_runner_of_mine  # type: ignore[import-not-found]

    theirs = Programs(choice=RunnerChoice(name="mine", maker=a_runner_of_mine.make), seed=1)
    with ProcessPool(theirs, workers=1) as pool:
        assert pool.facts().target == "sm_75"


def test_a_runner_that_cannot_be_made_again_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be made again in a worker process"):
        pickled(check(maker=lambda choice: own(choice)))
    script = check(maker=own)
    assert unpickled(pickled(script))
    own.__module__, kept = "__main__", own.__module__
    import __main__

    __main__.own = own  # type: ignore[attr-defined]
    try:
        with pytest.raises(UsageError, match="defined in the script that was started"):
            pickled(script)
    finally:
        own.__module__ = kept
        del __main__.own  # type: ignore[attr-defined]


def _never(*_: object) -> None:
    raise AssertionError("it is looked for again")


def test_a_compiler_that_was_found_travels_and_is_not_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ptxas"
    program.write_text("#!/bin/sh\necho 'release 13.5, V13.5.37'\n")
    program.chmod(0o755)
    found = compilers.find_assembler(str(program))
    carried = pickle.loads(pickle.dumps(check(assembler=found)))
    assert carried.choice.assembler == found
    assert carried.choice.given["--assembler"] == str(program)
    for name in ("find_assembler", "discover_assemblers", "identify"):
        monkeypatch.setattr(compilers, name, _never)
    with opened(carried.choice) as ready:
        assert ready.choice.assembler == found


def test_on_another_host_a_compiler_is_found_by_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Assembler(path=tmp_path / "their home" / "ptxas", version="V13.5.37", spelled="13.5")
    here = Assembler(path=tmp_path / "ptxas", version="V13.5.37", spelled="13.5")
    monkeypatch.setattr(compilers, "find_assembler", {"13.5": here}.__getitem__)
    assert compilers.assembler_on_this_host(there) == here
    front_end = Llvmlite(version="15.0.7", spelled="llvm:15.0.7", path=str(tmp_path / "nowhere"))
    ours = Llvmlite(version="15.0.7", spelled="llvm:15.0.7", path=str(tmp_path))
    monkeypatch.setattr(compilers, "find_front_end", {"llvm:15.0.7": ours}.__getitem__)
    assert compilers.front_end_on_this_host(front_end) == ours
    assert compilers.front_end_on_this_host(ours) == ours
