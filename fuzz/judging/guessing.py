"""Guesses from the text of a kernel how it is launched; whatever is guessed is said.

Pointers are the parameters that addresses are made of; a buffer is as large as what the simulated
device sees the kernel touch.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

import numpy as np
from msgspec.structs import replace

from fuzz.findings.launches import (
    MOST_SHARED,
    TYPES,
    BufferRow,
    LaunchRows,
    Setup,
    entries_of,
    entry_of,
    own_text,
    parameters_of,
    setup_of,
    shape_of,
)
from fuzz.judging.reference import image_of, refused_by
from oracle.errors import UsageError
from oracle.isa.lookup import INSTRUCTIONS
from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind
from runners.simulated.decoder import DecodedKernel
from runners.simulated.parser import parse
from runners.simulated.syntax import (
    Address,
    ImmediateText,
    InstructionText,
    Name,
    RegisterText,
    VectorText,
)

_BOUNDS = re.compile(r"\.(reqntid|maxntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
_MATRIX = "|".join(dict.fromkeys(name.partition(".")[0] for name in INSTRUCTIONS))
_ADDRESSES = re.compile(rf"(?:ld|ldu|st|atom|red|cp|{_MATRIX})\b")
_PLACES = re.compile(r"mov\.[bu]64|add\.[su]64|cvta\.param\.u64")
"""What an address in a structure among the parameters is made with."""
_CARRIES = re.compile(r"(?:mov|cvta|add|sub|mad|selp|min|max|cvt)\b")
"""What an address is made with; a product of a pointer is none."""
_OF_A_WARP = re.compile(rf"\b(?:{_MATRIX}|shfl|vote|match|redux)\b|%laneid\b|%lanemask")
_WAITING = re.compile(r"\bbar(?:rier)?(?:\.cta)?\.sync(?:\.aligned)?\s+\d+\s*,\s*(\d+)\s*;")
_DYNAMIC = re.compile(r"\.extern\s+\.shared\b[^;]*?([\w$%]+)\s*(?:\[[^;]*)?;")
"""The name of a variable in dynamic shared memory."""
_ELEMENT = re.compile(r"\.(bf16|[busf](?:8|16|32|64))\b")
_PROBED_BYTES = 1 << 20  # bytes of each buffer while warpfuzz finds out what a kernel touches
_LEAST_BYTES, _UNSEEN_BYTES = 256, 256 << 10
"""Bytes of a buffer at least, and of those of a kernel that the simulated device does not know."""
_PROBES = 4  # images that are tried: one of each sort of contents
_SHAPES = (
    ("%tid.z", [(8, 4, 2), (4, 4, 4), (8, 8, 8)], "%tid is read along three axes"),
    ("%tid.y", [(16, 4, 1), (16, 16, 1), (8, 8, 1), (32, 32, 1), (32, 8, 1)],
     "%tid is read along two axes"),
    ("%tid", [(64, 1, 1), (32, 1, 1), (128, 1, 1), (256, 1, 1)],
     "the text bounds no block; 64, 32, 128 and 256 threads are tried in turn"),
)  # fmt: skip
"""Blocks that are tried, the likeliest first, of kernels that read a register."""


class _RefusedError(UsageError):
    """The simulated device does not run a kernel as it is launched."""

    def __init__(self, words: str, kind: TrapKind) -> None:
        super().__init__(words)
        self.kind = kind


def guess(ptx: str, rows: LaunchRows, device: SimulatedDevice) -> tuple[Setup, tuple[str, ...]]:
    """Return how a kernel is launched, and sentences about what was guessed, or UsageError."""
    entry = entry_of(ptx, rows.entry)
    text = own_text(ptx, entry)
    shapes: Sequence[int | tuple[int, ...]]
    shapes, why = [rows.block or 1], ""
    if rows.block is None:
        shapes, why = _blocks(entries_of(ptx)[entry][3], text)
    refused: dict[int | tuple[int, ...], _RefusedError] = {}
    kind: TrapKind | None = None
    for shape, whole, along in product(shapes, (False, True), (False, True)):
        # A hang takes seconds each time.
        if kind is TrapKind.HANG or (along and kind is not TrapKind.OUT_OF_BOUNDS):
            continue
        complete = replace(rows, entry=entry, block=shape)
        try:
            setup, guessed = _guess(ptx, complete, device, text, whole=whole, along=along)
        except _RefusedError as error:
            refused.setdefault(shape, error)
            kind = error.kind
            continue
        # Whoever meant another block learns why it is not that one: a race, perhaps.
        others = [f"; {said}" for other, said in _said(refused).items() if other != shape]
        block = [f"block = {[*shape_of(shape)]} ({why}){''.join(others)}"] if why else []
        return setup, (*block, *guessed)
    said = "; ".join(_said(refused).values())
    raise UsageError(f"{said}{f' (guessed: {why})' if why else ''}; override with --launch FILE")


def _said(refused: Mapping[int | tuple[int, ...], _RefusedError]) -> dict[Any, str]:
    return {shape: f"a block of {shape} is refused: {words}" for shape, words in refused.items()}


def _guess(
    ptx: str, rows: LaunchRows, device: SimulatedDevice, text: str, *, whole: bool, along: bool
) -> tuple[Setup, Sequence[str]]:
    """Return how a kernel is launched in blocks of a known shape.

    With `whole` every parameter of 64 bits is a pointer: code for debuggers keeps them in memory.
    With `along` numbers are the threads along one axis, and not all: sides of a matrix or a cube.
    """
    entry, grid, shared, said = f"{rows.entry}", rows.grid, rows.shared, []
    known = refused_by(device, ptx, entry) is None
    if grid is None:
        grid = tuple(2 if f"%ctaid.{axis}" in text else 1 for axis in "xyz")
        said.append(f"grid = {list(grid)} (2 along each axis whose %ctaid is read)")
    if shared is None:
        shared, uses = 0, _DYNAMIC.sub("", text)
        if any(
            re.search(rf"(?<![\w$%]){re.escape(name)}(?![\w$])", uses)
            for name in _DYNAMIC.findall(text)
        ):
            found = device.load(ptx).kernels.get(entry) if known else None
            own = found.static.shared_bytes if isinstance(found, DecodedKernel) else 0
            shared = (MOST_SHARED - own) // 1024 * 1024
            said.append(
                f"shared = {shared} bytes (there is dynamic shared memory: all that is left)"
            )
    axes = [x * y for x, y in zip(shape_of(grid), shape_of(rows.block), strict=True)]
    threads = max(axes) if along else math.prod(axes)
    arguments: dict[str, Any] = dict(rows.arguments)
    unsized = []
    for parameter, use in _uses(ptx, entry, rows.arguments).items():
        if parameter in arguments or parameter.partition("+")[0] in arguments:
            continue
        if use.is_pointer or (whole and use.type in ("u64", "b64", "s64")):
            arguments[parameter] = BufferRow(bytes=_PROBED_BYTES, type=use.element or "b32")
            unsized.append(parameter)
        elif use.type.startswith("f") and TYPES[use.type] > 16 and "+" not in parameter:
            arguments[parameter] = 1.5
            said.append(f"{parameter} = 1.5 (a number of no special kind)")
        else:
            arguments[parameter] = min(threads, (1 << TYPES[use.type] - 1) - 1)
            where = " along an axis" if along else ""
            said.append(f"{parameter} = {arguments[parameter]} (the threads of the launch{where})")
    complete = replace(rows, grid=grid, shared=shared, arguments=arguments)
    setup = setup_of(ptx, complete)
    if known and (unsized or said):
        touched = _touched(ptx, setup, device, unsized=bool(unsized))
    for name in unsized:
        size, how = max(_UNSEEN_BYTES, 16 * setup.threads), "the simulated device cannot run it"
        if known:
            reached = touched[name]
            size, how = max(_LEAST_BYTES, -(-reached // 16) * 16), "the kernel touches none"
            how = f"the kernel touches bytes below {reached}" if reached else how
            how += f"; {_LEAST_BYTES} is the least" if size > reached + 15 else ""
        arguments[name] = replace(arguments[name], bytes=size)
        said.append(f"{name} = {size} bytes of {arguments[name].type} ({how})")
    return setup_of(ptx, replace(complete, arguments=arguments)), said


def _blocks(behind: str, text: str) -> tuple[Sequence[tuple[int, int, int]], str]:
    """Return the shapes that are tried, the likeliest first, and why these."""
    if bound := _BOUNDS.search(behind):
        return [(int(bound[2]), int(bound[3] or 1), int(bound[4] or 1))], f".{bound[1]}"
    if waiting := _WAITING.search(text):
        return [(int(waiting[1]), 1, 1)], "a barrier says that it is for so many threads"
    for register, shapes, why in _SHAPES:
        if register in text:
            return shapes, why
    if _OF_A_WARP.search(text):
        return [(32, 1, 1)], "a warp: %tid is not read, and lanes are"
    return [(1, 1, 1)], "no thread asks which it is"


@dataclass
class _Use:
    """What an entry's text does with one of its parameters, or with a part of it."""

    type: str  # type of the load that reads the parameter
    is_pointer: bool = False
    element: str = ""  # type that is loaded or stored through it, the first


