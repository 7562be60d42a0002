"""The steps of a program as statements of CUDA C++."""

from __future__ import annotations

from oracle.forms import Form
from oracle.held import Use
from oracle.lane_steps import (
    LoadRegisters,
    LoadRows,
    PackRegisters,
    StoreRegisters,
    StoreRows,
    TransposeRegisters,
)
from oracle.places import Place
from oracle.steps import Copy, Elementwise, Load, Multiply, Store
from runners.emission.addresses import progression
from runners.emission.copies import pieces
from runners.front_ends import cuda_cpp_api as api
from runners.front_ends import cuda_cpp_elements as elements
from runners.front_ends.cuda_cpp_text import CudaCppText
from runners.kernels import LANES

_UNITS = {16: "quad_word", 8: "double_word", 4: "word", 2: "half_word", 1: "unsigned char"}
"""Types that a copy moves, by their bytes."""
_PACKED = {
    "f16": ("__floats2half2_rn", "half2"),
    "bf16": ("__floats2bfloat162_rn", "__nv_bfloat162"),
}


def write_access(out: CudaCppText, step: Load | Store) -> None:
    """Append a wmma.load or wmma.store, of the API or as inline PTX."""
    form, stride = step.form, step.stride
    (use,) = step.uses
    in_register = f"{stride} + zero" if step.stride_in_register else f"{stride}"
    if not out.is_fragment(use):
        address = out.address(step.place, form.space, step.immediate)
        operands: list[Use | tuple[str, str] | int] = [address, use]
        if isinstance(step, Load):
            operands.reverse()
        if stride is not None:
            operands.append((in_register, "r") if step.stride_in_register else stride)
        out.asm(form.opcode, operands, immediate=step.immediate, memory=True)
        return
    if stride is None:
        in_register = str(form.matrix().default_stride(form.layout))
    _write_api_access(out, step, form, in_register)


def _write_api_access(out: CudaCppText, step: Load | Store, form: Form, stride: str) -> None:
    (use,) = step.uses
    type_ = api.pointer_type(form.matrix().type.name)
    const = "const " if isinstance(step, Load) else ""
    pointer = f"reinterpret_cast<{const}{type_}*>({out.pointer(step.place)})"
    accumulator = form.matrix().operand in "cd"
    layout = f", wmma::mem_{form.layout}_major" if accumulator else ""
    variable = out.variable(use)
    if isinstance(step, Load):
        out.add(f"wmma::load_matrix_sync({variable}, {pointer}, {stride}{layout});")
    else:
        out.add(f"wmma::store_matrix_sync({pointer}, {variable}, {stride}{layout});")


def write_multiply(out: CudaCppText, step: Multiply) -> None:
    """Append a wmma.mma, of the API or as inline PTX."""
    form: Form = step.form
    if out.layouts is None:
        out.asm(form.opcode, step.uses)
        return
    function, rest = api.multiplication(form)
    arguments = ", ".join([*map(out.variable, step.uses), *rest])
    out.add(f"{function}({arguments});")


def write_elementwise(out: CudaCppText, step: Elementwise) -> None:
    """Append the loop of an operation on every element, or register."""
    source, destination = map(out.variable, step.uses)
    fragment = out.is_fragment(step.uses[0])
    cell = api.stored_type(step.matrix.type.name) if fragment else out.type_of(step.uses[0])
    count = None if fragment else step.uses[0].holds.registers
    out.add(elements.statement(step, cell, source, destination, count=count, fused=out.fused))


def write_rows(out: CudaCppText, step: LoadRows | StoreRows) -> None:
    """Append an ldmatrix or stmatrix."""
    (use,) = step.uses
    offset = _row_offsets(out, step.addresses)
    place = Place(buffer=step.buffer, offset=0)
    address = out.address(place, step.form.space, step.immediate, offset)
    operands: list[Use | tuple[str, str] | int] = [address, use]
    if isinstance(step, LoadRows):
        operands.reverse()
    out.asm(step.form.opcode, operands, immediate=step.immediate, memory=True)


def _row_offsets(out: CudaCppText, addresses: tuple[int, ...]) -> str:
    """Return each lane's own of 32 offsets, computed where they form a progression."""
    if (regular := progression(addresses)) is not None:
        first, pitch = regular
        return f"(int(lane) * {pitch} + {first})"
    name = f"{out.kernel.entry}_rows{len(out.tables)}"
    numbers = ", ".join(map(str, addresses))
    out.tables.append(f"static __constant__ int {name}[{LANES}] = {{{numbers}}};")
    return f"{name}[lane]"


def write_registers(out: CudaCppText, step: LoadRegisters | StoreRegisters) -> None:
    """Append loads of each lane's registers, or stores, which stand under conditions by lane."""
    (use,) = step.uses
    word = "word" if step.bits == 32 else "double_word"
    pointer = f"reinterpret_cast<{word}*>({out.pointer(step.place)})"
    memory, variable = f"p[lane * {step.count} + i]", f"{out.variable(use)}[i]"
    out.add(f"{{ {word}* const p = {pointer};")
    each = f"for (int i = 0; i < {step.count}; ++i)"
    if isinstance(step, LoadRegisters):
        out.add(f"  {each} {variable} = {memory};")
    elif step.lanes != LANES:
        out.add(f"  if (lane < {step.lanes}) {each} {memory} = {variable};")
    else:
        # As at the edge of a matrix: what made the values must not move under the condition.
        out.add(f"  if (lane < {LANES // 2}) {each} {memory} = {variable};")
        out.add(f"  else {each} {memory} = {variable};")
    out.add("}")


def write_transpose(out: CudaCppText, step: TransposeRegisters) -> None:
    """Append a movmatrix of each register."""
    source, destination = map(out.variable, step.uses)
    out.add(f"for (int i = 0; i < {step.count}; ++i)")
    out.add(
        f'  asm volatile("{step.form.opcode} %0, %1;" : "=r"({destination}[i]) : "r"({source}[i]));'
    )


def write_pack(out: CudaCppText, step: PackRegisters) -> None:
    """Append the conversion of pairs of registers."""
    source, destination = map(out.variable, step.uses)
    function, type_ = _PACKED[step.type]
    low, high = (f"__uint_as_float({source}[2 * i{rest}])" for rest in ("", " + 1"))
    out.add(f"for (int i = 0; i < {step.count // 2}; ++i) {{")
    out.add(f"  const {type_} pair = {function}({low}, {high});")
    out.add(f"  memcpy(&{destination}[i], &pair, sizeof pair);")
    out.add("}")


def write_copy(out: CudaCppText, step: Copy) -> None:
    """Append loops in which the lanes copy units in turn."""
    for piece in pieces(out.program, step):
        ends = f"{out.pointer(piece.destination)}, {out.pointer(piece.source)}"
        out.add(f"copy<{_UNITS[piece.width]}>({ends}, {piece.units});")
