"""Planted faults: which are to be found, and a simulated device with one of them."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache

from oracle.errors import InfrastructureError, UsageError
from oracle.forms import Form
from oracle.image import different
from oracle.isa import FORMS, is_available
from oracle.targets import Module, parse_target, parse_version
from runners.faults import CATALOGUE, Fault, Place, by_name
from runners.faults.statements import statements
from runners.kernels import LANES, KernelModule
from runners.protocol import Images
from runners.simulated import Module as LoadedModule
from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind
from strategies.contents import Recipe, ValueClass, expand
from strategies.program_coverage import Batch
from strategies.programs import is_valued


class Contents(StrEnum):
    """Where the values come from; the programs are the same."""

    WARPFUZZ = "warpfuzz"
    """The recipes of a campaign."""
    UNIFORM = "uniform"
    """Uniform random bits; of floating-point numbers only finite ones, as in section 5 of the
    measured facts: with others, NaN would hide most results of f16."""
    NORMAL = "normal"
    """Normally distributed numbers of variance 1; of integers, small ones."""


_CLASSES = {Contents.UNIFORM: ValueClass.BITS, Contents.NORMAL: ValueClass.NORMAL}


def filled(contents: Contents, batch: Batch, count: int) -> Images:
    """Return the first images of a batch, uint8 (count, image_bytes)."""
    if contents is Contents.WARPFUZZ:
        return batch.images(count)
    recipe: Recipe = replace(batch.recipe, classes=(_CLASSES[contents],))
    return expand(recipe, batch.program, count)


def _narrowed(name: str, suffix: str, pattern: str, meaning: str) -> Fault:
    """Return a fault of the catalogue that touches only some of its instructions."""
    fault = by_name(name)
    if fault.damage is None:
        raise UsageError(f"fault {name} sits in the text; only those of the device can be narrowed")
    opcodes = re.compile(pattern)
    return replace(
        fault,
        name=f"{name}/{suffix}",
        meaning=meaning,
        opcodes=opcodes,
        damage=replace(fault.damage, opcodes=opcodes),
    )


_F16_TO_F32 = r"^wmma\.mma.*\d\.f32\.f32$"
_F16_TO_F16 = r"^wmma\.mma.*\d\.f16\.f16$"
_BF16 = r"^wmma\.mma.*\.bf16\.f32$"

# The table of section 5 of the project's measured facts: 20,000 dot products each, f16 inputs and
# f32 results, and below it what it says of f16 results and of bf16.
MEASURED_ROWS: tuple[Fault, ...] = (
    _narrowed("alignment-one-bit-more", "f32", _F16_TO_F32, "F + 1, f16 inputs, f32 result"),
    _narrowed("block-halved", "f32", _F16_TO_F32, "L / 2, f16 inputs, f32 result"),
    _narrowed(
        "product-normalised-first", "f32", _F16_TO_F32,
        "product normalised first, f16 inputs, f32 result",
    ),
    _narrowed(
        "subnormals-flushed-in-a", "f32", _F16_TO_F32,
        "subnormal inputs flushed, f16 inputs, f32 result",
    ),
    _narrowed(
        "sum-rounded-to-nearest", "f32", _F16_TO_F32,
        "nearest-even at the end, f16 inputs, f32 result",
    ),
    _narrowed("alignment-one-bit-more", "f16", _F16_TO_F16, "F + 1, f16 result"),
    _narrowed("block-halved", "f16", _F16_TO_F16, "L / 2, f16 result"),
    _narrowed("zero-exponent-higher", "f16", _F16_TO_F16, "e_zero + 1, f16 result"),
    _narrowed("zero-exponent-higher", "bf16", _BF16, "e_zero + 1, bf16 inputs"),
)  # fmt: skip


_BY_NAME = {fault.name: fault for fault in (*CATALOGUE, *MEASURED_ROWS)}


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A fault that a campaign should find. It goes to other processes by its name."""

    name: str
    unobservable: str = ""
    """Why no program can show it; empty where one can."""

    @property
    def fault(self) -> Fault:
        """The fault itself."""
        return _BY_NAME[self.name]

    @property
    def is_measured_row(self) -> bool:
        """Whether it is a single row of what was measured, and not in the catalogue itself."""
        return self.fault not in CATALOGUE