_Made = frozenset[frozenset[str]]
"""The parameters that a value is made of: a set for each way to it."""
_NUMBER: _Made = frozenset([frozenset()])
_MOST_WAYS, _MOST_ROUNDS = 64, 64
"""More ways are taken as one, and more rounds are left out, so that no kernel takes for ever."""


def _uses(ptx: str, entry: str, given: Mapping[str, object]) -> Mapping[str, _Use]:
    """Return what an entry does with each of its parameters, and with the parts of structures.

    Those that are given as numbers are no pointers, whatever addresses are made of them.
    """
    try:
        body = list(parse(ptx).entries[entry].body or ())
    except SimulatedTrap as trap:
        raise UsageError(
            f"the launch cannot be guessed, because the simulated device does not read the module "
            f"({trap}); say with --launch FILE how it is launched"
        ) from None
    formal = {one.name: one for one in parameters_of(ptx, entry)}
    uses: dict[str, _Use] = {}
    loads: dict[int, dict[str, _Made]] = defaultdict(dict)
    """What instructions load of parameters, by their index and the register."""
    places: dict[str, tuple[str, int]] = {name: (name, 0) for name in formal}
    """Parameter and offset of what addresses of parameters are made of."""
    for index, one in enumerate(body):
        match one.operands:
            case (_, Name() as source, *more) if (
                _PLACES.match(one.opcode)
                and (held := places.get(_key(one, source.text)))
                and isinstance(added := (*more, ImmediateText(0))[0], ImmediateText)
            ):
                for target in _registers(one, one.operands[:1]):
                    places[target] = (held[0], held[1] + source.offset + added.value)
            case (_, Address() as address, *_) if one.opcode.startswith("ld.param") and (
                held := places.get(_key(one, address.base))
            ):
                base, start = held[0], held[1] + address.offset
                type_ = _element(one.opcode) or "u64"
                width = TYPES[type_] // 8
                for number, target in enumerate(_registers(one, one.operands[:1])):
                    at = start + number * width
                    key = f"{base}+{at}" if formal[base].size > width else base
                    is_buffer = isinstance(given.get(key, given.get(base)), BufferRow)
                    uses.setdefault(key, _Use(type_, is_pointer=is_buffer))
                    if width == 8 and (key not in given or uses[key].is_pointer):
                        loads[index][target] = frozenset([frozenset([key])])
    for name, each in formal.items():
        if not any(key.partition("+")[0] == name for key in uses) and each.type in TYPES:
            uses[name] = _Use(each.type)
    made = _made(body, loads)
    touches = [
        (keys, one)
        for one in body
        if _ADDRESSES.match(one.opcode) and ".param" not in one.opcode
        for operand in one.operands
        if isinstance(operand, Address)
        for keys in made.get(_key(one, operand.base), _NUMBER)
        if keys
    ]
    # What is the one parameter of an address is a pointer in the others, too.
    for keys, one in sorted(touches, key=lambda touch: len(touch[0])):
        pointers = {key for key in keys if uses[key].is_pointer}
        if not pointers and len(keys) > 1:
            raise UsageError(
                f"line {one.line} makes an address of the parameters {', '.join(sorted(keys))}, "
                "and nothing says which of them is the pointer; say with --launch FILE what each is"
            )
        for key in pointers or keys:
            uses[key].is_pointer = True
            uses[key].element = uses[key].element or _element(one.opcode)
    return uses


