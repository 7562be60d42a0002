"""How a kernel with parameters of its own is launched, as a TOML file says it (docs/judge.md).

An image is all buffers behind each other, with bytes around each that are nobody's.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from corpus.finding import explain
from oracle.errors import UsageError
from oracle.given_files import parse_toml, toml_of
from oracle.isa.legality import without_comments
from runners.kernels import Kernel, KernelModule, Launch
from runners.ptx_text import header

_ALIGNMENT = 256
"""Bytes: what cudaMalloc aligns to (CUDA C++ Programming Guide, Device Memory Accesses)."""
MOST_BYTES = 64 << 20  # most bytes of an image, and of a buffer
_LARGEST_BLOCK, _LARGEST_GRID = 1024, 1 << 16
"""Threads of a block (CUDA C++ Programming Guide), and blocks that the simulated device runs."""
MOST_SHARED, WITHOUT_ASKING = 227 << 10, 48 << 10
"""Shared memory of a block, in bytes: on any target, and without asking the driver for more (the
same tables)."""
_MOST_PARAMETERS = 32764
"""Bytes of a kernel's parameters (PTX ISA 5.1.6.1, Kernel Function Parameters)."""
_WIDTHS = {"b": (8, 16, 32, 64), "u": (8, 16, 32, 64), "s": (8, 16, 32, 64), "f": (16, 32, 64)}
TYPES = {f"{kind}{bits}": bits for kind, every in _WIDTHS.items() for bits in every} | {"bf16": 16}
"""Bits of the elements of buffers and of numbers, by their types."""

_Type = Annotated[str, Meta(pattern=rf"^(?:{'|'.join(TYPES)})\Z")]
_Extent = Annotated[int, Meta(ge=1, le=_LARGEST_GRID)]
_Shape = _Extent | Annotated[tuple[_Extent, ...], Meta(min_length=1, max_length=3)]


class BufferRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A buffer, and how it is filled."""

    bytes: Annotated[int, Meta(ge=1, le=MOST_BYTES)]
    type: _Type = "b32"
    """Of the elements; for a type `b` both integers and floating-point numbers are drawn."""
    fill: Literal["drawn", "zeros", "count"] = "drawn"
    below: Annotated[int, Meta(ge=1, le=(1 << 63) - 1)] | None = None  # integers from 0 up to this


class LaunchRows(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A launch as far as a file says it."""

    entry: str | None = None
    grid: _Shape | None = None
    block: _Shape | None = None
    shared: Annotated[int, Meta(ge=0, le=MOST_SHARED)] | None = None
    arguments: dict[str, int | float | BufferRow] = {}


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A formal parameter of an entry."""

    name: str
    type: str
    offset: int  # bytes from the start of all parameters
    size: int  # bytes


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How an entry is launched, whole."""

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    parameters: tuple[Parameter, ...]
    arguments: Mapping[str, int | float | BufferRow]

    @cached_property
    def buffers(self) -> Mapping[str, BufferRow]:
        """The buffers by their arguments."""
        return {name: row for name, row in self.arguments.items() if isinstance(row, BufferRow)}

    @cached_property
    def offsets(self) -> Mapping[str, int]:
        """Where in the image each buffer lies, by its argument."""
        found, end = {}, _ALIGNMENT
        for name, row in self.buffers.items():
            found[name] = end
            end = (-(-(end + row.bytes) // _ALIGNMENT) + 1) * _ALIGNMENT
        return found

    @property
    def image_bytes(self) -> int:
        """Bytes of an image."""
        ends = [self.offsets[name] + row.bytes for name, row in self.buffers.items()]
        return -(-max(ends, default=0) // _ALIGNMENT) * _ALIGNMENT + _ALIGNMENT

    @property
    def threads(self) -> int:
        """Threads of the launch."""
        return math.prod(self.grid) * math.prod(self.block)

    @cached_property
    def launch(self) -> Launch:
        """As runners take it."""
        block = bytearray(max((one.offset + one.size for one in self.parameters), default=0))
        placed = [(*self._place(name), name, value) for name, value in self.arguments.items()]
        # Of two that overlap in a structure, the one that begins later is what was meant there.
        placed.sort(key=lambda one: one[0])
        for place, type_, name, value in placed:
            if not isinstance(value, BufferRow):
                raw = _raw(name, type_, value)
                block[place : place + len(raw)] = raw
        return Launch(
            grid=self.grid,
            block=self.block,
            shared_bytes=self.shared,
            parameters=bytes(block),
            pointers=tuple(
                (place, self.offsets[name]) for place, _, name, _ in placed if name in self.buffers
            ),
            buffers=tuple((self.offsets[name], row.bytes) for name, row in self.buffers.items()),
        )

    def _place(self, name: str) -> tuple[int, str]:
        """Return where an argument lies among the parameters, and the type of a number there."""
        stem, _, inside = name.partition("+")
        found = next((one for one in self.parameters if one.name == stem), None)
        if found is None or (inside and not inside.isdecimal()):
            names = ", ".join(one.name for one in self.parameters) or "none"
            raise UsageError(f"the entry {self.entry} has no parameter {name}; it has {names}")
        at, extent = int(inside or 0), 8 if name in self.buffers else 1
        if at + extent > found.size:
            raise UsageError(f"{stem} has {found.size} bytes, and {name} needs {at + extent}")
        if not inside and found.size == TYPES.get(found.type, 0) // 8:
            return found.offset, found.type
        # Inside a structure, numbers have what is left of it, of eight, four, two or one bytes.
        bits = next(bits for bits in (64, 32, 16, 8) if 8 * (found.size - at) >= bits)
        return found.offset + at, f"u{bits}"

    @property
    def toml(self) -> str:
        """The file that says so."""
        names = ("entry", "grid", "block", "shared")
        lines = [f"{name} = {toml_of(getattr(self, name))}" for name in names]
        lines += ["", "[arguments]"]
        for name, value in self.arguments.items():
            said: Any = value
            if isinstance(value, BufferRow):
                said = {"bytes": value.bytes, "type": value.type}
                said |= {} if value.fill == "drawn" else {"fill": value.fill}
                said |= {} if value.below is None else {"below": value.below}
            lines.append(f"{toml_of(name)} = {toml_of(said)}")
        return "\n".join(lines) + "\n"

    def module(self, ptx: str) -> KernelModule:
        """Return a module of this text with this kernel."""
        target, version = header(ptx)
        kernel = Kernel(entry=self.entry, image_bytes=self.image_bytes, launch=self.launch)
        return KernelModule(ptx=ptx, target=target, version=version, kernels=(kernel,))


def _raw(name: str, type_: str, value: int | float) -> bytes:
    """Return a number as a parameter of a type holds it."""
    bits = TYPES[type_]
    if type_.startswith("f") and bits >= 32:
        return struct.pack("<f" if bits == 32 else "<d", value)
    if not isinstance(value, int) or not -(1 << (bits - 1)) <= value < 1 << bits:
        raise UsageError(f"argument {name} is a .{type_}, and {value} is no integer of {bits} bits")
    return (value & ((1 << bits) - 1)).to_bytes(bits // 8, "little")


def parse_launch(data: bytes, name: str) -> LaunchRows:
    """Return what a launch file says; UsageError if it says something that no launch has."""
    try:
        return msgspec.convert(parse_toml(data, name), LaunchRows)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{name}: {explain(error)}; a launch has entry, grid, block, shared and arguments, "
            'each a number, or a buffer as { bytes = 1024, type = "f32" }'
        ) from error


def setup_of(ptx: str, rows: LaunchRows) -> Setup:
    """Return how a module's entry is launched; UsageError if a file does not say that."""
    entry = entry_of(ptx, rows.entry)
    parameters = parameters_of(ptx, entry)
    stems = {name.partition("+")[0] for name in rows.arguments}
    missing = [one.name for one in parameters if one.name not in stems]
    missing += [f"its {name}" for name in ("block", "grid") if getattr(rows, name) is None]
    if missing:
        raise UsageError(f"the launch of {entry} says nothing of {', '.join(missing)}")
    found = Setup(
        entry=entry,
        grid=shape_of(rows.grid),
        block=shape_of(rows.block),
        shared=rows.shared or 0,
        parameters=parameters,
        arguments=rows.arguments,
    )
    threads, blocks = math.prod(found.block), math.prod(found.grid)
    if threads > _LARGEST_BLOCK or blocks > _LARGEST_GRID or found.image_bytes > MOST_BYTES:
        raise UsageError(
            f"{blocks} blocks of {threads} threads, {found.image_bytes} bytes: too many"
        )
    found.launch  # noqa: B018 - what does not fit is said here
    return found


def shape_of(given: int | tuple[int, ...] | None) -> tuple[int, int, int]:
    """Return the three extents of a grid or a block, one of which may stand for it."""
    x, y, z = (*((given,) if isinstance(given, int) else given or ()), 1, 1, 1)[:3]
    return x, y, z


_ENTRY = re.compile(r"\.entry\s+([\w$%]+)\s*(?:\(([^)]*)\))?([^{]*)\{", re.ASCII)
_BRACE = re.compile(r"[{}]")
_BODY = re.compile(
    r"\.entry\s+([\w$%]+)[^{;]*\{|\.func\s+(?:\([^)]*\)\s*)?([\w$%]+)[^{;]*\{", re.ASCII
)  # the head of an entry or a function that has a body, and its name
_NAME = re.compile(r"[\w$%]+", re.ASCII)
_PARAMETER = re.compile(
    r"\s*\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\b[^,]*?\s)?([\w$%]+)"
    r"\s*(?:\[\s*(\d+)\s*\])?\s*",
    re.ASCII,
)


def entries_of(ptx: str) -> Mapping[str, re.Match[str]]:
    """Return the entries with a body by their names: groups 2 and 3 are what is behind the name."""
    return {found[1]: found for found in _ENTRY.finditer(without_comments(ptx))}


def entry_of(ptx: str, wanted: str | None) -> str:
    """Return the entry of a name, or the only one; UsageError if there is none such."""
    entries = entries_of(ptx)
    if wanted in entries:
        return str(wanted)
    if wanted is None and len(entries) == 1:
        return next(iter(entries))
    names = ", ".join(entries) or "none"
    asked = "names no entry" if wanted is None else f"asks for the entry {wanted}"
    raise UsageError(f"the launch {asked}, and the module has {names}; name one")


def own_text(ptx: str, entry: str) -> str:
    """Return a module `without_comments` and without what an entry does not call, on its lines."""
    text = without_comments(ptx)
    bodies, place = [], 0
    while head := _BODY.search(text, place):
        depth, place = 1, head.end()
        while depth and (brace := _BRACE.search(text, place)):
            depth, place = depth + (1 if brace[0] == "{" else -1), brace.end()
        bodies.append((head[1] or head[2], head.start(), place))
    wanted, called = set[str](), {entry}
    while called:
        wanted |= called
        inside = (text[start:end] for name, start, end in bodies if name in called)
        called = {word for each in inside for word in _NAME.findall(each)} - wanted
    for name, start, end in bodies:
        if name not in wanted:
            gone = "".join("\n" if sign == "\n" else " " for sign in text[start:end])
            text = text[:start] + gone + text[end:]
    return text


def parameters_of(ptx: str, entry: str) -> tuple[Parameter, ...]:
    """Return the formal parameters of an entry, as they lie in memory (PTX ISA 7.1.1)."""
    found, end = [], 0
    for text in filter(str.strip, (entries_of(ptx)[entry][2] or "").split(",")):
        match = _PARAMETER.fullmatch(text)
        if match is None or match[2] not in TYPES:
            raise UsageError(f"the parameter {text.strip()!r:.80} of {entry} is not understood")
        each = TYPES[match[2]] // 8
        alignment = max(each, int(match[1] or 1))
        end = -(-end // alignment) * alignment
        size = each * int(match[4] or 1)
        found.append(Parameter(name=match[3], type=match[2], offset=end, size=size))
        end += size
    if end > _MOST_PARAMETERS:
        raise UsageError(
            f"the parameters of {entry} have {end:,} bytes; {_MOST_PARAMETERS:,} are the most"
        )
    return tuple(found)