def chosen(pattern: str, *, target: str, version: str) -> tuple[Subject, ...]:
    """Return what a pattern selects, in the order of the catalogue.

    Parameters
    ----------
    pattern
        Shell pattern over names of faults; a bare word may stand anywhere.
    target, version
        Of the modules in which the faults are to be found.
    """
    wanted = pattern if any(c in pattern for c in "*?[") else f"*{pattern}*"
    faults = [fault for name, fault in _BY_NAME.items() if fnmatchcase(name, wanted)]
    if not faults:
        close = difflib.get_close_matches(pattern, _BY_NAME, n=5, cutoff=0.4)
        hint = f"did you mean {', '.join(close)}?" if close else "docs/bench.md lists all names"
        raise UsageError(f"no planted fault has a name like {pattern!r}; {hint}")
    return tuple(
        Subject(name=fault.name, unobservable=unobservable(fault, target=target, version=version))
        for fault in faults
    )


@cache
def _drawn(target: str, version: str) -> tuple[Form, ...]:
    module = Module(parse_target(target), parse_version(version))
    return tuple(
        form
        for form in FORMS
        if is_available(form, module) and (not form.is_main or is_valued(form, module))
    )


def unobservable(fault: Fault, *, target: str, version: str) -> str:
    """Return why no program for a target can show a fault; "" where one can."""
    if fault.rare:
        return "so rare that screening has to look for it (`warpfuzz screen SET`)"
    if any(fault.opcodes.search(form.opcode) for form in _drawn(target, version)):
        return ""
    if any(fault.opcodes.search(form.opcode) for form in FORMS):
        return (
            f"no instruction that it touches exists on {target} in PTX ISA {version}, or its "
            "figures there are not known"
        )
    # It touches what surrounds the forms: copies, branches, element-wise operations.
    return ""


@dataclass(frozen=True, kw_only=True)
class Emitted:
    """A module of one kernel, with what every mutant asks of its text."""

    module: KernelModule
    opcodes: frozenset[str]
    """Of its instructions."""

    @classmethod
    def of(cls, module: KernelModule) -> Emitted:
        """Read the opcodes once for all mutants."""
        return cls(module=module, opcodes=frozenset(s.opcode for s in statements(module.ptx)))

    def has(self, pattern: re.Pattern[str]) -> bool:
        """Whether the pattern finds something in an opcode."""
        return any(pattern.search(opcode) for opcode in self.opcodes)


class Mutant:
    """A simulated device with one fault, or without any.

    It is used without a runner around it: runners keep modules, and a hundred of them would keep
    thousands. A trap is what a runner would report as a failure.
    """

    def __init__(self, fault: Fault | None, *, target: str, layout: int) -> None:
        self._fault = fault
        faults = [fault] if fault is not None and fault.place is Place.DEVICE else []
        self._device = SimulatedDevice(target, layout_seed=layout, faults=faults)

    def load(self, emitted: Emitted) -> LoadedModule | SimulatedTrap | None:
        """Load a module as the fault leaves it; None if the fault touches nothing in it."""
        fault, ptx = self._fault, emitted.module.ptx
        if fault is not None and not emitted.has(fault.opcodes):
            return None
        if fault is not None and fault.place is Place.PTX:
            ptx = fault.rewrite(ptx)
            if ptx == emitted.module.ptx:
                return None
        try:
            return self._device.load(ptx)
        except SimulatedTrap as trap:
            return _checked(trap)

    def first_wrong(
        self,
        module: LoadedModule | SimulatedTrap,
        emitted: Emitted,
        images: Images,
        expected: Images,
    ) -> int | None:
        """Return the number of the first image that comes out wrong, or None.

        What was refused when it was loaded is wrong at the first image. A launch that traps is
        wrong at the first image that is to blame, which a campaign isolates.
        """
        if isinstance(module, SimulatedTrap):
            return 0
        kernel = emitted.module.kernel()
        try:
            results, _ = module.launch(kernel.entry, images, threads=LANES * kernel.warps_per_block)
        except SimulatedTrap as trap:
            return min(_checked(trap).trap.warps, default=len(images) - 1)
        wrong = different(expected, results)
        return int(wrong[0]) if len(wrong) else None


def _checked(trap: SimulatedTrap) -> SimulatedTrap:
    """Return a trap that a campaign would report.

    Raises
    ------
    InfrastructureError
        If the simulated device cannot do this by design: then nothing was found.
    """
    if trap.trap.kind is TrapKind.UNSUPPORTED:
        raise InfrastructureError(f"the simulated device cannot run a program of the bench: {trap}")
    return trap
