"""Words that `nvcuda::wmma` has for fragments and instructions, and the programs that it can say.

Source: CUDA C++ Programming Guide, Warp Matrix Functions (Description, Element Types and Matrix
Sizes, Alternate Floating Point, Double Precision, Sub-byte Operations), and `crt/mma.h` of CUDA
13.0, whose specialisations of `fragment` and overloads of `mma_sync` are the same in 11.8.
"""

from __future__ import annotations

from oracle.isa.forms import Form
from oracle.isa.matrices import Matrix
from oracle.program.operands import Fragment
from oracle.program.ops import accesses_matrix, multiplies_fragments
from oracle.program.program import Program, walk
from oracle.program.steps import Step

POINTER_BYTES = 32
""""mptr must be a 256-bit aligned pointer" (load_matrix_sync, store_matrix_sync)."""
STRIDE_BYTES = 16
"""ldm "must be a multiple of 8 for __half element type or multiple of 4 for float element type
(i.e., multiple of 16 bytes in both cases)" (load_matrix_sync); taken for every type."""

_ELEMENTS = {
    "f16": "half",
    "bf16": "__nv_bfloat16",
    "tf32": "wmma::precision::tf32",
    "f32": "float",
    "f64": "double",
    "s8": "signed char",
    "u8": "unsigned char",
    "s4": "wmma::experimental::precision::s4",
    "u4": "wmma::experimental::precision::u4",
    "b1": "wmma::experimental::precision::b1",
    "s32": "int",
}
"""Element types of `fragment`, by formats."""
_STORED = {
    "tf32": "float",
    "s4": "int",
    "u4": "unsigned",
    "b1": "unsigned",
}
"""Types of `x[i]` where they are not the element types (`storage_element_type`)."""
_USES = {"a": "wmma::matrix_a", "b": "wmma::matrix_b", "c": "wmma::accumulator"}
_BIT_OPERATIONS = {
    "xor": "wmma::experimental::bmmaBitOpXOR",
    "and": "wmma::experimental::bmmaBitOpAND",
}


def fragment_type(matrix: Matrix, layout: str | None) -> str:
    """Return the C++ type of a fragment; `layout` is that of a multiplicand, else None."""
    shape = matrix.shape
    parameters = [_USES[matrix.operand], str(shape.m), str(shape.n), str(shape.k)]
    parameters.append(_ELEMENTS[matrix.type.name])
    parameters += [f"wmma::{layout}_major"] if layout else []
    return f"wmma::fragment<{', '.join(parameters)}>"


def stored_type(format_name: str) -> str:
    """Return the C++ type of a fragment's `x[i]`."""
    return _STORED.get(format_name, _ELEMENTS[format_name])


def pointer_type(format_name: str) -> str:
    """Return the C++ type of elements in memory, to which load and store take pointers."""
    # Of the packed formats they take `void*`.
    return "unsigned char" if format_name in ("s4", "u4", "b1") else stored_type(format_name)


def has_word(form: Form) -> bool:
    """Tell whether `mma_sync` or `bmma_sync` says a multiplication.

    It has `satf` for integers alone, and no rounding mode but that of f64's default, `.rn`.
    """
    if form.satfinite and form.d_type.is_float:
        return False
    return form.rounding in (None, "rn")


def multiplication(form: Form) -> tuple[str, list[str]]:
    """Return the function that multiplies, and its arguments behind d, a, b, c."""
    if form.op:
        return "wmma::bmma_sync", [_BIT_OPERATIONS[form.op]]
    return "wmma::mma_sync", ["true"] if form.satfinite else []


def _is_said(program: Program, step: Step) -> bool:
    if accesses_matrix(step):
        place = step.memory.place
        start = program.offset(place.buffer) + place.offset
        return start % POINTER_BYTES == 0 and step.tile.pitch % STRIDE_BYTES == 0
    return not multiplies_fragments(step) or has_word(step.form)


def layouts_of(program: Program) -> dict[tuple[str, Matrix], str] | None:
    """Return which layout each name of a multiplicand has; None if one has both.

    A `fragment` has it in its type; the steps on its elements leave it open.
    """
    steps = list(walk(program.steps))
    found: dict[tuple[str, Matrix], set[str]] = {}
    for step in steps:
        for use in step.uses:
            if isinstance(use.holds, Fragment) and use.holds.layout is not None:
                found.setdefault((use.name, use.holds.matrix), set()).add(use.holds.layout)
    changed = True
    while changed:
        changed = False
        for step in steps:
            if not step.changes:
                continue
            source, destination = step.uses
            if isinstance(source.holds, Fragment) and source.holds.any_layout:
                here = found.get((source.name, source.holds.matrix), set())
                there = found.setdefault((destination.name, source.holds.matrix), set())
                changed |= not here <= there
                there |= here
    if any(len(layouts) != 1 for layouts in found.values()):
        return None
    return {key: next(iter(layouts)) for key, layouts in found.items()}


def is_said(program: Program) -> bool:
    """Tell whether all that a program does with fragments has words and a meaning in the API."""
    return layouts_of(program) is not None and all(
        _is_said(program, step) for step in walk(program.steps)
    )
