"""Reads from a disassembler which tensor-core instructions a compiler chose."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.processes import run
from runners.cuda.compilation import version_told
from runners.folders import temporary_folder, writing
from runners.toolchains import places
from runners.wheels import HOLDING

(WHEEL,) = HOLDING["nvdisasm"]
"""Distribution that holds an nvdisasm."""
_QUESTION_SECONDS = 20.0
# A cubin of 60 kernels takes 0.6 s (nvdisasm 13.5, 2026-11).
_DEADLINE_SECONDS = 120.0
# ".text.kernel_0:" begins a kernel; an instruction stands behind its address, and perhaps behind a
# predicate: "        /*0090*/              @!P0 HMMA.16816.F32 R4, R8, R10, R4 ;".
_KERNEL = re.compile(r"^\.text\.(\S+):\s*$")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)")
_WHOLE_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(\S.*?)\s*;")
_LABEL = re.compile(r"^(\.L_\w+):\s*$")
# Matrix multiplications of all types, and the loads and moves of matrices (CUDA Binary Utilities,
# Instruction Set Reference, "Hopper": HMMA, IMMA, BMMA, DMMA, LDSM, MOVM; "Blackwell": QMMA, OMMA).
_MATRIX = re.compile(r"(?:[HIBDQO]MMA|LDSM|STSM|MOVM)(?:\.|$)")


@dataclass(frozen=True, kw_only=True)
class Disassembler:
    """An nvdisasm."""

    path: Path
    version: str
    """Version, such as "V13.5.37"."""

    def expansions(self, cubin: bytes) -> dict[str, Counter[str]]:
        """Return how often each matrix instruction stands in each kernel, by the kernel's name.

        Raises
        ------
        InfrastructureError
            If it does not take the cubin: it may be older than what made it, or too new for the
            architecture (nvdisasm 13.5 refuses sm_70 and sm_72).
        """
        return matrix_instructions(self._listing(cubin))

    def instructions(self, cubin: bytes) -> dict[str, list[str]]:
        """Return the instructions of each kernel, without their addresses, by its name.

        Raises as `expansions`.
        """
        return all_instructions(self._listing(cubin))

    def _listing(self, cubin: bytes) -> str:
        with temporary_folder() as folder:
            with writing(folder):
                (folder / "a.cubin").write_bytes(cubin)
            told = run(
                [self.path, "--no-dataflow", "a.cubin"], folder=folder, deadline=_DEADLINE_SECONDS
            )
        if told.exit_code != 0:
            first = told.output.strip().partition("\n")[0][:200]
            raise InfrastructureError(
                f"{self.path} cannot disassemble a cubin ({told.ending}: {first!r}); give "
                f"another release of nvdisasm with --disassembler (`pip install {WHEEL}`)"
            )
        return told.output


def all_instructions(listing: str) -> dict[str, list[str]]:
    """Return the instructions in nvdisasm's listing, by the name of the kernel.

    What a kernel branches to stands before it as a label, and trailing padding is left out.
    """
    found: dict[str, list[str]] = {}
    kernel: list[str] = []
    for line in listing.splitlines():
        start = _KERNEL.match(line)
        label = _LABEL.match(line)
        whole = _WHOLE_INSTRUCTION.match(line)
        if start is not None:
            kernel = found.setdefault(start[1], [])
        elif label is not None:
            kernel.append(f"{label[1]}:")
        elif whole is not None:
            kernel.append(" ".join(whole[1].split()))
    return {name: _without_padding(texts) for name, texts in found.items()}


def _without_padding(texts: list[str]) -> list[str]:
    """Cut what stands behind the last instruction that does something: a jump to itself, NOPs."""
    end = len(texts)
    while end and (texts[end - 1] == "NOP" or texts[end - 1].endswith(":")):
        end -= 1
    return texts[:end]


def matrix_instructions(listing: str) -> dict[str, Counter[str]]:
    """Count the matrix instructions in nvdisasm's listing, by the name of the kernel."""
    found: dict[str, Counter[str]] = {}
    kernel: Counter[str] = Counter()
    for line in listing.splitlines():
        start = _KERNEL.match(line)
        if start is not None:
            kernel = found.setdefault(start[1], Counter())
            continue
        instruction = _INSTRUCTION.match(line)
        if instruction is not None and _MATRIX.match(instruction[1]):
            kernel[instruction[1]] += 1
    return found


def find_disassembler(wanted: Path | None = None) -> Disassembler | None:
    """Return a disassembler: the one that is given, or the first on PATH, in a toolkit or a wheel.

    Returns
    -------
    Disassembler or None
        None where none is given and none is here.

    Raises
    ------
    UsageError
        If the given one is none.
    """
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
        with temporary_folder() as folder:
            told = run([path, "--version"], folder=folder, deadline=_QUESTION_SECONDS)
    except InfrastructureError as error:
        # What it says to do is about assemblers.
        reason = str(error).partition("; ")[0]
        raise UsageError(f"{path} is not a disassembler: {reason}; {advice}") from None
    version = version_told(told.output)
    if told.exit_code != 0 or version is None or "disassembler" not in told.output.lower():
        first = told.output.strip().partition("\n")[0][:80]
        raise UsageError(
            f"{path} is not a disassembler: asked for --version it answered {first!r}; {advice}"
        )
    return Disassembler(path=path, version=f"V{version}")
