"""Words that `nvcuda::wmma` has for fragments and instructions, and the programs that it can say.

Source: CUDA C++ Programming Guide, Warp Matrix Functions (Description, Element Types and Matrix
Sizes, Alternate Floating Point, Double Precision, Sub-byte Operations), and `crt/mma.h` of CUDA
13.0, whose specialisations of `fragment` and overloads of `mma_sync` are the same in 11.8.

Operations on the elements of fragments are statements, bit for bit, and avoid what C++ leaves open.
`-x`, `fabsf(x)`, `x * 1` and `x + -0.0` do not say which NaN comes out of one: signs are changed by
PTX that a compiler does not look into, and constants that vanish come out of such PTX. `int` must
not overflow: it is added and multiplied as `unsigned`.
"""

from __future__ import annotations

from oracle.isa.forms import Form, Matrix, replicated
from oracle.program.operands import Fragment, Operation
from oracle.program.operations import Elementwise
from oracle.program.program import Program, walk
from oracle.program.steps import accesses_matrix, multiplies_fragments
from runners.emission.body import signs

POINTER_BYTES = 32
""""mptr must be a 256-bit aligned pointer" (load_matrix_sync, store_matrix_sync)."""
STRIDE_BYTES = 16
"""ldm "must be a multiple of 8 for __half element type or multiple of 4 for float element type
(i.e., multiple of 16 bytes in both cases)" (load_matrix_sync); taken for every type."""

_ELEMENTS = {
    "f16": "half", "bf16": "__nv_bfloat16", "tf32": "wmma::precision::tf32", "f32": "float",
    "f64": "double", "s8": "signed char", "u8": "unsigned char", "s32": "int",
    **{kind: f"wmma::experimental::precision::{kind}" for kind in ("s4", "u4", "b1")},
}  # fmt: skip
"""Element types of `fragment`, by formats."""
_STORED = {"tf32": "float", "s4": "int", "u4": "unsigned", "b1": "unsigned"}
"""Types of `x[i]` where they are not the element types (`storage_element_type`)."""
_USES = {"a": "wmma::matrix_a", "b": "wmma::matrix_b", "c": "wmma::accumulator"}


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
    return form.rounding in (None, "rn") and not (form.satfinite and form.d_type.is_float)


def multiplication(form: Form) -> tuple[str, list[str]]:
    """Return the function that multiplies, and its arguments behind d, a, b, c."""
    if form.op:
        return "wmma::bmma_sync", [f"wmma::experimental::bmmaBitOp{form.op.upper()}"]
    return "wmma::mma_sync", ["true"] if form.satfinite else []


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
    if layouts_of(program) is None:
        return False
    for step in walk(program.steps):
        if accesses_matrix(step):
            place = step.memory.place
            start = program.offset(place.buffer) + place.offset
            if start % POINTER_BYTES or step.tile.pitch % STRIDE_BYTES:
                return False
        elif multiplies_fragments(step) and not has_word(step.form):
            return False
    return True


_MASKED = """__device__ __forceinline__ float NAME(float x) {
  unsigned y;
  asm("OP.b32 %0, %1, MASK32;" : "=r"(y) : "r"(__float_as_uint(x)));
  return __uint_as_float(y);
}
__device__ __forceinline__ double NAME(double x) {
  long long y;
  asm("OP.b64 %0, %1, MASK64;" : "=l"(y) : "l"(__double_as_longlong(x)));
  return __longlong_as_double(y);
}
__device__ __forceinline__ half NAME(half x) {
  return __ushort_as_half(__half_as_ushort(x) SIGN MASK16u);
}
__device__ __forceinline__ __nv_bfloat16 NAME(__nv_bfloat16 x) {
  return __ushort_as_bfloat16(__bfloat16_as_ushort(x) SIGN MASK16u);
}
"""
_PAIRWISE = """__device__ __forceinline__ unsigned NAME(unsigned x, unsigned y) {
  unsigned z;
  asm("VERB.rn.f16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
  return z;
}
"""
_ON_FRAGMENTS = """template <class Fragment>
__device__ __forceinline__ void NAME(Fragment& to, const Fragment& from, half2 OPERAND) {
  for (int i = 0; i < to.num_storage_elements; i += 2) {
    const half2 pair = __hVERB2_rn(__halves2half2(from.x[i], from.x[i + 1]), OPERAND);
    to.x[i] = __low2half(pair);
    to.x[i + 1] = __high2half(pair);
  }
}
"""
_OPAQUE = """__device__ __forceinline__ TYPE opaque(TYPE x) {
  TYPE y;
  asm("mov.bBITS %0, %1;" : "=LETTER"(y) : "LETTER"(x));
  return y;
}
"""


def _filled(template: str, **words: str) -> str:
    for word, text in words.items():
        template = template.replace(word, text)
    return template