def _few(found: _Made) -> _Made:
    return found if len(found) <= _MOST_WAYS else frozenset([frozenset().union(*found)])


def _made(
    body: Sequence[InstructionText], loads: Mapping[int, Mapping[str, _Made]]
) -> Mapping[str, _Made]:
    """Return what registers are made of anywhere in the text, in whatever order it runs."""
    made: dict[str, _Made] = {}
    written = {name for one in body for name in _registers(one, one.operands[:1])}
    for _ in range(_MOST_ROUNDS):
        before = dict(made)
        for index, one in enumerate(body):
            targets = _registers(one, one.operands[:1])
            word = one.opcode.partition(".")[0]
            # What a product is added to is the address.
            names = _registers(one, one.operands[3:] if word == "mad" else one.operands[1:])
            now = _NUMBER
            if _CARRIES.match(one.opcode):
                sources = [made.get(name, frozenset()) for name in names if name in written]
                if word in ("selp", "min", "max"):
                    now = frozenset().union(*sources)
                else:
                    now = frozenset(
                        frozenset().union(*each) for each in product(*map(_few, sources))
                    )
            elif set(targets) & set(names):
                continue  # an aligned pointer is one, too
            for target in targets:
                ways = loads.get(index, {}).get(target, now)
                made[target] = _few(made.get(target, frozenset()) | ways)
        if made == before:
            break
    return made


