"""Runs one kernel as several compilers build it, and compares the results with the reference.

An `Answerer` is one way to run a module: a compiler at a level on a GPU, or a PTX pass on the
simulated device. A `Verdict` is a group of answerers that do the same wrong thing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from corpus import Kind
from fuzz.compilers.members import Member
from fuzz.findings.launches import Setup
from fuzz.findings.replay import REPLAYS
from fuzz.judging.reference import Expected, Image, Left, Reference
from fuzz.kinds import BY_TROUBLE
from fuzz.output import counted
from fuzz.runner import RunnerChoice
from oracle.errors import DeviceLostError
from runners.protocol import Failure, Images, Runner, Trouble
from runners.simulated import TrapKind

_GIVEN_UP = 8
"""Images without any result after which the others are not tried: one that hangs takes seconds."""
REFERENCE_SECONDS = 60.0
"""After which the simulated device is given no more images: of most kernels 64 take 2 s to 5 s, of
eight blocks of 64 threads that loop 60 s (on one core, 2026-11-24)."""
_NOT_ASKED = (Trouble.UNSUPPORTED, Trouble.UNAVAILABLE)
_SAID_CHARACTERS = 200
"""Characters that are kept of the message of a runner that was not tried."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Answerer:
    """One way to run a module."""

    title: str
    """Name of one that is no compiler: "--ptx-pass 'my-pass'"."""
    members: tuple[Member, ...] = ()
    """Compilers and levels that make the same code."""
    runner: Runner
    choice: RunnerChoice
    """What a person would ask for to run with the first alone."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the compilers that made the code, such as "V13.5.37 -O3"."""
        return tuple(member.name for member in self.members) or (self.title,)

    def answer(self, ptx: str, setup: Setup, images: Images) -> Images | Failure:
        """Return the images as a module leaves them, or why there are none.

        Raises
        ------
        DeviceLostError
            If there is no device any more.
        """
        compiled = self.runner.compile(setup.module(ptx))
        ran = compiled if isinstance(compiled, Failure) else self.runner.run(compiled, images)
        if not isinstance(ran, Failure):
            return ran.images
        if ran.trouble is Trouble.DEVICE_LOST:
            raise DeviceLostError(ran.line)
        return ran


@dataclass(frozen=True, kw_only=True, eq=False)
class Verdict:
    """What some answerers do that is wrong, or that others do not do."""

    kind: Kind
    answerers: tuple[Answerer, ...]
    good: Answerer | None
    """One that does it right; None where nobody does, or nobody knows."""
    setup: Setup
    image: Image
    """uint8 (bytes,): one that shows it."""
    expected: Image | None
    """What it should become; None where nothing knows."""
    actual: Image | None
    """What it became; None where there is no result."""
    failure: Failure | None = None
    steady: bool = True
    """Whether results came out again each time, those of who it is compared with, too, where the
    simulated device does not say what must come out."""

    @property
    def names(self) -> tuple[str, ...]:
        """The compilers and levels."""
        return tuple(name for one in self.answerers for name in one.names)

    @property
    def difference(self) -> str:
        """What is wrong, in words."""
        if self.failure is not None:
            return self.failure.line
        if self.actual is None or self.expected is None:
            return "nothing was compared"
        return described(self.expected, self.actual, self.setup)


def described(expected: Image, actual: Image, setup: Setup) -> str:
    """Say which bytes of an image differ, and the first word of them by its buffer."""
    different = np.flatnonzero(expected != actual)
    start = int(different[0]) // 4 * 4
    was, found = (one[start : start + 4][::-1].tobytes().hex() for one in (expected, actual))
    place = f"byte {start} of the image, outside of every buffer,"
    for name, row in setup.buffers.items():
        if 0 <= start - setup.offsets[name] < row.bytes:
            place = f"{name}+{start - setup.offsets[name]}"
    return (
        f"{counted(different.size, 'byte')} of the image not as expected; the word at {place} is "
        f"0x{found} in place of 0x{was}"
    )


@dataclass(kw_only=True, eq=False)
class Compared:
    """What came of a kernel."""

    verdicts: tuple[Verdict, ...]
    agreeing: tuple[str, ...]
    """Names of those whose result was as expected on every image."""
    unasked: tuple[str, ...]
    """Sentences about those who could not be asked."""
    codes: int
    """Different codes that ran."""
    results: int
    """Images that were compared, over all who ran them."""


