"""What becomes of a finding elsewhere: at another -O level, and on a sound simulated device.

Where it comes out as it should there, that says where the fault lies: in the compiler, the device,
or the model.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Self

import numpy as np

from fuzz.device_lost import DeviceLostError
from fuzz.runner_choice import OpenRunner, RunnerChoice, open_runner
from fuzz.value_replaying import Attempt, Subject, attempt
from oracle.errors import WarpfuzzError
from runners.protocol import Runner

_LEVELS = (0, 3)
"""-O levels of which the one is tried that was not used: without optimisation, and the default."""


class Elsewhere:
    """Other runners than the one that found something, opened when they are needed."""

    def __init__(self, ready: OpenRunner) -> None:
        self._ready = ready
        self._stack = ExitStack()
        self._runners: dict[RunnerChoice, Runner | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the runners."""
        self._stack.close()

    def details(self, subject: Subject, shown: Attempt) -> dict[str, str]:
        """Return what became of a subject elsewhere, in words, by where that was.

        Parameters
        ----------
        subject
            What came out wrong.
        shown
            A run in which it did.
        """
        if shown.actual is None or shown.expected is None:
            return {}
        found = {}
        choice = self._ready.choice
        if choice.name == "cuda":
            used = max(_LEVELS) if choice.level is None else choice.level
            level = next(level for level in _LEVELS if level != used)
            said = self._attempt(replace(choice, level=level), subject, shown)
            found[f"at -O{level}"] = said
        plain = RunnerChoice(
            name="sim", target=subject.module.target, ptx_version=subject.module.version
        )
        found["simulated device"] = self._attempt(plain, subject, shown)
        return found

    def _attempt(self, choice: RunnerChoice, subject: Subject, shown: Attempt) -> str:
        try:
            if choice not in self._runners:
                self._runners[choice] = None
                self._runners[choice] = self._stack.enter_context(open_runner(choice).runner)
            runner = self._runners[choice]
            if runner is None:
                return "not available"
            other = attempt(runner, subject)
        except DeviceLostError:
            raise
        except WarpfuzzError as error:
            return f"cannot be asked: {error}"
        return _words(other, shown)


def _words(other: Attempt, shown: Attempt) -> str:
    if other.failure is not None:
        return f"does not run it: {other.failure}"
    if other.kind is None:
        return "agrees with the oracle"
    if other.actual is not None and shown.actual is not None:
        wrong = (shown.actual != shown.expected).any(axis=1)
        if np.array_equal(other.actual[0], shown.actual[int(np.argmax(wrong))]):
            return "agrees with the device"
    return f"gives a third result: {other.kind}"
