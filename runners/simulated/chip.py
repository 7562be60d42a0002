"""A description of a device's matrix units: this is how silicon is made to order.

    chip = chip_of("sm_90")                        # an architecture that is known
    chip = chip.with_floats(fraction=19, block=5, rounding=Rounding.UP, zero_exponent=-40)
    chip = chip.with_floats("f32.bf16.bf16.f32", descending=True, accumulator_last=True)
    chip = chip.with_doubles(descending=True)
    runner = SimulatedRunner("sm_90", chip=chip)   # or SimulatedDevice("sm_90", chip=chip)

Every field of `runners.simulated.units.FloatUnit` and `DoubleUnit` may be set, in any combination:
bits kept at alignment (`fraction`, 8 to 30), products added at once (`block`, 1 to 32), how they
are dealt out (`run`), from which end (`descending`), when C comes (`accumulator_last`, and
`addition` for how it is rounded then), the exponent of a zero (`zero_exponent`, any), roundings,
subnormals, the word of a NaN, and what else stands there. The device computes from these in
integers, and asks nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from oracle.errors import UsageError
from runners.simulated.units import ARCHITECTURES, DoubleUnit, FloatUnit, float_unit

TYPES = {
    "f32.f16.f16.f32": ("f16", "f32"),
    # Where only one of C and D is f16, the sum runs in f32 and is converted before or behind
    # (measured on an H200, November 2026).
    "f32.f16.f16.f16": ("f16", "f32"),
    "f16.f16.f16.f32": ("f16", "f32"),
    "f16.f16.f16.f16": ("f16", "f16"),
    "f32.bf16.bf16.f32": ("bf16", "f32"),
    "f32.tf32.tf32.f32": ("tf32", "f32"),
}
"""Formats of the multiplicands and of the running sum, by the types of D, A, B and C."""
_QUADS = ("f32.f16.f16.f32", "f32.f16.f16.f16", "f16.f16.f16.f16")


@dataclass(frozen=True, kw_only=True)
class Chip:
    """The floating-point units of a device; its exact ones are the same everywhere."""

    floats: Mapping[str, FloatUnit]
    """By the types of D, A, B and C, as an opcode has them: "f32.bf16.bf16.f32"."""
    doubles: DoubleUnit
    """The rounding is each instruction's."""
    quads: Mapping[str, FloatUnit] = field(default_factory=dict)
    """The units behind mma.sync.m8n8k4 of f16, by the same types; empty where there is none, and
    scalar arithmetic stands for it."""

    def with_floats(self, types: str | None = None, **fields: Any) -> Chip:
        """Return a chip with other fields of its units for these types, or of all of them.

        Raises
        ------
        UsageError
            If there are no such types, or no such field.
        ValueError
            If a unit cannot be made so.
        """
        if types is not None and types not in self.floats:
            raise UsageError(
                f"no unit is for {types!r}; there are units for {', '.join(self.floats)}"
            )
        changed = {
            name: _replaced(unit, fields) if types in (None, name) else unit
            for name, unit in self.floats.items()
        }
        return replace(self, floats=changed)

    def with_doubles(self, **fields: Any) -> Chip:
        """Return a chip with other fields of its f64 unit."""
        return replace(self, doubles=_replaced(self.doubles, fields))


def _replaced(unit: Any, fields: Mapping[str, Any]) -> Any:
    known = set(unit.__dataclass_fields__)
    for name in fields:
        if name not in known:
            raise UsageError(
                f"a {type(unit).__name__} has no {name}; it has {', '.join(sorted(known))}"
            )
    return replace(unit, **fields)


def chip_of(target: str) -> Chip:
    """Return the chip of an architecture that can be simulated, such as "sm_90".

    Raises
    ------
    UsageError
        If there is none.
    """
    known = {f"sm_{number}": number for number in ARCHITECTURES}
    if target not in known:
        raise UsageError(f"no chip is known of {target!r}; known are {', '.join(known)}")
    number = known[target]
    return Chip(
        floats={types: float_unit(number, *formats) for types, formats in TYPES.items()},
        doubles=DoubleUnit(),
        # Published: sm_75 computes this shape as sm_70 does.
        quads={types: float_unit(70, *TYPES[types]) for types in _QUADS if number < 80},
    )
