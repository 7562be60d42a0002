"""The same PTX with many compilers: which machine code, and which bits come out of it.

Usage:

    python docs/same_ptx.py build --compilers all [--programs 2000] --output same_ptx.tar.xz
    python docs/same_ptx.py run same_ptx.tar.xz --output same_ptx.json          # on a GPU
    python docs/same_ptx.py page same_ptx.tar.xz... [same_ptx.json...] > docs/same_ptx.md
    python docs/same_ptx.py page scalar.json... > docs/scalar_code.md           # of scalar code

With `--shared-registers`, `build` takes programs whose multiplication has operands that share
registers, and the page groups what comes out wrong by how they do; with `--scalar-code`, programs
of scalar code alone, with branches and loops in which lanes diverge: `run` says with which known
defects (docs/scalar_causes) PTX gives the same wrong bytes, and the page is a table of them,
with the instructions of programs whose bytes none explain. That page needs what `run` wrote alone;
with `--first`, `build` takes a part of a seed's programs, so that many machines can share them.

`build` draws programs of one multiplication each, going over all forms of the target, and compiles
them with every ptxas at every level, each program in the first of PTX ISA 7.8, 8.4, 8.5 and 8.7
that has its form, by the compilers that read that. It needs no GPU. The file holds the programs and
distinct machine code, with the arithmetic instructions of each kernel if an nvdisasm is here;
contents are functions of the seed, and are drawn again. `run` runs every distinct binary of each
program on the same images, and compares it with the others and with the oracle, which judges each
by the figures of a compiler that made it.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import sys
import tarfile
import textwrap
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any, Final

import numpy as np
from record import anchor
from scalar_causes import BY_MACHINE_CODE, CAUSES, with_defects

from corpus.programs import decode_program, encode_program
from fuzz.compilers.matrix import Matrix
from fuzz.compilers.members import Member, NoDevice, device_of, members_of, placed
from fuzz.output import counted
from fuzz.runner import RunnerChoice, opened
from oracle.errors import InfrastructureError
from oracle.execution import execute, expansions, has_figures
from oracle.forms import Form
from oracle.isa import form_of, is_available
from oracle.lane_code import LaneCode
from oracle.models import NO_FIGURES
from oracle.ops import multiplies
from oracle.permission import contradicting
from oracle.program import Program, requirements, walk
from oracle.sharing import overlaps
from oracle.steps import Branch, Elementwise, Loop
from oracle.targets import Module
from runners.assemblers.disassembly import Disassembler, find_disassembler
from runners.assemblers.machine_code import kernel_digests
from runners.compilers import all_fetched, fetched_compiler, parse_levels, select
from runners.cuda.compilation import release_of
from runners.emission import emit_all
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Images, Runner
from runners.ptx_text import is_ptx
from strategies.contents import expand, recipes
from strategies.draws import Selection, derived_seed, draw_one
from strategies.features import Focus
from strategies.program_coverage import ProgramCoverage
from strategies.program_draws import selected_forms
from strategies.programs import GENERATOR_VERSION, programs

VERSIONS = ("7.8", "8.4", "8.5", "8.7")
"""PTX ISA versions of the modules: the highest of ptxas 11.8, the first with e4m3 and e5m2, the
first with ordered metadata (9.7.14.6), and the first with all shapes and accumulators of e4m3 and
e5m2 (9.7.14.5, notes)."""
TOGETHER = 64
"""Programs of a module: it takes a compiler a second or two."""
PRESET: Final = 1
"""Of xz: 6 MB of machine code take 0.2 s and become 0.3 MB; with 9, 1.4 s and 0.1 MB (2026-11)."""
MANIFEST = "manifest.json"
FINDINGS = "findings.md"
_MORE = "not explained"
_LIKE = "as many images as by:"
_NESTED = ("V12.8", "V12.9", "V13.0", "V13.1", "V13.2")
"""Versions that corrupt registers in nested divergence (release notes of CUDA 13.2.2 and 13.3)."""
_FIRST = " (each program in the first that has its form)"
_OWN = "in registers of their own"
_MOST_DRAWN = 50
"""Programs that are drawn about one form until one has a single multiplication."""
_ARITHMETIC = re.compile(
    r"(?:@!?U?P\w+ )?((?:[HIBDQO]MMA|[FD](?:ADD|MUL|FMA)|H(?:ADD|MUL|FMA)2|F2F)[\w.]*) (.*)"
)
"""What decides bits: matrix multiplications, additions and conversions of floats. Integers are
exact whatever a compiler makes of them."""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A program of one multiplication, or of scalar code alone, in a PTX ISA version."""

    form: Form | None
    version: str
    program: Program

    @property
    def title(self) -> str:
        """The opcode of what is multiplied, or those of the scalar code."""
        return " ".join(scalar_opcodes(self.program)) if self.form is None else self.form.opcode


def scalar_opcodes(program: Program) -> list[str]:
    """Return the opcodes of scalar code, each once."""
    codes = (step for step in walk(program.steps) if isinstance(step, LaneCode))
    return sorted({opcode for code in codes for opcode in code.opcodes})


