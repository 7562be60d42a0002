"""Contents of images: classes of values that tell wrong arithmetic from right.

An image is a pure function of recipe, program and number. Only integers and exact or single
operations of IEEE 754 take part: the bits are the same on every machine.
"""

from strategies.contents.expansion import (
    Recipe,
    drawn_recipe,
    expand,
    expand_by_class,
    of_group,
    recipes,
)
from strategies.contents.fills import ValueClass

__all__ = [
    "Recipe", "ValueClass", "drawn_recipe", "expand", "expand_by_class", "of_group", "recipes",
]  # fmt: skip
