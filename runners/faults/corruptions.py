"""Corruptions of a unit's result, as faulty wires cause them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.simulated.silicon import Corruption
from runners.simulated.warps import LANES, Site, Values


def _whole(words: list[Values], site: Site) -> list[Values]:
    """Return copies that can be written to, (lanes, warps) each."""
    shape = (LANES, site.warps.size)
    return [np.array(np.broadcast_to(word, shape)) for word in words]


def stuck_bit(*, register: int, lane: int, bit: int, high: bool) -> Corruption:
    """Hold one bit of one lane's register; the last one if there are fewer registers."""

    def corrupt(words: list[Values], site: Site) -> list[Values]:
        words = _whole(words, site)
        word = words[min(register, len(words) - 1)]
        flag = word.dtype.type(1 << bit)
        if high:
            word[lane] |= flag
        else:
            word[lane] &= ~flag
        return words

    return corrupt


def _only_where(
    struck: Callable[[NDArray[Any]], NDArray[np.bool_]], corruption: Corruption
) -> Corruption:
    def corrupt(words: list[Values], site: Site) -> list[Values]:
        here = struck(site.sms)
        if not here.any():
            return words
        pairs = zip(_whole(words, site), corruption(words, site), strict=True)
        return [np.where(here, broken, sound) for sound, broken in pairs]

    return corrupt


def on_one_multiprocessor(sm: int, corruption: Corruption) -> Corruption:
    """Corrupt only what runs on one multiprocessor."""
    return _only_where(lambda sms: sms == sm, corruption)


def on_loaded_multiprocessors(warps: int, corruption: Corruption) -> Corruption:
    """Corrupt only what runs on multiprocessors that have at least so many warps."""
    return _only_where(lambda sms: np.bincount(sms)[sms] >= warps, corruption)


def _random_words(site: Site, seed: int, count: int) -> NDArray[np.uint64]:
    """Return (count, warps) random words that depend on seed, launch, line and warp alone."""
    order = np.arange(count, dtype=np.uint64)[:, None] << np.uint64(40)
    state = site.warps.astype(np.uint64) + order
    state += np.uint64((seed << 48) ^ (site.launch << 20) ^ site.line)
    return _mixed(state)


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return words in which every bit depends on all bits of those that are given."""
    # The finaliser of SplitMix64 (Steele, Lea and Flood, 2014), a mixing of all bits.
    for factor, shift in ((0xBF58_476D_1CE4_E5B9, 30), (0x94D0_49BB_1331_11EB, 27)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    words: NDArray[np.uint64] = state ^ (state >> np.uint64(31))
    return words


def transient(*, one_in: int, seed: int) -> Corruption:
    """Flip one random bit of a fragment for about one warp in so many, anew in every launch."""

    def corrupt(words: list[Values], site: Site) -> list[Values]:
        chance, place = _random_words(site, seed, 2)
        hit = np.flatnonzero(chance % np.uint64(one_in) == 0)
        if not hit.size:
            return words
        words = _whole(words, site)
        bits = 8 * words[0].itemsize
        for warp in hit:
            rest, bit = divmod(int(place[warp]) >> 8, bits)
            register, lane = rest % len(words), rest // len(words) % LANES
            words[register][lane, warp] ^= words[register].dtype.type(1 << bit)
        return words

    return corrupt


_OUTCOMES = 10_000
_NOT_FINITE, _SINGLE_BIT = 101, 3_860
"""Of so many silently wrong results, those that are NaN or infinity, 1.01 %, and those that differ
in one bit, fewer than 40 % of the others: 3 million hours of gate-level simulation of stuck-at
faults in a GPU (Tung et al., "The Anatomy of Silent Data Corruption", DSN 2026, arXiv:2605.04213,
abstract; in how many bits the rest differs is chosen here: two, and an eighth of the others)."""
_EXPONENT, _LOWEST = np.uint32(0x7F80_0000), np.uint32(0x0080_0000)
"""Of f32: the exponent, and its lowest bit."""


def silent_corruption(*, register: int, lane: int, period: int = LANES) -> Corruption:
    """Corrupt an f32 result register of a lane, and of every so many lanes behind it.

    What becomes of a result depends on that alone, as behind a gate that is stuck. Lanes at one
    distance from each other share what computes: wrong results were found at a period along warps
    (as above).
    """

    def corrupt(words: list[Values], site: Site) -> list[Values]:
        words = _whole(words, site)
        struck = words[min(register, len(words) - 1)][lane::period]
        mixed = _mixed(struck.astype(np.uint64) + np.uint64(1))
        outcome = mixed % np.uint64(_OUTCOMES)
        first, distance, most = (mixed >> np.uint64(16)) % 32, (mixed >> np.uint64(21)) % 31, mixed
        for shift in (26, 29):
            most = most & (mixed >> np.uint64(shift))
        one = (np.uint64(1) << first).astype(np.uint32)
        two = (np.uint64(1) << (first + distance + np.uint64(1)) % 32).astype(np.uint32)
        several = one | two | most.astype(np.uint32)
        flipped = struck ^ np.where(outcome < _NOT_FINITE + _SINGLE_BIT, one, several)
        # A bit that made it NaN by chance would add to those.
        chance = (flipped & _EXPONENT == _EXPONENT) & (struck & _EXPONENT != _EXPONENT)
        flipped ^= np.where(chance, _LOWEST, np.uint32(0))
        struck[...] = np.where(outcome < _NOT_FINITE, struck | _EXPONENT, flipped)
        return words

    return corrupt


def lanes_crossed(first: int, second: int) -> Corruption:
    """Give two lanes each other's results."""

    def corrupt(words: list[Values], site: Site) -> list[Values]:
        words = _whole(words, site)
        for word in words:
            word[[first, second]] = word[[second, first]]
        return words

    return corrupt


def register_lost(register: int) -> Corruption:
    """Write zero to one register of the fragment; the last one if there are fewer."""

    def corrupt(words: list[Values], site: Site) -> list[Values]:
        words = _whole(words, site)
        words[min(register, len(words) - 1)][...] = 0
        return words

    return corrupt
