"""Every documented form assembles: each assembler, each PTX ISA version, each target.

All that the pages document for a version and a target stands in one module, which has to assemble
as a whole; only of a module that does not is every instruction judged. Each form is there in both
orders that the pages use, and below PTX ISA 6.3 with and without `.aligned`.

The assemblers are those of this machine, or the paths in WARPFUZZ_ASSEMBLERS (separated by ":").
By default a target is asked about the first and the last version of each stretch of versions that
give it the same forms; WARPFUZZ_SWEEP=all asks about every version. `pytest -m slow -s` shows what
was checked.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest

from corpus import Case, Kind
from corpus.finding import RunnerVerdict
from corpus.known import Known, load_known
from fuzz.findings.families import bucket_of
from oracle.isa.forms import Form
from oracle.isa.legality import Verdict, explain
from oracle.isa.lookup import FORMS, is_available, needs_aligned, spellings, warpgroup_forms
from oracle.isa.targets import TARGETS, VERSIONS, Module, PtxVersion, Target
from runners.assemblers.assembler import Assembler, identify
from runners.assemblers.judgements import Judgement, Response, assembly_module
from runners.assemblers.judging import ToolJudge, judge_module
from runners.compilers import discover_assemblers
from strategies.instructions import Draft, canonical

pytestmark = pytest.mark.slow

# A module of 1,400 instructions takes 1 s (ptxas 13.5, 2026-11); the rest is for busy machines.
_SECONDS = 120.0
_PER_ENTRY = 16
_ALIGNED_REQUIRED = PtxVersion(6, 3)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Look for assemblers only when the sweep is asked for."""
    if "assembler" in metafunc.fixturenames:
        expression = metafunc.config.option.markexpr
        wanted = "slow" in expression and "not slow" not in expression
        found = _assemblers() if wanted else []
        metafunc.parametrize("assembler", found, ids=lambda one: one.version)


def _assemblers() -> list[Assembler]:
    given = os.environ.get("WARPFUZZ_ASSEMBLERS")
    if given is None:
        return list(discover_assemblers().assemblers)
    return [identify(Path(path)) for path in given.split(":") if path]


@pytest.fixture(scope="module")
def known() -> Known:
    return load_known()


@cache
def available(version: PtxVersion, target: Target) -> tuple[Form, ...]:
    """Return the forms that the notes give to a version and a target."""
    every = (*FORMS, *warpgroup_forms())
    return tuple(form for form in every if is_available(form, Module(target, version)))


@cache
def documented(form: Form, before_aligned: bool) -> tuple[Draft, ...]:
    """Return the plainest instruction of a form in every documented spelling."""
    plain = canonical(form)
    found = []
    for slots in spellings(form):
        qualifiers = tuple((slot.name, slot.text) for slot in slots)
        found.append(replace(plain, qualifiers=qualifiers))
        if before_aligned and not needs_aligned(form, Module(TARGETS["sm_90"], VERSIONS[0])):
            without = tuple(pair for pair in qualifiers if pair[0] != "aligned")
            found.append(replace(plain, qualifiers=without))
    return tuple(found)


def drafts(version: PtxVersion, target: Target) -> dict[str, Draft]:
    """Return every documented spelling of every available form, by its text."""
    before = version < _ALIGNED_REQUIRED
    return {
        draft.text: draft
        for form in available(version, target)
        for draft in documented(form, before)
    }


def pairs(assembler: Assembler) -> list[tuple[PtxVersion, Target]]:
    """Return the versions and targets of an assembler under which there are forms at all."""
    found = []
    for target in (TARGETS[name] for name in assembler.targets if name in TARGETS):
        versions = [
            version
            for version in VERSIONS
            if version <= assembler.highest_version
            and available(version, target)
            and assembler.accepts(version, target.name)
        ]
        if os.environ.get("WARPFUZZ_SWEEP") != "all":
            stretches = groupby(
                versions,
                lambda v: (available(v, target), v < _ALIGNED_REQUIRED),  # noqa: B023
            )
            ends = [(some[0], some[-1]) for some in (list(group) for _, group in stretches)]
            versions = [version for end in ends for version in dict.fromkeys(end)]
        found += [(version, target) for version in versions]
    return found


def rejected(assembler: Assembler, version: PtxVersion, target: Target) -> list[Judgement]:
    """Return what became of the documented instructions that the assembler does not accept."""
    texts = list(drafts(version, target))
    module, _ = assembly_module(
        texts, per_entry=_PER_ENTRY, target=target.name, version=str(version)
    )
    verdict = judge_module(assembler, module, target=target.name, deadline=_SECONDS)
    if verdict.outcome is Response.ACCEPTED:
        return []
    judged = ToolJudge(assembler, target=target.name, version=str(version)).judge(texts)
    bad = [one for one in judged if one.outcome is not Response.ACCEPTED]
    assert bad, f"rejected only together, {len(texts)} instructions: {verdict.messages[:3]}"
    return bad


def case(assembler: Assembler, draft: Draft, judgement: Judgement) -> Case:
    """Return a rejection as a campaign would report it."""
    explanation = explain(draft.text, target=judgement.target, ptx_version=judgement.version)
    return Case(
        kind=Kind.REJECTED,
        identity=bucket_of(Kind.REJECTED, draft, explanation).identity,
        instructions=(draft.text,),
        target=judgement.target,
        ptx_version=judgement.version,
        runners=(RunnerVerdict(runner="ptxas", version=assembler.version, outcome="rejected"),),
    )


def test_the_assembler_takes_every_documented_form(assembler: Assembler, known: Known) -> None:
    asked = pairs(assembler)
    assert asked, f"{assembler} has no target with matrix instructions"
    count = 0
    explained: Counter[str] = Counter()
    unexplained = []
    for version, target in asked:
        made = drafts(version, target)
        count += len(made)
        for bad in rejected(assembler, version, target):
            entry = None
            if bad.outcome is Response.REJECTED:
                entry = known.match(case(assembler, made[bad.instruction], bad))
            if entry is None:
                unexplained.append(
                    f"{version} {target.name} {bad.outcome.name} {bad.instruction} {bad.normalised}"
                )
            else:
                explained[entry.id] += 1
    print(
        f"\n{assembler.version}: {len(asked)} pairs of version and target, {count} instructions, "
        f"{explained.total()} rejections explained {dict(explained)}, {len(unexplained)} not"
    )
    assert not unexplained, "\n".join(unexplained[:50])


def test_what_the_sweep_asks_about_is_legal() -> None:
    for version in VERSIONS:
        for target in TARGETS.values():
            for text in drafts(version, target) if Module(target, version).exists else ():
                judged = explain(text, target=target.name, ptx_version=str(version))
                assert judged.verdict is Verdict.LEGAL, judged


def test_the_assembler_knows_each_target_in_the_versions_of_its_row(assembler: Assembler) -> None:
    assert set(assembler.targets) <= set(TARGETS)
    wrong = [
        f"{version} {name}"
        for name in assembler.targets
        for version in VERSIONS
        if PtxVersion(6, 0) <= version <= assembler.highest_version
        and Module(TARGETS[name], version).exists
        and not assembler.accepts(version, name)
    ]
    assert not wrong
