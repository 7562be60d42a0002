"""How a kernel is launched, as far as its text tells.

Pointers are the parameters that addresses are made of; a buffer is as large as what the simulated
device sees the kernel touch. Whatever is guessed is said.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from fuzz.findings.launches import (
    TYPES,
    BufferRow,
    LaunchRows,
    Setup,
    entries_of,
    entry_of,
    own_text,
    parameters_of,
    setup_of,
)
from fuzz.judging.filling import image_of
from oracle.errors import UsageError
from oracle.instructions import INSTRUCTIONS
from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind
from runners.simulated.parser import parse
from runners.simulated.syntax import Address, Instruction, Name, Vector

_BOUNDS = re.compile(r"\.(reqntid|maxntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
_MATRIX = "|".join(dict.fromkeys(name.partition(".")[0] for name in INSTRUCTIONS))
_ADDRESSES = re.compile(rf"(?:ld|ldu|st|atom|red|cp|{_MATRIX})\b")
_CARRIES = re.compile(r"(?:mov|cvta|add|sub|mad|selp|min|max|cvt)\b")
"""What an address is made with; a product of a pointer is none."""
_OF_A_WARP = re.compile(rf"\b(?:{_MATRIX}|shfl|vote|match|redux)\b|%laneid\b|%lanemask")
_WAITING = re.compile(r"\bbar(?:rier)?(?:\.cta)?\.sync(?:\.aligned)?\s+\d+\s*,\s*(\d+)\s*;")
_DYNAMIC = re.compile(r"\.extern\s+\.shared\b[^;]*?([\w$%]+)\s*(?:\[[^;]*)?;")
"""The name of a variable in dynamic shared memory."""
_ELEMENT = re.compile(r"\.(bf16|[busf](?:8|16|32|64))\b")
_PROBED_BYTES = 1 << 20
"""Of each buffer while it is found out what a kernel touches."""
_LEAST_BYTES = 256
_PROBES = 4
"""Images that are tried: one of each sort of contents."""


@dataclass
class _Use:
    """What an entry's text does with one of its parameters, or with a part of it."""

    offset: int
    type: str
    """Of the load that fetches it."""
    is_pointer: bool = False
    element: str = ""
    """Type that is loaded or stored through it, the first."""


@dataclass(frozen=True, kw_only=True)
class Guess:
    """A launch, and what of it was guessed."""

    setup: Setup
    guessed: tuple[str, ...] = field(default=())
    """Sentences."""


def guess(ptx: str, rows: LaunchRows, device: SimulatedDevice, *, name: str = "") -> Guess:
    """Return how a kernel is launched: what a file leaves out is guessed.

    Raises
    ------
    UsageError
        If it cannot be guessed; the message says what the file has to say.
    """
    entry = entry_of(ptx, rows.entry)
    text = own_text(ptx, entry)
    shapes: Sequence[int | tuple[int, ...]]
    shapes, why = [rows.block or 1], ""
    if rows.block is None:
        shapes, why = _blocks(entries_of(ptx)[entry][3], text)
    first: UsageError | None = None
    for shape, whole in itertools.product(shapes, (False, True)):
        said = f"block = {list(shape)} ({why})" if isinstance(shape, tuple) and why else ""
        complete = msgspec.structs.replace(rows, entry=entry, block=shape)
        try:
            found = _guess(ptx, complete, device, text, whole=whole)
        except _RefusedError as error:
            first = first or UsageError(
                f"{error}; {f'guessed: {said}; ' if said else ''}--launch FILE says it otherwise"
            )
        else:
            guessed = (said, *found.guessed) if said else found.guessed
            return Guess(setup=found.setup, guessed=guessed)
    assert first is not None
    raise first


class _RefusedError(UsageError):
    """The simulated device does not run a kernel as it is launched."""


