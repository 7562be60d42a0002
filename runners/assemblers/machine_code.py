"""Reading from a cubin which machine code each kernel has."""

from __future__ import annotations

import hashlib
import re
import struct

# ELF-64 Object File Format, 1.5: the header (figure 2) with its magic, its machine (EM_CUDA of the
# e_machine registry) and its fields for the table of sections, and a section header (figure 7):
# name, type, flags, address, offset, size, link, info, alignment, entry.
_MAGIC = b"\x7fELF"
_MACHINE = slice(18, 20)
_EM_CUDA = 190
HEADER_BYTES = 64
"""Bytes of a cubin that tell that it is one."""
_TABLE_OFFSET = 0x28
_TABLE_SHAPE = 0x3A
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NO_BITS = 8
# What a kernel executes and what it reads besides its parameters, for the kernel of the name behind
# (cuobjdump -elf, 13.0). `.nv.info` also tells which version made it, and is left out.
_PART = re.compile(r"\.(text|nv\.constant\d+|nv\.shared|nv\.local)\.(.+)")


def is_cubin(code: bytes) -> bool:
    """Whether bytes begin with the header of an ELF file for a GPU."""
    machine = int.from_bytes(code[_MACHINE], "little")
    return len(code) >= HEADER_BYTES and code.startswith(_MAGIC) and machine == _EM_CUDA


def kernel_digests(cubin: bytes) -> dict[str, str]:
    """Return a hash of the machine code, constants and shared memory of each kernel, by its name.

    Kernels of two cubins with one hash compute the same: versions differ in much that is never
    executed.

    Raises
    ------
    ValueError
        If the bytes are no ELF file for 64 bits, or are cut off.
    """
    if cubin[:5] != b"\x7fELF\x02":
        raise ValueError("no ELF file of 64 bits")
    try:
        sections = _sections(cubin)
    except struct.error as error:
        raise ValueError(f"a damaged ELF file: {error}") from None
    parts: dict[str, list[bytes]] = {}
    for name, kind, contents in sorted(sections):
        match = _PART.fullmatch(name)
        if match is not None:
            digest = hashlib.sha256(f"{match[1]} {kind} {len(contents)}".encode() + contents)
            parts.setdefault(match[2], []).append(digest.digest())
    return {name: hashlib.sha256(b"".join(each)).hexdigest() for name, each in parts.items()}


def _sections(cubin: bytes) -> list[tuple[str, int, bytes]]:
    """Return name, type and contents of each section; of one without contents, its size."""
    (table,) = struct.unpack_from("<Q", cubin, _TABLE_OFFSET)
    size, count, names_index = struct.unpack_from("<HHH", cubin, _TABLE_SHAPE)
    headers = [_SECTION.unpack_from(cubin, table + size * index) for index in range(count)]
    if names_index >= len(headers):
        raise ValueError("a damaged ELF file: it has no names of sections")
    names_offset, names_size = headers[names_index][4:6]
    names = cubin[names_offset : names_offset + names_size]
    found = []
    for name, kind, _, _, offset, length, *_ in headers:
        text = names[name : names.find(b"\0", name)].decode(errors="replace")
        contents = str(length).encode() if kind == _NO_BITS else cubin[offset : offset + length]
        found.append((text, kind, contents))
    return found
