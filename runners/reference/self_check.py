"""Whether a built interpreter is right on a fixed set, before anything is compared with it.

A compiler may get it wrong as it may a program under test. So a product of each kind is executed on
images that are always the same, judged by the oracle; and one bit that is changed has to be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InfrastructureError
from oracle.execution import execute
from oracle.forms import Form
from oracle.isa import FORMS
from oracle.matrices import LANES
from oracle.models import model_for
from oracle.operands import Registers
from oracle.ops import Op
from oracle.places import Buffer, Place
from oracle.program import Program
from oracle.steps import Step, plain_load, plain_store
from runners.reference.encoding import Encoded, encode

IMAGES = 64
"""Of each product."""
_TARGET = "sm_90"
"""Whose figures the set has, on whatever device: they are only numbers to the interpreter."""
_ONE = 0x3C00
"""Exponent of 1 in f16: every second image has small numbers, the others any bits."""
_SPECIAL = 0x7FF0
"""Exponent of infinities and NaN in f64, and in all shorter formats of 16 bits and more."""
_CHANGED = 41
"""Image of which a bit is changed; any."""


LISTED = 64
"""Images that differ of which the numbers come back; beyond these, their count."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What a comparison found."""

    images: int
    """How many were compared."""
    differing: int
    """How many of them differ."""
    numbers: tuple[int, ...]
    """Some of those, in rising order."""

    @classmethod
    def of(cls, images: int, found: NDArray[np.uint64]) -> Compared:
        """Read what `compare` in the interpreter found in so many images."""
        differing = int(found[0])
        numbers = sorted(found[2 : 2 + min(differing, LISTED)].tolist())
        return cls(images=images, differing=differing, numbers=tuple(numbers))


Images = NDArray[np.uint8]
Compare = Callable[[Encoded, Images, Images], Compared]
"""Executes a program on images and compares with what else was made of them."""


def check(compare: Compare) -> int:
    """Try an interpreter; return how many images it was tried on.

    Raises
    ------
    InfrastructureError
        If it is wrong.
    """
    count = 0
    for form, program in _programs():
        encoded = encode(program, model_for(_TARGET))
        before = _images(program)
        after = execute(program, before, target=_TARGET).images
        found = compare(encoded, before, after)
        after[_CHANGED, program.offset("d")] ^= 1
        changed = compare(encoded, before, after)
        if found.differing or changed.numbers != (_CHANGED,) or changed.differing != 1:
            raise InfrastructureError(
                f"the reference on this device gets {form.opcode} wrong on images whose results "
                f"are known (of {IMAGES}: {found.numbers}; with one changed: {changed.numbers}); "
                "another driver may compile it rightly, so try one"
            )
        count += 2 * IMAGES
    return count


def _programs() -> Iterator[tuple[Form, Program]]:
    """Iterate over products of each kind: of its types, operation, rounding and overflow."""
    model, kinds = model_for(_TARGET), set()
    for form in FORMS:
        if not form.is_product or not model.judges(form):
            continue
        kind = (form.mnemonic, form.types, form.op, form.rounding, form.satfinite)
        if kind not in kinds and not (form.a_type.is_float and form.satfinite):
            kinds.add(kind)
            yield form, _program(form)


def _program(form: Form) -> Program:
    """Return plain loads of A, B and C, their product, and a plain store of D."""
    sparse = {"e": "e", "selector": 0} if form.is_sparse else {}
    product = Op.of(form, d="d", a="a", b="b", c="c", **sparse)
    steps: list[Step] = []
    buffers = []
    for use in (*product.reads, product.writes):
        assert use is not None
        place = Place(buffer=use.field)
        if isinstance(use.holds, Registers):
            access = plain_store if use.written else plain_load
            size = LANES * use.holds.words * 4
            step: Step = access(
                registers=use.name, count=use.holds.registers, bits=use.holds.bits, place=place
            )
        else:
            matrix = form.matrix(use.field)
            size = matrix.rows * matrix.columns * matrix.type.bits // 8
            step = Op.of(_access(form, use.field), fragment=use.name, place=place)
        if use.written:
            steps.append(product)
        steps.append(step)
        buffers.append(Buffer(name=use.field, space="global", size=size))
    return Program(buffers=tuple(buffers), steps=tuple(steps))


def _access(form: Form, operand: str) -> Form:
    """Return the wmma.load or wmma.store of an operand."""
    layout = {"a": form.a_layout, "b": form.b_layout}.get(operand, "row")
    mnemonic = "wmma.store" if operand == "d" else "wmma.load"
    wanted = form.matrix(operand)
    return next(
        one
        for one in FORMS
        if one.mnemonic == mnemonic
        and (one.matrix(), one.layout, one.space) == (wanted, layout, "global")
    )


def _images(program: Program) -> Images:
    rng = np.random.Generator(np.random.Philox(28))
    halves = rng.integers(0, 1 << 16, (IMAGES, program.image_bytes // 8, 4))
    halves[::2] = halves[::2] & 0x83FF | _ONE
    # Of every fourth image, one word of 64 bits in sixteen is infinite or NaN as a float.
    halves[1::4] |= _SPECIAL * (rng.integers(0, 16, halves[1::4, :, :1].shape) == 0)
    return halves.astype("<u2").view(np.uint8).reshape(IMAGES, program.image_bytes)
