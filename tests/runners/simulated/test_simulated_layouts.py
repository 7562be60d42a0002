"""Fragments: every element is somewhere, and no layout is another one."""

from itertools import combinations, product

import numpy as np
import pytest
from simulated_kernels import VARIANTS

from runners.simulated.silicon import Layout, dimensions, opaque_layout

KINDS = sorted(
    {(role, form.shape.name, form.type(role).name) for form in VARIANTS for role in "abcd"}
)


@pytest.mark.parametrize("seed", [0, 1, 2, 99])
def test_every_element_is_held_equally_often(seed: int) -> None:
    for (role, shape, kind), order in product(KINDS, ("row", "col")):
        layout = opaque_layout(role, shape, kind, order, seed)
        rows, columns = dimensions(role, shape)
        counts = np.bincount(layout.slots.reshape(-1), minlength=rows * columns)
        assert counts.size == rows * columns, (role, shape, kind, order)
        assert (counts == counts[0]).all(), (role, shape, kind, order)
        if role in "ab" and kind == "f16":
            assert counts[0] * rows * columns == 512, (role, shape, kind, order)


def test_layouts_of_different_seeds_differ_in_every_fragment() -> None:
    for kind in KINDS:
        layouts = [opaque_layout(*kind, "row", seed).slots for seed in (0, 1, 2)]
        for one, other in combinations(layouts, 2):
            assert (one != other).any(), kind


@pytest.mark.parametrize("seed", [0, 1])
def test_row_and_column_major_fragments_differ_for_multiplicands_alone(seed: int) -> None:
    for kind in KINDS:
        row, column = (opaque_layout(*kind, order, seed).slots for order in ("row", "col"))
        assert bool((row != column).any()) == (kind[0] in "ab"), kind


def test_the_copy_that_counts_differs_between_layouts() -> None:
    first, second = (opaque_layout("a", "m16n16k16", "f16", "row", seed) for seed in (0, 1))

    def uses(layout: Layout) -> set[tuple[int, int]]:
        return set(zip(*(part.reshape(-1).tolist() for part in layout.homes), strict=True))

    assert len(uses(first)) == len(uses(second)) == 256
    assert uses(first) != uses(second)