def _masked(name: str, verb: str, sign: str, top: str, rest: str) -> str:
    """Return functions that change the sign bit of each type, by a mask of these digits."""
    masks = {f"MASK{bits}": f"0x{top}{rest * (bits // 4 - 1)}" for bits in (16, 32, 64)}
    return _filled(_MASKED, NAME=name, OP=verb, SIGN=sign, **masks)


HELPERS = "".join((
    "// A number that no compiler knows.\n",
    _filled(_OPAQUE, TYPE="unsigned", BITS="32", LETTER="r"),
    _filled(_OPAQUE, TYPE="unsigned long long", BITS="64", LETTER="l"),
    "\n// The sign bit alone, of a NaN too.\n",
    _masked("negated", "xor", "^", "8", "0"),
    _masked("magnitude", "and", "&", "7", "f"),
    "\n// Two halves in a register.\n",
    _filled(_PAIRWISE, NAME="multiplied", VERB="mul"),
    _filled(_PAIRWISE, NAME="added", VERB="add"),
    _filled(_ON_FRAGMENTS, NAME="multiply", VERB="mul", OPERAND="factor"),
    _filled(_ON_FRAGMENTS, NAME="add", VERB="add", OPERAND="addend"),
))  # fmt: skip

_BITS = {"signed char": 8, "unsigned char": 8, "double": 64}
"""Bits of the types of registers and of `x[i]`; of all others 32, or 16 of a half."""
_SYMBOLS = {
    Operation.AND: "&",
    Operation.OR: "|",
    Operation.XOR: "^",
    Operation.MULTIPLY: "*",
    Operation.ADD: "+",
}
_HALF_WORDS = {Operation.MULTIPLY: "multiply", Operation.ADD: "add"}


def statement(
    step: Elementwise, cell: str, source: str, destination: str, *, count: int | None, fused: bool
) -> str:
    """Return the statement of an element-wise operation on variables of one type.

    They are arrays of `count` registers of a type, `cell`, or fragments with such `x[i]` where it
    is None. `fused` says whether the compiler may make one operation of a `*` and a `+` of the
    program, so that neither is written.
    """
    operation = step.operation
    if count is None and operation is Operation.COPY:
        return f"{destination} = {source};"
    if cell == "half" and operation in _HALF_WORDS:
        constant = f"__half2half2(__ushort_as_half({step.constant:#x}))"
        return f"{_HALF_WORDS[operation]}({destination}, {source}, {constant});"
    member, end = (".x", f"{destination}.num_storage_elements") if count is None else ("", count)
    value = _expression(step, cell, f"{source}{member}[i]", fused=fused)
    return f"for (int i = 0; i < {end}; ++i) {destination}{member}[i] = {value};"


def _expression(step: Elementwise, cell: str, value: str, *, fused: bool) -> str:
    format_, operation = step.matrix.type, step.operation
    packed = cell == "unsigned"
    bits = _BITS.get(cell, 32)
    constant = f"{replicated(step.constant, format_.bits, bits):#x}u"
    match operation:
        case Operation.COPY:
            return value
        case Operation.NOT:
            return f"~{value}"
        case Operation.NEGATE if packed:
            return f"{value} ^ {signs(format_, bits):#x}u"
        case Operation.ABSOLUTE if packed:
            return f"{value} & {signs(format_, bits) ^ 0xFFFFFFFF:#x}u"
        case Operation.NEGATE if format_.is_float:
            return f"negated({value})"
        case Operation.ABSOLUTE:
            return f"magnitude({value})"
        case Operation.NEGATE:
            return f"static_cast<int>(0u - unsigned({value}))"
    symbol = _SYMBOLS[operation]
    if cell in ("float", "double"):
        double = cell == "double"
        number = f"{step.constant:#x}{'ull' if double else 'u'}"
        number = f"opaque({number})" if _vanishes(step) else number
        number = f"{'__longlong_as_double' if double else '__uint_as_float'}({number})"
        verb = "mul" if operation is Operation.MULTIPLY else "add"
        rounded = f"__{cell[0]}{verb}_rn({value}, {number})"
        return rounded if fused else f"{value} {symbol} {number}"
    if packed and format_.name == "f16":
        word = "multiplied" if operation is Operation.MULTIPLY else "added"
        return f"{word}({value}, {constant})"
    return f"static_cast<{cell}>(unsigned({value}) {symbol} {constant})"


def _vanishes(step: Elementwise) -> bool:
    """Tell whether a compiler that knows a constant may return another NaN than the operation.

    It does where it returns the operand (x * 1, x + -0.0, also x + 0.0), its negative (x * -1), or
    the constant, a NaN itself.
    """
    format_ = step.matrix.type
    magnitude = step.constant & ((1 << (format_.bits - 1)) - 1)
    one = format_.bias << format_.fraction_bits
    infinity = ((1 << format_.exponent_bits) - 1) << format_.fraction_bits
    return magnitude in (0, one) or magnitude > infinity
