"""Programs as CUDA C++: what people write by hand, so that the compiler has something to do.

Fragments of one type lie in arrays, buffers are pointers, copies and elements are loops, what is
done again and again is a function that has to be inlined. Programs that `nvcuda::wmma` can say are
said with it; where a matrix lies as PTX allows and the API does not, or a form has no word there,
all of the program's wmma instructions are inline PTX on arrays of registers. What works on
registers lane by lane has no word at all and is inline PTX everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from oracle.lane_code import LaneCode
from oracle.ops import Op
from oracle.places import IMAGE_ALIGNMENT
from oracle.program import Program
from oracle.steps import (
    Barrier,
    Branch,
    Copy,
    Elementwise,
    Loop,
    PlainAccess,
    Scalar,
    Step,
)
from oracle.targets import Module
from runners.front_ends.cuda_cpp_elements import HELPERS
from runners.front_ends.cuda_cpp_steps import (
    write_copy,
    write_elementwise,
    write_op,
    write_pack,
    write_registers,
)
from runners.front_ends.cuda_cpp_text import CudaCppText
from runners.front_ends.protocol import check_named
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

{HELPERS}"""
"""What every translation unit begins with."""


class CudaCppWriter(CudaCppText):
    """Writes one program as a kernel of CUDA C++."""

    def text(self) -> str:
        """Return the kernel with the tables that it reads."""
        self._write(self.program.steps)
        kernel = self.kernel
        head = [
            f'extern "C" __global__ void __launch_bounds__({LANES * MAX_WARPS_PER_BLOCK})',
            f"{kernel.entry}(unsigned char* images, unsigned* sms, unsigned count) {{",
        ]
        return "\n".join([*self.tables, *head, *self._prologue(), *self.lines, "}", ""])

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
        return [*lines, *self.declarations()]

    # Steps

    def _write(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            self.add(f"// {step}")
            self._step(step)

    def _step(self, step: Step) -> None:
        match step:
            case Op():
                write_op(self, step)
            case Elementwise():
                write_elementwise(self, step)
            case PlainAccess():
                write_registers(self, step)
            case Scalar():
                write_pack(self, step)  # a program with others is refused as a whole
            case LaneCode():
                pass  # and so is one with this
            case Copy():
                write_copy(self, step)
            case Barrier():
                self.add("__syncwarp();")
            case Branch():
                self._branch(step)
            case Loop():
                self.count += 1
                index = f"i{self.count}"
                self.add(
                    f"for (unsigned {index} = 0, end = {self.uniform(step.count)}; {index} < end; "
                    f"++{index}) {{"
                )
                self._block(step.body)
                self.add("}")
            case _:
                assert_never(step)

    def _branch(self, step: Branch) -> None:
        self.add(f"if ({self.uniform(step.condition)}) {{")
        self._block(step.then)
        if step.otherwise:
            self.add("} else {")
            self._block(step.otherwise)
        self.add("}")

    def _block(self, steps: tuple[Step, ...]) -> None:
        self.indent += 1
        self._write(steps)
        self.indent -= 1


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

    Raises
    ------
    UsageError
        If CUDA C++ cannot say a program.
    """
    check_named(programs.values())
    texts = [
        CudaCppWriter(program=programs[kernel.entry], kernel=kernel).text() for kernel in kernels
    ]
    return "\n".join([f"// {module}", HEAD, *texts])
