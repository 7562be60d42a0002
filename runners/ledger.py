"""The ledger of a screening launch: what each multiprocessor ran, and what differed.

Little-endian in global memory: how many images differed, a row for each multiprocessor, headers of
the first images that differed, and those images.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROWS = 1024
"""Multiprocessors of which a ledger has a row: more than any GPU has. `%smid` may skip numbers
(PTX ISA 10.8), so that the highest lies above their count."""
ROW = np.dtype({
    "names": ["taken", "finished", "wrong"], "formats": ["<u4"] * 3, "offsets": [0, 4, 8],
    "itemsize": 32,
})  # fmt: skip
"""Images that the multiprocessor has taken (the last ones beyond the limit), compared, and found
wrong. A row fills a sector of the second-level cache, 32 bytes."""
RECORDS = 16  # images that a ledger keeps
RECORD = np.dtype({
    "names": ["image", "sm", "warp", "turn", "nanoseconds"], "formats": ["<u4"] * 4 + ["<u8"],
    "offsets": [0, 4, 8, 12, 16], "itemsize": 32,
})  # fmt: skip
"""Number of the image, `%smid`, `%warpid`, how many images the multiprocessor had taken before,
and `%globaltimer`."""

ROWS_AT = 256  # byte of the first row; the number of images that differed is the u32 at byte 0
RECORDS_AT = ROWS_AT + ROWS * ROW.itemsize
IMAGES_AT = -(-(RECORDS_AT + RECORDS * RECORD.itemsize) // 256) * 256
CONFIDENCE = 0.95  # of every bound on a rate
_RULE_OF_THREE = 3.0
"""None in n: with 95 % confidence the rate is below 3/n, because (1 - 3/n)^n is about exp(-3), 0.05
(Hanley and Lippman-Hand, JAMA 1983, "If nothing goes wrong, is everything all right?")."""
_OFTEN = 0.1  # rates above it are told in percent: "1 in 1" would be read as always


def ledger_bytes(image_bytes: int) -> int:
    """Return the size of a ledger for images of a size, in bytes."""
    return IMAGES_AT + RECORDS * image_bytes


@dataclass(frozen=True, kw_only=True, eq=False)
class Differing:
    """An image that came out wrong."""

    image: int  # its number
    sm: int  # number of the multiprocessor
    actual: NDArray[np.uint8]  # (image_bytes,): what memory held
    # The next are None where they were not written down.
    warp: int | None = None  # slot of the warp on its multiprocessor (`%warpid`)
    turn: int | None = None  # images that the multiprocessor had taken before in this launch
    nanoseconds: int | None = None  # the device's clock (`%globaltimer`) when it was compared


@dataclass(frozen=True, kw_only=True, eq=False)
class Ledger:
    """What a screening launch wrote down."""

    finished: NDArray[np.uint32]  # (ROWS,): images that each multiprocessor ran and compared
    wrong: NDArray[np.uint32]  # (ROWS,): those of them that differed
    differing: tuple[Differing, ...]  # the first ones that differed, at most RECORDS


def read_ledger(data: NDArray[np.uint8], image_bytes: int) -> Ledger:
    """Return what a ledger says, uint8 (bytes,), at least up to the last image that it holds."""
    rows = data[ROWS_AT:RECORDS_AT].view(ROW)
    count = recorded(data)
    records = data[RECORDS_AT : RECORDS_AT + RECORDS * RECORD.itemsize].view(RECORD)
    images = data[IMAGES_AT : IMAGES_AT + count * image_bytes].reshape(count, image_bytes)
    return Ledger(
        finished=rows["finished"].copy(),
        wrong=rows["wrong"].copy(),
        differing=tuple(
            Differing(
                **{name: int(record[name]) for name in RECORD.names or ()}, actual=image.copy()
            )
            for record, image in zip(records, images, strict=False)
        ),
    )


def recorded(data: NDArray[np.uint8]) -> int:
    """Return how many images a ledger holds, given its first bytes."""
    return min(int(data[:4].view("<u4")[0]), RECORDS)


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How often something came out wrong, with its bound."""

    cases: int
    wrong: int

    @property
    def value(self) -> float | None:
        """Wrong ones of all; None if there are none."""
        return self.wrong / self.cases if self.cases else None

    @property
    def bound(self) -> float | None:
        """Below which the rate is with 95 % confidence; known where nothing was wrong."""
        return _RULE_OF_THREE / self.cases if self.cases and not self.wrong else None

    @property
    def below(self) -> str:
        """The bound in words; empty where something was wrong."""
        if self.bound is None:
            return ""
        return f"rate < {self.bound:.1e}, {100 * CONFIDENCE:.0f} % confidence".replace("e-0", "e-")

    def __str__(self) -> str:
        """Return it in words, such as "5 of 20,000,000 images, 1 in 4,000,000"."""
        if not self.cases:
            return "not run"
        if self.bound is not None:
            return f"0 errors in {self.cases:,} image{'s' * (self.cases > 1)} ({self.below})"
        if self.wrong == self.cases:
            return f"always ({self.cases:,} times)"
        rate = self.wrong / self.cases
        words = f"1 in {1 / rate:,.0f}"
        if rate > _OFTEN:
            # What is not always is never all of them.
            words = "over 99 %" if rate > 0.99 else f"{100 * rate:.0f} %"
        return f"{self.wrong:,} of {self.cases:,}, {words}"
