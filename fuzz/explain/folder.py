"""Writing the folder that reproduces a finding."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from corpus import Entry, Kind, durable
from corpus.programs import unpack
from fuzz.explain.document import Block, Facts, Paragraph
from fuzz.explain.facts import ValueFacts, document_of
from fuzz.explain.machine_code import BAD, GOOD, asked_by_bisection, machine_code
from fuzz.explain.page import page_of
from fuzz.findings.case import ACTUAL, MODULE, ORIGINAL, REWRITTEN, is_runnable, is_value_finding
from fuzz.findings.making import variant_of
from fuzz.findings.probes import HandProbe
from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.disassembly import Disassembler
from runners.cuda.compilation import DEFAULT_LEVEL

_TEMPLATE = Path(__file__).with_name("standalone.cu")
_MARK, _KERNEL_MARK, _COMPILED_MARK = "//@DATA@\n", "//@KERNEL@\n", "//@COMPILED@\n"
_BY_NVCC = """\
// The kernel is in this file as PTX in C++, so that the ptxas of this nvcc compiles it: take the
// nvcc of the toolkit whose ptxas you ask about (/usr/local/cuda-13.0/bin/nvcc), and its -O level
// behind -Xptxas. With --driver, and where a compiler other than nvcc built this, the driver
// compiles the same PTX at --opt.
"""
_BY_DRIVER = """\
// The driver compiles the PTX in this file, at --opt. To ask a ptxas, compile kernel.ptx with it,
// and give the machine code that it makes as FILE.
"""
_BYTES_IN_LINE = 16
_PART_CHARACTERS = 8000
"""Characters of one string literal; compilers take at least 65,536 (C++17, annex B), and some
16,380."""


def cuda_source(
    case: dict[str, Any],
    *,
    ptx: str,
    image: bytes,
    expected: bytes,
    about: Sequence[str],
    architecture: str,
) -> str:
    """Return the text of `repro.cu`."""
    results = [
        f"    {{{_string(one['name'])}, {_string(one['type'])}, {one['bits'] // 8}, "
        f"{one['start']}, {one['rows']}, {one['columns']}, {one['row_bytes']}, "
        f"{one['column_bytes']}}},"
        for one in case["results"]
    ]
    buffers = [
        f"    {{{_string(one['name'])}, {one['offset']}, {one['size']}}},"
        for one in case["buffers"]
    ]
    data = [
        f"const char *const kEntry = {_string(case['entry'])};",
        f"const size_t kImageBytes = {len(image)};",
        f"const unsigned kWarpsPerBlock = {case['warps_per_block']};",
        f"const long kCopies = {case['copies']};",
        f"const long kLevel = {case['opt']};",
        *_launch_data(case.get("launch")),
        "",
        "const std::vector<Result> kResults = {",
        *results,
        "};",
        "const std::vector<Buffer> kBuffers = {",
        *buffers,
        "};",
        "",
        "// What was run; in parts, because some compilers limit the length of a literal.",
        "const std::vector<const char *> kPtx = {",
        *(f"{_raw(part)}," for part in _parts(ptx)),
        "};",
        "",
        "// Memory before the kernel",
        *_array("kInput", image),
        "",
        "// Memory after it, as it should be",
        *_array("kExpected", expected),
        "",
    ]
    comment = "".join(f"// {line}\n" for line in about)
    kernel = None if "launch" in case else inline_kernel(ptx, "compiled_by_nvcc")
    text = _TEMPLATE.read_text().replace(_COMPILED_MARK, _BY_NVCC if kernel else _BY_DRIVER)
    flags = "".join(f" -Xptxas {flag}" for flag in case.get("options", []))
    text = text.replace("@ARCH@", case.get("arch", architecture))
    text = text.replace("@LEVEL@", f"{case['opt']}{flags}")
    text = text.replace("@HAS_KERNEL@", "1" if kernel else "0")
    text = text.replace(_KERNEL_MARK, f"{kernel or ''}\n").replace(_MARK, "\n".join(data))
    return comment + "//\n" + text


def _launch_data(launch: dict[str, Any] | None) -> Iterator[str]:
    own = launch or _NO_LAUNCH
    yield f"const bool kOwnParameters = {'false' if launch is None else 'true'};"
    for name, extents in (("kGrid", own["grid"]), ("kBlock", own["block"])):
        yield f"const unsigned {name}[3] = {{{', '.join(map(str, extents))}}};"
    yield f"const unsigned kSharedBytes = {own['shared_bytes']};"
    parameters = ", ".join(map(str, bytes.fromhex(own["parameters"])))
    yield f"const std::vector<unsigned char> kParameters = {{{parameters}}};"
    yield f"const std::vector<size_t> kPlaces = {{{', '.join(map(str, own['places']))}}};"
    pointers = ", ".join(f"{{{place}, {offset}}}" for place, offset in own["pointers"])
    yield f"const std::vector<Pointer> kPointers = {{{pointers}}};"


_NO_LAUNCH: dict[str, Any] = {
    "grid": (1, 1, 1), "block": (1, 1, 1), "shared_bytes": 0, "parameters": "", "places": (),
    "pointers": (),
}  # fmt: skip


def _string(text: str) -> str:
    # JSON's strings of plain names are C's.
    return msgspec.json.encode(text).decode()


def _parts(ptx: str) -> Iterator[str]:
    """Cut a text between lines; what one line makes too long is left so."""
    part = ""
    for line in ptx.splitlines(keepends=True):
        if part and len(part) + len(line) > _PART_CHARACTERS:
            yield part
            part = ""
        part += line
    yield part


def _raw(text: str) -> str:
    # At most 16 signs (C++17, lex.string). A text holds fewer than 10^12 of these.
    delimiters = itertools.chain(("PTX",), (f"PTX{number}" for number in itertools.count()))
    delimiter = next(one for one in delimiters if f'){one}"' not in text)
    return f'R"{delimiter}({text}){delimiter}"'


def _array(name: str, data: bytes) -> Iterator[str]:
    yield f"const unsigned char {name}[kImageBytes] = {{"
    for start in range(0, len(data), _BYTES_IN_LINE):
        yield "    " + " ".join(f"{byte}," for byte in data[start : start + _BYTES_IN_LINE])
    yield "};"


_HEADER = re.compile(r"\.(?:version|target|address_size)\b[^\n]*")
_ENTRY = re.compile(
    r"\s*\.visible\s+\.entry\s+(\w+)\s*\(\s*\.param\s+\.u64\s+(\w+)\s*,\s*\.param\s+\.u64\s+(\w+)"
    r"\s*,\s*\.param\s+\.u32\s+(\w+)\s*\)\s*\{(.*)\}\s*",
    re.DOTALL,
)
_GIVEN = ("%%given_images", "%%given_sms", "%%given_count")
"""Registers of the operands outside of the kernel's scope: nvcc names its own %r1, %rd1, …, and the
kernel declares such names, too (H200, nvcc 13.0, 2026-11-23: an illegal address)."""
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def inline_kernel(ptx: str, name: str) -> str | None:
    """Return a kernel of CUDA C++ whose body is that of a module's only kernel, as inline PTX.

    None where the module has more than that: variables, functions, kernels of other parameters.
    """
    match = _ENTRY.fullmatch(_HEADER.sub("", _COMMENT.sub("", ptx)))
    if match is None:
        return None
    _, *parameters, body = match.groups()
    body = body.replace("%", "%%")
    for number, parameter in enumerate(parameters):
        kind = "u32" if number == 2 else "u64"
        body = re.sub(
            rf"\bld\.param\.{kind}\s+([%\w]+)\s*,\s*\[{parameter}\]\s*;",
            rf"mov.{kind} \1, {_GIVEN[number]};",
            body,
        )
    if any(sign in body for sign in (".param", ".entry", ".func", '"', "\\")):
        return None
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    return "\n".join(
        (
            f"__global__ void {name}(unsigned char *images, unsigned *sms, unsigned count) {{",
            "    asm volatile(",
            f'        ".reg .b64 {_GIVEN[0]}, {_GIVEN[1]};\\n\\t"',
            f'        ".reg .b32 {_GIVEN[2]};\\n\\t"',
            *(
                f'        "mov.b{bits} {given}, %{number};\\n\\t"'
                for number, (given, bits) in enumerate(zip(_GIVEN, (64, 64, 32), strict=True))
            ),
            '        "{\\n\\t"',
            *(f'        "{line}\\n\\t"' for line in lines),
            '        "}"',
            '        :: "l"(images), "l"(sms), "r"(count) : "memory");',
            "}",
        )
    )


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
        files: Mapping[str, bytes] = {**compilers.files, **_of_values(facts)}
        here, machine = [*_again(facts)], compilers.blocks
    elif is_runnable(entry):
        files, launch = _of_images(entry)
        here, machine = [Facts(_RUN, commands=True), launch], ()
    else:
        files, machine = _of_module(entry), ()
        here = [Facts([("exit code 0 if it is accepted", _ASSEMBLE)], commands=True)]
    about = {name: "what the front end was given" for name in files if name not in _NAMES}
    about |= _NAMES if "kernel.ptx" in files else {**_NAMES, MODULE: "what is assembled"}
    about |= {BAD: "machine code that is wrong", GOOD: "machine code that is right"}
    here.append(Facts([(name, about[name]) for name in sorted(about.keys() & files.keys())]))
    page = page_of(entry, machine=machine, asked=asked, here=here)
    return {**files, "README.md": page.markdown().encode()}


_ASSEMBLE = "PTXAS=/path/to/ptxas sh repro.sh"
_RUN = (
    ("needs PyCUDA and NumPy", "python repro.py"),
    ("needs nvcc", "nvcc -o repro repro.cu -lcuda && ./repro"),
)
_NAMES = {
    "kernel.ptx": "what was run",
    "module.ptx": "what kernel.ptx was before it was changed",
    "original.ptx": "the kernel before it was made smaller",
    "input.bin": "memory before",
    "expected.bin": "memory after, as it should be",
    "actual.bin": "memory after, as it was found",
    "repro.json": "where the results lie in it, and how the kernel is launched",
    "repro.py": "runs it",
    "repro.cu": "runs it; it holds the PTX",
    "repro.sh": "assembles it",
}
"""Files of a folder, and what they are."""


def _again(facts: ValueFacts) -> Iterator[Block]:
    """Yield how the folder of a program is run."""
    variant = variant_of(facts.finding)
    flags = "".join(f" -Xptxas {flag}" for flag in variant.flags)
    built = f"-arch={variant.architecture(facts.built_for)} -Xptxas -O{facts.level}{flags}"
    first, _ = _RUN
    commands = [
        first,
        ("needs nvcc", f"nvcc {built} -o repro repro.cu -lcuda && ./repro"),
        ("another compiler, another level", "python repro.py --ptxas PATH --opt 0"),
    ]
    if facts.rewritten is not None:
        commands.append(("what was written first", "python repro.py --ptx module.ptx"))
    if facts.source is not None:
        commands += [("compiles it again", command) for command in facts.source.commands]
    yield Facts(commands, commands=True)
    yield Paragraph(
        "Both print each differing element and end with exit code 1; with 0 if every byte of the "
        "image is as expected. repro.cu holds the PTX, and the ptxas of the nvcc that builds it "
        "compiles that, at the level behind -Xptxas."
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


def _of_images(entry: Entry) -> tuple[Mapping[str, bytes], Block]:
    """Return the files of a kernel with images, and how it is launched."""
    probe, finding, files = HandProbe(entry), entry.finding, entry.finding.files
    kernel, ptx, setup = probe.module.kernel(), probe.module.ptx, probe.setup
    rewritten = entry.read(REWRITTEN).decode(errors="replace") if REWRITTEN in files else ptx
    whole = {"name": "image", "offset": 0, "size": kernel.image_bytes}
    level = DEFAULT_LEVEL if finding.made.level is None else finding.made.level
    document = document_of(finding, kernel, [whole], level=level)
    how = "one warp"
    if setup is not None:
        grid, block = (" x ".join(map(str, one)) for one in (setup.grid, setup.block))
        how = f"a grid of {grid} blocks of {block} threads"
        document["launch"] = {
            "grid": setup.grid,
            "block": setup.block,
            "shared_bytes": setup.shared,
            "parameters": setup.launch.parameters.hex(),
            "places": [one.offset for one in setup.parameters],
            "pointers": setup.launch.pointers,
        }
        document["buffers"] = [
            {"name": name, "offset": setup.offsets[name], "size": row.bytes}
            for name, row in setup.buffers.items()
        ]
    own = {}
    if ACTUAL in files:
        own["actual.bin"] = unpack(entry, ACTUAL).tobytes()
    if rewritten != ptx:
        own[MODULE] = ptx.encode()
    if ORIGINAL in files:
        own[ORIGINAL] = entry.read(ORIGINAL)
    made = _with_programs(
        document,
        ptx=variant_of(finding).files("", rewritten)[""],
        image=probe.image.tobytes(),
        expected=probe.expected.tobytes(),
        architecture=finding.target,
    )
    launch = Paragraph(f"The entry is {kernel.entry}, launched with {how}.")
    return {**made, **own}, launch


def _with_programs(
    document: dict[str, Any], *, ptx: str, image: bytes, expected: bytes, architecture: str
) -> dict[str, bytes]:
    """Return what is in the folder of every case that has images."""
    about = [
        " ".join(text.replace("\\", "/").split())
        for text in (document["title"], f"finding {document['finding']}; see README.md")
    ]
    source = cuda_source(
        document, ptx=ptx, image=image, expected=expected, about=about, architecture=architecture
    )
    return {
        "expected.bin": expected,
        "input.bin": image,
        "kernel.ptx": ptx.encode(),
        "repro.cu": source.encode(),
        "repro.json": msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n",
        "repro.py": Path(__file__).with_name("standalone.py").read_bytes(),
    }


def _of_values(facts: ValueFacts) -> dict[str, bytes]:
    files = {
        **_with_programs(
            facts.document(),
            ptx=variant_of(facts.finding).files("", facts.kernel)[""],
            image=facts.subject.image.tobytes(),
            expected=facts.expected.tobytes(),
            architecture=facts.built_for,
        ),
    }
    if facts.actual is not None:
        files["actual.bin"] = facts.actual.tobytes()
    if facts.source is not None:
        files[facts.source.name] = facts.source.text.encode()
    if facts.rewritten is not None:
        files["module.ptx"] = facts.subject.module.ptx.encode()
    return files
