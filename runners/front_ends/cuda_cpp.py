"""Programs as CUDA C++: what people write by hand, so that the compiler has something to do.

Programs that `nvcuda::wmma` can say are said with it; else all of their wmma instructions are
inline PTX on arrays of registers, as is what works on registers lane by lane. Words of the API:
CUDA C++ Programming Guide, Warp Matrix Functions, and `crt/mma.h` of CUDA 13.0, the same in 11.8.

Operations on elements avoid what C++ leaves open: which NaN comes out of `-x` or `x * 1` (signs and
constants of floats go through PTX that a compiler does not look into), overflow of `int` (they are
`unsigned`), and fusion (`__fmul_rn`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oracle.isa.forms import Form, Matrix, replicated
from oracle.isa.lookup import ptx_operands, scale_ids
from oracle.isa.targets import Module
from oracle.program.operands import IMAGE_ALIGNMENT, Fragment, Operation, Place, Uniform, Use, Word
from oracle.program.operations import Elementwise, Scalar
from oracle.program.program import Program, walk
from oracle.program.steps import (
    AnyOp,
    Barrier,
    Branch,
    Copy,
    Loop,
    MatrixAccess,
    PlainAccess,
    Product,
    RowAccess,
    Step,
    accesses_matrix,
    multiplies_fragments,
)
from runners.emission.body import signs
from runners.emission.copies import pieces
from runners.emission.offsets import progression
from runners.front_ends.protocol import NamedStepWriter, check_named
from runners.kernels import LANES, MAX_WARPS_PER_BLOCK, KernelModule

POINTER_BYTES = 32  # "mptr must be a 256-bit aligned pointer" (load_matrix_sync, store_matrix_sync)
_STRIDE_BYTES = 16
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
_UNITS = {16: "quad_word", 8: "double_word", 4: "word", 2: "half_word", 1: "unsigned char"}
"""Types that a copy moves, by their bytes."""
_PACKED = {
    "f16": ("__floats2half2_rn", "half2"),
    "bf16": ("__floats2bfloat162_rn", "__nv_bfloat162"),
}
REGISTERS = {
    "b32": "unsigned", "s32": "int", "f32": "float", "f64": "double", "b64": "unsigned long long",
}  # fmt: skip
"""C++ types of registers, by their PTX types."""
_CONSTRAINTS = {"b32": "r", "s32": "r", "f32": "f", "f64": "d", "b64": "l"}
"""Letters of inline PTX (Inline PTX Assembly in CUDA, Constraints)."""
_BITS = {"signed char": 8, "unsigned char": 8, "double": 64}
"""Bits of the types of registers and of `x[i]`; of all others 32, or 16 of a half."""
_SYMBOLS = {
    Operation.AND: "&", Operation.OR: "|", Operation.XOR: "^", Operation.MULTIPLY: "*",
    Operation.ADD: "+",
}  # fmt: skip
_VERBS = {Operation.MULTIPLY: "mul", Operation.ADD: "add"}

HEAD = r"""#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
#define INLINE __device__ __forceinline__

// Words of memory, which may have been written as anything (GCC, Common Type Attributes).
typedef unsigned __attribute__((__may_alias__)) word;
typedef unsigned long long __attribute__((__may_alias__)) double_word;
typedef unsigned short __attribute__((__may_alias__)) half_word;
struct __attribute__((__may_alias__)) __align__(16) quad_word { word words[4]; };