def expectations(
    reference: Reference, ptx: str, setup: Setup, images: Images
) -> tuple[NDArray[np.intp], Expected, dict[int, Left]]:
    """Run images on the reference.

    Returns
    -------
    numbers, expected, left
        Those that can be judged and what becomes of them, (numbers, bytes); and those that cannot.
        Nothing is said of images that there was no time for.
    """
    end = time.monotonic() + REFERENCE_SECONDS
    found: list[tuple[int, Expected]] = []
    left: dict[int, Left] = {}
    for number, image in enumerate(images):
        if found and time.monotonic() > end:
            break
        after = reference.after(ptx, setup, image)
        if isinstance(after, Left):
            left[number] = after
            if after.kind is TrapKind.RACE or (len(left) >= _GIVEN_UP and not found):
                break
        else:
            found.append((number, after))
    numbers = np.array([number for number, _ in found], np.intp)
    shape = len(found), images.shape[1]
    every = [np.array([after[part] for _, after in found]).reshape(shape) for part in (0, 1)]
    return numbers, Expected(every[0].astype(np.uint8), every[1].astype(np.bool_)), left


def compared(
    answerers: Sequence[Answerer],
    ptx: str,
    setup: Setup,
    images: Images,
    expected: Expected | None,
    *,
    permitted: bool = False,
) -> Compared:
    """Run images by all, and compare them.

    Parameters
    ----------
    expected
        What the reference says; None: they are compared with the first of them that ran. What
        depends on approximate instructions is, too, unless the simulated device runs them all: a
        difference there alone is a note.
    permitted
        Whether the ISA permits results that are not the same, where nothing is expected.
    """
    answers: list[tuple[Answerer, Images | Failure]] = []
    unasked = []
    for one in answerers:
        answer = one.answer(ptx, setup, images)
        if isinstance(answer, Failure) and answer.trouble in _NOT_ASKED:
            said = answer.detail.partition("\n")[0]
            words = (", ".join(one.names), answer.message, said[:_SAID_CHARACTERS])
            unasked.append(": ".join(filter(None, words)))
        else:
            answers.append((one, answer))
    ran = [(one, answer) for one, answer in answers if not isinstance(answer, Failure)]
    first_ran = ran[0][1] if ran else None
    known = first_ran
    if expected is not None:
        simulated = all(one.choice.name == "sim" for one, _ in ran)
        known = expected.image if first_ran is None or simulated else expected.beside(first_ran)
        decided = (known != images) & ~expected.approximate
        if len(ran) == 1 and not simulated and not decided.any():
            unasked.append(
                f"{', '.join(ran[0][0].names)}: all that the kernel writes depends on approximate "
                "instructions, and nothing else ran that it could be compared with"
            )
            ran, answers = [], [one for one in answers if isinstance(one[1], Failure)]
    groups: dict[str, list[tuple[Answerer, Images | Failure]]] = {}
    agreeing: list[Answerer] = []
    for one, answer in answers:
        if isinstance(answer, Failure):
            groups.setdefault(f"{answer.trouble}", []).append((one, answer))
        elif known is not None and np.array_equal(answer, known):
            agreeing.append(one)
        else:
            groups.setdefault(sha256(answer.tobytes()).hexdigest(), []).append((one, answer))
    # All that ran give the same, and it is not what the reference gives.
    alone = expected is not None and len(ran) > 1 and len(ran) in map(len, groups.values())
    value_kind = Kind.VIOLATION
    if expected is None:
        value_kind = Kind.NOTE if permitted else Kind.DIFFER
    elif alone:
        value_kind = Kind.DEVIATION
    good = agreeing[0] if agreeing else None
    verdicts = []
    for members in groups.values():
        first, answer = members[0]
        who = tuple(one for one, _ in members)
        if isinstance(answer, Failure):
            verdicts.append(
                Verdict(
                    kind=BY_TROUBLE[answer.trouble], answerers=who, good=good, setup=setup,
                    image=images[0], expected=None if known is None else known[0], actual=None,
                    failure=answer,
                )
            )  # fmt: skip
            continue
        assert known is not None
        differs, kind, wanted = answer != known, value_kind, known
        if expected is not None:
            decided = differs & ~expected.approximate
            if decided.any():
                differs, wanted = decided, expected.beside(answer)
            else:
                kind = Kind.NOTE
        at = int(np.flatnonzero(differs.any(axis=1))[0])
        others = [] if kind is value_kind and expected is not None else ran[:1]
        both = [(first, answer), *others]
        steady = all(_repeats(one, ptx, setup, images[at], its[at]) for one, its in both)
        if not steady:
            kind = Kind.FLAKY if expected is not None and kind is value_kind else Kind.NOTE
        verdicts.append(
            Verdict(
                kind=kind, answerers=who, good=good, setup=setup, image=images[at],
                expected=wanted[at], actual=answer[at], steady=steady,
            )
        )  # fmt: skip
    return Compared(
        verdicts=tuple(verdicts),
        agreeing=tuple(name for one in agreeing for name in one.names),
        unasked=tuple(unasked),
        codes=len(ran),
        results=len(ran) * len(images),
    )


def _repeats(one: Answerer, ptx: str, setup: Setup, image: Image, before: Image) -> bool:
    """Whether a result comes out again, each time."""
    answer = one.answer(ptx, setup, np.repeat(image[None], REPLAYS, axis=0))
    return not isinstance(answer, Failure) and bool((answer == before).all())