def scalar_programs(target: str, wanted: int, seed: int, *, first: int) -> list[Drawn]:
    """Draw programs of scalar code alone, in the version that most compilers read.

    Each is a function of the seed and of its number, the first of which is given.
    """
    module = Module.named(target, VERSIONS[0])
    forms = tuple(selected_forms(Selection(), target=target, version=VERSIONS[0]))
    return [
        Drawn(
            form=None,
            version=VERSIONS[0],
            program=draw_one(
                programs(focus, module=module, forms=forms), derived_seed(seed, "scalar", number)
            ),
        )
        for number, focus in enumerate(
            ProgramCoverage().lane_focuses(seed, wanted, first=first), first
        )
    ]


def drawn_programs(
    target: str, wanted: int, seed: int, pattern: str, *, shared: bool
) -> list[Drawn]:
    """Draw programs of one multiplication each, form after form, again and again.

    With `shared`, those alone whose multiplication has operands that share registers.
    """
    modules = [Module.named(target, version) for version in VERSIONS]
    forms: tuple[Form, ...] = tuple(
        form
        for form in selected_forms(Selection(pattern=pattern), target=target, version=VERSIONS[-1])
        if form.is_product
    )
    found: list[Drawn] = []
    for turn in count():
        for form in forms:
            if len(found) == wanted:
                return found
            module = next(one for one in modules if is_available(form, one))
            for attempt in range(_MOST_DRAWN):
                program = draw_one(
                    programs(Focus(form=form), module=module, forms=(form,)),
                    derived_seed(seed, form.opcode, turn, attempt),
                )
                if (
                    is_plain(program)
                    and (not shared or shared_ways(program))
                    and all(is_available(one, module) for one in requirements(program))
                ):
                    found.append(Drawn(form=form, version=str(module.version), program=program))
                    break
    raise AssertionError


def is_plain(program: Program) -> bool:
    """Whether a program multiplies once, and only moves matrices besides."""
    steps = list(walk(program.steps))
    others = any(isinstance(step, Branch | Loop | Elementwise | LaneCode) for step in steps)
    return not others and sum(multiplies(step) for step in steps) == 1


def shared_ways(program: Program) -> str:
    """Return how the operands of the multiplications share registers, in words; "" if none do."""
    found = [
        str(one)
        for step in walk(program.steps)
        if multiplies(step)
        for one in overlaps(step, program.shared_banks)
    ]
    return "; ".join(dict.fromkeys(found))


def modules_of(
    drawn: Sequence[Drawn], target: str, first: int = 0
) -> Iterator[tuple[KernelModule, dict[str, Drawn]]]:
    """Yield modules of programs, with the program of each entry, numbered from `first` on."""
    for version in VERSIONS:
        own = [one for one in drawn if one.version == version]
        for start in range(0, len(own), TOGETHER):
            some = {
                f"k{number}": one
                for number, one in enumerate(own[start : start + TOGETHER], first + start)
            }
            texts = {entry: one.program for entry, one in some.items()}
            yield emit_all(texts, module=Module.named(target, version)), some


def arithmetic(instructions: Sequence[str]) -> str:
    """Return the arithmetic instructions of a kernel with their counts: no registers, no order.

    Signs of operands stay.
    """
    found: Counter[str] = Counter()
    for text in instructions:
        match = _ARITHMETIC.fullmatch(text)
        if match is not None and re.search(r",.*\bR\d", match[2]):  # else it makes a constant
            signs = "".join(
                "-" if "-" in operand else "|" if "|" in operand else "."
                for operand in match[2].split(", ")[1:]
            )
            found[f"{match[1]}{f' {signs}' if set(signs) - {'.'} else ''}"] += 1
    return ", ".join(f"{name} x{number}" for name, number in sorted(found.items())) or "none"


def build(options: argparse.Namespace) -> None:
    """Compile, and write the file."""
    selected = all_fetched(select(options.compilers), fetched_compiler)
    members = members_of(selected, parse_levels(options.opt))
    drawn = (
        scalar_programs(options.target, options.programs, options.seed, first=options.first)
        if options.scalar_code
        else drawn_programs(
            options.target,
            options.programs,
            options.seed,
            options.only,
            shared=options.shared_registers,
        )
    )
    plain = not (options.shared_registers or options.scalar_code)
    tool = find_disassembler(options.disassembler) if plain else None
    modules: list[dict[str, Any]] = []
    with (
        tarfile.open(options.output, "w:xz", preset=PRESET) as archive,
        Matrix(NoDevice(), members, jobs=options.jobs) as matrix,
    ):
        for number, (module, some) in enumerate(modules_of(drawn, options.target, options.first)):
            fit = [
                one
                for one in members
                if one.toolchain.knows(module.target, module.version, module.target)
            ]
            built = matrix.start(module, fit).wait()
            row = _module_row(module, some, built.made, archive, number, tool)
            modules.append(row)
            said = f"module {number}: {len(row['codes'])} of {len(fit)} binaries are kept"
            print(said, file=sys.stderr, flush=True)
        document = {
            "generator": GENERATOR_VERSION, "seed": options.seed, "target": options.target,
            "first": options.first, "only": options.only, "shared": options.shared_registers,
            "scalar": options.scalar_code,
            "programs": [
                [one.form and one.form.opcode, one.version, encode_program(one.program).decode()]
                for one in drawn
            ],
            "members": [one.name for one in members], "modules": modules,
            "disassembler": None if tool is None else tool.version,
        }  # fmt: skip
        _add(archive, MANIFEST, json.dumps(document).encode())
    print(f"{options.output}: {options.output.stat().st_size:,} bytes", file=sys.stderr)


