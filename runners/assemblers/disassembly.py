"""Machine code: the instructions that a disassembler shows, and what tells kernels apart."""

from __future__ import annotations

import hashlib
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.assembler import asked
from runners.cuda.compilation import version_told
from runners.folders import temporary_folder, writing
from runners.toolchains import HOLDING, places

(WHEEL,) = HOLDING["nvdisasm"]  # distribution that holds an nvdisasm
# A cubin of 60 kernels takes 0.6 s (nvdisasm 13.5, 2026-11).
_DEADLINE_SECONDS = 120.0
# ".text.kernel_0:" begins a kernel; an instruction stands behind its address, and perhaps behind a
# predicate: "        /*0090*/              @!P0 HMMA.16816.F32 R4, R8, R10, R4 ;".
_KERNEL = re.compile(r"^\.text\.(\S+):\s*$")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(\S.*?)\s*;")
_LABEL = re.compile(r"^(\.L_\w+):\s*$")
# ELF-64 Object File Format, 1.5: the header (figure 2) with its magic, its machine (EM_CUDA of the
# e_machine registry) and its fields for the table of sections, and a section header (figure 7):
# name, type, flags, address, offset, size, link, info, alignment, entry.
_TABLE_OFFSET = 0x28
_TABLE_SHAPE = 0x3A
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NO_BITS = 8
# What a kernel executes and what it reads besides its parameters, for the kernel of the name behind
# (cuobjdump -elf, 13.0). `.nv.info` also tells which version made it, and is left out.
_PART = re.compile(r"\.(text|nv\.constant\d+|nv\.shared|nv\.local)\.(.+)")


@dataclass(frozen=True, kw_only=True)
class Disassembler:
    """An nvdisasm."""

    path: Path
    version: str  # version, such as "V13.5.37"

    def instructions(self, cubin: bytes) -> dict[str, list[str]]:
        """Return the instructions of each kernel by its name; InfrastructureError if it refuses."""
        return all_instructions(self._listing(cubin))

    def _listing(self, cubin: bytes) -> str:
        with temporary_folder() as folder:
            with writing(folder):
                (folder / "a.cubin").write_bytes(cubin)
            told = asked(
                self.path, "--no-dataflow", "a.cubin", folder=folder, deadline=_DEADLINE_SECONDS
            )
        if told.status != 0:
            first = told.text.strip().partition("\n")[0][:200]
            raise InfrastructureError(
                f"{self.path} cannot disassemble a cubin ({told.ending}: {first!r}); give "
                f"another release of nvdisasm with --disassembler (`pip install {WHEEL}`)"
            )
        return told.text


def all_instructions(listing: str) -> dict[str, list[str]]:
    """Return instructions and labels in nvdisasm's listing by kernels' names, without padding."""
    found: dict[str, list[str]] = {}
    kernel: list[str] = []
    for line in listing.splitlines():
        if (start := _KERNEL.match(line)) is not None:
            kernel = found.setdefault(start[1], [])
        elif (label := _LABEL.match(line)) is not None:
            kernel.append(f"{label[1]}:")
        elif (whole := _INSTRUCTION.match(line)) is not None:
            kernel.append(" ".join(whole[1].split()))
    for texts in found.values():
        while texts and (texts[-1] == "NOP" or texts[-1].endswith(":")):
            del texts[-1]
    return found


def find_disassembler(wanted: Path | None = None) -> Disassembler | None:
    """Return the one that is given (UsageError if it is none), else one that is here, or None."""
    if wanted is not None:
        return _identified(wanted.expanduser())
    for path, _ in places("nvdisasm"):
        if path.is_file() and os.access(path, os.X_OK):
            try:
                return _identified(path)
            except UsageError:
                continue
    return None


def _identified(path: Path) -> Disassembler:
    advice = f"install one with `pip install {WHEEL}`, or give the path of an nvdisasm"
    if not path.is_file():
        raise UsageError(f"there is no file {path}; {advice}")
    path = path.absolute()
    try:
        told = asked(path, "--version")
    except InfrastructureError as error:
        # What it says to do is about assemblers.
        reason = str(error).partition("; ")[0]
        raise UsageError(f"{path} is not a disassembler: {reason}; {advice}") from None
    version = version_told(told.text)
    if told.status != 0 or version is None or "disassembler" not in told.text.lower():
        first = told.text.strip().partition("\n")[0][:80]
        raise UsageError(
            f"{path} is not a disassembler: asked for --version it answered {first!r}; {advice}"
        )
    return Disassembler(path=path, version=f"V{version}")


def kernel_digests(cubin: bytes) -> dict[str, str]:
    """Return a hash of code, constants and shared memory of each kernel, by its name.

    Kernels with one hash compute the same. Raises ValueError if the bytes are no ELF file.
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
