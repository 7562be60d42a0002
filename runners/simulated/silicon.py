"""The device under the instructions: which generation it is, and what is broken in it."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from oracle.errors import UsageError
from runners.simulated.chip import Chip
from runners.simulated.units import ARCHITECTURES, Unit
from runners.simulated.warps import Site, Values

AnyUnit = TypeVar("AnyUnit", bound=Unit)

_TARGET = re.compile(r"sm_(\d+)([af]?)")

# sm_101 was renamed to sm_110 with PTX ISA 9.0 (9.7.14.5.15, Target ISA Notes).
_RENAMED = {101: 110}


@dataclass(frozen=True, kw_only=True)
class Target:
    """A target architecture as `.target` names it."""

    architecture: int
    suffix: str
    """`a` for architecture-specific, `f` for family-specific, or empty."""

    @classmethod
    def named(cls, name: str) -> "Target":
        """Return the target of this name.

        Raises
        ------
        UsageError
            If the simulated device has no such target.
        """
        match = _TARGET.fullmatch(name)
        if match is None or int(match[1]) not in ARCHITECTURES:
            known = ", ".join(f"sm_{number}" for number in ARCHITECTURES)
            raise UsageError(
                f"no simulated device is called {name!r}; there are {known}, "
                "each with the suffix a or f where the ISA has it"
            )
        return cls(architecture=int(match[1]), suffix=match[2])

    @property
    def name(self) -> str:
        """The target's spelling."""
        return f"sm_{self.architecture}{self.suffix}"

    @property
    def _number(self) -> int:
        return _RENAMED.get(self.architecture, self.architecture)

    def runs(self, module: "Target") -> bool:
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
    """Of the device, which decides what it traps on."""
    target: Target
    """Of the module, which decides what instructions it may use."""
    chip: Chip
    """Its floating-point units."""
    layout_seed: int
    damages: tuple[Damage, ...]
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

        def corrupt(registers: list[Values], site: Site) -> list[Values]:
            for change in changes:
                registers = change(registers, site)
            return registers

        return corrupt
