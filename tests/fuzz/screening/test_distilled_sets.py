"""A set reaches what the programs from which it was chosen reach, and has what faults need."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
from small_sets import MODULE, MULTIPROCESSORS, distilled, programs_of

from fuzz.runner import RunnerChoice, opened
from fuzz.screening.screen import ScreenRun
from fuzz.screening.sets import ScreeningSet, candidates, chosen, reaches, read_set, write_set
from oracle.execution.execution import execute
from oracle.isa.lookup import warpgroup_forms
from oracle.models import model_for
from strategies.draws import Selection
from strategies.programs.loads import highest_load, is_largest
from strategies.rounds import selected_forms


def test_the_programs_that_are_chosen_reach_all_that_the_pool_does() -> None:
    forms = selected_forms(Selection(pattern="*"), target="sm_90", version="8.0")
    rounds = candidates(forms, MODULE, 3)
    pool = [batch for _ in range(2) for batch in next(rounds)]
    everything = frozenset[str]().union(*map(reaches, pool))
    some = chosen(pool, len(pool))
    assert frozenset[str]().union(*map(reaches, some)) == everything
    assert len(chosen(pool, 3)) == 3


def test_expected_images_are_the_oracles(small_set: ScreeningSet) -> None:
    for one in programs_of(small_set):
        expected = execute(one.program, one.references.images, target="sm_90").images
        assert np.array_equal(expected, one.references.expected)


def test_a_set_says_what_it_reaches_and_shows_every_fault_that_touches_it(
    small_set: ScreeningSet,
) -> None:
    covers = {line.name: line for line in small_set.description.covers}
    assert covers["forms"].reached == covers["forms"].total == 2
    assert small_set.description.model == model_for("sm_90").name
    assert len(small_set.programs) == 2
    faults = covers["planted faults"]
    assert faults.total > 3
    # One in 20,000 is not to be seen in two dozen images.
    assert set(faults.missing) <= {"transient-rare", "stuck-bit-on-one-sm", "transient-often"}


def test_a_seed_makes_the_same_set_again(small_set: ScreeningSet) -> None:
    again = distilled()
    assert again.description == small_set.description
    for one, other in zip(again.programs, small_set.programs, strict=True):
        assert one.program == other.program
        assert (one.recipe, one.count) == (other.recipe, other.count)
    assert distilled(seed=1).programs[0].program != small_set.programs[0].program


def test_a_set_of_warpgroups_has_a_program_of_each_family_and_runs_in_modules_of_its_own(
    tmp_path: Path,
) -> None:
    made = distilled(pattern="wgmma*n[18]*k16.f32*")
    covers = {line.name: line for line in made.description.covers}
    assert covers["forms"].reached == covers["forms"].total == len(made.programs) == 2
    assert covers["planted faults"].reached
    write_set(tmp_path / "groups.set", made)
    read = read_set(tmp_path / "groups.set")
    with opened(RunnerChoice(name="sim", target="sm_90")) as ready:
        screen = ScreenRun(ready, read.description)
        for one in programs_of(read):
            assert one.program.warps == 4
            assert one.module.target.name == "sm_90a"
            screen.add(one)
        for _ in read.programs:
            screen.step()
        screen.finish()
    assert screen.tally.multiprocessors.size == MULTIPROCESSORS
    assert screen.tally.total.cases >= MULTIPROCESSORS * read.images
    assert not screen.tally.total.wrong


def test_the_largest_multiplications_of_a_gpu_are_the_highest_loads_and_alone_where_asked() -> None:
    loads_of = [*map(highest_load, filter(is_largest, warpgroup_forms()))]

    def drawn(pattern: str, *, loads: bool = True) -> list[list[bool]]:
        selection = Selection(pattern=pattern)
        forms = selected_forms(selection, target="sm_90", version="8.0", groups=True)
        some = islice(candidates(forms, MODULE, 1, loads=loads), 3)
        return [[batch.program in loads_of for batch in batches] for batches in some]

    assert drawn("wgmma*n256k16*") == [[True]] * 3
    mixed = drawn("*")
    assert [row.count(True) for row in mixed] == [1, 1, 1]
    assert all(len(row) > 1 for row in mixed)
    assert not any(map(any, drawn("wgmma*n256k16*", loads=False)))
