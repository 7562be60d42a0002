"""Which bytes of a buffer an access touches, as arithmetic instead of lists of bytes."""

from __future__ import annotations

from dataclasses import dataclass

from oracle.program import Load, LoadRows, Store
from oracle.storage import Tile


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Runs of bytes, equally far apart, in one buffer."""

    buffer: str
    start: int
    """First byte, counted from the start of the buffer."""
    run: int
    """Bytes of one run."""
    pitch: int
    """Bytes from the start of one run to the start of the next."""
    runs: int

    @property
    def end(self) -> int:
        """Byte behind the last."""
        return self.start + (self.runs - 1) * self.pitch + self.run

    @staticmethod
    def of(step: Load | Store) -> Span:
        """Return the bytes of the matrix that a step loads or stores."""
        tile = Tile(matrix=step.form.matrix, layout=step.form.layout, stride=step.stride)
        return Span(
            buffer=step.place.buffer, start=step.place.offset, run=tile.line_bytes,
            pitch=tile.pitch, runs=tile.lines,
        )  # fmt: skip

    @staticmethod
    def block(buffer: str, start: int, size: int) -> Span:
        """Return bytes that lie next to each other."""
        return Span(buffer=buffer, start=start, run=size, pitch=size, runs=1)

    @staticmethod
    def of_rows(step: LoadRows) -> Span:
        """Return the bytes from the first to the last that ldmatrix may read."""
        rows = step.addresses
        low, high = min(rows), max(rows) + step.form.ROW_BYTES
        return Span.block(step.buffer, low, high - low)

    def meets(self, other: Span) -> bool:
        """Tell whether a byte belongs to both.

        Exact where the pitches are the same and no run reaches into the next, or one of the two
        is a single run; else True as soon as one reaches behind the start of the other.
        """
        if self.buffer != other.buffer or self.start >= other.end or other.start >= self.end:
            return False
        if self.runs == 1 or other.runs == 1:
            block, comb = (self, other) if self.runs == 1 else (other, self)
            return comb._meets_block(block.start, block.end)
        if self.pitch != other.pitch or max(self.run, other.run) > self.pitch:
            return True
        # The distance between the two starts decides, up to whole pitches.
        distance = (other.start - self.start) % self.pitch
        return distance < self.run or distance + other.run > self.pitch

    def _meets_block(self, start: int, end: int) -> bool:
        """Tell whether a byte from `start` to `end` (exclusive) belongs to a run."""
        if self.runs == 1 or self.run >= self.pitch:
            return start < self.end and self.start < end
        # The first run that ends behind the start of the block.
        index = max(0, (start - self.start - self.run) // self.pitch + 1)
        return index < self.runs and self.start + index * self.pitch < end
