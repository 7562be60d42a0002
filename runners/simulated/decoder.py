"""From a module's text to what executes: every instruction is looked up and checked once.

Functions are put in place where they are called, each time with registers of their own.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple, cast

import numpy as np

from runners.simulated import access, matrices, mbarriers, warpgroups
from runners.simulated.operands import (
    Frame,
    FromRegister,
    Location,
    OperandReader,
    Source,
    Statics,
    place_locals,
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
    RegisterText,
    SimulatedTrap,
    TrapKind,
    Variable,
    refuse,
)
from runners.simulated.warps import LANES, Mask, Operation, Space, Static, Values, WarpState

_MOST_STEPS = 200_000  # of a kernel with all functions in place
_DEEPEST_CALL = 64  # calls inside each other
_CODE, _APART = 0x7A00_0000_0000, 256
"""Where functions begin, in no space of memory, and what is between those of two devices."""
_KEPT = 1 << 14
"""Decoded instructions that a device keeps, 1.7 KiB each (2026-11)."""

_NAMES = re.compile(r"(?<![\w$%.])[%$A-Za-z_][\w$%.]*")
Parts = Sequence[Name | ImmediateText]


class Waits(StrEnum):
    """Who has to come to a step before it executes."""

    WARP = "all lanes of the warp"
    MEMBERS = "the lanes that the instruction names"
    BLOCK = "all threads of the block"
    PHASE = "nobody, but a phase of an mbarrier is complete"


_FORMS = [
    (re.compile(pattern), decode, waits)
    for waits, rows in (
        (Waits.WARP, (*matrices.FORMS, *access.ROW_FORMS, *warpgroups.FORMS)),
        (None, (*warpgroups.THREAD_FORMS, *mbarriers.FORMS, *access.FORMS)),
    )
    for decode, pattern in rows
]


@lru_cache(maxsize=4096)
def form_of(opcode: str) -> tuple[Callable[..., Operation], re.Match[str], Waits | None] | None:
    """Return what decodes an opcode of matrices or memory, how, and who waits for it."""
    for text in (opcode, matrices.in_order(opcode)):
        for pattern, decode, waits in _FORMS:
            if match := pattern.fullmatch(text):
                return decode, match, waits
    return None


_BARRIER = re.compile(
    r"bar(?:rier)?(?:\.cta)?\.(?:sync|(?P<arrives>arrive)|red\.(?P<joins>popc|and|or))"
    r"(?:\.aligned)?(?(joins)\.(?:u32|pred))"
)
_JOINED: dict[str, Callable[[Values], Values]] = {
    "popc": lambda held: np.atleast_2d(held.sum(dtype=np.uint32)),
    "and": lambda held: np.atleast_2d(held.all()),
    "or": lambda held: np.atleast_2d(held.any()),
}
"""What the predicates of a block's threads are joined to."""


class WarpBarrier(NamedTuple):
    """A barrier for all threads of a block, or some warps (9.7.13.1): its number, and its size."""

    number: Source
    threads: Source | None
    arrives: bool  # those who come there go on at once
    joins: Operation | None  # what all of some blocks do who go on

    def sizes(self, warps: WarpState, mask: Mask) -> Values:
        """Return for how many threads it is; refuse sizes that it cannot have."""
        if self.threads is None:
            return np.full((1, 1), warps.threads)
        sizes = self.threads(warps).astype(np.int64)
        some = (sizes % LANES == 0) & (sizes > 0) & (sizes < warps.threads)
        if self.arrives or self.joins is not None:
            some = np.zeros_like(some)
        wrong = warps.all_of(mask) & ~some & (sizes != warps.threads)
        if wrong.any():
            said = f"a barrier for another number of threads than the {warps.threads} of the block"
            refuse(TrapKind.UNSUPPORTED, 0, said, warps.names(wrong))
        return sizes


def barrier(operands: OperandReader) -> WarpBarrier | None:
    """Return the barrier that an instruction is; None if it is none."""
    match = _BARRIER.fullmatch(operands.instruction.opcode)
    if match is None:
        return None
    name, arrives, joins = match["joins"], match["arrives"] is not None, None
    given = list(operands.expect(*((3, 4) if name else (2,) if arrives else (1, 2))))
    if name:
        target = operands.destination(given.pop(0), 32 if name == "popc" else 1)
        joins = partial(_join, _JOINED[name], target, operands.source(given.pop(), 1))
    number, *counts = (operands.source(each, 32) for each in given)
    return WarpBarrier(number, counts[0] if counts else None, arrives, joins)


