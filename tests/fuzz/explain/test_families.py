"""Triage: a planted fault is one line for each unit, and different faults have different ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from repro_cases import VALUED, contents, half, multiplication, row_load

from corpus import Family, Kind
from fuzz.findings.causes import CausesOfRound, cause_of
from fuzz.findings.families import MOST_SEEN, Seen, family_of_difference, family_when_shrunk
from fuzz.findings.kinds import kind_of_difference
from fuzz.findings.verdicts import Difference, differences, judge
from oracle.execution import execute, run
from oracle.forms import LdmatrixForm, MmaForm
from oracle.isa import LDMATRIX_FORMS, mma_form
from oracle.operations import Operation
from oracle.program import Program
from oracle.steps import Multiply, Store
from runners.emission import emit
from runners.faults import CATALOGUE, Fault, Place, by_name
from runners.protocol import Compiled, Ran
from runners.ptx_pass import RewritingRunner
from runners.simulated_runner import SimulatedRunner
from strategies.contents import Recipe, ValueClass, expand

PLAIN_ROWS = tuple(form for form in LDMATRIX_FORMS if (form.rows, form.columns) == (8, 8))
IMAGES = 48
IN_PLACE = "d in the registers of a multiplicand"
SEVERAL = {
    "product-normalised-first": "where every product is 2 or more it is the same as a bit less",
    "accumulator-added-last": "with little in the inputs it is like other alignments, or C alone",
    "elementwise-register-missed": "what is missed depends on the operation",
    "elementwise-subtracts": "adding or subtracting zero differs in the sign of zero alone",
    "half-sum-ties-away": "where few ties are met, one bit more or less moves the same ones",
    "sum-rounded-to-nearest": "where few sums are cut, one bit more or less moves the same ones",
    "sum-rounded-up": "where few sums are cut, one bit more or less moves the same ones",
    "overflow-to-largest": "infinity - infinity is NaN, and largest - largest is not",
    "products-overflow-early": "infinity - infinity is NaN",
    "zero-negative": "negated, the sign of zero is what leaving the negation out gives",
    "ldmatrix-halves-exchanged": "in some forms it is the same as other row addresses",
}
"""Faults that have more than one line in a unit, and why."""


def programs_for(fault: Fault, generator: np.random.Generator) -> Iterable[tuple[object, Program]]:
    """Yield programs that hold something that a fault touches."""
    forms: list[MmaForm | LdmatrixForm] = [*VALUED, *PLAIN_ROWS]
    for index in generator.permutation(len(forms)).tolist():
        form = forms[index]
        if isinstance(form, LdmatrixForm):
            program = row_load(form)
        else:
            changes = [one for one in Operation if one.accepts(form.d_type)]
            some = (changes[int(generator.integers(len(changes)))],)
            program = multiplication(
                form,
                d_layout=str(generator.choice(["row", "col"])),
                changes=some if "elementwise" in fault.name else (),
            )
        if fault.applies(emit(program).ptx):
            yield form, program


def lines_of(fault: Fault, *, programs: int, seed: int = 5) -> tuple[dict[str, Counter[str]], int]:
    """Return the lines that a fault makes, by unit, and how many images came out wrong."""
    generator = np.random.default_rng(seed)
    inside = [fault] if fault.place is Place.DEVICE else []
    runner = RewritingRunner(
        SimulatedRunner("sm_90", faults=inside), [] if inside else [fault.rewrite]
    )
    lines: dict[str, Counter[str]] = defaultdict(Counter)
    wrong_images = found = 0
    classes = list(ValueClass)
    for form, program in programs_for(fault, generator):
        mixture = tuple(classes[i] for i in generator.permutation(len(classes))[:3])
        recipe = Recipe(classes=mixture, seed=int(generator.integers(1 << 30)))
        images = (
            contents(program, IMAGES, seed=int(generator.integers(1 << 20)))
            if isinstance(form, LdmatrixForm)
            else expand(recipe, program, IMAGES)
        )
        compiled = runner.compile(emit(program))
        assert isinstance(compiled, Compiled), compiled
        ran = runner.run(compiled, images)
        if not isinstance(ran, Ran):
            continue  # a fault may make a program read outside of its memory
        expected = execute(program, images).images
        wrong = np.flatnonzero((expected != ran.images).any(axis=1))
        if not len(wrong):
            continue
        wrong_images += len(wrong)
        seen = Seen(
            program=program, images=images[wrong[:MOST_SEEN]],
            actual=ran.images[wrong[:MOST_SEEN]], target="sm_90",
        )  # fmt: skip
        first = int(wrong[0])
        (verdict,) = judge(program, images[[first]], ran.images[[first]], target="sm_90")
        family = family_of_difference(
            verdict.kind, form, differences(program, expected[first], ran.images[first]), seen
        )
        kind, unit, what = family.key.split("/", 2)
        assert kind == verdict.kind
        assert family.title.startswith(f"{kind}: ")
        lines[unit][what] += 1
        found += 1
        if found == programs:
            break
    return lines, wrong_images


QUICK = (
    "store-layout-flipped", "store-one-row-off", "store-offset", "mma-b-register-slip",
    "accumulator-ignored", "multiplication-lost", "satfinite-dropped", "rounding-turned-round",
    "s8-as-u8", "xor-as-and", "trans-lost", "alignment-one-bit-less", "block-halved",
    "subnormals-flushed-in-a", "nan-negative", "zero-negative", "invalid-is-zero", "stuck-bit",
)  # fmt: skip


@pytest.mark.parametrize("name", QUICK)
def test_a_fault_is_one_line_in_each_unit(name: str) -> None:
    lines, wrong = lines_of(by_name(name), programs=4)
    assert wrong >= 20
    assert {unit: len(whats) for unit, whats in lines.items()} == dict.fromkeys(lines, 1)


def test_different_faults_have_different_lines() -> None:
    whats = {
        what
        for name in QUICK
        for unit in lines_of(by_name(name), programs=1)[0].values()
        for what in unit
    }
    # mma-b-register-slip and stuck-bit depend on what only the device knows: both are "other".
    assert len(whats) >= len(QUICK) - 2


@pytest.mark.slow
@pytest.mark.parametrize("fault", CATALOGUE, ids=lambda fault: fault.name)
def test_every_fault_of_the_catalogue_is_one_line_in_each_unit(fault: Fault) -> None:
    lines, _ = lines_of(fault, programs=8)
    if fault.name not in SEVERAL:
        assert all(len(whats) == 1 for whats in lines.values()), dict(lines)


def test_the_producer_is_what_made_the_element_and_not_what_comes_first() -> None:
    first = multiplication(half())
    other = mma_form("wmma.mma.sync.aligned.row.row.m8n32k16.s32.s8.s8.s32")
    second = multiplication(other)
    names = {buffer.name: f"x{buffer.name}" for buffer in second.buffers}
    program = Program(
        buffers=(*first.buffers, *(_renamed(buffer, names) for buffer in second.buffers)),
        steps=(*first.steps, *(_moved(step, names) for step in second.steps)),
    )
    image = np.zeros(program.image_bytes, np.uint8)
    expected = execute(program, image[None]).images[0]
    for buffer, form in (("gd", half()), ("xgd", other)):
        actual = expected.copy()
        actual[program.offset(buffer) + 4] ^= 1
        seen = Seen(program=program, images=image[None], actual=actual[None], target="sm_90")
        assert seen.producer is not None
        assert seen.producer.form == form
        found = differences(program, expected, actual)
        family = family_of_difference(Kind.VIOLATION, half(), found, seen)
        assert ("8-bit integers" in family.key) == (form == other)


@pytest.mark.parametrize("in_place", [False, True])
def test_results_in_the_registers_of_a_multiplicand_have_a_line_of_their_own(in_place) -> None:
    plain = multiplication(half())
    name = next(step.a for step in plain.steps if isinstance(step, Multiply)) if in_place else "d"
    steps = [
        replace(step, d=name) if isinstance(step, Multiply)
        else replace(step, fragment=name) if isinstance(step, Store)
        else step
        for step in plain.steps
    ]  # fmt: skip
    program = replace(plain, steps=tuple(steps))
    image = np.zeros(program.image_bytes, np.uint8)
    expected = execute(program, image[None]).images[0]
    actual = expected.copy()
    actual[program.offset("gd") : program.offset("gd") + 8] = [1, 2, 3, 4, 5, 6, 7, 8]
    seen = Seen(program=program, images=image[None], actual=actual[None], target="sm_90")
    found = differences(program, expected, actual)
    family = family_of_difference(Kind.VIOLATION, half(), found, seen)
    assert ("registers of a multiplicand" in family.key) == in_place
    # A finding that was made smaller is named after what is left of its program.
    other = Family(key="violation/wmma.mma of f16/other result", title="other")
    renamed = family_when_shrunk(Kind.VIOLATION, other, program, found)
    assert renamed.key == (family.key if in_place else other.key)
    explained = Family(key="violation/wmma.mma/as with C ignored", title="explained")
    assert family_when_shrunk(Kind.VIOLATION, explained, program, found) == explained
    # It was in such registers, and fails without: then that is not the matter.
    needless = Family(key=f"violation/wmma.mma of f16/{IN_PLACE}", title="needless")
    renamed = family_when_shrunk(Kind.VIOLATION, needless, program, found)
    assert (renamed.key == needless.key) == in_place
    assert in_place or renamed == family_of_difference(Kind.VIOLATION, half(), found)


def _renamed(buffer, names):
    return replace(buffer, name=names[buffer.name])


def _moved(step, names):
    place = getattr(step, "place", None)
    return (
        step if place is None else replace(step, place=replace(place, buffer=names[place.buffer]))
    )


@pytest.mark.parametrize(
    ("name", "explained"), [("accumulator-ignored", True), ("stuck-bit", False)]
)
def test_searches_for_a_cause_end_however_many_programs_of_a_round_fail(
    name: str, explained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = by_name(name)
    inside = [fault] if fault.place is Place.DEVICE else []
    runner = RewritingRunner(
        SimulatedRunner("sm_90", faults=inside), [] if inside else [fault.rewrite]
    )
    program = multiplication(half())
    images = contents(program, 8, seed=3)
    ran = runner.run(runner.compile(emit(program)), images)
    wrong = (execute(program, images).images != ran.images).any(axis=1)
    tried: list[int] = []

    def counted(steps, warps):
        tried[-1] += 1
        return run(steps, warps)

    monkeypatch.setattr("fuzz.findings.causes.run", counted)
    causes = CausesOfRound()
    found = []
    for _ in range(12):
        tried.append(0)
        found.append(causes.cause_of(program, images[wrong], ran.images[wrong], target="sm_90"))
    assert set(found) == {"C ignored" if explained else None}
    assert tried[0] > 10
    assert tried[-1] <= 1
    assert sum(tried) <= 4 * max(tried)


def test_what_is_right_has_no_cause() -> None:
    program = multiplication(half())
    images = contents(program, 4)
    actual = execute(program, images).images
    actual[:, program.offset("gd")] ^= 0x55
    assert cause_of(program, images, actual, target="sm_90") is None


def _differing(*pairs: tuple[int, int], bits: int = 32) -> list[Difference]:
    return [
        Difference(
            where=f"d[0, {column}]", byte=4 * column, row=0, column=column, expected=expected,
            actual=actual, bits=bits,
        )
        for column, (expected, actual) in enumerate(pairs)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([(0x7FFFFFFF, 0xFFFFFFFF)], "another NaN"),
        ([(0x7FFFFFFF, 0x3F800000)], "NaN against a number"),
        ([(0x7F800000, 0x7F7FFFFF)], "infinity against a number"),
        ([(0x00000000, 0x80000000)], "the sign of zero"),
        ([(0x3F800000, 0xBF800000)], "the sign"),
        ([(0x3F800000, 0x00000000)], "zero against a number"),
        ([(0x3F800001, 0x3F800000)], "last bit toward zero"),
        ([(0x3F800001, 0x3F800002)], "last bit away from zero"),
        ([(0x3F800001, 0x3F800000), (0x3F800001, 0x3F800009)], "a few last bits"),
        ([(0x3F800000, 0x3F900000)], "other values"),
        ([(5, 9), (9, 5)], "columns in each other's places"),
        ([(0x3F800000 + 256 * n, 0x3F900000 + 256 * n) for n in range(9)],
         "always the same bits flipped"),
        ([], "not recorded"),
    ],
)  # fmt: skip
def test_the_kind_of_a_difference_has_words(pairs: list[tuple[int, int]], words: str) -> None:
    assert kind_of_difference(_differing(*pairs), half()) == words


def test_bytes_outside_of_the_result_come_before_values() -> None:
    outside = Difference(
        where="byte 3 of gd", byte=3, row=-1, column=-1, expected=0, actual=1, bits=8
    )
    found = [*_differing((0, 1)), outside]
    assert kind_of_difference(found, half()) == "bytes outside of the result"
    family = family_of_difference(Kind.VIOLATION, half(), found)
    assert family.key == "violation/wmma.mma of f16/writes outside of its result"
