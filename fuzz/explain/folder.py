"""Writing the folder that reproduces a finding."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from corpus import Entry, Finding, durable
from corpus.programs import unpack
from fuzz.explain.facts import ValueFacts
from fuzz.explain.machine_code import MachineCode, asked_by_bisection, machine_code
from fuzz.explain.markdown import instruction_page, value_page
from fuzz.explain.programs import Shown
from fuzz.findings.case import ACTUAL, MODULE, ORIGINAL, REWRITTEN, is_runnable, is_value_finding
from fuzz.findings.making import variant_of
from fuzz.findings.probes import HandProbe
from fuzz.kinds import sentence
from fuzz.output import harmless
from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.disassembly import Disassembler
from runners.cuda.compilation import DEFAULT_LEVEL
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
    if is_value_finding(entry):
        asked = () if bisected is None else asked_by_bisection(bisected, entry.finding)
        facts = ValueFacts.of(entry)
        return _of_values(facts, machine_code(facts, disassembler, asked))
    return _of_images(entry) if is_runnable(entry) else _of_module(entry)


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
        "README.md": instruction_page(finding, module.decode(errors="replace")).encode(),
        MODULE: module,
        "repro.sh": _SCRIPT.format(target=finding.target, module=MODULE).encode(),
    }


_BY_HAND = """\
A person wrote this case: a kernel, the memory before it and the memory that it has to leave. It is
a {kind} where the memory afterwards is another one."""
_JUDGED = """\
A user gave a kernel to be judged; this was found in it, and the kernel was made smaller.

{said}"""
_IMAGES = """# {title}

{about}

```sh
python repro.py                 # needs PyCUDA and NumPy; --help has its options
nvcc -o repro repro.cu -lcuda && ./repro
```

`kernel.ptx` is for {target}; the entry that is run is `{entry}`, with {how}
on one image of {size:,} bytes. `input.bin` is that image before it, and `expected.bin`
what it should be after it.
"""


def _of_images(entry: Entry) -> Mapping[str, bytes]:
    probe, finding, files = HandProbe(entry), entry.finding, entry.finding.files
    kernel, ptx, setup = probe.module.kernel(), probe.module.ptx, probe.setup
    rewritten = entry.read(REWRITTEN).decode(errors="replace") if REWRITTEN in files else ptx
    how, places = "one warp", tuple[int, ...]()
    if setup is not None:
        kernel = replace(kernel, launch=setup.launch)
        places = tuple(one.offset for one in setup.parameters)
        how = f"a grid of {_extents(setup.grid)} blocks of {_extents(setup.block)} threads"
    judged = "referee" in finding.details
    about = _JUDGED.format(said=_said(entry)) if judged else _BY_HAND.format(kind=finding.kind)
    page = _IMAGES.format(
        title=harmless(sentence(finding), one_line=True), about=about, target=finding.target,
        entry=kernel.entry, how=how, size=kernel.image_bytes,
    )  # fmt: skip
    own = {}
    if ACTUAL in files:
        own["actual.bin"] = unpack(entry, ACTUAL).tobytes()
        page += "`actual.bin` is what came out.\n"
    if rewritten != ptx:
        own[MODULE] = ptx.encode()
        page += f"`kernel.ptx` is what ran; `{MODULE}` is what it was before that was changed.\n"
    if ORIGINAL in files:
        own[ORIGINAL] = entry.read(ORIGINAL)
        page += f"`{ORIGINAL}` is the kernel before it was made smaller.\n"
    shown = _shown(
        finding, rewritten, kernel, probe.image.tobytes(), probe.expected.tobytes(),
        level=finding.made.level,
    )  # fmt: skip
    return shown.files(places) | {"README.md": page.encode(), **own}


def _extents(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))


def _said(entry: Entry) -> str:
    """Say who ran a judged kernel, what it was compared with, and what differs."""
    ran, made = entry.finding.runners[-1], entry.finding.made
    who, referee = (str(entry.finding.details[name]) for name in ("compilers", "referee"))
    lines = [f"Run by {who} ({ran.runner}), compared with {referee}: {ran.message}"]
    if made.ptx_pass:
        lines.append(f"This pass changed the kernel before it ran:\n\n    {made.ptx_pass}")
    if made.faults:
        lines.append(f"These faults were planted: {', '.join(made.faults)}")
    if len(lines) > 1 and REWRITTEN not in entry.finding.files:
        lines.append(
            "`kernel.ptx` is the kernel without that: a sound device leaves what is expected."
        )
    return harmless("\n\n".join(lines))


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


def _of_values(facts: ValueFacts, compilers: MachineCode) -> Mapping[str, bytes]:
    subject = facts.subject
    shown = _shown(
        facts.finding, facts.kernel, subject.module.kernel(), subject.image.tobytes(),
        facts.expected.tobytes(), level=facts.level, copies=subject.copies,
    )  # fmt: skip
    files = {
        **compilers.files,
        **shown.files(),
        "README.md": value_page(facts, compilers.lines).encode(),
    }
    if facts.actual is not None:
        files["actual.bin"] = facts.actual.tobytes()
    if facts.source is not None:
        files[facts.source.name] = facts.source.text.encode()
    if facts.rewritten is not None:
        files["module.ptx"] = facts.subject.module.ptx.encode()
    return files
