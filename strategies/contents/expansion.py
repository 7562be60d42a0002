"""From a recipe to images."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from oracle.program import Program
from strategies.contents.fills import fill_of
from strategies.contents.plans import Plan, plan_of
from strategies.contents.random_rows import random_rows
from strategies.contents.recipes import Recipe
from strategies.contents.settings import DRAW_BYTES, SPOTS, Setting
from strategies.contents.value_classes import ValueClass

_CHUNK_BYTES = 1 << 19
"""Bytes that are filled at once: what one pass writes the next finds in the cache."""


def expand(recipe: Recipe, program: Program, count: int, *, first: int = 0) -> NDArray[np.uint8]:
    """Fill images for a program.

    Every byte is random; on top of that, each matrix that is loaded is filled as the image's
    class has it, with a, b and c of one multiplication made for each other.

    Parameters
    ----------
    recipe : Recipe
    program : Program
    count : int
        How many images.
    first : int
        Number of the first one. Image `first + i` depends on its number, the recipe and the
        program alone.

    Returns
    -------
    uint8 (count, image_bytes)

    Raises
    ------
    UsageError
        If `count` or `first` is negative.
    """
    if count < 0 or first < 0:
        raise UsageError(f"count {count} and first {first} must not be negative")
    plan = plan_of(program)
    images = np.empty((count, program.image_bytes), np.uint8)
    period = len(recipe.classes)
    for slot, class_ in enumerate(recipe.classes):
        start = (slot - first) % period
        chosen = images[start::period]
        turn = (first + start) // period
        most = max(1, _CHUNK_BYTES // program.image_bytes)
        for begin in range(0, len(chosen), most):
            part = chosen[begin : begin + most]
            row_bytes = program.image_bytes + DRAW_BYTES
            rows = random_rows(recipe.seed, slot, turn + begin, len(part), row_bytes)
            draws = rows[:, program.image_bytes :].view("<u2")
            _fill(rows[:, : program.image_bytes], draws, class_, plan)
            part[...] = rows[:, : program.image_bytes]
    return images


def _fill(
    images: NDArray[np.uint8], draws: NDArray[np.uint16], class_: ValueClass, plan: Plan
) -> None:
    _fill_rows(images, draws, class_, plan)
    for number, (start, mask) in enumerate(plan.words):
        _fill_word(images[:, start : start + 4].view("<u4")[:, 0], draws, number, mask)
    for filling in plan.fillings:
        setting = Setting(draws=draws, types=filling.types, multiplicands=filling.given(images))
        view = filling.window.open(images)
        getattr(fill_of(class_, filling.types), filling.operand)(view, setting)
        filling.window.close(images, view)


def _fill_word(
    words: NDArray[np.uint32], draws: NDArray[np.uint16], number: int, mask: int
) -> None:
    """Make a control word 0, 1 or the largest in a quarter of the images each; else random."""
    choice = draws[:, SPOTS + number % 16] >> np.uint16(14)
    for which, value in enumerate((0, 1, mask)):
        words[choice == which] = value


def _fill_rows(
    images: NDArray[np.uint8], draws: NDArray[np.uint16], class_: ValueClass, plan: Plan
) -> None:
    """Fill what ldmatrix reads: numbered elements of 16 bits, bytes of few kinds, or any."""
    if not plan.rows.size:
        return
    match class_:
        case ValueClass.CODED | ValueClass.NORMAL | ValueClass.MIRRORED | ValueClass.AIMED:
            # An odd factor keeps the numbers of different elements different.
            codes = (plan.rows >> 1) * 0x9E37 + draws[:, :1].astype(np.int64)
            images[:, plan.rows] = codes >> 8 * (plan.rows & 1) & 0xFF
        case ValueClass.ENDS | ValueClass.EXTREME:
            images[:, plan.rows] = 0 - (images[:, plan.rows] & np.uint8(1))
        case ValueClass.SUBNORMAL | ValueClass.SQUARES:
            images[:, plan.rows] = np.uint8(1) << (images[:, plan.rows] & np.uint8(7))
