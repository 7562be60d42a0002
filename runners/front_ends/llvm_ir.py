"""Programs as LLVM IR: the nvvm intrinsics, with what optimisers like to change around them.

Fragments are vectors on the stack that `mem2reg` has to take apart, addresses come out of functions
to inline or tables, long copies are loops, and what some lanes alone store is under a condition.
Names of intrinsics are of LLVM's `IntrinsicsNVVM.td`; which version has which was asked of LLVM 14,
15, 20 and 22 (2026-11). What a version has none for is inline assembly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from oracle.isa.forms import replicated
from oracle.isa.lookup import ptx_operands, scale_ids
from oracle.isa.targets import Module
from oracle.program.operands import IMAGE_ALIGNMENT, Fragment, Operation, Place, Uniform, Use, Word
from oracle.program.operations import Elementwise, Scalar
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
)
from runners.emission.body import signs
from runners.emission.copies import Piece, pieces
from runners.emission.offsets import progression
from runners.front_ends.intrinsics import multiply_name, rows_name
from runners.front_ends.protocol import NamedStepWriter, check_named
from runners.kernels import LANES, KernelModule

_OPAQUE_SINCE = 16
"""First LLVM that has no typed pointers by default wherever it is embedded: LLVM 15 still reads
them, and llvmlite 0.44, which carries it, reads no others (seen 2026-11-22)."""
_SPACES = {"": 0, "global": 1, "shared": 3, "shared::cta": 3}
"""Address spaces of NVPTX by the spelling of a state space (LLVM, User Guide for NVPTX)."""
_SCALED = """define internal i64 @scaled(i32 %lane, i64 %bytes) {
  %wide = zext i32 %lane to i64
  %product = mul i64 %wide, %bytes
  ret i64 %product
}
"""
"""A function of the module: a lane's number, times a number of bytes."""
_VECTORS = {
    "<2 x half>": (1, "h"), "float": (4, "f"), "double": (2, "d"), "i32": (4, "i"), "i64": (2, "l"),
}  # fmt: skip
"""Registers of a type in one _vector, those of 16 bytes, which PTX moves at a time (`<2 x half>` is
a _vector itself), and a letter."""
_UNITS = {16: "<4 x i32>", 8: "i64", 4: "i32", 2: "i16", 1: "i8"}
"""Types that a copy moves, by their bytes."""
_UNROLLED = 8
"""Most rounds of a copy that are written out; more become a loop, which is to stay one: the loops
of the programs are there to be unrolled. With all of them loops, copies took more than half of
LLVM's time; with 4 and loops to unroll, an eighth more than so (22, 2026-11)."""
_NEVER_UNROLLED = """!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.unroll.disable"}
"""


def _register_type(format_name: str) -> str:
    return {"f16": "<2 x half>", "f32": "float", "f64": "double"}.get(format_name, "i32")


def _held_type(use: Use) -> str:
    if isinstance(use.holds, Fragment):
        return _register_type(use.holds.matrix.type.name)
    return f"i{use.holds.bits}"


def _vector(first: int, count: int) -> str:
    return "{" + ", ".join(f"${first + index}" for index in range(count)) + "}"


def _signed(pattern: int, bits: int) -> int:
    return pattern - (1 << bits) if pattern >> (bits - 1) else pattern


def _struct(type_: str, count: int) -> str:
    return type_ if count == 1 else "{ " + ", ".join([type_] * count) + " }"