def _guess(
    ptx: str, rows: LaunchRows, device: SimulatedDevice, text: str, *, whole: bool = False
) -> Guess:
    """Return how a kernel is launched in blocks of a known shape.

    With `whole`, every parameter of 64 bits is a pointer: code for debuggers keeps them in memory.
    """
    assert rows.entry is not None
    assert rows.block is not None
    entry, grid, block = rows.entry, rows.grid, rows.block
    said = []
    if grid is None:
        grid = tuple(2 if f"%ctaid.{axis}" in text else 1 for axis in "xyz")
        said.append(f"grid = {list(grid)} (2 along each axis whose %ctaid is read)")
    shared = rows.shared
    if shared is None:
        dynamic = any(
            re.search(rf"(?<![\w$%]){re.escape(name)}(?![\w$])", _DYNAMIC.sub("", text))
            for name in _DYNAMIC.findall(text)
        )
        shared = 16 << 10 if dynamic else 0
        said += [f"shared = {shared} bytes (there is dynamic shared memory)"] if dynamic else []
    threads = math.prod(grid if isinstance(grid, tuple) else (grid,))
    threads *= math.prod(block if isinstance(block, tuple) else (block,))
    arguments: dict[str, Any] = dict(rows.arguments)
    unsized = []
    numbers = {name for name, given in rows.arguments.items() if not isinstance(given, BufferRow)}
    for parameter, use in _uses(ptx, entry, numbers).items():
        if parameter in arguments or parameter.partition("+")[0] in arguments:
            continue
        if use.is_pointer or (whole and use.type in ("u64", "b64", "s64")):
            arguments[parameter] = BufferRow(bytes=_PROBED_BYTES, type=use.element or "b32")
            unsized.append(parameter)
            continue
        is_float = use.type.startswith("f") and TYPES[use.type] > 16 and "+" not in parameter
        arguments[parameter] = 1.5 if is_float else min(threads, (1 << TYPES[use.type] - 1) - 1)
        why = "a number of no special kind" if is_float else "the threads of the launch"
        said.append(f"{parameter} = {arguments[parameter]} ({why})")
    complete = msgspec.structs.replace(rows, grid=grid, shared=shared, arguments=arguments)
    setup = setup_of(ptx, complete)
    if unsized or said:
        sizes = _sizes(ptx, setup, device)
        for one in unsized:
            row = arguments[one]
            arguments[one] = msgspec.structs.replace(row, bytes=sizes[one])
            said.append(f"{one} = {sizes[one]} bytes of {row.type} (what the kernel touches)")
        setup = setup_of(ptx, msgspec.structs.replace(complete, arguments=arguments))
    return Guess(setup=setup, guessed=tuple(said))


def _blocks(behind: str, text: str) -> tuple[Sequence[tuple[int, int, int]], str]:
    """Return the shapes that are tried, the likeliest first, and why these."""
    bound = _BOUNDS.search(behind)
    if bound is not None:
        x, y, z = (int(bound[axis] or 1) for axis in (2, 3, 4))
        return [(x, y, z)], f".{bound[1]}"
    if waiting := _WAITING.search(text):
        return [(int(waiting[1]), 1, 1)], "a barrier says that it is for so many threads"
    if "%tid.z" in text:
        return [(8, 4, 2), (4, 4, 4), (8, 8, 8)], "%tid is read along three axes"
    if "%tid.y" in text:
        return [(16, 4, 1), (16, 16, 1), (8, 8, 1), (32, 32, 1), (32, 8, 1)], (
            "%tid is read along two axes"
        )
    if "%tid" in text:
        sizes = [(size, 1, 1) for size in (64, 32, 128, 256)]
        return sizes, "%tid is read, and nothing says how many there are"
    if _OF_A_WARP.search(text):
        return [(32, 1, 1)], "a warp: %tid is not read, and lanes are"
    return [(1, 1, 1)], "no thread asks which it is"


