"""The folder that reproduces a finding: its page, and programs that run its kernel on one image.

`repro.cu` and `repro.py` need nothing of warpfuzz.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from corpus import Entry, Kind, durable
from corpus.finding import EXPECTED, KERNEL, MODULE
from corpus.programs import unpack
from fuzz.explain.document import Block, FactTable
from fuzz.explain.machine_code import BAD, GOOD, asked_by_bisection, machine_code
from fuzz.explain.page import page_of
from fuzz.explain.values import ValueFacts
from fuzz.findings.case import ACTUAL, ORIGINAL, REWRITTEN, by_hand
from fuzz.findings.making import is_runnable, is_value_finding, variant_of
from fuzz.kinds import sentence
from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.disassembly import Disassembler
from runners.cuda.compilation import DEFAULT_LEVEL
from runners.emission import emit_single
from runners.kernels import LANES, Kernel, Launch

_EXECUTABLE = (".py", ".sh")
_NAMES = {
    "kernel.ptx": "the kernel that is run",
    "module.ptx": "the module in which it was found",
    "original.ptx": "the kernel before it was made smaller",
    "input.bin": "memory before",
    "expected.bin": "memory after, as it should be",
    "actual.bin": "memory after, as it was found",
    "repro.json": "how repro.py compiles and launches it",
    "repro.py": "runs it with PyCUDA",
    "repro.cu": "runs it without Python",
    "repro.sh": "assembles it",
    BAD: "machine code that is wrong",
    GOOD: "machine code that is right",
}
"""Files of a folder, and what they are."""
_SCRIPT = """#!/bin/sh
# Assembles the module; PTXAS names the assembler. The exit code is the assembler's own: 0 if it
# accepts the module.
cd "$(dirname "$0")" || exit 3
exec "${{PTXAS:-ptxas}}" -arch={target} {module} -o "${{TMPDIR:-/tmp}}/repro-$$.cubin"
"""
_HERE = Path(__file__).parent


def write_reproduction(
    entry: Entry,
    output: Path,
    *,
    disassembler: Disassembler | None = None,
    bisected: Path | None = None,
) -> tuple[str, ...]:
    """Write the folder of a finding, and return the names of its files in alphabetical order.

    Raises UsageError if the folder holds other files, or the finding nothing to reproduce, and
    InfrastructureError if a file of the finding is broken, or the folder cannot be written.
    """
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output} is a file; name a folder with --output")
    files = reproduction(entry, disassembler=disassembler, bisected=bisected)
    try:
        output.mkdir(parents=True, exist_ok=True)
        others = sorted({path.name for path in output.iterdir()} - files.keys())
        if others:
            raise UsageError(
                f"{output} holds other files ({', '.join(others[:3])}); choose an empty folder "
                "with --output"
            )
        for name, data in files.items():
            path = output / name
            durable.write_output(path, data)
            if path.suffix in _EXECUTABLE:
                path.chmod(0o755)
    except OSError as error:
        what = error.strerror or os.strerror(error.errno or 0)
        raise InfrastructureError(
            f"{output} cannot be written: {what}; choose another folder with --output"
        ) from error
    return tuple(sorted(files))


def reproduction(
    entry: Entry, *, disassembler: Disassembler | None = None, bisected: Path | None = None
) -> dict[str, bytes]:
    """Return the files of a finding's folder, by name.

    `bisected` is a file with what `warpfuzz bisect --json` printed of the finding: what each
    compiler does.
    """
    asked = () if bisected is None else asked_by_bisection(bisected, entry.finding)
    machine: Sequence[Block] = ()
    about = dict(_NAMES)
    files: dict[str, bytes]
    if is_value_finding(entry):
        facts = ValueFacts.of(entry)
        machine, codes = machine_code(facts, disassembler, asked)
        files, here = _of_values(facts)
        files |= codes
        if facts.source is not None:
            about[facts.source.name] = "what the front end was given"
    elif is_runnable(entry):
        files, here = _of_images(entry)
    elif MODULE not in entry.finding.files:
        raise UsageError(
            f"finding {entry.id} has no {MODULE}, so there is nothing to assemble or to run; "
            "choose another finding"
        )
    else:
        script = _SCRIPT.format(target=entry.finding.target, module=MODULE)
        files = {MODULE: entry.read(MODULE), "repro.sh": script.encode()}
        about[MODULE] = "what is assembled"
        command = "PTXAS=/path/to/ptxas sh repro.sh"
        here = [FactTable([("exit code 0 if it is accepted", command)], commands=True)]
    here = [*here, FactTable([(name, about[name]) for name in sorted(files)])]
    page = page_of(entry, machine=machine, asked=asked, here=here)
    return {**files, "README.md": page.markdown().encode()}


def _of_values(facts: ValueFacts) -> tuple[dict[str, bytes], Sequence[Block]]:
    subject, finding = facts.subject, facts.finding
    kernel, ptx = subject.module.kernel(), facts.kernel
    if KERNEL in finding.files and facts.rewritten is None:
        # Its text may be smaller than what is emitted, but it is launched alike.
        kernel = emit_single(subject.program).kernel()
        ptx = facts.entry.read(KERNEL).decode(errors="replace")
    files, built = _programs(
        facts.entry, ptx, kernel, subject.image, facts.expected, copies=subject.copies
    )
    commands = [("needs PyCUDA and NumPy", "python repro.py --ptxas PATH"), *built]
    if facts.actual is not None:
        files["actual.bin"] = facts.actual.tobytes()
    if files["kernel.ptx"] != (module := subject.module.ptx.encode()):
        files["module.ptx"] = module
        commands.append(("the module that the campaign ran", "see module.ptx"))
    if facts.source is not None:
        files[facts.source.name] = facts.source.text.encode()
        commands += [("compiles it again", command) for command in facts.source.commands]
    said = [
        "Exit code 1: some bytes are not as the PTX ISA says (the first are printed); 0: all are."
    ]
    if finding.made.runner == "sim":
        said.append(
            "It was found on a simulated device. Where the fault sits inside that device, and not "
            "in kernel.ptx, a GPU runs it without a difference."
        )
    if finding.kind is Kind.HANG:
        said.append("The kernel did not end: be ready to interrupt it.")
    return files, [FactTable(commands, commands=True), *said]


def _of_images(entry: Entry) -> tuple[dict[str, bytes], Sequence[Block]]:
    (subject, setup), files = by_hand(entry), entry.finding.files
    kernel, ptx = subject.module.kernel(), subject.module.ptx
    rewritten = entry.read(REWRITTEN).decode(errors="replace") if REWRITTEN in files else ptx
    places: tuple[int, ...] = (0, 8, 16)
    how = "one warp"
    if setup is not None:
        grid, block = (" x ".join(map(str, one)) for one in (setup.grid, setup.block))
        how = f"a grid of {grid} blocks of {block} threads"
        kernel = replace(kernel, launch=setup.launch)
        places = tuple(one.offset for one in setup.parameters)
    expected = unpack(entry, EXPECTED)
    made, built = _programs(entry, rewritten, kernel, subject.image, expected, places=places)
    if ACTUAL in files:
        made["actual.bin"] = unpack(entry, ACTUAL).tobytes()
    if rewritten != ptx:
        made[MODULE] = ptx.encode()
    if ORIGINAL in files:
        made[ORIGINAL] = entry.read(ORIGINAL)
    commands = [("needs PyCUDA and NumPy", "python repro.py"), *built]
    launch = f"The entry is {kernel.entry}, launched with {how}."
    return made, (FactTable(commands, commands=True), launch)


# The two programs


def _programs(
    entry: Entry,
    ptx: str,
    kernel: Kernel,
    image: NDArray[np.uint8],
    expected: NDArray[np.uint8],
    *,
    copies: int = 1,
    places: Sequence[int] = (0, 8, 16),
) -> tuple[dict[str, bytes], Sequence[tuple[str, str]]]:
    """Return files that run a kernel as it was built, and commands that build and run `repro.cu`.

    Where the kernel works on several images, a launch is given `copies` of them. `places` are the
    offsets of the entry's parameters; else those of the kernels that `runners.emission` writes.
    """
    finding, variant = entry.finding, variant_of(entry.finding)
    ptx, flags = variant.files("", ptx)[""], tuple(variant.flags)
    level = DEFAULT_LEVEL if finding.made.level is None else finding.made.level
    target = variant.architecture(str(finding.details.get("architecture", finding.target)))
    # images, sms, count: see `runners.kernels.Kernel`.
    launch = kernel.launch or Launch(
        grid=(copies, 1, 1), block=(LANES, 1, 1), shared_bytes=0,
        parameters=bytes(16) + copies.to_bytes(4, "little"), pointers=((0, 0),),
        buffers=((0, image.size),),
    )  # fmt: skip
    case = {
        "entry": kernel.entry,
        "level": level,
        "flags": flags,
        "architecture": target,
        "copies": copies,
        "grid": launch.grid,
        "block": launch.block,
        "shared_bytes": launch.shared_bytes,
        "parameters": launch.parameters.hex(),
        "pointers": launch.pointers,
    }
    built = f"ptxas -arch={target} -O{level} {' '.join(flags)}".strip()
    commands = (
        ("by the driver's compiler", "nvcc -o repro repro.cu -lcuda && ./repro"),
        ("by a ptxas", f"{built} kernel.ptx -o kernel.cubin && ./repro kernel.cubin"),
    )
    said = (sentence(finding), f"Finding {finding.id} of warpfuzz; README.md says more.", "")
    about = [" ".join(line.replace("\\", "/").split()) for line in said]
    about += [f"  {command}       {what}" for what, command in commands]
    places = [place for place in places if place < len(launch.parameters)]
    data = (
        # JSON's strings of plain names are C's.
        f"static const char *const kEntry = {msgspec.json.encode(kernel.entry).decode()};",
        f"static const int kLevel = {level};",
        f"static const size_t kBytes = {image.size}, kPlaces[] = {_braced(places)};",
        f"static const unsigned kCopies = {copies}, kShared = {launch.shared_bytes};",
        f"static const unsigned kGrid[] = {_braced(launch.grid)};",
        f"static const unsigned kBlock[] = {_braced(launch.block)};",
        f"static const unsigned char kParameters[] = {_braced(launch.parameters)};",
        "static const Pointer kPointers[] = "
        f"{_braced(f'{{{place}, {offset}}}' for place, offset in launch.pointers)};",
    )
    text = (_HERE / "standalone.cu").read_text()
    text = text.replace("// @ABOUT@", "\n".join(f"// {line}".rstrip() for line in about))
    text = text.replace("//@DATA@", "\n".join(data))
    files = {
        "expected.bin": expected.tobytes(),
        "input.bin": image.tobytes(),
        "kernel.ptx": ptx.encode(),
        "repro.cu": text.encode(),
        "repro.json": msgspec.json.format(msgspec.json.encode(case), indent=1) + b"\n",
        "repro.py": (_HERE / "standalone.py").read_bytes(),
    }
    return files, commands


def _braced(values: Any) -> str:
    return f"{{{', '.join(map(str, values))}}}"
