"""From a recipe to images.

Random words are Philox4x32-10 (Random123; Salmon et al. 2011, "Parallel random numbers: as easy as
1, 2, 3"; NumPy's own is another one): the counter of four words is (number of the block, stream,
group low, group high), the key the seed of the recipe. Image n belongs to group n div m and is its
member n mod m, m being the recipe's period times `sharing(period)`: members share a group's words,
each a constant further on, which is a fifteenth of the work. runners/reference/contents.h does the
same on a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from oracle.program.program import Program
from strategies.contents.expressions import Draws, Values
from strategies.contents.plans import BLOCK, FillPlan, Opened, plan_of
from strategies.contents.recipes import Recipe, ValueClass, by_class

Words = NDArray[np.uint32]

NOISE_STREAM = 0  # Words of an image's bytes: block b fills bytes 16 b to 16 b + 15
DRAWS_STREAM = 1  # What matrices of an image share: blocks 0 to 7 are 64 numbers of 16 bits
GAPS_STREAM = 2  # Word 0 of block 0 is added to what fills blocks that nothing reads
DRAWS = 64
GOLDEN = 0x9E37_79B9
"""2^32 over the golden ratio, the distance between members of a group: multiples lie far apart
(Steele et al. 2014, "Fast splittable pseudorandom number generators")."""
_SHARED = 16  # Images at least that share the words of a group

# Random123, philox.h: multipliers of words 0 and 2, and what the keys grow by.
_MULTIPLIERS = np.array([[0xCD9E_8D57], [0xD251_1F53]], np.uint64)
_WEYL = np.array([[0x9E37_79B9], [0xBB67_AE85]], np.uint64)
_LOW = np.uint64(0xFFFF_FFFF)
_HALF = np.uint64(32)
_ROUNDS = 10


def philox(counters: NDArray[np.uint64], key: int) -> Words:
    """Return Philox4x32-10 of counters, uint64 (4, n) of words below 2^32: uint32 (n, 4)."""
    keys = np.array([[key & 0xFFFF_FFFF], [key >> 32]], np.uint64)
    even, odd = counters[0::2].copy(), counters[1::2].copy()
    product = np.empty_like(even)
    for _ in range(_ROUNDS):
        # Rows: the product of word 2, then that of word 0, whose high halves go to words 0 and 2.
        np.multiply(even[::-1], _MULTIPLIERS, out=product)
        np.right_shift(product, _HALF, out=even)
        even ^= odd
        even &= _LOW
        even ^= keys
        product, odd = odd, product  # the low halves are the new odd words
        keys = (keys + _WEYL) & _LOW
    words = np.empty((counters.shape[1], 4), np.uint32)
    words[:, 0::2], words[:, 1::2] = even.T, odd.T
    return words


def sharing(period: int) -> int:
    """Return how many images of each class of a recipe share the words of a group."""
    return -(-_SHARED // period)


def words_of(
    seed: int, streams: NDArray[np.uint64], blocks: NDArray[np.uint64], first: int, count: int
) -> Words:
    """Return words of blocks of streams, for groups from the first: uint32 (count, 4 x blocks)."""
    groups = np.uint64(first) + np.arange(count, dtype=np.uint64)
    counters = np.empty((4, count, len(blocks)), np.uint64)
    counters[0], counters[1] = blocks, streams
    counters[2], counters[3] = (groups & _LOW)[:, None], (groups >> _HALF)[:, None]
    return philox(counters.reshape(4, -1), seed).reshape(count, -1)


@lru_cache(maxsize=8)
def gap_words(count: int) -> Words:
    """Return what the words of blocks that nothing reads are, but for a constant of their image.

    The finaliser of MurmurHash3 of the number of the word (Appleby 2011, fmix32).
    """
    words = np.arange(count, dtype=np.uint32)
    for factor, shift in ((0x85EB_CA6B, 16), (0xC2B2_AE35, 13)):
        words ^= words >> np.uint32(shift)
        words *= np.uint32(factor)
    words ^= words >> np.uint32(16)
    words.flags.writeable = False
    return words


_CHUNK_BYTES = 1 << 21
"""Bytes that are filled at once: what one pass writes the next finds in the cache (2^20 to 2^22
are alike, less is slower; one core with 512 KiB of second-level cache, 2026-11-21)."""
_TOGETHER_BYTES = 1 << 17
"""Bytes of several classes that are filled together, one matrix after the other: what one class
would cost is then paid once, while all of it stays in the cache."""


def expand(recipe: Recipe, program: Program, count: int, *, first: int = 0) -> NDArray[np.uint8]:
    """Fill images for a program: uint8 (count, image_bytes).

    Every byte is random; on top of that, each matrix that is loaded is filled as the image's
    class has it, with a, b and c of one multiplication made for each other. Image `first + i`
    depends on its number, the recipe and the program alone; UsageError says that there is none.
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
    """Fill uint8 (count, image_bytes) with the images of `expand`, those of a class together.

    Returns the number of each image, (count,), as `recipes.by_class` orders them.
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
    recipe: Recipe, program: Program, images: NDArray[np.uint8], first: int, places: Sequence[slice]
) -> None:
    """Fill images; `places` says, for each class of the recipe, which rows are its images."""
    if first < 0:
        raise UsageError(f"first {first} must not be negative")
    if first + len(images) > 1 << 64:
        raise UsageError(f"there is no image {first + len(images) - 1}; the last one is 2^64 - 1")
    plan = plan_of(program)
    period = len(recipe.classes)
    share = sharing(period)
    # Blocks and streams of the words of an image: its bytes, its draws, that of gaps.
    kinds, counts = (NOISE_STREAM, DRAWS_STREAM, GAPS_STREAM), (len(plan.blocks), DRAWS // 8, 1)
    streams = np.repeat(np.array(kinds, np.uint64), counts)
    blocks = np.concatenate([plan.blocks, np.arange(DRAWS // 8), [0]]).astype(np.uint64)
    # An image's turn is its number among those of its class, over all batches.
    turns = [(first + (slot - first) % period) // period for slot in range(period)]
    last = max(turn + len(images[place]) for turn, place in zip(turns, places, strict=True))
    most = max(1, _CHUNK_BYTES // (share * len(blocks) * BLOCK))
    for group in range(min(turns) // share, -(-last // share), most):
        begin = group * share
        end = min(begin + most * share, last)
        shared = words_of(recipe.seed, streams, blocks, group, -(-(end - begin) // share))
        # A few images of many classes are as quick to fill as many images of one.
        together = min(period, max(1, _TOGETHER_BYTES // (share * shared.nbytes)))
        words = np.empty((together * (end - begin), shared.shape[1]), np.uint32)
        batch = _Batch(words, plan)
        for start in range(0, period, together):
            parts, done = list[_Part](), 0
            for slot in range(start, min(start + together, period)):
                turn = max(begin, turns[slot])
                place = slice(turn - turns[slot], max(end - turns[slot], 0))
                part = images[places[slot]][place]
                if len(part):
                    some = slice(done, done + len(part))
                    done = some.stop
                    _shift(shared, slot, turn - begin, period, words[some])
                    parts.append(_Part(recipe.classes[slot], turn, some, part))
            if parts:
                batch.fill(parts, done)


def _shift(shared: Words, slot: int, turn: int, period: int, out: Words) -> None:
    """Make words of images of a class of those of their groups; `turn` counts from the first."""
    share = sharing(period)
    if share == 1:
        distance = np.uint32(slot * GOLDEN & 0xFFFF_FFFF)
        np.add(shared[turn : turn + len(out)], distance, out=out)
        return
    turns = np.arange(turn, turn + len(out))
    members = (turns % share * period + slot).astype(np.uint32)
    np.take(shared, turns // share, axis=0, out=out)
    out += (members * np.uint32(GOLDEN))[:, None]


@dataclass(frozen=True, eq=False)
class _Part:
    """Images of one class that are filled at once."""

    class_: ValueClass
    turn: int  # Number of the first among those of its class
    rows: slice
    images: NDArray[np.uint8]  # Where the rows go


class _Batch:
    """Rows of words that are filled at once, one matrix after the other."""

    def __init__(self, words: Words, plan: FillPlan) -> None:
        bytes_, size = words.view(np.uint8), len(plan.blocks) * BLOCK
        self._plan = plan
        self._opened = Opened(bytes_[:, :size])
        # Where matrices meet, each is made of the random bits and not of another one.
        self._noise = Opened(np.empty((len(words), size), np.uint8)) if plan.overlap else None
        self._draws: Draws = words[:, size // 4 : size // 4 + DRAWS // 2].view(np.uint16)
        self._gaps = words[:, -4]

    def fill(self, parts: Sequence[_Part], count: int) -> None:
        every = slice(count)
        if self._noise is not None:
            self._noise.rows[every] = self._opened.rows[every]
        known: list[dict[Any, Any]] = [{} for _ in parts]
        for filling in self._plan.fillings:
            view = noise = self._opened.view(filling.window, every)
            if self._noise is not None:
                noise = self._noise.view(filling.window, every)
                view[...] = noise
            for part, numbers in zip(parts, known, strict=True):
                # Several ways of filling take turns, image by image.
                fills, given = filling.fills[part.class_], filling.given(self._opened, part.rows)
                own, random, draws = view[part.rows], noise[part.rows], self._draws[part.rows]
                for number, fill in enumerate(fills):
                    some = slice((number - part.turn) % len(fills), None, len(fills))
                    if len(own[some]):
                        both = None if given is None else (given[0][some], given[1][some])
                        values = numbers.setdefault((number, len(fills)), {})
                        Values(random[some], draws[some], values, both).fill(fill, own[some])
            filling.window.close(self._opened.rows[every], view)
        for part in parts:
            self._write(part)

    def _write(self, part: _Part) -> None:
        start = 0
        for run in self._plan.read:
            stop = start + run.stop - run.start
            part.images[:, run] = self._opened.rows[part.rows, start:stop]
            start = stop
        gaps = gap_words(part.images.shape[1] // 4)
        for run in self._plan.gaps:
            words = slice(run.start // 4, run.stop // 4)
            out = part.images[:, run].view(np.uint32)
            np.bitwise_xor(gaps[words], self._gaps[part.rows, None], out=out)
