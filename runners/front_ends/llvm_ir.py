"""Programs as LLVM IR: the nvvm intrinsics, with what optimisers like to change around them.

Fragments are vectors on the stack that `mem2reg` has to take apart; addresses are computed from
lane, warp and image, some by a function that wants to be inlined; long copies are loops over units
of the widest type, and the program's loops of a constant count can be unrolled; row addresses of
ldmatrix without a pattern come out of a constant table; what some lanes alone store stands under a
condition on the lane. The intrinsics are those of `llvm_text`; what a version has none for is
inline assembly.
"""

from __future__ import annotations

from dataclasses import replace

from oracle.isa.forms import replicated
from oracle.isa.targets import Module
from oracle.program.operands import IMAGE_ALIGNMENT, Operation, Place, Uniform, Word
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
from runners.emission.body import Piece, pieces, progression, signs
from runners.front_ends.llvm_text import (
    SCALED,
    SCALED_TEXT,
    SPACES,
    LlvmText,
    access_name,
    held_type,
    multiply_name,
    register_type,
    rows_name,
    signed,
    struct,
    vector,
)
from runners.front_ends.protocol import check_named
from runners.kernels import LANES, KernelModule

_UNITS = {16: "<4 x i32>", 8: "i64", 4: "i32", 2: "i16", 1: "i8"}
"""Types that a copy moves, by their bytes."""
_UNROLLED = 8
"""Most rounds of a copy that are written out; more become a loop, which is to stay one: the loops
of the programs are there to be unrolled. With all of them loops, copies took more than half of
LLVM's time; with 4 and loops to unroll, an eighth more than so (22, 2026-11)."""
_NEVER_UNROLLED = """!0 = distinct !{!0, !1}
!1 = !{!"llvm.loop.unroll.disable"}
"""


