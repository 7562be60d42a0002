"""A device under its instructions: its target, its units, and what is broken in it.

Silicon is made to order:

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

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from typing import Any, Protocol, TypeVar

from oracle.errors import UsageError
from runners.simulated.units import (
    ARCHITECTURES,
    DoubleUnit,
    FloatUnit,
    Unit,
    byte_unit,
    float_unit,
)
from runners.simulated.warps import Site, Values

AnyUnit = TypeVar("AnyUnit", bound=Unit)

_TARGET = re.compile(r"sm_(\d+)([af]?)")

# sm_101 was renamed to sm_110 with PTX ISA 9.0 (9.7.14.5.15, Target ISA Notes).
_RENAMED = {101: 110}

_OLDER = (10, 11, 12, 13, 20, 21, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62)
"""Targets of modules alone (PTX ISA 11.1.2, .target): every later device runs them."""
OLDEST = f"sm_{min(ARCHITECTURES)}"
"""The oldest device that can be simulated."""


def is_older(target: str) -> bool:
    """Whether a target of modules is older than every device that can be simulated."""
    return target in [f"sm_{number}" for number in _OLDER]


@dataclass(frozen=True, kw_only=True)
class Target:
    """A target architecture as `.target` names it."""

    architecture: int
    suffix: str
    """`a` for architecture-specific, `f` for family-specific, or empty."""

    @classmethod
    def named(cls, name: str) -> Target:
        """Return the target of this name; raise `UsageError` if no module that is run has it."""
        match = _TARGET.fullmatch(name)
        if match is None or int(match[1]) not in (*_OLDER, *ARCHITECTURES):
            known = ", ".join(f"sm_{number}" for number in ARCHITECTURES)
            raise UsageError(
                f"no simulated device is called {name!r}; there are {known}, "
                "each with the suffix a or f where the ISA has it; modules for older targets run "
                "on each of them"
            )
        return cls(architecture=int(match[1]), suffix=match[2])

    @property
    def name(self) -> str:
        """The target's spelling."""
        return f"sm_{self.architecture}{self.suffix}"

    @property
    def _number(self) -> int:
        return _RENAMED.get(self.architecture, self.architecture)

    def runs(self, module: Target) -> bool:
        """Return whether a device of this target runs a module that was written for `module`.

        Plain targets run on every later device, family-specific ones on later devices of the
        family, architecture-specific ones on their own (PTX ISA 11.1.2, .target).
        """
        if module.suffix == "a":
            return self._number == module._number
        if module.suffix == "f":
            same_family = self._number // 10 == module._number // 10
            return same_family and self._number >= module._number
        return self._number >= module._number

    @property
    def has_narrow_rows(self) -> bool:
        """Whether ldmatrix knows 8-, 6- and 4-bit elements (9.7.14.5.15, Target ISA Notes)."""
        return bool(self.suffix) and self._number >= 100


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
_BYTES = ("e4m3", "e5m2")
_QUADS = ("f32.f16.f16.f32", "f32.f16.f16.f16", "f16.f16.f16.f16")


@dataclass(frozen=True, kw_only=True)
class Chip:
    """The floating-point units of a device; its exact ones are the same everywhere."""

    floats: Mapping[str, FloatUnit]
    """By the types of D, A, B and C, as an opcode has them: "f32.bf16.bf16.f32". Those of e4m3 and
    e5m2 are missing where there is no unit for them, and the one of f16 stands for it."""
    doubles: DoubleUnit
    """The rounding is each instruction's."""
    quads: Mapping[str, FloatUnit] = field(default_factory=dict)
    """The units behind mma.sync.m8n8k4 of f16, by the same types; empty where there is none, and
    scalar arithmetic stands for it."""

    def with_floats(self, types: str | None = None, **fields: Any) -> Chip:
        """Return a chip with other fields of its units for these types, or of all of them.

        Raises `UsageError` if there are no such types or fields, `ValueError` if there can be no
        such unit.
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
    """Return the chip of an architecture that can be simulated, such as "sm_90"."""
    known = {f"sm_{number}": number for number in ARCHITECTURES}
    if target not in known:
        raise UsageError(f"no chip is known of {target!r}; known are {', '.join(known)}")
    number = known[target]
    floats = {types: float_unit(number, *formats) for types, formats in TYPES.items()}
    for d, a, b in product(("f32", "f16"), _BYTES, _BYTES):
        if (unit := byte_unit(number, a, b, d)) is not None:
            floats[f"{d}.{a}.{b}.{d}"] = unit
    return Chip(
        floats=floats,
        doubles=DoubleUnit(),
        # Published: sm_75 computes this shape as sm_70 does.
        quads={types: float_unit(70, *TYPES[types]) for types in _QUADS if number < 80},
    )


Corruption = Callable[[list[Values], Site], list[Values]]
"""Changes the registers that an instruction is about to write."""


@dataclass(frozen=True, kw_only=True)
class Damage:
    """One thing that is broken in a device."""

    opcodes: re.Pattern[str]
    """Which instructions it touches, searched in the opcode."""
    unit: type[Unit] | None = None
    """The kind of unit that `change` is for."""
    change: Callable[[Any], Any] | None = None
    """Returns the broken unit for a sound one."""
    corrupt: Corruption | None = None


class Planted(Protocol):
    """A fault that a device can be given."""

    @property
    def damage(self) -> Damage | None:
        """What is broken in the device; None for a fault of a compiler."""

    def rewrite(self, ptx: str) -> str:
        """Return the text that reaches the device."""


@dataclass(frozen=True, kw_only=True)
class Silicon:
    """A device as instructions see it when they are decoded."""

    architecture: int
    """Architecture of the device, which decides what it traps on."""
    target: Target
    """Target of the module, which decides what instructions it may use."""
    chip: Chip
    """Its floating-point units."""
    layout_seed: int
    damages: tuple[Damage, ...]
    otherwise: bool = False
    """Whether all that the ISA leaves open is other than by itself."""
    base: int = 0
    """Address of the first variable in shared memory."""
    decoded: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    """What instructions were decoded to, of this module or of others like it on this device."""

    def unit(self, opcode: str, sound: AnyUnit) -> AnyUnit:
        """Return the unit that executes an opcode, as broken as it is."""
        for damage in self.damages:
            if damage.change and damage.opcodes.search(opcode) and damage.unit is type(sound):
                sound = damage.change(sound)
        return sound

    def corruption(self, opcode: str) -> Corruption | None:
        """Return what changes an opcode's results; None if nothing does."""
        changes = [
            damage.corrupt
            for damage in self.damages
            if damage.corrupt and damage.opcodes.search(opcode)
        ]
        if not changes:
            return None
        return lambda registers, site: reduce(lambda held, f: f(held, site), changes, registers)
