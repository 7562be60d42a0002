"""The steps of a program as LLVM IR: matrix instructions, accesses of registers, conversions."""

from __future__ import annotations

from oracle.operations import Operation
from oracle.ops import (
    AnyOp,
    MatrixAccess,
    Product,
    RowAccess,
    accesses_matrix,
    accesses_rows,
    multiplies,
)
from oracle.places import IMAGE_ALIGNMENT, Place
from oracle.steps import Elementwise, PlainAccess, Scalar
from runners.emission.addresses import progression
from runners.emission.elementwise import replicated, signs
from runners.front_ends.llvm_intrinsics import (
    SPACES,
    access_name,
    multiply_name,
    register_type,
    rows_name,
)
from runners.front_ends.llvm_text import LlvmText, held_type, signed, vector
from runners.kernels import LANES


def write_op(out: LlvmText, step: AnyOp) -> None:
    """Append a matrix instruction, as inline assembly where this LLVM has no intrinsic."""
    if multiplies(step):
        _multiply(out, step)
    elif accesses_matrix(step):
        _access(out, step)
    elif accesses_rows(step):
        _rows(out, step)
    else:
        source, destination = step.uses
        text = f"{step.form.opcode} $0, $1;"
        values = [out.instruction(text, "i32", [one]) for one in out.values(source)]
        out.fill(destination, values)


def _access(out: LlvmText, step: MatrixAccess) -> None:
    (use,) = step.uses
    memory, space = step.memory, SPACES[step.form.space]
    pointer = out.address(memory.place, space=space)
    values = out.values(use) if step.stores else []
    stride = []
    if memory.stride is not None and memory.stride_in_register:
        stride = [("i32", out.assembly("i32", "mov", str(memory.stride)))]
    elif memory.stride is not None:
        stride = [("i32", str(signed(memory.stride, 32)))]
    name = access_name(step.form, stride=bool(stride)) + out.overload(space)
    result = out.call("void" if step.stores else out.result(use), name, pointer, *values, *stride)
    if not step.stores:
        out.keep(use, result)


def _rows(out: LlvmText, step: RowAccess) -> None:
    form = step.form
    (use,) = step.uses
    space = SPACES[form.space]
    name = rows_name(form, llvm=out.llvm)
    type_ = "void" if step.stores else out.result(use)
    values = out.values(use) if step.stores else []
    if name is not None:
        pointee = "i16" if form.element_bits == 16 else "i8"
        pointer = _row_address(out, step, space, pointee)
        result = out.call(type_, name + out.overload(space, pointee), pointer, *values)
    else:
        kind, address = _row_address(out, step, space)
        number = out.value(f"ptrtoint {kind} {address} to i64")
        if step.stores:
            text = f"[$0], {vector(1, form.registers)}"
        else:
            text = f"{vector(0, form.registers)}, [${form.registers}]"
        text = f"{form.opcode} {text};"
        result = out.instruction(text, type_, [("i64", number), *values], memory=True)
    if not step.stores:
        out.keep(use, result)


def _row_address(
    out: LlvmText, step: RowAccess, space: int, pointee: str = "i8"
) -> tuple[str, str]:
    """Return each lane's own of 32 addresses, computed where they form a progression."""
    memory = step.memory
    if (regular := progression(memory.addresses)) is not None:
        first, pitch = regular
        place = Place(buffer=memory.buffer, offset=first)
        return out.address(place, space=space, lane=pitch, pointee=pointee)
    table = f"@{out.kernel.entry}_rows{len(out.tables)}"
    type_ = f"[{LANES} x i32]"
    numbers = ", ".join(f"i32 {value}" for value in memory.addresses)
    out.tables.append(f"{table} = internal addrspace(4) constant {type_} [{numbers}]")
    pointer = out.pointer(type_, 4)
    entry = out.value(f"getelementptr {type_}, {pointer} {table}, i64 0, i32 %lane")
    row = out.value(f"load i32, {out.pointer('i32', 4)} {entry}")
    offset = out.value(f"zext i32 {row} to i64")
    return out.address(Place(buffer=memory.buffer), space=space, offset=offset, pointee=pointee)


def _multiply(out: LlvmText, step: Product) -> None:
    form = step.form
    d, *rest = step.uses
    name = multiply_name(form, llvm=out.llvm)
    operands = [(use.field, value) for use in rest for value in out.values(use)]
    if name is None:
        counts = [use.holds.registers for use in step.uses]
        vectors = [vector(sum(counts[:i]), count) for i, count in enumerate(counts)]
        if step.selector is not None:
            vectors[-1:] = [vectors[-1].strip("{}"), f"{step.selector}"]
        text = f"{form.opcode} {', '.join(vectors)};"
        out.keep(d, out.instruction(text, out.result(d), [value for _, value in operands]))
        return
    arguments = []
    for operand, (raw, value) in operands:
        matrix = form.matrices.get(operand)
        type_ = raw if matrix is None else register_type(matrix.type.name)
        arguments.append((type_, out.cast(raw, value, type_)))
    if step.selector is not None:
        arguments.append(("i32", f"{step.selector}"))
    type_, count = register_type(form.d_type.name), d.holds.registers
    result = out.call(out.struct(type_, count), name, *arguments)
    raw = held_type(d)
    out.fill(d, [out.cast(type_, one, raw) for one in out.parts(result, type_, count)])