def _module_row(
    module: KernelModule,
    some: Mapping[str, Drawn],
    made: Mapping[Member, Compiled | Failure],
    archive: tarfile.TarFile,
    number: int,
    tool: Disassembler | None,
) -> dict[str, Any]:
    """Keep the distinct binaries of a module, and say which member's kernel is in which."""
    codes: list[str] = []
    kernels: dict[str, dict[str, dict[str, Any]]] = {entry: {} for entry in some}
    failed: dict[str, str] = {}
    for member, compiled in made.items():
        if isinstance(compiled, Failure):
            failed[member.name] = compiled.line[:300]
            continue
        digests = _digests(compiled.code, some)
        new = [entry for entry in some if digests[entry] not in kernels[entry]]
        if new:
            name = f"code/{number}/{len(codes)}"
            _add(archive, name, compiled.code)
            codes.append(name)
            listing = _listing(tool, compiled.code)
            for entry in new:
                kernels[entry][digests[entry]] = {
                    "code": name, "members": [],
                    "arithmetic": arithmetic(listing[entry]) if entry in listing else None,
                }  # fmt: skip
        for entry in some:
            kernels[entry][digests[entry]]["members"].append(member.name)
    return {
        "ptx": sha256(module.ptx.encode()).hexdigest(), "codes": codes, "failed": failed,
        "kernels": {entry: list(variants.values()) for entry, variants in kernels.items()},
    }  # fmt: skip


def _digests(code: bytes, entries: Mapping[str, Drawn]) -> Mapping[str, str]:
    try:
        return kernel_digests(code)
    except ValueError:  # PTX that a stand-in for an assembler wrote
        return dict.fromkeys(entries, sha256(code).hexdigest())


