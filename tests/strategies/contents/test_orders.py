"""Images in the order of their classes."""

from itertools import pairwise

import numpy as np
from content_programs import F16_F32, plain
from hypothesis import given
from hypothesis import strategies as st

from strategies.contents import expand, expand_by_class, recipes
from strategies.contents.expansion import by_class


@given(recipes(), st.integers(0, 500), st.integers(0, 1 << 40))
def test_every_image_is_there_once_and_those_of_a_class_stand_together(recipe, count, first):
    numbers = by_class(recipe, count, first=first)
    assert sorted(numbers.tolist()) == list(range(first, first + count))
    classes = [recipe.classes[number % len(recipe.classes)] for number in numbers.tolist()]
    changes = np.count_nonzero([one != other for one, other in pairwise(classes)])
    assert changes == len(set(classes)) - bool(classes)


@given(st.integers(0, 120), st.integers(0, 70), recipes())
def test_by_class_are_the_same_images_in_another_order(count, first, recipe):
    program = plain(F16_F32)
    images = np.full((count, program.image_bytes), 0xA5, np.uint8)
    numbers = expand_by_class(recipe, program, images, first=first)
    assert np.array_equal(numbers, by_class(recipe, count, first=first))
    assert np.array_equal(images, expand(recipe, program, count, first=first)[numbers - first])
