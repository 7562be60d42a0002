"""Operations on the elements of fragments as statements of CUDA C++, bit for bit.

What C++ leaves open is avoided. `-x`, `fabsf(x)`, `x * 1` and `x + -0.0` do not say which NaN comes
out of one: signs are changed by PTX that a compiler does not look into, and constants that vanish
come out of such PTX. `int` must not overflow: it is added and multiplied as `unsigned`.
"""

from __future__ import annotations

from oracle.isa.matrices import replicated
from oracle.program.operations import Operation
from oracle.program.steps import Elementwise
from runners.emission.steps import signs

HELPERS = """\
// A number that no compiler knows.
__device__ __forceinline__ unsigned opaque(unsigned x) {
  unsigned y;
  asm("mov.b32 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}
__device__ __forceinline__ unsigned long long opaque(unsigned long long x) {
  unsigned long long y;
  asm("mov.b64 %0, %1;" : "=l"(y) : "l"(x));
  return y;
}

// The sign bit alone, of a NaN too.
__device__ __forceinline__ float negated(float x) {
  unsigned y;
  asm("xor.b32 %0, %1, 0x80000000;" : "=r"(y) : "r"(__float_as_uint(x)));
  return __uint_as_float(y);
}
__device__ __forceinline__ double negated(double x) {
  long long y;
  asm("xor.b64 %0, %1, 0x8000000000000000;" : "=l"(y) : "l"(__double_as_longlong(x)));
  return __longlong_as_double(y);
}
__device__ __forceinline__ half negated(half x) {
  return __ushort_as_half(__half_as_ushort(x) ^ 0x8000u);
}
__device__ __forceinline__ __nv_bfloat16 negated(__nv_bfloat16 x) {
  return __ushort_as_bfloat16(__bfloat16_as_ushort(x) ^ 0x8000u);
}
__device__ __forceinline__ float magnitude(float x) {
  unsigned y;
  asm("and.b32 %0, %1, 0x7fffffff;" : "=r"(y) : "r"(__float_as_uint(x)));
  return __uint_as_float(y);
}
__device__ __forceinline__ double magnitude(double x) {
  long long y;
  asm("and.b64 %0, %1, 0x7fffffffffffffff;" : "=l"(y) : "l"(__double_as_longlong(x)));
  return __longlong_as_double(y);
}
__device__ __forceinline__ half magnitude(half x) {
  return __ushort_as_half(__half_as_ushort(x) & 0x7fffu);
}
__device__ __forceinline__ __nv_bfloat16 magnitude(__nv_bfloat16 x) {
  return __ushort_as_bfloat16(__bfloat16_as_ushort(x) & 0x7fffu);
}

// Two halves in a register.
__device__ __forceinline__ unsigned multiplied(unsigned x, unsigned y) {
  unsigned z;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
  return z;
}
__device__ __forceinline__ unsigned added(unsigned x, unsigned y) {
  unsigned z;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
  return z;
}
template <class Fragment>
__device__ __forceinline__ void multiply(Fragment& to, const Fragment& from, half2 factor) {
  for (int i = 0; i < to.num_storage_elements; i += 2) {
    const half2 pair = __hmul2_rn(__halves2half2(from.x[i], from.x[i + 1]), factor);
    to.x[i] = __low2half(pair);
    to.x[i + 1] = __high2half(pair);
  }
}
template <class Fragment>
__device__ __forceinline__ void add(Fragment& to, const Fragment& from, half2 addend) {
  for (int i = 0; i < to.num_storage_elements; i += 2) {
    const half2 pair = __hadd2_rn(__halves2half2(from.x[i], from.x[i + 1]), addend);
    to.x[i] = __low2half(pair);
    to.x[i + 1] = __high2half(pair);
  }
}
"""

_BITS = {"signed char": 8, "unsigned char": 8, "double": 64}
"""Bits of the types of registers and of `x[i]`; of all others 32, or 16 of a half."""
_FLOAT_WORDS = {
    (Operation.MULTIPLY, "float"): ("*", "__fmul_rn"),
    (Operation.ADD, "float"): ("+", "__fadd_rn"),
    (Operation.MULTIPLY, "double"): ("*", "__dmul_rn"),
    (Operation.ADD, "double"): ("+", "__dadd_rn"),
}
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
    """Return the statement of an element-wise operation.

    Parameters
    ----------
    cell
        C++ type of a register, or of `x[i]`.
    source, destination
        Names of two variables of one type: fragments, or arrays of registers.
    count
        Registers; None: the variables are fragments of the API.
    fused
        Whether the compiler may make one operation of a `*` and a `+` of the program, so that
        neither is written.
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
    if (operation, cell) in _FLOAT_WORDS:
        symbol, word = _FLOAT_WORDS[operation, cell]
        number = _number(step, cell)
        return f"{word}({value}, {number})" if fused else f"{value} {symbol} {number}"
    if packed and format_.name == "f16":
        word = "multiplied" if operation is Operation.MULTIPLY else "added"
        return f"{word}({value}, {constant})"
    return f"static_cast<{cell}>(unsigned({value}) {_SYMBOLS[operation]} {constant})"


def _number(step: Elementwise, cell: str) -> str:
    """Return a constant factor or addend as an expression of its type."""
    known = not _vanishes(step)
    if cell == "double":
        bits = f"{step.constant:#x}ull"
        return f"__longlong_as_double({bits if known else f'opaque({bits})'})"
    bits = f"{step.constant:#x}u"
    return f"__uint_as_float({bits if known else f'opaque({bits})'})"


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
