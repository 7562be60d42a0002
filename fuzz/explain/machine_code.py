"""What compilers make of a finding's kernel: which get it right, and where machine code differs.

A binary that comes out right and one that comes out wrong are built again by the assemblers that
are here, and disassembled. Where every compiler that was asked is wrong, the right one is the same
kernel with results of multiplications in registers of their own, which are moved behind each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

import msgspec

from corpus import Finding
from fuzz.explain.document import Block, Facts, Heading, Line, Listing, Paragraph
from fuzz.explain.facts import ValueFacts
from fuzz.findings.families import Asked, asked_of
from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.assembler import Assembler
from runners.assemblers.disassembly import WHEEL, Disassembler
from runners.compilers import discover_assemblers
from runners.cuda.compilation import release_of
from runners.kernels import KernelModule
from runners.protocol import Failure
from runners.variants import split_variant

GOOD, BAD = "good.sass", "bad.sass"
_RIGHT = "match"
_BEFORE, _BEHIND = 4, 8
"""Instructions around the first that differs."""


def asked_by_bisection(path: Path, finding: Finding) -> tuple[Asked, ...]:
    """Return what each ptxas did, from a file with what `warpfuzz bisect --json` printed.

    Raises UsageError if the file holds no such answers, or those of another finding.
    """
    wanted = f"what `warpfuzz bisect {finding.id} --json` prints"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = [msgspec.json.decode(line) for line in lines if line.strip()]
        objects = (row for row in rows if isinstance(row, dict))
        told = next((row["bisect"] for row in objects if "bisect" in row), None)
        if told is None:
            raise UsageError(
                f'{path} has no line that begins with {{"bisect": …}}, and so is not {wanted}; '
                "write that to a file and name it"
            )
        found = [
            Asked(
                version=str(version), level=int(level["level"]),
                outcome=str(cell["outcome"]) if cell["bad"] else _RIGHT,
            )
            for level in told["levels"]
            for version, cell in level["versions"].items()
            if "reason" not in cell
        ]  # fmt: skip
        identity = str(told["id"])
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise UsageError(
            f"{path} cannot be read as {wanted} ({error}); write that to a file and name it"
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(
            f"{path} holds JSON that is not {wanted}; write that to a file and name it"
        ) from None
    if identity != finding.id:
        raise UsageError(f"{path} holds answers about {identity}, and this is {finding.id}")
    return tuple(found)


def pair_of(asked: Sequence[Asked]) -> tuple[Asked | None, Asked | None]:
    """Return a compiler that is wrong and one that is right, as near to each other as there are.

    Neighbouring versions at one level tell more than levels of one version, and high levels more
    than low ones. None where there is no such compiler.
    """
    versions = list(dict.fromkeys(one.version for one in asked))

    def distance(bad: Asked, good: Asked) -> tuple[bool, int, int]:
        apart = abs(versions.index(bad.version) - versions.index(good.version))
        return bad.level != good.level, apart + abs(bad.level - good.level), -bad.level

    bads = [one for one in asked if one.wrong]
    goods = [one for one in asked if not one.wrong]
    pairs = [(bad, good) for bad in bads for good in goods]
    if pairs:
        return min(pairs, key=lambda pair: distance(*pair))
    newest = max(bads, key=lambda one: (versions.index(one.version), one.level), default=None)
    return newest, None


_MULTIPLICATION = re.compile(
    r"^(?P<indent>\s*)(?P<opcode>(?:wmma\.mma|mma)\.(?:sp(?:::\w+)?\.)?sync\S*)\s+"
    r"\{(?P<d>[^}]*)\}(?P<rest>,.*;)\s*$"
)


def with_own_results(ptx: str) -> str:
    """Return PTX whose multiplications write registers of their own, which are moved behind each.

    What shared registers with the result does so no longer while it is computed.
    """
    made = []
    for number, line in enumerate(ptx.splitlines()):
        match = _MULTIPLICATION.match(line)
        if match is None:
            made.append(line)
            continue
        indent, names = match["indent"], [name.strip() for name in match["d"].split(",")]
        kind = "b64" if ".f64" in match["opcode"] else "b32"
        own = [f"%own{number}_{index}" for index in range(len(names))]
        made += [
            f"{indent}{{",
            f"{indent}.reg .{kind} {', '.join(own)};",
            f"{indent}{match['opcode']} {{{', '.join(own)}}}{match['rest']}",
            *(f"{indent}mov.{kind} {name}, {mine};" for name, mine in zip(names, own, strict=True)),
            f"{indent}}}",
        ]
    return "\n".join(made) + "\n"


@dataclass(frozen=True, kw_only=True)
class Built:
    """A kernel's machine code, disassembled."""

    name: str
    """Name of the compiler, its level, and what it compiled."""
    instructions: tuple[str, ...]

    @property
    def listing(self) -> str:
        """One instruction a line."""
        return "\n".join(self.instructions) + "\n"


@dataclass(frozen=True, kw_only=True)
class MachineCode:
    """Where the machine code of a right and of a wrong build parts."""

    blocks: Sequence[Block] = ()
    """Part of a page."""
    files: Mapping[str, bytes] = field(default_factory=dict)


