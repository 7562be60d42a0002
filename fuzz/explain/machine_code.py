"""What compilers make of a finding's kernel: which get it right, and where machine code differs.

A binary that comes out right and one that comes out wrong are built again by the assemblers that
are here, and disassembled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

import msgspec

from corpus import Finding
from fuzz.explain.document import Block, CodeLine, CodeListing, FactTable, Heading
from fuzz.explain.values import ValueFacts
from fuzz.findings.families import Asked, asked_of
from oracle.errors import InfrastructureError, UsageError
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


class _BisectedCell(msgspec.Struct):
    outcome: str
    bad: bool
    reason: str | None = None


class _BisectedLevel(msgspec.Struct):
    level: int
    versions: dict[str, _BisectedCell]


class _Bisected(msgspec.Struct):
    id: str
    levels: list[_BisectedLevel]


class _BisectedLine(msgspec.Struct):
    bisect: _Bisected | None = None


def asked_by_bisection(path: Path, finding: Finding) -> tuple[Asked, ...]:
    """Return what each ptxas did, from a file with what `warpfuzz bisect --json` printed.

    Raises UsageError if the file holds no such answers, or those of another finding.
    """
    wanted = f"what `warpfuzz bisect {finding.id} --json` prints"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = [msgspec.json.decode(line, type=_BisectedLine) for line in lines if line.strip()]
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise UsageError(
            f"{path} cannot be read as {wanted} ({error}); write that to a file and name it"
        ) from None
    told = next((row.bisect for row in rows if row.bisect is not None), None)
    if told is None:
        raise UsageError(
            f'{path} has no line that begins with {{"bisect": …}}, and so is not {wanted}; '
            "write that to a file and name it"
        )
    if told.id != finding.id:
        raise UsageError(f"{path} holds answers about {told.id}, and this is {finding.id}")
    return tuple(
        Asked(version=version, level=one.level, outcome=cell.outcome if cell.bad else _RIGHT)
        for one in told.levels
        for version, cell in one.versions.items()
        if cell.reason is None
    )


def pair_of(asked: Sequence[Asked]) -> tuple[Asked, Asked] | None:
    """Return a compiler that is wrong and one that is right, as near to each other as there are.

    Neighbouring versions at one level tell more than levels of one version, and high levels more
    than low ones. None where there is no such pair.
    """
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
) -> tuple[Sequence[Block], Mapping[str, bytes]]:
    """Return the part of a page about a finding's machine code, and its files by name."""
    told = tuple(asked) or asked_of(facts.finding, "ptxas")
    if not told and not str(facts.finding.details.get("compiler", "")).startswith("ptxas"):
        return (), {}
    heading = Heading("Where the machine code parts")
    if disassembler is None:
        text = f"No nvdisasm is here: pip install {WHEEL}, and write the folder again."
        return (heading, text), {}
    try:
        pair = pair_of(told)
        if pair is None:
            raise UsageError("of the compilers that were asked none is right, or none is wrong")
        bad, good = (_instructions(facts, one, disassembler) for one in pair)
    except (UsageError, InfrastructureError) as error:
        return (heading, f"It is not shown: {error}."), {}
    files = {name: ("\n".join(some) + "\n").encode() for name, some in ((BAD, bad), (GOOD, good))}
    builds = (("wrong", pair[0], bad, BAD), ("right", pair[1], good, GOOD))
    table = FactTable(
        [(how, f"{one.name}: {len(some)} instructions, {file}") for how, one, some, file in builds]
    )
    return (heading, table, *_comparison(bad, good, disassembler.version)), files


def _instructions(facts: ValueFacts, asked: Asked, disassembler: Disassembler) -> Sequence[str]:
    module, version = facts.subject.module, asked.version
    name, variant = split_variant(version)
    here = (one for one in discover_assemblers().assemblers if one.version == name)
    if (assembler := next(here, None)) is None:
        raise UsageError(
            f"ptxas {version} is not here; fetch it with `warpfuzz compilers fetch "
            f"{release_of(version)}`, and write the folder again"
        )
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


def _comparison(bad: Sequence[str], good: Sequence[str], version: str) -> Iterator[Block]:
    pairs = enumerate(zip_longest(bad, good))
    first = next((at for at, (one, other) in pairs if one != other), None)
    if first is None:
        yield "Both are the same, instruction for instruction."
        return
    yield (
        f"Disassembled with nvdisasm {version}; the first instruction that differs is number "
        f"{first + 1}."
    )
    for title, code in (("wrong:", bad), ("right:", good)):
        yield title
        start = max(0, first - _BEFORE)
        near = enumerate(code[start : first + _BEHIND + 1], start)
        yield CodeListing(
            [CodeLine(text=f"{at + 1:4d}  {one}", marked=at == first) for at, one in near]
        )
