"""Four causes of wrong code where operands share registers: written by hand, each one program.

Usage, on a GPU:

    python docs/shared_registers.py --compilers 12.4,12.5,12.8,13.0,13.5,driver --corpus FOLDER

Each program loads its operands, multiplies once and stores the result; the elements are small
integers, whose sums are exact in any order. Every compiler that reads the program's PTX ISA version
compiles it at every level. What comes out wrong is a finding in FOLDER, as one of
`warpfuzz run --compilers` is: with what each compiler does, named after what experiments show.
`warpfuzz corpus merge corpus/record FOLDER` puts them into the record that ships, and
`warpfuzz repro ID --corpus FOLDER` writes the folders for a vendor.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpus import Corpus, Origin, ShrinkStatus, create_corpus
from fuzz.checks.compiler_suspects import family_of, value_case, who_alone
from fuzz.compilers.members import Member, MemberRunner, Place, fitting, members_of, placed
from fuzz.diagnosis.culprit import culprit_of
from fuzz.diagnosis.experiments import ExperimentDevice
from fuzz.findings.case import Evidence, files_of
from fuzz.findings.families import form_name
from fuzz.findings.replay import REPLAYS, Attempt, Subject, attempt
from fuzz.output import generator
from fuzz.runner import RunnerChoice
from oracle.forms import Form
from oracle.isa import mma_form, mma_sync_form
from oracle.matrices import LANES
from oracle.operands import Registers
from oracle.ops import Op
from oracle.places import Buffer
from oracle.places import Place as At
from oracle.program import Program
from oracle.steps import Step, plain_load, plain_store
from oracle.targets import Module
from runners.compilers import all_fetched, fetched_compiler, parse_levels, select
from runners.emission import emit
from strategies.features import main_form
from strategies.programs.forms import access_form
from strategies.programs.single_instruction import exact_elements


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A multiplication whose operands share registers."""

    what: str
    form: Form
    version: str
    """PTX ISA version of its module."""
    a: str = "a"
    """Registers of A (`oracle.registers`), and likewise the others."""
    c: str = "c"
    d: str = "d"

    @property
    def program(self) -> Program:
        """Load A, B and C, multiply, store D."""
        names = {"a": self.a, "b": "b", "c": self.c, "d": self.d}
        if self.form.mnemonic == "wmma.mma":
            return _of_fragments(self.form, names)
        assert self.form.mnemonic == "mma"
        return _of_lanes(self.form, names)

    def image(self) -> NDArray[np.uint8]:
        """Return memory before the program: small integers wherever an operand is read."""
        program, random = self.program, np.random.default_rng(1)
        image = np.zeros(program.image_bytes, np.uint8)
        for operand in "abc":
            type_ = self.form.matrix(operand).type
            buffer = program.buffer(operand)
            start, count = program.offset(operand), buffer.size * 8 // type_.bits
            values = exact_elements(type_, (1, count), random, added=operand == "c")[0]
            image[start : start + buffer.size] = values.view(np.uint8)
        return image


def _of_fragments(form: Form, names: dict[str, str]) -> Program:
    layouts = {"a": form.a_layout, "b": form.b_layout, "c": "row"}
    steps: list[Step] = [
        Op.of(
            form=access_form(form.matrix(operand), layout, "global"), fragment=names[operand],
            place=At(buffer=operand),
        )
        for operand, layout in layouts.items()
    ]  # fmt: skip
    steps.append(Op.of(form=form, **names))
    store = access_form(form.matrix("d"), "row", "global")
    steps.append(Op.of(form=store, fragment=names["d"], place=At(buffer="d")))
    sizes = {name: _bytes(form, name) for name in "abcd"}
    return Program(buffers=_buffers(sizes), steps=tuple(steps))


def _bytes(form: Form, operand: str) -> int:
    matrix = form.matrix(operand)
    return matrix.rows * matrix.columns * matrix.type.bits // 8


