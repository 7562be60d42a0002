"""Contents of images: classes of values that tell wrong arithmetic from right.

A recipe is drawn; its expansion to images is a pure function of recipe, program and the image's
number. Every byte is random first, gaps and guards included: the raw words of a counter-based
generator. Then the matrices that a program loads are filled in place, by masks and additions, so
that expansion is hardly slower than the generator. Only integer arithmetic and floating-point
operations that are exact, or single IEEE 754 operations in a fixed order, take part: the bits
are the same on every machine.

Which classes reveal what is measured by the tests (facts of the project, section 5): results of
f16 hardly move with ordinary inputs, and do where sums cancel or fall on ties.
"""

from strategies.contents.expansion import expand, expand_by_class
from strategies.contents.recipes import Recipe, ValueClass, recipes

__all__ = ["Recipe", "ValueClass", "expand", "expand_by_class", "recipes"]
