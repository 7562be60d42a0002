"""Programs as LLVM IR: the nvvm intrinsics, with what optimisers like to change around them.

Fragments are stack slots that `mem2reg` has to take apart; addresses are computed from lane, warp
and image; copies are loops over units of the widest type; row addresses of ldmatrix without a
pattern come out of a constant table. The intrinsics are those of
`llvm_intrinsics`; what a version has none for is inline assembly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from oracle.formats import Format
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
from runners.front_ends.llvm_intrinsics import (
    OPAQUE_SINCE,
    SPACES,
    access_name,
    multiply_lanes_name,
    multiply_name,
    register_type,
    rows_name,
)
from runners.kernels import LANES, Kernel

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
    llvm
        Major version of the LLVM that reads it.
    """

    program: Program
    kernel: Kernel
    llvm: int
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

    @property
    def opaque(self) -> bool:
        """Whether pointers are `ptr`; else they have types."""
        return self.llvm >= OPAQUE_SINCE

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
            case LoadRows() | StoreRows():
                self._rows(step)
            case LoadRegisters() | StoreRegisters():
                self._registers_and_memory(step)
            case MultiplyLanes():
                self._multiply_lanes(step)
            case TransposeRegisters():
                self._transpose(step)
            case PackRegisters():
                self._pack(step)
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
        if isinstance(holds, Fragment):
            type_ = register_type(holds.matrix.type.name)
        else:
            type_ = f"i{holds.bits}"
        key = (use.name, type_)
        self._slots[key] = max(holds.registers, self._slots.get(key, 0))
        return type_, [_slot(use.name, type_, index) for index in range(holds.registers)]

    def _values(self, use: Use) -> list[tuple[str, str]]:
        type_, slots = self._slots_of(use)
        pointer = self._pointer(type_, 0)
        return [(type_, self._value(f"load {type_}, {pointer} {slot}")) for slot in slots]

    def _keep(self, use: Use, result: str) -> None:
        """Append the stores of a result, a struct if there are several registers."""
        self._fill(use, self._parts(result, self._slots_of(use)[0], use.holds.registers))

    def _parts(self, result: str, type_: str, count: int) -> list[str]:
        """Return the registers of a result of `count` registers."""
        if count == 1:
            return [result]
        struct = self._struct(type_, count)
        return [self._value(f"extractvalue {struct} {result}, {index}") for index in range(count)]

    def _fill(self, use: Use, values: Sequence[str]) -> None:
        """Append the stores of registers into the slots of what a step writes."""
        type_, slots = self._slots_of(use)
        for value, slot in zip(values, slots, strict=True):
            self._add(f"store {type_} {value}, {self._pointer(type_, 0)} {slot}")

    def _result(self, use: Use) -> str:
        """Return the type of a result that fills the slots of what a step writes."""
        return self._struct(self._slots_of(use)[0], use.holds.registers)

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

    def _overload(self, space: int, pointee: str = "i8") -> str:
        return f".p{space}" if self.opaque else f".p{space}{pointee}"

    def _load(self, step: Load) -> None:
        (use,) = step.uses
        type_, slots = self._slots_of(use)
        space = SPACES[step.form.space]
        arguments = [self._address(step.place, space=space), *self._stride(step)]
        name = access_name(step.form, stride=step.stride is not None) + self._overload(space)
        self._keep(use, self._call(self._struct(type_, len(slots)), name, *arguments))

    def _store(self, step: Store) -> None:
        (use,) = step.uses
        space = SPACES[step.form.space]
        pointer = self._address(step.place, space=space)
        name = access_name(step.form, stride=step.stride is not None) + self._overload(space)
        self._call("void", name, pointer, *self._values(use), *self._stride(step))

    def _stride(self, step: Load | Store) -> list[tuple[str, str]]:
        if step.stride is None:
            return []
        if not step.stride_in_register:
            return [("i32", str(_signed(step.stride, 32)))]
        return [("i32", self._assembly("i32", "mov", str(step.stride)))]

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

    def _rows(self, step: LoadRows | StoreRows) -> None:
        """Append an ldmatrix or stmatrix, as inline assembly where this LLVM has no intrinsic."""
        form, stored = step.form, isinstance(step, StoreRows)
        (use,) = step.uses
        space = SPACES[form.space]
        place = Place(buffer=step.buffer, offset=0)
        offset = self._row_offsets(step.addresses)
        name = rows_name(form, llvm=self.llvm)
        values = self._values(use) if stored else []
        if name is not None:
            pointee = "i16" if form.type == "b16" else "i8"
            pointer = self._address(place, space=space, offset=offset, pointee=pointee)
            name += self._overload(space, pointee)
            if stored:
                self._call("void", name, pointer, *values)
            else:
                self._keep(use, self._call(self._result(use), name, pointer))
            return
        pointer = self._address(place, space=space, offset=offset)
        number = self._value(f"ptrtoint {pointer[0]} {pointer[1]} to i64")
        where, what = ("[$0]", 1) if stored else (f"[${form.registers}]", 0)
        vector = _vector(what, form.registers)
        text = f"{where}, {vector}" if stored else f"{vector}, {where}"
        result = self._instruction(
            f"{form.opcode} {text};",
            "void" if stored else self._result(use),
            [("i64", number), *values],
            memory=True,
        )
        if not stored:
            self._keep(use, result)

    def _multiply_lanes(self, step: MultiplyLanes) -> None:
        form = step.form
        d, *rest = step.uses
        name = multiply_lanes_name(form, llvm=self.llvm)
        operands = [
            (operand, raw, value)
            for operand, use in zip("abc", rest, strict=True)
            for raw, value in self._values(use)
        ]
        if name is None:
            counts = [use.holds.registers for use in step.uses]
            vectors = [_vector(sum(counts[:i]), count) for i, count in enumerate(counts)]
            arguments = [(raw, value) for _, raw, value in operands]
            text = f"{form.opcode} {', '.join(vectors)};"
            self._keep(d, self._instruction(text, self._result(d), arguments))
            return
        arguments = []
        for operand, raw, value in operands:
            type_ = register_type(form.type(operand).name)
            arguments.append((type_, self._cast(raw, value, type_)))
        type_ = register_type(form.type("d").name)
        count = d.holds.registers
        result = self._call(self._struct(type_, count), name, *arguments)
        raw = self._slots_of(d)[0]
        self._fill(d, [self._cast(type_, one, raw) for one in self._parts(result, type_, count)])

    def _transpose(self, step: TransposeRegisters) -> None:
        source, destination = step.uses
        text = f"{step.form.opcode} $0, $1;"
        values = [self._instruction(text, "i32", [one]) for one in self._values(source)]
        self._fill(destination, values)

    def _pack(self, step: PackRegisters) -> None:
        source, destination = step.uses
        values = [value for _, value in self._values(source)]
        packed = []
        for low, high in zip(values[::2], values[1::2], strict=True):
            if step.type == "f16":
                floats = [("float", self._cast("i32", one, "float")) for one in (high, low)]
                made = self._call("<2 x half>", "llvm.nvvm.ff2f16x2.rn", *floats)
                packed.append(self._cast("<2 x half>", made, "i32"))
            else:
                # The type of what its intrinsic returns is another from LLVM 17 on.
                text = f"cvt.rn.{step.type}x2.f32 $0, $1, $2;"
                packed.append(self._instruction(text, "i32", [("i32", high), ("i32", low)]))
        self._fill(destination, packed)

    def _instruction(
        self,
        text: str,
        result: str,
        arguments: Sequence[tuple[str, str]],
        *,
        memory: bool = False,
    ) -> str:
        """Append a warp-level instruction as inline assembly; return the name of its result.

        Parameters
        ----------
        text
            With `$0` and so on for the results and then the arguments.
        result
            Type: "void", one type, or a struct of several of one.
        memory
            Whether it reads or writes memory.
        """
        count = 0 if result == "void" else max(1, result.count("i32") + result.count("i64"))
        kinds = ["=l" if "i64" in result else "=r"] * count
        kinds += ["l" if type_ == "i64" else "r" for type_, _ in arguments]
        kinds += ["~{memory}"] if memory else []
        values = ", ".join(f"{type_} {value}" for type_, value in arguments)
        effect = " sideeffect" if memory else ""
        call = f'call {result} asm{effect} "{text}", "{",".join(kinds)}"({values}) convergent'
        if result == "void":
            self._add(call)
            return ""
        return self._value(call)

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

    def _registers_and_memory(self, step: LoadRegisters | StoreRegisters) -> None:
        """Append an access of each register; LLVM may make wider ones of them."""
        (use,) = step.uses
        width = step.bits // 8
        integer = f"i{step.bits}"
        offset = self._lane_bytes(width * step.count)
        start = self.program.offset(step.place.buffer) + step.place.offset
        values = (
            [value for _, value in self._values(use)] if isinstance(step, StoreRegisters) else []
        )
        loaded = []
        some = isinstance(step, StoreRegisters) and step.lanes != LANES
        if isinstance(step, StoreRegisters) and some:
            mine, others = self._labels("mine", "stored")
            own = self._value(f"icmp ult i32 %lane, {step.lanes}")
            self._add(f"br i1 {own}, label %{mine}, label %{others}")
            self._label(mine)
        for index in range(step.count):
            place = Place(buffer=step.place.buffer, offset=step.place.offset + width * index)
            type_, pointer = self._address(place, offset=offset, pointee=integer)
            align = f"align {_alignment(start + width * index, width * step.count)}"
            if isinstance(step, LoadRegisters):
                loaded.append(self._value(f"load {integer}, {type_} {pointer}, {align}"))
            else:
                self._add(f"store {integer} {values[index]}, {type_} {pointer}, {align}")
        if isinstance(step, LoadRegisters):
            self._fill(use, loaded)
        if some:
            self._add(f"br label %{others}")
            self._label(others)

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
        By the names of their kernels.
    kernels
        The kernels as `emit_all` describes them: the entries have the same parameters.
    module
        Target and PTX version that the code is for.
    llvm
        Major version of the LLVM that is to read it.
    """
    texts, declared = [], dict[str, str]()
    for kernel in kernels:
        program = programs[kernel.entry]
        writer = LlvmWriter(program=program, kernel=kernel, llvm=llvm)
        texts.append(writer.text())
        declared |= writer.declared
    head = f'; {module}\ntarget triple = "nvptx64-nvidia-cuda"\n'
    tail = "\n".join(f"declare {text}" for text in declared.values())
    return "\n".join([head, *texts, tail, ""])


def _slot(name: str, type_: str, index: int) -> str:
    suffix = {"<2 x half>": "h", "float": "f", "double": "d", "i32": "i", "i64": "l"}[type_]
    return f"%{name}.{suffix}{index}"


def _vector(first: int, count: int) -> str:
    """Return operands of inline assembly as a vector."""
    return "{" + ", ".join(f"${first + index}" for index in range(count)) + "}"


def _alignment(offset: int, step: int) -> int:
    """Return the bytes to which all places `offset + lane * step` of an image are aligned."""
    return min(
        IMAGE_ALIGNMENT, (offset | step | IMAGE_ALIGNMENT) & -(offset | step | IMAGE_ALIGNMENT)
    )


def _signed(pattern: int, bits: int) -> int:
    """Return a bit pattern as the number by which LLVM writes it."""
    return pattern - (1 << bits) if pattern >> (bits - 1) else pattern


def _signs(format_: Format, bits: int) -> int:
    """Return the sign bits of a float's elements in a register."""
    return replicated(1 << (format_.bits - 1), format_.bits, bits)
