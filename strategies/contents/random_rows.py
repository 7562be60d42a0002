"""Random bytes for each image, by a counter-based generator.

Only the raw words of Philox4x64-10 are used (Salmon et al. 2011, "Parallel random numbers: as easy
as 1, 2, 3"): NumPy promises the streams of its bit generators, and not those of its distributions
(NEP 19).
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_WORDS_PER_COUNT = 4
"""64-bit words that Philox4x64 makes of one value of its counter."""


def random_rows(
    seed: int, first: int, count: int, row_bytes: int, *, purpose: int = 0
) -> NDArray[np.uint8]:
    """Return the bytes of rows `first` to `first + count - 1` of an endless table.

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


def pool_size(row_bytes: int) -> int:
    """Return the rows of the pool: at most 256 and, if a row is not larger, 1 MiB."""
    return min(_POOL_ROWS, max(1, _POOL_BYTES // max(1, row_bytes)))


def pool_rows(row_bytes: int, rows: int) -> NDArray[np.uint8]:
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
    pool = random_rows(0, 0, 1, size, purpose=_POOL_KEY).ravel()
    pool.flags.writeable = False
    return pool