template <class T>
INLINE void copy(void* to, const void* from, unsigned units) {
  for (unsigned i = threadIdx.x % 32; i < units; i += 32)
    static_cast<T*>(to)[i] = static_cast<const T*>(from)[i];
}
INLINE unsigned multiprocessor() {
  unsigned number;
  asm("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}
INLINE size_t global(const void* p) { return __cvta_generic_to_global(p); }
INLINE unsigned shared(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// A number that no compiler knows.
INLINE unsigned opaque(unsigned x) {
  unsigned y;
  asm("mov.b32 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}
INLINE unsigned long long opaque(unsigned long long x) {
  unsigned long long y;
  asm("mov.b64 %0, %1;" : "=l"(y) : "l"(x));
  return y;
}

// The sign bit alone, of a NaN too.
#define MASKED(NAME, VERB, SIGN, MASK16, MASK32, MASK64) \
  INLINE float NAME(float x) { \
    unsigned y; \
    asm(VERB ".b32 %0, %1, " MASK32 ";" : "=r"(y) : "r"(__float_as_uint(x))); \
    return __uint_as_float(y); \
  } \
  INLINE double NAME(double x) { \
    long long y; \
    asm(VERB ".b64 %0, %1, " MASK64 ";" : "=l"(y) : "l"(__double_as_longlong(x))); \
    return __longlong_as_double(y); \
  } \
  INLINE half NAME(half x) { return __ushort_as_half(__half_as_ushort(x) SIGN MASK16); } \
  INLINE __nv_bfloat16 NAME(__nv_bfloat16 x) { \
    return __ushort_as_bfloat16(__bfloat16_as_ushort(x) SIGN MASK16); \
  }
MASKED(negated, "xor", ^, 0x8000u, "0x80000000", "0x8000000000000000")
MASKED(magnitude, "and", &, 0x7fffu, "0x7fffffff", "0x7fffffffffffffff")

// Two halves in a register, and those of a fragment.
#define HALVES(VERB) \
  INLINE unsigned VERB##_halves(unsigned x, unsigned y) { \
    unsigned z; \
    asm(#VERB ".rn.f16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y)); \
    return z; \
  } \
  template <class Fragment> \
  INLINE void VERB##_halves(Fragment& to, const Fragment& from, half2 constant) { \
    for (int i = 0; i < to.num_storage_elements; i += 2) { \
      const half2 pair = __h##VERB##2_rn(__halves2half2(from.x[i], from.x[i + 1]), constant); \
      to.x[i] = __low2half(pair); \
      to.x[i + 1] = __high2half(pair); \
    } \
  }
HALVES(mul)
HALVES(add)
"""
"""What every translation unit begins with."""


@dataclass(kw_only=True)
class CudaCppWriter(NamedStepWriter):
    """Writes one program as a kernel of CUDA C++."""

    remark = "//"
    indent: int = 1

    def __post_init__(self) -> None:
        self.layouts = layouts_of(self.program) if is_said(self.program) else None
        steps = list(walk(self.program.steps))
        self.fused = {Operation.MULTIPLY, Operation.ADD} <= {step.changes for step in steps}
        most: dict[tuple[str, str], int] = {}
        for step in steps:
            for use in step.uses:
                key = (use.name, self.type_of(use))
                registers = 0 if self.is_fragment(use) else use.holds.registers
                most[key] = max(registers, most.get(key, 0))
        self._groups: dict[tuple[str, int], list[str]] = {}
        """Names of the variables of each type (and number of registers), in order."""
        self._variables: dict[tuple[str, str], str] = {}
        for (name, type_), cells in most.items():
            letter = chr(ord("A") + sum(other == name for other, _ in self._variables))
            self._variables[name, type_] = variable = f"{name}_{letter}"
            self._groups.setdefault((type_, cells), []).append(variable)

    def is_fragment(self, use: Use) -> bool:
        """Whether a variable is a fragment of the API."""
        return isinstance(use.holds, Fragment) and self.layouts is not None

    def type_of(self, use: Use) -> str:
        """Return the C++ type of a variable, of an array of registers that of one."""
        if isinstance(use.holds, Fragment) and self.layouts is not None:
            matrix, layout = use.holds.matrix, use.holds.layout
            if use.holds.any_layout:
                layout = self.layouts[use.name, matrix]
            return fragment_type(matrix, layout)
        return REGISTERS[use.holds.register_type]

    def variable(self, use: Use) -> str:
        """Return the name of the variable that a name is where a step uses it."""
        return self._variables[use.name, self.type_of(use)]

    def add(self, *texts: str) -> None:
        """Append lines."""
        self.lines += ["  " * self.indent + text for text in texts]

    def pointer(self, place: Place, lane: str = "") -> str:
        """Return a pointer to a place, `lane` bytes on."""
        offset = f" + {place.offset}" if place.offset > 0 else ""
        offset = f" - {-place.offset}" if place.offset < 0 else offset
        return f"m_{place.buffer}{offset}{f' + {lane}' if lane else ''}"

    def asm(
        self, opcode: str, operands: Sequence[Use | tuple[str, str] | int], *, immediate: int = 0,
        memory: bool = False, arranged: Callable[[list[str]], list[str]] = list,
    ) -> None:  # fmt: skip
        """Append an instruction of inline PTX, which may access `memory`.

        Operands: uses of names, in braces if of several registers; (expression, constraint) of
        inputs, first the address, with `immediate` bytes behind its register; numbers. `arranged`:
        What makes the instruction's operands of their texts.
        """
        texts, outputs, inputs = [], list[str](), list[str]()
        written = [use for use in operands if isinstance(use, Use) and use.written]
        number = {True: 0, False: sum(use.holds.registers for use in written)}
        addressed = not memory
        for operand in operands:
            match operand:
                case Use():
                    letter = _CONSTRAINTS[operand.holds.register_type]
                    name, size = self.variable(operand), operand.holds.registers
                    first = number[operand.written]
                    number[operand.written] += size
                    list_ = ", ".join(f"%{first + index}" for index in range(size))
                    texts.append(f"{{{list_}}}")
                    part = outputs if operand.written else inputs
                    equals = "=" if operand.written else ""
                    part += [f'"{equals}{letter}"({name}[{i}])' for i in range(size)]
                case int():
                    texts.append(str(operand))
                case expression, letter:
                    text = f"%{number[False]}"
                    number[False] += 1
                    inputs.append(f'"{letter}"({expression})')
                    if not addressed:
                        text = f"[{text}+{immediate}]" if immediate else f"[{text}]"
                        addressed = True
                    texts.append(text)
        clobbered = ' : "memory"' if memory else ""
        self.add(
            f'asm volatile("{opcode} {", ".join(arranged(texts))};" : {", ".join(outputs)} : '
            f"{', '.join(inputs)}{clobbered});"
        )

    def uniform(self, value: Uniform) -> str:
        """Return an expression that is the same in every lane."""
        if not isinstance(value, Word):
            return f"{value}u"
        pointer = self.pointer(value.place)
        return f"(*reinterpret_cast<const word*>({pointer}) & {value.mask:#x}u)"

    def text(self) -> str:
        """Return the kernel with the tables that it reads."""
        self.write(self.program.steps)
        kernel, program, body = self.kernel, self.program, self.lines
        self.lines = []
        self.add(
            f"const unsigned lane = threadIdx.x % {LANES}, inside = threadIdx.x / {LANES};",
            f"const unsigned warp = blockIdx.x * (blockDim.x / {LANES}) + inside;",
            "if (warp >= count) return;",
            "// A zero that no compiler can fold: no address reaches 2^60.",
            "const unsigned zero = reinterpret_cast<size_t>(images) >> 60;",
            "unsigned char* const image = static_cast<unsigned char*>(__builtin_assume_aligned(",
            f"    images + size_t(warp) * {kernel.image_bytes}, {IMAGE_ALIGNMENT}));",
        )
        if kernel.shared_bytes:
            size = kernel.shared_bytes * kernel.warps_per_block
            self.add(
                f"__shared__ __align__({IMAGE_ALIGNMENT}) unsigned char block[{size}];",
                f"unsigned char* const slice = block + inside * {kernel.shared_bytes};",
            )
        for buffer in program.buffers:
            base = "slice" if buffer.space == "shared" else "image"
            offset = program.offset(buffer.name)
            self.add(f"unsigned char* const m_{buffer.name} = {base} + {offset};")
        self.add("if (sms && lane == 0) sms[warp] = multiprocessor();")
        # An array for the variables of each type, and a reference to each of them.
        for number, ((type_, cells), variables) in enumerate(self._groups.items()):
            each = f"[{cells}]" if cells else ""
            self.add(f"{type_} v{number}[{len(variables)}]{each};")
            for index, variable in enumerate(variables):
                reference = f"(&{variable}){each}" if cells else f"& {variable}"
                self.add(f"{type_} {reference} = v{number}[{index}];")
        head = [
            f'extern "C" __global__ void __launch_bounds__({LANES * MAX_WARPS_PER_BLOCK})',
            f"{kernel.entry}(unsigned char* images, unsigned* sms, unsigned count) {{",
        ]
        return "\n".join([*self.tables, *head, *self.lines, *body, "}", ""])

    def _barrier(self, _: Barrier) -> None:
        self.add("__syncwarp();")

    def _branch(self, step: Branch) -> None:
        self.add(f"if ({self.uniform(step.condition)}) {{")
        self._block(step.then)
        if step.otherwise:
            self.add("} else {")
            self._block(step.otherwise)
        self.add("}")

    def _loop(self, step: Loop) -> None:
        self.count += 1
        i, end = f"i{self.count}", self.uniform(step.count)
        self.add(f"for (unsigned {i} = 0, end = {end}; {i} < end; ++{i}) {{")
        self._block(step.body)
        self.add("}")

    def _block(self, steps: tuple[Step, ...]) -> None:
        self.indent += 1
        self.write(steps)
        self.indent -= 1

    def _multiply(self, step: Product) -> None:
        if self.layouts is None or not step.form.opaque:
            ids: list[tuple[str, str]] = []
            if step.ids_in_registers:
                # As CUTLASS has them; added to a zero, they are no constants.
                numbers = scale_ids(step.form, step.selector or 0)
                ids = [(f"static_cast<unsigned short>({one} + zero)", "h") for one in numbers]
            count = len(step.uses)

            def arranged(texts: list[str]) -> list[str]:
                return ptx_operands(step.form, texts[:count], step.selector, texts[count:])

            self.asm(step.form.opcode, [*step.uses, *ids], arranged=arranged)
            return
        form, arguments = step.form, [*map(self.variable, step.uses)]
        if form.op:
            arguments.append(f"wmma::experimental::bmmaBitOp{form.op.upper()}")
        elif form.satfinite:
            arguments.append("true")
        self.add(f"wmma::{'bmma' if form.op else 'mma'}_sync({', '.join(arguments)});")

    def _move(self, step: AnyOp) -> None:
        source, destination = map(self.variable, step.uses)
        asm = f'"{step.form.opcode} %0, %1;"'
        self.add(
            f"for (int i = 0; i < {step.count}; ++i)",
            f'  asm volatile({asm} : "=r"({destination}[i]) : "r"({source}[i]));',
        )

    def _rows(self, step: RowAccess) -> None:
        """Append an access at each lane's own of 32 offsets, a progression if they form one."""
        addresses = step.memory.addresses
        if (regular := progression(addresses)) is not None:
            offset = f"(int(lane) * {regular[1]} + {regular[0]})"
        else:
            name = f"{self.kernel.entry}_rows{len(self.tables)}"
            numbers = ", ".join(map(str, addresses))
            self.tables.append(f"static __constant__ int {name}[{LANES}] = {{{numbers}}};")
            offset = f"{name}[lane]"
        self._inline_access(step, self.pointer(Place(buffer=step.memory.buffer), offset))

    def _inline_access(
        self, step: MatrixAccess | RowAccess, pointer: str, *stride: tuple[str, str] | int
    ) -> None:
        (use,) = step.uses
        space, immediate = step.form.space, step.memory.immediate
        rest = f" - ({immediate})" if immediate else ""
        function, letter = "reinterpret_cast<size_t>", "l"
        if space:
            function, letter = ("global", "l") if space == "global" else ("shared", "r")
        address = f"{function}({pointer}){rest}", letter
        operands = (address, use) if step.stores else (use, address)
        self.asm(step.form.opcode, [*operands, *stride], immediate=immediate, memory=True)

    def _access(self, step: MatrixAccess) -> None:
        form, memory = step.form, step.memory
        (use,) = step.uses
        given = memory.stride
        stride = f"{given} + zero" if memory.stride_in_register else f"{given}"
        if not self.is_fragment(use):
            operand = (stride, "r") if memory.stride_in_register else given
            more = [] if operand is None else [operand]
            self._inline_access(step, self.pointer(memory.place), *more)
            return
        if given is None:
            stride = str(form.matrix().default_stride(form.layout))
        const = "" if step.stores else "const "
        type_ = f"{const}{_pointer_type(form.matrix().type.name)}"
        pointer = f"reinterpret_cast<{type_}*>({self.pointer(memory.place)})"
        layout = f", wmma::mem_{form.layout}_major" if form.matrix().operand in "cd" else ""
        verb, ends = "load", f"{self.variable(use)}, {pointer}"
        if step.stores:
            verb, ends = "store", f"{pointer}, {self.variable(use)}"
        self.add(f"wmma::{verb}_matrix_sync({ends}, {stride}{layout});")

    def _elementwise(self, step: Elementwise) -> None:
        """Append the loop of an operation on every element, or register."""
        source, destination = map(self.variable, step.uses)
        fragment = self.is_fragment(step.uses[0])
        cell = stored_type(step.matrix.type.name) if fragment else self.type_of(step.uses[0])
        count = None if fragment else step.uses[0].holds.registers
        self.add(statement(step, cell, source, destination, count=count, fused=self.fused))

    def _plainaccess(self, step: PlainAccess) -> None:
        """Append loads of each lane's registers, or stores, under conditions by lane."""
        (use,) = step.uses
        word = "word" if step.bits == 32 else "double_word"
        memory, variable = f"p[lane * {step.count} + i]", f"{self.variable(use)}[i]"
        self.add(f"{{ {word}* const p = reinterpret_cast<{word}*>({self.pointer(step.place)});")
        each = f"for (int i = 0; i < {step.count}; ++i)"
        if step.loads:
            self.add(f"  {each} {variable} = {memory};")
        elif step.lanes != LANES:
            self.add(f"  if (lane < {step.lanes}) {each} {memory} = {variable};")
        else:
            # As at the edge of a matrix: what made the values must not move under the condition.
            self.add(
                f"  if (lane < {LANES // 2}) {each} {memory} = {variable};",
                f"  else {each} {memory} = {variable};",
            )
        self.add("}")

    def _scalar(self, step: Scalar) -> None:
        """Append the packing of pairs of f32."""
        source, destination = map(self.variable, step.uses)
        function, type_ = _PACKED[step.type]
        low, high = (f"__uint_as_float({source}[2 * i{rest}])" for rest in ("", " + 1"))
        self.add(
            f"for (int i = 0; i < {step.count // 2}; ++i) {{",
            f"  const {type_} pair = {function}({low}, {high});",
            f"  memcpy(&{destination}[i], &pair, sizeof pair);",
            "}",
        )

    def _copy(self, step: Copy) -> None:
        """Append loops in which the lanes copy units in turn."""
        for piece in pieces(self.program, step):
            ends = f"{self.pointer(piece.destination)}, {self.pointer(piece.source)}"
            self.add(f"copy<{_UNITS[piece.width]}>({ends}, {piece.units});")


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


def _pointer_type(format_name: str) -> str:
    """Return the C++ type of elements in memory, to which load and store take pointers."""
    # Of the packed formats they take `void*`.
    return "unsigned char" if format_name in ("s4", "u4", "b1") else stored_type(format_name)


def has_word(form: Form) -> bool:
    """Whether `mma_sync` says it: `satf` of integers alone, and no rounding but f64's default."""
    return form.rounding in (None, "rn") and not (form.satfinite and form.d_type.is_float)


def layouts_of(program: Program) -> dict[tuple[str, Matrix], str] | None:
    """Return the layout of each multiplicand's name; None if a name has both."""
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
            if start % POINTER_BYTES or step.tile.pitch % _STRIDE_BYTES:
                return False
        elif multiplies_fragments(step) and not has_word(step.form):
            return False
    return True


def statement(
    step: Elementwise, cell: str, source: str, destination: str, *, count: int | None, fused: bool
) -> str:
    """Return an operation on all of `count` cells, or of fragments with such `x[i]`."""
    operation = step.operation
    if count is None and operation is Operation.COPY:
        return f"{destination} = {source};"
    if cell == "half" and operation in _VERBS:
        constant = f"__half2half2(__ushort_as_half({step.constant:#x}))"
        return f"{_VERBS[operation]}_halves({destination}, {source}, {constant});"
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
    if cell in ("float", "double"):
        double = cell == "double"
        number = f"{step.constant:#x}{'ull' if double else 'u'}"
        number = f"opaque({number})" if _vanishes(step) else number
        number = f"{'__longlong_as_double' if double else '__uint_as_float'}({number})"
        # Never merged into one operation: __fmul_rn, __fadd_rn (CUDA Math API, intrinsics).
        rounded = f"__{cell[0]}{_VERBS[operation]}_rn({value}, {number})"
        return rounded if fused else f"{value} {_SYMBOLS[operation]} {number}"
    if packed and format_.name == "f16":
        return f"{_VERBS[operation]}_halves({value}, {constant})"
    return f"static_cast<{cell}>(unsigned({value}) {_SYMBOLS[operation]} {constant})"


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


def cuda_cpp(module: KernelModule) -> str:
    """Return a module as a translation unit of CUDA C++; UsageError if it cannot say a program."""
    check_named(module.programs.values())
    texts = [
        CudaCppWriter(program=module.programs[kernel.entry], kernel=kernel).text()
        for kernel in module.kernels
    ]
    return "\n".join([f"// {Module.named(module.target, module.version)}", HEAD, *texts])