def _join(
    joined: Callable[[Values], Values], target: str, held: Source, warps: WarpState, mask: Mask
) -> None:
    """Write to the threads of each block what their predicates are joined to."""
    through = warps.all_of(mask)
    given = np.broadcast_to(held(warps), through.shape)
    for block in np.unique(warps.blocks):
        those = through & (warps.blocks == block)
        if those.any():
            warps.write(target, joined(given[those]), those)


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
    ready: Source | None = None  # whether threads go on that wait for a phase


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
        begin = _CODE + _APART * silicon.otherwise
        code = {name: begin + 2 * _APART * at for at, name in enumerate(listing.functions, 1)}
        self._statics = Statics(listing.scope, silicon.base, code)
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
            if step.goals:
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
        place_locals(frame)
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
            step = self._step(instruction.line, text=instruction.text)
            if instruction.guard is not None:
                step.guard, step.negated = operands.guard()
                if barrier(operands) is not None:
                    # Who is told not to, does not wait.
                    step.text, step.negated = "", not step.negated
                    step.goals = (len(self._steps) + 1,)
                    step = self._step(instruction.line, text=instruction.text)
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
            names = dict.fromkeys(_NAMES.findall(instruction.text, len(instruction.opcode)))
            entry = kept[instruction.whole] = tuple(names), dict[Any, Decoded]()
        meaning, by_meaning = operands.meaning(entry[0]), entry[1]
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
        if not isinstance(callee, Name) or len(given) > 1:
            operands.unsupported("is no call of a function or of an address")
        name, key, negated = callee.text, *operands.guard()
        # Without the call, threads go on behind it.
        skip = None if key is None else self._step(line, guard=key, negated=not negated)
        function = (functions := self._listing.functions).get(name)
        enter = partial(self._enter, operands, callers, arguments, results)
        if isinstance(scope.find(name), RegisterText):
            listed = scope.targets.get(getattr(given[0], "text", ""), ()) if given else ()
            shape = len(arguments), len(results)
            self._call_address(operands, callee, enter, [
                each for each in map(functions.get, listed or self._taken)
                if each is not None and each.body is not None and each.name not in callers
                and (len(each.parameters), len(each.results)) == shape
            ])  # fmt: skip
        elif function is None:
            kind = TrapKind.PARSE if scope.find(name) is None else TrapKind.UNSUPPORTED
            refuse(kind, line, f"there is no function {name}")
        elif function.body is None and name in ("__assertfail", "vprintf"):
            # CUDA C++ Programming Guide, Assertion and Formatted Output: a kernel sees no more of
            # them than the result of vprintf, which is left open here.
            operation = access.stopping("an assertion of the kernel fails (__assertfail)")
            if name == "vprintf":
                found = [scope.find(getattr(each, "text", "")) for each in results]
                operation = access.leaving_open([
                    operands.location(each).offset
                    for each in found if isinstance(each, Variable)
                ])  # fmt: skip
            self._step(line, text=instruction.text, operation=operation)
        else:
            enter(function)
        if skip is not None:
            skip.goals = (len(self._steps),)

    def _call_address(
        self, operands: OperandReader, address: Name, enter: Callable[[Function], None],
        functions: Sequence[Function],
    ) -> None:  # fmt: skip
        """Put those functions behind the steps of which the address of one is called."""
        line, held, ends = operands.line, operands.source(address, 64), []
        for function in functions:
            key = f"{self._expansions}:callee"
            asks = partial(_ask, key, held, self._statics.functions[function.name])
            self._step(line, text=f"mov callee, {address.text};", operation=asks)
            other = self._step(line, guard=key, negated=True)
            enter(function)
            ends.append(self._step(line))
            other.goals = (len(self._steps),)
        why = "a call of an address at which no function begins that it could call"
        self._step(line, operation=access.stopping(why))
        for end in ends:
            end.goals = (len(self._steps),)

    @cached_property
    def _taken(self) -> list[str]:
        """Names of functions whose address is taken."""
        listing = self._listing
        taken: list[object] = [
            operand
            for function in (*listing.entries.values(), *listing.functions.values())
            for instruction in function.body or () if instruction.opcode not in CALLS
            for operand in instruction.operands
        ]  # fmt: skip
        taken += [value for each in listing.scope.variables.values() for value in each.initial]
        found = {getattr(each, "text", getattr(each, "base", "")) for each in taken}
        return [name for name in listing.functions if name in found]

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


def _ask(key: str, source: Source, number: int, warps: WarpState, mask: Mask) -> None:
    """Say in a predicate where a source is a number."""
    warps.write(key, source(warps) == np.uint64(number), mask)


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
            if (held := mbarriers.waiting(operands)) is not None:
                (step.operation, step.ready), step.waits = held, Waits.PHASE
                return ()
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
    bound[formal] = operands.location(found)
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
