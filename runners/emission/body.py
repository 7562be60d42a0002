"""The text of one kernel's body: steps to instructions, each under a comment that says what it is.

Registers of the prologue are `%image` and `%shared` (and these with `_generic`), `%lane`,
`%thread`, `%warp` and `%zero`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import gcd
from typing import assert_never

from oracle.errors import UsageError
from oracle.isa.forms import LANES, Format, replicated
from oracle.isa.lookup import ptx_operands, scale_ids
from oracle.program import operands
from oracle.program.lane_code import (
    LANE,
    ZERO,
    Assign,
    If,
    LaneCode,
    Leave,
    Repeat,
    Statement,
    address_code,
    class_of,
    row_of,
)
from oracle.program.operands import WITH_CONSTANT, Operation, Place, Turn, Uniform
from oracle.program.operations import Elementwise, Scalar
from oracle.program.program import Program
from oracle.program.steps import (
    AnyOp,
    Barrier,
    Branch,
    Copy,
    Loop,
    OneWarp,
    Op,
    PlainAccess,
    Product,
    RowAccess,
    Step,
    accesses_matrix,
    accesses_rows,
    multiplies,
)
from oracle.program.warpgroup import AsyncProduct, WarpgroupSync
from runners.emission import bulk
from runners.emission.copies import VECTORS, Piece, pieces
from runners.emission.descriptors import asked, multiplied
from runners.emission.offsets import lane_offsets, progression
from runners.emission.registers import Registers, braced, displaced
from runners.emission.registers import operand_registers as operand_registers

_PREFIXES = {"b16": "%h", "b32": "%r", "b64": "%rd", "pred": "%p"}
_BASES = {
    ("global", "global"): "%image", ("global", ""): "%image_generic",
    ("shared", "shared"): "%shared", ("shared", "shared::cta"): "%shared",
    ("shared", ""): "%shared_generic",
}  # fmt: skip
"""Base registers, by the space of the buffer and the spelling of the state space."""
_WIDEST = 16  # bytes that one lane can load or store at a time: `.v4.b32` or `.v2.b64`
_UNROLLED = 8  # most rounds of one copy that are written out; more become a loop
# `.rn` is written out: without it a compiler may contract mul and add into fma (PTX ISA, Floating
# Point Instructions: add, mul).
_ARITHMETIC = {
    **{
        (name, operation): f"{word}.rn.{type_}"
        for name, type_ in (("f16", "f16x2"), ("f32", "f32"), ("f64", "f64"))
        for operation, word in ((Operation.MULTIPLY, "mul"), (Operation.ADD, "add"))
    },
    ("s32", Operation.MULTIPLY): "mul.lo.s32",
    ("s32", Operation.ADD): "add.s32",
    ("s32", Operation.NEGATE): "neg.s32",
}


class Body:
    """Instructions in order, and what they make a kernel declare; `write` appends steps.

    wmma is spelled with `.aligned` or not. The image lies in "global", or in "shared". `used` are
    registers of the prologue that the body reads. In a `brief` one, each constant of an address
    stands in the brackets, also where a step's `immediate` says that a register has it.
    """

    def __init__(
        self, program: Program, aligned: bool, image_space: str = "global", brief: bool = False
    ) -> None:
        self.program, self.image_space, self._brief = program, image_space, brief
        self.lines: list[str] = []
        self.used: set[str] = set()
        self._aligned, self._labels = aligned, 0
        self.threads = program.threads  # that the step being written is for
        self._scratch: dict[str, int] = {}
        self._once: dict[str, str] = {}  # registers that are written once, by the instruction
        self._registers, self._allotted = operand_registers(program)
        self._names: dict[str, str] = {}  # registers of the scalar code that is being written
        self._turn = "", ""  # registers with the turn of the loop around, and how many it has

    # Lines, registers and labels

    def add(self, *instructions: str, guard: str = "") -> None:
        """Append instructions, with their guard predicate (such as "@%p0") if they have one."""
        before = f"    {guard} " if guard else "    "
        self.lines += [f"{before}{instruction};" for instruction in instructions]

    def comment(self, text: str) -> None:
        """Append a line of comment."""
        self.lines.append(f"    // {text}")

    def label(self, name: str) -> None:
        """Append a label."""
        self.lines.append(f"{name}:")

    def scratch(self, type_: str) -> str:
        """Return a register that nothing has used yet: "b16", "b32", "b64" or "pred"."""
        number = self._scratch.get(type_, 0)
        self._scratch[type_] = number + 1
        return f"{_PREFIXES[type_]}{number}"

    def once(self, type_: str, instruction: str) -> str:
        """Return the register, `{}` in an instruction, of what it computes of the prologue's.

        It is appended where the steps around, or those they stand in, have not done so yet.
        """
        if instruction not in self._once:
            register = self._once[instruction] = self.scratch(type_)
            self.add(instruction.format(register))
        return self._once[instruction]

    def labels(self, *words: str) -> tuple[str, ...]:
        """Return labels that nothing has used yet; those of one call share a number."""
        self._labels += 1
        return tuple(f"{word}_{self._labels}" for word in words)

    @contextmanager
    def repeated(self, word: str, times: int) -> Iterator[None]:
        """Append what is appended meanwhile as a loop, under a label that begins with a word."""
        (again,) = self.labels(word)
        count, predicate = self.scratch("b32"), self.scratch("pred")
        self.add(f"mov.b32 {count}, {times}")
        self.label(again)
        yield
        self.add(f"sub.u32 {count}, {count}, 1", f"setp.ne.u32 {predicate}, {count}, 0")
        self.add(f"bra {again}", guard=f"@{predicate}")

    def use(self, register: str) -> str:
        """Take note that a register of the prologue is read; return it."""
        self.used.add(register)
        return register

    def _spelled(self, space: str) -> str:
        """Return how a state space, or an opcode that names one, is spelled for this image."""
        return space if self.image_space == "global" else space.replace("global", self.image_space)

    @property
    def registers(self) -> Registers:
        """Those of the operands of steps, and those that the instructions needed besides."""
        scratch = ((type_, f"{_PREFIXES[type_]}<{n}>") for type_, n in self._scratch.items())
        count = len(self.program.mbarriers)
        phases = [("b32", f"{bulk.PHASE}<{count}>"), ("pred", bulk.ELECTED)] if count else []
        return (*self._allotted, *scratch, *phases)

    # Addresses

    def _base(self, buffer: str, space: str) -> str:
        """Return the register with the start of the image, or of the warp's shared memory."""
        lies_in = self.program.buffer(buffer).space
        if (lies_in, space) not in _BASES:
            raise UsageError(
                f"buffer {buffer!r} lies in {lies_in} memory and is accessed through .{space}; use "
                f".{lies_in} or generic addressing"
            )
        return self.use(_BASES[lies_in, space])

    def _number(self, threads: int) -> str:
        """Return the register that tells so many threads apart: those of a warp are its lanes."""
        return self.use("%lane" if threads == LANES else "%thread")

    def own(self, base: str, pitch: int, threads: int) -> str:
        """Return a register with the start of what each of so many threads has, bytes apart."""
        kind = "u32" if pitch > 0 else "s32"
        return self.once("b64", f"mad.wide.{kind} {{}}, {self._number(threads)}, {pitch}, {base}")

    def _place(self, place: Place) -> str:
        base = self._base(place.buffer, self.program.buffer(place.buffer).space)
        return displaced(base, self._offset(place))

    def mbarrier(self, number: int) -> str:
        """Return the address of an mbarrier."""
        return displaced(self.use("%shared"), self.program.mbarriers[number])

    def _offset(self, place: Place) -> int:
        """Return how far behind the register of its base a place lies, in bytes."""
        return self.program.offset(place.buffer) + place.offset

    def _address(self, register: str, offset: int, immediate: int) -> tuple[str, int]:
        """Return the register and the constant of an address that is to have this constant."""
        if self._brief:
            immediate = offset
        if rest := offset - immediate:
            total = self.scratch("b64")
            self.add(f"add.s64 {total}, {register}, {rest}")
            register = total
        return register, immediate

    def _held(self, step: Step, address: str) -> str:
        """Return the register of the destination that is to have the address, or the one given."""
        if step.address is None:
            return address
        (use,) = step.uses
        register = self._registers(use)[step.address]
        convert = "cvt.u32.u64" if use.holds.bits == 32 else "mov.b64"
        self.add(f"{convert} {register}, {address}")
        return register

    def _first_lanes(self, count: int) -> str:
        predicate = self.scratch("pred")
        self.add(f"setp.lt.u32 {predicate}, {self._number(self.threads)}, {count}")
        return f"@{predicate}"

    # Steps

    def write(self, steps: tuple[Step, ...], number: str = "") -> None:
        """Append the instructions of steps; `number` is that of the step that holds them."""
        around = self._once.copy()
        for index, step in enumerate(steps):
            self._step(step, f"{number}{index}")
        self._once = around

    def _step(self, step: Step, number: str) -> None:
        self.comment(f"{number}: {step}")
        match step:
            case Op():
                self._op(step)
            case Elementwise():
                self._each(step, step.matrix.register_bits, self._elementwise(step))
            case PlainAccess():
                self._plain_access(step)
            case Scalar():
                # Of two sources that go into one register, the first operand is the upper half.
                places = [f"{{{place}}}" for place in (0, *range(step.row.sources, 0, -1))]
                constant = [] if step.sets is None else [f"{step.sets:#x}"]
                self._each(step, step.bits, f"{step.opcode} {', '.join(places + constant)}")
            case LaneCode():
                *source, destination = map(self._registers, step.uses)
                self._lane_code(step, source[0] if source else (), destination)
            case Copy(mbarrier=int(at)):
                ends = self._place(step.source), self._place(step.destination)
                bulk.begun(self, step, *ends, self.mbarrier(at))
            case Copy():
                for piece in pieces(self.program, step):
                    text = "bytes of an asynchronous copy are no multiples of 4; align both ends"
                    operands.check(piece.width >= 4 or not step.is_async, text)
                    self._copy(piece, is_async=step.is_async)
            case Barrier():
                whole = self.threads > LANES
                self.add("bar.sync 0" if whole else "bar.warp.sync 0xffffffff")
            case OneWarp():
                (end,), predicate = self.labels("DONE"), self.scratch("pred")
                self.add(f"setp.ne.u32 {predicate}, {self.use('%warp')}, {step.warp}")
                self.add(f"bra {end}", guard=f"@{predicate}")
                group, self.threads = self.threads, LANES
                self.write(step.body, f"{number}.body.")
                self.threads = group
                self.label(end)
            case AsyncProduct():
                behind = self.program.shared_bytes
                multiplied(
                    self, step, [*map(self._registers, step.uses)], self.program.offset, behind
                )
            case WarpgroupSync(mbarrier=int(at)):
                bulk.waited(self, [*self.program.mbarriers].index(at), self.mbarrier(at))
            case WarpgroupSync():
                self.add(step.text)
            case Branch():
                otherwise, end = self.labels("ELSE", "DONE")
                predicate, condition = self.scratch("pred"), self.uniform(step.condition)
                self.add(f"setp.eq.u32 {predicate}, {condition}, 0")
                self.add(f"bra {otherwise if step.otherwise else end}", guard=f"@{predicate}")
                self.write(step.then, f"{number}.then.")
                if step.otherwise:
                    self.add(f"bra {end}")
                    self.label(otherwise)
                    self.write(step.otherwise, f"{number}.otherwise.")
                self.label(end)
            case Loop():
                self._loop(step, number)
            case _:
                assert_never(step)

    def _loop(self, step: Loop, number: str) -> None:
        """Append a loop: it counts down, or, where something is asked of its turns, up."""
        again, end = self.labels("LOOP", "DONE")
        predicate, count = self.scratch("pred"), self.uniform(step.count)
        around, over = self._turn, f"eq.u32 {predicate}, {count}, 0"
        if step.counts:
            self._turn = turn, _ = self.scratch("b32"), count
            over = f"ge.u32 {predicate}, {turn}, {count}"
            self.add(f"mov.b32 {turn}, 0")
        self.label(again)
        self.add(f"setp.{over}")
        self.add(f"bra {end}", guard=f"@{predicate}")
        if not step.counts:
            self.add(f"sub.u32 {count}, {count}, 1")
        self.write(step.body, f"{number}.body.")
        if step.counts:
            self.add(f"add.u32 {turn}, {turn}, 1")
        self.add(f"bra {again}")
        self.label(end)
        self._turn = around

    def _op(self, step: AnyOp) -> None:
        """Append a matrix instruction: its vectors, and its address before or behind them."""
        opcode, stride = step.form.opcode, ""
        if not self._aligned and opcode.startswith("wmma"):
            opcode = opcode.replace(".aligned", "")
        opcode = self._spelled(opcode)
        vectors = [braced(self._registers(use)) for use in step.uses]
        if accesses_matrix(step):
            memory = step.memory
            base = self._base(memory.place.buffer, step.form.space)
            address, constant = self._address(base, self._offset(memory.place), memory.immediate)
            if memory.stride is not None:
                stride = f", {memory.stride}"
                if memory.stride_in_register:
                    register = self.scratch("b32")
                    self.add(f"add.u32 {register}, {self.use('%zero')}{stride}")
                    stride = f", {register}"
        elif accesses_rows(step):
            address, constant = self._row_address(step)
        elif multiplies(step):
            ids = self._ids(step) if step.ids_in_registers else ()
            self.add(f"{opcode} {', '.join(ptx_operands(step.form, vectors, step.selector, ids))}")
            return
        else:
            self._each(step, 32, f"{opcode} {{}}, {{}}")
            return
        where = displaced(self._held(step, address), constant)
        first, second = (where, *vectors) if step.stores else (*vectors, where)
        self.add(f"{opcode} {first}, {second}{stride}")

    def _ids(self, step: Product) -> list[str]:
        """Append what computes the selectors of scales; return their registers."""
        zero, registers = self.scratch("b16"), list[str]()
        self.add(f"cvt.u16.u32 {zero}, {self.use('%zero')}")
        for number in scale_ids(step.form, step.selector or 0):
            registers.append(self.scratch("b16"))
            self.add(f"add.u16 {registers[-1]}, {zero}, {number}")
        return registers

    def _row_address(self, step: RowAccess) -> tuple[str, int]:
        memory = step.memory
        offset = self.program.offset(memory.buffer)
        register = self._base(memory.buffer, step.form.space)
        if not memory.computed and (regular := progression(memory.addresses)):
            first, pitch = regular
            start = self.own(register, pitch, len(memory.addresses))
            return self._address(start, first + offset, memory.immediate)
        if memory.computed:
            made, distance = self.scratch("b32"), self.scratch("b64")
            self._lane_code(address_code(memory.computed), (), (made,))
            self.add(f"cvt.u64.u32 {distance}, {made}")
        else:
            distance = lane_offsets(self, memory.addresses)
        total = self.scratch("b64")
        self.add(f"add.s64 {total}, {register}, {distance}")
        return self._address(total, offset, memory.immediate)

    def _plain_access(self, step: PlainAccess) -> None:
        """Append accesses that are as wide as the alignment allows."""
        width = step.bits // 8
        (registers,) = map(self._registers, step.uses)
        lies_in = self.program.buffer(step.place.buffer).space
        space, offset = self._spelled(lies_in), self._offset(step.place)
        base = self._base(step.place.buffer, lies_in)
        register = self._held(step, self.own(base, width * step.count, self.threads))
        guard = "" if step.lanes == self.threads else self._first_lanes(step.lanes)
        together = gcd(step.count, _WIDEST // width)
        if offset % (width * together):
            together = 1
        indices = [*range(0, step.count, together)]
        if step.address is not None:
            # The load that overwrites the address comes last.
            last = step.address - step.address % together
            indices = [*(index for index in indices if index != last), last]
        for index in indices:
            part = registers[index : index + together]
            value = braced(part) if together > 1 else part[0]
            kind = f"v{together}.b{step.bits}" if together > 1 else f"b{step.bits}"
            where = displaced(register, offset + width * index)
            if step.stores:
                self.add(f"st.{space}.{kind} {where}, {value}", guard=guard)
            else:
                self.add(f"ld.{space}.{kind} {value}, {where}")

    def _each(self, step: Step, bits: int, template: str) -> None:
        """Append an instruction for each register of the destination, with its share of sources."""
        *read, destination = map(self._registers, step.uses)
        source = read[0] if read else ()
        each = len(source) // len(destination)
        late: list[str] = []
        for index, register in enumerate(destination):
            result = register
            if register in source[each * (index + 1) :]:  # which a later instruction reads
                result = self.scratch(f"b{bits}")
                late.append(f"mov.b{bits} {register}, {result}")
            self.add(template.format(result, *source[each * index : each * (index + 1)]))
        self.add(*late)

    def _elementwise(self, step: Elementwise) -> str:
        """Return the instruction of an element-wise operation, for one register (9.7.14.4.1)."""
        type_, operation, bits = step.matrix.type, step.operation, step.matrix.register_bits
        opcode, constant = f"{operation}.b{bits}", None
        if operation in WITH_CONSTANT:
            constant = replicated(step.constant, type_.bits, bits)
        if (type_.name, operation) in _ARITHMETIC:
            opcode = _ARITHMETIC[type_.name, operation]
        elif operation is Operation.COPY:
            opcode, constant = f"mov.b{bits}", None
        elif operation is Operation.NEGATE:
            opcode, constant = f"xor.b{bits}", signs(type_, bits)
        elif operation is Operation.ABSOLUTE:
            opcode, constant = f"and.b{bits}", signs(type_, bits) ^ ((1 << bits) - 1)
        if constant is None:
            return f"{opcode} {{}}, {{}}"
        # A register takes any bit pattern, NaN with its payload too.
        register = self.scratch(f"b{bits}")
        self.add(f"mov.b{bits} {register}, {constant:#x}")
        return f"{opcode} {{}}, {{}}, {register}"

    def uniform(self, value: Uniform) -> str:
        """Return a register with a value that is the same in all threads."""
        register = self.scratch("b32")
        if isinstance(value, int):
            self.add(f"mov.b32 {register}, {value}")
        elif isinstance(value, Turn):
            self.add(f"selp.b32 {register}, 1, 0, {self.predicate(value)}")
        else:
            operand = displaced(self._base(value.place.buffer, "global"), self._offset(value.place))
            self.add(
                f"ld.{self.image_space}.b32 {register}, {operand}",
                f"and.b32 {register}, {register}, {value.mask:#x}",
            )
        return register

    def predicate(self, value: Uniform) -> str:
        """Return a predicate that says whether a value is not zero."""
        if isinstance(value, Turn):
            return asked(self, value, *self._turn)
        predicate = self.scratch("pred")
        self.add(f"setp.ne.u32 {predicate}, {self.uniform(value)}, 0")
        return predicate

    def _copy(self, piece: Piece, *, is_async: bool) -> None:
        """Copy the units of a piece, which threads take in turns."""
        width, ends = piece.width, (piece.source, piece.destination)
        spaces = [self.program.buffer(place.buffer).space for place in ends]
        threads = self.threads
        pointers = [
            (self.own(self._base(place.buffer, space), width, threads), self._offset(place))
            for place, space in zip(ends, spaces, strict=True)
        ]
        reading, writing = map(self._spelled, spaces)
        # A byte travels in a 16-bit register, as in what nvcc emits.
        size = "b32" if width >= 4 else "b16"
        registers = tuple(self.scratch(size) for _ in range(max(1, width // 4)))
        vector = braced(registers) if len(registers) > 1 else registers[0]

        def move(distance: int, guard: str = "") -> None:
            load, store = (displaced(pointer, start + distance) for pointer, start in pointers)
            if is_async:
                self.add(f"cp.async.ca.shared.global {store}, {load}, {width}", guard=guard)
                return
            self.add(f"ld.{reading}.{VECTORS[width]} {vector}, {load}", guard=guard)
            self.add(f"st.{writing}.{VECTORS[width]} {store}, {vector}", guard=guard)

        rounds, rest = divmod(piece.units, threads)
        if rounds > _UNROLLED:
            own, pointers = pointers, [(self.scratch("b64"), start) for _, start in pointers]
            for (end, _), (first, _) in zip(pointers, own, strict=True):
                self.add(f"mov.b64 {end}, {first}")
            with self.repeated("COPY", rounds):
                move(0)
                self.add(*(f"add.s64 {end}, {end}, {threads * width}" for end, _ in pointers))
            rounds = 0
        for index in range(rounds):
            move(index * threads * width)
        if rest:
            guard = self._first_lanes(rest)
            move(rounds * threads * width, guard)

    # Scalar code

    def _lane_code(self, step: LaneCode, source: Sequence[str], destination: Sequence[str]) -> None:
        """Append the code of a step whose operands have these registers."""
        self._names = {}
        for name, given in zip(step.inputs, source, strict=True):
            self.add(f"mov.{class_of(name)} {self._named(name)}, {given}")
        self._statements(step.code, ())
        for name, wanted in zip(step.results, destination, strict=True):
            self.add(f"mov.{class_of(name)} {wanted}, {self._named(name)}")

    def _named(self, name: str) -> str:
        if name in (LANE, ZERO):
            return self.use("%lane" if name == LANE else "%zero")
        if name not in self._names:
            self._names[name] = self.scratch(class_of(name))
        return self._names[name]

    def _guard(self, predicate: str, *, negated: bool = False) -> str:
        """Return what stands before an instruction that a predicate guards; "" for none."""
        if not predicate:
            return ""
        sign = "!" if negated != predicate.startswith("!") else ""
        return f"@{sign}{self._named(predicate.removeprefix('!'))}"

    def _statements(self, statements: Sequence[Statement], loop: tuple[str, ...]) -> None:
        """Append statements; `loop` has the labels behind the loop around and of its next turn."""
        for statement in statements:
            match statement:
                case Assign():
                    self._assign(statement)
                case If():
                    self._if(statement, loop)
                case Repeat():
                    self._repeat(statement)
                case Leave():
                    guard = self._guard(statement.predicate)
                    self.add(f"bra {loop[statement.turn]}", guard=guard)

    def _assign(self, statement: Assign) -> None:
        row, sources = row_of(statement), []
        for index, source in enumerate(statement.sources):
            if isinstance(source, str):
                sources.append(self._named(source))
            elif index in row.immediates:
                sources.append(f"{source:#x}")
            else:  # a constant stands in a register
                sources.append(self.scratch(row.sources[index]))
                self.add(f"mov.{row.sources[index]} {sources[-1]}, {source:#x}")
        written = [self._named(name) for name in statement.destinations]
        text = row.text(written, sources).removesuffix(";")
        self.add(text, guard=self._guard(statement.guard))

    def _if(self, branch: If, loop: tuple[str, ...]) -> None:
        otherwise, end = self.labels("NO", "JOIN")
        target = otherwise if branch.otherwise else end
        self.add(f"bra {target}", guard=self._guard(branch.predicate, negated=True))
        self._statements(branch.then, loop)
        if branch.otherwise:
            self.add(f"bra {end}")
            self.label(otherwise)
            self._statements(branch.otherwise, loop)
        self.label(end)

    def _repeat(self, loop: Repeat) -> None:
        count = f"{loop.count:#x}" if isinstance(loop.count, int) else ""
        again, middle, following, end = self.labels("TURN", "ENTRY", "NEXT", "LEFT")
        counter, done = self._named(loop.counter), self.scratch("pred")
        if not isinstance(loop.count, int):
            count = self.scratch("b32")
            self.add(f"and.b32 {count}, {self._named(loop.count)}, {loop.mask:#x}")
        self.add(f"mov.b32 {counter}, {count if loop.down else 0}")
        asks = f"setp.ge.u32 {done}, {counter}, {count}"
        if loop.down:
            asks = f"setp.le.s32 {done}, {counter}, 0"
        if loop.entry:
            self.add(f"bra {middle}", guard=self._guard(loop.entry))
        self.label(again)
        if not loop.late:
            self.add(asks)
            self.add(f"bra {end}", guard=f"@{done}")
        self._statements(loop.body[: loop.skipped], (end, following))
        if loop.entry:
            self.label(middle)
        self._statements(loop.body[loop.skipped :], (end, following))
        self.label(following)
        self.add(f"add.s32 {counter}, {counter}, {-1 if loop.down else 1}")
        if loop.late:
            self.add(asks)
        self.add(f"bra {again}", guard=f"@!{done}" if loop.late else "")
        self.label(end)


def signs(type_: Format, bits: int) -> int:
    """Return the sign bits of a float's elements in a register."""
    return replicated(1 << (type_.bits - 1), type_.bits, bits)
