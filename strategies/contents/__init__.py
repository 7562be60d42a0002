"""Contents of images: classes of values that tell wrong arithmetic from right.

A recipe is drawn; its expansion to images is a pure function of recipe, program and the image's
number. Only integer arithmetic and floating-point operations that are exact, or single IEEE 754
operations in a fixed order, take part: the bits are the same on every machine.
"""

from strategies.contents.expansion import Recipe, expand, expand_by_class, recipes
from strategies.contents.fills import ValueClass

__all__ = ["Recipe", "ValueClass", "expand", "expand_by_class", "recipes"]
