"""A campaign on sm_90 has programs of warpgroups, for sm_90a, unless it is told a target."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from fuzz.campaign.pool import WorkerHeartbeat, shared_heartbeats
from fuzz.campaign.store import State
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import OpenCheck, RoundJob
from fuzz.commands.run import resumed
from fuzz.options.testing import Run
from fuzz.runner import RunnerChoice, opened
from oracle.errors import UsageError
from strategies.draws import Selection
from strategies.rounds import ProgramCoverage

ONLY = Selection(pattern="wgmma*n8k16.f32.f16*")


def check(stack: ExitStack, selection: Selection, **choice: str) -> tuple[Programs, OpenCheck]:
    asked = Programs(choice=RunnerChoice(name="sim", **choice), seed=2, selection=selection)
    ready = stack.enter_context(opened(asked.choice))
    return asked, asked.on_runner(ready, WorkerHeartbeat(shared_heartbeats(1), 0), stack)


@pytest.mark.parametrize(("choice", "only", "groups"), [
    ({}, "*", "sm_90a"), ({}, "mma*", ""), ({"target": "sm_90"}, "*", ""),
    ({"target": "sm_80"}, "*", ""), ({"ptx_version": "7.8"}, "*", ""),
])  # fmt: skip
def test_they_are_drawn_unless_a_target_is_asked_for(
    choice: dict[str, str], only: str, groups: str
) -> None:
    with ExitStack() as stack:
        asked, there = check(stack, Selection(pattern=only), **choice)
        assert there.facts.groups == groups
        plan = asked.plan(there.facts)
        assert any(form.startswith("wgmma") for form in plan.forms) == bool(groups)
        assert ("sm_90a" in plan.words.where) == bool(groups)
        # A resumption has to have them, too, or none.
        options = asked.options(there.facts)
        assert options["second target"] == (groups or None)
        again = resumed(Run(), State(options=dict(options), asked=choice, started=""))
        _, there = check(stack, Selection(pattern=only), **again.picked("target", "ptx_version"))
        assert there.facts.groups == groups


def test_a_finding_of_one_has_its_own_target() -> None:
    with ExitStack() as stack:
        # What is added up beside multiplications is wrong.
        asked, there = check(stack, ONLY, ptx_pass="sed 's/add.u32 %r/sub.u32 %r/'")
        plan = asked.plan(there.facts).round(0, ProgramCoverage())
        report = there.round(RoundJob(number=0, plan=plan, limit=4))
        (found, *_) = report.suspects.values()
        assert found.case is not None
        assert (found.case.target, there.facts.target) == ("sm_90a", "sm_90")
    with ExitStack() as stack, pytest.raises(UsageError, match="no matrix instruction of sm_90 "):
        check(stack, ONLY, target="sm_90")