@dataclass(kw_only=True)
class LlvmWriter(NamedStepWriter):
    """Writes one program as a function of LLVM IR, for a major version of LLVM."""

    remark = ";"
    llvm: int
    slots: dict[str, str] = field(default_factory=dict)  # types of what is on the stack, by name
    declared: dict[str, str] = field(default_factory=dict)
    """Declarations of the functions that are called, by their names."""
    bases: dict[tuple[str, int], str] = field(default_factory=dict)
    """What the prologue computes: each lane's own start, by a space's start and bytes of a lane."""

    def __post_init__(self) -> None:
        self.opaque = self.llvm >= _OPAQUE_SINCE  # pointers are `ptr`; else they have types

    def add(self, *texts: str) -> None:
        """Append instructions; labels end with a colon."""
        self.lines += [text if text.endswith(":") else f"  {text}" for text in texts]

    def _value(self, text: str) -> str:
        """Append an instruction that has a result; return its name."""
        self.count += 1
        self.add(f"%v{self.count} = {text}")
        return f"%v{self.count}"

    def _labels(self, *words: str) -> tuple[str, ...]:
        self.count += 1
        return tuple(f"{word}{self.count}" for word in words)

    def _pointer(self, pointee: str, space: int) -> str:
        where = f" addrspace({space})" if space else ""
        return f"ptr{where}" if self.opaque else f"{pointee}{where}*"

    def _overload(self, space: int, pointee: str = "i8") -> str:
        return f".p{space}" if self.opaque else f".p{space}{pointee}"

    def _call(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Append a call of an intrinsic; return the name of its result, "" of void."""
        types = ", ".join(type_ for type_, _ in arguments)
        self.declared[name] = f"{result} @{name}({types})"
        values = ", ".join(f"{type_} {value}" for type_, value in arguments)
        return self._made(result, f"call {result} @{name}({values})")

    def _made(self, result: str, call: str) -> str:
        if result != "void":
            return self._value(call)
        self.add(call)
        return ""

    def _read(self, register: str) -> str:
        name = f"llvm.nvvm.read.ptx.sreg.{register}"
        self.declared[name] = f"i32 @{name}()"
        return f"call i32 @{name}()"

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

    def _instruction(
        self, text: str, result: str, arguments: Sequence[tuple[str, str]], *, memory: bool = False
    ) -> str:
        """Append a warp-level instruction as inline assembly; `$0`… are results, then arguments."""
        count = 0 if result == "void" else max(1, result.count("i32") + result.count("i64"))
        kinds = ["=l" if "i64" in result else "=r"] * count
        kinds += ["l" if type_ == "i64" else "r" for type_, _ in arguments]
        kinds += ["~{memory}"] if memory else []
        values = ", ".join(f"{type_} {value}" for type_, value in arguments)
        effect = " sideeffect" if memory else ""
        call = f'call {result} asm{effect} "{text}", "{",".join(kinds)}"({values}) convergent'
        return self._made(result, call)

    def _cast(self, from_: str, value: str, to: str) -> str:
        return value if from_ == to else self._value(f"bitcast {from_} {value} to {to}")

    def _slot(self, name: str, type_: str) -> str:
        self.slots[name] = type_
        return f"{self._pointer(type_, 0)} {name}"

    def _vectors(self, use: Use) -> Iterator[tuple[str, str, int]]:
        """Iterate over the vectors in which a name's registers stand: slot, type, registers."""
        type_, first = _held_type(use), 0
        longest, letter = _VECTORS[type_]
        while left := use.holds.registers - first:
            most = min(left, longest)
            together = f"<{most} x {type_}>" if most > 1 else type_
            yield self._slot(f"%{use.name}.{letter}{first}x{most}", together), together, most
            first += most

    def _values(self, use: Use) -> list[tuple[str, str]]:
        """Append the loads of what a step reads; return types and names of its registers."""
        type_, found = _held_type(use), list[tuple[str, str]]()
        for slot, together, count in self._vectors(use):
            loaded = self._value(f"load {together}, {slot}")
            parts = [loaded]
            if count > 1:
                extract = f"extractelement {together} {loaded}, i32"
                parts = [self._value(f"{extract} {index}") for index in range(count)]
            found += [(type_, part) for part in parts]
        return found

    def _parts(self, result: str, type_: str, count: int) -> list[str]:
        extract = f"extractvalue {_struct(type_, count)} {result},"
        return [self._value(f"{extract} {i}") for i in range(count)] if count > 1 else [result]

    def _keep(self, use: Use, result: str) -> None:
        self._fill(use, self._parts(result, _held_type(use), use.holds.registers))

    def _fill(self, use: Use, values: Sequence[str]) -> None:
        type_, rest = _held_type(use), iter(values)
        for slot, together, count in self._vectors(use):
            filled = next(rest) if count == 1 else "undef"
            for index in range(count) if count > 1 else ():
                insert = f"insertelement {together} {filled}, {type_} {next(rest)}"
                filled = self._value(f"{insert}, i32 {index}")
            self.add(f"store {together} {filled}, {slot}")

    def _result(self, use: Use) -> str:
        return _struct(_held_type(use), use.holds.registers)

    def _address(
        self, place: Place, *, space: int = -1, lane: int | None = None, offset: str = "",
        pointee: str = "i8",
    ) -> tuple[str, str]:  # fmt: skip
        """Append what computes a pointer to a place of lane 0, generic in space 0.

        Returns type and value. `lane`: bytes between places of lanes; `offset`: an `i64` more.
        """
        own = 3 if self.program.buffer(place.buffer).space == "shared" else 1
        value = "%shared" if own == 3 else "%image"
        distance = self.program.offset(place.buffer) + place.offset
        type_ = self._pointer("i8", own)
        if lane is not None:
            value = self.bases.setdefault((value, lane), f"{value}.x{lane}")
        for more in (offset, str(distance) if distance else ""):
            if more:
                value = self._value(f"getelementptr i8, {type_} {value}, i64 {more}")
        if space == 0:
            generic = self._pointer("i8", 0)
            value = self._value(f"addrspacecast {type_} {value} to {generic}")
            type_, own = generic, 0
        wanted = self._pointer(pointee, own)
        return wanted, self._cast(type_, value, wanted)

    # Steps

    def text(self) -> str:
        """Return the function with the tables that it reads; `declared` has what it calls."""
        self.write(self.program.steps)
        body, self.lines = self.lines, []
        self._prologue()
        head = (
            f"define ptx_kernel void @{self.kernel.entry}"
            f"({self._pointer('i8', 1)} %images, {self._pointer('i32', 1)} %sms, i32 %count) {{"
        )
        tail = ["  br label %end", "end:", "  ret void", "}"]
        return "\n".join([*self.tables, head, *self.lines, *body, *tail]) + "\n"

    def _prologue(self) -> None:
        kernel, bytes_, words = self.kernel, self._pointer("i8", 1), self._pointer("i32", 1)
        self.add(
            *(f"{name} = alloca {type_}" for name, type_ in self.slots.items()),
            f"%lane = {self._read('laneid')}",
            f"%threads = {self._read('ntid.x')}",
            f"%thread = {self._read('tid.x')}",
            f"%block = {self._read('ctaid.x')}",
            "%warps = lshr i32 %threads, 5",
            "%inside = lshr i32 %thread, 5",
            "%before = mul i32 %block, %warps",
            "%warp = add i32 %before, %inside",
            "%idle = icmp uge i32 %warp, %count",
            "br i1 %idle, label %end, label %busy",
            "busy:",
            "%warp64 = zext i32 %warp to i64",
            f"%position = mul i64 %warp64, {kernel.image_bytes}",
            f"%image = getelementptr i8, {bytes_} %images, i64 %position",
        )
        if kernel.shared_bytes:
            name = f"@{kernel.entry}_shared"
            array = f"[{kernel.shared_bytes * kernel.warps_per_block} x i8]"
            variable = f"internal addrspace(3) global {array} undef, align {IMAGE_ALIGNMENT}"
            self.tables.insert(0, f"{name} = {variable}")
            pointer = self._pointer(array, 3)
            self.add(
                "%inside64 = zext i32 %inside to i64",
                f"%slice = mul i64 %inside64, {kernel.shared_bytes}",
                f"%shared = getelementptr {array}, {pointer} {name}, i64 0, i64 %slice",
            )
        self.add(
            f"%unrecorded = icmp eq {words} %sms, null",
            "%other = icmp ne i32 %lane, 0",
            "%silent = or i1 %unrecorded, %other",
            "br i1 %silent, label %start, label %record",
            "record:",
            f"%sm = {self._read('smid')}",
            f"%place = getelementptr i32, {words} %sms, i64 %warp64",
            f"store i32 %sm, {words} %place",
            "br label %start",
            "start:",
        )
        # Each lane's own starts, by a function to inline; live until the last step.
        scaled = dict[int, str]()
        for (start, size), name in self.bases.items():
            if size not in scaled:
                scaled[size] = self._value(f"call i64 @scaled(i32 %lane, i64 {size})")
            bytes_ = self._pointer("i8", 3 if start == "%shared" else 1)
            self.add(f"{name} = getelementptr i8, {bytes_} {start}, i64 {scaled[size]}")

    def _copy(self, step: Copy) -> None:
        for piece in pieces(self.program, step):
            rounds, rest = divmod(piece.units, LANES)
            if rounds + bool(rest) > _UNROLLED:
                self._copy_loop(piece)
                continue
            for number in range(rounds):
                self._copy_unit(piece, LANES * number)
            if rest:
                then, end = self._labels("copy", "copied")
                more = self._value(f"icmp ult i32 %lane, {rest}")
                self.add(f"br i1 {more}, label %{then}, label %{end}", f"{then}:")
                self._copy_unit(piece, LANES * rounds)
                self.add(f"br label %{end}", f"{end}:")

    def _copy_loop(self, piece: Piece) -> None:
        head, again, end = self._labels("copy", "again", "copied")
        counter, following, entry = f"%i{self.count}", f"%j{self.count}", f"entry{self.count}"
        self.add(
            f"br label %{entry}", f"{entry}:", f"br label %{head}", f"{head}:",
            f"{counter} = phi i32 [ %lane, %{entry} ], [ {following}, %{again} ]",
        )  # fmt: skip
        more = self._value(f"icmp ult i32 {counter}, {piece.units}")
        self.add(f"br i1 {more}, label %{again}, label %{end}", f"{again}:")
        wide = self._value(f"zext i32 {counter} to i64")
        self._copy_unit(piece, offset=self._value(f"mul i64 {wide}, {piece.width}"))
        self.add(
            f"{following} = add i32 {counter}, {LANES}", f"br label %{head}, !llvm.loop !0",
            f"{end}:",
        )  # fmt: skip

    def _copy_unit(self, piece: Piece, units: int = 0, *, offset: str = "") -> None:
        """Append the copy of a unit: `offset` bytes on, or the lane's own, `units` on."""
        width, unit = piece.width, _UNITS[piece.width]
        source, destination = (
            self._address(
                replace(place, offset=place.offset + units * width),
                lane=None if offset else width, offset=offset, pointee=unit,
            )
            for place in (piece.source, piece.destination)
        )  # fmt: skip
        moved = self._value(f"load {unit}, {source[0]} {source[1]}, align {width}")
        self.add(f"store {unit} {moved}, {destination[0]} {destination[1]}, align {width}")

    def _barrier(self, _: Barrier) -> None:
        self._call("void", "llvm.nvvm.bar.warp.sync", ("i32", "-1"))

    def _uniform(self, value: Uniform) -> str:
        if isinstance(value, int):
            return str(_signed(value, 32))
        assert isinstance(value, Word)  # one warp asks nothing of a turn
        type_, pointer = self._address(value.place, pointee="i32")
        word = self._value(f"load i32, {type_} {pointer}, align 4")
        return self._value(f"and i32 {word}, {_signed(value.mask, 32)}")

    def _branch(self, step: Branch) -> None:
        then, otherwise, end = self._labels("then", "else", "done")
        condition = self._uniform(step.condition)
        taken = self._value(f"icmp ne i32 {condition}, 0")
        last = otherwise if step.otherwise else end
        self.add(f"br i1 {taken}, label %{then}, label %{last}", f"{then}:")
        self.write(step.then)
        self.add(f"br label %{end}")
        if step.otherwise:
            self.add(f"{otherwise}:")
            self.write(step.otherwise)
            self.add(f"br label %{end}")
        self.add(f"{end}:")

    def _loop(self, step: Loop) -> None:
        head, body, end = self._labels("loop", "body", "left")
        count = self._uniform(step.count)
        counter = self._slot(f"%turns{self.count}", "i32")
        self.add(f"store i32 {count}, {counter}", f"br label %{head}", f"{head}:")
        left = self._value(f"load i32, {counter}")
        more = self._value(f"icmp ne i32 {left}, 0")
        self.add(f"br i1 {more}, label %{body}, label %{end}", f"{body}:")
        fewer = self._value(f"sub i32 {left}, 1")
        self.add(f"store i32 {fewer}, {counter}")
        self.write(step.body)
        self.add(f"br label %{head}", f"{end}:")

    def _move(self, step: AnyOp) -> None:
        source, destination = step.uses
        text = f"{step.form.opcode} $0, $1;"
        values = [self._instruction(text, "i32", [value]) for value in self._values(source)]
        self._fill(destination, values)

    def _access(self, step: MatrixAccess) -> None:
        (use,) = step.uses
        memory, space = step.memory, _SPACES[step.form.space]
        pointer = self._address(memory.place, space=space)
        values = self._values(use) if step.stores else []
        stride = []
        if memory.stride is not None and memory.stride_in_register:
            stride = [("i32", self._assembly("i32", "mov", str(memory.stride)))]
        elif memory.stride is not None:
            stride = [("i32", str(_signed(memory.stride, 32)))]
        form, matrix, strided = step.form, step.form.matrix(), ".stride" if stride else ""
        what = f"{'store' if step.stores else 'load'}.{matrix.operand}.{form.layout}{strided}"
        name = f"llvm.nvvm.wmma.{matrix.shape.name}.{what}.{matrix.type.name}"
        type_ = "void" if step.stores else self._result(use)
        result = self._call(type_, name + self._overload(space), pointer, *values, *stride)
        if not step.stores:
            self._keep(use, result)

    def _rows(self, step: RowAccess) -> None:
        form = step.form
        (use,) = step.uses
        space, name = _SPACES[form.space], rows_name(form, llvm=self.llvm)
        type_ = "void" if step.stores else self._result(use)
        values = self._values(use) if step.stores else []
        if name is not None:
            pointee = "i16" if form.element_bits == 16 else "i8"
            pointer = self._row_address(step, space, pointee)
            result = self._call(type_, name + self._overload(space, pointee), pointer, *values)
        else:
            kind, address = self._row_address(step, space)
            number = self._value(f"ptrtoint {kind} {address} to i64")
            text = f"{_vector(0, form.registers)}, [${form.registers}]"
            if step.stores:
                text = f"[$0], {_vector(1, form.registers)}"
            text = f"{form.opcode} {text};"
            result = self._instruction(text, type_, [("i64", number), *values], memory=True)
        if not step.stores:
            self._keep(use, result)

    def _row_address(self, step: RowAccess, space: int, pointee: str = "i8") -> tuple[str, str]:
        memory = step.memory
        if regular := progression(memory.addresses):
            place = Place(buffer=memory.buffer, offset=regular[0])
            return self._address(place, space=space, lane=regular[1], pointee=pointee)
        table = f"@{self.kernel.entry}_rows{len(self.tables)}"
        type_ = f"[{LANES} x i32]"
        numbers = ", ".join(f"i32 {value}" for value in memory.addresses)
        self.tables.append(f"{table} = internal addrspace(4) constant {type_} [{numbers}]")
        pointer = self._pointer(type_, 4)
        entry = self._value(f"getelementptr {type_}, {pointer} {table}, i64 0, i32 %lane")
        row = self._value(f"load i32, {self._pointer('i32', 4)} {entry}")
        offset = self._value(f"zext i32 {row} to i64")
        place = Place(buffer=memory.buffer)
        return self._address(place, space=space, offset=offset, pointee=pointee)

    def _multiply(self, step: Product) -> None:
        form = step.form
        d, *rest = step.uses
        name = multiply_name(form, llvm=self.llvm)
        operands = [(use.field, value) for use in rest for value in self._values(use)]
        if name is None:
            counts = [use.holds.registers for use in step.uses]
            vectors = [_vector(sum(counts[:i]), count) for i, count in enumerate(counts)]
            text = f"{form.opcode} {', '.join(ptx_operands(form, vectors, step.selector))};"
            values = [value for _, value in operands]
            self._keep(d, self._instruction(text, self._result(d), values))
            return
        arguments = []
        for operand, (raw, value) in operands:
            matrix = form.matrices.get(operand)
            type_ = raw if matrix is None else _register_type(matrix.type.name)
            arguments.append((type_, self._cast(raw, value, type_)))
        if form.has_metadata:
            # With scales there is one sparsity selector, 0 (9.7.14.6.1).
            selector = "0" if form.is_scaled else f"{step.selector}"
            arguments.insert(len(arguments) - 2 * form.is_scaled, ("i32", selector))
        if form.is_scaled:
            of_a, of_b = arguments[-2:]
            ids = [("i16", f"{one}") for one in scale_ids(form, step.selector or 0)]
            arguments[-2:] = [of_a, *ids[:2], of_b, *ids[2:]]
        type_, count = _register_type(form.d_type.name), d.holds.registers
        result = self._call(_struct(type_, count), name, *arguments)
        raw = _held_type(d)
        self._fill(d, [self._cast(type_, part, raw) for part in self._parts(result, type_, count)])

    def _scalar(self, step: Scalar) -> None:
        source, destination = step.uses
        values = [value for _, value in self._values(source)]
        packed = []
        for low, high in zip(values[::2], values[1::2], strict=True):
            if step.type == "f16":
                floats = [("float", self._cast("i32", each, "float")) for each in (high, low)]
                made = self._call("<2 x half>", "llvm.nvvm.ff2f16x2.rn", *floats)
                packed.append(self._cast("<2 x half>", made, "i32"))
            else:
                # The type of what its intrinsic returns is another from LLVM 17 on.
                text = f"cvt.rn.{step.type}x2.f32 $0, $1, $2;"
                packed.append(self._instruction(text, "i32", [("i32", high), ("i32", low)]))
        self._fill(destination, packed)

    def _plainaccess(self, step: PlainAccess) -> None:
        (use,) = step.uses
        width, integer = step.bits // 8, f"i{step.bits}"
        start = self.program.offset(step.place.buffer) + step.place.offset
        values = [value for _, value in self._values(use)] if step.stores else []
        loaded = []
        if step.lanes != LANES:
            mine, others = self._labels("mine", "stored")
            own = self._value(f"icmp ult i32 %lane, {step.lanes}")
            self.add(f"br i1 {own}, label %{mine}, label %{others}", f"{mine}:")
        for index in range(step.count):
            place = Place(buffer=step.place.buffer, offset=step.place.offset + width * index)
            type_, pointer = self._address(place, lane=width * step.count, pointee=integer)
            # To which all of its places are aligned.
            low = start + width * index | width * step.count | IMAGE_ALIGNMENT
            align = f"align {low & -low}"
            if step.loads:
                loaded.append(self._value(f"load {integer}, {type_} {pointer}, {align}"))
            else:
                self.add(f"store {integer} {values[index]}, {type_} {pointer}, {align}")
        if step.loads:
            self._fill(use, loaded)
        if step.lanes != LANES:
            self.add(f"br label %{others}", f"{others}:")

    def _elementwise(self, step: Elementwise) -> None:
        source, destination = step.uses
        type_ = _held_type(destination)
        values = [self._element(step, type_, value) for _, value in self._values(source)]
        self._fill(destination, values)

    def _element(self, step: Elementwise, type_: str, value: str) -> str:
        format_, operation = step.matrix.type, step.operation
        bits = 64 if type_ == "double" else 32
        integer, mask = f"i{bits}", (1 << bits) - 1
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
            Operation.NEGATE: ("xor", signs(format_, bits)),
            Operation.ABSOLUTE: ("and", mask ^ signs(format_, bits)),
            Operation.NOT: ("xor", mask),
        }.get(operation, (str(operation), constant))
        raw = self._cast(type_, value, integer)
        if format_.is_float and operation in (Operation.NEGATE, Operation.ABSOLUTE):
            # LLVM takes masks of the sign for `neg` and `abs`, whose NaN PTX leaves open.
            changed = self._assembly(integer, word, hex(operand), raw)
        else:
            changed = self._value(f"{word} {integer} {raw}, {_signed(operand, bits)}")
        return self._cast(integer, changed, type_)


def llvm_ir(module: KernelModule, *, llvm: int) -> str:
    """Return a module as IR of a major version of LLVM; UsageError if it cannot say a program."""
    check_named(module.programs.values())
    texts, declared = [], dict[str, str]()
    for kernel in module.kernels:
        writer = LlvmWriter(program=module.programs[kernel.entry], kernel=kernel, llvm=llvm)
        texts.append(writer.text())
        declared |= writer.declared
    place = Module.named(module.target, module.version)
    head = f'; {place}\ntarget triple = "nvptx64-nvidia-cuda"\n'
    if any("@scaled(" in text for text in texts):
        texts.append(_SCALED)
    tail = "\n".join(f"declare {text}" for text in declared.values())
    return "\n".join([head, *texts, tail, _NEVER_UNROLLED])