def _of_lanes(form: Form, names: dict[str, str]) -> Program:
    held = {name: Registers.of(form.vector(name)) for name in "abcd"}

    def moved(name: str) -> dict[str, object]:
        return {
            "registers": names[name], "count": held[name].registers, "bits": held[name].bits,
            "place": At(buffer=name),
        }  # fmt: skip

    steps: list[Step] = [plain_load(**moved(name)) for name in "abc"]  # type: ignore[arg-type]
    steps.append(Op.of(form=form, **names))
    steps.append(plain_store(**moved("d")))  # type: ignore[arg-type]
    sizes = {name: LANES * 4 * form.words(name) for name in "abcd"}
    return Program(buffers=_buffers(sizes), steps=tuple(steps))


def _buffers(sizes: dict[str, int]) -> tuple[Buffer, ...]:
    return tuple(Buffer(name=name, space="global", size=size) for name, size in sizes.items())


_EIGHT_BITS = mma_sync_form("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32")
CAUSES = (
    Cause(
        what="wmma.mma with C in D's registers, reversed",
        form=mma_form("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"),
        version="7.8", c=" ".join(f"d.{number}" for number in reversed(range(8))),
    ),
    Cause(
        what="wmma.mma with D in the first half of A's registers",
        form=mma_form("wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16"),
        version="7.8", d=" ".join(f"a.{number}" for number in range(4)),
    ),
    Cause(
        what="mma.sync of e4m3 with C in D's registers, reversed",
        form=_EIGHT_BITS, version="8.4", c="d.3 d.2 d.1 d.0",
    ),
    Cause(what="mma.sync of e4m3 with C in D's registers", form=_EIGHT_BITS, version="8.4", c="d"),
)  # fmt: skip


def store_cause(cause: Cause, members: Sequence[Member], place: Place, corpus: Corpus) -> str:
    """Run a program with every compiler, store it if one is wrong, and say what came of it."""
    opened = place.opened
    assert opened is not None
    module = emit(cause.program, module=Module.named(place.target, cause.version))
    subject = Subject(module=module, program=cause.program, image=cause.image())
    tried: dict[Member, Attempt] = {}
    for member in members:
        if member.toolchain.knows(place.target, cause.version, place.architecture):
            tried[member] = attempt(MemberRunner(place.device, member), subject)
    wrong = [member for member, one in tried.items() if one.kind is not None]
    if not wrong:
        return f"right with all {len(tried)} compilers and levels"
    worst = max(wrong, key=lambda one: (one.level, members.index(one)))
    runner = MemberRunner(place.device, worst)
    attempts = [tried[worst], *(attempt(runner, subject) for _ in range(REPLAYS - 1))]
    kind = attempts[0].kind
    assert kind is not None
    name = form_name(main_form(cause.program))
    evidence = Evidence(
        kind=kind, family=family_of(kind, name, wrong, list(tried)), subject=subject,
        attempts=attempts,
    )  # fmt: skip
    culprit = culprit_of(ExperimentDevice(runner, module), cause.program, subject.image)
    evidence = evidence.named(culprit, who=who_alone(kind, wrong, list(tried)))
    case = value_case(
        evidence, opened, origin=Origin(seed=0, round=0, image=0), status=ShrinkStatus.COMPLETE,
        outcomes={
            member: "match" if one.kind is None else one.kind.value
            for member, one in tried.items()
        },
        wrong=worst,
    )  # fmt: skip
    saved = corpus.add(case, files_of(evidence))
    return f"{saved.id}: {evidence.family.title}; {case.details['disagree with the oracle']} wrong"


def main() -> None:
    """Run all four."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--compilers", default="installed")
    parser.add_argument("--opt", default="0,1,2,3", help="-O levels")
    parser.add_argument("--runner", choices=("cuda", "sim"), default="cuda")
    parser.add_argument("--corpus", type=Path, required=True)
    options = parser.parse_args()
    selected = all_fetched(select(options.compilers), fetched_compiler)
    members = members_of(selected, parse_levels(options.opt))
    corpus = create_corpus(options.corpus, generator=generator())
    with placed(RunnerChoice(name=options.runner)) as place:
        fit = fitting(members, place).members
        for cause in CAUSES:
            print(f"{cause.what}: {store_cause(cause, fit, place, corpus)}", flush=True)
    for member in members:
        member.close()


if __name__ == "__main__":
    main()
