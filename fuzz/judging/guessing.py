"""Guesses from the text of a kernel how it is launched.

Pointers are the parameters that addresses are made of; a buffer is as large as what the simulated
device sees the kernel touch. Whatever is guessed is said.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain, product
from typing import Any

import msgspec
import numpy as np

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
from fuzz.judging.reference import image_of
from oracle.errors import UsageError
from oracle.instructions import INSTRUCTIONS
from oracle.statements import without_comments
from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind
from runners.simulated.decoder import Kernel
from runners.simulated.parser import parse
from runners.simulated.syntax import (
    Address,
    Group,
    Immediate,
    Instruction,
    Name,
    Pair,
    Register,
    Vector,
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


@dataclass
class _Use:
    """What an entry's text does with one of its parameters, or with a part of it."""

    offset: int
    type: str
    """Type of the load that reads the parameter."""
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
    seen = _observable(ptx, entry, device)
    first: UsageError | None = None
    refused: dict[int | tuple[int, ...], str] = {}
    kind: TrapKind | None = None
    for shape, whole, along in product(shapes, (False, True), (False, True)):
        if along and kind is not TrapKind.OUT_OF_BOUNDS:
            continue
        said = f"block = {list(shape)} ({why})" if isinstance(shape, tuple) and why else ""
        complete = msgspec.structs.replace(rows, entry=entry, block=shape)
        try:
            found = _guess(ptx, complete, device, text, seen, whole=whole, along=along)
        except _RefusedError as error:
            refused.setdefault(shape, f"; a block of {shape} is refused: {error}")
            first = first or UsageError(
                f"{error}; {f'guessed: {said}; ' if said else ''}override with --launch FILE"
            )
            kind = error.kind
            if kind is TrapKind.HANG:
                # It takes seconds each time.
                break
        else:
            # Whoever meant another block learns why it is not that one: a race, perhaps.
            said += "".join(words for other, words in refused.items() if said and other != shape)
            guessed = (said, *found.guessed) if said else found.guessed
            return Guess(setup=found.setup, guessed=guessed)
    assert first is not None
    if seen != ptx:
        # What it does not do as far as it is known, it may do as a whole.
        complete = msgspec.structs.replace(rows, entry=entry, block=shapes[0])
        return _guess(ptx, complete, device, text, "", whole=False, along=False)
    if others := [f"{one}" for one in refused if one != shapes[0]]:
        raise UsageError(f"{first}; refused, too: blocks of {', '.join(others)}")
    raise first


class _RefusedError(UsageError):
    """The simulated device does not run a kernel as it is launched."""

    def __init__(self, words: str, kind: TrapKind) -> None:
        super().__init__(words)
        self.kind = kind


