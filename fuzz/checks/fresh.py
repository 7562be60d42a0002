"""Images that a device made by their numbers and compared: made again, and judged by the oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.execution.execution import execute
from oracle.program.program import Program, different
from runners.protocol import Images
from runners.reference.fresh import FreshRan
from strategies.contents import Recipe, expand
from strategies.features import main_form
from strategies.rounds import Batch

SAMPLED = 499_979
"""One image in so many is judged even if it agrees: a prime, for classes come in turn. Of 6 million
images a second one in 99,991 was most of what their thread did (H200, 2026-11-29)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MadeAgain:
    """Images that a comparison brought back, as they are made and judged here."""

    images: Images  # uint8 (count, image_bytes)
    expected: Images  # after the program, by the oracle
    wrong: NDArray[np.intp]  # places of those that the program under test got wrong
    mistaken: NDArray[np.intp]
    """Places of those that the device made otherwise, or its reference judged otherwise."""


def made_again(recipe: Recipe, program: Program, ran: FreshRan, *, target: str) -> MadeAgain:
    """Make images again by their numbers; have the oracle judge what the device made of them."""
    each = [expand(recipe, program, 1, first=int(number)) for number in ran.numbers]
    images = np.concatenate([np.zeros((0, program.image_bytes), np.uint8), *each])
    expected = execute(program, images, target=target).images
    wrong, others = different(expected, ran.after), different(images, ran.before)
    # The reference says that the first ones are wrong, and no others.
    misjudged = np.setxor1d(wrong, np.arange(ran.listed))
    return MadeAgain(
        images=images,
        expected=expected,
        # What the program was run on has to be what is made here.
        wrong=np.setdiff1d(wrong, others),
        mistaken=np.union1d(misjudged, others),
    )


def sample(recipe: Recipe, first: int, count: int) -> tuple[int, ...]:
    """Return the numbers of the images of a range that the oracle judges even if they agree."""
    # Where it begins differs from program to program.
    begin = first + (recipe.seed - first) % SAMPLED
    return tuple(range(begin, first + count, SAMPLED))


def about(batch: Batch) -> str:
    """Return by which name a program is distrusted if the reference is wrong about it."""
    form = main_form(batch.program)
    return "programs without a form" if form is None else form.opcode


def narrowed(runs: Callable[[int, int], bool], first: int, count: int, enough: int) -> range:
    """Return at most `enough` of the images at which a run failed, one after the other.

    `runs` tells whether so many images run, from the first one on. One of those that are returned
    fails, if what fails does so each time. The first ones are tried at once: what does not end is
    waited for, and mostly does not whatever its images hold.
    """
    if count > enough and not runs(first, enough):
        count = enough
    while count > enough:
        half = count // 2
        if runs(first, half):
            first, count = first + half, count - half
        else:
            count = half
    return range(first, first + count)
