"""The form of a fault inside the simulated device, before it is put together."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from runners.faults.fault import Fault
from runners.simulated.silicon import Corruption, Damage
from runners.simulated.units import Matrix, Unit

Change = Callable[[Any], Unit]


def with_fields(**fields: Any) -> Change:
    """Return what replaces fields of a unit."""
    return lambda unit: replace(unit, **fields)


def flushing(matrix: Matrix) -> Change:
    """Return what makes a unit flush subnormal elements of one more matrix."""
    return lambda unit: replace(unit, flushed=unit.flushed | {matrix})


@dataclass(frozen=True, kw_only=True)
class DeviceRow:
    """A fault of the device."""

    name: str
    meaning: str
    stands_for: str
    pattern: str
    unit: type[Unit] | None = None
    change: Change | None = None
    corrupt: Corruption | None = None
    rare: bool = False

    def fault(self) -> Fault:
        """Return the fault that the row describes."""
        opcodes = re.compile(self.pattern)
        return Fault(
            name=self.name,
            meaning=self.meaning,
            stands_for=self.stands_for,
            opcodes=opcodes,
            rare=self.rare,
            damage=Damage(
                opcodes=opcodes, unit=self.unit, change=self.change, corrupt=self.corrupt
            ),
        )