def machine_code(
    facts: ValueFacts, disassembler: Disassembler | None, asked: Sequence[Asked] = ()
) -> MachineCode:
    """Return what compilers make of a finding's kernel."""
    told = tuple(asked) or asked_of(facts.finding, "ptxas")
    if not told and not str(facts.finding.details.get("compiler", "")).startswith("ptxas"):
        return MachineCode()
    heading = Heading("Where the machine code parts")
    if disassembler is None:
        text = f"No nvdisasm is here: pip install {WHEEL}, and write the folder again."
        return MachineCode(blocks=[heading, Paragraph(text)])
    try:
        bad, good = _builds(facts, told, disassembler)
    except (UsageError, InfrastructureError) as error:
        return MachineCode(blocks=[heading, Paragraph(f"It is not shown: {error}.")])
    blocks = [heading, *_comparison(bad, good, disassembler)]
    files = {BAD: bad.listing.encode(), GOOD: good.listing.encode()}
    return MachineCode(blocks=blocks, files=files)


def _builds(
    facts: ValueFacts, asked: Sequence[Asked], disassembler: Disassembler
) -> tuple[Built, Built]:
    bad, good = pair_of(asked)
    if bad is None:
        match = re.fullmatch(r"ptxas (\S+) -O(\d)", str(facts.finding.details.get("compiler", "")))
        if match is None:
            raise UsageError("no compiler is recorded that makes it wrong")
        bad = Asked(version=match[1], level=int(match[2]), outcome=facts.finding.kind.value)
    wrong = _built(facts, bad, facts.kernel, bad.name, disassembler)
    if good is not None:
        return wrong, _built(facts, good, facts.kernel, good.name, disassembler)
    changed = with_own_results(facts.kernel)
    if changed.split() == facts.kernel.split():
        raise UsageError("every compiler is wrong, and the kernel has no multiplication to change")
    name = f"{bad.name}, with results in registers of their own (not run)"
    return wrong, _built(facts, bad, changed, name, disassembler)


def _built(
    facts: ValueFacts, asked: Asked, ptx: str, name: str, disassembler: Disassembler
) -> Built:
    module = facts.subject.module
    entry = module.kernels[0].entry
    compiler = _installed(asked.version).compiler(asked.level)
    text = KernelModule(
        ptx=ptx, target=module.target, version=module.version, kernels=module.kernels
    )
    made = compiler.compile(text, facts.built_for)
    if isinstance(made, Failure):
        raise InfrastructureError(f"{asked.name} does not compile it here: {made.line}")
    instructions = disassembler.instructions(made.code).get(entry)
    if not instructions:
        raise InfrastructureError(f"nvdisasm shows no instruction of {entry}")
    return Built(name=name, instructions=tuple(instructions))


def _installed(version: str) -> Assembler:
    name, variant = split_variant(version)
    for one in discover_assemblers().assemblers:
        if one.version == name:
            return one.having(variant)
    release = release_of(version)
    raise UsageError(
        f"ptxas {version} is not here; fetch it with `warpfuzz compilers fetch {release}`, and "
        "write the folder again"
    )


_COMPUTING = re.compile(r"(?:@!?U?P\w+ )?(?:[HIBDQO]MMA|[FHD](?:ADD|MUL|FMA)|F2F|IADD|MOVM)")
"""What may give another value: matrix multiplications, transpositions, additions, conversions."""
_REGISTER = re.compile(r"\bR\d+\b")


def _computing(built: Built) -> list[tuple[int, str]]:
    names: dict[str, str] = {}
    return [
        (
            at,
            _REGISTER.sub(
                lambda match: names.setdefault(match[0], f"r{len(names)}"),
                text.replace(".reuse", ""),
            ),
        )
        for at, text in enumerate(built.instructions)
        if _COMPUTING.match(text)
    ]


def _comparison(bad: Built, good: Built, disassembler: Disassembler) -> Iterator[Block]:
    pairs = list(zip_longest(bad.instructions, good.instructions))
    first = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
    yield Facts(
        [
            ("wrong", f"{bad.name}: {len(bad.instructions)} instructions, {BAD}"),
            ("right", f"{good.name}: {len(good.instructions)} instructions, {GOOD}"),
        ]
    )
    if first is None:
        yield Paragraph("Both are the same, instruction for instruction.")
        return
    yield Paragraph(
        f"Disassembled with nvdisasm {disassembler.version}; the first instruction that differs is "
        f"number {first + 1}."
    )
    yield from _excerpts((bad, first), (good, first))
    ends = (len(bad.instructions), ""), (len(good.instructions), "")
    among = zip_longest(_computing(bad), _computing(good))
    places = ((one or ends[0], other or ends[1]) for one, other in among)
    place = next(((one[0], other[0]) for one, other in places if one[1] != other[1]), None)
    if place is None:
        yield Paragraph("What computes is the same in both, but for the numbers of registers.")
    elif place != (first, first):
        yield Paragraph(
            "Of the instructions that compute, with registers named in the order in which they "
            f"come, the first that differs is number {place[0] + 1} of the wrong one and "
            f"{place[1] + 1} of the right one."
        )
        yield from _excerpts((bad, place[0]), (good, place[1]))


def _excerpts(*around: tuple[Built, int]) -> Iterator[Block]:
    """Yield instructions around some places of the wrong build and of the right one."""
    for title, (built, place) in zip(("wrong:", "right:"), around, strict=True):
        yield Paragraph(title)
        yield Listing(
            [
                Line(text=f"{at + 1:4d}  {text}", marked=at == place)
                for at, text in enumerate(built.instructions)
                if place - _BEFORE <= at <= place + _BEHIND
            ]
        )
