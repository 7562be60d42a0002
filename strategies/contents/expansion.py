"""Recipes, and from a recipe to images.

Random words are Philox4x32-10 (Random123; Salmon et al. 2011): the counter is (number of the block,
stream, group low, group high), the key the seed of the recipe. Image n belongs to group n div m and
is its member n mod m, m being the recipe's period times `sharing(period)`: members share a group's
words, each a constant further on, a fifteenth of the work. contents.h of the runners does the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import accumulate, groupby, pairwise, zip_longest
from typing import Any, NamedTuple

import numpy as np
from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.strategies import SearchStrategy
from numpy.typing import NDArray

from oracle.arithmetic.conversions import FLOATS
from oracle.errors import UsageError
from oracle.program.program import Program
from strategies.contents.expressions import Fill, Node, Raw
from strategies.contents.fills import ValueClass, edges_of
from strategies.contents.plans import BLOCK, FillPlan, Window, plan_of
from strategies.draws import Drawn


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What to fill images with: at least one class of values."""

    classes: tuple[ValueClass, ...]  # In turn: image i is of class i modulo their number
    seed: int  # Key of the counter-based generator, 64 bits


def period_of(recipe: Recipe) -> int:
    """Return after how many images classes come again; UsageError where no image can be made."""
    if not recipe.classes:
        raise UsageError("a recipe has no class of values; give at least one")
    if not 0 <= recipe.seed < 1 << 64:
        raise UsageError(f"the seed is {recipe.seed}; it must lie in 0 to 2^64 - 1")
    return len(recipe.classes)


_MOST_OMITTED = len(ValueClass) // 2
_OMITTED_AGAIN = 0.8568892045454545
"""As Hypothesis 6.170 draws sets of at most 9, whose sizes are 4.5 on average."""


def drawn_recipe(data: ConjectureData, wanted: tuple[ValueClass, ...] = ()) -> Recipe:
    """Draw a recipe; it shrinks towards all classes and a small seed."""
    left = [*ValueClass]
    while len(left) > len(ValueClass) - _MOST_OMITTED and data.draw_boolean(_OMITTED_AGAIN):
        del left[data.draw_integer(0, len(left) - 1)]
    # Those that are wanted come first; the others in the order of `ValueClass`.
    classes = tuple(dict.fromkeys((*wanted, *left)))
    return Recipe(classes=classes, seed=data.draw_integer(0, (1 << 64) - 1))


def recipes(wanted: tuple[ValueClass, ...] = ()) -> SearchStrategy[Recipe]:
    """Draw recipes, with some classes first."""
    return Drawn(lambda data: drawn_recipe(data, wanted))


def of_group(recipe: Recipe) -> Recipe:
    """Return the recipe with which a warpgroup's program is filled: every second image is NORMAL.

    Those are whole numbers there, of which each sum is exact. In the images of most other classes
    a few special values make most of D NaN, as what is multiplied is a D again.
    """
    others = (one for one in recipe.classes if one is not ValueClass.NORMAL)
    classes = [each for one in others for each in (ValueClass.NORMAL, one)]
    return replace(recipe, classes=tuple(classes or recipe.classes))


_APART = {
    ValueClass.SPECIAL, ValueClass.SUBNORMAL, ValueClass.PAYLOADS, ValueClass.ZEROS, ValueClass.ANY
}  # fmt: skip
"""Classes with values of which arithmetic is done apart: zeros, subnormals, infinities, NaN."""


def by_class(recipe: Recipe, count: int, *, first: int) -> list[tuple[int, range]]:
    """Return the numbers of the images of each class, by its place; special values are last.

    What works on many images at once is slower where one of them holds special values.
    """
    classes, period = recipe.classes, len(recipe.classes)
    places = sorted(
        range(period), key=lambda at: (classes[at] in _APART, classes.index(classes[at]))
    )
    found = ((at, range(first + (at - first) % period, first + count, period)) for at in places)
    return [(at, own) for at, own in found if own]


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
    """Return words of blocks that nothing reads, but for a constant: MurmurHash3's fmix32."""
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
_TOGETHER_BYTES = 1 << 19  # Bytes of several classes that are filled together, in the cache


def expand(recipe: Recipe, program: Program, count: int, *, first: int = 0) -> NDArray[np.uint8]:
    """Fill images for a program: uint8 (count, image_bytes).

    Every byte is random; on top of that, each matrix that is loaded is filled as the image's
    class has it, with a, b and c of one multiplication made for each other. Image `first + i`
    depends on its number, the recipe and the program alone; UsageError says that there is none.
    """
    if count < 0:
        raise UsageError(f"count {count} must not be negative")
    made = np.empty((count, program.image_bytes), np.uint8)
    order = _expand(recipe, program, made, first)
    images = np.empty_like(made)
    images[order] = made
    return images


