"""From a module's text to what executes: every instruction is looked up and checked once.

Functions are put in place where they are called, each time with registers of their own.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from runners.simulated import access, matrix_rows, mma_sync, scalar, wmma
from runners.simulated.kernels import Decoded, Expansion, Kept, Kernel, Step, Waits
from runners.simulated.memory import Space
from runners.simulated.operands import Location, Operands, Surroundings
from runners.simulated.silicon import Silicon
from runners.simulated.storage import Frame, Statics
from runners.simulated.syntax import (
    CALLS,
    TYPE_BITS,
    Function,
    Group,
    Listing,
    Name,
    Variable,
)
from runners.simulated.traps import SimulatedTrap, TrapKind, refuse
from runners.simulated.warps import Operation

_MOST_STEPS = 200_000
"""Steps of a kernel with all functions in place."""
_DEEPEST_CALL = 64
"""Calls inside each other."""

_KEPT = 1 << 14
"""Decoded instructions that a device keeps, 1.7 KiB each (2026-11)."""


_FOR_MATRICES = (*wmma.FORMS, *matrix_rows.FORMS, *mma_sync.FORMS)
"""Every instruction for matrices that is known. A file of others is added here."""


@lru_cache(maxsize=4096)
def _find(opcode: str) -> tuple[Callable[..., Operation], re.Match[str], bool] | None:
    """Return what decodes an opcode of matrices or memory, how, and whether it is a warp's."""
    for pattern, decode in _FOR_MATRICES:
        if match := pattern.fullmatch(opcode):
            return decode, match, True
    for pattern, plain in access.FORMS:
        if match := pattern.fullmatch(opcode):
            return plain, match, False
    return None


