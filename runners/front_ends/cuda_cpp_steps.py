"""The steps of a program as statements of CUDA C++."""

from __future__ import annotations

from oracle.ops import (
    AnyOp,
    MatrixAccess,
    Product,
    RowAccess,
    accesses_matrix,
    accesses_rows,
    multiplies,
)
from oracle.places import Place
from oracle.steps import (
    Copy,
    Elementwise,
    PlainAccess,
    Scalar,
)
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


def write_op(out: CudaCppText, step: AnyOp) -> None:
    """Append a matrix instruction, of the API or as inline PTX."""
    if multiplies(step):
        _multiply(out, step)
    elif accesses_matrix(step):
        _access(out, step)
    elif accesses_rows(step):
        memory = step.memory
        offset = _row_offsets(out, memory.addresses)
        place = Place(buffer=memory.buffer)
        address = out.address(place, step.form.space, memory.immediate, offset)
        _inline_access(out, step, address)
    else:
        source, destination = map(out.variable, step.uses)
        out.add(f"for (int i = 0; i < {step.count}; ++i)")
        asm = f'"{step.form.opcode} %0, %1;"'
        out.add(f'  asm volatile({asm} : "=r"({destination}[i]) : "r"({source}[i]));')


def _multiply(out: CudaCppText, step: Product) -> None:
    if out.layouts is None or not step.form.opaque:
        selector = () if step.selector is None else (step.selector,)
        out.asm(step.form.opcode, [*step.uses, *selector])
        return
    function, rest = api.multiplication(step.form)
    arguments = ", ".join([*map(out.variable, step.uses), *rest])
    out.add(f"{function}({arguments});")


def _inline_access(
    out: CudaCppText,
    step: MatrixAccess | RowAccess,
    address: tuple[str, str],
    *stride: tuple[str, str] | int,
) -> None:
    (use,) = step.uses
    operands = (address, use) if step.stores else (use, address)
    immediate = step.memory.immediate
    out.asm(step.form.opcode, [*operands, *stride], immediate=immediate, memory=True)


def _access(out: CudaCppText, step: MatrixAccess) -> None:
    form, memory = step.form, step.memory
    (use,) = step.uses
    given = memory.stride
    stride = f"{given} + zero" if memory.stride_in_register else f"{given}"
    if not out.is_fragment(use):
        address = out.address(memory.place, form.space, memory.immediate)
        operand = (stride, "r") if memory.stride_in_register else given
        _inline_access(out, step, address, *([] if operand is None else [operand]))
        return
    if given is None:
        stride = str(form.matrix().default_stride(form.layout))
    const = "" if step.stores else "const "
    type_ = f"{const}{api.pointer_type(form.matrix().type.name)}"
    pointer = f"reinterpret_cast<{type_}*>({out.pointer(memory.place)})"
    layout = f", wmma::mem_{form.layout}_major" if form.matrix().operand in "cd" else ""
    variable = out.variable(use)
    if step.stores:
        out.add(f"wmma::store_matrix_sync({pointer}, {variable}, {stride}{layout});")
    else:
        out.add(f"wmma::load_matrix_sync({variable}, {pointer}, {stride}{layout});")


def write_elementwise(out: CudaCppText, step: Elementwise) -> None:
    """Append the loop of an operation on every element, or register."""
    source, destination = map(out.variable, step.uses)
    fragment = out.is_fragment(step.uses[0])
    cell = api.stored_type(step.matrix.type.name) if fragment else out.type_of(step.uses[0])
    count = None if fragment else step.uses[0].holds.registers
    out.add(elements.statement(step, cell, source, destination, count=count, fused=out.fused))


def _row_offsets(out: CudaCppText, addresses: tuple[int, ...]) -> str:
    """Return each lane's own of 32 offsets, computed where they form a progression."""
    if (regular := progression(addresses)) is not None:
        first, pitch = regular
        return f"(int(lane) * {pitch} + {first})"
    name = f"{out.kernel.entry}_rows{len(out.tables)}"
    numbers = ", ".join(map(str, addresses))
    out.tables.append(f"static __constant__ int {name}[{LANES}] = {{{numbers}}};")
    return f"{name}[lane]"


def write_registers(out: CudaCppText, step: PlainAccess) -> None:
    """Append loads of each lane's registers, or stores, which stand under conditions by lane."""
    (use,) = step.uses
    word = "word" if step.bits == 32 else "double_word"
    pointer = f"reinterpret_cast<{word}*>({out.pointer(step.place)})"
    memory, variable = f"p[lane * {step.count} + i]", f"{out.variable(use)}[i]"
    out.add(f"{{ {word}* const p = {pointer};")
    each = f"for (int i = 0; i < {step.count}; ++i)"
    if step.loads:
        out.add(f"  {each} {variable} = {memory};")
    elif step.lanes != LANES:
        out.add(f"  if (lane < {step.lanes}) {each} {memory} = {variable};")
    else:
        # As at the edge of a matrix: what made the values must not move under the condition.
        out.add(f"  if (lane < {LANES // 2}) {each} {memory} = {variable};")
        out.add(f"  else {each} {memory} = {variable};")
    out.add("}")


def write_pack(out: CudaCppText, step: Scalar) -> None:
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
