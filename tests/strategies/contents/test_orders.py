"""Images in the order of their classes."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strategies.contents import by_class, recipes


@given(recipes(), st.integers(0, 500), st.integers(0, 1 << 40))
def test_every_image_is_there_once_and_those_of_a_class_stand_together(recipe, count, first):
    numbers = by_class(recipe, count, first=first)
    assert sorted(numbers.tolist()) == list(range(first, first + count))
    classes = [recipe.classes[number % len(recipe.classes)] for number in numbers.tolist()]
    changes = np.count_nonzero([one != other for one, other in pairwise(classes)])
    assert changes == len(set(classes)) - bool(classes)