def expand_by_class(
    recipe: Recipe, program: Program, images: NDArray[np.uint8], *, first: int = 0
) -> NDArray[np.intp]:
    """Fill uint8 (count, image_bytes) with the images of `expand`, those of a class together.

    Returns the number of each image, (count,), as `by_class` orders them.
    """
    return _expand(recipe, program, images, first) + first


def _expand(
    recipe: Recipe, program: Program, images: NDArray[np.uint8], first: int
) -> NDArray[np.intp]:
    """Fill images, those of a class together; return their numbers, counted from the first."""
    period = period_of(recipe)
    if first < 0:
        raise UsageError(f"first {first} must not be negative")
    if first + len(images) > 1 << 64:
        raise UsageError(f"there is no image {first + len(images) - 1}; the last one is 2^64 - 1")
    plan, share = plan_of(program), sharing(period)
    slots = by_class(recipe, len(images), first=first % period)
    numbers = np.concatenate(
        [np.arange(0), *(np.arange(own.start, own.stop, period) for _, own in slots)]
    )
    # An image's turn is its number among those of its class, over all batches.
    places = pairwise(accumulate((len(own) for _, own in slots), initial=0))
    classes = [
        (slot, (first + (slot - first) % period) // period, *place)
        for (slot, _), place in zip(slots, places, strict=True)
    ]
    # Blocks and streams of the words of an image: its bytes, its draws, that of gaps.
    kinds, counts = (NOISE_STREAM, DRAWS_STREAM, GAPS_STREAM), (len(plan.blocks), DRAWS // 8, 1)
    streams = np.repeat(np.array(kinds, np.uint64), counts)
    blocks = np.concatenate([plan.blocks, np.arange(DRAWS // 8), [0]]).astype(np.uint64)
    last = max((turn + stop - start for _, turn, start, stop in classes), default=0)
    most = max(1, _CHUNK_BYTES // (share * len(blocks) * BLOCK))
    for group in range(first // period // share, -(-last // share), most):
        begin = group * share
        end = min(begin + most * share, last)
        shared = words_of(recipe.seed, streams, blocks, group, -(-(end - begin) // share))
        # A few images of many classes are as quick to fill as many images of one.
        together = max(1, _TOGETHER_BYTES // (share * shared.nbytes))
        for some in range(0, len(classes), together):
            words = np.empty((together * (end - begin), shared.shape[1]), np.uint32)
            parts, done = list[_Part](), 0
            for slot, turn, start, stop in classes[some : some + together]:
                own = range(start, stop)[max(0, begin - turn) : max(0, end - turn)]
                if own:
                    rows = slice(done, done + len(own))
                    parts.append(_Part(recipe.classes[slot], max(begin, turn), rows, own.start))
                    done = rows.stop
            if parts:
                rows_of = [np.arange(one.rows.stop - one.rows.start) + one.place for one in parts]
                # Numbers count from the first image of the first of the groups.
                before = (first // period - begin) * period
                _shift(shared, numbers[np.concatenate(rows_of)] + before, period, words[:done])
                _fill(plan, words[:done], parts, images)
    return numbers - first % period


def _shift(shared: Words, numbers: NDArray[np.intp], period: int, out: Words) -> None:
    """Make words of images of those of their groups, whose first image has the number 0."""
    groups, members = np.divmod(numbers, period * sharing(period))
    np.take(shared, groups, axis=0, out=out)
    out += (members.astype(np.uint32) * np.uint32(GOLDEN))[:, None]


class _Part(NamedTuple):
    """Images of one class that are filled at once."""

    class_: ValueClass
    turn: int  # Number of the first among those of its class
    rows: slice
    place: int  # Where the first of the rows goes


def _fill(plan: FillPlan, words: Words, parts: Sequence[_Part], images: NDArray[np.uint8]) -> None:
    """Fill rows of words, one matrix after the other, and write them to their images."""
    size = len(plan.blocks) * BLOCK
    rows = words.view(np.uint8)[:, :size]
    # Where matrices meet, each is made of the random bits and not of another one.
    noise = rows.copy() if any(filling.meets for filling in plan.fillings) else rows
    draws = words[:, size // 4 : size // 4 + DRAWS // 2].view(np.uint16).astype(np.int64)
    known = defaultdict[tuple[int, int, int], dict[Node, Any]](dict)
    turns: dict[int, list[tuple[Fill, slice]]] = {}

    def factors(windows: Sequence[Window], some: slice) -> tuple[Raw, ...]:
        return tuple(window.open(rows[some]) for window in windows)

    for filling in plan.fillings:
        window = filling.window
        filled = random = window.open(noise)
        if noise is not rows:
            filled = window.open(rows) if window.is_view else random.copy()
            if filling.meets:
                filled[...] = random
        if id(filling.fills) not in turns:
            turns[id(filling.fills)] = [*_turns(filling.fills, parts)]
        for fill, some in turns[id(filling.fills)]:
            numbers = known[some.start, some.stop, some.step]
            multiplicands = partial(factors, filling.multiplicands, some)
            fill.steps(filled.dtype).fill(
                filled[some], random[some], draws[some], numbers, multiplicands
            )
        window.close(rows, filled)
    gaps = gap_words(images.shape[1] // 4)
    for place, some in _neighbours(parts):
        own, start = images[place : place + some.stop - some.start], 0
        for run in plan.read:
            stop = start + run.stop - run.start
            own[:, run] = rows[some, start:stop]
            start = stop
        for run in plan.gaps:
            out = own[:, run].view(np.uint32)
            np.bitwise_xor(gaps[run.start // 4 : run.stop // 4], words[some, -4, None], out=out)


def _turns(
    fills: Mapping[ValueClass, Sequence[Fill]], parts: Sequence[_Part]
) -> Iterator[tuple[Fill, slice]]:
    """Iterate over what fills which rows: neighbours alike at once, no rows that stay random."""
    for own, alike in groupby(parts, key=lambda part: fills[part.class_]):
        some = [*alike]
        if len(own) == 1:
            if not own[0].is_random:
                yield own[0], slice(some[0].rows.start, some[-1].rows.stop, 1)
            continue
        for part in some:
            # Several ways of filling take turns, image by image.
            for number, fill in enumerate(own):
                start = part.rows.start + (number - part.turn) % len(own)
                if start < part.rows.stop and not fill.is_random:
                    yield fill, slice(start, part.rows.stop, len(own))


def _neighbours(parts: Sequence[_Part]) -> Iterator[tuple[int, slice]]:
    """Iterate over rows that go to images back to back, and where the first of them goes."""
    first = parts[0]
    for one, following in zip_longest(parts, parts[1:]):
        if (
            following is None
            or following.place - following.rows.start != one.place - one.rows.start
        ):
            yield first.place, slice(first.rows.start, one.rows.stop)
            first = following


_SMALL = 16  # Numbers from 0 up to this are small: what counts, shifts and indices usually are


def filled(kind: str, bits: int, size: int, *, seed: int, image: int, buffer: int) -> bytes:
    """Return the contents of a buffer of so many bytes, by NumPy's Philox, for `warpfuzz judge`.

    `kind` is "u", "s", "b" (integers and floats) or "f", or "bf" for bf16; an element has 8, 16, 32
    or 64 bits. Images have by turns edges, any bits, small numbers, and each of these mixed.
    """
    count = -(-size * 8 // bits)
    drawn = _drawn(2 * count, seed, image, buffer)
    values, choices = drawn[:count], drawn[count:] >> np.uint64(32)
    edges = edges_of(kind, bits)

    def small() -> NDArray[np.uint64]:
        least = values % np.uint64(_SMALL)
        if kind not in ("f", "bf"):
            return least
        dtype = FLOATS["bf16" if kind == "bf" else f"f{bits}"]
        numbers = (least.astype(np.float64) / 4).astype(dtype)
        return numbers.view(f"u{bits // 8}").astype(np.uint64)

    offers = (lambda: edges[choices % np.uint64(edges.size)], lambda: values, small)
    turn = image % (len(offers) + 1)
    if turn == len(offers):
        which = (choices >> np.uint64(16)).astype(np.intp) % len(offers)
        found = np.choose(which, [offer() for offer in offers])
    else:
        found = offers[turn]()
    return found.astype(f"<u{bits // 8}").tobytes()[:size]


def below(limit: int, bits: int, size: int, *, seed: int, image: int, buffer: int) -> bytes:
    """Return integers from 0 up to a limit; otherwise as `filled`."""
    drawn = _drawn(-(-size * 8 // bits), seed, image, buffer) % np.uint64(limit)
    return drawn.astype(f"<u{bits // 8}").tobytes()[:size]


def _drawn(count: int, seed: int, image: int, buffer: int) -> NDArray[np.uint64]:
    key = np.array([seed, image << 16 | buffer], np.uint64)
    return np.random.Philox(key=key).random_raw(count).astype(np.uint64)
