"""Programs that the ISA leaves undefined: run apart, on a runner of their own, and only counted.

Every sixteenth round is followed by eight of them on eight images each, a function of the seed and
the number of the round alone. What they do to a device is nobody's fault: they are no cases, nor
findings, and whatever becomes of their runner, ordinary batches never see it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from fuzz.campaign.heartbeat import BeatingRunner
from fuzz.checks.protocol import Counts, Heartbeat, Stage
from fuzz.runner import OpenRunner, open_runner
from oracle.definedness import undefined
from oracle.program import Program
from oracle.targets import Module
from runners.emission import emit
from runners.protocol import Failure, Images, Trouble
from strategies.contents import expand
from strategies.coverage import EPOCH
from strategies.draws import Selection
from strategies.program_draws import selected_forms, undefined_of_round

_IMAGES = 8
"""Images of each program; 64 take 0.3 s on a simulated device (2026-11)."""
_DEADLINE = 2.0
"""Seconds that such a program may take on a GPU: eight images are done in milliseconds."""
_RAN = "ran"
_OUTCOMES = {Trouble.COMPILE_FAILURE: "refused by the compiler", Trouble.STICKY_ERROR: "trap"}
"""Names of runner errors that differ from the runner's own."""


class UndefinedPrograms:
    """Runs undefined programs on a runner that is opened when it is first needed.

    Parameters
    ----------
    ready
        The runner of the ordinary rounds; another of its sort is opened.
    seed
        Of the campaign.
    selection
        Which forms it is about.
    heartbeat
        Is told of every stage.
    """

    def __init__(
        self, ready: OpenRunner, seed: int, selection: Selection, heartbeat: Heartbeat
    ) -> None:
        self._ready, self._seed, self._heartbeat = ready, seed, heartbeat
        self._forms = selected_forms(
            selection,
            target=ready.target,
            version=ready.ptx_version,
        )
        self._stack = ExitStack()
        self._runner: BeatingRunner | None = None

    def close(self) -> None:
        """Close the runner."""
        self._stack.close()

    def counts(self, number: int) -> Counts | None:
        """Run the programs that belong to a round, in one of 16; None if that was interrupted.

        Raises
        ------
        WarpfuzzError
            If no second runner can be opened.
        """
        counts: Counts = Counter()
        if number % EPOCH:
            return counts
        for program, images in self._drawn(number):
            if self._heartbeat.interrupted:
                return None
            reasons = undefined(program, target=self._ready.target)
            if reasons:
                counts["undefined", reasons[0].cause.value, self._outcome(program, images)] += 1
        self._heartbeat.enter(Stage.WAIT)
        return counts

    def _drawn(self, number: int) -> Sequence[tuple[Program, Images]]:
        self._heartbeat.enter(Stage.DRAW, round=number)
        module = Module.named(self._ready.target, self._ready.ptx_version)
        drawn = undefined_of_round(self._forms, module, seed=self._seed, number=number)
        return [(program, expand(recipe, program, _IMAGES)) for program, recipe in drawn]

    def _outcome(self, program: Program, images: Images) -> str:
        self._heartbeat.enter(Stage.RUN)
        module = Module.named(self._ready.target, self._ready.ptx_version)
        runner = self._opened()
        compiled = runner.compile(emit(program, module=module))
        ran = compiled if isinstance(compiled, Failure) else runner.run(compiled, images)
        if not isinstance(ran, Failure):
            return _RAN
        return _OUTCOMES.get(ran.trouble, ran.trouble.name.lower().replace("_", " "))

    def _opened(self) -> BeatingRunner:
        if self._runner is None:
            choice = replace(self._ready.choice, deadline=_DEADLINE)
            runner = BeatingRunner(open_runner(choice).runner, self._heartbeat)
            self._runner = self._stack.enter_context(runner)
        return self._runner
