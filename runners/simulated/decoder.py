"""From a module's text to what executes: every instruction is looked up and checked once.

Functions are put in place where they are called, each time with registers of their own.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

from runners.simulated import access, matrices
from runners.simulated.operands import (
    Frame,
    FromRegister,
    Location,
    OperandReader,
    Source,
    Statics,
)
from runners.simulated.scalar import decode_scalar
from runners.simulated.silicon import Silicon
from runners.simulated.syntax import (
    CALLS,
    TYPE_BITS,
    Function,
    Group,
    ImmediateText,
    KernelText,
    Name,
    Operand,
    SimulatedTrap,
    TrapKind,
    Variable,
    refuse,
)
from runners.simulated.warps import Mask, Operation, Space, Static, WarpState

_MOST_STEPS = 200_000  # of a kernel with all functions in place
_DEEPEST_CALL = 64  # calls inside each other
_KEPT = 1 << 14
"""Decoded instructions that a device keeps, 1.7 KiB each (2026-11)."""

Parts = Sequence[Name | ImmediateText]


class Waits(StrEnum):
    """Who has to come to a step before it executes."""

    WARP = "all lanes of the warp"
    MEMBERS = "the lanes that the instruction names"
    BLOCK = "all threads of the block"


_OF_WARPS = (*matrices.FORMS, *access.ROW_FORMS)


@lru_cache(maxsize=4096)
def form_of(opcode: str) -> tuple[Callable[..., Operation], re.Match[str], Waits | None] | None:
    """Return what decodes an opcode of matrices or memory, how, and who waits for it."""
    for text in (opcode, matrices.in_order(opcode)):
        for pattern, decode in (*_OF_WARPS, *access.FORMS):
            if match := pattern.fullmatch(text):
                return decode, match, Waits.WARP if (pattern, decode) in _OF_WARPS else None
    return None


_BARRIER = re.compile(r"bar(?:rier)?(?:\.cta)?\.(?:sync|(?P<arrives>arrive))(?:\.aligned)?")


class WarpBarrier(NamedTuple):
    """A barrier for all threads of a block (9.7.13.1): its number, and its size."""

    number: Source
    threads: Source | None
    arrives: bool  # those who come there go on at once


def barrier(operands: OperandReader) -> WarpBarrier | None:
    """Return the barrier that an instruction is; None if it is none."""
    match = _BARRIER.fullmatch(operands.instruction.opcode)
    if match is None:
        return None
    arrives = match["arrives"] is not None
    number, *counts = (
        operands.source(each, 32) for each in operands.expect(*((2,) if arrives else (1, 2)))
    )
    return WarpBarrier(number, counts[0] if counts else None, arrives)


@dataclass(slots=True, kw_only=True, eq=False)
class Step:
    """One decoded instruction. Without operation, goals and waiting it ends the thread."""

    line: int
    text: str = ""  # the instruction, without its guard
    guard: str | None = None  # key of the predicate under which it executes
    negated: bool = False
    operation: Operation | None = None
    goals: tuple[int, ...] = ()  # indices of the steps that a branch can go to
    index: Source | None = None  # which of them, where there are several
    waits: Waits | None = None
    members: Source | None = None  # lanes to wait for, a bit each
    barrier: WarpBarrier | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class DecodedKernel:
    """An entry that can run."""

    steps: tuple[Step, ...]
    parameters: tuple[tuple[int, int], ...]  # offset in bytes, and bits
    static: Static
    inexact_loads: set[str] = field(default_factory=set)
    """Texts of instructions that were seen to read what depends on approximate instructions."""


Decoded = tuple[Operation, Waits | None, Source | None]
"""What an instruction does, who waits for it, and the lanes that it names."""


class _Linker:
    """Puts together the steps of one kernel."""

    def __init__(self, listing: KernelText, silicon: Silicon) -> None:
        self._listing, self._silicon = listing, silicon
        self._statics = Statics(silicon.base, listing.functions)
        self._steps: list[Step] = []
        self._expansions = self._local_bytes = 0

    def kernel(self, entry: Function) -> DecodedKernel:
        parameters, end = [], 0
        bound: dict[Variable, Location] = {}
        for parameter in entry.parameters:
            end = -(-end // parameter.alignment) * parameter.alignment
            bound[parameter] = Location(Space.PARAM, end)
            parameters.append((end, 8 * parameter.size))
            end += parameter.size
        self._expand(entry, "", 0, bound, ())
        steps = tuple(self._steps)
        ends = [not (step.guard or step.operation or step.goals or step.waits) for step in steps]
        for step in steps:
            # Who goes to an end is gone at once, and not waited for until all others come there.
            step.goals = tuple(
                len(steps) if goal < len(steps) and ends[goal] else goal for goal in step.goals
            )
        static = self._statics.static(self._local_bytes)
        return DecodedKernel(steps=steps, parameters=tuple(parameters), static=static)

    def _step(self, line: int, **fields: Any) -> Step:
        """Put a step behind those that are there."""
        self._steps.append(Step(line=line, **fields))
        return self._steps[-1]

    def _expand(
        self, function: Function, prefix: str, base: int, bound: dict[Variable, Location],
        callers: tuple[str, ...],
    ) -> None:  # fmt: skip
        """Put a function's body behind the steps that are there."""
        frame = Frame(
            function=function, version=self._listing.version, silicon=self._silicon,
            statics=self._statics, prefix=prefix, base=base, locations=bound,
        )  # fmt: skip
        self._local_bytes = max(self._local_bytes, frame.end)
        body = function.body or ()
        starts, branches = [], []
        for instruction in body:
            starts.append(len(self._steps))
            if len(self._steps) > _MOST_STEPS:
                said = f"the kernel has more than {_MOST_STEPS} instructions with its functions"
                refuse(TrapKind.UNSUPPORTED, instruction.line, said)
            operands = OperandReader(instruction, frame)
            if instruction.opcode in CALLS:
                self._call(operands, (*callers, function.name))
                continue
            guard, negated = operands.guard()
            if guard is not None and barrier(operands) is not None:
                # Who is told not to, does not wait.
                skip = self._step(instruction.line, guard=guard, negated=not negated)
                skip.goals = (len(self._steps) + 1,)
                guard = None
            step = self._step(instruction.line, text=instruction.text, guard=guard, negated=negated)
            if (found := self._decoded(operands)) is not None:
                step.operation, step.waits, step.members = found
            elif goals := _goals(operands, step, len(body)):
                branches.append((step, goals))
        starts.append(len(self._steps))
        for step, goals in branches:
            step.goals = tuple(starts[index] for index in goals)

    def _decoded(self, operands: OperandReader) -> Decoded | None:
        """Return what an instruction does; None if it is none that computes.

        The same text with the same registers does the same in every module. Where all of a module
        was seen before, as in shrinking, it loads in half of the time (2026-11-28).
        """
        kept, instruction = self._silicon.decoded, operands.instruction
        entry = kept.get(instruction.whole)
        if entry is None:
            if len(kept) >= _KEPT:
                kept.clear()
            entry = kept[instruction.whole] = operands.names(), dict[Any, Decoded]()
        names, by_meaning = entry
        meaning = None if names is None else operands.meaning(names)
        if meaning is not None and (known := by_meaning.get(meaning)) is not None:
            return cast("Decoded", known)
        found: Decoded
        if (form := form_of(instruction.opcode)) is not None:
            decode, match, waits = form
            found = decode(operands, match), waits, None
        elif (row := decode_scalar(operands)) is not None:
            operation, members = row
            found = operation, None if members is None else Waits.MEMBERS, members
        else:
            return None
        if meaning is not None:
            by_meaning[meaning] = found
        return found

    def _call(self, operands: OperandReader, callers: tuple[str, ...]) -> None:
        instruction, scope, line = operands.instruction, operands.instruction.scope, operands.line
        given = list(instruction.operands)
        results = _taken_off(given)
        callee = given.pop(0) if given else None
        arguments = _taken_off(given)
        if not isinstance(callee, Name) or given:
            operands.unsupported("is no call of a function by its name")
        name, key, negated = callee.text, *operands.guard()
        # Without the call, threads go on behind it.
        skip = None if key is None else self._step(line, guard=key, negated=not negated)
        function = self._listing.functions.get(name)
        if function is None:
            kind = TrapKind.PARSE if scope.find(name) is None else TrapKind.UNSUPPORTED
            refuse(kind, line, f"there is no function {name}")
        if function.body is None and name in ("__assertfail", "vprintf"):
            # CUDA C++ Programming Guide, Assertion and Formatted Output: a kernel sees no more of
            # them than the result of vprintf, which is left open here.
            operation = access.stopping("an assertion of the kernel fails (__assertfail)")
            if name == "vprintf":
                found = [scope.find(getattr(each, "text", "")) for each in results]
                operation = access.leaving_open([
                    operands.frame.location(each).offset
                    for each in found if isinstance(each, Variable)
                ])  # fmt: skip
            self._step(line, text=instruction.text, operation=operation)
        else:
            self._enter(operands, callers, arguments, results, function)
        if skip is not None:
            skip.goals = (len(self._steps),)

    def _enter(
        self, operands: OperandReader, callers: tuple[str, ...], arguments: Parts, results: Parts,
        function: Function,
    ) -> None:  # fmt: skip
        """Put a function behind the steps, with what copies its parameters."""
        name, line, frame = function.name, operands.line, operands.frame
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
        entering, leaving = [], []
        for formal, actual in zip(function.parameters, arguments, strict=True):
            if not _bind(operands, formal, actual, bound):
                source = operands.source(actual, TYPE_BITS[formal.type])
                shown = f"mov {formal.name}, {getattr(actual, 'text', actual)};"
                entering.append((prefix + formal.name, source, shown))
        for formal, actual in zip(function.results, results, strict=True):
            if not _bind(operands, formal, actual, bound):
                target = operands.destination(actual, TYPE_BITS[formal.type])
                shown = f"mov {getattr(actual, 'text', actual)}, {formal.name};"
                leaving.append((target, FromRegister(prefix + formal.name), shown))
        for target, source, text in entering:
            self._step(line, text=text, operation=partial(_copy, target, source))
        self._expand(function, prefix, frame.end, bound, callers)
        for target, source, text in leaving:
            self._step(line, text=text, operation=partial(_copy, target, source))