def _element(opcode: str) -> str:
    types: list[str] = _ELEMENT.findall(opcode)
    return types[-1] if types else ""


def _registers(one: InstructionText, operands: Iterable[object]) -> list[str]:
    parts = (part.parts if isinstance(part, VectorText) else (part,) for part in operands)
    return [_key(one, part.text) for part in chain(*parts) if isinstance(part, Name)]


def _key(one: InstructionText, name: str) -> str:
    found = one.scope.find(name)
    return found.key if isinstance(found, RegisterText) else name


def _touched(
    ptx: str, setup: Setup, device: SimulatedDevice, *, unsized: bool
) -> Mapping[str, int]:
    """Return how far into each buffer a kernel reaches, on a few images."""
    most = np.zeros(len(setup.buffers), np.int64)
    refused: SimulatedTrap | None = None
    ran = False
    for number in range(_PROBES):
        image = image_of(setup, seed=0, number=number)
        try:
            grid = device.load(ptx).launch_grid(setup.entry, image, setup.launch)
        except SimulatedTrap as trap:
            refused = trap
            if trap.trap.kind is TrapKind.HANG:
                break
        else:
            ran, most = True, np.maximum(most, grid.touched)
    if refused is not None and not ran:
        said = f"the simulated device does not run the kernel: {refused}"
        if refused.trap.message.endswith("outside every buffer"):
            more = ", or its size cannot be guessed" if unsized else ""
            said = f"a buffer may be too small{more} ({refused})"
        raise _RefusedError(said, refused.trap.kind)
    return dict(zip(setup.buffers, map(int, most), strict=True))
