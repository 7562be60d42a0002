"""From an entry's text to what executes: every instruction is looked up and checked once."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from runners.simulated import access, floating, ldmatrix, scalar, wmma
from runners.simulated.operands import Operands
from runners.simulated.silicon import Silicon
from runners.simulated.syntax import Entry, Guard, Instruction, Listing, Name
from runners.simulated.traps import TrapKind, refuse
from runners.simulated.warps import Operation

_WARP_LEVEL = (
    (wmma.LOAD, wmma.load),
    (wmma.STORE, wmma.store),
    (wmma.MMA, wmma.mma),
    (ldmatrix.LDMATRIX, ldmatrix.decode),
    (floating.ARITHMETIC, floating.arithmetic),
    (floating.SIGN, floating.sign),
)
_PER_THREAD = (*scalar.FORMS, *access.FORMS)

_EXITS = ("ret", "exit")
_BRANCHES = ("bra", "bra.uni")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One decoded instruction. With neither operation nor goal it ends the warp."""

    line: int
    guard: Guard | None
    operation: Operation | None = None
    goal: int | None = None
    """Index of the step that a branch goes to."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """An entry that can run."""

    name: str
    steps: tuple[Step, ...]
    parameters: tuple[tuple[str, int], ...]
    """Key among the registers and bits of each parameter."""
    shared_bytes: int
    """Static shared memory of a block."""


def _shared_offsets(entry: Entry) -> tuple[dict[str, int], int]:
    offsets: dict[str, int] = {}
    end = 0
    for array in entry.shared:
        alignment = array.alignment
        if alignment < 1 or alignment & (alignment - 1):
            refuse(TrapKind.PARSE, array.line, f"alignment {alignment} is no power of two")
        offsets[array.name] = -(-end // alignment) * alignment
        end = offsets[array.name] + array.size
    return offsets, end


def _find(opcode: str, silicon: Silicon) -> Callable[[Operands], Operation] | None:
    for pattern, decode in _WARP_LEVEL:
        match = pattern.fullmatch(opcode)
        if match:
            return partial(decode, silicon=silicon, match=match)
    for pattern, plain in _PER_THREAD:
        match = pattern.fullmatch(opcode)
        if match:
            return lambda operands: plain(operands, match)
    return None


def _step(instruction: Instruction, operands: Operands, silicon: Silicon) -> Step:
    line, guard, opcode = instruction.line, instruction.guard, instruction.opcode
    if guard is not None and operands.width(guard.register) != 1:
        refuse(TrapKind.PARSE, line, f"guard {guard.register} is no predicate")
    if opcode in _EXITS:
        operands.expect(0)
        return Step(line=line, guard=guard)
    if opcode in _BRANCHES:
        (label,) = operands.expect(1)
        goal = operands.entry.labels.get(label.text) if isinstance(label, Name) else None
        if goal is None:
            refuse(TrapKind.PARSE, line, f"there is no label {getattr(label, 'text', label)}")
        return Step(line=line, guard=guard, goal=goal)
    decode = _find(opcode, silicon)
    if decode is None:
        refuse(TrapKind.UNSUPPORTED, line, f"{opcode} is not known to the simulated device")
    return Step(line=line, guard=guard, operation=decode(operands))


def _ends(steps: list[Step], index: int) -> bool:
    """Return whether a warp that comes to this step has nothing left to do."""
    if index == len(steps):
        return True
    step = steps[index]
    return step.operation is None and step.goal is None and step.guard is None


def _kernel(entry: Entry, listing: Listing, silicon: Silicon) -> Kernel:
    offsets, shared_bytes = _shared_offsets(entry)
    steps: list[Step] = []
    for instruction in entry.body:
        operands = Operands(
            instruction=instruction,
            entry=entry,
            version=listing.version,
            shared_offsets=offsets,
        )
        steps.append(_step(instruction, operands, silicon))
    return Kernel(
        name=entry.name,
        # A branch to the end is an exit: warps without an image are gone from the first branch on,
        # and do not wait at the end with all others beside them.
        steps=tuple(
            replace(step, goal=None) if step.goal is not None and _ends(steps, step.goal) else step
            for step in steps
        ),
        parameters=tuple(
            (scalar.parameter_key(parameter.name), int(parameter.type[1:]))
            for parameter in entry.parameters
        ),
        shared_bytes=shared_bytes,
    )


def decode(listing: Listing, silicon: Silicon) -> MappingProxyType[str, Kernel]:
    """Decode all entries of a module for a device.

    Raises
    ------
    SimulatedTrap
        At the first instruction that is not known or not allowed for the module's target.
    """
    return MappingProxyType(
        {name: _kernel(entry, listing, silicon) for name, entry in listing.entries.items()}
    )
