"""Where the matrices of a program lie: buffers that grow while the program is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from oracle.formats import Format
from oracle.places import Buffer, Place, Span
from oracle.steps import Copy
from oracle.storage import Tile

GUARD_BYTES = 32
"""Bytes behind a matrix and its next line, and behind rows and registers, which nothing may touch:
a store that is a line or an element off stays in its own image."""


@dataclass(kw_only=True)
class Region:
    """Bytes that an access touches."""

    arena: Arena
    span: Span
    type: Format | None
    """Element type; None for what is no matrix."""
    layout: str
    stride: int | None
    written: bool
    registers: bool = False
    """Whether they are registers of ldmatrix."""
    columns: int = 1
    """Matrices side by side, where the stride leaves room for several."""


@dataclass(kw_only=True)
class Arena:
    """A buffer in the making. A shared one has a global twin from which it is filled."""

    name: str
    """Without the letter of the space."""
    shared: bool
    used: int = 0
    """Bytes up to the end of the last matrix."""
    guarded: int = 0
    """Bytes with the guards."""
    closed: bool = False
    """Whether it ends with its last matrix, without a guard."""
    written: bool = False
    regions: list[Region] = field(default_factory=list)

    @property
    def buffer(self) -> str:
        """Name of the buffer."""
        return ("s" if self.shared else "g") + self.name

    @property
    def twin(self) -> str:
        """Name of the global buffer with the same bytes; the buffer itself if it is global."""
        return "g" + self.name

    @property
    def size(self) -> int:
        """Bytes of the buffer."""
        return self.used if self.closed else self.guarded

    def buffers(self) -> Iterator[Buffer]:
        """Iterate over the buffer and its twin."""
        yield Buffer(name=self.twin, space="global", size=self.size)
        if self.shared:
            yield Buffer(name=self.buffer, space="shared", size=self.size)

    def fill(self) -> Copy:
        """Return the step that fills a shared buffer."""
        return Copy(
            source=Place(buffer=self.twin), destination=Place(buffer=self.buffer), size=self.size
        )

    def empty(self) -> Copy:
        """Return the step that brings a shared buffer back to the image."""
        return Copy(
            source=Place(buffer=self.buffer), destination=Place(buffer=self.twin), size=self.size
        )


class Memory:
    """All buffers of a program in the making."""

    def __init__(self) -> None:
        self.arenas: list[Arena] = []
        self._names: dict[str, int] = {}

    def size(self, *, shared: bool) -> int:
        """Bytes of the image (`shared` False), or of shared memory, so far."""
        sizes = (arena.size for arena in self.arenas if arena.shared or not shared)
        return sum(-(-size // 256) * 256 for size in sizes)

    def arena(self, hint: str, *, shared: bool) -> Arena:
        """Return a new buffer, named after what it is for."""
        number = self._names.get(hint, 0)
        self._names[hint] = number + 1
        arena = Arena(name=hint + (str(number) if number else ""), shared=shared)
        self.arenas.append(arena)
        return arena

    def regions(self, *, shared: bool | None = None) -> list[Region]:
        """Return the regions of a space, or of both, in buffers that may still grow."""
        return [
            region
            for arena in self.arenas
            if shared in (None, arena.shared) and not arena.closed
            for region in arena.regions
        ]

    def spaces(self) -> set[bool]:
        """Return whether matrices lie in shared memory, in global memory, or in both."""
        return {
            arena.shared
            for arena in self.arenas
            if any(region.type is not None for region in arena.regions)
        }

    def matrix(self, arena: Arena, start: int, tile: Tile, *, written: bool) -> Region:
        """Give a matrix a place in a buffer."""
        span = Span(
            buffer=arena.buffer, start=start, run=tile.line_bytes, pitch=tile.pitch,
            runs=tile.lines,
        )  # fmt: skip
        region = Region(
            arena=arena, span=span, type=tile.matrix.type, layout=tile.layout, stride=tile.stride,
            written=written,
        )  # fmt: skip
        # A store that is one line off stays in its own image.
        self._take(arena, region, behind=tile.pitch)
        return region

    def block(
        self, arena: Arena, start: int, size: int, *, written: bool, registers: bool = False
    ) -> Region:
        """Give bytes that are no matrix a place in a buffer."""
        region = Region(
            arena=arena, span=Span.block(arena.buffer, start, size), type=None, layout="",
            stride=None, written=written, registers=registers,
        )  # fmt: skip
        self._take(arena, region, behind=0)
        return region

    def _take(self, arena: Arena, region: Region, *, behind: int) -> None:
        arena.regions.append(region)
        arena.written |= region.written
        arena.used = max(arena.used, region.span.end)
        arena.guarded = max(arena.guarded, region.span.end + behind + GUARD_BYTES)
