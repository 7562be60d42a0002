"""Programs as LLVM IR: the nvvm intrinsics, with what optimisers like to change around them.

Fragments are stack slots that `mem2reg` has to take apart; addresses are computed from lane, warp
and image; copies are loops over units of the widest type; row addresses of ldmatrix without a
pattern come out of a constant table. Names and types of the intrinsics are those of LLVM's
`IntrinsicsNVVM.td`, the same in LLVM 14 to 22 but for the spelling of pointers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from oracle.errors import UsageError
from oracle.formats import Format
from oracle.forms import LdmatrixForm, LoadForm, MmaForm, StoreForm
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
from oracle.program import Program
from oracle.steps import Barrier, Branch, Copy, Elementwise, Load, Loop, Multiply, Step, Store
from oracle.targets import Module
from runners.emission.elementwise import replicated
from runners.kernels import LANES, Kernel

OPAQUE_SINCE = 16
"""First LLVM that has no typed pointers by default wherever it is embedded: LLVM 15 still reads
them, and llvmlite 0.44, which carries it, reads no others (seen 2026-11-22)."""

_SPACES = {"": 0, "global": 1, "shared": 3, "shared::cta": 3}
"""Address spaces of NVPTX by the spelling of a state space (LLVM, User Guide for NVPTX)."""
_TYPES = {"f16": "<2 x half>", "f32": "float", "f64": "double"}
"""LLVM types of a fragment's registers; of all other formats `i32`."""
_UNITS = {16: "<4 x i32>", 8: "i64", 4: "i32", 2: "i16", 1: "i8"}
"""Types that a copy moves, by their bytes."""


