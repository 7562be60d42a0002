"""Explains a wrong result: searches a single change that gives exactly what the device returned.

Each cause changes the program, the arithmetic or the figures of the model in one way; the oracle
runs that, and a cause explains an image if every byte comes out as it was found. It is a help for
triage and for a reader, no proof. Causes that depend on how fragments lie in registers cannot be
tried, because only the device knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from oracle.errors import WarpfuzzError
from oracle.execution import run
from oracle.formats import Format
from oracle.forms import Form
from oracle.models import Figure, Model, model_for
from oracle.multiply import multiply
from oracle.operations import Operation
from oracle.ops import (
    MatrixAccess,
    Product,
    RowAccess,
    accesses_matrix,
    loads_fragment,
    loads_rows,
    multiplies_fragments,
)
from oracle.program import Program, walk
from oracle.steps import Branch, Elementwise, Step, changes_elements
from oracle.warps import Planes, Warps

_SIGNS = {"s8": "u8", "u8": "s8", "s4": "u4", "u4": "s4"}
_ROUNDINGS = ("rn", "rz", "rm", "rp")
_WORD_BITS, _HALF_BITS = 32, 16
"""Of a register, and of the shortest elements of which one may stand anywhere."""
Change = Callable[[Step], Step | None]
"""A step in, the step that is taken instead out; None leaves it out."""
_Kind = TypeVar("_Kind", bound=Step)


@dataclass(frozen=True, kw_only=True)
class _Cause:
    text: str
    program: Program
    model: Model
    warps: type[Warps] = Warps


def cause_of(
    program: Program,
    images: NDArray[np.uint8],
    actual: NDArray[np.uint8],
    *,
    target: str,
    among: Sequence[str] | None = None,
) -> str | None:
    """Return what explains images that came out wrong, in words; None if nothing here does.

    Several images are hardly ever explained by accident; one with little in it may be.

    Parameters
    ----------
    images, actual : uint8 (count, image_bytes)
        Before and after the program.
    target
        Whose model computes.
    among
        Those that are tried, in words; None: all that there are.
    """
    for cause in _causes(program, model_for(target)):
        if among is not None and cause.text not in among:
            continue
        made = np.array(images, order="C")
        try:
            with np.errstate(all="ignore"):
                run(cause.program.steps, cause.warps(cause.program, made, cause.model))
        except (WarpfuzzError, LookupError, ValueError):
            continue  # such a program cannot be run at all: it reads outside of its memory, say
        if np.array_equal(made, actual):
            return cause.text
    return None


def _causes(program: Program, model: Model) -> Iterator[_Cause]:
    misplaced = [(text, of(program)) for text, of in _MISPLACED]
    for text, change in (*_CHANGES, *misplaced):
        steps = _changed(program.steps, change)
        if steps != program.steps:
            yield _Cause(text=text, program=replace(program, steps=steps), model=model)
    for text, warps in _ARITHMETIC:
        yield _Cause(text=text, program=program, model=model, warps=warps)
    for text, other in _models(model):
        yield _Cause(text=text, program=program, model=other)


def _changed(steps: tuple[Step, ...], change: Change) -> tuple[Step, ...]:
    made = []
    for step in steps:
        inside = step.changed(
            **{field: _changed(part, change) for field, part in step.blocks.items()}
        )
        other = change(inside)
        if other is not None:
            made.append(other)
    return tuple(made)


# Changes of the program


def _each(kind: Callable[[Step], TypeGuard[_Kind]], change: Callable[[_Kind], Step]) -> Change:
    return lambda step: change(step) if kind(step) else step


def _branches(step: Step) -> TypeGuard[Branch]:
    return step.action == "branch"


def _access(operand: str, change: Callable[[MatrixAccess], Step]) -> Change:
    def changed(step: Step) -> Step:
        if accesses_matrix(step) and step.form.matrix().operand == operand:
            return change(step)
        return step

    return changed


def _flipped(step: MatrixAccess) -> Step:
    form = step.form.varied(layout="col" if step.form.layout == "row" else "row")
    return replace(step, form=form)


def _moved(lines: int) -> Callable[[MatrixAccess], Step]:
    return lambda step: _displaced(step, lines * step.tile.pitch)


def _further(step: MatrixAccess) -> Step:
    """Reach an address that is a word, or an element if that is longer, further."""
    return _displaced(step, max(_WORD_BITS, step.form.matrix().type.bits) // 8)


def _displaced(step: MatrixAccess, by: int) -> Step:
    place = step.memory.place
    return step.changed(place=replace(place, offset=place.offset + by))


def _restrided(lines_apart: int | None) -> Callable[[MatrixAccess], Step]:
    """Take a longer stride, by the fewest elements that fill a word; or the default one."""

    def change(step: MatrixAccess) -> Step:
        if lines_apart is None:
            return step.changed(stride=None, stride_in_register=False)
        bits = step.form.matrix().type.bits
        fewest = max(1, _WORD_BITS // bits) if bits < _HALF_BITS else 1
        return step.changed(stride=step.tile.elements + lines_apart * fewest)

    return change


def _misplaced(operand: str, other: str) -> Callable[[Program], Change]:
    def of(program: Program) -> Change:
        loads = (step for step in walk(program.steps) if loads_fragment(step))
        places = [load.memory.place for load in loads if load.form.matrix().operand == other][:1]
        return _access(operand, lambda step: step.changed(place=places[0]) if places else step)

    return of


def causes_of_load(operand: str) -> tuple[str, ...]:
    """Return the causes, in words, that lie in how one operand is loaded."""
    return (
        *(f"{operand} from where {other} is" for other in "abc" if other != operand),
        f"{operand} in the other layout",
        f"{operand} from another line",
        f"{operand} at another stride",
        f"{operand} from another address",
    )


def _multiplication(change: Callable[[Form], Form]) -> Change:
    return _each(multiplies_fragments, lambda step: replace(step, form=change(step.form)))


def _saturating(form: Form) -> Form:
    integer = not form.a_type.is_float and form.op is None
    return form.varied(satfinite="" if form.satfinite else "satfinite") if integer else form


def _rounding(rounding: str) -> Callable[[Form], Form]:
    def change(form: Form) -> Form:
        return form.varied(rnd=rounding) if form.a_type.name == "f64" else form

    return change


def _other_operation(form: Form) -> Form:
    return form if form.op is None else form.varied(op="and" if form.op == "xor" else "xor")


def _other_sign(operands: str) -> Change:
    def change(step: Step) -> Step:
        if loads_fragment(step):
            matrix = step.form.matrix()
            if matrix.operand in operands and matrix.type.name in _SIGNS:
                return replace(step, form=step.form.varied(type=_SIGNS[matrix.type.name]))
        elif multiplies_fragments(step) and step.form.a_type.name in _SIGNS:
            types = {f"{name}type": _SIGNS[step.form.type(name).name] for name in operands}
            return replace(step, form=step.form.varied(**types))
        return step

    return change


def _transposed(step: RowAccess) -> Step:
    form = step.form.varied(trans="" if step.form.transposed else "trans")
    return replace(step, form=form)


def _rows_at(address_of: Callable[[Sequence[int], int], int]) -> Change:
    def change(step: RowAccess) -> Step:
        there = step.memory.addresses
        return step.changed(addresses=tuple(address_of(there, lane) for lane in range(len(there))))

    return _each(loads_rows, change)


def _inverted(step: Branch) -> Step:
    return replace(step, then=step.otherwise, otherwise=step.then)


def _left_out(step: Elementwise) -> Step:
    return replace(step, operation=Operation.COPY, constant=0)


_CHANGES: tuple[tuple[str, Change], ...] = (
    *((f"{name} in the other layout", _access(name, _flipped)) for name in "abcd"),
    (".satfinite the other way", _multiplication(_saturating)),
    *(("another rounding mode", _multiplication(_rounding(mode))) for mode in _ROUNDINGS),
    ("the other of .xor and .and", _multiplication(_other_operation)),
    *(("signed for unsigned, or the reverse", _other_sign(names)) for names in ("ab", "a", "b")),
    *(
        (f"{name} from another line", _access(name, _moved(lines)))
        for name in "abc"
        for lines in (1, -1)
    ),
    *(
        (f"{name} at another stride", _access(name, _restrided(longer)))
        for name in "abc"
        for longer in (1, -1, None)
    ),
    *((f"{name} from another address", _access(name, _further)) for name in "abc"),
    *(("d to another line", _access("d", _moved(lines))) for lines in (1, -1)),
    ("rows transposed, or not", _each(loads_rows, _transposed)),
    ("rows from 16 bytes behind", _rows_at(lambda there, lane: there[lane] + 16)),
    (
        "the row addresses of neighbouring lanes exchanged",
        _rows_at(lambda there, lane: there[lane ^ 1]),
    ),
    ("a branch the other way", _each(_branches, _inverted)),
    ("an element-wise operation left out", _each(changes_elements, _left_out)),
)


_MISPLACED = tuple(
    (f"{name} from where {other} is", _misplaced(name, other))
    for name in "abc"
    for other in "abc"
    if name != other
)


# Changes of the arithmetic


class _WithoutC(Warps):
    def multiply(self, step: Product, *operands: Planes) -> Planes:
        a, b, c = (planes["bits"] for planes in operands)
        return {"bits": multiply(step.form, a, b, np.zeros_like(c), model=self.model)}


class _WithoutProduct(Warps):
    def multiply(self, step: Product, *operands: Planes) -> Planes:
        a, b, c = (planes["bits"] for planes in operands)
        if step.form.c_type == step.form.d_type:
            return {"bits": c}
        none = np.zeros_like(a), np.zeros_like(b)
        return {"bits": multiply(step.form, *none, c, model=self.model)}


class _Twice(Warps):
    def multiply(self, step: Product, *operands: Planes) -> Planes:
        a, b, _ = (planes["bits"] for planes in operands)
        once = super().multiply(step, *operands)["bits"]
        return {"bits": multiply(step.form, a, b, once, model=self.model)}


class _Exchanged(Warps):
    def multiply(self, step: Product, *operands: Planes) -> Planes:
        a, b, c = (planes["bits"] for planes in operands)
        return {"bits": multiply(step.form, b, a, c, model=self.model)}


class _Flushed(Warps):
    """Subnormals of some operands count as zero."""

    flushed: str

    def multiply(self, step: Product, *operands: Planes) -> Planes:
        a, b, c = (
            _flushed(planes["bits"], step.form.matrix(operand).type)
            if operand in self.flushed
            else planes["bits"]
            for operand, planes in zip("abc", operands, strict=True)
        )
        return {"bits": multiply(step.form, a, b, c, model=self.model)}


def _flushing(operands: str) -> type[Warps]:
    return type(f"_Flushed{operands.upper()}", (_Flushed,), {"flushed": operands})


class _FlushedResult(Warps):
    """Subnormal results are zero."""

    def multiply(self, step: Product, *operands: Planes) -> Planes:
        return {"bits": _flushed(super().multiply(step, *operands)["bits"], step.form.d_type)}


def _flushed(bits: NDArray[Any], type_: Format) -> NDArray[Any]:
    if not type_.is_float:
        return bits
    field = ((1 << type_.exponent_bits) - 1) << (type_.bits - 1 - type_.exponent_bits)
    sign = bits.dtype.type(1 << (type_.bits - 1))
    return np.where(bits & bits.dtype.type(field) == 0, bits & sign, bits)


_ARITHMETIC: tuple[tuple[str, type[Warps]], ...] = (
    *(
        ("subnormals flushed to zero", warps)
        for warps in (*map(_flushing, ("ab", "a", "b", "c", "abc")), _FlushedResult)
    ),
    ("C ignored", _WithoutC),
    ("the product left out", _WithoutProduct),
    ("the product added twice", _Twice),
    ("A and B exchanged", _Exchanged),
)


# Changes of the model's figures


def _models(model: Model) -> Iterator[tuple[str, Model]]:
    for length in (2, 4, 8, 16):
        yield "blocks of another length", _refigured(model, length=length)
    # Where zeros decide the alignment, one more bit and one exponent less are the same.
    for more in (-1, 1, -2, 2):
        yield "terms aligned otherwise", _refigured(model, kept=more)
    for more in (-1, 1):
        yield "terms aligned otherwise", _refigured(model, zero=more)


def _refigured(model: Model, *, length: int = 0, kept: int = 0, zero: int = 0) -> Model:
    """Return a model with another length of blocks, or with figures that are moved."""
    return replace(
        model,
        dots=tuple(
            replace(
                dot,
                block=replace(dot.block, value=length or dot.block.value),
                fraction_bits=_moved_figure(dot.fraction_bits, kept),
                zero_exponent=_moved_figure(dot.zero_exponent, zero),
            )
            for dot in model.dots
        ),
    )


def _moved_figure(figure: Figure[int], by: int) -> Figure[int]:
    return replace(figure, value=figure.value + by)
