"""Programs as CUDA C++: what people write by hand, so that the compiler has something to do.

Fragments of one type lie in arrays, buffers are pointers, copies and elements are loops, what is
done again and again is a function that has to be inlined. Programs that `nvcuda::wmma` can say are
said with it; where a matrix lies as PTX allows and the API does not, or a form has no word there,
all of the program's wmma instructions are inline PTX on arrays of registers. What works on
registers lane by lane has no word at all and is inline PTX everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from oracle.forms import LoadForm, MmaForm, StoreForm
from oracle.held import Fragment, Use
from oracle.lane_steps import (
    LoadRegisters,
    LoadRows,
    MultiplyLanes,
    PackRegisters,
    StoreRegisters,
    StoreRows,
    TransposeRegisters,
)
from oracle.operations import Operation
from oracle.places import IMAGE_ALIGNMENT, Place, Uniform, Word
from oracle.program import Program, walk
from oracle.steps import Barrier, Branch, Copy, Elementwise, Load, Loop, Multiply, Step, Store
from oracle.targets import Module
from runners.front_ends import cuda_cpp_api as api
from runners.front_ends import cuda_cpp_elements as elements
from runners.kernels import LANES, MAX_WARPS_PER_BLOCK, Kernel

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

{elements.HELPERS}"""
"""What every translation unit begins with."""

_UNITS = {16: "quad_word", 8: "double_word", 4: "word", 2: "half_word", 1: "unsigned char"}
"""Types that a copy moves, by their bytes."""
REGISTERS = {
    "b32": "unsigned",
    "s32": "int",
    "f32": "float",
    "f64": "double",
    "b64": "unsigned long long",
}
"""C++ types of registers, by their PTX types."""
_CONSTRAINTS = {
    "unsigned": "r",
    "int": "r",
    "float": "f",
    "double": "d",
    "unsigned long long": "l",
}
"""Letters of inline PTX (Inline PTX Assembly in CUDA, Constraints)."""
_PACKED = {
    "f16": ("__floats2half2_rn", "half2"),
    "bf16": ("__floats2bfloat162_rn", "__nv_bfloat162"),
}


