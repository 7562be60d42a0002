"""Programs with their contents, for tests of your own: `strategies.samples`.

A sample is drawn, written as PTX and judged, which only this package may know all of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.bounds.permission import allowed_bytes, permitted
from oracle.isa.targets import DEFAULT_TARGET, Module
from oracle.program.program import Program, locate, walk
from runners.emission import emit
from strategies.contents import Recipe, expand
from strategies.rounds import Strategy, filled_programs


@dataclass(frozen=True, kw_only=True, repr=False)
class Sample:
    """A program, and what fills its images."""

    program: Program
    recipe: Recipe
    module: Module  # the target and the PTX ISA version that the program is for

    def images(self, count: int = 8) -> NDArray[np.uint8]:
        """Return what memory holds before the program: uint8 (count, program.image_bytes)."""
        return expand(self.recipe, self.program, count)

    @property
    def ptx(self) -> str:
        """The program as a PTX module, whose entry is `kernel`."""
        return emit(self.program, module=self.module).ptx

    def check(self, before: NDArray[np.uint8], after: NDArray[np.uint8]) -> None:
        """Check that the ISA permits what a device made of images, whatever it rounds and how.

        Parameters
        ----------
        before, after : uint8 (count, program.image_bytes)
            Images, and the same after the program.

        Raises
        ------
        AssertionError
            If a byte of an image is none that the target may return; the message names the first.
        UsageError
            If they have another dtype or shape.
        """
        permission = permitted(self.program, before, target=self.module.target.name)
        allowed = allowed_bytes(permission, after)
        if allowed.all():
            return
        image, byte = np.argwhere(~allowed)[0].tolist()
        place = locate(self.program, byte)
        where = f"byte {byte}" if place is None else f"byte {place.offset} of {place.buffer}"
        raise AssertionError(
            f"{np.count_nonzero(~allowed.all(axis=1))} of {len(before)} images are not what the "
            f"PTX ISA permits: image {image}, {where} is {after[image, byte]:#04x} ({self!r}; "
            "its attribute ptx has the module)"
        )

    def __repr__(self) -> str:
        """Return it in one line, for a test that fails; the whole of it is `program`."""
        steps = list(walk(self.program.steps))
        opcodes = list(dict.fromkeys(one.form.opcode for one in steps if hasattr(one, "form")))
        more = f" and {len(opcodes) - 2} more" if len(opcodes) > 2 else ""
        return (
            f"<Sample: {', '.join(opcodes[:2])}{more}; {len(steps)} steps, "
            f"{self.program.image_bytes} bytes an image, {self.module.target.name}, PTX ISA "
            f"{self.module.version}>"
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print it as IPython and Hypothesis do (hypothesis.vendor.pretty)."""
        printer.text(repr(self))


def samples(
    only: str = "*", *, target: str = DEFAULT_TARGET, ptx_version: str | None = None
) -> Strategy[Sample]:
    """Draw programs that the ISA defines, each with what fills its images.

    They shrink towards one instruction on matrices at the start of their buffers.

    Parameters
    ----------
    only
        Shell pattern of the opcodes that programs are about, such as "wmma.mma*f64".
    target
        Value of `.target`.
    ptx_version
        Value of `.version`, such as "8.4"; None: 8.0, or the first that knows the target.

    Raises
    ------
    UsageError
        If the target or the version is unknown, or the pattern selects nothing there.
    """
    module = Module.named(target, ptx_version)
    return filled_programs(only, module).map(
        lambda drawn: Sample(program=drawn[0], recipe=drawn[1], module=module)
    )
