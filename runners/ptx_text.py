"""PTX as text from anywhere: directives, entries, what tells kernels apart (not for the device)."""

from __future__ import annotations

import hashlib
import re
from itertools import pairwise
from typing import NamedTuple

from oracle.errors import UsageError
from oracle.isa.legality import directives, without_comments
from oracle.isa.targets import PtxVersion

_TARGET = re.compile(r"^(\s*\.target\s+)sm_\w+", re.MULTILINE)
_VERSION = re.compile(r"^(\s*\.version\s+)\d+\.\d+", re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([a-zA-Z][\w$]*|[_$%][\w$]+)", re.ASCII)
"""A kernel and its name (PTX ISA 4.4, identifiers)."""
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_KERNEL = re.compile(
    r"^(?:[ \t]*//[^\n]*\n)*[ \t]*(?:\.visible|\.weak|\.extern)?[ \t]*\.entry[ \t]+([\w$]+)",
    re.MULTILINE,
)
"""The line of a kernel, with the comments in front of it."""
_VARIABLE = re.compile(r"([A-Za-z_$][\w$]*)\s*(?:\[[^\]]*\]\s*)*(?:=|;)")
_LABEL = re.compile(r"\$L_*|\bL(?=BB\d)")
"""What the names of labels of LLVM begin with: "LBB0_1" in 14, "$L__BB0_1" from 15 on."""
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
CUBIN_HEADER_BYTES, _EM_CUDA = 64, 190
"""Bytes of a cubin that tell that it is one, and its machine (ELF-64 Object File Format, 1.5)."""

_REGISTER = re.compile(r"%\w+")
_INSTRUCTION = re.compile(r"\s*(?:(@!?%\w+)\s+)?([a-z][\w.:]*)\s*(.*);")
_NO_RESULT = ("bra", "bar.")
_LISTED = re.compile(r"^Fatbin (ptx|elf) code:\n=+\n(.*?)(?=^Fatbin |\Z)", re.MULTILINE | re.DOTALL)
"""A part of what cuobjdump prints of a program: PTX, or the facts about machine code."""


def is_listing(text: str) -> bool:
    """Whether a text is what `cuobjdump --dump-ptx` prints of a program, and no module."""
    return _LISTED.search(text) is not None


def module_in(text: str, name: str) -> str:
    """Return the PTX module of cuobjdump's listing, its lines in place; UsageError if not one."""
    found = [part for part in _LISTED.finditer(text) if part[1] == "ptx"]
    if len(found) != 1:
        targets = ", ".join(header(part[2])[0] or "no target" for part in found)
        raise UsageError(
            f"{name} is a listing of cuobjdump with {len(found)} PTX modules"
            f"{f' ({targets})' if found else ', and machine code alone'}; build it with one (nvcc "
            "-gencode arch=compute_90,code=compute_90), or save one of them as a file of its own "
            "(cuobjdump --extract-ptx all)"
        )
    start = text.find(".version", found[0].start(2))
    return "\n" * text.count("\n", 0, start) + text[start : found[0].end()]


def is_cubin(code: bytes) -> bool:
    """Whether bytes begin with the header of an ELF file for a GPU."""
    machine = int.from_bytes(code[18:20], "little")
    return len(code) >= CUBIN_HEADER_BYTES and code.startswith(b"\x7fELF") and machine == _EM_CUDA


def is_ptx(code: bytes) -> bool:
    """Whether what an assembler wrote is PTX: it begins with a comment or the version."""
    return code.lstrip().startswith((b"//", b".version"))


def opening(target: str, version: str) -> str:
    """Return the three directives that open a module."""
    return f".version {version}\n.target {target}\n.address_size 64\n"


def header(ptx: str) -> tuple[str, str]:
    """Return the values of `.target` and `.version` of a module; "" where it has none."""
    target, version = directives(without_comments(ptx))
    return target or "", version or ""


def with_header(ptx: str, *, target: str, version: PtxVersion | str) -> str:
    """Return a module with another `.target` and `.version`."""
    text = _VERSION.sub(rf"\g<1>{version}", ptx, count=1)
    return _TARGET.sub(rf"\g<1>{target}", text, count=1)


def kernel_name(ptx: str) -> str | None:
    """Return the name of a module's first kernel; what comments and strings say is none."""
    found = _ENTRY.search(without_comments(ptx))
    return None if found is None else found[1]


def kernel_texts(ptx: str) -> tuple[str, dict[str, str]]:
    """Return what stands before a module's kernels, and each with its comments, by its name."""
    found = list(_KERNEL.finditer(ptx))
    starts = [*(one.start() for one in found), len(ptx)]
    texts = {
        one[1]: ptx[start:end] for one, (start, end) in zip(found, pairwise(starts), strict=True)
    }
    return ptx[: starts[0]], texts


def without_kernel(ptx: str, entry: str) -> str:
    """Return a module without one of its kernels."""
    head, texts = kernel_texts(ptx)
    return head + "".join(text for name, text in texts.items() if name != entry)


def with_kernel_of(ptx: str, other: str, entry: str) -> str:
    """Return a module with a kernel as another module has it, in place of its own of that name."""
    head, texts = kernel_texts(ptx)
    return head + "".join({**texts, entry: kernel_texts(other)[1][entry]}.values())


def entry_text(ptx: str, entry: str) -> str:
    """Return the text of an entry of a module; "" where it has none of this name."""
    return kernel_texts(ptx)[1].get(entry, "")


def ptx_digests(ptx: str) -> dict[str, str]:
    """Return a hash of each entry and what it names, without comments, spaces, labels' spelling."""
    text = _COMMENT.sub("", ptx)
    head, texts = kernel_texts(text)
    digests = {}
    for name, body in texts.items():
        named = set(_WORD.findall(body))
        # Functions have lines of their own; with one in the module, all of the head counts.
        whole = ".func" in head or ".func" in body
        parts = [
            line
            for line in head.splitlines()
            if whole or any(name in named for name in _VARIABLE.findall(line))
        ]
        words = _LABEL.sub("L", " ".join(" ".join([*parts, body]).split()))
        digests[name] = hashlib.sha256(words.encode()).hexdigest()
    return digests


class KernelLine(NamedTuple):
    """A line of a kernel: an instruction, or a label with no opcode."""

    text: str
    guard: str = ""
    opcode: str = ""
    operands: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> KernelLine:
        """Take a line of PTX apart."""
        found = _INSTRUCTION.fullmatch(text)
        if found is None:
            return cls(text)
        guard, opcode, rest = found.groups()
        # Commas divide them; what is inside of braces and brackets stays together.
        operands = re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|[^,{\[])+", rest)
        return cls(text, guard or "", opcode, tuple(one.strip() for one in operands))

    @property
    def writes(self) -> tuple[str, ...]:
        """Registers that it writes, in the order of the operand; a store's first is an address."""
        if not self.operands or self.operands[0][0] == "[" or self.opcode.startswith(_NO_RESULT):
            return ()
        return tuple(_REGISTER.findall(self.operands[0]))

    @property
    def reads(self) -> tuple[str, ...]:
        """Registers that it reads, its guard's first."""
        read = self.operands[1 if self.writes else 0 :]
        return tuple(_REGISTER.findall(" ".join((self.guard, *read))))
