"""Ways in which a unit's wires fail: what it computed is right, what arrives is not."""

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


def on_one_multiprocessor(sm: int, corruption: Corruption) -> Corruption:
    """Corrupt only what runs on one multiprocessor."""

    def corrupt(words: list[Values], site: Site) -> list[Values]:
        here = site.sms == sm
        if not here.any():
            return words
        pairs = zip(_whole(words, site), corruption(words, site), strict=True)
        return [np.where(here, broken, sound) for sound, broken in pairs]

    return corrupt


def on_loaded_multiprocessors(warps: int, corruption: Corruption) -> Corruption:
    """Corrupt only what runs on multiprocessors that have at least so many warps."""

    def corrupt(words: list[Values], site: Site) -> list[Values]:
        here = np.bincount(site.sms)[site.sms] >= warps
        if not here.any():
            return words
        pairs = zip(_whole(words, site), corruption(words, site), strict=True)
        return [np.where(here, broken, sound) for sound, broken in pairs]

    return corrupt


def _random_words(site: Site, seed: int, count: int) -> NDArray[np.uint64]:
    """Return (count, warps) random words that depend on seed, launch, line and warp alone."""
    order = np.arange(count, dtype=np.uint64)[:, None] << np.uint64(40)
    state = site.warps.astype(np.uint64) + order
    state += np.uint64((seed << 48) ^ (site.launch << 20) ^ site.line)
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
