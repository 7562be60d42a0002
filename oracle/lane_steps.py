"""Steps on registers whose contents are known lane by lane: what lies around mma.sync.

Plain loads fill them, plain stores write them to memory, conversions take them from format to
format.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from oracle.held import Registers, StepBase, Use
from oracle.matrices import LANES
from oracle.ops import COUNTS, address_text, check_address
from oracle.places import Place, Span, check, check_range
from oracle.registers import check_vector

PACKED_TYPES = ("f16", "bf16")
"""Formats of which `cvt.rn.{f16x2,bf16x2}.f32` puts two into a register (PTX ISA 9.7.9.23)."""


def _check_registers(name: str, count: int, bits: int) -> None:
    check_vector(name, "vector of registers")
    check(count in COUNTS, f"{count} registers given; there are 1, 2, 4 or 8")
    check(bits in (32, 64), f"registers of {bits} bits given; they have 32 or 64")


@dataclass(frozen=True, kw_only=True)
class _PlacedRegisters(StepBase):
    """Registers of each lane and their place in memory: lane l's i-th at bits / 8 (l count + i)."""

    registers: str
    count: int
    """Registers in each lane: 1, 2, 4 or 8; of a store as what wrote them has."""
    place: Place
    bits: int = 32
    """Size of one register: 32, or 64 for f64."""

    def __post_init__(self) -> None:
        _check_registers(self.registers, self.count, self.bits)

    @property
    def size(self) -> int:
        """Bytes that are read or written."""
        return LANES * self.count * self.bits // 8

    @property
    def _span(self) -> Span:
        return Span.block(self.place.buffer, self.place.offset, self.size)

    def _use(self, *, written: bool) -> Use:
        holds = Registers(registers=self.count, bits=self.bits)
        return Use(field="registers", name=self.registers, holds=holds, written=written)


@dataclass(frozen=True, kw_only=True)
class LoadRegisters(_PlacedRegisters):
    """Each lane loads its registers: lane l its i-th from place + bits / 8 (l count + i)."""

    address: int | None = None
    """Which register holds the address before the load, counted from 0; None: another one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_address(self.address, self.count)

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        return (self._use(written=True),)

    @cached_property
    def bytes_read(self) -> tuple[Span, ...]:
        return (self._span,)

    def __str__(self) -> str:
        return f"load registers {self.registers} from {self.place}{address_text(self.address)}"


@dataclass(frozen=True, kw_only=True)
class StoreRegisters(_PlacedRegisters):
    """Each lane stores its registers: lane l its i-th at place + bits / 8 (l count + i)."""

    lanes: int = LANES
    """Lanes that store, from the first on; the others skip it under a condition."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.lanes, 1, LANES, "lanes that store registers")

    @property
    def size(self) -> int:
        """Bytes that are written."""
        return self.lanes * self.count * self.bits // 8

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        return (self._use(written=False),)

    @cached_property
    def bytes_written(self) -> tuple[Span, ...]:
        return (self._span,)

    def __str__(self) -> str:
        who = "" if self.lanes == LANES else f" of lanes below {self.lanes}"
        return f"store registers {self.registers}{who} to {self.place}"


@dataclass(frozen=True, kw_only=True)
class PackRegisters(StepBase):
    """cvt.rn of pairs of f32 registers into one: register 2 i to the low half of register i.

    How attention kernels turn a D into the next A (`cvt.rn.f16x2.f32`, 9.7.9.23; sm_80 and PTX 7.0
    on).
    """

    type: str
    """What the halves are: "f16" or "bf16"."""
    source: str
    destination: str
    count: int
    """Registers of the source in each lane: 2, 4 or 8."""

    def __post_init__(self) -> None:
        for name in (self.source, self.destination):
            _check_registers(name, self.count, 32)
        check(self.count > 1, "1 register given; pairs are packed, so give 2, 4 or 8")
        check(
            self.type in PACKED_TYPES,
            f"registers are packed as {' or '.join(PACKED_TYPES)}, not as {self.type!r}",
        )

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        return (
            Use(field="source", name=self.source, holds=Registers(registers=self.count)),
            Use(
                field="destination",
                name=self.destination,
                holds=Registers(registers=self.count // 2),
                written=True,
            ),
        )

    @property
    def carried(self) -> str:
        return self.source

    def __str__(self) -> str:
        return f"{self.destination} = pairs of {self.source} as {self.type}"


@dataclass(frozen=True, kw_only=True)
class SetRegisters(StepBase):
    """Every lane sets its registers to one number: zeros for accumulators, for one.

    The only registers of which several can be a fragment of wmma in any order, or one of them all
    of it, are those that hold the same number in every lane.
    """

    registers: str
    count: int
    """Registers in each lane: 1, 2, 4 or 8."""
    constant: int = 0
    """What each gets: its bits, as an unsigned number."""
    bits: int = 32
    """Size of one register: 32, or 64 for f64."""

    def __post_init__(self) -> None:
        _check_registers(self.registers, self.count, self.bits)
        check_range(self.constant, 0, (1 << self.bits) - 1, "constant of registers")

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        holds = Registers(registers=self.count, bits=self.bits)
        return (Use(field="registers", name=self.registers, holds=holds, written=True),)

    def __str__(self) -> str:
        return f"set registers {self.registers} to {self.constant:#x}"


@dataclass(frozen=True, kw_only=True)
class MoveRegisters(StepBase):
    """Every lane copies registers, all of them read before the first is written."""

    source: str
    destination: str
    count: int
    """Registers in each lane: 1, 2, 4 or 8."""
    bits: int = 32
    """Size of one register: 32, or 64 for f64."""

    def __post_init__(self) -> None:
        for name in (self.source, self.destination):
            _check_registers(name, self.count, self.bits)

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        holds = Registers(registers=self.count, bits=self.bits)
        return (
            Use(field="source", name=self.source, holds=holds),
            Use(field="destination", name=self.destination, holds=holds, written=True),
        )

    @property
    def carried(self) -> str:
        return self.source

    def __str__(self) -> str:
        return f"{self.destination} = {self.source}"


LaneStep = LoadRegisters | StoreRegisters | PackRegisters | SetRegisters | MoveRegisters
"""The steps on registers that are known lane by lane."""
