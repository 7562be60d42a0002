"""Rounds of a campaign: pure functions of seed, number and counts, broad first."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from oracle.errors import UsageError
from oracle.isa.lookup import is_available
from oracle.isa.targets import Module, PtxVersion
from oracle.program.program import requirements
from strategies import rounds as strategies_rounds
from strategies.draws import Selection, draw, draw_one, version_of_round, versions_up_to
from strategies.features import Focus
from strategies.programs import programs
from strategies.rounds import (
    EPOCH,
    GROUP_PROGRAMS,
    IMAGES,
    PROGRAMS,
    ProgramCoverage,
    campaign_rounds,
    epoch_known,
    images_per_program,
    round_batches,
    round_focuses,
    round_key,
    selected_forms,
)

TARGET, VERSION = "sm_90", "8.0"
SELECTED = selected_forms(Selection(), target=TARGET, version=VERSION)
SEEDS = st.integers(0, 2**64 - 1)
# Drawing programs takes a search of Hypothesis of its own.
NESTED = settings(suppress_health_check=[HealthCheck.nested_given, HealthCheck.too_slow])


def rounds(seed: int, count: int):
    made = campaign_rounds(SELECTED, target=TARGET, version=VERSION, seed=seed)
    return list(islice(made, count))


@settings(NESTED, max_examples=1)
@given(SEEDS)
def test_a_round_is_the_same_in_a_campaign_and_by_itself(seed: int) -> None:
    """Whoever knows the counts two epochs ago makes a round again, without those in between."""
    few = 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategies_rounds, "EPOCH", few)
        whole = rounds(seed, 2 * few + 1)
        assert [epoch_known(number) for number in (2 * few, few)] == [few, 0]
        for number in (2 * few, few, 0):
            reached = ProgramCoverage()
            for batches in whole[: epoch_known(number)]:
                for batch in batches:
                    reached.add(batch)
            again = round_batches(
                SELECTED,
                target=TARGET,
                version=VERSION,
                key=round_key(seed, number),
                focuses=round_focuses(
                    SELECTED, target=TARGET, seed=seed, number=number, reached=reached
                ),
                count=images_per_program(number),
            )
            assert list(again) == whole[number]


def test_the_focuses_of_a_round_know_nothing_of_its_own_epoch_and_the_last() -> None:
    assert [epoch_known(number) for number in range(0, 5 * EPOCH, EPOCH)] == [
        0, 0, EPOCH, 2 * EPOCH, 2 * EPOCH,
    ]  # fmt: skip
    known = [epoch_known(number) for number in range(3000)]
    assert known == sorted(known)
    assert not any(number % EPOCH for number in known)
    assert all(number - EPOCH >= known[number] for number in range(EPOCH, 3000))
    assert all(256 <= number - known[number] < 512 for number in range(512, 1024))
    # As many can be run at once as a thousand GPUs ask for, but no more late in a long campaign.
    late = range(1 << 16, 1 << 20, 977)
    assert all(1 << 14 <= number - epoch_known(number) < 1 << 15 for number in late)


def test_images_of_a_program_start_few_never_shrink_and_end() -> None:
    counts = [images_per_program(number) for number in range(2000)]
    assert counts == sorted(counts)
    assert counts[0] == 8
    assert counts[-1] == IMAGES
    # Every form has had a program before images grow.
    broad = counts.index(16) * PROGRAMS
    assert broad >= len(SELECTED)
    assert images_per_program(10**30) == IMAGES


DRAWN = versions_up_to(TARGET, PtxVersion(9, 0))


@settings(NESTED, max_examples=2)
@given(SEEDS)
def test_programs_have_all_images_unless_these_are_large(key: int) -> None:
    focuses = [Focus(form=SELECTED[key % len(SELECTED)]), Focus()] * 3
    batches = round_batches(
        SELECTED, target=TARGET, version=VERSION, key=key, focuses=focuses, count=64
    )
    for batch in batches:
        # Of programs with images of more than 4096 bytes fewer, but 8.
        assert batch.count == min(64, max(8, 64 * 4096 // batch.program.image_bytes))


def test_versions_go_from_the_first_that_knows_the_target_to_the_newest_that_is_read() -> None:
    assert " ".join(DRAWN.every) == "7.8 8.0 8.1 8.2 8.3 8.4 8.5 8.6 8.7 8.8 9.0"
    # 8.7 is the first with mma.sync m16n8k16 of e4m3, the last form that sm_90 has got.
    assert (DRAWN.main, str(DRAWN)) == ("8.7", "7.8 to 9.0")
    assert versions_up_to(TARGET, PtxVersion(8, 5)).main == "8.5"
    assert versions_up_to(TARGET, PtxVersion(9, 5), main=PtxVersion(8, 3)).main == "8.2"
    with pytest.raises(UsageError, match="known since"):
        versions_up_to("sm_100", PtxVersion(8, 5))


@settings(NESTED, max_examples=3)
@given(SEEDS)
def test_programs_have_the_version_of_their_round_or_the_oldest_that_has_their_form(
    seed: int,
) -> None:
    forms = selected_forms(Selection(), target=TARGET, version=DRAWN.every[-1])
    new = [form for form in forms if "e4m3" in form.opcode]
    focuses = [Focus(form=form) for form in (*new[:2], *new[-2:], SELECTED[0], SELECTED[-1])]
    of_round = version_of_round(DRAWN, seed)
    batches = list(
        round_batches(forms, target=TARGET, version=DRAWN, key=seed, focuses=focuses, count=8)
    )
    for batch in batches:
        there = [one for one in DRAWN.every if is_available(batch.form, Module.named(TARGET, one))]
        version = str(batch.module.version)
        assert version == (of_round if of_round in there else there[0])
        assert all(is_available(form, batch.module) for form in requirements(batch.program))
        # The same program as with that version alone.
        alone = round_batches(
            forms, target=TARGET, version=version, key=seed,
            focuses=[Focus(form=batch.form)] * len(focuses), count=8,
        )  # fmt: skip
        assert batch in list(alone)


WITH_GROUPS = selected_forms(Selection(), target=TARGET, version="8.7", groups=True)


def test_one_round_of_eight_ends_with_programs_of_warpgroups_and_all_others_stay_the_same() -> None:
    own = selected_forms(Selection(), target=TARGET, version="8.7")
    assert WITH_GROUPS[: len(own)] == own
    assert not any(form.warps > 1 for form in own)
    focuses = {
        number: [
            round_focuses(forms, target=TARGET, seed=7, number=number, reached=ProgramCoverage())
            for forms in (own, WITH_GROUPS)
        ]
        for number in range(64)
    }
    with_groups = [number for number, (alone, both) in focuses.items() if len(both) > len(alone)]
    assert 3 <= len(with_groups) <= 16
    for alone, both in focuses.values():
        assert both[: len(alone)] == alone
    number = with_groups[0]
    alone, both = (
        list(
            round_batches(
                forms, target=TARGET, version=DRAWN, key=round_key(7, number), focuses=some, count=8
            )
        )
        for forms, some in zip((own, WITH_GROUPS), focuses[number], strict=True)
    )
    assert both[: len(alone)] == alone
    assert {batch.module.target.name for batch in alone} == {TARGET}
    groups = both[len(alone) :]
    assert len(groups) == GROUP_PROGRAMS
    for batch in groups:
        assert batch.program.warps == 4
        assert batch.module.target.name == "sm_90a"
        assert all(is_available(form, batch.module) for form in requirements(batch.program))


def test_narrow_accumulators_of_warpgroups_come_more_often_and_all_come() -> None:
    pattern = "wgmma.mma_async.sync*.f32.f16.f16"
    forms = selected_forms(Selection(pattern=pattern), target="sm_90a", version="8.7")
    assert [form.shape.n for form in forms] == [*range(8, 264, 8)]
    reached = ProgramCoverage()
    for key in range(8 * len(forms)):
        (focus,) = reached.focuses(key, 1, forms)
        assert focus.form is not None
        reached.counts["main_forms"][focus.form.opcode] += 1
        if key == 2 * len(forms):
            early = [reached.counts["main_forms"][form.opcode] for form in forms]
    counts = [reached.counts["main_forms"][form.opcode] for form in forms]
    half = len(forms) // 2
    assert sum(early[:half]) > 2 * sum(early[half:])
    assert sum(counts[:half]) > 2 * sum(counts[half:])
    assert all(counts)


def test_rounds_of_selected_warpgroup_forms_have_nothing_else() -> None:
    only = Selection(pattern="wgmma*n8k*")
    forms = selected_forms(only, target=TARGET, version="8.7", groups=True)
    batches = list(round_batches(forms, target=TARGET, version="8.7", key=3, count=8))
    assert len(batches) == PROGRAMS
    assert {(batch.program.warps, batch.module.target.name) for batch in batches} == {(4, "sm_90a")}
    with pytest.raises(UsageError, match="no matrix instruction of sm_90 "):
        selected_forms(only, target=TARGET, version="8.7")


def test_forms_with_a_kind_are_dealt_as_all_others_in_modules_of_their_own() -> None:
    forms = selected_forms(Selection(), target="sm_120", version="8.7", groups=True)
    found = [
        batch
        for number in range(3)
        for batch in round_batches(
            forms, target="sm_120", version="8.7", key=round_key(5, number), count=8
        )
    ]
    of_kind = {bool(batch.form and batch.form.kind) for batch in found}
    assert of_kind == {False, True}
    for batch in found:
        suffix = "a" if batch.form is not None and batch.form.kind else ""
        assert batch.module.target.name == f"sm_120{suffix}"
        assert all(is_available(form, batch.module) for form in requirements(batch.program))


@pytest.mark.parametrize("key", range(2))
def test_a_program_is_the_second_that_hypothesis_draws(key: int) -> None:
    (focus,) = ProgramCoverage().focuses(key, 1, SELECTED)
    drawn = programs(focus, module=Module.named(TARGET, VERSION), forms=SELECTED)
    assert draw_one(drawn, key) == draw(drawn, 2, key)[-1]


def test_what_a_strategy_rejects_is_drawn_again() -> None:
    even = st.integers(0, 1 << 20).filter(lambda number: number % 2 == 0)
    assert all(draw_one(even, key) % 2 == 0 for key in range(5))


def test_a_strategy_that_rejects_everything_is_a_sentence() -> None:
    with pytest.raises(Unsatisfiable, match="rejected 1000 examples"):
        draw_one(st.integers().filter(lambda _: False), 1)
