"""What a kernel is run on and how it is launched, and the simulated device as the one that knows.

Only what the ISA decides is a reference: no races, nothing unwritten, no clocks, no addresses as
values. A launch is guessed from the text, and whatever is guessed is said.
"""

from __future__ import annotations

import math
import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, product
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fuzz.findings.launches import (
    MOST_SHARED,
    TYPES,
    WITHOUT_ASKING,
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
from oracle.errors import UsageError
from oracle.isa.lookup import INSTRUCTIONS
from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind
from runners.simulated.decoder import DecodedKernel
from runners.simulated.parser import parse
from runners.simulated.scalar import APPROXIMATE
from runners.simulated.syntax import (
    Address,
    ImmediateText,
    InstructionText,
    Name,
    RegisterText,
    VectorText,
)
from strategies.contents.expansion import below, filled

Image = NDArray[np.uint8]

_UNDECIDED = re.compile(
    r"%(?:clock|globaltimer|n?smid|n?warpid|gridid|pm\d|envreg|total_smem_size|aggr_smem_size)\w*"
    r"|\b(?:activemask|elect\.sync)\b|\b(?P<order>(?:atom|red)\b[\w.:]*\.add[\w.:]*\.b?f\d+x?\w*)"
)  # what device or compiler decide (PTX ISA 10, 9.7.13.9, .17), and sums in an open order (9.7.13)
_ROUNDED = re.compile(
    r"(?<![\w.])(add|sub|mul)((?:\.ftz)?(?:\.sat)?\.(?:f16x2|bf16x2|f16|bf16|f32|f64)\b)", re.ASCII
)  # without a rounding a compiler may fuse a product and a sum (PTX ISA 9.7.3.3 to .5)
_VARIABLE = re.compile(
    r"^\s*(?:\.(?:visible|weak|extern)\s+)*\.global\b[^;=\[]*?([\w$%]+)\s*(?=[;=\[])", re.MULTILINE
)
_ELSEWHERE = re.compile(r"(?:ld|ldu|st|bra|call|bar|barrier)\b")
"""Instructions whose constants no result turns on: addresses, and numbers of threads."""
_CONVERTS = re.compile(r"\bcvt\S*(?:\.[su]\d+\.b?f\d|\.b?f\d+\.[su]\d)")
_COMPARED = frozenset({"setp", "set", "mov", "min", "max", "slct"})
"""First words of instructions that compare, or give a register what is compared."""
_NEAR = 8  # constants before and after one that may have been added to it, or shifted it
_FIELDS = (8, 16, 24)
"""Places of bytes and halves in a word, which are taken out of it without a constant."""
_MOST = 1 << 14
_PACKED = {16: "<e", 32: "<f", 64: "<d"}


def rounded(text: str) -> tuple[str, int]:
    """Return a text whose sums and products all name their rounding, and how many did not."""
    return _ROUNDED.subn(r"\1.rn\2", text)


def undecided(text: str) -> str:
    """Say where a text first asks for what the device decides; "" if it nowhere does."""
    found = _UNDECIDED.search(text)
    if found is None:
        return ""
    line = text.count("\n", 0, found.start()) + 1
    what = f"the order of {found[0]}" if found["order"] else found[0]
    return (
        f"line {line}: {what} is what the device or the compiler decides, so that nothing that "
        "follows from it can be compared; take it out"
    )


def forgetting(text: str) -> str:
    """Say which variable in global memory a launch may leave changed; "" if there is none."""
    for found in _VARIABLE.finditer(text):
        if len(re.findall(rf"(?<![\w$%]){re.escape(found[1])}(?![\w$])", text)) > 1:
            return f"a launch may leave {' '.join(found[0].split())} changed to the next one"
    return ""


def approximations(ptx: str, entry: str) -> tuple[str, ...]:
    """Return the opcodes of a kernel of whose results the ISA bounds the error alone."""
    found = re.findall(rf"(?<![\w.]){APPROXIMATE.pattern}[\w.]*", own_text(ptx, entry))
    return tuple(dict.fromkeys(found))


class Expected(NamedTuple):
    """What the simulated device makes of images; the axes are those of the images."""

    image: Image
    approximate: NDArray[np.bool_]
    """Bytes that depend on approximate instructions: what is there is one of several results."""

    def beside(self, actual: Image) -> Image:
        """Return the image with those bytes as they came out, which nobody calls wrong."""
        return np.where(self.approximate, actual, self.image)


class Left(NamedTuple):
    """An image on which the kernel cannot be judged."""

    why: str
    kind: TrapKind | None = None  # what stopped it; None: the kernel does not decide the result


def refused_by(device: SimulatedDevice, ptx: str, entry: str) -> SimulatedTrap | None:
    """Return why the simulated device does not run an entry of a module; None if it does."""
    try:
        found = device.load(ptx).kernels.get(entry)
    except SimulatedTrap as trap:
        return trap
    return found if isinstance(found, SimulatedTrap) else None


@dataclass(kw_only=True)
class Reference:
    """The simulated device as the one that knows."""

    target: str
    most_steps: int | None = None  # of one run; None: as many as any run may take
    steps: int = field(default=0, init=False)  # most that a run took

    def __post_init__(self) -> None:
        self.device = SimulatedDevice(self.target)
        self._other = SimulatedDevice(self.target, otherwise=True)

    def at_most(self, times: int) -> Reference:
        """Return one for smaller kernels: what takes so many times the steps runs for ever."""
        return Reference(target=self.target, most_steps=times * self.steps + 1000)

    def after(self, ptx: str, setup: Setup, image: Image, *, sure: bool = True) -> Expected | Left:
        """Return an image as the kernel leaves it; without `sure` it runs once alone."""
        try:
            found = [
                device.load(ptx).launch_grid(
                    setup.entry, image, setup.launch, most_steps=self.most_steps
                )
                for device in (self.device, self._other)[: 1 + sure]
            ]
        except SimulatedTrap as trap:
            return Left(why=str(trap), kind=trap.trap.kind)
        self.steps = max(self.steps, found[0].steps)
        if not np.array_equal(found[0].image, found[-1].image):
            return Left("it depends on an address, a clock, a lane, or on what nobody wrote")
        return Expected(found[0].image, found[0].approximate)


class Edges(NamedTuple):
    """Words of a type at which results may turn; none of the three is empty."""

    exact: NDArray[np.uint64]
    """What the kernel compares with, or, if it compares with none, all of its constants."""
    near: NDArray[np.uint64]  # one more and one less than any constant
    derived: NDArray[np.uint64]
    """What an instruction of the kernel makes such a constant of, and one more and less."""


def edges_of(ptx: str, setup: Setup) -> Mapping[str, Edges]:
    """Return the edges of an entry by the types of its buffers; none where it cannot be read."""
    text = own_text(ptx, setup.entry)
    try:
        listing = parse(text)
    except SimulatedTrap:
        return {}
    bodies = [each.body or () for each in (*listing.entries.values(), *listing.functions.values())]
    named = [pair for body in bodies for one in body for pair in _named(one)]
    given = [one for one in setup.arguments.values() if not isinstance(one, BufferRow)]
    compared = any(word in _COMPARED for word, _ in named)
    exact = [number for word, number in named if word in _COMPARED or not compared] + given
    every = [number for _, number in named] + given
    derived = islice(_derived(named, compared), _MOST)
    numbers = [list(dict.fromkeys(some)) for some in (exact, every, derived)]
    converts = bool(_CONVERTS.search(text))
    made = {}
    for kind in {row.type for row in setup.buffers.values()}:
        exactly, all_, further = (_words(some, kind, converts) for some in numbers)
        if exactly.size:
            near, beside = _beside(all_, kind), _beside(further, kind)
            made[kind] = Edges(exactly, near, np.append(further, beside) if further.size else near)
    return made


def _named(one: InstructionText) -> Iterator[tuple[str, int | float]]:
    """Iterate over the constants of an instruction, each with its first word."""
    for given in one.operands if not _ELSEWHERE.match(one.opcode) else ():
        if isinstance(given, ImmediateText):
            bits = given.float_bits
            raw = given.value.to_bytes(bits // 8, "little") if bits else b""
            number = struct.unpack(_PACKED[bits], raw)[0] if bits else given.value
            yield one.opcode.partition(".")[0], number


def _derived(named: list[tuple[str, int | float]], compared: bool) -> Iterator[int | float]:
    """Iterate over what becomes a constant, or a compared one, by what is beside it."""
    for at, (compares, number) in enumerate(named):
        if compared and compares not in _COMPARED:
            continue
        yield -number
        if isinstance(number, int):
            yield ~number
            yield from (number << place for place in _FIELDS)
        for word, other in named[max(0, at - _NEAR) : at + _NEAR + 1]:
            if isinstance(number, int) is not isinstance(other, int):
                continue
            if word in ("add", "sub", "mad", "fma"):
                yield from (number - other, number + other)
            if word in ("mul", "mad", "fma", "div") and other:
                by = number // other if isinstance(number, int) else number / other
                yield from (by, number * other)
            if isinstance(number, int) and isinstance(other, int):
                if word in ("shl", "shr", "bfe", "bfi", "shf") and 0 < other < 64:
                    yield from (number << other, number >> other)
                if word in ("xor", "and", "or", "lop3"):
                    yield number ^ other


def _words(numbers: list[int | float], type_: str, converts: bool) -> NDArray[np.uint64]:
    """Return numbers as words of a type; `converts`: integers as floating-point ones, and back."""
    bits = TYPES[type_]
    found = dict[int, None]()
    for number in numbers:
        if isinstance(number, int):
            found[number & (1 << bits) - 1] = None
        elif converts and abs(number) < 2.0**63:
            found[int(number) & (1 << bits) - 1] = None
        if bits > 8 and (converts or isinstance(number, float)):
            try:
                packed = struct.pack(_PACKED[32 if type_ == "bf16" else bits], float(number))
            except OverflowError:
                continue
            found[int.from_bytes(packed, "little") >> (16 if type_ == "bf16" else 0)] = None
    return np.array([one & (1 << bits) - 1 for one in found], np.uint64)


def _beside(words: NDArray[np.uint64], type_: str) -> NDArray[np.uint64]:
    mask = np.uint64((1 << TYPES[type_]) - 1)
    return np.unique(np.append(words - np.uint64(1), words + np.uint64(1)) & mask)


_EDGES = 4
"""One of so many elements of every other image is at an edge of the kernel's own, or is not."""


def image_of(
    setup: Setup, *, seed: int, number: int, edges: Mapping[str, Edges] | None = None
) -> NDArray[np.uint8]:
    """Return an image, uint8 (image_bytes,); of every other one some elements are `edges`."""
    whole = filled("b", 64, setup.image_bytes, seed=seed, image=1 + 4 * number, buffer=0)
    image = np.frombuffer(whole, np.uint8).copy()
    for index, (name, row) in enumerate(setup.buffers.items(), start=1):
        bits, kind = TYPES[row.type], row.type.rstrip("0123456789")
        names = {"seed": seed, "image": number, "buffer": index}
        if row.fill != "drawn":
            numbers = np.arange(-(-row.bytes * 8 // bits)) * (row.fill == "count")
            data = numbers.astype(f"<u{bits // 8}").tobytes()[: row.bytes]
        elif row.below is not None:
            data = below(row.below, bits, row.bytes, **names)
        else:
            data = filled(kind, bits, row.bytes, **names)
        part = image[setup.offsets[name] :][: row.bytes]
        part[:] = np.frombuffer(data, np.uint8)
        found = edges and edges.get(row.type)
        if number % 2 and row.fill == "drawn" and row.below is None and found:
            words = part[: row.bytes * 8 // bits * bits // 8].view(f"<u{bits // 8}")
            draw = np.random.default_rng([seed, number, index])
            # Two inputs at rare constants at once are met where nearly all elements are such.
            often = number % 4 == 3
            chosen = np.flatnonzero((draw.integers(_EDGES, size=words.size) == 0) ^ often)
            turns = draw.integers(4, size=chosen.size)
            last = found.exact if often else found.derived
            offers = (found.exact, found.near, found.derived, last)
            words[chosen] = np.choose(turns, [draw.choice(one, chosen.size) for one in offers])
    return image


# How a kernel is launched

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
_MULTIPLIED = re.compile(r"\bwgmma\.mma_async\.\S*\.(\w+)\s")
"""A multiplication of a warpgroup, and the type of B."""
_AS_LOADED = {"tf32": "f32", "e4m3": "b8", "e5m2": "b8", "popc": "b32"}
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
    """Return how a kernel is launched in blocks of a known shape."""
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
            # What warpgroups multiply rarely fits into less than all that sm_90 has.
            most = MOST_SHARED if "wgmma" in text else WITHOUT_ASKING
            shared = (most - own) // 1024 * 1024
            said.append(
                f"shared = {shared} bytes (there is dynamic shared memory: all that is left)"
            )
    axes = [x * y for x, y in zip(shape_of(grid), shape_of(rows.block), strict=True)]
    threads = max(axes) if along else math.prod(axes)
    arguments: dict[str, Any] = dict(rows.arguments)
    # What is copied as bytes is what is multiplied.
    types = _MULTIPLIED.findall(text)[:1] or ["b32"]
    multiplied = _AS_LOADED.get(types[0], types[0])
    unsized = []
    for parameter, use in _uses(ptx, entry, rows.arguments).items():
        if parameter in arguments or parameter.partition("+")[0] in arguments:
            continue
        if use.is_pointer or (whole and use.type in ("u64", "b64", "s64")):
            arguments[parameter] = BufferRow(bytes=_PROBED_BYTES, type=use.element or multiplied)
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
    """Return what an entry does with each of its parameters, and with the parts of structures."""
    try:
        body = list(parse(ptx).entries[entry].body or ())
    except SimulatedTrap as trap:
        raise UsageError(
            f"the launch cannot be guessed ({trap}); say with --launch FILE how it is launched"
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
