"""A program while it is drawn: its memory, its live values, what is still asked for, and its dice.

A draw costs more than what is decided by it, so that decisions which belong together (all about
one access, all about one multiplication) are the digits of one integer. Every digit 0 stands for
the plainest choice: an integer that shrinks to 0 makes everything about its access plain at once.

The rules of `oracle.program.definedness` are kept by construction: a barrier is put wherever two
accesses would race, and a value is offered to later steps only where every path has written it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hypothesis.internal.conjecture.data import ConjectureData

from oracle.isa.forms import Form, Format, Matrix
from oracle.isa.targets import Module
from oracle.layouts.storage import Tile
from oracle.program.operands import Buffer, Fragment, Held, Place, Span
from oracle.program.program import Program
from oracle.program.steps import Barrier, Copy, Step
from strategies.features import Feature, Focus
from strategies.programs.forms import Palette

T = TypeVar("T")

DIGITS = (1 << 60) - 1
"""Most that an integer of digits is: more than the product of the radices of any group, by so much
that digits are uniform."""
_WIDE_DIGITS = (1 << 384) - 1
"""As `DIGITS`, for a scalar instruction with its constants."""
GUARD_BYTES = 32
"""Bytes behind a matrix and its next line, and behind rows and registers, which nothing may touch:
a store that is a line or an element off stays in its own image."""


class Dice:
    """The digits of one drawn integer, each in a base of its own."""

    def __init__(self, value: int) -> None:
        self._rest = value

    def below(self, bound: int) -> int:
        """Return a digit from 0 to `bound`, exclusive."""
        self._rest, digit = divmod(self._rest, bound)
        return digit

    def one_of(self, items: Sequence[T]) -> T:
        """Return an item; the first is the plainest."""
        return items[self.below(len(items))]

    def once_in(self, times: int) -> bool:
        """Return True once in so many times; False is the plainest."""
        return self.below(times) == times - 1


@dataclass(kw_only=True)
class Region:
    """Bytes that an access touches; type, layout and stride are those of a matrix."""

    arena: Arena
    span: Span
    written: bool
    type: Format | None = None
    layout: str = ""
    stride: int | None = None
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
    def size(self) -> int:
        """Bytes of the buffer."""
        return self.used if self.closed else self.guarded

    def take(self, region: Region, behind: int) -> Region:
        """Note bytes that are accessed, and so many behind them that nothing else may be in."""
        self.regions.append(region)
        self.written |= region.written
        self.used = max(self.used, region.span.end)
        self.guarded = max(self.guarded, region.span.end + behind + GUARD_BYTES)
        return region


@dataclass(kw_only=True)
class LiveValue:
    """Registers that later steps may use."""

    name: str
    holds: Held
    """A fragment of wmma, whose layout is opaque, or registers of a known layout."""
    depth: int
    """Depth of the scope that first wrote the name."""
    pending: bool = False
    """Whether it was computed, and nothing has used or stored it."""
    computed: bool = False
    """Whether a multiplication made it."""
    type: str = ""
    """Name of the format of the elements of a D."""
    used: frozenset[str] = frozenset()
    """Operands as which a multiplication has used it."""
    pins: int = 0
    """Multiplications that are planned to use a fragment."""
    region: Region | None = None
    """Where it was loaded, or the C of which it was made."""

    @property
    def matrix(self) -> Matrix:
        """The matrix of a fragment; accumulators are operand "c"."""
        assert isinstance(self.holds, Fragment)
        return self.holds.matrix


@dataclass(kw_only=True)
class NameScope:
    """The steps of a program, an arm or a body, and what is known behind the last."""

    depth: int = 0
    steps: list[Step] = field(default_factory=list)
    values: dict[str, LiveValue] = field(default_factory=dict)
    reads: list[Span] = field(default_factory=list)
    """Since the last barrier; so are `writes`."""
    writes: list[Span] = field(default_factory=list)
    has_written: bool = False
    """Whether any step of the scope writes memory."""

    def child(self) -> NameScope:
        """Return a scope that begins here."""
        return NameScope(
            depth=self.depth + 1,
            values={name: replace(value) for name, value in self.values.items()},
            reads=list(self.reads),
            writes=list(self.writes),
        )

    def access(self, *, reads: tuple[Span, ...] = (), writes: tuple[Span, ...] = ()) -> None:
        """Note what the next step accesses, behind a barrier if it would race."""
        if any(span.meets(other) for span in reads for other in self.writes) or any(
            span.meets(other) for span in writes for other in (*self.reads, *self.writes)
        ):
            self.barrier()
        self.reads += reads
        self.writes += writes
        self.has_written |= bool(writes)

    def barrier(self) -> None:
        """Append a barrier."""
        self.steps.append(Barrier())
        self.reads.clear()
        self.writes.clear()

    def like(self, holds: Held) -> list[LiveValue]:
        """Return the values that can stand for an operand, the latest last."""
        return [value for value in self.values.values() if value.holds == holds]

    def pending(self) -> list[LiveValue]:
        """Return what would be lost at the end of the scope."""
        return [one for one in self.values.values() if one.pending and one.depth >= self.depth]

    def join(self, *ends: NameScope) -> None:
        """Go on where one of some scopes has ended."""
        kept = {}
        for name, value in self.values.items():
            alike = [end.values[name] for end in ends if name in end.values]
            if len(alike) == len(ends) and all(one.holds == value.holds for one in alike):
                kept[name] = replace(
                    value,
                    pending=any(one.pending for one in alike),
                    region=value.region if all(o.region is value.region for o in alike) else None,
                )
        self.values = kept
        self.reads = [span for end in ends for span in end.reads]
        self.writes = [span for end in ends for span in end.writes]
        self.has_written |= any(end.has_written for end in ends)


class Builder:
    """Grows one program.

    `palette` has the forms that may be used, `everything` all that there are. Decisions come from
    `data`: integers are drawn without a strategy, in a seventh of the time. Whoever makes a choice
    looks first at what is asked for, and ticks off what it did.
    """

    def __init__(
        self,
        data: ConjectureData,
        palette: Palette,
        everything: Palette,
        focus: Focus,
        module: Module,
    ) -> None:
        self._data, self.palette, self.everything = data, palette, everything
        self.focus, self.module = focus, module
        self.scope = NameScope()
        self.arenas: list[Arena] = []
        self.form: Form | None = focus.form
        """The form that is asked for, until it is there."""
        self.wanted = set(focus.features)
        """Features that are asked for, until they are there."""
        self.asked = focus.features
        """All features that were asked for."""
        self.plain_spaces = True
        """Whether matrices lie in global memory unless something else is asked for."""
        self.lanes: int | None = None
        """Lanes that store where not all do, once that is chosen."""
        self._names, self._arena_names = Counter[str](), Counter[str]()

    def dice(self) -> Dice:
        """Draw the digits of a group of decisions."""
        return Dice(self._data.draw_integer(0, DIGITS))

    def wide_dice(self) -> Dice:
        """Draw the digits of a group of decisions that holds numbers of up to 64 bits."""
        return Dice(self._data.draw_integer(0, _WIDE_DIGITS))

    def take(self, *features: Feature) -> bool:
        """Tell whether one of some features is still asked for, and tick them off."""
        found = not self.wanted.isdisjoint(features)
        self.wanted.difference_update(features)
        return found

    def wants(self, features: Iterable[Feature]) -> bool:
        """Tell whether one of some features is still asked for."""
        return not self.wanted.isdisjoint(features)

    def add(self, step: Step) -> None:
        """Append a step; a form that was asked for is there with it."""
        self.scope.steps.append(step)
        if self.form is not None and getattr(step, "form", None) == self.form:
            self.form = None

    def define(self, name: str, holds: Held, **known: Any) -> LiveValue:
        """Note that a step has written registers; what they held is gone."""
        value = LiveValue(name=name, holds=holds, **{"depth": self.scope.depth, **known})
        self.scope.values[name] = value
        return value

    def name(self, hint: str) -> str:
        """Return a name that no value has yet: the hint, and a number from the second on."""
        self._names[hint] += 1
        return f"{hint}{self._names[hint] - 1 or ''}"

    def inside(self, scope: NameScope, part: Callable[[], None]) -> None:
        """Append a part to another scope."""
        outer, self.scope = self.scope, scope
        part()
        self.scope = outer

    def image_bytes(self, *, shared: bool = False) -> int:
        """Bytes of the image, or of shared memory, so far."""
        sizes = (arena.size for arena in self.arenas if arena.shared or not shared)
        return sum(-(-size // 256) * 256 for size in sizes)

    def arena(self, hint: str, *, shared: bool = False) -> Arena:
        """Return a new buffer, named after what it is for."""
        self._arena_names[hint] += 1
        name = f"{hint}{self._arena_names[hint] - 1 or ''}"
        self.arenas.append(Arena(name=name, shared=shared))
        return self.arenas[-1]

    def regions(self, *, shared: bool | None = None) -> list[Region]:
        """Return the regions of a space, or of both, in buffers that may still grow."""
        open_ = [one for one in self.arenas if shared in (None, one.shared) and not one.closed]
        return [region for arena in open_ for region in arena.regions]

    def matrix(self, arena: Arena, start: int, tile: Tile, *, written: bool) -> Region:
        """Give a matrix a place in a buffer."""
        span = Span(
            buffer=arena.buffer, start=start, run=tile.line_bytes, pitch=tile.pitch, runs=tile.lines
        )
        region = Region(
            arena=arena, span=span, type=tile.matrix.type, layout=tile.layout, stride=tile.stride,
            written=written,
        )  # fmt: skip
        return arena.take(region, tile.pitch)  # a store that is one line off stays in its image

    def block(
        self, arena: Arena, start: int, size: int, *, written: bool = False, registers: bool = False
    ) -> Region:
        """Give bytes that are no matrix a place in a buffer."""
        span = Span.block(arena.buffer, start, size)
        return arena.take(
            Region(arena=arena, span=span, written=written, registers=registers), behind=0
        )

    def finish(self) -> Program:
        """Return the program: shared buffers filled first, and brought back at the end."""
        buffers: list[Buffer] = []
        filled: list[Step] = []
        back: list[Step] = []
        for arena in self.arenas:
            twin, size = "g" + arena.name, arena.size
            buffers.append(Buffer(name=twin, space="global", size=size))
            if arena.shared:
                buffers.append(Buffer(name=arena.buffer, space="shared", size=size))
                far, near = Place(buffer=twin), Place(buffer=arena.buffer)
                filled.append(Copy(source=far, destination=near, size=size))
                if arena.written:
                    back.append(Copy(source=near, destination=far, size=size))
        before = [*filled, Barrier()] if filled else []
        behind = [Barrier(), *back] if back else []
        return Program(buffers=tuple(buffers), steps=(*before, *self.scope.steps, *behind))
