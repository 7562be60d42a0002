"""Programs as CUDA C++: what people write by hand, so that the compiler has something to do.

Fragments of one type lie in arrays, buffers are pointers, copies and elements are loops, what is
done again and again is a function that has to be inlined. Programs that `nvcuda::wmma` can say are
said with it; where a matrix lies as PTX allows and the API does not, or a form has no word there,
all of the program's wmma instructions are inline PTX on arrays of registers. What works on
registers lane by lane has no word at all and is inline PTX everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oracle.isa.targets import Module
from oracle.program.operands import IMAGE_ALIGNMENT, Fragment, Operation, Place, Uniform, Use, Word
from oracle.program.operations import Elementwise, Scalar
from oracle.program.program import walk
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
)
from runners.emission.body import pieces, progression
from runners.front_ends import cuda_cpp_words as words
from runners.front_ends.protocol import NamedStepWriter, check_named
from runners.kernels import LANES, MAX_WARPS_PER_BLOCK, KernelModule

HEAD = f"""\
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

// Words of memory, which may have been written as anything (GCC, Common Type Attributes).
typedef unsigned __attribute__((__may_alias__)) word;
typedef unsigned long long __attribute__((__may_alias__)) double_word;
typedef unsigned short __attribute__((__may_alias__)) half_word;
struct __attribute__((__may_alias__)) __align__(16) quad_word {{ word words[4]; }};

template <class T>
__device__ __forceinline__ void copy(void* to, const void* from, unsigned units) {{
  for (unsigned i = threadIdx.x % {LANES}; i < units; i += {LANES})
    static_cast<T*>(to)[i] = static_cast<const T*>(from)[i];
}}
__device__ __forceinline__ unsigned multiprocessor() {{
  unsigned number;
  asm("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}}
__device__ __forceinline__ size_t global(const void* p) {{ return __cvta_generic_to_global(p); }}
__device__ __forceinline__ unsigned shared(const void* p) {{
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}}

{words.HELPERS}"""
"""What every translation unit begins with."""

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


@dataclass(kw_only=True)
class CudaCppWriter(NamedStepWriter):
    """Writes one program as a kernel of CUDA C++."""

    remark = "//"
    indent: int = 1

    def __post_init__(self) -> None:
        said = words.is_said(self.program)
        self.layouts = words.layouts_of(self.program) if said else None
        steps = list(walk(self.program.steps))
        # Never merged into one operation: __fmul_rn, __fadd_rn (CUDA Math API, intrinsics).
        arithmetic = {step.changes for step in steps}
        self.fused = {Operation.MULTIPLY, Operation.ADD} <= arithmetic
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
        """Tell whether a variable is a fragment of the API."""
        return isinstance(use.holds, Fragment) and self.layouts is not None

    def type_of(self, use: Use) -> str:
        """Return the C++ type of a variable, of an array of registers that of one."""
        if isinstance(use.holds, Fragment) and self.layouts is not None:
            matrix, layout = use.holds.matrix, use.holds.layout
            if use.holds.any_layout:
                layout = self.layouts[use.name, matrix]
            return words.fragment_type(matrix, layout)
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
        memory: bool = False,
    ) -> None:  # fmt: skip
        """Append an instruction of inline PTX, which may access `memory`.

        Its operands are uses of names, which stand in braces where there are several registers;
        (expression, constraint) of inputs, of which the first is the address, with `immediate`
        bytes behind its register; numbers.
        """
        texts, outputs, inputs = [], list[str](), list[str]()
        written = [use for use in operands if isinstance(use, Use) and use.written]
        number = {True: 0, False: sum(use.holds.registers for use in written)}
        addressed = False
        for operand in operands:
            match operand:
                case Use():
                    letter = _CONSTRAINTS[operand.holds.register_type]
                    name, size = self.variable(operand), operand.holds.registers
                    first = number[operand.written]
                    number[operand.written] += size
                    list_ = ", ".join(f"%{first + index}" for index in range(size))
                    # Metadata are one register, and no vector.
                    texts.append(list_ if operand.field == "e" else f"{{{list_}}}")
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
            f'asm volatile("{opcode} {", ".join(texts)};" : {", ".join(outputs)} : '
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
            selector = () if step.selector is None else (step.selector,)
            self.asm(step.form.opcode, [*step.uses, *selector])
            return
        function, rest = words.multiplication(step.form)
        arguments = ", ".join([*map(self.variable, step.uses), *rest])
        self.add(f"{function}({arguments});")

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
        type_ = f"{const}{words.pointer_type(form.matrix().type.name)}"
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
        cell = words.stored_type(step.matrix.type.name) if fragment else self.type_of(step.uses[0])
        count = None if fragment else step.uses[0].holds.registers
        self.add(words.statement(step, cell, source, destination, count=count, fused=self.fused))

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


def cuda_cpp(module: KernelModule) -> str:
    """Return a module's programs as a translation unit of CUDA C++ with a kernel for each.

    The entries have the parameters of the PTX. Raises UsageError if CUDA C++ cannot say a program.
    """
    check_named(module.programs.values())
    texts = [
        CudaCppWriter(program=module.programs[kernel.entry], kernel=kernel).text()
        for kernel in module.kernels
    ]
    return "\n".join([f"// {Module.named(module.target, module.version)}", HEAD, *texts])