def write_pack(out: LlvmText, step: Scalar) -> None:
    """Append the conversion of pairs of registers."""
    source, destination = step.uses
    values = [value for _, value in out.values(source)]
    packed = []
    for low, high in zip(values[::2], values[1::2], strict=True):
        if step.type == "f16":
            floats = [("float", out.cast("i32", one, "float")) for one in (high, low)]
            made = out.call("<2 x half>", "llvm.nvvm.ff2f16x2.rn", *floats)
            packed.append(out.cast("<2 x half>", made, "i32"))
        else:
            # The type of what its intrinsic returns is another from LLVM 17 on.
            text = f"cvt.rn.{step.type}x2.f32 $0, $1, $2;"
            packed.append(out.instruction(text, "i32", [("i32", high), ("i32", low)]))
    out.fill(destination, packed)


def write_registers(out: LlvmText, step: PlainAccess) -> None:
    """Append an access of each register; LLVM may make wider ones of them."""
    (use,) = step.uses
    width = step.bits // 8
    integer = f"i{step.bits}"
    start = out.program.offset(step.place.buffer) + step.place.offset
    values = [value for _, value in out.values(use)] if step.stores else []
    loaded = []
    some = step.lanes != LANES
    if some:
        mine, others = out.labels("mine", "stored")
        own = out.value(f"icmp ult i32 %lane, {step.lanes}")
        out.add(f"br i1 {own}, label %{mine}, label %{others}")
        out.label(mine)
    for index in range(step.count):
        place = Place(buffer=step.place.buffer, offset=step.place.offset + width * index)
        type_, pointer = out.address(place, lane=width * step.count, pointee=integer)
        align = f"align {_alignment(start + width * index, width * step.count)}"
        if step.loads:
            loaded.append(out.value(f"load {integer}, {type_} {pointer}, {align}"))
        else:
            out.add(f"store {integer} {values[index]}, {type_} {pointer}, {align}")
    if step.loads:
        out.fill(use, loaded)
    if some:
        out.add(f"br label %{others}")
        out.label(others)


def _alignment(offset: int, step: int) -> int:
    """Return the bytes to which all places `offset + lane * step` of an image are aligned."""
    return min(
        IMAGE_ALIGNMENT, (offset | step | IMAGE_ALIGNMENT) & -(offset | step | IMAGE_ALIGNMENT)
    )


def write_elementwise(out: LlvmText, step: Elementwise) -> None:
    """Append an operation on each register of a fragment."""
    source, destination = step.uses
    type_ = held_type(destination)
    values = [_element(out, step, type_, value) for _, value in out.values(source)]
    out.fill(destination, values)


def _element(out: LlvmText, step: Elementwise, type_: str, value: str) -> str:
    format_, operation = step.matrix.type, step.operation
    bits = 64 if type_ == "double" else 32
    integer = f"i{bits}"
    mask = (1 << bits) - 1
    constant = replicated(step.constant, format_.bits, bits)
    if operation is Operation.COPY:
        return value
    if operation in (Operation.MULTIPLY, Operation.ADD):
        word = "mul" if operation is Operation.MULTIPLY else "add"
        if type_ == "i32":
            return out.value(f"{word} i32 {value}, {signed(constant, 32)}")
        # Hidden from LLVM: it takes x * 1 for x, and `mul` and `add` return another NaN than x.
        hidden = out.assembly(integer, "mov", hex(constant))
        number = out.cast(integer, hidden, type_)
        return out.value(f"f{word} {type_} {value}, {number}")
    if operation is Operation.NEGATE and type_ == "i32" and not format_.is_float:
        return out.value(f"sub i32 0, {value}")
    word, operand = {
        Operation.NEGATE: ("xor", signs(format_, bits)),
        Operation.ABSOLUTE: ("and", mask ^ signs(format_, bits)),
        Operation.NOT: ("xor", mask),
    }.get(operation, (str(operation), constant))
    raw = out.cast(type_, value, integer)
    if format_.is_float and operation in (Operation.NEGATE, Operation.ABSOLUTE):
        # LLVM takes masks of the sign for `neg` and `abs`, whose NaN PTX leaves open.
        changed = out.assembly(integer, word, hex(operand), raw)
    else:
        changed = out.value(f"{word} {integer} {raw}, {signed(operand, bits)}")
    return out.cast(integer, changed, type_)
