"""From a recipe to images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from oracle.program import Program
from strategies.contents.fills import fills_of
from strategies.contents.float_fields import Ints, Raw
from strategies.contents.image_groups import DRAW_BYTES, SPOTS, Fill, ImageGroup, fill_in_turn
from strategies.contents.plans import Halves, Opened, Plan, plan_of
from strategies.contents.recipes import Recipe, ValueClass, by_class

_CHUNK_BYTES = 1 << 21
"""Bytes that are filled at once: what one pass writes the next finds in the cache (2^20 to 2^22
are alike, less is slower; one core with 512 KiB of second-level cache, 2026-11-21)."""
_TOGETHER_BYTES = 1 << 17
"""Bytes of several classes that are filled together, one matrix after the other: what one class
would cost is then paid once, while all of it stays in the cache."""
_GOLDEN = 0x9E37_79B9_7F4A_7C15
"""2^64 over the golden ratio: multiples lie far apart (Steele et al. 2014, "Fast splittable
pseudorandom number generators")."""


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
    if count < 0:
        raise UsageError(f"count {count} must not be negative")
    period = len(recipe.classes)
    places = [slice((slot - first) % period, None, period) for slot in range(period)]
    images = np.empty((count, program.image_bytes), np.uint8)
    _expand(recipe, program, images, first, places)
    return images


def expand_by_class(
    recipe: Recipe, program: Program, images: NDArray[np.uint8], *, first: int = 0
) -> NDArray[np.intp]:
    """Fill memory with the images of `expand`, those of a class next to each other.

    Parameters
    ----------
    recipe : Recipe
    program : Program
    images : uint8 (count, image_bytes)
        Where they go; every byte is written.
    first : int
        Number of the first one.

    Returns
    -------
    numbers : (count,)
        Number of each image, as `recipes.by_class` orders them.

    Raises
    ------
    UsageError
        If `first` is negative.
    """
    count = len(images)
    numbers = by_class(recipe, count, first=first)
    slots = numbers % len(recipe.classes)
    # Where each class starts and ends; one that has no image has an empty slice.
    starts = np.flatnonzero(np.diff(slots, prepend=-1)).tolist()
    places = [slice(0, 0)] * len(recipe.classes)
    for start, stop in pairwise([*starts, count]):
        places[slots[start]] = slice(start, stop)
    _expand(recipe, program, images, first, places)
    return numbers


def _expand(
    recipe: Recipe,
    program: Program,
    images: NDArray[np.uint8],
    first: int,
    places: Sequence[slice],
) -> None:
    """Fill images; `places` says, for each class of the recipe, which rows are its images."""
    if first < 0:
        raise UsageError(f"first {first} must not be negative")
    plan = plan_of(program)
    size = -(-Plan.total(plan.read) // 32) * 32
    period = len(recipe.classes)
    # An image's turn is its number among those of its class, over all batches.
    turns = [(first + (slot - first) % period) // period for slot in range(period)]
    last = max(turn + len(images[place]) for turn, place in zip(turns, places, strict=True))
    unread = Plan.total(plan.unread)
    rows_of_pool = _pool_size(unread)
    # A few images need a few rows of it.
    needed = 1 << (last + period - 1).bit_length()
    pool = _pool_rows(unread, min(rows_of_pool, needed))
    most = max(1, _CHUNK_BYTES // (size + DRAW_BYTES))
    for begin in range(first // period, last, most):
        end = min(begin + most, last)
        shared = _random_rows(recipe.seed, begin, end - begin, size + DRAW_BYTES)
        # A few images of many classes are as quick to fill as many images of one.
        together = min(period, max(1, _TOGETHER_BYTES // shared.nbytes))
        rows = np.empty((together * (end - begin), shared.shape[1]), np.uint8)
        opened = Opened(rows[:, :size])
        for start in range(0, period, together):
            parts, done = list[_Part](), 0
            for slot in range(start, min(start + together, period)):
                turn = max(begin, turns[slot])
                place = slice(turn - turns[slot], end - turns[slot])
                part = images[places[slot]][place]
                if not len(part):
                    continue
                some = slice(done, done + len(part))
                done = some.stop
                _shift(shared[turn - begin : turn - begin + len(part)], slot, rows[some])
                parts.append(_Part(slot=slot, turn=turn, rows=some, images=part))
            if not parts:
                continue
            _fill(opened, rows[:done, size:].view("<u2"), recipe.classes, parts, plan)
            for one in parts:
                _scatter(rows[one.rows], plan.read, one.images)
                # What nothing reads comes from a pool: half of the generator's work is saved.
                _repeat(pool, one.turn + one.slot, plan.unread, one.images)


def _shift(rows: NDArray[np.uint8], slot: int, out: NDArray[np.uint8]) -> None:
    """Make other random bytes of random bytes, for each class of a recipe its own.

    All classes share the rows of the generator, which is what takes longest: images of a class
    are independent of each other, and those of different classes are made of the same words, each
    a constant further on.
    """
    distance = np.uint64(slot * _GOLDEN % 2**64)
    np.add(rows.view("<u8"), distance, out=out.view("<u8"))


def _scatter(rows: NDArray[np.uint8], runs: tuple[slice, ...], images: NDArray[np.uint8]) -> None:
    """Copy the start of each row to runs of bytes of an image."""
    start = 0
    for run in runs:
        stop = start + run.stop - run.start
        images[:, run] = rows[:, start:stop]
        start = stop


def _repeat(
    pool: NDArray[np.uint8], row: int, runs: tuple[slice, ...], images: NDArray[np.uint8]
) -> None:
    """Copy rows of a pool to runs of bytes, over and over, from some row on."""
    done = 0
    while done < len(images):
        start = (row + done) % len(pool)
        part = images[done : done + len(pool) - start]
        _scatter(pool[start : start + len(part)], runs, part)
        done += len(part)


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Images of one class that are filled at once."""

    slot: int
    """Number of the class."""
    turn: int
    """Number of the first among those of its class."""
    rows: slice
    images: NDArray[np.uint8]
    """Where the rows go."""


def _fill(
    opened: Opened,
    draws: NDArray[np.uint16],
    classes: Sequence[ValueClass],
    parts: Sequence[_Part],
    plan: Plan,
) -> None:
    """Fill the first rows, as many as there are draws, one matrix after the other."""
    every = slice(len(draws))
    rows = opened.rows[every]
    for part in parts:
        _fill_rows(rows[part.rows], draws[part.rows], classes[part.slot], plan)
    for number, (start, mask) in enumerate(plan.words):
        _fill_word(rows[:, start : start + 4].view("<u4")[:, 0], draws, number, mask)
    known: list[dict[tuple[int, int], Ints]] = [{} for _ in parts]
    for filling in plan.fillings:
        view, fills = opened.view(filling.window, every), fills_of(filling.types)
        for part, numbers in zip(parts, known, strict=True):
            group = ImageGroup(
                draws=draws[part.rows],
                known=numbers,
                types=filling.types,
                turn=part.turn,
                multiplicands=filling.given(opened, part.rows),
            )
            some, how = view[part.rows], fills[classes[part.slot]]
            if filling.halves is None or filling.operand != "b":
                fill_in_turn(how, some, group, filling.operand)
            else:
                _fill_halves(how, some, group, filling.halves)
        filling.window.close(rows, view)
    for places, allowed in plan.metadata:
        rows[:, places] = allowed[rows[:, places]]


def _fill_halves(how: Sequence[Fill], view: Raw, group: ImageGroup, halves: Halves) -> None:
    """Fill the B of a sparse A; in half of the images its halves are the same."""
    for half in halves:
        part = view[:, half]
        fill_in_turn(how, part, group, "b")
        view[:, half] = part
    same = group.draws[:, SPOTS] >> np.uint16(15) == 1
    first, second = halves
    view[np.ix_(same, second)] = view[np.ix_(same, first)]


def _fill_word(
    words: NDArray[np.uint32], draws: NDArray[np.uint16], number: int, mask: int
) -> None:
    """Make a control word 0, 1 or the largest in a quarter of the images each; else random."""
    choice = draws[:, SPOTS + number % 16] >> np.uint16(14)
    for which, value in enumerate((0, 1, mask)):
        words[choice == which] = value


_SMALL = 40
"""Numbers below this are counts, distances of shifts and the like: registers have 32 bits."""
_ENDS = np.array(
    [0, 1, 0xFFFF_FFFF, 0x8000_0000, 0x7FFF_FFFF, 0xFFFF, 0x8000, 0x7F80_0000], "<u4"
)  # fmt: skip
"""Ends of 16 and 32 bits, and the infinity of f32."""


def _fill_rows(
    rows: NDArray[np.uint8], draws: NDArray[np.uint16], class_: ValueClass, plan: Plan
) -> None:
    """Fill what ldmatrix and code of lanes read: numbered elements, few bytes or words, or any."""
    if not plan.rows.size:
        return
    words = plan.rows[: plan.rows.size // 4 * 4]
    match class_:
        case ValueClass.WIDE:
            # Numbers of all lengths. The factor is 2^32 over the golden ratio (Knuth, The Art of
            # Computer Programming 3, 6.4).
            drawn = np.ascontiguousarray(rows[:, words]).view("<u4")
            drawn >>= drawn * np.uint32(0x9E3779B1) >> np.uint32(27)
            rows[:, words] = drawn.view(np.uint8)
        case ValueClass.TINY:
            drawn = np.ascontiguousarray(rows[:, words]).view("<u4")
            rows[:, words] = (drawn % np.uint32(_SMALL)).astype("<u4").view(np.uint8)
        case ValueClass.ENDS:
            drawn = np.ascontiguousarray(rows[:, words]).view("<u4")
            rows[:, words] = _ENDS[drawn % np.uint32(len(_ENDS))].view(np.uint8)
        case ValueClass.CODED | ValueClass.NORMAL | ValueClass.MIRRORED | ValueClass.AIMED:
            # An odd factor keeps the numbers of different elements different.
            bytes_ = np.arange(plan.rows.size)
            codes = (bytes_ >> 1) * 0x9E37 + draws[:, :1].astype(np.int64)
            rows[:, plan.rows] = codes >> 8 * (bytes_ & 1) & 0xFF
        case ValueClass.ENDS | ValueClass.EXTREME:
            rows[:, plan.rows] = 0 - (rows[:, plan.rows] & np.uint8(1))
        case ValueClass.SUBNORMAL | ValueClass.SQUARES:
            rows[:, plan.rows] = np.uint8(1) << (rows[:, plan.rows] & np.uint8(7))


_WORDS_PER_COUNT = 4
"""64-bit words that Philox4x64 makes of one value of its counter."""


def _random_rows(
    seed: int, first: int, count: int, row_bytes: int, *, purpose: int = 0
) -> NDArray[np.uint8]:
    """Return the bytes of rows `first` to `first + count - 1` of an endless table.

    Only the raw words of Philox4x64-10 are used (Salmon et al. 2011, "Parallel random numbers: as
    easy as 1, 2, 3"): NumPy promises the streams of its bit generators, and not those of its
    distributions (NEP 19).

    Parameters
    ----------
    seed
        What tells one table from another, 64 bits.
    first, count
        Which rows.
    row_bytes
        Bytes of a row, a multiple of 32.
    purpose
        The same as `seed`, for tables that are not of recipes.

    Returns
    -------
    uint8 (count, row_bytes), contiguous and writable
    """
    words = row_bytes // 8
    start = first * words // _WORDS_PER_COUNT
    generator = np.random.Philox(
        key=np.array([seed, purpose], np.uint64), counter=np.array([start, 0, 0, 0], np.uint64)
    )
    drawn = np.asarray(generator.random_raw(count * words)).astype("<u8", copy=False)
    return drawn.view(np.uint8).reshape(count, row_bytes)


_POOL_BYTES = 1 << 20
_POOL_ROWS = 256
_POOL_KEY = 0x706F_6F6C
"""Any number: the pool is the same for all seeds."""


def _pool_size(row_bytes: int) -> int:
    """Return the rows of the pool: at most 256 and, if a row is not larger, 1 MiB."""
    return min(_POOL_ROWS, max(1, _POOL_BYTES // max(1, row_bytes)))


def _pool_rows(row_bytes: int, rows: int) -> NDArray[np.uint8]:
    """Return the first rows of the pool, for what nothing reads, to be used again and again.

    Returns
    -------
    uint8 (rows, row_bytes)
        Not to be written to.
    """
    padded = -(-row_bytes // 32) * 32
    size = rows * padded
    return _pool(max(32, 1 << size.bit_length()))[:size].reshape(rows, padded)[:, :row_bytes]


@lru_cache(maxsize=8)
def _pool(size: int) -> NDArray[np.uint8]:
    """Return the first bytes of the pool: rows of every size are cut from the same."""
    pool = _random_rows(0, 0, 1, size, purpose=_POOL_KEY).ravel()
    pool.flags.writeable = False
    return pool