def _copy(target: str, source: Source, warps: WarpState, mask: Mask) -> None:
    warps.write(target, source(warps), mask)


def _goals(operands: OperandReader, step: Step, end: int) -> tuple[int, ...]:
    """Return the instructions that a step may go to, or let it wait or end the thread.

    `end` is behind the last one: where a function returns to.
    """
    instruction = operands.instruction
    labels: tuple[str, ...] = ()
    match instruction.opcode.removesuffix(".uni"):
        case "ret" | "exit" as stem:
            operands.expect(0)
            return (end,) if stem == "ret" and not operands.frame.function.is_entry else ()
        case "bra":
            (label,) = operands.expect(1)
            labels = (getattr(label, "text", str(label)),)
        case "brx.idx":
            index, targets = operands.expect(2)
            labels = instruction.scope.targets.get(getattr(targets, "text", ""), ())
            if not labels:
                refuse(TrapKind.PARSE, instruction.line, "there is no such list of branch targets")
            step.index = operands.source(index, 32)
        case _:
            step.barrier, step.waits = barrier(operands), Waits.BLOCK
            if step.barrier is None:
                said = f"{instruction.opcode} is not known to the simulated device"
                refuse(TrapKind.UNSUPPORTED, instruction.line, said)
    for name in labels:
        if name not in instruction.scope.labels:
            refuse(TrapKind.PARSE, instruction.line, f"there is no label {name}")
    return tuple(instruction.scope.labels[name] for name in labels)


def _bind(
    operands: OperandReader, formal: Variable, actual: Any, bound: dict[Variable, Location]
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
    bound[formal] = operands.frame.location(found)
    return True


def _taken_off(operands: list[Operand]) -> Parts:
    """Return the parameters in parentheses that stand first, and take them off."""
    if operands and isinstance(first := operands[0], Group):
        del operands[0]
        return first.parts
    return ()


def decode(listing: KernelText, silicon: Silicon) -> dict[str, DecodedKernel | SimulatedTrap]:
    """Decode all entries of a module for a device.

    Return the kernels by name; in place of one that is not supported, why, as long as others are.
    Raises `SimulatedTrap` at the first instruction that is not allowed for the module's target, or
    where no entry is supported.
    """
    decoded: dict[str, DecodedKernel | SimulatedTrap] = {}
    for name, entry in listing.entries.items():
        try:
            decoded[name] = _Linker(listing, silicon).kernel(entry)
        except SimulatedTrap as trap:
            if trap.trap.kind is not TrapKind.UNSUPPORTED:
                raise
            decoded[name] = trap
    refused = [each for each in decoded.values() if isinstance(each, SimulatedTrap)]
    if refused and len(refused) == len(decoded):
        raise refused[0]
    return decoded
