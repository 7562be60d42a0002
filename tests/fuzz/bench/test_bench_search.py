"""What a search makes of faults: with company or without, on a sound device, by the catalogue."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fuzz.bench import BenchPlan, Contents, Emitted, Mutant, chosen, search
from fuzz.commands.bench import TARGET as BENCH_TARGET
from fuzz.commands.bench import VERSION as BENCH_VERSION
from fuzz.compilers.members import survey_programs
from oracle.errors import InfrastructureError
from oracle.isa.targets import Module
from runners.emission import emit
from runners.faults import CATALOGUE
from runners.simulated import SimulatedDevice, SimulatedTrap, Trap, TrapKind
from strategies.draws import Selection
from strategies.rounds import selected_forms

TARGET, VERSION = "sm_100a", "8.6"
SELECTED = selected_forms(Selection(), target=TARGET, version=VERSION)


def plan(only: str, *, limit: int = 300, columns=(Contents.WARPFUZZ,)) -> BenchPlan:
    names = tuple(one.name for one, _ in chosen(only, target=TARGET, version=VERSION))
    return BenchPlan(
        forms=SELECTED, target=TARGET, version=VERSION, names=names, columns=columns, limit=limit,
        baseline_limit=limit,
    )  # fmt: skip


def cases(plan: BenchPlan, seed: int) -> dict[str, int]:
    _, seen = search((plan, seed))
    return {name: count for (_, name), (count, _) in seen.items()}


def test_a_fault_is_seen_as_soon_in_company_as_alone() -> None:
    together = cases(plan("store*", limit=100), 3)
    assert len(together) >= 4
    for name, count in [*together.items()][:3]:
        assert cases(plan(name, limit=100), 3)[name] == count


def test_a_device_that_disagrees_with_the_oracle_measures_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else every fault would be seen at once."""
    load = SimulatedDevice.load
    broken = re.compile(r"^(    wmma\.store\.d.*\[%?\w+)(\+\d+)?\]", re.M)
    monkeypatch.setattr(
        SimulatedDevice, "load", lambda self, ptx: load(self, broken.sub(r"\1+64]", ptx))
    )
    with pytest.raises(InfrastructureError, match="disagree"):
        cases(plan("stuck-sign"), 2)


def test_every_fault_of_the_catalogue_can_show_on_a_target_of_the_bench() -> None:
    hidden = []
    targets = ("sm_90", VERSION), ("sm_90a", VERSION), (BENCH_TARGET, BENCH_VERSION)
    for target, version in targets:
        subjects = chosen("*", target=target, version=version)
        assert [fault for fault, _ in subjects] == [*CATALOGUE]
        hidden.append({fault.name for fault, reason in subjects if reason})
    assert set.intersection(*hidden) == {fault.name for fault in CATALOGUE if fault.rare}


@pytest.mark.parametrize("only", ["store-offset", "stuck-sign"])
def test_a_fault_is_seen_after_its_cases_and_not_after_one_fewer(only: str) -> None:
    (count,) = cases(plan(only), 3).values()
    assert count >= 1
    assert cases(plan(only, limit=count), 3) == {only: count}
    if count > 1:
        assert cases(plan(only, limit=count - 1), 3) == {}


@pytest.mark.parametrize(("blamed", "first"), [((2, 1), 1), ((), 3)])
def test_a_launch_that_traps_is_wrong_at_the_first_image_to_blame_or_at_the_last(
    blamed: tuple[int, ...], first: int
) -> None:
    trap = Trap(kind=TrapKind.RACE, line=1, message="", warps=blamed)

    class Trapping:
        def launch_kernel(self, *_: object) -> None:
            raise SimulatedTrap(trap)

    _, program = next(survey_programs(SELECTED, target=TARGET, version=VERSION, seed=0))
    module = emit(program, module=Module.named(TARGET, VERSION))
    images = np.zeros((4, 8), np.uint8)
    mutant = Mutant(None, target=TARGET, layout=0)
    assert mutant.first_wrong(Trapping(), Emitted(module), images, images) == first
