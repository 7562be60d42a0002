"""Binaries whose compiler expands an instruction otherwise are judged by its own figures."""

from dataclasses import replace

import numpy as np
import pytest
from answering import address
from matrix_rounds import report_of
from planted_ptxas import planted_ptxas

from corpus import Kind
from fuzz.compilers.members import Member
from fuzz.findings.verdicts import Subject, attempt
from fuzz.runner import without_figures
from oracle.isa.targets import Module
from oracle.models import Model, forget_models, model_for, use_model
from oracle.models.figures import releases_text
from runners.assemblers.assembler import identify
from runners.cuda.compilation import release_of
from runners.emission import emit
from runners.faults import by_name
from runners.protocol import Compiled
from runners.simulated_runner import SimulatedRunner
from strategies.contents import expand
from strategies.draws import Selection
from strategies.rounds import round_batches, round_key, selected_forms

PATTERN = "mma.*m16n8k32*f32.e5m2.e5m2.f32"
FORMS = selected_forms(Selection(pattern=PATTERN), target="sm_90", version="8.4")
APART = by_name("lanes-eight-bit-blocks-apart")


class Expanding(SimulatedRunner):
    """A device that runs code of 12.4 to 12.6 as these expand it, and other code as later ones."""

    def __init__(self) -> None:
        super().__init__("sm_90")
        self._older = SimulatedRunner("sm_90", faults=[APART])

    def compile_with(self, compiler, module):
        made = super().compile_with(compiler, module)
        if not isinstance(made, Compiled):
            return made
        release = release_of(made.compiler.removeprefix("ptxas "))
        return replace(made, release=release, key=f"{made.key} {release}", code=b"")

    def run(self, compiled, images, *, entry=None):
        older = compiled.release in ("12.4", "12.5", "12.6")
        return (self._older if older else super()).run(compiled, images, entry=entry)


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compilers")
    made = []
    for version in ("12.4", "12.8"):
        planted_ptxas(folder / version, version, [], levels=(3,), answering=address())
        made.append(Member(toolchain=identify(folder / version / "ptxas"), level=3))
    return tuple(made)


@pytest.fixture(autouse=True)
def built_in():
    yield
    forget_models()


def only(*ranges: str) -> Model:
    """The model of sm_90 with the rows of some ranges of compilers."""
    model = model_for("sm_90")
    units = [one for one in model.units if releases_text(one.compilers) in ("", *ranges)]
    return replace(model, units=tuple(units))


def without_ranges() -> Model:
    model = only("12.8 and later")
    return replace(model, units=tuple(replace(one, compilers=None) for one in model.units))


def report(members, **more):
    more = {"forms": FORMS, "limit": 24, **more}
    return report_of(Expanding(), members, version="8.4", images=8, **more)


def test_two_expansions_are_judged_by_the_figures_of_each(members) -> None:
    seen = report(members)
    assert not seen.suspects
    assert seen.compared == 24
    assert seen.counts["differences",] > 0  # the binaries do differ
    assert seen.counts["bounds alone",] == 0


def test_without_ranges_the_older_expansion_is_a_deviation(members) -> None:
    use_model(without_ranges())
    seen = report(members)
    assert {one.case and one.case.kind for one in seen.suspects.values()} == {Kind.DEVIATION}


def test_a_compiler_without_figures_is_judged_by_the_bounds_and_that_is_said(members) -> None:
    use_model(only("12.8 and later"))
    seen = report(members)
    assert not seen.suspects
    assert seen.counts["bounds alone",] > 0
    said = without_figures(FORMS, "sm_90@12.4", "ptxas V12.4.131")
    assert "for 1 form in code of ptxas V12.4.131" in said
    assert "judged by what the ISA permits alone" in said
    assert not without_figures(FORMS, "sm_90@12.8", "ptxas V12.8.93")


@pytest.mark.parametrize(
    ("release", "fault", "kind"),
    [
        ("12.4", APART.name, None),
        ("12.4", None, Kind.DEVIATION),
        ("unknown", APART.name, None),
        ("unknown", "lanes-c-registers-exchanged", Kind.VIOLATION),
    ],
)
def test_a_replay_is_judged_by_the_compiler_of_what_ran(release, fault, kind) -> None:
    class Made(SimulatedRunner):
        def compile(self, module):
            return replace(super().compile(module), release=release)

    batches = round_batches(FORMS, target="sm_90", version="8.4", key=round_key(1, 0), count=40)
    batch = next(iter(batches))
    module = emit(batch.program, module=Module.named("sm_90", "8.4"))
    runner = Made("sm_90", faults=[by_name(fault)] if fault else [])
    kinds = {
        attempt(runner, Subject(module=module, program=batch.program, image=image)).kind
        for image in np.array(expand(batch.recipe, batch.program, 40))
    }
    assert max(kinds, key=lambda one: "" if one is None else one.value, default=None) == kind