@dataclass(kw_only=True)
class CudaCppWriter:
    """Writes one program as a kernel of CUDA C++.

    Parameters
    ----------
    program
        What the kernel does to one image.
    kernel
        Its name, and the sizes of its image and of its shared memory.
    """

    program: Program
    kernel: Kernel
    _lines: list[str] = field(default_factory=list)
    _tables: list[str] = field(default_factory=list)
    _indent: int = 1
    _count: int = 0

    def __post_init__(self) -> None:
        said = api.is_said(self.program)
        self._layouts = api.layouts_of(self.program) if said else None
        steps = list(walk(self.program.steps))
        # Never merged into one operation: __fmul_rn, __fadd_rn (CUDA Math API, intrinsics).
        arithmetic = {s.operation for s in steps if isinstance(s, Elementwise)}
        self._fused = {Operation.MULTIPLY, Operation.ADD} <= arithmetic
        self._groups: dict[tuple[str, int], dict[str, None]] = {}
        """Names of the variables of each type (and number of registers), in order."""
        most: dict[tuple[str, str], int] = {}
        for step in steps:
            for use in step.uses:
                key = (use.name, self._type(use))
                most[key] = max(self._cells(use), most.get(key, 0))
        self._variables: dict[tuple[str, str], str] = {}
        for (name, type_), cells in most.items():
            group = self._groups.setdefault((type_, cells), {})
            variable = f"{name}_{chr(ord('A') + len(self._of_name(name)))}"
            self._variables[name, type_] = variable
            group[variable] = None

    def _of_name(self, name: str) -> list[str]:
        return [variable for (other, _), variable in self._variables.items() if other == name]

    def text(self) -> str:
        """Return the kernel with the tables that it reads."""
        self._write(self.program.steps)
        kernel = self.kernel
        head = [
            f'extern "C" __global__ void __launch_bounds__({LANES * MAX_WARPS_PER_BLOCK})',
            f"{kernel.entry}(unsigned char* images, unsigned* sms, unsigned count) {{",
        ]
        return "\n".join([*self._tables, *head, *self._prologue(), *self._lines, "}", ""])

    # Variables

    def _is_fragment(self, use: Use) -> bool:
        return isinstance(use.holds, Fragment) and self._layouts is not None

    def _type(self, use: Use) -> str:
        """Return the C++ type of a variable, of an array of registers that of one."""
        if isinstance(use.holds, Fragment) and self._layouts is not None:
            matrix = use.holds.matrix
            layout = use.holds.layout
            if use.holds.any_layout:
                layout = self._layouts[use.name, matrix]
            return api.fragment_type(matrix, layout)
        return REGISTERS[use.holds.register_type]

    def _cells(self, use: Use) -> int:
        """Return the registers of an array, 0 of a fragment."""
        return 0 if self._is_fragment(use) else use.holds.registers

    def _variable(self, use: Use) -> str:
        return self._variables[use.name, self._type(use)]

    def _declarations(self) -> list[str]:
        lines = []
        for number, ((type_, cells), variables) in enumerate(self._groups.items()):
            array = f"v{number}"
            each = f"[{cells}]" if cells else ""
            lines.append(f"  {type_} {array}[{len(variables)}]{each};")
            for index, variable in enumerate(variables):
                reference = f"(&{variable}){each}" if cells else f"& {variable}"
                lines.append(f"  {type_} {reference} = {array}[{index}];")
        return lines

    # The start of a kernel

    def _prologue(self) -> list[str]:
        """Return what comes before the first step: which image, where it lies, the variables."""
        kernel, program = self.kernel, self.program
        lines = [
            f"  const unsigned lane = threadIdx.x % {LANES}, inside = threadIdx.x / {LANES};",
            f"  const unsigned warp = blockIdx.x * (blockDim.x / {LANES}) + inside;",
            "  if (warp >= count) return;",
            "  // A zero that no compiler can fold: no address reaches 2^60.",
            "  const unsigned zero = reinterpret_cast<size_t>(images) >> 60;",
            "  unsigned char* const image = static_cast<unsigned char*>(__builtin_assume_aligned(",
            f"      images + size_t(warp) * {kernel.image_bytes}, {IMAGE_ALIGNMENT}));",
        ]
        if kernel.shared_bytes:
            size = kernel.shared_bytes * kernel.warps_per_block
            lines += [
                f"  __shared__ __align__({IMAGE_ALIGNMENT}) unsigned char block[{size}];",
                f"  unsigned char* const slice = block + inside * {kernel.shared_bytes};",
            ]
        for buffer in program.buffers:
            base = "slice" if buffer.space == "shared" else "image"
            offset = program.offset(buffer.name)
            lines.append(f"  unsigned char* const m_{buffer.name} = {base} + {offset};")
        lines.append("  if (sms && lane == 0) sms[warp] = multiprocessor();")
        return [*lines, *self._declarations()]

    # Pieces of text

    def _add(self, text: str) -> None:
        self._lines.append("  " * self._indent + text)

    def _pointer(self, place: Place, lane: str = "") -> str:
        offset = f" + {place.offset}" if place.offset > 0 else ""
        offset = f" - {-place.offset}" if place.offset < 0 else offset
        return f"m_{place.buffer}{offset}{f' + {lane}' if lane else ''}"

    def _address(self, place: Place, space: str, immediate: int, lane: str = "") -> tuple[str, str]:
        """Return the operand of an address and its constraint, for inline PTX in a state space."""
        pointer = self._pointer(place, lane)
        rest = f" - ({immediate})" if immediate else ""
        if space == "global":
            return f"global({pointer}){rest}", "l"
        if space:
            return f"shared({pointer}){rest}", "r"
        return f"reinterpret_cast<size_t>({pointer}){rest}", "l"

    def _asm(
        self,
        opcode: str,
        operands: Sequence[Use | tuple[str, str] | int],
        *,
        immediate: int = 0,
        memory: bool = False,
    ) -> None:
        """Append an instruction of inline PTX.

        Parameters
        ----------
        operands
            In the order of the instruction: uses of names, which stand in braces where there are
            several registers; (expression, constraint) of inputs, of which the first is the
            address; numbers.
        immediate
            Bytes behind the address's register.
        memory
            Whether it reads or writes memory.
        """
        texts, outputs, inputs = [], list[str](), list[str]()
        written = [use for use in operands if isinstance(use, Use) and use.written]
        number = {True: 0, False: sum(use.holds.registers for use in written)}
        addressed = False
        for operand in operands:
            match operand:
                case Use():
                    letter = _CONSTRAINTS[REGISTERS[operand.holds.register_type]]
                    name, size = self._variable(operand), operand.holds.registers
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
        self._add(
            f'asm volatile("{opcode} {", ".join(texts)};" : {", ".join(outputs)} : '
            f"{', '.join(inputs)}{clobbered});"
        )

    # Steps

    def _write(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            self._add(f"// {step}")
            self._step(step)

    def _step(self, step: Step) -> None:
        match step:
            case Load() | Store():
                self._access(step)
            case Multiply():
                self._multiply(step)
            case Elementwise():
                self._elementwise(step)
            case LoadRows() | StoreRows():
                self._rows(step)
            case LoadRegisters() | StoreRegisters():
                self._registers(step)
            case MultiplyLanes():
                self._asm(step.form.opcode, step.uses)
            case TransposeRegisters():
                source, destination = map(self._variable, step.uses)
                self._add(f"for (int i = 0; i < {step.count}; ++i)")
                self._add(
                    f'  asm volatile("{step.form.opcode} %0, %1;" : "=r"({destination}[i]) : '
                    f'"r"({source}[i]));'
                )
            case PackRegisters():
                self._pack(step)
            case Copy():
                self._copy(step)
            case Barrier():
                self._add("__syncwarp();")
            case Branch():
                self._branch(step)
            case Loop():
                self._count += 1
                index = f"i{self._count}"
                self._add(
                    f"for (unsigned {index} = 0, end = {self._uniform(step.count)}; {index} < end; "
                    f"++{index}) {{"
                )
                self._block(step.body)
                self._add("}")
            case _:
                assert_never(step)

    def _access(self, step: Load | Store) -> None:
        form, stride = step.form, step.stride
        (use,) = step.uses
        in_register = f"{stride} + zero" if step.stride_in_register else f"{stride}"
        if not self._is_fragment(use):
            address = self._address(step.place, form.space, step.immediate)
            operands: list[Use | tuple[str, str] | int] = [address, use]
            if isinstance(step, Load):
                operands.reverse()
            if stride is not None:
                operands.append((in_register, "r") if step.stride_in_register else stride)
            self._asm(form.opcode, operands, immediate=step.immediate, memory=True)
            return
        if stride is None:
            in_register = str(form.matrix.default_stride(form.layout))
        self._api_access(step, form, in_register)

    def _api_access(self, step: Load | Store, form: LoadForm | StoreForm, stride: str) -> None:
        (use,) = step.uses
        type_ = api.pointer_type(form.matrix.type.name)
        const = "const " if isinstance(step, Load) else ""
        pointer = f"reinterpret_cast<{const}{type_}*>({self._pointer(step.place)})"
        accumulator = form.matrix.operand in "cd"
        layout = f", wmma::mem_{form.layout}_major" if accumulator else ""
        variable = self._variable(use)
        if isinstance(step, Load):
            self._add(f"wmma::load_matrix_sync({variable}, {pointer}, {stride}{layout});")
        else:
            self._add(f"wmma::store_matrix_sync({pointer}, {variable}, {stride}{layout});")

    def _multiply(self, step: Multiply) -> None:
        form: MmaForm = step.form
        if self._layouts is None:
            self._asm(form.opcode, step.uses)
            return
        function, rest = api.multiplication(form)
        arguments = ", ".join([*map(self._variable, step.uses), *rest])
        self._add(f"{function}({arguments});")

    def _elementwise(self, step: Elementwise) -> None:
        source, destination = map(self._variable, step.uses)
        fragment = self._is_fragment(step.uses[0])
        cell = api.stored_type(step.matrix.type.name) if fragment else self._type(step.uses[0])
        count = None if fragment else step.uses[0].holds.registers
        self._add(
            elements.statement(step, cell, source, destination, count=count, fused=self._fused)
        )

    def _rows(self, step: LoadRows | StoreRows) -> None:
        (use,) = step.uses
        offset = self._row_offsets(step.addresses)
        place = Place(buffer=step.buffer, offset=0)
        address = self._address(place, step.form.space, step.immediate, offset)
        operands: list[Use | tuple[str, str] | int] = [address, use]
        if isinstance(step, LoadRows):
            operands.reverse()
        self._asm(step.form.opcode, operands, immediate=step.immediate, memory=True)

    def _row_offsets(self, addresses: tuple[int, ...]) -> str:
        """Return each lane's own of 32 offsets, computed where they form a progression."""
        pitch = addresses[1] - addresses[0]
        if all(value == addresses[0] + i * pitch for i, value in enumerate(addresses)):
            return f"(int(lane) * {pitch} + {addresses[0]})"
        name = f"{self.kernel.entry}_rows{len(self._tables)}"
        numbers = ", ".join(map(str, addresses))
        self._tables.append(f"static __constant__ int {name}[{LANES}] = {{{numbers}}};")
        return f"{name}[lane]"

    def _registers(self, step: LoadRegisters | StoreRegisters) -> None:
        (use,) = step.uses
        word = "word" if step.bits == 32 else "double_word"
        pointer = f"reinterpret_cast<{word}*>({self._pointer(step.place)})"
        memory, variable = f"p[lane * {step.count} + i]", f"{self._variable(use)}[i]"
        self._add(f"{{ {word}* const p = {pointer};")
        each = f"for (int i = 0; i < {step.count}; ++i)"
        if isinstance(step, LoadRegisters):
            self._add(f"  {each} {variable} = {memory};")
        elif step.lanes != LANES:
            self._add(f"  if (lane < {step.lanes}) {each} {memory} = {variable};")
        else:
            # As at the edge of a matrix: what made the values must not move under the condition.
            self._add(f"  if (lane < {LANES // 2}) {each} {memory} = {variable};")
            self._add(f"  else {each} {memory} = {variable};")
        self._add("}")

    def _pack(self, step: PackRegisters) -> None:
        source, destination = map(self._variable, step.uses)
        function, type_ = _PACKED[step.type]
        low, high = (f"__uint_as_float({source}[2 * i{rest}])" for rest in ("", " + 1"))
        self._add(f"for (int i = 0; i < {step.count // 2}; ++i) {{")
        self._add(f"  const {type_} pair = {function}({low}, {high});")
        self._add(f"  memcpy(&{destination}[i], &pair, sizeof pair);")
        self._add("}")

    def _copy(self, step: Copy) -> None:
        ends = [self.program.offset(p.buffer) + p.offset for p in (step.source, step.destination)]
        done = 0
        while done < step.size:
            width = next(
                unit
                for unit in _UNITS
                if unit <= step.size - done and all((at + done) % unit == 0 for at in ends)
            )
            units = (step.size - done) // width
            source, destination = (
                self._pointer(Place(buffer=place.buffer, offset=place.offset + done))
                for place in (step.source, step.destination)
            )
            self._add(f"copy<{_UNITS[width]}>({destination}, {source}, {units});")
            done += units * width

    def _uniform(self, value: Uniform) -> str:
        """Return an expression that is the same in every lane."""
        if not isinstance(value, Word):
            return f"{value}u"
        pointer = self._pointer(value.place)
        return f"(*reinterpret_cast<const word*>({pointer}) & {value.mask:#x}u)"

    def _branch(self, step: Branch) -> None:
        self._add(f"if ({self._uniform(step.condition)}) {{")
        self._block(step.then)
        if step.otherwise:
            self._add("} else {")
            self._block(step.otherwise)
        self._add("}")

    def _block(self, steps: tuple[Step, ...]) -> None:
        self._indent += 1
        self._write(steps)
        self._indent -= 1


def cuda_cpp(programs: Mapping[str, Program], kernels: Sequence[Kernel], *, module: Module) -> str:
    """Return programs as a translation unit of CUDA C++ with a kernel for each.

    Parameters
    ----------
    programs
        By the names of their kernels.
    kernels
        The kernels as `emit_all` describes them: the entries have the same parameters.
    module
        Target and PTX version that the code is for.
    """
    texts = [
        CudaCppWriter(program=programs[kernel.entry], kernel=kernel).text() for kernel in kernels
    ]
    return "\n".join([f"// {module}", HEAD, *texts])
