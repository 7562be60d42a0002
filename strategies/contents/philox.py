"""Random words as functions of counters: Philox4x32-10 and what is made of its words.

Philox4x32-10 is Random123's (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3");
NumPy's own `Philox` is another one, of 64-bit words. A device computes the same with 32-bit
multiplications (runners/reference/contents.h).

The counter of a block of four words is (number of the block, stream, group low, group high), the
key is the seed of the recipe. Image n belongs to group n div m and is its member n mod m, where m
is the period of the recipe times `sharing(period)`: all members of a group share its words, each
a constant further on. That is a fifteenth of the work, and images of one class are made of words
of their own in a recipe of 16 classes or more.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

NOISE_STREAM = 0
"""Words of an image's bytes: block b fills bytes 16 b to 16 b + 15."""
DRAWS_STREAM = 1
"""What the matrices of one image have in common: blocks 0 to 7 are 64 numbers of 16 bits."""
GAPS_STREAM = 2
"""Word 0 of block 0 is added to what fills blocks that nothing reads."""
DRAWS = 64
GOLDEN = 0x9E37_79B9
"""2^32 over the golden ratio, the distance between members of a group: multiples lie far apart
(Steele et al. 2014, "Fast splittable pseudorandom number generators")."""
_SHARED = 16
"""Images at least that share the words of a group."""

# Random123, philox.h: multipliers of words 0 and 2, and what the keys grow by.
_MULTIPLIERS = np.array([[0xCD9E_8D57], [0xD251_1F53]], np.uint64)
_WEYL = np.array([[0x9E37_79B9], [0xBB67_AE85]], np.uint64)
_LOW = np.uint64(0xFFFF_FFFF)
_HALF = np.uint64(32)
_ROUNDS = 10


def philox(counters: NDArray[np.uint64], key: int) -> Words:
    """Return Philox4x32-10 of counters, uint64 (4, n) of words below 2^32: uint32 (n, 4).

    The low half of the key, 64 bits, is its first word.
    """
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
