"""Values and possible races at a point of a program while it is drawn.

The rules are those of `oracle.definedness`, kept by construction: a barrier is put wherever two
accesses would race, and a value is offered to later steps only where every path has written it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from oracle.matrices import Matrix
from oracle.operands import Fragment, Held
from oracle.places import Span
from oracle.steps import Barrier, Step
from strategies.programs.memory import Region


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
class Scope:
    """The steps of a program, an arm or a body, and what is known behind the last."""

    depth: int = 0
    steps: list[Step] = field(default_factory=list)
    values: dict[str, LiveValue] = field(default_factory=dict)
    reads: list[Span] = field(default_factory=list)
    """Since the last barrier."""
    writes: list[Span] = field(default_factory=list)
    """Since the last barrier."""
    has_written: bool = False
    """Whether any step of the scope writes memory."""

    def child(self) -> Scope:
        """Return a scope that begins here."""
        return Scope(
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

    def pending(self) -> Iterator[LiveValue]:
        """Iterate over what would be lost at the end of the scope."""
        for value in tuple(self.values.values()):
            if value.pending and value.depth >= self.depth:
                yield value

    def join(self, *ends: Scope) -> None:
        """Go on where one of some scopes has ended."""
        kept = {}
        for name, value in self.values.items():
            alike = [
                end.values[name]
                for end in ends
                if name in end.values and end.values[name].holds == value.holds
            ]
            if len(alike) == len(ends):
                kept[name] = replace(
                    value,
                    pending=any(other.pending for other in alike),
                    region=value.region if all(o.region is value.region for o in alike) else None,
                )
        self.values = kept
        self.reads = [span for end in ends for span in end.reads]
        self.writes = [span for end in ends for span in end.writes]
        self.has_written |= any(end.has_written for end in ends)