class LlvmWriter(LlvmText):
    """Writes one program as a function of LLVM IR."""

    remark = ";"

    def text(self) -> str:
        """Return the function with the tables that it reads; `declared` has what it calls."""
        self.write(self.program.steps)
        body, self.lines = self.lines, []
        self._prologue()
        head = (
            f"define ptx_kernel void @{self.kernel.entry}"
            f"({self.pointer('i8', 1)} %images, {self.pointer('i32', 1)} %sms, i32 %count) {{"
        )
        tail = ["  br label %end", "end:", "  ret void", "}"]
        return "\n".join([*self.tables, head, *self.lines, *body, *tail]) + "\n"

    def _prologue(self) -> None:
        """Append what comes before the first step: slots, which image, where it lies."""
        kernel, bytes_, words = self.kernel, self.pointer("i8", 1), self.pointer("i32", 1)
        self.add(
            *(f"{name} = alloca {type_}" for name, type_ in self.slots.items()),
            f"%lane = {self.read('laneid')}",
            f"%threads = {self.read('ntid.x')}",
            f"%thread = {self.read('tid.x')}",
            f"%block = {self.read('ctaid.x')}",
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
            pointer = self.pointer(array, 3)
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
            f"%sm = {self.read('smid')}",
            f"%place = getelementptr i32, {words} %sms, i64 %warp64",
            f"store i32 %sm, {words} %place",
            "br label %start",
            "start:",
        )
        # Each lane's own starts, by a function to inline; live until the last step.
        scaled = dict[int, str]()
        for (start, size), name in self.bases.items():
            if size not in scaled:
                self.declared[SCALED] = ""
                scaled[size] = self.value(f"call i64 @{SCALED}(i32 %lane, i64 {size})")
            bytes_ = self.pointer("i8", 3 if start == "%shared" else 1)
            self.add(f"{name} = getelementptr i8, {bytes_} {start}, i64 {scaled[size]}")

    def _copy(self, step: Copy) -> None:
        """Append copies, in which lane l takes every 32nd unit from the l-th on."""
        for piece in pieces(self.program, step):
            rounds, rest = divmod(piece.units, LANES)
            if rounds + bool(rest) > _UNROLLED:
                self._copy_loop(piece)
                continue
            for number in range(rounds):
                self._copy_unit(piece, LANES * number)
            if rest:
                then, end = self.labels("copy", "copied")
                more = self.value(f"icmp ult i32 %lane, {rest}")
                self.add(f"br i1 {more}, label %{then}, label %{end}", f"{then}:")
                self._copy_unit(piece, LANES * rounds)
                self.add(f"br label %{end}", f"{end}:")

    def _copy_loop(self, piece: Piece) -> None:
        head, again, end = self.labels("copy", "again", "copied")
        counter, following, entry = f"%i{self.count}", f"%j{self.count}", f"entry{self.count}"
        self.add(
            f"br label %{entry}", f"{entry}:", f"br label %{head}", f"{head}:",
            f"{counter} = phi i32 [ %lane, %{entry} ], [ {following}, %{again} ]",
        )  # fmt: skip
        more = self.value(f"icmp ult i32 {counter}, {piece.units}")
        self.add(f"br i1 {more}, label %{again}, label %{end}", f"{again}:")
        wide = self.value(f"zext i32 {counter} to i64")
        self._copy_unit(piece, offset=self.value(f"mul i64 {wide}, {piece.width}"))
        self.add(
            f"{following} = add i32 {counter}, {LANES}", f"br label %{head}, !llvm.loop !0",
            f"{end}:",
        )  # fmt: skip

    def _copy_unit(self, piece: Piece, units: int = 0, *, offset: str = "") -> None:
        """Append the copy of a unit: `offset` bytes on, or the lane's own, `units` on."""
        width, unit = piece.width, _UNITS[piece.width]
        source, destination = (
            self.address(
                replace(place, offset=place.offset + units * width),
                lane=None if offset else width, offset=offset, pointee=unit,
            )
            for place in (piece.source, piece.destination)
        )  # fmt: skip
        moved = self.value(f"load {unit}, {source[0]} {source[1]}, align {width}")
        self.add(f"store {unit} {moved}, {destination[0]} {destination[1]}, align {width}")

    def _barrier(self, _: Barrier) -> None:
        self.call("void", "llvm.nvvm.bar.warp.sync", ("i32", "-1"))

    def _uniform(self, value: Uniform) -> str:
        """Return a number that is the same in every lane."""
        if not isinstance(value, Word):
            return str(signed(value, 32))
        type_, pointer = self.address(value.place, pointee="i32")
        word = self.value(f"load i32, {type_} {pointer}, align 4")
        return self.value(f"and i32 {word}, {signed(value.mask, 32)}")

    def _branch(self, step: Branch) -> None:
        then, otherwise, end = self.labels("then", "else", "done")
        condition = self._uniform(step.condition)
        taken = self.value(f"icmp ne i32 {condition}, 0")
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
        head, body, end = self.labels("loop", "body", "left")
        count = self._uniform(step.count)
        counter = self.slot(f"%turns{self.count}", "i32")
        self.add(f"store i32 {count}, {counter}", f"br label %{head}", f"{head}:")
        left = self.value(f"load i32, {counter}")
        more = self.value(f"icmp ne i32 {left}, 0")
        self.add(f"br i1 {more}, label %{body}, label %{end}", f"{body}:")
        fewer = self.value(f"sub i32 {left}, 1")
        self.add(f"store i32 {fewer}, {counter}")
        self.write(step.body)
        self.add(f"br label %{head}", f"{end}:")

    def _move(self, step: AnyOp) -> None:
        source, destination = step.uses
        text = f"{step.form.opcode} $0, $1;"
        values = [self.instruction(text, "i32", [value]) for value in self.values(source)]
        self.fill(destination, values)

    def _access(self, step: MatrixAccess) -> None:
        (use,) = step.uses
        memory, space = step.memory, SPACES[step.form.space]
        pointer = self.address(memory.place, space=space)
        values = self.values(use) if step.stores else []
        stride = []
        if memory.stride is not None and memory.stride_in_register:
            stride = [("i32", self.assembly("i32", "mov", str(memory.stride)))]
        elif memory.stride is not None:
            stride = [("i32", str(signed(memory.stride, 32)))]
        name = access_name(step.form, stride=bool(stride)) + self.overload(space)
        type_ = "void" if step.stores else self.result(use)
        result = self.call(type_, name, pointer, *values, *stride)
        if not step.stores:
            self.keep(use, result)

    def _rows(self, step: RowAccess) -> None:
        form = step.form
        (use,) = step.uses
        space, name = SPACES[form.space], rows_name(form, llvm=self.llvm)
        type_ = "void" if step.stores else self.result(use)
        values = self.values(use) if step.stores else []
        if name is not None:
            pointee = "i16" if form.element_bits == 16 else "i8"
            pointer = self._row_address(step, space, pointee)
            result = self.call(type_, name + self.overload(space, pointee), pointer, *values)
        else:
            kind, address = self._row_address(step, space)
            number = self.value(f"ptrtoint {kind} {address} to i64")
            text = f"{vector(0, form.registers)}, [${form.registers}]"
            if step.stores:
                text = f"[$0], {vector(1, form.registers)}"
            text = f"{form.opcode} {text};"
            result = self.instruction(text, type_, [("i64", number), *values], memory=True)
        if not step.stores:
            self.keep(use, result)

    def _row_address(self, step: RowAccess, space: int, pointee: str = "i8") -> tuple[str, str]:
        """Return each lane's own of 32 addresses, computed where they form a progression."""
        memory = step.memory
        if (regular := progression(memory.addresses)) is not None:
            first, pitch = regular
            place = Place(buffer=memory.buffer, offset=first)
            return self.address(place, space=space, lane=pitch, pointee=pointee)
        table = f"@{self.kernel.entry}_rows{len(self.tables)}"
        type_ = f"[{LANES} x i32]"
        numbers = ", ".join(f"i32 {value}" for value in memory.addresses)
        self.tables.append(f"{table} = internal addrspace(4) constant {type_} [{numbers}]")
        pointer = self.pointer(type_, 4)
        entry = self.value(f"getelementptr {type_}, {pointer} {table}, i64 0, i32 %lane")
        row = self.value(f"load i32, {self.pointer('i32', 4)} {entry}")
        offset = self.value(f"zext i32 {row} to i64")
        place = Place(buffer=memory.buffer)
        return self.address(place, space=space, offset=offset, pointee=pointee)

    def _multiply(self, step: Product) -> None:
        form = step.form
        d, *rest = step.uses
        name = multiply_name(form, llvm=self.llvm)
        operands = [(use.field, value) for use in rest for value in self.values(use)]
        if name is None:
            counts = [use.holds.registers for use in step.uses]
            vectors = [vector(sum(counts[:i]), count) for i, count in enumerate(counts)]
            if step.selector is not None:
                vectors[-1:] = [vectors[-1].strip("{}"), f"{step.selector}"]
            text = f"{form.opcode} {', '.join(vectors)};"
            self.keep(d, self.instruction(text, self.result(d), [value for _, value in operands]))
            return
        arguments = []
        for operand, (raw, value) in operands:
            matrix = form.matrices.get(operand)
            type_ = raw if matrix is None else register_type(matrix.type.name)
            arguments.append((type_, self.cast(raw, value, type_)))
        if step.selector is not None:
            arguments.append(("i32", f"{step.selector}"))
        type_, count = register_type(form.d_type.name), d.holds.registers
        result = self.call(struct(type_, count), name, *arguments)
        raw = held_type(d)
        self.fill(d, [self.cast(type_, part, raw) for part in self.parts(result, type_, count)])

    def _scalar(self, step: Scalar) -> None:
        """Append the packing of pairs of f32."""
        source, destination = step.uses
        values = [value for _, value in self.values(source)]
        packed = []
        for low, high in zip(values[::2], values[1::2], strict=True):
            if step.type == "f16":
                floats = [("float", self.cast("i32", each, "float")) for each in (high, low)]
                made = self.call("<2 x half>", "llvm.nvvm.ff2f16x2.rn", *floats)
                packed.append(self.cast("<2 x half>", made, "i32"))
            else:
                # The type of what its intrinsic returns is another from LLVM 17 on.
                text = f"cvt.rn.{step.type}x2.f32 $0, $1, $2;"
                packed.append(self.instruction(text, "i32", [("i32", high), ("i32", low)]))
        self.fill(destination, packed)

    def _plainaccess(self, step: PlainAccess) -> None:
        """Append an access of each register; LLVM may make wider ones of them."""
        (use,) = step.uses
        width, integer = step.bits // 8, f"i{step.bits}"
        start = self.program.offset(step.place.buffer) + step.place.offset
        values = [value for _, value in self.values(use)] if step.stores else []
        loaded = []
        if step.lanes != LANES:
            mine, others = self.labels("mine", "stored")
            own = self.value(f"icmp ult i32 %lane, {step.lanes}")
            self.add(f"br i1 {own}, label %{mine}, label %{others}", f"{mine}:")
        for index in range(step.count):
            place = Place(buffer=step.place.buffer, offset=step.place.offset + width * index)
            type_, pointer = self.address(place, lane=width * step.count, pointee=integer)
            # To which all of its places are aligned.
            low = start + width * index | width * step.count | IMAGE_ALIGNMENT
            align = f"align {low & -low}"
            if step.loads:
                loaded.append(self.value(f"load {integer}, {type_} {pointer}, {align}"))
            else:
                self.add(f"store {integer} {values[index]}, {type_} {pointer}, {align}")
        if step.loads:
            self.fill(use, loaded)
        if step.lanes != LANES:
            self.add(f"br label %{others}", f"{others}:")

    def _elementwise(self, step: Elementwise) -> None:
        """Append an operation on each register of a fragment."""
        source, destination = step.uses
        type_ = held_type(destination)
        values = [self._element(step, type_, value) for _, value in self.values(source)]
        self.fill(destination, values)

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
                return self.value(f"{word} i32 {value}, {signed(constant, 32)}")
            # Hidden from LLVM: it takes x * 1 for x, and `mul` and `add` return another NaN than x.
            hidden = self.assembly(integer, "mov", hex(constant))
            number = self.cast(integer, hidden, type_)
            return self.value(f"f{word} {type_} {value}, {number}")
        if operation is Operation.NEGATE and type_ == "i32" and not format_.is_float:
            return self.value(f"sub i32 0, {value}")
        word, operand = {
            Operation.NEGATE: ("xor", signs(format_, bits)),
            Operation.ABSOLUTE: ("and", mask ^ signs(format_, bits)),
            Operation.NOT: ("xor", mask),
        }.get(operation, (str(operation), constant))
        raw = self.cast(type_, value, integer)
        if format_.is_float and operation in (Operation.NEGATE, Operation.ABSOLUTE):
            # LLVM takes masks of the sign for `neg` and `abs`, whose NaN PTX leaves open.
            changed = self.assembly(integer, word, hex(operand), raw)
        else:
            changed = self.value(f"{word} {integer} {raw}, {signed(operand, bits)}")
        return self.cast(integer, changed, type_)


def llvm_ir(module: KernelModule, *, llvm: int) -> str:
    """Return a module's programs as LLVM IR with a kernel for each, for a major version of LLVM.

    The entries have the parameters of the PTX. Raises UsageError if LLVM IR cannot say a program.
    """
    check_named(module.programs.values())
    texts, declared = [], dict[str, str]()
    for kernel in module.kernels:
        writer = LlvmWriter(program=module.programs[kernel.entry], kernel=kernel, llvm=llvm)
        texts.append(writer.text())
        declared |= writer.declared
    place = Module.named(module.target, module.version)
    head = f'; {place}\ntarget triple = "nvptx64-nvidia-cuda"\n'
    if SCALED in declared:
        texts.append(SCALED_TEXT)
    tail = "\n".join(f"declare {text}" for text in declared.values() if text)
    return "\n".join([head, *texts, tail, _NEVER_UNROLLED])
