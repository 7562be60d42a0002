"""The folder that reproduces a finding; `repro.cu` and `repro.py` need nothing of warpfuzz."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from corpus import Entry, Finding, Kind, durable
from corpus.finding import EXPECTED, KERNEL, MODULE
from corpus.programs import unpack
from fuzz.explain.document import Block, FactTable, Heading, markdown_of
from fuzz.explain.page import page_of
from fuzz.explain.way import ValueFacts
from fuzz.findings.case import (
    ACTUAL,
    ORIGINAL,
    REWRITTEN,
    by_hand,
    is_runnable,
    is_value_finding,
    variant_of,
)
from fuzz.findings.families import Asked, asked_of
from fuzz.kinds import sentence
from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.disassembly import WHEEL, Disassembler
from runners.compilers import discover_assemblers
from runners.cuda.compilation import DEFAULT_LEVEL
from runners.emission import emit_single
from runners.kernels import LANES, Kernel, KernelModule, Launch
from runners.protocol import Failure
from runners.variants import split_variant

_RIGHT = "match"
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
}  # files of a folder, and what they are
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

    UsageError: it holds other files, or nothing is to reproduce. InfrastructureError: the disk.
    """
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output} is a file; name a folder with --output")
    files = reproduction(entry, disassembler=disassembler, bisected=bisected)
    with durable.explained("write", output):
        output.mkdir(parents=True, exist_ok=True)
        others = sorted({path.name for path in output.iterdir()} - files.keys())
        if others:
            raise UsageError(f"{output} holds other files; choose an empty --output")
        for name, data in files.items():
            path = output / name
            durable.write_output(path, data)
            if path.suffix in _EXECUTABLE:
                path.chmod(0o755)
    return tuple(sorted(files))


def reproduction(
    entry: Entry, *, disassembler: Disassembler | None = None, bisected: Path | None = None
) -> dict[str, bytes]:
    """Return the files of a finding's folder by name; `bisected`: what `bisect --json` printed."""
    asked = () if bisected is None else asked_by_bisection(bisected, entry.finding)
    machine: Sequence[Block] = ()
    about = dict(_NAMES)
    files: dict[str, bytes]
    if is_value_finding(entry):
        facts = ValueFacts.of(entry)
        machine = machine_code(facts, disassembler, asked)
        files, here = _of_values(facts)
        if facts.source is not None:
            about[facts.source.name] = "what the front end was given"
    elif is_runnable(entry):
        files, here = _of_images(entry)
    elif MODULE not in entry.finding.files:
        raise UsageError(f"finding {entry.id} has no {MODULE}; choose another finding")
    else:
        script = _SCRIPT.format(target=entry.finding.target, module=MODULE)
        files = {MODULE: entry.read(MODULE), "repro.sh": script.encode()}
        about[MODULE] = "what is assembled"
        command = "PTXAS=/path/to/ptxas sh repro.sh"
        here = [FactTable([("exit code 0 if it is accepted", command)], commands=True)]
    here = [*here, FactTable([(name, about[name]) for name in sorted(files)])]
    page = page_of(entry, machine=machine, asked=asked, here=here)
    return {**files, "README.md": markdown_of(page).encode()}


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


# What compilers make of a finding's kernel: a binary that comes out right and one that comes out
# wrong are built again by the assemblers that are here, and disassembled


class _Bisected(msgspec.Struct):
    id: str
    levels: list[dict[str, Any]]


def asked_by_bisection(path: Path, finding: Finding) -> tuple[Asked, ...]:
    """Return what each ptxas did, from what `bisect --json` printed; UsageError: it has no such."""
    wanted = f"what `warpfuzz bisect {finding.id} --json` prints; write that to a file and name it"
    try:
        lines = filter(str.strip, path.read_text(encoding="utf-8").splitlines())
        rows = [msgspec.json.decode(line, type=dict[str, Any]) for line in lines]
        given = next((row["bisect"] for row in rows if "bisect" in row), None)
        if given is None:
            raise UsageError(
                f'{path} has no line that begins with {{"bisect": …}}, and is not {wanted}'
            )
        told = msgspec.convert(given, _Bisected)
        if told.id != finding.id:
            raise UsageError(f"{path} holds answers about {told.id}, and this is {finding.id}")
        return tuple(
            Asked(
                version=version,
                level=one["level"],
                outcome=cell["outcome"] if cell["bad"] else _RIGHT,
            )
            for one in told.levels
            for version, cell in one["versions"].items()
            if cell.get("reason") is None
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} cannot be read as {wanted} ({error!s:.200})") from None


def pair_of(asked: Sequence[Asked]) -> tuple[Asked, Asked] | None:
    """Return a compiler that is wrong and one that is right, as near to each other as there are."""
    versions = list(dict.fromkeys(one.version for one in asked))

    def distance(pair: tuple[Asked, Asked]) -> tuple[bool, int, int]:
        bad, good = pair
        apart = abs(versions.index(bad.version) - versions.index(good.version))
        return bad.level != good.level, apart + abs(bad.level - good.level), -bad.level

    goods = [one for one in asked if not one.wrong]
    pairs = ((bad, good) for bad in asked if bad.wrong for good in goods)
    return min(pairs, key=distance, default=None)


def machine_code(
    facts: ValueFacts, disassembler: Disassembler | None, asked: Sequence[Asked] = ()
) -> Sequence[Block]:
    """Return the part of a page about the first machine instruction that differs of two builds."""
    told = tuple(asked) or asked_of(facts.finding, "ptxas")
    if not told and not str(facts.finding.details.get("compiler", "")).startswith("ptxas"):
        return ()
    heading = Heading("Where the machine code parts")
    if disassembler is None:
        return heading, f"No nvdisasm is here: pip install {WHEEL}, and write the folder again."
    try:
        pair = pair_of(told)
        if pair is None:
            raise UsageError("of the compilers that were asked none is right, or none is wrong")
        codes = [_instructions(facts, one, disassembler) for one in pair]
    except (UsageError, InfrastructureError) as error:
        return heading, f"It is not shown: {error}."
    for number, both in enumerate(zip_longest(*codes, fillvalue="none"), 1):
        if both[0] != both[1]:
            by = f"by nvdisasm {disassembler.version}"
            rows = [
                (f"{word}, {one.name}", code)
                for word, one, code in zip(("wrong", "right"), pair, both, strict=True)
            ]
            said = f"Instruction {number} is the first that differs, {by}."
            return heading, said, FactTable(rows)
    return heading, "Both are the same, instruction for instruction."


def _instructions(facts: ValueFacts, asked: Asked, disassembler: Disassembler) -> Sequence[str]:
    module, version = facts.subject.module, asked.version
    name, variant = split_variant(version)
    here = (one for one in discover_assemblers().assemblers if one.version == name)
    if (assembler := next(here, None)) is None:
        raise UsageError(f"ptxas {version} is not here; fetch it with `compilers fetch`")
    text = KernelModule(
        ptx=facts.kernel, target=module.target, version=module.version, kernels=module.kernels
    )
    target = str(facts.finding.details.get("architecture", facts.finding.target))
    made = assembler.having(variant).compiler(asked.level).compile(text, target)
    if isinstance(made, Failure):
        raise InfrastructureError(f"{asked.name} does not compile it here: {made.line}")
    entry = module.kernels[0].entry
    instructions = disassembler.instructions(made.code).get(entry)
    if not instructions:
        raise InfrastructureError(f"nvdisasm shows no instruction of {entry}")
    return instructions
