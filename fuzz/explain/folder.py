"""Writing the folder that reproduces a finding."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from corpus import Entry, Finding, Kind, durable
from corpus.entry import EXPECTED, KERNEL, MODULE
from corpus.programs import unpack
from fuzz.explain.document import Block, Facts, Paragraph
from fuzz.explain.facts import ValueFacts
from fuzz.explain.machine_code import BAD, GOOD, asked_by_bisection, machine_code
from fuzz.explain.page import page_of
from fuzz.explain.programs import Shown
from fuzz.findings.case import ACTUAL, ORIGINAL, REWRITTEN, by_hand
from fuzz.findings.making import is_runnable, is_value_finding, variant_of
from fuzz.kinds import sentence
from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.disassembly import Disassembler
from runners.cuda.compilation import DEFAULT_LEVEL
from runners.emission import emit_single
from runners.kernels import Kernel

_EXECUTABLE = (".py", ".sh")


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
) -> Mapping[str, bytes]:
    """Return the files of a finding's folder, by name.

    `bisected` is a file with what `warpfuzz bisect --json` printed of the finding: what each
    compiler does.
    """
    asked = () if bisected is None else asked_by_bisection(bisected, entry.finding)
    if is_value_finding(entry):
        facts = ValueFacts.of(entry)
        compilers = machine_code(facts, disassembler, asked)
        files = {**compilers.files, **_of_values(facts)}
        here, machine = [*_again(facts)], compilers.blocks
    elif is_runnable(entry):
        files, launched = _of_images(entry)
        here, machine = [*launched], ()
    else:
        files, machine = dict(_of_module(entry)), ()
        here = [Facts([("exit code 0 if it is accepted", _ASSEMBLE)], commands=True)]
    about = {name: "what the front end was given" for name in files if name not in _NAMES}
    about |= _NAMES if "kernel.ptx" in files else {**_NAMES, MODULE: "what is assembled"}
    about |= {BAD: "machine code that is wrong", GOOD: "machine code that is right"}
    here.append(Facts([(name, about[name]) for name in sorted(about.keys() & files.keys())]))
    page = page_of(entry, machine=machine, asked=asked, here=here)
    return {**files, "README.md": page.markdown().encode()}


_ASSEMBLE = "PTXAS=/path/to/ptxas sh repro.sh"
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
}
"""Files of a folder, and what they are."""


def _again(facts: ValueFacts) -> Iterator[Block]:
    """Yield how the folder of a program is run."""
    shown = _kernel_of(facts)
    commands = [("needs PyCUDA and NumPy", "python repro.py --ptxas PATH"), *shown.commands]
    if shown.ptx != facts.subject.module.ptx:
        commands.append(("the module that the campaign ran", "see module.ptx"))
    if facts.source is not None:
        commands += [("compiles it again", command) for command in facts.source.commands]
    yield Facts(commands, commands=True)
    yield Paragraph(
        "Exit code 1: some bytes are not as the PTX ISA says (the first are printed); 0: all are."
    )
    if facts.finding.made.runner == "sim":
        yield Paragraph(
            "It was found on a simulated device. Where the fault sits inside that device, and not "
            "in kernel.ptx, a GPU runs it without a difference."
        )
    if facts.finding.kind is Kind.HANG:
        yield Paragraph("The kernel did not end: be ready to interrupt it.")


_SCRIPT = """#!/bin/sh
# Assembles the module; PTXAS names the assembler. The exit code is the assembler's own: 0 if it
# accepts the module.
cd "$(dirname "$0")" || exit 3
exec "${{PTXAS:-ptxas}}" -arch={target} {module} -o "${{TMPDIR:-/tmp}}/repro-$$.cubin"
"""


def _of_module(entry: Entry) -> Mapping[str, bytes]:
    finding = entry.finding
    if MODULE not in finding.files:
        raise UsageError(
            f"finding {finding.id} has no {MODULE}, so there is nothing to assemble or to run; "
            "choose another finding"
        )
    module = entry.read(MODULE)
    return {
        MODULE: module,
        "repro.sh": _SCRIPT.format(target=finding.target, module=MODULE).encode(),
    }


def _of_images(entry: Entry) -> tuple[dict[str, bytes], Sequence[Block]]:
    """Return the files of a kernel with images, and how it is launched."""
    (subject, setup), finding, files = by_hand(entry), entry.finding, entry.finding.files
    kernel, ptx = subject.module.kernel(), subject.module.ptx
    rewritten = entry.read(REWRITTEN).decode(errors="replace") if REWRITTEN in files else ptx
    places: tuple[int, ...] = ()
    how = "one warp"
    if setup is not None:
        grid, block = (" x ".join(map(str, one)) for one in (setup.grid, setup.block))
        how = f"a grid of {grid} blocks of {block} threads"
        kernel = replace(kernel, launch=setup.launch)
        places = tuple(one.offset for one in setup.parameters)
    own = {}
    if ACTUAL in files:
        own["actual.bin"] = unpack(entry, ACTUAL).tobytes()
    if rewritten != ptx:
        own[MODULE] = ptx.encode()
    if ORIGINAL in files:
        own[ORIGINAL] = entry.read(ORIGINAL)
    shown = _shown(
        finding, rewritten, kernel, subject.image.tobytes(), unpack(entry, EXPECTED).tobytes(),
        level=finding.made.level,
    )  # fmt: skip
    commands = [("needs PyCUDA and NumPy", "python repro.py"), *shown.commands]
    launch = Paragraph(f"The entry is {kernel.entry}, launched with {how}.")
    return shown.files(places) | own, (Facts(commands, commands=True), launch)


def _shown(
    finding: Finding,
    ptx: str,
    kernel: Kernel,
    image: bytes,
    expected: bytes,
    *,
    level: object,
    copies: int = 1,
) -> Shown:
    variant = variant_of(finding)
    return Shown(
        ptx=variant.files("", ptx)[""],
        kernel=kernel,
        image=image,
        expected=expected,
        about=(sentence(finding), f"Finding {finding.id} of warpfuzz; README.md says more."),
        architecture=variant.architecture(str(finding.details.get("architecture", finding.target))),
        level=level if isinstance(level, int) else DEFAULT_LEVEL,
        flags=tuple(variant.flags),
        copies=copies,
    )


def _kernel_of(facts: ValueFacts) -> Shown:
    """Return the smallest kernel where one shows the finding, else the one that was run."""
    subject, kernel, ptx = facts.subject, facts.subject.module.kernel(), facts.kernel
    if KERNEL in facts.finding.files and facts.rewritten is None:
        # Its text may be smaller than what is emitted, but it is launched alike.
        kernel = emit_single(subject.program).kernel()
        ptx = facts.entry.read(KERNEL).decode(errors="replace")
    return _shown(
        facts.finding, ptx, kernel, subject.image.tobytes(), facts.expected.tobytes(),
        level=facts.level, copies=subject.copies,
    )  # fmt: skip


def _of_values(facts: ValueFacts) -> dict[str, bytes]:
    shown = _kernel_of(facts)
    files = shown.files()
    if facts.actual is not None:
        files["actual.bin"] = facts.actual.tobytes()
    if facts.source is not None:
        files[facts.source.name] = facts.source.text.encode()
    if shown.ptx != facts.subject.module.ptx:
        files["module.ptx"] = facts.subject.module.ptx.encode()
    return files
