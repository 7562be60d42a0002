"""Guesses from the text of a kernel how it is launched.

Pointers are the parameters that addresses are made of; a buffer is as large as what the simulated
device sees the kernel touch. Whatever is guessed is said.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
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
from oracle.isa.legality import without_comments
from oracle.isa.tables import INSTRUCTIONS
from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind
from runners.simulated.decoder import DecodedKernel
from runners.simulated.parser import parse
from runners.simulated.syntax import (
    Address,
    Group,
    ImmediateText,
    InstructionText,
    Name,
    Pair,
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
_ENDS = re.compile(r"(?:bra|brx|ret|exit|trap)\b")
"""What goes on elsewhere, unless a guard says no."""
_OF_A_WARP = re.compile(rf"\b(?:{_MATRIX}|shfl|vote|match|redux)\b|%laneid\b|%lanemask")
_WAITING = re.compile(r"\bbar(?:rier)?(?:\.cta)?\.sync(?:\.aligned)?\s+\d+\s*,\s*(\d+)\s*;")
_DYNAMIC = re.compile(r"\.extern\s+\.shared\b[^;]*?([\w$%]+)\s*(?:\[[^;]*)?;")
"""The name of a variable in dynamic shared memory."""
_ELEMENT = re.compile(r"\.(bf16|[busf](?:8|16|32|64))\b")
_PROBED_BYTES = 1 << 20
"""Bytes of each buffer while warpfuzz finds out what a kernel touches."""
_LEAST_BYTES, _UNSEEN_BYTES = 256, 64 << 10
_MOST_UNKNOWN = 64
"""Instructions that are left out, each after the module was loaded once."""
_MOVED = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32"}
"""Types that mov has for those of registers, where these are others."""
_PROBES = 4
"""Images that are tried: one of each sort of contents."""
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
    """Return how a kernel is launched, and sentences about what of it a file left to be guessed.

    Raises UsageError if it cannot be guessed; the message says what the file has to say.
    """
    entry = entry_of(ptx, rows.entry)
    text = own_text(ptx, entry)
    shapes: Sequence[int | tuple[int, ...]]
    shapes, why = [rows.block or 1], ""
    if rows.block is None:
        shapes, why = _blocks(entries_of(ptx)[entry][3], text)
    seen = _observable(ptx, entry, device)
    refused: dict[int | tuple[int, ...], _RefusedError] = {}
    kind: TrapKind | None = None
    for shape, whole, along in product(shapes, (False, True), (False, True)):
        # A hang takes seconds each time.
        if kind is TrapKind.HANG or (along and kind is not TrapKind.OUT_OF_BOUNDS):
            continue
        complete = replace(rows, entry=entry, block=shape)
        try:
            setup, guessed = _guess(ptx, complete, device, text, seen, whole=whole, along=along)
        except _RefusedError as error:
            refused.setdefault(shape, error)
            kind = error.kind
        else:
            # Whoever meant another block learns why it is not that one: a race, perhaps.
            others = (
                f"; a block of {other} is refused: {words}"
                for other, words in refused.items()
                if other != shape
            )
            said = f"block = {[*shape_of(shape)]} ({why}){''.join(others)}"
            return setup, ((said, *guessed) if why else tuple(guessed))
    if seen != ptx:
        # What it does not do as far as it is known, it may do as a whole.
        complete = replace(rows, entry=entry, block=shapes[0])
        setup, guessed = _guess(ptx, complete, device, text, "", whole=False, along=False)
        return setup, tuple(guessed)
    (shape, first), *more = refused.items()
    guessed_block = f"guessed: block = {[*shape_of(shape)]} ({why}); " if why else ""
    too = f"; refused, too: blocks of {', '.join(f'{other}' for other, _ in more)}" if more else ""
    raise UsageError(f"{first}; {guessed_block}override with --launch FILE{too}")


def _guess(
    ptx: str,
    rows: LaunchRows,
    device: SimulatedDevice,
    text: str,
    seen: str,
    *,
    whole: bool,
    along: bool,
) -> tuple[Setup, Sequence[str]]:
    """Return how a kernel is launched in blocks of a known shape.

    `seen` is the module as far as it can be run, "" where that shows nothing. With `whole` every
    parameter of 64 bits is a pointer: code for debuggers keeps them in memory. With `along` numbers
    are the threads along one axis, and not all: sides of a matrix or a cube.
    """
    entry, grid, shared, said = f"{rows.entry}", rows.grid, rows.shared, []
    if grid is None:
        grid = tuple(2 if f"%ctaid.{axis}" in text else 1 for axis in "xyz")
        said.append(f"grid = {list(grid)} (2 along each axis whose %ctaid is read)")
    if shared is None:
        shared, uses = 0, _DYNAMIC.sub("", text)
        if any(
            re.search(rf"(?<![\w$%]){re.escape(name)}(?![\w$])", uses)
            for name in _DYNAMIC.findall(text)
        ):
            found = device.load(seen).kernels.get(entry) if seen else None
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
    if unsized or said:
        sizes = _sizes(seen, setup, device, unsized=bool(unsized), lenient=seen != ptx)
        for one in unsized:
            row, (size, why) = arguments[one], sizes[one]
            arguments[one] = replace(row, bytes=size)
            said.append(f"{one} = {size} bytes of {row.type} ({why})")
        setup = setup_of(ptx, replace(complete, arguments=arguments))
    return setup, said


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

    type: str
    """Type of the load that reads the parameter."""
    is_pointer: bool = False
    element: str = ""
    """Type that is loaded or stored through it, the first."""


_Made = frozenset[frozenset[str]]
"""The parameters that a value is made of: a set for each way to it."""
_NUMBER: _Made = frozenset([frozenset()])
_MOST_WAYS = 64
"""More than that are taken as one, so that no kernel takes for ever."""


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
    touches = [(keys, one) for one, made in _addresses(body, loads) for keys in made if keys]
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


def _either(first: _Made, second: _Made) -> _Made:
    return _few(first | second)


def _both(first: _Made, second: _Made) -> _Made:
    return _few(frozenset(one | two for one in first for two in second))


def _few(found: _Made) -> _Made:
    return found if len(found) <= _MOST_WAYS else frozenset([frozenset().union(*found)])


def _addresses(
    body: Sequence[InstructionText], loads: Mapping[int, Mapping[str, _Made]]
) -> Iterator[tuple[InstructionText, _Made]]:
    """Iterate over what addresses are made of, with their instructions.

    Registers are followed by flow: what one held before it got another value does not count.
    """
    starts = {0, *(at for one in body for at in one.scope.labels.values())}
    starts |= {at + 1 for at, one in enumerate(body) if _ENDS.match(one.opcode)}
    known: dict[int, dict[str, _Made]] = {0: {}}
    changed = [0] if body else []
    ended: dict[int, list[tuple[InstructionText, _Made]]] = {}
    while changed:
        start = at = changed.pop()
        state, found = dict(known[start]), []
        while at == start or (at < len(body) and at not in starts):
            one = body[at]
            if _ADDRESSES.match(one.opcode) and ".param" not in one.opcode:
                found += [
                    (one, state.get(_key(one, operand.base), _NUMBER))
                    for operand in one.operands
                    if isinstance(operand, Address)
                ]
            state |= _made(one, loads.get(at, {}), state)
            at += 1
        ended[start] = found
        for goal in _goals(body[at - 1], at):
            before = known.get(goal)
            after = state if before is None else {
                name: _either(before.get(name, _NUMBER), state.get(name, _NUMBER))
                for name in (*before, *state)
            }  # fmt: skip
            if goal < len(body) and after != before:
                known[goal] = after
                changed.append(goal)
    return chain.from_iterable(ended[start] for start in sorted(ended))


def _goals(one: InstructionText, after: int) -> Iterator[int]:
    """Iterate over where an instruction goes on."""
    if not _ENDS.match(one.opcode) or one.guard is not None:
        yield after
    if one.opcode.startswith("br"):
        names = [name.text for name in one.operands if isinstance(name, Name)]
        names += [label for name in names for label in one.scope.targets.get(name, ())]
        yield from (one.scope.labels[name] for name in names if name in one.scope.labels)


def _made(
    one: InstructionText, loaded: Mapping[str, _Made], state: Mapping[str, _Made]
) -> Iterator[tuple[str, _Made]]:
    """Iterate over the registers that an instruction writes, and what they are made of then."""
    word, carries = one.opcode.partition(".")[0], _CARRIES.match(one.opcode)
    # What a product is added to is the address.
    operands = one.operands[3:] if word == "mad" else one.operands[1:]
    sources = [state.get(name, _NUMBER) for name in _registers(one, operands)] or [_NUMBER]
    join = _either if word in ("selp", "min", "max") else _both
    made = reduce(join, sources) if carries else _NUMBER
    for target in _registers(one, one.operands[:1]):
        # An aligned pointer is one, too.
        if carries or target not in _registers(one, one.operands[1:]):
            now = loaded.get(target, made)
            yield target, now if one.guard is None else _either(now, state.get(target, _NUMBER))


def _element(opcode: str) -> str:
    types: list[str] = _ELEMENT.findall(opcode)
    return types[-1] if types else ""


def _registers(one: InstructionText, operands: Iterable[object]) -> list[str]:
    parts = (part.parts if isinstance(part, VectorText) else (part,) for part in operands)
    return [_key(one, part.text) for part in chain(*parts) if isinstance(part, Name)]


def _key(one: InstructionText, name: str) -> str:
    found = one.scope.find(name)
    return found.key if isinstance(found, RegisterText) else name


def _observable(ptx: str, entry: str, device: SimulatedDevice) -> str:
    """Return a module without the instructions of an entry that the simulated device does not know.

    What they write is zero, or true: waits end so. Which buffers the rest touches shows all the
    same. Returns "" where that does not help.
    """
    trap = refused_by(device, ptx, entry)
    text = ptx if trap is None else without_comments(ptx)
    for _ in range(_MOST_UNKNOWN):
        trap = refused_by(device, text, entry)
        if trap is None:
            return text
        listing, line, said = parse(text), trap.trap.line, trap.trap.message
        one = next(
            (
                one
                for each in (*listing.entries.values(), *listing.functions.values())
                for one in each.body or ()
                if one.line == line and re.match(rf"{re.escape(one.opcode)}[ :]", said)
            ),
            None,
        )
        start = sum(map(len, text.splitlines(keepends=True)[: line - 1]))
        at = -1 if one is None else text.find(one.text, start)
        if one is None or at < 0:
            break
        guard = f"@{'!' * one.guard.negated}{one.guard.text} " if one.guard else ""
        written: Sequence[object] = one.operands[:1]
        match written:
            case [Pair(first=first, second=second)]:
                written = (first, second)
            case [VectorText(parts=parts) | Group(parts=parts)]:
                written = parts
        named = [part.text for part in written if isinstance(part, Name)]
        kept = [(name, one.scope.find(name)) for name in named]
        moves = [
            f"mov.{_MOVED.get(held.type, held.type)} {name}, {held.type == 'pred':d};"
            for name, held in kept
            if isinstance(held, RegisterText) and held.parts == 1
        ]
        # Without any, somewhere to go on to, for a guard in front.
        moves = moves or ["membar.cta;"]
        text = text[:at] + f" {guard}".join(moves) + text[at + len(one.text) :]
    return ""


def _sizes(
    ptx: str, setup: Setup, device: SimulatedDevice, *, unsized: bool, lenient: bool
) -> Mapping[str, tuple[int, str]]:
    """Return the bytes that each buffer gets, and why: what a kernel touches of it on images."""
    most = np.zeros(len(setup.buffers), np.int64)
    refused: SimulatedTrap | None = None
    ran = False
    for number in range(_PROBES if ptx else 0):
        image = image_of(setup, seed=0, number=number)
        try:
            module = device.load(ptx)
            grid = module.launch_grid(setup.entry, image, setup.launch, lenient=lenient)
        except SimulatedTrap as trap:
            refused = trap
            if trap.trap.kind is TrapKind.HANG:
                break
        else:
            ran = True
            most = np.maximum(most, grid.touched)
    if refused is not None and not ran:
        said = f"the simulated device does not run the kernel: {refused}"
        if refused.trap.message.endswith("outside every buffer"):
            more = ", or its size cannot be guessed" if unsized else ""
            said = f"a buffer may be too small{more} ({refused})"
        raise _RefusedError(said, refused.trap.kind)
    how = ""
    if lenient:
        # What was left out may reach further.
        most[:] = np.maximum(2 * most if ran else _UNSEEN_BYTES, 16 * setup.threads)
        how = "the simulated device cannot run it"
        if ran:
            how = "twice what the instructions touch that the simulated device knows"
    found = {}
    for name, size in zip(setup.buffers, map(int, most), strict=True):
        bytes_ = max(_LEAST_BYTES, -(-size // 16) * 16)
        reached = f"the kernel touches bytes below {size}" if size else "the kernel touches none"
        least = f"; {_LEAST_BYTES} is the least" if bytes_ == _LEAST_BYTES > size else ""
        found[name] = (bytes_, (how or reached) + least)
    return found
