"""Programs as LLVM IR: the nvvm intrinsics, with what optimisers like to change around them.

Fragments are vectors on the stack that `mem2reg` has to take apart; addresses are computed from
lane, warp and image, some by a function that wants to be inlined; long copies are loops over units
of the widest type, and the program's loops of a constant count can be unrolled; row addresses of
ldmatrix without a pattern come out of a constant table; what some lanes alone store stands under a
condition on the lane. The intrinsics are those of `llvm_intrinsics`; what a version has none for is
inline assembly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from oracle.lane_code import LaneCode
from oracle.ops import Op
from oracle.places import IMAGE_ALIGNMENT, Uniform, Word
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
from runners.emission.copies import Piece, pieces
from runners.front_ends.llvm_steps import (
    write_elementwise,
    write_op,
    write_pack,
    write_registers,
)
from runners.front_ends.llvm_text import SCALED, SCALED_TEXT, LlvmText, signed
from runners.front_ends.protocol import check_named
from runners.kernels import LANES, Kernel

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

    def text(self) -> str:
        """Return the function with the tables that it reads; `declared` has what it calls."""
        self._write(self.program.steps)
        body, self.lines = self.lines, []
        self._prologue()
        prologue, self.lines = self.lines, []
        head = [
            f"define ptx_kernel void @{self.kernel.entry}"
            f"({self.pointer('i8', 1)} %images, {self.pointer('i32', 1)} %sms, i32 %count) {{"
        ]
        tail = ["  br label %end", "end:", "  ret void", "}"]
        return "\n".join([*self.tables, *head, *prologue, *body, *tail]) + "\n"

    def _prologue(self) -> None:
        """Append what comes before the first step: slots, which image, where it lies."""
        kernel = self.kernel
        for name, type_ in self.slots.items():
            self.add(f"{name} = alloca {type_}")
        self.add(f"%lane = {self.read('laneid')}")
        for name, register in (("threads", "ntid.x"), ("thread", "tid.x"), ("block", "ctaid.x")):
            self.add(f"%{name} = {self.read(register)}")
        self.add("%warps = lshr i32 %threads, 5")
        self.add("%inside = lshr i32 %thread, 5")
        self.add("%before = mul i32 %block, %warps")
        self.add("%warp = add i32 %before, %inside")
        self.add("%idle = icmp uge i32 %warp, %count")
        self.add("br i1 %idle, label %end, label %busy")
        self.label("busy")
        self.add("%warp64 = zext i32 %warp to i64")
        self.add(f"%position = mul i64 %warp64, {kernel.image_bytes}")
        bytes_ = self.pointer("i8", 1)
        self.add(f"%image = getelementptr i8, {bytes_} %images, i64 %position")
        if kernel.shared_bytes:
            size = kernel.shared_bytes * kernel.warps_per_block
            self.tables.insert(
                0,
                f"@{kernel.entry}_shared = internal addrspace(3) global [{size} x i8] undef, "
                f"align {IMAGE_ALIGNMENT}",
            )
            self.add("%inside64 = zext i32 %inside to i64")
            self.add(f"%slice = mul i64 %inside64, {kernel.shared_bytes}")
            array = self.pointer(f"[{size} x i8]", 3)
            self.add(
                f"%shared = getelementptr [{size} x i8], {array} @{kernel.entry}_shared, i64 0, "
                "i64 %slice"
            )
        words = self.pointer("i32", 1)
        self.add(f"%unrecorded = icmp eq {words} %sms, null")
        self.add("%other = icmp ne i32 %lane, 0")
        self.add("%silent = or i1 %unrecorded, %other")
        self.add("br i1 %silent, label %start, label %record")
        self.label("record")
        self.add(f"%sm = {self.read('smid')}")
        self.add(f"%place = getelementptr i32, {words} %sms, i64 %warp64")
        self.add(f"store i32 %sm, {words} %place")
        self.add("br label %start")
        self.label("start")
        self.write_bases()

    def _write(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            self.add(f"; {step}")
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
                for piece in pieces(self.program, step):
                    self._copy(piece)
            case Barrier():
                self.call("void", "llvm.nvvm.bar.warp.sync", ("i32", "-1"))
            case Branch():
                self._branch(step)
            case Loop():
                self._loop(step)
            case _:
                assert_never(step)

    def _copy(self, piece: Piece) -> None:
        """Append what copies: lane l takes every 32nd unit from the l-th on."""
        rounds, rest = divmod(piece.units, LANES)
        if rounds + bool(rest) > _UNROLLED:
            self._copy_loop(piece)
            return
        for number in range(rounds):
            self._move(piece, LANES * number)
        if rest:
            then, end = self.labels("copy", "copied")
            more = self.value(f"icmp ult i32 %lane, {rest}")
            self.add(f"br i1 {more}, label %{then}, label %{end}")
            self.label(then)
            self._move(piece, LANES * rounds)
            self.add(f"br label %{end}")
            self.label(end)

    def _copy_loop(self, piece: Piece) -> None:
        """Append a copy as a loop."""
        head, again, end = self.labels("copy", "again", "copied")
        counter = f"%i{self.count}"
        following = f"%j{self.count}"
        entry = f"entry{self.count}"
        self.add(f"br label %{entry}")
        self.label(entry)
        self.add(f"br label %{head}")
        self.label(head)
        self.add(f"{counter} = phi i32 [ %lane, %{entry} ], [ {following}, %{again} ]")
        more = self.value(f"icmp ult i32 {counter}, {piece.units}")
        self.add(f"br i1 {more}, label %{again}, label %{end}")
        self.label(again)
        wide = self.value(f"zext i32 {counter} to i64")
        self._move(piece, offset=self.value(f"mul i64 {wide}, {piece.width}"))
        self.add(f"{following} = add i32 {counter}, {LANES}")
        self.add(f"br label %{head}, !llvm.loop !0")
        self.label(end)

    def _move(self, piece: Piece, units: int = 0, *, offset: str = "") -> None:
        """Append the copy of a unit: `offset` bytes on, or the lane's own, `units` on."""
        width = piece.width
        unit = _UNITS[width]
        lane = None if offset else width
        source, destination = (
            self.address(
                replace(place, offset=place.offset + units * width),
                lane=lane, offset=offset, pointee=unit,
            )
            for place in (piece.source, piece.destination)
        )  # fmt: skip
        moved = self.value(f"load {unit}, {source[0]} {source[1]}, align {width}")
        self.add(f"store {unit} {moved}, {destination[0]} {destination[1]}, align {width}")

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
        self.add(f"br i1 {taken}, label %{then}, label %{last}")
        self.label(then)
        self._write(step.then)
        self.add(f"br label %{end}")
        if step.otherwise:
            self.label(otherwise)
            self._write(step.otherwise)
            self.add(f"br label %{end}")
        self.label(end)

    def _loop(self, step: Loop) -> None:
        head, body, end = self.labels("loop", "body", "left")
        count = self._uniform(step.count)
        counter = self.slot(f"%turns{self.count}", "i32")
        self.add(f"store i32 {count}, {counter}")
        self.add(f"br label %{head}")
        self.label(head)
        left = self.value(f"load i32, {counter}")
        more = self.value(f"icmp ne i32 {left}, 0")
        self.add(f"br i1 {more}, label %{body}, label %{end}")
        self.label(body)
        fewer = self.value(f"sub i32 {left}, 1")
        self.add(f"store i32 {fewer}, {counter}")
        self._write(step.body)
        self.add(f"br label %{head}")
        self.label(end)


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

    Raises
    ------
    UsageError
        If LLVM IR cannot say a program.
    """
    check_named(programs.values())
    texts, declared = [], dict[str, str]()
    for kernel in kernels:
        program = programs[kernel.entry]
        writer = LlvmWriter(program=program, kernel=kernel, llvm=llvm)
        texts.append(writer.text())
        declared |= writer.declared
    head = f'; {module}\ntarget triple = "nvptx64-nvidia-cuda"\n'
    if SCALED in declared:
        texts.append(SCALED_TEXT)
    tail = "\n".join(f"declare {text}" for text in declared.values() if text)
    return "\n".join([head, *texts, tail, _NEVER_UNROLLED])