def _uses(ptx: str, entry: str, numbers: Collection[str]) -> Mapping[str, _Use]:
    """Return what an entry does with each of its parameters, and with the parts of structures.

    Those that are numbers are no pointers, whatever addresses are made of them.
    """
    try:
        listing = parse(ptx)
    except SimulatedTrap as trap:
        raise UsageError(
            f"the launch cannot be guessed, because the simulated device does not read the module "
            f"({trap}); say with --launch FILE how it is launched"
        ) from None
    function = listing.entries[entry]
    formal = {one.name: one for one in parameters_of(ptx, entry)}
    body = list(function.body or ())
    uses: dict[str, _Use] = {}
    holds: dict[str, set[str]] = defaultdict(set)
    """Parameters that a register is made of."""
    for one in body:
        if one.opcode.startswith("ld.param") and isinstance(one.operands[1], Address):
            base, offset = one.operands[1].base, one.operands[1].offset
            if base not in formal:
                continue
            type_ = _element(one.opcode) or "u64"
            width = TYPES[type_] // 8
            for number, target in enumerate(_names(one.operands[0])):
                at = offset + number * width
                key = f"{base}+{at}" if formal[base].size > width else base
                uses.setdefault(key, _Use(at, type_))
                if width == 8 and key not in numbers:
                    holds[target].add(key)
    for name, one_ in formal.items():
        if not any(key.partition("+")[0] == name for key in uses) and one_.type in TYPES:
            uses[name] = _Use(0, one_.type)
    changed = True
    while changed:
        changed = False
        for one in body:
            if not _CARRIES.match(one.opcode) or len(one.operands) < 2:
                continue
            found = {key for name in _sources(one) for key in holds.get(name, ())}
            for target in _names(one.operands[0]):
                if not found <= holds[target]:
                    holds[target] |= found
                    changed = True
    for one in body:
        _look(one, holds, uses)
    return uses


def _look(one: Instruction, holds: Mapping[str, set[str]], uses: Mapping[str, _Use]) -> None:
    """Take note of the pointers that an instruction's addresses are made of."""
    if not _ADDRESSES.match(one.opcode) or ".param" in one.opcode:
        return
    for operand in one.operands:
        if not isinstance(operand, Address):
            continue
        keys = holds.get(operand.base, set())
        pointers = {key for key in keys if uses[key].is_pointer} or keys
        if len(pointers) > 1:
            raise UsageError(
                f"line {one.line} has an address of the parameters {', '.join(sorted(pointers))}, "
                "of which one is the pointer; say with --launch FILE which is a number"
            )
        for key in pointers:
            uses[key].is_pointer = True
            uses[key].element = uses[key].element or _element(one.opcode)


def _element(opcode: str) -> str:
    types = _ELEMENT.findall(opcode)
    return types[-1] if types else ""


def _names(operand: object) -> Iterator[str]:
    parts = operand.parts if isinstance(operand, Vector) else (operand,)
    return (part.text for part in parts if isinstance(part, Name))


def _sources(one: Instruction) -> Iterator[str]:
    return (name for operand in one.operands[1:] for name in _names(operand))


def _sizes(ptx: str, setup: Setup, device: SimulatedDevice) -> Mapping[str, int]:
    """Return the bytes that a kernel touches of each buffer, on images of each sort."""
    most = np.zeros(len(setup.buffers), np.int64)
    refused: SimulatedTrap | None = None
    ran = False
    for number in range(_PROBES):
        image = image_of(setup, seed=0, number=number)
        try:
            grid = device.load(ptx).launch_grid(setup.entry, image, setup.launch)
        except SimulatedTrap as trap:
            refused = trap
            if trap.trap.kind.at_load:
                break
        else:
            ran = True
            most = np.maximum(most, grid.touched)
    if not ran and refused is not None and not refused.trap.kind.at_load:
        if refused.trap.kind is TrapKind.OUT_OF_BOUNDS:
            raise _RefusedError(f"sizes of buffers cannot be guessed ({refused})")
        raise _RefusedError(f"the simulated device does not run the kernel: {refused}")
    if not ran:
        # Eight bytes for each thread, and as much again.
        most[:] = 16 * setup.threads
    return {
        name: max(_LEAST_BYTES, -(-int(size) // 16) * 16)
        for name, size in zip(setup.buffers, most, strict=True)
    }