def _listing(tool: Disassembler | None, code: bytes) -> Mapping[str, Sequence[str]]:
    if tool is None or is_ptx(code):
        return {}
    try:
        return tool.instructions(code)
    except InfrastructureError:
        return {}  # it is too old for this code, or too new


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def _read(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the manifest and the machine code of a file."""
    with tarfile.open(path, "r:xz") as archive:
        files = {
            info.name: file.read()
            for info in archive
            if (file := archive.extractfile(info)) is not None
        }
    return json.loads(files.pop(MANIFEST)), files


def _programs_of(document: Mapping[str, Any]) -> list[Drawn]:
    return [
        Drawn(
            form=form_of(opcode) if opcode else None,
            version=version,
            program=decode_program(text.encode(), MANIFEST),
        )
        for opcode, version, text in document["programs"]
    ]


def _images(one: Drawn, seed: int, entry: str, count: int) -> Images:
    recipe = draw_one(recipes(), derived_seed(seed, "images", entry))
    return expand(recipe, one.program, count)


def run(options: argparse.Namespace) -> None:
    """Run every distinct binary of each program, and write what came out."""
    document, files = _read(options.archive)
    modules = list(modules_of(_programs_of(document), document["target"], document["first"]))
    for row, (module, _) in zip(document["modules"], modules, strict=True):
        if sha256(module.ptx.encode()).hexdigest() != row["ptx"]:
            raise SystemExit(
                "this warpfuzz writes other PTX than the one that built the file; build it again"
            )
    work = [
        (module, entry, one, row["kernels"][entry])
        for row, (module, some) in zip(document["modules"], modules, strict=True)
        for entry, one in some.items()
    ]

    keyed = {name: (code, sha256(name.encode() + code).hexdigest()) for name, code in files.items()}
    known = [] if options.again is None else json.loads(options.again.read_text())["programs"]
    again = [at for at in range(len(work)) if not known or _wrong(known[at])]

    def share(part: int, answers: SimpleQueue[tuple[str, dict[int, Any]]]) -> None:
        target = document["target"]
        with (
            placed(RunnerChoice(name=options.runner, target=target)) as place,
            opened(RunnerChoice(name="sim", target=target, ptx_version=VERSIONS[0])) as simulated,
        ):
            assert place.opened is not None
            runner = device_of(place.opened)
            rows = {}
            for number in again[part :: options.jobs]:
                module, entry, one, variants = work[number]
                images = _images(one, document["seed"], entry, options.images)
                rows[number] = _ran(
                    runner, place.architecture, module, entry, one, images, variants, keyed
                )
                if one.form is None:
                    rows[number]["simulated"] = _simulated(
                        simulated.runner, module, entry, one, images
                    )
            answers.put((place.opened.device, rows))

    context = get_context("fork")  # so that nothing is sent to the processes
    answers: SimpleQueue[tuple[str, dict[int, Any]]] = context.SimpleQueue()
    processes = [
        context.Process(target=share, args=(part, answers)) for part in range(options.jobs)
    ]
    for process in processes:
        process.start()
    rows: dict[int, Any] = dict(enumerate(known))
    device = ""
    for at in range(options.jobs):
        while answers.empty():
            if any(process.exitcode for process in processes):
                raise SystemExit("a process ended before it answered")
            time.sleep(0.1)
        device, some = answers.get()
        rows |= some
        print(f"process {at + 1}: {counted(len(some), 'program')}", file=sys.stderr, flush=True)
    told = [rows[number] for number in range(len(work))]
    results = {
        "built": about(document), "device": device, "images": options.images, "programs": told
    }  # fmt: skip
    options.output.write_text(json.dumps(results))


def about(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a page tells of what was built, beside its programs and arithmetic."""
    kernels = [variants for row in document["modules"] for variants in row["kernels"].values()]
    kept = (
        "generator", "seed", "first", "target", "only", "shared", "scalar", "members",
        "disassembler",
    )  # fmt: skip
    return {name: document[name] for name in kept} | {
        "programs": len(kernels),
        "kernels": sum(len(one["members"]) for variants in kernels for one in variants),
        "distinct": sum(map(len, kernels)),
        "failed": [
            [said.rpartition("/")[2], name]
            for row in document["modules"]
            for name, said in row["failed"].items()
        ],
    }


def _ran(
    runner: Runner,
    architecture: str,
    module: KernelModule,
    entry: str,
    drawn: Drawn,
    images: Images,
    variants: Sequence[Mapping[str, Any]],
    files: Mapping[str, tuple[bytes, str]],
) -> dict[str, Any]:
    """Run the binaries of one program on the same images; `files`: code and its key."""
    outputs: dict[bytes, dict[str, Any]] = {}
    explained = _Explained(drawn, images)
    expectations: dict[str, Images] = {}
    started = []
    for variant in variants:
        code, key = files[variant["code"]]
        text = replace(module, ptx=code.decode()) if is_ptx(code) else module
        compiled = Compiled(
            module=text, architecture=architecture, compiler=variant["members"][0], key=key,
            code=code,
        )  # fmt: skip
        # A device that many processes share takes a millisecond until it begins.
        started.append((variant, runner.submit(compiled, images, entry=entry)))
    for variant, pending in started:
        ran = pending.collect()
        if isinstance(ran, Failure):
            outputs.setdefault(str(ran).encode(), {"failed": ran.line, "members": []})[
                "members"
            ] += variant["members"]
            continue
        target = _judged(drawn.program, architecture, variant["members"])
        if target not in expectations:
            expectations[target] = execute(drawn.program, images, target=target).images
        expected = expectations[target]
        wrong = contradicting(drawn.program, images, ran.images, target=target, expected=expected)
        seen = outputs.setdefault(
            ran.images.tobytes(),
            {"members": [], "figures": [], "wrong": 0, "images": np.array(ran.images)},
        )
        seen["members"] += variant["members"]
        if len(wrong) > seen["wrong"]:
            seen["wrong"], seen["as"] = len(wrong), explained.causes(ran.images, target)
            seen |= {"digest": _digest(ran.images), "first": _first_of(ran.images, expected)}
        said = NO_FIGURES in expansions(drawn.program, target=target)
        seen["figures"] = sorted({*seen["figures"], "bounds" if said else "figures"})
    groups = list(outputs.values())
    newest = next((one["images"] for one in reversed(groups) if "images" in one), None)
    for one in groups:
        own = one.pop("images", None)
        if own is not None and newest is not None:
            one["other"] = int((own != newest).any(axis=1).sum())
    row = {
        "form": drawn.title, "version": drawn.version, "outputs": groups,
        "shared": shared_ways(drawn.program),
    }  # fmt: skip
    if drawn.form is None and _wrong(row):
        row["program"] = encode_program(drawn.program).decode()
    return row


def _digest(images: Images) -> str:
    return sha256(images.tobytes()).hexdigest()


def _first_of(actual: Images, expected: Images) -> tuple[int, str] | None:
    """Return the first image that is other than expected: its number and bytes."""
    number = next(iter(np.flatnonzero((actual != expected).any(axis=1)).tolist()), None)
    return None if number is None else (number, actual[number].tobytes().hex())


def _simulated(
    runner: Runner, module: KernelModule, entry: str, drawn: Drawn, images: Images
) -> int | str:
    """Return in how many images the simulated device differs from the oracle, or why it failed."""
    own = emit_all({entry: drawn.program}, module=Module.named(module.target, drawn.version))
    compiled = runner.compile(own)
    ran = compiled if isinstance(compiled, Failure) else runner.run(compiled, images, entry=entry)
    if isinstance(ran, Failure):
        return ran.line
    expected = execute(drawn.program, images, target=module.target).images
    return int((ran.images != expected).any(axis=1).sum())


class _Explained:
    """What a program of scalar code gives with known defects.

    Parameters
    ----------
    drawn, images
        The program, and what it is given.
    """

    def __init__(self, drawn: Drawn, images: Images) -> None:
        self._drawn, self._images = drawn, images
        self._given: dict[str, tuple[bytes, Sequence[str]]] = {}

    def causes(self, actual: Images, target: str) -> Sequence[str]:
        """Return the fewest defects with which PTX gives the same bytes; none where none do."""
        if self._drawn.form is not None:
            return ()
        for causes, program in with_defects(self._drawn.program):
            key = repr(causes)
            if key not in self._given:
                made = execute(program, self._images, target=target).images
                self._given[key] = made.tobytes(), causes
            if self._given[key][0] == actual.tobytes():
                return causes
        return ()


def _judged(program: Program, architecture: str, members: Sequence[str]) -> str:
    """Return the oracle's target for one of the compilers that made a binary, with figures."""
    targets = [f"{architecture}@{release_of(name)}" for name in members]
    return next((one for one in targets if has_figures(program, target=one)), targets[0])


def page(options: argparse.Namespace) -> None:
    """Print the page."""
    documents = [_read(path)[0] for path in options.files if path.suffix != ".json"]
    told = [json.loads(path.read_text()) for path in options.files if path.suffix == ".json"]
    built = [about(one) for one in documents] or [one["built"] for one in told]
    document = built[0]
    kept = ("target", "only", "shared", "scalar", "members", "disassembler")
    if any(other[name] != document[name] for other in built for name in kept):
        raise SystemExit("archives of one page are built with the same options, but the seed")
    if not (documents or document["scalar"]):
        raise SystemExit("the page of programs that multiply needs what `build` wrote, too")
    members = document["members"]
    versions = list(dict.fromkeys(name.rpartition(" ")[0].removeprefix("V") for name in members))
    levels = sorted({name.rpartition(" ")[2] for name in members})
    shared, scalar = document["shared"], document["scalar"]
    title = "scalar code" if scalar else "registers that operands share" if shared else "other bits"
    only = "" if document["only"] == "*" else f": `{document['only']}`"
    print(f"# The same PTX, {title}{only}\n")
    many = counted(sum(one["programs"] for one in built), "program")
    what = (
        "scalar code alone, with branches and loops in which lanes diverge"
        if scalar
        else f"one multiplication each{', whose operands share registers' if shared else ''}"
    )
    _say(
        f"{many} of {what}, {document['target']}, PTX ISA "
        f"{VERSIONS[0] if scalar else ', '.join(VERSIONS) + _FIRST}, by ptxas "
        f"{', '.join(versions)} at {', '.join(levels)}, as far as each reads the "
        "version. Written by `python docs/same_ptx.py`, whose first lines say how."
    )
    if scalar:
        _print_commands(built)
    failed = Counter((said, name) for one in built for said, name in one["failed"])
    binaries, distinct = (sum(one[name] for one in built) for name in ("kernels", "distinct"))
    _say(
        f"{binaries:,} kernels, of which {distinct:,} have code of their own; "
        f"{counted(failed.total(), 'module')} were not compiled."
    )
    for why in sorted({why for why, _ in failed}) if scalar else ():
        who = _span([name for said, name in failed if said == why], members)
        _say(f"Not compiled: {who}: {why}.")
    if document["disassembler"] is not None and not shared:
        _print_arithmetic(_kernels_of(documents), members, document["disassembler"])
    if not told:
        print("\n## What comes out\n\nNot run: no file of `run` was given.")
        return
    programs = [row for one in told for row in one["programs"]]
    if len(programs) != (wanted := sum(one["programs"] for one in built)):
        raise SystemExit(f"{wanted} programs were built, and {len(programs)} were run")
    results = {**told[0], "programs": programs}
    if scalar:
        for each, one in zip(built, told, strict=True):
            for number, row in enumerate(one["programs"], each["first"]):
                row["at"] = f"{each['seed']}/{number}"
                _explain(row, each["seed"], f"k{number}", one["images"])
        _print_scalar(results, members)
    elif shared:
        _print_causes(results, members)
    else:
        _print_outputs(results, members)
        print()
        _print_causes(results, members)


def _print_commands(built: Sequence[Mapping[str, Any]]) -> None:
    """Print how scalar programs are made again."""
    seeds, firsts = (list(dict.fromkeys(one[name] for one in built)) for name in ("seed", "first"))
    if len(built) != len(seeds) * len(firsts):
        raise SystemExit("a page has the same programs of each seed")
    (generator,) = {one["generator"] for one in built}
    _say(
        f"Made again with generator {generator}, N each of {', '.join(map(str, seeds))} and F each "
        f"of {', '.join(map(str, firsts))}:"
    )
    print("    python docs/same_ptx.py build --scalar-code --compilers all --jobs 1 \\")
    print(f"        --programs {built[0]['programs']} --seed N --first F --output N-F.tar.xz")
    print("    python docs/same_ptx.py run N-F.tar.xz --output N-F.json             # on a GPU")
    print("    python docs/same_ptx.py page *.json > docs/scalar_code.md\n")


def _kernels_of(
    documents: Sequence[Mapping[str, Any]],
) -> list[tuple[Drawn, Sequence[Mapping[str, Any]]]]:
    return [
        (one, variants)
        for each in documents
        for (_, some), row in zip(
            modules_of(_programs_of(each), each["target"], each["first"]),
            each["modules"],
            strict=True,
        )
        for (one, variants) in zip(some.values(), row["kernels"].values(), strict=True)
    ]


def _say(text: str) -> None:
    """Print a paragraph."""
    print(f"{textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)}\n")


def _types(opcode: str) -> str:
    """Return an opcode without what does not change its arithmetic: layouts."""
    words = [word for word in opcode.split(".") if word not in ("sync", "aligned", "row", "col")]
    return ".".join(words)


def _span(names: Sequence[str], members: Sequence[str]) -> str:
    """Name members, neighbouring versions with the same levels together."""
    order = list(dict.fromkeys(name.rpartition(" ")[0] for name in members))
    levels: dict[str, list[str]] = defaultdict(list)
    for name in members:
        if name in names:
            version, _, level = name.rpartition(" ")
            levels[version].append(level)
    parts: list[tuple[list[str], list[str]]] = []
    for version in order:
        if version not in levels:
            parts.append(([], []))
        elif parts and parts[-1][1] == levels[version]:
            parts[-1][0].append(version)
        else:
            parts.append(([version], levels[version]))
    return ", ".join(
        f"{found[0].removeprefix('V')}"
        + (f" to {found[-1].removeprefix('V')}" if len(found) > 1 else "")
        + f" {' '.join(own)}"
        for found, own in parts
        if found
    )


def _print_arithmetic(
    kernels: Sequence[tuple[Drawn, Sequence[Mapping[str, Any]]]], members: Sequence[str], tool: str
) -> None:
    """Print the forms of which compilers make other arithmetic instructions."""
    rows: dict[tuple[str, tuple[tuple[str, str], ...]], Counter[str]] = defaultdict(Counter)
    differing = 0
    for one, variants in kernels:
        by: dict[str, list[str]] = defaultdict(list)
        for variant in variants:
            by[variant["arithmetic"] or "not read"] += variant["members"]
        if len(by) > 1:
            differing += 1
            cells = tuple((_span(names, members), text) for text, names in by.items())
            rows[one.version, cells][_types(one.title)] += 1
    print("## Other instructions\n")
    print(f"Arithmetic instructions by nvdisasm {tool.removeprefix('V')}, without registers and")
    print(f"order: {differing:,} of {counted(len(kernels), 'program')} have other ones with some")
    print("compilers or levels.\n")
    if rows:
        print("| forms | PTX ISA | programs | compilers | instructions |")
        print(f"|{'---|' * 5}")
    for (version, cells), forms in rows.items():
        for at, (who, text) in enumerate(cells):
            named = ", ".join(f"`{form}`" for form in sorted(forms))
            head = f"{named} | {version} | {forms.total()}" if at == 0 else " | | "
            print(f"| {head} | {who} | {text.replace('|', chr(92) + '|')} |")


def _print_outputs(results: Mapping[str, Any], members: Sequence[str]) -> None:
    """Print the forms of which other bits come out."""
    told = results["programs"]
    wrong = sum(any(one.get("wrong") or "failed" in one for one in row["outputs"]) for row in told)
    bounds = sum(any("bounds" in one.get("figures", ()) for one in row["outputs"]) for row in told)
    other = [row for row in told if len(row["outputs"]) > 1]
    print("\n## Other bits\n")
    print(f"{results['device']}; {results['images']} images of each program.")
    print(f"{len(other):,} of {counted(len(told), 'program')} give other bits with some compilers;")
    print(f"{wrong:,} differ from the oracle with some compiler; of {bounds:,} the model has no")
    print("figures of some compiler, whose results are compared with what the ISA permits.\n")
    rows: dict[tuple[str, str, tuple[str, ...]], list[list[tuple[int, int]]]] = defaultdict(list)
    for row in other:
        spans = tuple(_span(one["members"], members) for one in row["outputs"])
        numbers = [(one.get("other", 0), one.get("wrong", 0)) for one in row["outputs"]]
        rows[_types(row["form"]), row["version"], spans].append(numbers)
    if rows:
        print("| form | PTX ISA | programs | compilers | images other than the newest's | wrong |")
        print(f"|{'---|' * 6}")
    for (form, version, spans), counts in rows.items():
        for at, who in enumerate(spans):
            head = f"`{form}` | {version} | {len(counts)}" if at == 0 else " | | "
            differ, bad = (sum(each[at][which] for each in counts) for which in (0, 1))
            print(f"| {head} | {who} | {differ} of {len(counts) * results['images']} | {bad} |")


def _print_causes(results: Mapping[str, Any], members: Sequence[str]) -> None:
    """Print how the operands of programs share registers that come out wrong, and with whom."""
    told = results["programs"]
    rows: dict[tuple[str, str, str, str], Counter[str]] = defaultdict(Counter)
    wrong = 0
    for row in told:
        bad = [name for one in row["outputs"] if _is_wrong(one) for name in one["members"]]
        good = [name for one in row["outputs"] if not _is_wrong(one) for name in one["members"]]
        if bad:
            wrong += 1
            who = (_span(bad, members), _span(good, members) or "none")
            unit = row["form"].partition(".")[0]
            rows[unit, row["shared"] or _OWN, *who][_types(row["form"])] += 1
    print("## What is wrong, and with whom\n")
    print(f"{results['device']}; {results['images']} images of each program.")
    print(
        f"{wrong:,} of {counted(len(told), 'program')} differ from the oracle with some compiler."
    )
    print('"Right": with these the same programs come out as the oracle says.\n')
    print("| unit | operands | programs | wrong with | right with | forms |")
    print(f"|{'---|' * 6}")
    for (unit, how, wrong_with, right_with), forms in sorted(rows.items()):
        named = ", ".join(f"`{form}`" for form in sorted(forms))
        print(f"| {unit} | {how} | {forms.total()} | {wrong_with} | {right_with} | {named} |")
    ways = Counter((row["form"].partition(".")[0], row["shared"] or _OWN) for row in told)
    never = sorted(set(ways) - {(unit, how) for unit, how, _, _ in rows})
    if never:
        said = "; ".join(f"{unit}: {how} ({ways[unit, how]})" for unit, how in never)
        print()
        _say(f"Right with all compilers, in so many programs: {said}.")


def _explain(row: dict[str, Any], seed: int, entry: str, count: int) -> None:
    """Say which defects give what none gave when it ran, or else as many wrong images, not all."""
    missing = [one for one in _wrong(row) if not one.get("as") and "digest" in one]
    if not missing:
        return
    program = decode_program(row["program"].encode(), MANIFEST)
    drawn = Drawn(form=None, version=row["version"], program=program)
    images = _images(drawn, seed, entry, count)
    expected = execute(program, images, target="sm_90").images
    for causes, defective in with_defects(program):
        made = execute(defective, images, target="sm_90").images
        digest, number = _digest(made), int((made != expected).any(axis=1).sum())
        for one in missing:
            if one["digest"] == digest:
                one["as"] = one.get("as") or causes
            elif one["wrong"] == number < count:
                one.setdefault("like", causes)


def _print_scalar(results: Mapping[str, Any], members: Sequence[str]) -> None:
    """Print who is wrong about programs of scalar code, and why."""
    told = results["programs"]
    groups: dict[tuple[str, str, str], list[set[str]]] = defaultdict(list)
    places: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    of_right: set[str] = set()
    ranges: dict[str, _Range] = defaultdict(_Range)
    nested = 0
    for row in told:
        bad = {name: one.get("as") or () for one in _wrong(row) for name in one["members"]}
        opcodes = set(row["form"].split())
        if not bad:
            of_right |= opcodes
            continue
        good = [name for one in row["outputs"] if not _is_wrong(one) for name in one["members"]]
        nested += all(name.startswith(_NESTED) for name in bad)
        causes = sorted({cause for names in bad.values() for cause in names})
        rest = [one.get("like") for one in _wrong(row) if not one.get("as")]
        likes = sorted({cause for some in rest if some for cause in some})
        said = "; ".join(
            [*causes, *(f"{_LIKE} {cause}" for cause in likes), *([] if all(rest) else [_MORE])]
        )
        key = _span(list(bad), members), _span(good, members) or "none", said
        groups[key].append(opcodes)
        places[key].append(row["at"])
        for cause in causes:
            ranges[cause].add(bad, good, cause, alone=said == cause)
    wrong = sum(map(len, groups.values()))
    alike = sum(len(found) for (*_, said), found in groups.items() if _LIKE in said)
    rest = [at for (*_, said), found in places.items() if _MORE in said for at in found]
    read = sum(at in BY_MACHINE_CODE for at in rest)
    print("## What is wrong, and with whom\n")
    print(f"{results['device']}; {results['images']} images of each program.")
    _say(
        f"{wrong:,} of {counted(len(told), 'program')} differ from the oracle with some compiler; "
        f"of {wrong - alike - len(rest):,}, every wrong image comes out as other PTX gives it, "
        "byte by byte, in which known defects are written out (docs/scalar_causes). Of "
        f"{alike:,} more as many images are wrong as in that PTX; their bytes were not compared. "
        f"Of {read:,} the machine code shows why. {len(rest) - read:,} are not explained."
    )
    same = sum(row["simulated"] == 0 for row in told if "simulated" in row)
    _say(
        f"On the simulated device, {same:,} of {counted(len(told), 'program')} come out as the "
        "oracle says."
    )
    print("| defect | PTX | programs | alone | wrong with | right with |")
    print(f"|{'---|' * 6}")
    headings = Path(__file__).with_name(FINDINGS).read_text().splitlines()
    for cause, one in sorted(ranges.items(), key=lambda found: (-found[1].programs, found[0])):
        known = next(known for known in CAUSES if known.name == cause)
        link = f"[{cause}]({FINDINGS}{anchor(known.section, headings)})"
        print(
            f"| {link} | `{known.ptx}` | {one.programs} | {one.alone} | "
            f"{_span(sorted(one.wrong), members)} | "
            f"{_span(sorted(one.right - one.other), members) or 'none'} |"
        )
    print('\n"Wrong with": with some program; "alone": programs that have no other defect.\n')
    _say(
        "Of 12.8 to 13.2, NVIDIA's release notes of CUDA 13.2.2 and 13.3 tell corrupted registers "
        "in nested divergence [6111901, 6156910]. Wrong with 12.8.93 to 13.2.86 or some of them, "
        f"and with no other: {counted(nested, 'program')}."
    )
    print("## Programs\n")
    _say(
        "Of those whose bytes no PTX gives: seed and number, and their machine code, or the scalar "
        "instructions that all programs of the row have, those first that no right program has."
    )
    print("| programs | wrong with | right with | why |")
    print(f"|{'---|' * 4}")
    for key, found in sorted(
        groups.items(), key=lambda one: (_MORE in one[0][2], -len(one[1]), one[0])
    ):
        wrong_with, right_with, said = key
        common = sorted(set.intersection(*found), key=lambda one: (one in of_right, one))
        named = said if said != _MORE else ", ".join(f"`{one}`" for one in common) or "nothing"
        sections = [BY_MACHINE_CODE[at] for at in places[key] if at in BY_MACHINE_CODE]
        if sections:
            named = f"[see its machine code]({FINDINGS}{anchor(sections[0], headings)})"
        if _MORE in said:
            named = f"{', '.join(places[key])}: {named}"
        print(f"| {len(found)} | {wrong_with} | {right_with} | {named} |")


@dataclass
class _Range:
    """Who has a defect."""

    programs: int = 0
    alone: int = 0
    """Those that have no other defect."""
    wrong: set[str] = field(default_factory=set)
    right: set[str] = field(default_factory=set)
    other: set[str] = field(default_factory=set)
    """Those that were not right about some of the programs."""

    def add(
        self, bad: Mapping[str, Sequence[str]], good: Sequence[str], cause: str, *, alone: bool
    ) -> None:
        """Count a program: who is wrong about it by which defects, and who is right."""
        self.programs += 1
        self.alone += alone
        self.wrong.update(name for name, causes in bad.items() if cause in causes)
        self.right.update(good)
        self.other.update(bad)


def _wrong(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [one for one in row["outputs"] if _is_wrong(one)]


def _is_wrong(output: Mapping[str, Any]) -> bool:
    return bool(output.get("wrong")) or "failed" in output


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("build", help="compile, and write distinct machine code to a file")
    one.add_argument("--compilers", default="installed")
    one.add_argument("--opt", default="0,1,2,3", help="-O levels")
    one.add_argument("--programs", type=int, default=2000)
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--first", type=int, default=0, help="number of the first: of --scalar-code")
    one.add_argument("--only", default="*", help="forms whose opcode fits")
    one.add_argument("--shared-registers", action="store_true", help="such programs alone")
    one.add_argument("--scalar-code", action="store_true", help="programs of scalar code alone")
    one.add_argument("--target", default="sm_90")
    one.add_argument("--disassembler", type=Path)
    one.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    one.add_argument("--output", type=Path, required=True)
    one.set_defaults(work=build)
    two = commands.add_parser("run", help="run what was built, on a GPU")
    two.add_argument("archive", type=Path)
    two.add_argument("--runner", default="cuda", choices=("cuda", "sim"))
    two.add_argument("--jobs", type=int, default=1, help="processes on the GPU")
    two.add_argument("--images", type=int, default=64, help="of each program")
    two.add_argument("--again", type=Path, help="results; only what was wrong there is run again")
    two.add_argument("--output", type=Path, required=True)
    two.set_defaults(work=run)
    three = commands.add_parser("page", help="print the tables")
    three.add_argument("files", type=Path, nargs="+", help="of `build` and of `run` (.json)")
    three.set_defaults(work=page)
    options = parser.parse_args()
    if options.work is build and options.first and not options.scalar_code:
        parser.error("--first goes with --scalar-code")
    options.work(options)


if __name__ == "__main__":
    main()
