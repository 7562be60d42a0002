"""What is known at a point of a program in the making: fragments, and accesses that may race.

The rules are those of `oracle.definedness`, kept by construction: a barrier is put wherever two
accesses would race, and a fragment is offered to later steps only where every path has written it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from oracle.held import Registers
from oracle.matrices import Matrix
from oracle.places import Span
from oracle.steps import Barrier, Step
from strategies.programs.memory import Region


@dataclass(kw_only=True)
class Value:
    """A fragment that later steps may use."""

    name: str
    matrix: Matrix
    """Accumulators are operand "c"."""
    layout: str | None
    """Of a multiplicand."""
    depth: int
    """Of the scope that first wrote the name."""
    pending: bool = False
    """Whether it was computed, and nothing has used or stored it."""
    computed: bool = False
    """Whether a multiplication made it."""
    used: bool = False
    """Whether a multiplication has used it."""
    pins: int = 0
    """Multiplications that are planned to use it."""
    region: Region | None = None
    """Where it was loaded, or the C of which it was made."""

    def is_like(self, matrix: Matrix, layout: str | None) -> bool:
        """Tell whether a step that needs this matrix in this layout can take the value."""
        return self.matrix == accumulator(matrix) and self.layout == layout


@dataclass(kw_only=True)
class LaneValue:
    """Registers known by lane that later steps may use."""

    name: str
    holds: Registers
    depth: int
    """Of the scope that first wrote the name."""
    type: str = ""
    """Name of the format of the elements of a D."""
    pending: bool = False
    """Whether it was computed, and nothing has used or stored it."""
    computed: bool = False
    """Whether a multiplication made it."""
    used: frozenset[str] = frozenset()
    """Operands as which a multiplication has used it: "a", "b"."""


def accumulator(matrix: Matrix) -> Matrix:
    """Return a matrix with operand "c" instead of "d": the fragments are the same."""
    return replace(matrix, operand="c") if matrix.operand == "d" else matrix


@dataclass(kw_only=True)
class Scope:
    """The steps of a program, an arm or a body, and what is known behind the last."""

    depth: int = 0
    steps: list[Step] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    lanes: dict[str, LaneValue] = field(default_factory=dict)
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
            lanes={name: replace(value) for name, value in self.lanes.items()},
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

    def define(self, value: Value) -> None:
        """Note that a name was written."""
        self.values[value.name] = value

    def like(self, matrix: Matrix, layout: str | None) -> list[Value]:
        """Return the values that can stand for a matrix, the latest last."""
        return [value for value in self.values.values() if value.is_like(matrix, layout)]

    def pending(self) -> Iterator[Value]:
        """Iterate over what would be lost at the end of the scope."""
        for value in tuple(self.values.values()):
            if value.pending and value.depth >= self.depth:
                yield value

    def close_body(self) -> None:
        """End the body of a loop so that its next turn does not race with this one."""
        if self.has_written:
            self.barrier()

    def join(self, *ends: Scope) -> None:
        """Go on where one of some scopes has ended."""
        kept = {}
        for name, value in self.values.items():
            others = [end.values.get(name) for end in ends]
            alike = [
                other for other in others if other and other.is_like(value.matrix, value.layout)
            ]
            if len(alike) < len(ends):
                continue
            kept[name] = replace(
                value,
                pending=any(other.pending for other in alike),
                region=value.region if all(o.region is value.region for o in alike) else None,
            )
        self.values = kept
        lanes = {}
        for name, lane in self.lanes.items():
            held = [end.lanes[name] for end in ends if name in end.lanes]
            if len(held) == len(ends) and all(one.holds == lane.holds for one in held):
                lanes[name] = replace(lane, pending=any(one.pending for one in held))
        self.lanes = lanes
        self.reads = [span for end in ends for span in end.reads]
        self.writes = [span for end in ends for span in end.writes]
        self.has_written |= any(end.has_written for end in ends)
