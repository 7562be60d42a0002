"""What the PTX ISA says of an instruction, in its own words, with the section."""

from __future__ import annotations

from oracle.forms import (
    FRAGMENTS,
    LDMATRIX,
    MMA,
    MMA_SYNC,
    MOVMATRIX,
    STMATRIX,
    STORAGE,
    LdmatrixForm,
    MainForm,
    MmaForm,
    MmaSyncForm,
    MovmatrixForm,
    StmatrixForm,
)

_UNSPECIFIED = "The accumulation order, rounding and handling of subnormal inputs is unspecified."
_HALF = (
    "Element-wise multiplication of matrix A and B is performed with at least single precision. "
    "When `.ctype` or `.dtype` is `.f32`, accumulation of the intermediate values is performed "
    "with at least single precision. When both `.ctype` and `.dtype` are specified as `.f16`, the "
    "accumulation is performed with at least half precision."
)
_ALTERNATE = (
    "Element-wise multiplication of matrix A and B is performed with specified precision. "
    "Accumulation of the intermediate values is performed with at least single precision."
)
_DOUBLE = {
    None: "Rounding modifiers on double precision `wmma.mma` (default is `.rn`)",
    "rn": "`.rn`: mantissa LSB rounds to nearest even",
    "rz": "`.rz`: mantissa LSB rounds towards zero",
    "rm": "`.rm`: mantissa LSB rounds towards negative infinity",
    "rp": "`.rp`: mantissa LSB rounds towards positive infinity",
}
_SATURATED = (
    "The output is clamped to the minimum or maximum 32-bit signed integer value. Otherwise, if "
    "the accumulation would overflow, the value wraps."
)
_COUNTED = (
    "For single-bit `wmma`, multiplication is replaced by a sequence of logical operations; "
    "specifically, `wmma.xor.popc` and `wmma.and.popc` computes the XOR, AND respectively of a "
    "128-bit row of A with a 128-bit column of B, then counts the number of set bits in the result "
    "(`popc`). This result is added to the corresponding element of C and written into D."
)
_PERFORM = (
    "Perform a warp-level matrix multiply-and-accumulate computation `D = A * B + C` using "
    "matrices A, B and C loaded in registers `a`, `b` and `c` respectively, and store the result "
    "matrix in register `d`."
)
_ROWS = (
    "Collectively load one or more matrices across all threads in a warp from the location "
    "indicated by the address operand `p`, from `.shared` state space into destination register "
    "`r`."
)
_PIECES = (
    "Each thread in a warp loads fragments of a row, with thread 0 receiving the first fragment in "
    "its register `r`, and so on. A group of four threads loads an entire row of the matrix"
)


_LANES = (
    "Perform a MxNxK matrix multiply and accumulate operation, D = A*B+C, where the A matrix is "
    "MxK, the B matrix is KxN, and the C and D matrices are MxN."
)
_COUNTED_LANES = (
    "For single-bit mma.sync, multiplication is replaced by a sequence of logical operations; "
    "specifically, mma.xor.popc and mma.and.popc computes the XOR, AND respectively of a k-bit row "
    "of A with a k-bit column of B, then counts the number of set bits in the result (popc)."
)
_STORED_ROWS = (
    "Collectively store one or more matrices across all threads in a warp to the location "
    "indicated by the address operand p, in .shared state space."
)
_TRANSPOSED = (
    "Move a row-major matrix across all threads in a warp, reading elements from source a, and "
    "writing the transposed elements to destination d."
)


def sentences_about(form: MainForm | None) -> tuple[tuple[str, str], ...]:
    """Return pairs of a section of the PTX ISA and what it says of an instruction.

    Parameters
    ----------
    form
        None for a matrix that is only loaded and stored.
    """
    match form:
        case LdmatrixForm():
            return ((LDMATRIX, _ROWS), (LDMATRIX, _PIECES))
        case StmatrixForm():
            return ((STMATRIX, _STORED_ROWS),)
        case MovmatrixForm():
            return ((MOVMATRIX, _TRANSPOSED),)
        case MmaSyncForm(op=None):
            return ((MMA_SYNC, _LANES),)
        case MmaSyncForm():
            return ((MMA_SYNC, _LANES), (MMA_SYNC, _COUNTED_LANES))
    storage = (
        STORAGE,
        "Each matrix can be stored in memory with a row-major or column-major layout.",
    )
    if form is None:
        return (storage,)
    fragments = (
        FRAGMENTS,
        "The fragment returned by a `wmma` operation can be used as an operand for another `wmma` "
        "operation if the shape, layout and element type of the underlying matrix matches.",
    )
    return ((MMA, _PERFORM), *((MMA, text) for text in _of_types(form)), fragments)


def _of_types(form: MmaForm) -> tuple[str, ...]:
    if form.op is not None:
        return (_COUNTED,)
    if not form.a_type.is_float:
        return (_SATURATED,)
    match form.a_type.name:
        case "f64":
            return (_DOUBLE[form.rounding],)
        case "f16":
            return (_HALF, _UNSPECIFIED)
        case _:
            return (_ALTERNATE, _UNSPECIFIED)