class _Linker:
    """Puts together the steps of one kernel."""

    def __init__(self, listing: Listing, silicon: Silicon) -> None:
        self._listing, self._silicon = listing, silicon
        self._statics = Statics(listing.scope)
        self._steps: list[Step] = []
        self._expansions = 0
        self._local_bytes = 0

    def kernel(self, entry: Function) -> Kernel:
        """Return the kernel of an entry."""
        parameters, end = [], 0
        bound: dict[Variable, Location] = {}
        for parameter in entry.parameters:
            end = -(-end // parameter.alignment) * parameter.alignment
            bound[parameter] = Location(Space.PARAM, end)
            parameters.append((end, 8 * parameter.size))
            end += parameter.size
        self._expand(entry, "", 0, bound, ())
        steps = tuple(self._steps)
        for step in steps:
            # Who goes to an end is gone at once, and not waited for until all others come there.
            step.goals = tuple(
                len(steps) if goal < len(steps) and steps[goal].ends else goal
                for goal in step.goals
            )
        return Kernel(
            name=entry.name,
            steps=steps,
            parameters=tuple(parameters),
            static=self._statics.static(self._local_bytes),
        )

    def _expand(
        self,
        function: Function,
        prefix: str,
        base: int,
        bound: dict[Variable, Location],
        callers: tuple[str, ...],
    ) -> None:
        """Put a function's body behind the steps that are there."""
        frame = Frame(self._statics, function, base, bound)
        self._local_bytes = max(self._local_bytes, frame.end)
        expansion = Expansion()
        surroundings = Surroundings(
            version=self._listing.version,
            target=self._silicon.target,
            prefix=prefix,
            locations=frame,
            in_function=not function.is_entry,
            functions=self._listing.functions,
        )
        for instruction in function.body or ():
            expansion.starts.append(len(self._steps))
            if len(self._steps) > _MOST_STEPS:
                refuse(
                    TrapKind.UNSUPPORTED,
                    instruction.line,
                    f"the kernel has more than {_MOST_STEPS} instructions with its functions",
                )
            operands = Operands(instruction, surroundings)
            if instruction.opcode in CALLS:
                self._call(operands, frame, (*callers, function.name))
            else:
                self._steps.append(self._step(operands, expansion, function))
        expansion.close(len(self._steps))

    def _step(self, operands: Operands, expansion: Expansion, function: Function) -> Step:
        instruction = operands.instruction
        opcode = instruction.opcode
        step = Step(line=instruction.line)
        if instruction.statement.guard is not None:
            step.guard, step.negated = operands.guard()
        found = self._decoded(operands)
        if found is not None:
            step.operation, step.waits, step.members = found
            return step
        stem = opcode.removesuffix(".uni")
        if stem in ("ret", "exit"):
            operands.expect(0)
            if stem == "ret" and not function.is_entry:
                expansion.returns.append(step)
        elif stem == "bra":
            (label,) = operands.expect(1)
            expansion.branches.append((step, (self._goal(operands, label),)))
        elif stem == "brx.idx":
            index, targets = operands.expect(2)
            labels = instruction.scope.targets.get(getattr(targets, "text", ""))
            if not labels:
                refuse(TrapKind.PARSE, instruction.line, "there is no such list of branch targets")
            step.index = operands.source(index, 32)
            goals = tuple(self._goal(operands, Name(label)) for label in labels)
            expansion.branches.append((step, goals))
        elif access.is_barrier(operands):
            step.waits = Waits.BLOCK
        else:
            refuse(
                TrapKind.UNSUPPORTED,
                instruction.line,
                f"{opcode} is not known to the simulated device",
            )
        return step

    def _decoded(self, operands: Operands) -> Decoded | None:
        """Return what an instruction does; None if it is none that computes.

        The same text with the same registers does the same in every module.
        """
        kept = self._silicon.decoded
        instruction = operands.instruction
        text = instruction.statement.text
        if (entry := kept.get(text)) is None:
            if len(kept) >= _KEPT:
                kept.clear()
            entry = kept[text] = Kept(operands.names, {})
        meaning = None if entry.names is None else operands.meaning(entry.names)
        if meaning is not None and (known := entry.decoded.get(meaning)) is not None:
            return known
        waits, members = None, None
        if (found := _find(instruction.opcode)) is not None:
            decode, match, for_warp = found
            waits = Waits.WARP if for_warp else None
            given = (operands, self._silicon) if for_warp else (operands,)
            operation = decode(*given, match)
        elif (row := scalar.decode(operands)) is not None:
            operation, members = row
            waits = None if members is None else Waits.MEMBERS
        else:
            return None
        if meaning is not None:
            entry.decoded[meaning] = operation, waits, members
        return operation, waits, members

    def _goal(self, operands: Operands, label: Any) -> int:
        name = label.text if isinstance(label, Name) else str(label)
        goal = operands.instruction.scope.labels.get(name)
        if goal is None:
            refuse(TrapKind.PARSE, operands.line, f"there is no label {name}")
        return goal

    def _call(self, operands: Operands, frame: Frame, callers: tuple[str, ...]) -> None:
        """Put a called function in place."""
        instruction = operands.instruction
        groups = [each.parts for each in instruction.operands if isinstance(each, Group)]
        names = [each for each in instruction.operands if isinstance(each, Name)]
        has_results = bool(instruction.operands) and isinstance(instruction.operands[0], Group)
        results = groups.pop(0) if has_results else ()
        arguments = groups.pop(0) if groups else ()
        if len(names) != 1 or groups:
            operands.unsupported("only calls of a named function are run")
        name = names[0].text
        function = self._listing.functions.get(name)
        if function is None:
            kind = TrapKind.PARSE if instruction.scope.find(name) is None else TrapKind.UNSUPPORTED
            refuse(kind, instruction.line, f"there is no function {name}")
        if function.body is None:
            operands.unsupported(f"{name} is declared, and its body is elsewhere")
        if name in callers or len(callers) > _DEEPEST_CALL:
            operands.unsupported(f"{name} calls itself, or calls are too deep")
        if len(arguments) != len(function.parameters) or len(results) != len(function.results):
            refuse(
                TrapKind.PARSE,
                instruction.line,
                f"{name} has {len(function.parameters)} parameters and {len(function.results)} "
                f"results; {len(arguments)} and {len(results)} were given",
            )
        guard: Step | None = None
        key, negated = operands.guard()
        if key is not None:
            # Without the call, threads go on behind it.
            guard = Step(line=instruction.line, guard=key, negated=not negated)
            self._steps.append(guard)
        self._expansions += 1
        prefix = f"{self._expansions}:"
        bound: dict[Variable, Location] = {}
        entering: list[Operation] = []
        leaving: list[Operation] = []
        for formal, actual in zip(function.parameters, arguments, strict=True):
            self._bind(operands, frame, formal, actual, prefix, bound, entering, True)
        for formal, actual in zip(function.results, results, strict=True):
            self._bind(operands, frame, formal, actual, prefix, bound, leaving, False)
        self._steps.extend(Step(line=instruction.line, operation=each) for each in entering)
        self._expand(function, prefix, frame.end, bound, callers)
        self._steps.extend(Step(line=instruction.line, operation=each) for each in leaving)
        if guard is not None:
            guard.goals = (len(self._steps),)

    def _bind(
        self,
        operands: Operands,
        frame: Frame,
        formal: Variable,
        actual: Any,
        prefix: str,
        bound: dict[Variable, Location],
        moves: list[Operation],
        entering: bool,
    ) -> None:
        """Let a formal parameter be the actual one, or move its value."""
        variable = (
            operands.instruction.scope.find(actual.text) if isinstance(actual, Name) else None
        )
        if isinstance(variable, Variable) and variable.space == "param":
            if formal.space == "reg":
                operands.unsupported(f"{actual.text} in memory where a register is expected")
            if variable.size < formal.size:
                refuse(
                    TrapKind.PARSE,
                    operands.line,
                    f"{variable.name} has {variable.size} bytes, and {formal.name} {formal.size}",
                )
            bound[formal] = frame[variable]
            return
        if formal.space != "reg":
            operands.unsupported(f"{formal.name} is in memory, and what is given for it is not")
        bits = TYPE_BITS[formal.type]
        inner = prefix + formal.name
        if entering:
            source = operands.source(actual, bits)
            moves.append(lambda warps, mask: warps.write(inner, source(warps), mask))
        else:
            key = operands.destination(actual, bits)
            moves.append(lambda warps, mask: warps.write(key, warps.registers[inner], mask))


def decode(listing: Listing, silicon: Silicon) -> MappingProxyType[str, Kernel | SimulatedTrap]:
    """Decode all entries of a module for a device.

    Returns
    -------
    MappingProxyType
        The kernels by name; in place of one that is not supported, why, as long as others are.

    Raises
    ------
    SimulatedTrap
        At the first instruction that is not allowed for the module's target, or where no entry
        is supported.
    """
    decoded: dict[str, Kernel | SimulatedTrap] = {}
    for name, entry in listing.entries.items():
        try:
            decoded[name] = _Linker(listing, silicon).kernel(entry)
        except SimulatedTrap as trap:
            if trap.trap.kind is not TrapKind.UNSUPPORTED:
                raise
            decoded[name] = trap
    refused = [one for one in decoded.values() if isinstance(one, SimulatedTrap)]
    if refused and len(refused) == len(decoded):
        raise refused[0]
    return MappingProxyType(decoded)
