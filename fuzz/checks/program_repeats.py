"""Rounds that two devices carry out: sums of what came out, and what they disagree about."""

from __future__ import annotations

import zlib

import msgspec
import numpy as np
from numpy.typing import NDArray

from corpus import Kind, Origin, ShrinkStatus
from fuzz.checks.protocol import Outcomes, RoundJob, RoundReport, Stored, Suspect
from fuzz.findings.case import Evidence, case_of, files_of
from fuzz.findings.families import family_of_disagreement
from fuzz.findings.replay import Attempt, Subject
from fuzz.runner import OpenRunner
from oracle.execution import execute
from oracle.targets import Module
from runners.emission import emit
from runners.protocol import Images
from strategies.program_draws import Batch


def add_outcomes(
    ready: OpenRunner,
    batch: Batch,
    part: tuple[Images, Images | None, NDArray[np.intp]],
    job: RoundJob,
    report: RoundReport,
    *,
    seed: int,
) -> None:
    """Add sums of images to the report of a round, and compare them with another device's.

    Parameters
    ----------
    ready
        The runner.
    batch
        The program.
    part
        Images of it, how they came out (None where some did not run: then the round has no
        outcomes), and their numbers.
    job
        The round.
    report
        Of the round; its cases are those before these images.
    seed
        Of the campaign.
    """
    images, actual, numbers = part
    place, before = job.skip + report.cases, report.outcomes
    if actual is None or (before.sums.size if before is not None else 0) != place:
        report.outcomes = None
        return
    sums = np.fromiter((zlib.crc32(image) for image in actual), np.uint32, len(actual))
    whole = sums if before is None else np.concatenate((before.sums, sums))
    name = f"{ready.uuid} ({job.device})" if ready.uuid else job.device
    report.outcomes = Outcomes(device=name, sums=whole)
    if job.against is None or report.disagreement is not None:
        return
    other = job.against.sums[place : place + len(sums)]
    differ = np.flatnonzero(sums[: len(other)] != other)
    if len(differ):
        index = int(differ[0])
        subject = Subject(
            module=emit(
                batch.program, module=Module.named(ready.target, ready.ptx_version), entry="kernel"
            ),
            program=batch.program,
            image=images[index].copy(),
        )
        origin = Origin(seed=seed, round=job.number, image=int(numbers[index]))
        devices = job.against.device, name
        report.disagreement = _suspect(
            ready, batch, subject, actual[index].copy(), origin, devices, len(differ)
        )


def _suspect(
    ready: OpenRunner,
    batch: Batch,
    subject: Subject,
    actual: NDArray[np.uint8],
    origin: Origin,
    devices: tuple[str, str],
    count: int,
) -> Suspect:
    """Return what two devices disagree about, with what came out on the second."""
    other, name = devices
    family = family_of_disagreement(other, name, batch.form)
    expected = execute(subject.program, subject.images, target=ready.target).images[0]
    agrees = "agrees" if np.array_equal(actual, expected) else "does not agree"
    attempt = Attempt(kind=Kind.FLAKY, actual=actual[None], expected=expected, failed=1)
    evidence = Evidence(kind=Kind.FLAKY, family=family, subject=subject, attempts=[attempt])
    case = case_of(evidence, ready, origin=origin, status=ShrinkStatus.RAW)
    said = f"{name} {agrees} with the oracle; {other} gave something else"
    case = msgspec.structs.replace(case, details={**case.details, "devices": said})
    stored = Stored(case=case, files=files_of(evidence))
    return Suspect(family=family, kind=Kind.FLAKY, cases=count, stored=stored, replayed=True)
