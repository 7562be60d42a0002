"""Campaigns that go on with images of the device and compare them with its reference.

The device is the simulated one, and the reference that of the GPU, built for the processor.
"""

from __future__ import annotations

import zlib
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from value_runs import campaign, entries

from corpus import Kind
from fuzz.bench.campaigns import Silence
from fuzz.campaign.check_wrappers import Shard, Sharded
from fuzz.checks import fresh_rounds
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import REFERENCE, Check, RoundJob, RoundReport
from fuzz.console.dashboard import reference_lines
from fuzz.checks.protocol import nested
from fuzz.runner import RunnerChoice, opened
from oracle.errors import InfrastructureError
from runners import simulated_runner
from runners.protocol import Compiled, Failure, Images, Ran, Trouble
from runners.reference.host import HostReference
from runners.simulated_runner import SimulatedRunner
from strategies.contents import expand
from strategies.draws import Selection

ONLY = "wmma.mma*"
FIRST = 1
"""Images of each program that the oracle judges; the device makes those from here on."""


@pytest.fixture(scope="module")
def built() -> HostReference:
    try:
        return HostReference()
    except InfrastructureError as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def _one_build(built: HostReference, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_runner, "HostReference", lambda: built)


def is_met(image: Images) -> bool:
    """Whether an image is one of those that a defect depends on."""
    return zlib.crc32(image) % 16 == 5


class Defective(SimulatedRunner):
    """A device that gets the last bit wrong, for some contents."""

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        ran = super().run(compiled, images, entry=entry)
        if isinstance(ran, Failure):
            return ran
        wrong = ran.images.copy()
        wrong[[is_met(image) for image in images], -1] ^= 1
        return replace(ran, images=wrong)


class Trapping(SimulatedRunner):
    """A device that stops, for some contents."""

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        if any(map(is_met, images)):
            return Failure(trouble=Trouble.STICKY_ERROR, message="it stops")
        return super().run(compiled, images, entry=entry)


def sound(choice: RunnerChoice) -> SimulatedRunner:
    return SimulatedRunner(layout_seed=choice.layout)


def defective(choice: RunnerChoice) -> Defective:
    return Defective(layout_seed=choice.layout)


def trapping(choice: RunnerChoice) -> Trapping:
    return Trapping(layout_seed=choice.layout)


def check_of(maker: Any, **options: Any) -> Programs:
    choice = RunnerChoice(name="sim", maker=maker, ptx_version="8.7")
    selection = Selection(pattern=ONLY)
    return Programs(
        choice=choice, seed=3, selection=selection, images=FIRST, reference=True, **options
    )


def reports(check: Check, choice: RunnerChoice, rounds: int = 1) -> list[RoundReport]:
    with opened(choice) as ready, ExitStack() as stack:
        inner = check.check if isinstance(check, Sharded) else check
        ...
