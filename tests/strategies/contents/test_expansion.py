"""Images depend on recipe, program and their number alone, and fill what a program reads."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import program_draws
import pytest
from content_programs import F16_F32, S8, long, plain, recipe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oracle.errors import UsageError
from oracle.isa.forms import Form
from oracle.isa.lookup import LDMATRIX_FORMS, form_of
from oracle.layouts import read
from oracle.program.operands import Buffer, Place
from oracle.program.program import Program
from oracle.program.steps import Barrier, Copy, Op, loads_fragment, plain_load
from strategies.contents import Recipe, ValueClass, expand, expand_by_class, recipes
from strategies.contents.expansion import by_class
from strategies.contents.plans import readings_of

ALL = tuple(ValueClass)
SLOW = settings(max_examples=30, suppress_health_check=list(HealthCheck))


@SLOW
@given(program_draws.programs(), recipes(), st.integers(0, 80), st.integers(0, 60))
def test_an_image_depends_on_its_number_and_not_on_the_batch(
    program: Program, drawn: Recipe, first: int, count: int
) -> None:
    whole = expand(drawn, program, first + count)
    assert whole.shape == (first + count, program.image_bytes)
    assert whole.dtype == np.uint8
    assert np.array_equal(whole[first:], expand(drawn, program, count, first=first))


def test_classes_are_dealt_out_in_turn() -> None:
    mixed = expand(recipe(*ALL, seed=9), plain(S8), 3 * len(ALL))
    for slot, class_ in enumerate(ALL):
        # The place of a class in the recipe is part of its key.
        alone = Recipe(classes=(*ALL[:slot], class_), seed=9)
        assert np.array_equal(mixed[slot], expand(alone, plain(S8), slot + 1)[slot]), class_


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(UsageError, match="must not be negative"):
        expand(recipe(*ALL), plain(F16_F32), -1)
    with pytest.raises(UsageError, match="must not be negative"):
        expand(recipe(*ALL), plain(F16_F32), 1, first=-1)
    with pytest.raises(UsageError, match="no class of values"):
        expand(recipe(), plain(F16_F32), 1)
    with pytest.raises(UsageError, match="must lie in 0"):
        expand(recipe(*ALL, seed=1 << 64), plain(F16_F32), 1)


@given(st.data(), st.permutations(ALL), st.integers(0, len(ALL)))
def test_wanted_classes_come_first(
    data: st.DataObject, order: list[ValueClass], count: int
) -> None:
    wanted = tuple(order[:count])
    drawn = data.draw(recipes(wanted))
    assert drawn.classes[:count] == wanted
    rest = drawn.classes[count:]
    assert list(rest) == [class_ for class_ in ALL if class_ in rest]


def _values(raw: np.ndarray, dtype: type) -> np.ndarray:
    return raw.view(dtype).astype(np.float64)


def test_c_fits_a_and_b_of_its_product_whatever_their_names_and_however_they_are_loaded() -> None:
    program, places = long().program, long().places
    images = expand(recipe(ValueClass.CANCELLING), program, 60)
    raw = {name: np.array(read(images, start, tile)) for name, (start, tile) in places.items()}
    a = _values(raw["q"], np.float16)
    for b, c in (("x", "y"), ("z", "w")):
        total = a @ _values(raw[b], np.float16) + _values(raw[c], np.float32)
        assert np.array_equal(
            _values(raw[c], np.float32), -(a @ _values(raw[b], np.float16)).astype(np.float32)
        )
        assert 0 < np.abs(total).max() < 2.0**-10


def test_every_load_of_any_program_is_filled_as_its_class_has_it() -> None:
    program, places = long().program, long().places
    images = expand(recipe(ValueClass.NORMAL), program, 20)
    for start, tile in places.values():
        raw = np.array(read(images, start, tile))
        values = np.abs(_values(raw, np.float16 if tile.matrix.type.bits == 16 else np.float32))
        assert values.min() >= 0.25
        assert values.max() < 4


def test_a_matrix_that_is_loaded_twice_is_filled_once_and_one_that_overlaps_later_wins() -> None:
    program = plain(F16_F32)
    first = next(step for step in program.steps if loads_fragment(step))
    twice = Program(buffers=program.buffers, steps=(first, *program.steps))
    mirrored = recipe(ValueClass.MIRRORED)
    assert np.array_equal(expand(mirrored, program, 9), expand(mirrored, twice, 9))
    # C over A: still the same bits for each number, and C is what its class has.
    buffers = (Buffer(name="g", space="global", size=4096),)
    steps = tuple(
        Op.of(
            form=step.form, fragment=step.names["fragment"], place=Place(buffer="g", offset=offset)
        )
        for step, offset in zip(
            (step for step in program.steps if loads_fragment(step)), (0, 512, 256), strict=True
        )
    )
    over = Program(buffers=buffers, steps=(*steps, *program.steps[3:4]))
    images = expand(recipe(ValueClass.NORMAL), over, 9)
    c = images[:, 256 : 256 + 1024].copy().view(np.float32)
    assert 0.25 <= np.abs(c).min() <= np.abs(c).max() < 4


@pytest.mark.parametrize("form", [one for one in LDMATRIX_FORMS if one.registers == 1], ids=str)
def test_padding_of_ldmatrix_comes_from_nowhere(form: Form) -> None:
    """An operand that has any is no matrix of the image; without any, it is."""
    product = form_of("mma.sync.aligned.m8n8k16.row.col.s32.u8.u8.s32")
    out = Place(buffer="out")
    steps = (
        Copy(source=out, destination=Place(buffer="tile"), size=512),
        Barrier(),
        Op.of(form=form, registers="a", buffer="tile", addresses=tuple(range(0, 512, 16))),
        plain_load(registers="b", count=1, place=out),
        plain_load(registers="c", count=2, place=out),
        Op.of(form=product, d="d", a="a", b="b", c="c"),
    )
    buffers = (
        Buffer(name="out", space="global", size=512), Buffer(name="tile", space="shared", size=512),
    )  # fmt: skip
    ((_, (a, b, _)),) = readings_of(Program(buffers=buffers, steps=steps)).products
    assert (a is None) == bool(form.texts["src_fmt"])
    assert b is not None


@given(recipes(), st.integers(0, 500), st.integers(0, 1 << 40))
def test_every_image_is_there_once_and_those_of_a_class_stand_together(recipe, count, first):
    numbers = [number for _, own in by_class(recipe, count, first=first) for number in own]
    assert sorted(numbers) == list(range(first, first + count))
    classes = [recipe.classes[number % len(recipe.classes)] for number in numbers]
    changes = np.count_nonzero([one != other for one, other in pairwise(classes)])
    assert changes == len(set(classes)) - bool(classes)


@given(st.integers(0, 120), st.integers(0, 70), recipes())
def test_by_class_are_the_same_images_in_another_order(count, first, recipe):
    program = plain(F16_F32)
    images = np.full((count, program.image_bytes), 0xA5, np.uint8)
    numbers = expand_by_class(recipe, program, images, first=first)
    assert numbers.tolist() == [n for _, own in by_class(recipe, count, first=first) for n in own]
    assert np.array_equal(images, expand(recipe, program, count, first=first)[numbers - first])