@dataclass(kw_only=True)
class LlvmWriter:
    """Writes one program as a function of LLVM IR.

    Parameters
    ----------
    program
        What the kernel does to one image.
    kernel
        Its name, and the sizes of its image and of its shared memory.
    opaque
        Whether pointers are `ptr`; else they have types.
    """

    program: Program
    kernel: Kernel
    opaque: bool = True
    _lines: list[str] = field(default_factory=list)
    _slots: dict[tuple[str, str], int] = field(default_factory=dict)
    """Most registers that a name has in a type: a stack slot for each."""
    declared: dict[str, str] = field(default_factory=dict)
    """Declarations of the intrinsics that are called, by their names."""
    _tables: list[str] = field(default_factory=list)
    _count: int = 0

    def text(self) -> str:
        """Return the function with the tables that it reads; `declared` has what it calls."""
        self._write(self.program.steps)
        body, self._lines = self._lines, []
        self._prologue()
        prologue, self._lines = self._lines, []
        head = [
            f"define ptx_kernel void @{self.kernel.entry}"
            f"({self._pointer('i8', 1)} %images, {self._pointer('i32', 1)} %sms, i32 %count) {{"
        ]
        tail = ["  br label %end", "end:", "  ret void", "}"]
        return "\n".join([*self._tables, *head, *prologue, *body, *tail]) + "\n"

    # Pieces of text

    def _pointer(self, pointee: str, space: int) -> str:
        where = f" addrspace({space})" if space else ""
        return f"ptr{where}" if self.opaque else f"{pointee}{where}*"

    def _value(self, text: str) -> str:
        """Append an instruction that has a result; return its name."""
        self._count += 1
        name = f"%v{self._count}"
        self._lines.append(f"  {name} = {text}")
        return name

    def _add(self, text: str) -> None:
        self._lines.append(f"  {text}")

    def _label(self, name: str) -> None:
        self._lines.append(f"{name}:")

    def _labels(self, *words: str) -> tuple[str, ...]:
        self._count += 1
        return tuple(f"{word}{self._count}" for word in words)

    def _call(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Append a call of an intrinsic; return the name of its result, "" of void."""
        types = ", ".join(type_ for type_, _ in arguments)
        self.declared[name] = f"{result} @{name}({types})"
        values = ", ".join(f"{type_} {value}" for type_, value in arguments)
        call = f"call {result} @{name}({values})"
        if result == "void":
            self._add(call)
            return ""
        return self._value(call)

    def _register(self, name: str) -> str:
        return self._call("i32", f"llvm.nvvm.read.ptx.sreg.{name}")

    # The start of a kernel

    def _prologue(self) -> None:
        """Append what comes before the first step: slots, which image, where it lies."""
        kernel = self.kernel
        for (name, type_), count in self._slots.items():
            for index in range(count):
                self._add(f"{_slot(name, type_, index)} = alloca {type_}")
        self._add(f"%lane = {self._read('laneid')}")
        for name, register in (("threads", "ntid.x"), ("thread", "tid.x"), ("block", "ctaid.x")):
            self._add(f"%{name} = {self._read(register)}")
        self._add("%warps = lshr i32 %threads, 5")
        self._add("%inside = lshr i32 %thread, 5")
        self._add("%before = mul i32 %block, %warps")
        self._add("%warp = add i32 %before, %inside")
        self._add("%idle = icmp uge i32 %warp, %count")
        self._add("br i1 %idle, label %end, label %busy")
        self._label("busy")
        self._add("%warp64 = zext i32 %warp to i64")
        self._add(f"%position = mul i64 %warp64, {kernel.image_bytes}")
        bytes_ = self._pointer("i8", 1)
        self._add(f"%image = getelementptr i8, {bytes_} %images, i64 %position")
        if kernel.shared_bytes:
            size = kernel.shared_bytes * kernel.warps_per_block
            self._tables.insert(
                0,
                f"@{kernel.entry}_shared = internal addrspace(3) global [{size} x i8] undef, "
                f"align {IMAGE_ALIGNMENT}",
            )
            self._add("%inside64 = zext i32 %inside to i64")
            self._add(f"%slice = mul i64 %inside64, {kernel.shared_bytes}")
            array = self._pointer(f"[{size} x i8]", 3)
            self._add(
                f"%shared = getelementptr [{size} x i8], {array} @{kernel.entry}_shared, i64 0, "
                "i64 %slice"
            )
        words = self._pointer("i32", 1)
        self._add(f"%unrecorded = icmp eq {words} %sms, null")
        self._add("%other = icmp ne i32 %lane, 0")
        self._add("%silent = or i1 %unrecorded, %other")
        self._add("br i1 %silent, label %start, label %record")
        self._label("record")
        self._add(f"%sm = {self._read('smid')}")
        self._add(f"%place = getelementptr i32, {words} %sms, i64 %warp64")
        self._add(f"store i32 %sm, {words} %place")
        self._add("br label %start")
        self._label("start")

    def _read(self, register: str) -> str:
        name = f"llvm.nvvm.read.ptx.sreg.{register}"
        self.declared[name] = f"i32 @{name}()"
        return f"call i32 @{name}()"

    # Steps

    def _write(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            self._add(f"; {step}")
            self._step(step)

    def _step(self, step: Step) -> None:
        match step:
            case Load():
                self._load(step)
            case Store():
                self._store(step)
            case Multiply():
                self._multiply(step)
            case Elementwise():
                self._elementwise(step)
            case LoadRows():
                self._load_rows(step)
            case StoreRegisters():
                self._store_registers(step)
            case (
                StoreRows()
                | LoadRegisters()
                | MultiplyLanes()
                | TransposeRegisters()
                | PackRegisters()
            ):
                raise UsageError(
                    f"{type(step).__name__} ({step}) is not written as LLVM IR here; leave out "
                    "--front-end, or draw programs of wmma and ldmatrix with --only"
                )
            case Copy():
                self._copy(step)
            case Barrier():
                self._call("void", "llvm.nvvm.bar.warp.sync", ("i32", "-1"))
            case Branch():
                self._branch(step)
            case Loop():
                self._loop(step)
            case _:
                assert_never(step)

    def _slots_of(self, use: Use) -> tuple[str, list[str]]:
        """Return the type of what a name holds where a step uses it, and its slots."""
        holds = use.holds
        type_ = "i32"
        if isinstance(holds, Fragment):
            type_ = _TYPES.get(holds.matrix.type.name, "i32")
        key = (use.name, type_)
        self._slots[key] = max(holds.registers, self._slots.get(key, 0))
        return type_, [_slot(use.name, type_, index) for index in range(holds.registers)]

    def _values(self, use: Use) -> list[tuple[str, str]]:
        type_, slots = self._slots_of(use)
        pointer = self._pointer(type_, 0)
        return [(type_, self._value(f"load {type_}, {pointer} {slot}")) for slot in slots]

    def _keep(self, use: Use, result: str) -> None:
        """Append the stores of a result, a struct if there are several registers."""
        type_, slots = self._slots_of(use)
        pointer = self._pointer(type_, 0)
        if len(slots) == 1:
            self._add(f"store {type_} {result}, {pointer} {slots[0]}")
            return
        struct = self._struct(type_, len(slots))
        for index, slot in enumerate(slots):
            value = self._value(f"extractvalue {struct} {result}, {index}")
            self._add(f"store {type_} {value}, {pointer} {slot}")

    def _struct(self, type_: str, count: int) -> str:
        return type_ if count == 1 else "{ " + ", ".join([type_] * count) + " }"

    def _address(
        self, place: Place, *, space: int = -1, offset: str = "", pointee: str = "i8"
    ) -> tuple[str, str]:
        """Return type and value of a pointer to a place, `offset` bytes on, in a space."""
        own = 3 if self.program.buffer(place.buffer).space == "shared" else 1
        base = "%shared" if own == 3 else "%image"
        distance = self.program.offset(place.buffer) + place.offset
        type_ = self._pointer("i8", own)
        value = self._value(f"getelementptr i8, {type_} {base}, i64 {distance}")
        if offset:
            value = self._value(f"getelementptr i8, {type_} {value}, i64 {offset}")
        if space == 0:
            generic = self._pointer("i8", 0)
            value = self._value(f"addrspacecast {type_} {value} to {generic}")
            type_, own = generic, 0
        if not self.opaque and pointee != "i8":
            wanted = self._pointer(pointee, own)
            value = self._value(f"bitcast {type_} {value} to {wanted}")
            type_ = wanted
        return type_, value

    def _overload(self, space: int) -> str:
        return f".p{space}" if self.opaque else f".p{space}i8"

    def _access_name(self, form: LoadForm | StoreForm, *, stride: bool) -> str:
        matrix, strided = form.matrix, ".stride" if stride else ""
        what = "load" if isinstance(form, LoadForm) else "store"
        space = self._overload(_SPACES[form.space])
        return (
            f"llvm.nvvm.wmma.{matrix.shape.name}.{what}.{matrix.operand}.{form.layout}{strided}"
            f".{matrix.type.name}{space}"
        )

    def _load(self, step: Load) -> None:
        (use,) = step.uses
        type_, slots = self._slots_of(use)
        arguments = [self._address(step.place, space=_SPACES[step.form.space])]
        if step.stride is not None:
            arguments.append(("i32", str(step.stride)))
        name = self._access_name(step.form, stride=step.stride is not None)
        self._keep(use, self._call(self._struct(type_, len(slots)), name, *arguments))

    def _store(self, step: Store) -> None:
        (use,) = step.uses
        values = self._values(use)
        arguments = [self._address(step.place, space=_SPACES[step.form.space]), *values]
        if step.stride is not None:
            arguments.append(("i32", str(step.stride)))
        name = self._access_name(step.form, stride=step.stride is not None)
        self._call("void", name, *arguments)

    def _multiply(self, step: Multiply) -> None:
        d, *rest = step.uses
        arguments = [value for use in rest for value in self._values(use)]
        type_, slots = self._slots_of(d)
        result = self._struct(type_, len(slots))
        self._keep(d, self._call(result, multiply_name(step.form), *arguments))

    def _elementwise(self, step: Elementwise) -> None:
        source, destination = step.uses
        type_, slots = self._slots_of(destination)
        pointer = self._pointer(type_, 0)
        for (_, value), slot in zip(self._values(source), slots, strict=True):
            result = self._element(step, type_, value)
            self._add(f"store {type_} {result}, {pointer} {slot}")

    def _element(self, step: Elementwise, type_: str, value: str) -> str:
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
                return self._value(f"{word} i32 {value}, {_signed(constant, 32)}")
            # Hidden from LLVM: it takes x * 1 for x, and `mul` and `add` return another NaN than x.
            hidden = self._assembly(integer, "mov", hex(constant))
            number = self._cast(integer, hidden, type_)
            return self._value(f"f{word} {type_} {value}, {number}")
        if operation is Operation.NEGATE and type_ == "i32" and not format_.is_float:
            return self._value(f"sub i32 0, {value}")
        word, operand = {
            Operation.NEGATE: ("xor", _signs(format_, bits)),
            Operation.ABSOLUTE: ("and", mask ^ _signs(format_, bits)),
            Operation.NOT: ("xor", mask),
        }.get(operation, (str(operation), constant))
        raw = self._cast(type_, value, integer)
        if format_.is_float and operation in (Operation.NEGATE, Operation.ABSOLUTE):
            # LLVM takes masks of the sign for `neg` and `abs`, whose NaN PTX leaves open.
            changed = self._assembly(integer, word, hex(operand), raw)
        else:
            changed = self._value(f"{word} {integer} {raw}, {_signed(operand, bits)}")
        return self._cast(integer, changed, type_)

    def _assembly(self, integer: str, opcode: str, constant: str, source: str = "") -> str:
        """Append one PTX instruction on whole registers that LLVM does not look into."""
        letter = "l" if integer == "i64" else "r"
        operands = f"$1, {constant}" if source else constant
        constraints = f"={letter},{letter}" if source else f"={letter}"
        argument = f"{integer} {source}" if source else ""
        return self._value(
            f'call {integer} asm "{opcode}.b{integer[1:]} $0, {operands};", "{constraints}"'
            f"({argument})"
        )

    def _cast(self, from_: str, value: str, to: str) -> str:
        return value if from_ == to else self._value(f"bitcast {from_} {value} to {to}")

    def _lane_bytes(self, size: int) -> str:
        wide = self._value("zext i32 %lane to i64")
        return self._value(f"mul i64 {wide}, {size}")

    def _load_rows(self, step: LoadRows) -> None:
        form = step.form
        (use,) = step.uses
        type_, slots = self._slots_of(use)
        offset = self._row_offsets(step.addresses)
        place = Place(buffer=step.buffer, offset=0)
        space = _SPACES[form.space]
        pointer = self._address(place, space=space, offset=offset, pointee="i16")
        overload = f".p{space}" if self.opaque else f".p{space}i16"
        name = f"llvm.nvvm.{_ldmatrix_name(form)}{overload}"
        self._keep(use, self._call(self._struct(type_, len(slots)), name, pointer))

    def _row_offsets(self, addresses: tuple[int, ...]) -> str:
        """Return each lane's own of 32 offsets, computed where they form a progression."""
        pitch = addresses[1] - addresses[0]
        if all(value == addresses[0] + i * pitch for i, value in enumerate(addresses)):
            scaled = self._lane_bytes(pitch)
            return self._value(f"add i64 {scaled}, {addresses[0]}")
        table = f"@{self.kernel.entry}_rows{len(self._tables)}"
        type_ = f"[{LANES} x i64]"
        numbers = ", ".join(f"i64 {value}" for value in addresses)
        self._tables.append(f"{table} = internal addrspace(4) constant {type_} [{numbers}]")
        pointer = self._pointer(type_, 4)
        wide = self._value("zext i32 %lane to i64")
        entry = self._value(f"getelementptr {type_}, {pointer} {table}, i64 0, i64 {wide}")
        return self._value(f"load i64, {self._pointer('i64', 4)} {entry}")

    def _store_registers(self, step: StoreRegisters) -> None:
        (use,) = step.uses
        offset = self._lane_bytes(4 * step.count)
        for index, (_, value) in enumerate(self._values(use)):
            place = Place(buffer=step.place.buffer, offset=step.place.offset + 4 * index)
            type_, pointer = self._address(place, offset=offset, pointee="i32")
            self._add(f"store i32 {value}, {type_} {pointer}, align 4")

    def _copy(self, step: Copy) -> None:
        ends = (step.source, step.destination)
        offsets = [self.program.offset(place.buffer) + place.offset for place in ends]
        done = 0
        while done < step.size:
            width = next(
                unit
                for unit in _UNITS
                if unit <= step.size - done and all((at + done) % unit == 0 for at in offsets)
            )
            units = (step.size - done) // width
            self._copy_units(ends, done, width, units)
            done += units * width

    def _copy_units(self, ends: tuple[Place, Place], done: int, width: int, units: int) -> None:
        """Append a loop in which lane l copies every 32nd unit from the l-th on."""
        unit = _UNITS[width]
        head, again, end = self._labels("copy", "again", "copied")
        counter = f"%i{self._count}"
        following = f"%j{self._count}"
        entry = f"entry{self._count}"
        self._add(f"br label %{entry}")
        self._label(entry)
        self._add(f"br label %{head}")
        self._label(head)
        self._add(f"{counter} = phi i32 [ %lane, %{entry} ], [ {following}, %{again} ]")
        more = self._value(f"icmp ult i32 {counter}, {units}")
        self._add(f"br i1 {more}, label %{again}, label %{end}")
        self._label(again)
        wide = self._value(f"zext i32 {counter} to i64")
        offset = self._value(f"mul i64 {wide}, {width}")
        source, destination = (
            self._address(
                Place(buffer=place.buffer, offset=place.offset + done), offset=offset, pointee=unit
            )
            for place in ends
        )
        moved = self._value(f"load {unit}, {source[0]} {source[1]}, align {width}")
        self._add(f"store {unit} {moved}, {destination[0]} {destination[1]}, align {width}")
        self._add(f"{following} = add i32 {counter}, {LANES}")
        self._add(f"br label %{head}")
        self._label(end)

    def _uniform(self, value: Uniform) -> str:
        """Return a number that is the same in every lane."""
        if not isinstance(value, Word):
            return str(_signed(value, 32))
        type_, pointer = self._address(value.place, pointee="i32")
        word = self._value(f"load i32, {type_} {pointer}, align 4")
        return self._value(f"and i32 {word}, {_signed(value.mask, 32)}")

    def _branch(self, step: Branch) -> None:
        then, otherwise, end = self._labels("then", "else", "done")
        condition = self._uniform(step.condition)
        taken = self._value(f"icmp ne i32 {condition}, 0")
        last = otherwise if step.otherwise else end
        self._add(f"br i1 {taken}, label %{then}, label %{last}")
        self._label(then)
        self._write(step.then)
        self._add(f"br label %{end}")
        if step.otherwise:
            self._label(otherwise)
            self._write(step.otherwise)
            self._add(f"br label %{end}")
        self._label(end)

    def _loop(self, step: Loop) -> None:
        head, body, end = self._labels("loop", "body", "left")
        count = self._uniform(step.count)
        slot = (f"loop{self._count}", "i32")
        self._slots[slot] = 1
        counter, pointer = _slot(*slot, 0), self._pointer("i32", 0)
        self._add(f"store i32 {count}, {pointer} {counter}")
        self._add(f"br label %{head}")
        self._label(head)
        left = self._value(f"load i32, {pointer} {counter}")
        more = self._value(f"icmp ne i32 {left}, 0")
        self._add(f"br i1 {more}, label %{body}, label %{end}")
        self._label(body)
        fewer = self._value(f"sub i32 {left}, 1")
        self._add(f"store i32 {fewer}, {pointer} {counter}")
        self._write(step.body)
        self._add(f"br label %{head}")
        self._label(end)


def llvm_ir(
    programs: Mapping[str, Program], kernels: Sequence[Kernel], *, module: Module, llvm: int
) -> str:
    """Return programs as a module of LLVM IR with a kernel for each.

    Parameters
    ----------
    programs
        By the names of their kernels; all their forms have intrinsics.
    kernels
        The kernels as `emit_all` describes them: the entries have the same parameters.
    module
        Target and PTX version that the code is for.
    llvm
        Major version of the LLVM that is to read it.

    Raises
    ------
    UsageError
        If a form has no intrinsic.
    """
    texts, declared = [], dict[str, str]()
    for kernel in kernels:
        program = programs[kernel.entry]
        writer = LlvmWriter(program=program, kernel=kernel, opaque=llvm >= OPAQUE_SINCE)
        texts.append(writer.text())
        declared |= writer.declared
    head = f'; {module}\ntarget triple = "nvptx64-nvidia-cuda"\n'
    tail = "\n".join(f"declare {text}" for text in declared.values())
    return "\n".join([head, *texts, tail, ""])


def multiply_name(form: MmaForm) -> str:
    """Return the name of the intrinsic of a wmma.mma."""
    types = [form.matrix(operand).type.name for operand in "dca"]
    signature = ".".join(types[:2]) if types[2] == "f16" else types[2]
    parts = [
        f"llvm.nvvm.wmma.{form.matrix('a').shape.name}.mma",
        *([f"{form.op}.popc"] if form.op else []),
        form.a_layout,
        form.b_layout,
        *([form.rounding] if form.rounding else []),
        signature,
        *(["satfinite"] if form.satfinite else []),
    ]
    return ".".join(parts)


def _ldmatrix_name(form: LdmatrixForm) -> str:
    if form.type != "b16":
        raise UsageError(
            f"{form.opcode} has no intrinsic that all of LLVM 14 to 22 know; compile it with ptxas "
            "alone, or choose a target before sm_100"
        )
    trans = ".trans" if form.transposed else ""
    return f"ldmatrix.sync.aligned.m8n8.x{form.number}{trans}.b16"


def _slot(name: str, type_: str, index: int) -> str:
    suffix = {"<2 x half>": "h", "float": "f", "double": "d", "i32": "i"}[type_]
    return f"%{name}.{suffix}{index}"


def _signed(pattern: int, bits: int) -> int:
    """Return a bit pattern as the number by which LLVM writes it."""
    return pattern - (1 << bits) if pattern >> (bits - 1) else pattern


def _signs(format_: Format, bits: int) -> int:
    """Return the sign bits of a float's elements in a register."""
    return replicated(1 << (format_.bits - 1), format_.bits, bits)
