"""Writes the native code of fills: the shapes of all fills of the forms, and of words and rows.

    python -m strategies.contents.native_writer runners/reference/native.h

writes that header, and `native_shapes.py` beside this module.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from oracle.isa import FORMS
from oracle.ops import product_of
from oracle.program import Program
from strategies.contents import native, native_shapes
from strategies.contents.device import native_texts
from strategies.contents.plans import plan_of
from strategies.programs.single_instruction import buffers_of, single_instruction

_SHAPES = Path(native_shapes.__file__)


def texts() -> list[str]:
    """Return the text of each shape, in the order of `SHAPES`."""
    found = dict.fromkeys(_found())
    return sorted(found, key=native.name_of)


def _found() -> Iterator[str]:
    """Iterate over the shapes of the fills of each multiplication alone."""
    for form in FORMS:
        if not form.is_product:
            continue
        steps = single_instruction(product_of(form))
        program = Program(buffers=buffers_of(steps), steps=steps)
        for filling in plan_of(program).fillings:
            for fills in filling.fills.values():
                for fill in fills:
                    yield from native_texts(fill, filling.window)


def main() -> None:
    """Write the header that is named, and the shapes."""
    made = texts()
    Path(sys.argv[1]).write_text(native.header(made), encoding="utf-8")
    names = "".join(f'    "{native.name_of(one)}",\n' for one in made)
    _SHAPES.write_text(
        '"""Shapes of fills that native.h has code of, in its order; by native_writer."""\n\n'
        f"SHAPES = (\n{names})\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
