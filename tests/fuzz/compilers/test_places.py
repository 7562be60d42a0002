"""Where binaries run."""

from types import SimpleNamespace

import pytest

from fuzz.compilers.members import RunPlace
from oracle.errors import UsageError


def place(runner: str | None) -> RunPlace:
    opened = None if runner is None else SimpleNamespace(choice=SimpleNamespace(name=runner))
    return RunPlace(
        device=None, opened=opened, target="sm_90", ptx_version="8.0", architecture="sm_90"
    )


@pytest.mark.parametrize("runner", ["sim", "cuda", None])
@pytest.mark.parametrize("code", [b".version 8.0\n.target sm_90\n", b"\x7fELF\2\1\1"])
def test_machine_code_runs_everywhere_but_on_the_simulated_device(
    runner: str | None, code: bytes
) -> None:
    compiled = SimpleNamespace(code=code, compiler="ptxas 12.4")
    if runner == "sim" and code.startswith(b"\x7fELF"):
        with pytest.raises(UsageError, match=r"ptxas 12\.4 writes machine code"):
            place(runner).check_runs(compiled)
    else:
        place(runner).check_runs(compiled)
