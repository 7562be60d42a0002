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

from hypothesis import strategies as st

from fuzz.campaign.coverage import Coverage
from fuzz.campaign.draws import Selection, derived_seed, draw
from fuzz.campaign.heartbeat import BeatingRunner, Heart
from fuzz.campaign.progress import UndefinedCounts
from fuzz.campaign.status import Stage
from fuzz.checks.program_draws import EPOCH, GENERATOR_VERSION, selected_forms
from fuzz.runner import OpenRunner, open_runner
from oracle.availability import is_available
from oracle.definedness import undefined
from oracle.program import Program, requirements
from oracle.targets import Module
from runners.emission import emit
from runners.protocol import Failure, Images, Trouble
from strategies.contents import expand, recipes
from strategies.programs.undefined import undefined_programs

_PROGRAMS, _IMAGES = 8, 8
"""Programs of one job, and images of each: on a simulated device 0.3 s (2026-11)."""
_DEADLINE = 2.0
"""Seconds that such a program may take on a GPU: eight images are done in milliseconds."""
_RAN = "ran"
_OUTCOMES = {Trouble.COMPILE_FAILURE: "refused by the compiler", Trouble.STICKY_ERROR: "trap"}
"""What is not called as the runner calls it."""


def has_undefined(number: int) -> bool:
    """Whether undefined programs follow the round of this number: one in 16, from the first."""
    return number % EPOCH == 0


class UndefinedWorker:
    """Runs undefined programs on a runner that is opened when it is first needed.

    Parameters
    ----------
    ready
        The runner of the ordinary rounds; another of its sort is opened.
    seed, pattern
        Of the campaign.
    heart
        Who is told of every stage.
    """

    def __init__(self, ready: OpenRunner, *, seed: int, pattern: str, heart: Heart) -> None:
        self._ready, self._seed, self._heart = ready, seed, heart
        selection = Selection(pattern=pattern)
        self._forms = selected_forms(selection, target=ready.target, version=ready.ptx_version)
        self._stack = ExitStack()
        self._runner: BeatingRunner | None = None

    def close(self) -> None:
        """Close the runner."""
        self._stack.close()

    def counts(self, number: int) -> UndefinedCounts | None:
        """Run the programs that belong to a round; None if the coordinator wants an end before.

        Raises
        ------
        WarpfuzzError
            If no second runner can be opened.
        """
        counts: UndefinedCounts = Counter()
        for program, images in self._drawn(number):
            if self._heart.interrupted:
                return None
            reasons = undefined(program, target=self._ready.target)
            if reasons:
                counts[reasons[0].cause.value, self._outcome(program, images)] += 1
        self._heart.enter(Stage.WAIT)
        return counts

    def _drawn(self, number: int) -> Sequence[tuple[Program, Images]]:
        self._heart.enter(Stage.DRAW, round=number)
        module = Module.named(self._ready.target, self._ready.ptx_version)
        key = derived_seed(self._seed, "undefined", GENERATOR_VERSION, number)
        drawn = []
        for index, focus in enumerate(Coverage().focuses(key, _PROGRAMS, self._forms)):
            strategy = st.tuples(
                undefined_programs(focus, module=module, forms=self._forms),
                recipes(),
            )
            # The first example that Hypothesis makes is the simplest one there is.
            program, recipe = draw(strategy, 2, derived_seed(key, index))[-1]
            if all(is_available(form, module) for form in requirements(program)):
                drawn.append((program, expand(recipe, program, _IMAGES)))
        return drawn

    def _outcome(self, program: Program, images: Images) -> str:
        self._heart.enter(Stage.RUN)
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
            runner = BeatingRunner(open_runner(choice).runner, self._heart)
            self._runner = self._stack.enter_context(runner)
        return self._runner
