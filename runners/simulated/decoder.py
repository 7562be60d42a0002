"""From a module's text to what executes: every instruction is looked up and checked once.

Functions are put in place where they are called, each time with registers of their own.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from runners.simulated import access, matrices, matrix_rows, mma_sp, mma_sync, scalar, wmma
from runners.simulated.memory import Space, Static
from runners.simulated.operands import FromRegister, Location, Operands, Source, Surroundings
from runners.simulated.silicon import Silicon
from runners.simulated.storage import Frame, Statics
from runners.simulated.syntax import (
    CALLS,
    TYPE_BITS,
    Function,
    Group,
    Immediate,
    Listing,
    Name,
    Operand,
    Register,
    Variable,
)
from runners.simulated.traps import SimulatedTrap, TrapKind, refuse
from runners.simulated.warps import Mask, Operation, Warps

_MOST_STEPS = 200_000
"""Steps of a kernel with all functions in place."""
_DEEPEST_CALL = 64
"""Calls inside each other."""
_CODE, _APART = 0x7A00_0000_0000, 256
"""Where functions begin, in no space of memory, and what is between those of two devices."""

Parts = Sequence[Name | Immediate]

_KEPT = 1 << 14
"""Decoded instructions that a device keeps, 1.7 KiB each (2026-11)."""


class Waits(StrEnum):
    """Who has to come to a step before it executes."""

    WARP = "all lanes of the warp"
    MEMBERS = "the lanes that the instruction names"
    BLOCK = "all threads of the block"


_MATRICES = (*wmma.FORMS, *matrix_rows.FORMS, *mma_sync.FORMS, *mma_sp.FORMS)
_FORMS = (
    *((*form, Waits.WARP) for form in _MATRICES),
    *((*form, None) for form in access.FORMS),
)
"""The pattern of every opcode of matrices and memory, what decodes it, and who waits for it. A file
of other instructions for matrices is added here."""


@lru_cache(maxsize=4096)
def _find(
    opcode: str,
) -> tuple[Callable[..., Operation], re.Match[str], Waits | None] | None:
    """Return what decodes an opcode, how, and who waits for it."""
    for text in (opcode, matrices.in_order(opcode)):
        for pattern, decode, waits in _FORMS:
            if match := pattern.fullmatch(text):
                return decode, match, waits
    return None


@dataclass(slots=True, kw_only=True, eq=False)
class Step:
    """One decoded instruction. Without operation, goals and waiting it ends the thread."""

    line: int
    text: str = ""
    """The instruction, without its guard."""
    guard: str | None = None
    """Key of the predicate under which it executes."""
    negated: bool = False
    operation: Operation | None = None
    goals: tuple[int, ...] = ()
    """Indices of the steps that a branch can go to."""
    index: Source | None = None
    """Which of them, where there are several."""
    waits: Waits | None = None
    members: Source | None = None
    """Lanes to wait for, a bit each."""
    barrier: access.Barrier | None = None

    @property
    def ends(self) -> bool:
        """Whether it ends every thread that comes to it."""
        return not (self.guard or self.operation or self.goals or self.waits)


@dataclass(frozen=True, kw_only=True, eq=False)
class Kernel:
    """An entry that can run."""

    name: str
    steps: tuple[Step, ...]
    parameters: tuple[tuple[int, int], ...]
    """Offset in bytes and bits of each parameter."""
    static: Static
    inexact_loads: set[str] = field(default_factory=set)
    """Texts of instructions that were seen to read what depends on approximate instructions."""


class _Call(NamedTuple):
    """A call, and what it is in."""

    operands: Operands
    frame: Frame
    callers: tuple[str, ...]
    """Names of the functions around it, the innermost last."""
    arguments: Parts
    results: Parts


Decoded = tuple[Operation, Waits | None, Source | None]
"""What an instruction does, who waits for it, and the lanes that it names."""


class _Kept(NamedTuple):
    """What the text of an instruction was decoded to in the modules of a device."""

    names: tuple[tuple[str, str, int], ...] | None
    """`Operands.names`."""
    decoded: dict[tuple[str, ...], Decoded]
    """By what these mean (`Operands.meaning`)."""


class _Linker:
    """Puts together the steps of one kernel."""

    def __init__(self, listing: Listing, silicon: Silicon) -> None:
        self._listing, self._silicon = listing, silicon
        begin = _CODE + _APART * silicon.otherwise
        self._code = {
            name: begin + _APART * 2 * number for number, name in enumerate(listing.functions, 1)
        }
        self._statics = Statics(listing.scope, silicon.base, self._code)
        self._steps: list[Step] = []
        self._expansions = 0
        self._local_bytes = 0

    def kernel(self, entry: Function) -> Kernel:
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
        static = self._statics.static(self._local_bytes)
        return Kernel(name=entry.name, steps=steps, parameters=tuple(parameters), static=static)

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
        surroundings = Surroundings(
            version=self._listing.version,
            silicon=self._silicon,
            prefix=prefix,
            locations=frame,
            in_function=not function.is_entry,
            functions=self._code,
        )
        body = function.body or ()
        starts = []
        branches = []
        for instruction in body:
            starts.append(len(self._steps))
            if len(self._steps) > _MOST_STEPS:
                said = f"the kernel has more than {_MOST_STEPS} instructions with its functions"
                refuse(TrapKind.UNSUPPORTED, instruction.line, said)
            operands = Operands(instruction, surroundings)
            if instruction.opcode in CALLS:
                self._call(operands, frame, (*callers, function.name))
                continue
            step = Step(line=instruction.line, text=instruction.text)
            if instruction.guard is not None:
                step.guard, step.negated = operands.guard()
                if access.barrier(operands) is not None:
                    # Who is told not to, does not wait.
                    skip = Step(line=step.line, guard=step.guard, negated=not step.negated)
                    self._steps.append(skip)
                    skip.goals = (len(self._steps) + 1,)
                    step.guard = None
            self._steps.append(step)
            if (found := self._decoded(operands)) is not None:
                step.operation, step.waits, step.members = found
            elif goals := self._goals(operands, step, len(body)):
                branches.append((step, goals))
        starts.append(len(self._steps))
        for step, goals in branches:
            step.goals = tuple(starts[index] for index in goals)

    def _goals(self, operands: Operands, step: Step, end: int) -> tuple[int, ...]:
        """Return the instructions that a step may go to, or let it wait or end the thread.

        `end` is behind the last one: where a function returns to.
        """
        instruction = operands.instruction
        stem = instruction.opcode.removesuffix(".uni")
        if stem in ("ret", "exit"):
            operands.expect(0)
            return (end,) if stem == "ret" and operands.surroundings.in_function else ()
        if stem == "bra":
            (label,) = operands.expect(1)
            return (self._goal(operands, getattr(label, "text", str(label))),)
        if stem == "brx.idx":
            index, targets = operands.expect(2)
            labels = instruction.scope.targets.get(getattr(targets, "text", ""))
            if not labels:
                refuse(TrapKind.PARSE, instruction.line, "there is no such list of branch targets")
            step.index = operands.source(index, 32)
            return tuple(self._goal(operands, label) for label in labels)
        step.barrier = access.barrier(operands)
        if step.barrier is None:
            said = f"{instruction.opcode} is not known to the simulated device"
            refuse(TrapKind.UNSUPPORTED, instruction.line, said)
        step.waits = Waits.BLOCK
        return ()

    def _goal(self, operands: Operands, name: str) -> int:
        goal = operands.instruction.scope.labels.get(name)
        if goal is None:
            refuse(TrapKind.PARSE, operands.line, f"there is no label {name}")
        return goal

    def _decoded(self, operands: Operands) -> Decoded | None:
        """Return what an instruction does; None if it is none that computes.

        The same text with the same registers does the same in every module.
        """
        kept = self._silicon.decoded
        instruction = operands.instruction
        text = instruction.whole
        if (entry := kept.get(text)) is None:
            if len(kept) >= _KEPT:
                kept.clear()
            entry = kept[text] = _Kept(operands.names, {})
        meaning = None if entry.names is None else operands.meaning(entry.names)
        if meaning is not None and (known := entry.decoded.get(meaning)) is not None:
            return known
        found: Decoded
        if (one := _find(instruction.opcode)) is not None:
            decode, match, waits = one
            found = decode(operands, match), waits, None
        elif (row := scalar.decode(operands)) is not None:
            operation, members = row
            found = operation, None if members is None else Waits.MEMBERS, members
        else:
            return None
        if meaning is not None:
            entry.decoded[meaning] = found
        return found

    def _call(self, operands: Operands, frame: Frame, callers: tuple[str, ...]) -> None:
        instruction, scope = operands.instruction, operands.instruction.scope
        given = list(instruction.operands)
        results = _taken_off(given)
        callee = given.pop(0) if given else None
        arguments = _taken_off(given)
        if not isinstance(callee, Name) or len(given) > 1:
            operands.unsupported("is no call of a function or of an address")
        name, key, negated = callee.text, *operands.guard()
        call = _Call(operands, frame, callers, arguments, results)
        # Without the call, threads go on behind it.
        skip = Step(line=instruction.line, guard=key, negated=not negated)
        if key is not None:
            self._steps.append(skip)
        if isinstance(scope.find(name), Register):
            listed = scope.targets.get(getattr(given[0], "text", ""), ()) if given else ()
            self._call_address(call, listed or self._taken)
        elif (function := self._listing.functions.get(name)) is None:
            kind = TrapKind.PARSE if scope.find(name) is None else TrapKind.UNSUPPORTED
            refuse(kind, instruction.line, f"there is no function {name}")
        elif function.body is None and name in ("__assertfail", "vprintf"):
            # CUDA C++ Programming Guide, Assertion and Formatted Output: a kernel sees no more of
            # them than the result of vprintf, which is left open here.
            operation = access.stopping("an assertion of the kernel fails (__assertfail)")
            if name == "vprintf":
                found = [scope.find(getattr(each, "text", "")) for each in results]
                places = [frame[each].offset for each in found if isinstance(each, Variable)]
                operation = access.leaving_open(places)
            step = Step(line=instruction.line, text=instruction.text, operation=operation)
            self._steps.append(step)
        else:
            self._enter(call, function)
        if key is not None:
            skip.goals = (len(self._steps),)

    def _call_address(self, call: _Call, names: Sequence[str]) -> None:
        """Put those functions behind the steps of which the address of one is called."""
        operands, line = call.operands, call.operands.line
        address = operands.instruction.operands[1 if call.results else 0]
        assert isinstance(address, Name)
        held = operands.source(address, 64)
        ends = []
        for name in names:
            function = self._listing.functions.get(name)
            if (
                function is None
                or function.body is None
                or name in call.callers
                or len(function.parameters) != len(call.arguments)
                or len(function.results) != len(call.results)
            ):
                continue
            key = f"{self._expansions}:callee"
            asks = partial(_is_number, key, held, self._code[name])
            self._steps.append(Step(line=line, text=f"mov callee, {address.text};", operation=asks))
            other = Step(line=line, guard=key, negated=True)
            self._steps.append(other)
            self._enter(call, function)
            ends.append(Step(line=line))
            self._steps.append(ends[-1])
            other.goals = (len(self._steps),)
        why = "a call of an address at which no function begins that it could call"
        self._steps.append(Step(line=line, operation=access.stopping(why)))
        for end in ends:
            end.goals = (len(self._steps),)

    @cached_property
    def _taken(self) -> tuple[str, ...]:
        """Names of functions whose address is taken."""
        listing = self._listing
        bodies = [
            one.body or () for one in (*listing.entries.values(), *listing.functions.values())
        ]
        given = [each for body in bodies for one in body if one.opcode not in CALLS
                 for each in one.operands]  # fmt: skip
        variables = listing.scope.variables.values()
        given += [each.value for variable in variables for each in variable.initial]
        found = dict.fromkeys(each.text for each in given if isinstance(each, Name))
        return tuple(name for name in found if name in listing.functions)

    def _enter(self, call: _Call, function: Function) -> None:
        """Put a function behind the steps, with what copies its parameters."""
        operands, frame, callers, arguments, results = call
        name, line = function.name, operands.line
        if function.body is None:
            operands.unsupported(f"{name} is declared, and its body is elsewhere")
        if name in callers or len(callers) > _DEEPEST_CALL:
            operands.unsupported(f"{name} calls itself, or calls are too deep")
        if len(arguments) != len(function.parameters) or len(results) != len(function.results):
            said = f"{name} has {len(function.parameters)} parameters and {len(function.results)} "
            said += f"results; {len(arguments)} and {len(results)} were given"
            refuse(TrapKind.PARSE, line, said)
        self._expansions += 1
        prefix = f"{self._expansions}:"
        bound: dict[Variable, Location] = {}
        leaving = []
        for formal, actual in zip(function.parameters, arguments, strict=True):
            if not _bind(operands, frame, formal, actual, bound):
                source = operands.source(actual, TYPE_BITS[formal.type])
                self._steps.append(_copy(line, prefix + formal.name, source, formal.name, actual))
        for formal, actual in zip(function.results, results, strict=True):
            if not _bind(operands, frame, formal, actual, bound):
                target = operands.destination(actual, TYPE_BITS[formal.type])
                held = FromRegister(prefix + formal.name)
                leaving.append(_copy(line, target, held, actual, formal.name))
        self._expand(function, prefix, frame.end, bound, callers)
        self._steps.extend(leaving)


def _bind(
    operands: Operands,
    frame: Frame,
    formal: Variable,
    actual: Any,
    bound: dict[Variable, Location],
) -> bool:
    """Let a formal parameter in memory be the actual one; return whether it is in memory."""
    found = operands.instruction.scope.find(actual.text) if isinstance(actual, Name) else None
    if not isinstance(found, Variable) or found.space != "param":
        if formal.space != "reg":
            operands.unsupported(f"{formal.name} is in memory, and what is given for it is not")
        return False
    if formal.space == "reg":
        operands.unsupported(f"{actual.text} in memory where a register is expected")
    if found.size < formal.size:
        said = f"{found.name} has {found.size} bytes, and {formal.name} {formal.size}"
        refuse(TrapKind.PARSE, operands.line, said)
    bound[formal] = frame[found]
    return True


def _taken_off(operands: list[Operand]) -> Parts:
    """Return the parameters in parentheses that stand first, and take them off."""
    if operands and isinstance(first := operands[0], Group):
        del operands[0]
        return first.parts
    return ()


def _is_number(key: str, source: Source, number: int, warps: Warps, mask: Mask) -> None:
    """Say in a predicate where a source is a number."""
    warps.write(key, source(warps) == np.uint64(number), mask)


def _copy(line: int, target: str, source: Source, *shown: Any) -> Step:
    """Return the step that copies a parameter in a register; `shown` are target and source."""
    to, origin = (getattr(one, "text", one) for one in shown)
    return Step(
        line=line, text=f"mov {to}, {origin};",
        operation=lambda warps, mask: warps.write(target, source(warps), mask),
    )  # fmt: skip


def decode(listing: Listing, silicon: Silicon) -> MappingProxyType[str, Kernel | SimulatedTrap]:
    """Decode all entries of a module for a device.

    Return the kernels by name; in place of one that is not supported, why, as long as others are.
    Raises `SimulatedTrap` at the first instruction that is not allowed for the module's target, or
    where no entry is supported.
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