def _guess(
    ptx: str,
    rows: LaunchRows,
    device: SimulatedDevice,
    text: str,
    seen: str,
    *,
    whole: bool,
    along: bool,
) -> Guess:
    """Return how a kernel is launched in blocks of a known shape.

    Parameters
    ----------
    seen
        The module as far as it can be run; "" where that shows nothing.
    whole
        Whether every parameter of 64 bits is a pointer: code for debuggers keeps them in memory.
    along
        Whether numbers are the threads along one axis, and not all: sides of a matrix or a cube.
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
        shared = 0
        if dynamic:
            found = device.load(seen).kernels.get(entry) if seen else None
            own = found.static.shared_bytes if isinstance(found, Kernel) else 0
            shared = (MOST_SHARED - own) // 1024 * 1024
            said.append(
                f"shared = {shared} bytes (there is dynamic shared memory: all that is left)"
            )
    axes = [x * y for x, y in zip(shape_of(grid), shape_of(block), strict=True)]
    threads, why_so = math.prod(axes), "the threads of the launch"
    if along:
        threads, why_so = max(axes), "the threads of the launch along an axis"
    arguments: dict[str, Any] = dict(rows.arguments)
    unsized = []
    for parameter, use in _uses(ptx, entry, rows.arguments).items():
        if parameter in arguments or parameter.partition("+")[0] in arguments:
            continue
        if use.is_pointer or (whole and use.type in ("u64", "b64", "s64")):
            arguments[parameter] = BufferRow(bytes=_PROBED_BYTES, type=use.element or "b32")
            unsized.append(parameter)
            continue
        is_float = use.type.startswith("f") and TYPES[use.type] > 16 and "+" not in parameter
        arguments[parameter] = 1.5 if is_float else min(threads, (1 << TYPES[use.type] - 1) - 1)
        reason = "a number of no special kind" if is_float else why_so
        said.append(f"{parameter} = {arguments[parameter]} ({reason})")
    complete = msgspec.structs.replace(rows, grid=grid, shared=shared, arguments=arguments)
    setup = setup_of(ptx, complete)
    if unsized or said:
        sizes, why = _sizes(seen, setup, device, unsized, lenient=seen != ptx)
        for one in unsized:
            row = arguments[one]
            arguments[one] = msgspec.structs.replace(row, bytes=sizes[one])
            said.append(f"{one} = {sizes[one]} bytes of {row.type} ({why[one]})")
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
        return sizes, "the text bounds no block; 64, 32, 128 and 256 threads are tried in turn"
    if _OF_A_WARP.search(text):
        return [(32, 1, 1)], "a warp: %tid is not read, and lanes are"
    return [(1, 1, 1)], "no thread asks which it is"


def _uses(ptx: str, entry: str, given: Mapping[str, object]) -> Mapping[str, _Use]:
    """Return what an entry does with each of its parameters, and with the parts of structures.

    Those that are given as numbers are no pointers, whatever addresses are made of them.
    """
    try:
        listing = parse(ptx)
    except SimulatedTrap as trap:
        raise UsageError(
            f"the launch cannot be guessed, because the simulated device does not read the module "
            f"({trap}); say with --launch FILE how it is launched"
        ) from None
    formal = {one.name: one for one in parameters_of(ptx, entry)}
    body = list(listing.entries[entry].body or ())
    uses: dict[str, _Use] = {}
    loads: dict[int, dict[str, _Made]] = defaultdict(dict)
    """What instructions load of parameters, by their index and the register."""
    places: dict[str, tuple[str, int]] = {name: (name, 0) for name in formal}
    """Parameter and offset of what addresses of parameters are made of."""
    for index, one in enumerate(body):
        if _PLACES.match(one.opcode) and len(one.operands) > 1:
            source, added = one.operands[1], (*one.operands[2:], Immediate(0))[0]
            held = places.get(_key(one, source.text)) if isinstance(source, Name) else None
            if held is not None and isinstance(source, Name) and isinstance(added, Immediate):
                base, offset = held
                for target in _registers(one, one.operands[:1]):
                    places[target] = (base, offset + source.offset + added.value)
        if one.opcode.startswith("ld.param") and isinstance(one.operands[1], Address):
            base, offset = places.get(_key(one, one.operands[1].base), ("", 0))
            offset += one.operands[1].offset
            if not base:
                continue
            type_ = _element(one.opcode) or "u64"
            width = TYPES[type_] // 8
            for number, target in enumerate(_registers(one, one.operands[:1])):
                at = offset + number * width
                key = f"{base}+{at}" if formal[base].size > width else base
                whole = given.get(key, given.get(base))
                uses.setdefault(key, _Use(at, type_, is_pointer=isinstance(whole, BufferRow)))
                if width == 8 and (key not in given or uses[key].is_pointer):
                    loads[index][target] = frozenset([frozenset([key])])
    for name, one_ in formal.items():
        if not any(key.partition("+")[0] == name for key in uses) and one_.type in TYPES:
            uses[name] = _Use(0, one_.type)
    touches = [(keys, one) for one, made in _addresses(body, loads) for keys in made if keys]
    # What is the one parameter of an address is a pointer in the others, too.
    for keys, one in sorted(touches, key=lambda touch: len(touch[0])):
        pointers = {key for key in keys if uses[key].is_pointer} or keys
        if len(keys) > 1 and pointers == keys and not all(uses[key].is_pointer for key in keys):
            raise UsageError(
                f"line {one.line} makes an address of the parameters {', '.join(sorted(keys))}, "
                "and nothing says which of them is the pointer; say with --launch FILE what each is"
            )
        for key in pointers:
            uses[key].is_pointer = True
            uses[key].element = uses[key].element or _element(one.opcode)
    return uses


_Made = frozenset[frozenset[str]]
"""The parameters that a value is made of: a set for each way to it."""
_NUMBER: _Made = frozenset([frozenset()])
_MOST_WAYS = 64
"""More than that are taken as one, so that no kernel takes for ever."""


def _either(first: _Made, second: _Made) -> _Made:
    found = first | second
    return found if len(found) <= _MOST_WAYS else frozenset([frozenset().union(*found)])


def _both(first: _Made, second: _Made) -> _Made:
    found = frozenset(one | two for one in first for two in second)
    return found if len(found) <= _MOST_WAYS else frozenset([frozenset().union(*found)])


def _addresses(
    body: Sequence[Instruction], loads: Mapping[int, Mapping[str, _Made]]
) -> Iterator[tuple[Instruction, _Made]]:
    """Iterate over what addresses are made of, with their instructions.

    Registers are followed by flow: what one held before it got another value does not count.
    """
    starts = {0, *(at for one in body for at in one.scope.labels.values())}
    starts |= {at + 1 for at, one in enumerate(body) if _ENDS.match(one.opcode)}
    known: dict[int, dict[str, _Made]] = {0: {}}
    changed = [0] if body else []
    ended: dict[int, list[tuple[Instruction, _Made]]] = {}
    while changed:
        start = at = changed.pop()
        state, found = dict(known[start]), []
        while at < len(body):
            one = body[at]
            if _ADDRESSES.match(one.opcode) and ".param" not in one.opcode:
                found += [
                    (one, state.get(_key(one, operand.base), _NUMBER))
                    for operand in one.operands
                    if isinstance(operand, Address)
                ]
            _step(one, loads.get(at, {}), state)
            at += 1
            if at in starts:
                break
        ended[start] = found
        for goal in _goals(body, at - 1):
            before = known.get(goal)
            after = state if before is None else {
                name: _either(before.get(name, _NUMBER), state.get(name, _NUMBER))
                for name in (*before, *state)
            }  # fmt: skip
            if goal < len(body) and after != before:
                known[goal] = after
                changed.append(goal)
    for start in sorted(ended):
        yield from ended[start]


def _goals(body: Sequence[Instruction], at: int) -> Iterator[int]:
    """Iterate over where an instruction goes on."""
    one = body[at]
    if not _ENDS.match(one.opcode) or one.guard is not None:
        yield at + 1
    if one.opcode.startswith("br"):
        names = [name.text for name in one.operands if isinstance(name, Name)]
        names += [label for name in names for label in one.scope.targets.get(name, ())]
        yield from (one.scope.labels[name] for name in names if name in one.scope.labels)


def _step(one: Instruction, loaded: Mapping[str, _Made], state: dict[str, _Made]) -> None:
    """Change what registers are made of as an instruction does."""
    word = one.opcode.partition(".")[0]
    # What a product is added to is the address.
    operands = one.operands[3:] if word == "mad" else one.operands[1:]
    sources = [state.get(name, _NUMBER) for name in _registers(one, operands)]
    join = _either if word in ("selp", "min", "max") else _both
    made = reduce(join, sources) if sources and _CARRIES.match(one.opcode) else _NUMBER
    for target in _registers(one, one.operands[:1]):
        now = loaded.get(target, made)
        # An aligned pointer is one, too.
        if not _CARRIES.match(one.opcode) and target in _registers(one, one.operands[1:]):
            continue
        if one.guard is not None:
            now = _either(now, state.get(target, _NUMBER))
        state[target] = now


def _element(opcode: str) -> str:
    types = _ELEMENT.findall(opcode)
    return types[-1] if types else ""


def _registers(one: Instruction, operands: Sequence[object]) -> list[str]:
    parts = (part.parts if isinstance(part, Vector) else (part,) for part in operands)
    return [_key(one, part.text) for part in chain(*parts) if isinstance(part, Name)]


def _key(one: Instruction, name: str) -> str:
    found = one.scope.find(name)
    return found.key if isinstance(found, Register) else name


def _observable(ptx: str, entry: str, device: SimulatedDevice) -> str:
    """Return a module without the instructions of an entry that the simulated device does not know.

    What they write is zero, or true: waits end so. Which buffers the rest touches shows all the
    same.
    """
    if not _unknown(ptx, entry, device):
        return ptx
    text = without_comments(ptx)
    for _ in range(_MOST_UNKNOWN):
        trap = _unknown(text, entry, device)
        if trap is None:
            return text
        listing, said = parse(text), trap.trap.message
        every = [*listing.entries.values(), *listing.functions.values()]
        found = [
            one
            for each in every
            for one in each.body or ()
            if one.line == trap.trap.line and re.match(rf"{re.escape(one.opcode)}[ :]", said)
        ]
        lines = text.splitlines(keepends=True)
        start = sum(map(len, lines[: trap.trap.line - 1]))
        at = text.find(found[0].text, start) if found else -1
        if at < 0:
            break
        one = found[0]
        guard = one.guard
        when = f"@{'!' * guard.negated}{guard.text} " if guard else ""
        moves = []
        for name in _written(one):
            kept = one.scope.find(name)
            if isinstance(kept, Register) and kept.parts == 1:
                moves.append(
                    f"mov.{_MOVED.get(kept.type, kept.type)} {name}, {kept.type == 'pred':d};"
                )
        if not moves:
            # Somewhere to go on to, for a guard in front.
            moves = ["membar.cta;"]
        text = text[:at] + f" {when}".join(moves) + text[at + len(one.text) :]
    return ""


def _unknown(ptx: str, entry: str, device: SimulatedDevice) -> SimulatedTrap | None:
    """Return why the simulated device does not run an entry."""
    try:
        found = device.load(ptx).kernels.get(entry)
    except SimulatedTrap as trap:
        return trap
    return found if isinstance(found, SimulatedTrap) else None


def _written(one: Instruction) -> list[str]:
    """Return the names that stand where an instruction writes registers."""
    if not one.operands:
        return []
    first = one.operands[0]
    if isinstance(first, Pair):
        return [first.first.text, first.second.text]
    parts = first.parts if isinstance(first, Vector | Group) else (first,)
    return [part.text for part in parts if isinstance(part, Name)]


def _sizes(
    ptx: str, setup: Setup, device: SimulatedDevice, unsized: Sequence[str], *, lenient: bool
) -> tuple[Mapping[str, int], Mapping[str, str]]:
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
            said = "a buffer may be too small, or its size cannot be guessed"
            said = f"{said if unsized else 'a buffer may be too small'} ({refused})"
        raise _RefusedError(said, refused.trap.kind)
    if lenient:
        # What was left out may reach further.
        most[:] = np.maximum(2 * most if ran else _UNSEEN_BYTES, 16 * setup.threads)
    sizes, why = {}, {}
    for name, size in zip(setup.buffers, map(int, most), strict=True):
        sizes[name] = max(_LEAST_BYTES, -(-size // 16) * 16)
        reached = f"the kernel touches bytes below {size}" if size else "the kernel touches none"
        if lenient:
            reached = "twice what the instructions touch that the simulated device knows"
            reached = reached if ran else "the simulated device cannot run it"
        least = f"; {_LEAST_BYTES} is the least" if sizes[name] == _LEAST_BYTES > size else ""
        why[name] = reached + least
    return sizes, why
