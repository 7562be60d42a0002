"""The steps on registers that are known lane by lane, as LLVM IR."""

from __future__ import annotations

from oracle.lane_steps import (
    LoadRegisters,
    LoadRows,
    MultiplyLanes,
    PackRegisters,
    StoreRegisters,
    StoreRows,
    TransposeRegisters,
)
from oracle.places import IMAGE_ALIGNMENT, Place
from runners.emission.addresses import progression
from runners.front_ends.llvm_intrinsics import (
    SPACES,
    multiply_lanes_name,
    register_type,
    rows_name,
)
from runners.front_ends.llvm_text import LlvmText, held_type, vector
from runners.kernels import LANES


def write_rows(out: LlvmText, step: LoadRows | StoreRows) -> None:
    """Append an ldmatrix or stmatrix, as inline assembly where this LLVM has no intrinsic."""
    form, stored = step.form, isinstance(step, StoreRows)
    (use,) = step.uses
    space = SPACES[form.space]
    name = rows_name(form, llvm=out.llvm)
    values = out.values(use) if stored else []
    if name is not None:
        pointee = "i16" if form.texts["type"] == "b16" else "i8"
        pointer = _rows(out, step, space, pointee)
        name += out.overload(space, pointee)
        if stored:
            out.call("void", name, pointer, *values)
        else:
            out.keep(use, out.call(out.result(use), name, pointer))
        return
    pointer = _rows(out, step, space)
    number = out.value(f"ptrtoint {pointer[0]} {pointer[1]} to i64")
    where, what = ("[$0]", 1) if stored else (f"[${form.registers}]", 0)
    registers = vector(what, form.registers)
    text = f"{where}, {registers}" if stored else f"{registers}, {where}"
    result = out.instruction(
        f"{form.opcode} {text};",
        "void" if stored else out.result(use),
        [("i64", number), *values],
        memory=True,
    )
    if not stored:
        out.keep(use, result)


def write_multiply_lanes(out: LlvmText, step: MultiplyLanes) -> None:
    """Append an mma.sync, as inline assembly where this LLVM has no intrinsic."""
    form = step.form
    d, *rest = step.uses
    name = multiply_lanes_name(form, llvm=out.llvm)
    operands = [
        (operand, raw, value)
        for operand, use in zip("abc", rest, strict=True)
        for raw, value in out.values(use)
    ]
    if name is None:
        counts = [use.holds.registers for use in step.uses]
        vectors = [vector(sum(counts[:i]), count) for i, count in enumerate(counts)]
        arguments = [(raw, value) for _, raw, value in operands]
        text = f"{form.opcode} {', '.join(vectors)};"
        out.keep(d, out.instruction(text, out.result(d), arguments))
        return
    arguments = []
    for operand, raw, value in operands:
        type_ = register_type(form.type(operand).name)
        arguments.append((type_, out.cast(raw, value, type_)))
    type_ = register_type(form.type("d").name)
    count = d.holds.registers
    result = out.call(out.struct(type_, count), name, *arguments)
    raw = held_type(d)
    out.fill(d, [out.cast(type_, one, raw) for one in out.parts(result, type_, count)])


def write_transpose(out: LlvmText, step: TransposeRegisters) -> None:
    """Append a movmatrix of each register, as inline assembly."""
    source, destination = step.uses
    text = f"{step.form.opcode} $0, $1;"
    values = [out.instruction(text, "i32", [one]) for one in out.values(source)]
    out.fill(destination, values)


def write_pack(out: LlvmText, step: PackRegisters) -> None:
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


def _rows(
    out: LlvmText, step: LoadRows | StoreRows, space: int, pointee: str = "i8"
) -> tuple[str, str]:
    """Return each lane's own of 32 addresses, computed where they form a progression."""
    if (regular := progression(step.addresses)) is not None:
        first, pitch = regular
        place = Place(buffer=step.buffer, offset=first)
        return out.address(place, space=space, lane=pitch, pointee=pointee)
    table = f"@{out.kernel.entry}_rows{len(out.tables)}"
    type_ = f"[{LANES} x i32]"
    numbers = ", ".join(f"i32 {value}" for value in step.addresses)
    out.tables.append(f"{table} = internal addrspace(4) constant {type_} [{numbers}]")
    pointer = out.pointer(type_, 4)
    entry = out.value(f"getelementptr {type_}, {pointer} {table}, i64 0, i32 %lane")
    row = out.value(f"load i32, {out.pointer('i32', 4)} {entry}")
    offset = out.value(f"zext i32 {row} to i64")
    return out.address(Place(buffer=step.buffer), space=space, offset=offset, pointee=pointee)


def write_registers(out: LlvmText, step: LoadRegisters | StoreRegisters) -> None:
    """Append an access of each register; LLVM may make wider ones of them."""
    (use,) = step.uses
    width = step.bits // 8
    integer = f"i{step.bits}"
    start = out.program.offset(step.place.buffer) + step.place.offset
    values = [value for _, value in out.values(use)] if isinstance(step, StoreRegisters) else []
    loaded = []
    some = isinstance(step, StoreRegisters) and step.lanes != LANES
    if isinstance(step, StoreRegisters) and some:
        mine, others = out.labels("mine", "stored")
        own = out.value(f"icmp ult i32 %lane, {step.lanes}")
        out.add(f"br i1 {own}, label %{mine}, label %{others}")
        out.label(mine)
    for index in range(step.count):
        place = Place(buffer=step.place.buffer, offset=step.place.offset + width * index)
        type_, pointer = out.address(place, lane=width * step.count, pointee=integer)
        align = f"align {_alignment(start + width * index, width * step.count)}"
        if isinstance(step, LoadRegisters):
            loaded.append(out.value(f"load {integer}, {type_} {pointer}, {align}"))
        else:
            out.add(f"store {integer} {values[index]}, {type_} {pointer}, {align}")
    if isinstance(step, LoadRegisters):
        out.fill(use, loaded)
    if some:
        out.add(f"br label %{others}")
        out.label(others)


def _alignment(offset: int, step: int) -> int:
    """Return the bytes to which all places `offset + lane * step` of an image are aligned."""
    return min(
        IMAGE_ALIGNMENT, (offset | step | IMAGE_ALIGNMENT) & -(offset | step | IMAGE_ALIGNMENT)
    )
