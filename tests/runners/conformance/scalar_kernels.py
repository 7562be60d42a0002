"""Kernels of one scalar instruction, and what a runner makes of them against the oracle's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scalar_operands import operands

from oracle.arithmetic.conversions import is_nan
from oracle.isa.forms import FORMATS
from oracle.scalar import CLASSES, ScalarInstruction
from runners.kernels import Kernel, KernelModule
from runners.protocol import Compiled, Failure, Runner
from runners.ptx_text import opening

LETTERS = {"b16": "h", "b32": "r", "b64": "d", "pred": "p"}
OLD = 0x5A
"""Every byte of what a register holds that an instruction with a guard need not write."""
_AT_ONCE = 1 << 12
"""Warps that are run together: 10^7 lanes at once would take gigabytes."""
CONSTANTS = 8
"""Most kernels of a row that has a constant, each with another."""


@dataclass(frozen=True)
class Case:
    """A row and its constants; in an image, 32 words of each source, then of each result.

    With a guard, that is the last source, and what a lane does not write stays as it was. With
    numbers, what writes a source last is an instruction of floats, which keeps its bits.
    """

    row: ScalarInstruction
    constants: tuple[int, ...]
    name: str
    guarded: bool = False
    numbers: bool = False

    @cached_property
    def slots(self) -> list[tuple[str, int]]:
        """Class of register and size in an image of all that is read, and all that is written."""
        row = self.row
        classes = [*row.sources, *["pred"] * (row.carry_in + self.guarded), *row.destinations]
        classes += ["pred"] * row.carry_out
        return [(name, 4 if name == "pred" else int(name[1:]) // 8) for name in classes]

    @property
    def given(self) -> int:
        """How many of the slots are read."""
        return len(self.row.sources) + self.row.carry_in + self.guarded

    @property
    def kernel(self) -> Kernel:
        return Kernel(entry=self.name, image_bytes=32 * sum(size for _, size in self.slots))

    def at(self, slot: int) -> int:
        return 32 * sum(size for _, size in self.slots[:slot])

    def text(self) -> str:
        """Return the kernel: load the operands, execute the instruction, store the results."""
        row, body, names = self.row, [], []
        for slot, (name, size) in enumerate(self.slots):
            register = f"%{LETTERS[name]}{slot}"
            names.append(register)
            if slot < self.given or self.guarded:
                word = f"%r{slot}" if name == "pred" else register
                body.append(f"ld.global.b{8 * size} {word}, [%a{size}+{self.at(slot)}];")
                if name == "pred":
                    body.append(f"setp.ne.u32 {register}, {word}, 0;")
                elif self.numbers and size > 2:
                    body.append(f"selp.f{8 * size} {register}, {register}, {register}, %true;")
        sources = [
            hex(self.constants[at]) if at in row.immediates and row.immediates[at].required
            else names[at]
            for at in range(len(row.sources))
        ]  # fmt: skip
        borrows = row.family.startswith("sub")
        if row.carry_in:
            flag = f"%r{self.given - 1}"
            line = f"0, {flag}" if borrows else f"{flag}, 0xffffffff"
            body.append(f"{'sub' if borrows else 'add'}.cc.u32 %unused, {line};")
        results = names[self.given : self.given + len(row.destinations)]
        guard = f"@{names[self.given - 1]} " if self.guarded else ""
        body.append(guard + row.text(results, sources))
        if row.carry_out:
            # 0 + 0 + carry, or 0 - (0 + borrow), of which the lowest bit is kept.
            body.append(f"{'subc' if borrows else 'addc'}.u32 %flag, 0, 0;")
            body.append("and.b32 %flag, %flag, 1;")
        for slot, (name, size) in list(enumerate(self.slots))[self.given :]:
            word = names[slot]
            if slot == len(self.slots) - 1 and row.carry_out:
                word = "%flag"
            elif name == "pred":
                word = f"%r{slot}"
                body.append(f"selp.u32 {word}, 1, 0, {names[slot]};")
            body.append(f"st.global.b{8 * size} [%a{size}+{self.at(slot)}], {word};")
        return "\n".join(
            [_BEFORE.format(name=self.name, size=self.kernel.image_bytes), *body, _END]
        )

    def operands(self, count: int, seed: int) -> list[NDArray]:
        drawn = operands(self.row, count, seed)
        for at, limits in self.row.immediates.items():
            if limits.required:
                drawn[at][:] = self.constants[at]
        if self.guarded:
            drawn.append(np.random.default_rng(seed).random(drawn[0].shape) < 0.5)
        return drawn

    def images(self, given: Sequence[NDArray]) -> NDArray[np.uint8]:
        parts = [
            np.ascontiguousarray(one, np.uint32 if one.dtype == bool else one.dtype).view(np.uint8)
            for one in given
        ]
        old = OLD if self.guarded else 0
        made = np.full((len(given[0]), self.kernel.image_bytes), old, np.uint8)
        made[:, : self.at(self.given)] = np.concatenate(parts, axis=1)
        return made

    def results(self, images: NDArray[np.uint8]) -> list[NDArray]:
        found = []
        for slot in range(self.given, len(self.slots)):
            name, size = self.slots[slot]
            part = np.ascontiguousarray(images[:, self.at(slot) :][:, : 32 * size])
            found.append(part.view(f"u{size}").astype(CLASSES[name]))
        return found


_BEFORE = """.visible .entry {name}(.param .u64 images, .param .u64 sms, .param .u32 count)
{{
.reg .b16 %h<12>; .reg .b32 %r<12>, %unused, %flag, %warp, %warps, %block, %count, %lane;
.reg .b64 %d<12>, %a2, %a4, %a8, %image, %offset; .reg .pred %p<12>, %done, %true;
mov.u32 %warps, %ntid.x; shr.u32 %warps, %warps, 5; setp.ne.u32 %true, %warps, 0;
mov.u32 %block, %tid.x; shr.u32 %block, %block, 5;
mov.u32 %warp, %ctaid.x; mad.lo.u32 %warp, %warp, %warps, %block;
ld.param.u32 %count, [count]; setp.ge.u32 %done, %warp, %count; @%done bra END;
mov.u32 %lane, %laneid;
ld.param.u64 %image, [images]; cvta.to.global.u64 %image, %image;
mul.wide.u32 %offset, %warp, {size}; add.u64 %image, %image, %offset;
mul.wide.u32 %offset, %lane, 2;
add.u64 %a2, %image, %offset; add.u64 %a4, %a2, %offset;
shl.b64 %offset, %offset, 2; add.u64 %a8, %image, %offset;"""
_END = "END:\nret;\n}"


def cases(
    rows: Sequence[ScalarInstruction],
    seed: int = 0,
    *,
    guarded: bool = False,
    numbers: bool = False,
) -> list[Case]:
    """Return the kernels of rows: several of one whose constants have a range.

    With a guard, of those that lanes can execute apart, and that know of no carry.
    """
    made = []
    for number, row in enumerate(rows):
        if guarded and (row.warp or row.carry_in or row.carry_out):
            continue
        required = [one for one in row.immediates.values() if one.required and one.low < one.high]
        for which in range(CONSTANTS if required else 1):
            # The first warp of operands has an end of the range.
            warp = operands(row, 1 if which < 2 else 2, seed + which)
            constants = tuple(int(one[-1, 0]) for one in warp)
            made.append(Case(row, constants, f"k{number}_{which}", guarded, numbers))
    return made


def module_of(some: Sequence[Case], version: str = "9.0", target: str = "sm_90") -> KernelModule:
    text = "\n".join([opening(target, version), *(case.text() for case in some)])
    return KernelModule(
        ptx=text, target=target, version=version, kernels=tuple(case.kernel for case in some)
    )


@dataclass(frozen=True)
class Answer:
    """What a runner made of a case."""

    case: Case
    compared: int
    wrong: int
    """Lanes with another result than the oracle's where PTX defines it."""
    elsewhere: int
    """Lanes with another result where PTX leaves it open: outside `defined`, or another NaN."""
    example: str = ""
    """The first difference."""


def compared(case: Case, given: Sequence[NDArray], found: Sequence[NDArray]) -> Answer:
    """Compare results with the oracle's."""
    row, sources = case.row, given[: len(given) - case.guarded]
    wanted = row.evaluate(*sources)
    if case.guarded:
        wanted = tuple(
            np.where(given[-1], want, np.full(want.itemsize, OLD, np.uint8).view(want.dtype)[0])
            for want in wanted
        )
    differs = np.zeros(given[0].shape, np.bool_)
    for one, want in zip(found, wanted, strict=True):
        differs |= one != want
    if not differs.any():
        return Answer(case, differs.size, 0, 0)
    open_ = np.zeros(differs.shape, np.bool_)
    if row.nan:
        fmt = FORMATS[row.nan.removesuffix("x2")]
        pair = [np.ascontiguousarray(one).view(fmt.raw) for one in (found[0], wanted[0])]
        both = is_nan(pair[0], fmt) & is_nan(pair[1], fmt)
        same = (both | (pair[0] == pair[1])).reshape(*differs.shape, -1).all(axis=-1)
        open_ |= same
    if row.defined is not None:
        open_ |= ~row.defined(*sources)
    if case.guarded:
        open_ &= given[-1]
    wrong = differs & ~open_
    at = tuple(np.argwhere(wrong if wrong.any() else differs)[0])
    values = [[hex(int(one[at])) for one in some] for some in (given, wanted, found)]
    example = f"({', '.join(values[0])}) gives {values[2]}, the oracle {values[1]}"
    return Answer(case, differs.size, int(wrong.sum()), int((differs & open_).sum()), example)


def answers(
    runner: Runner, some: Sequence[Case], count: int, seed: int = 0
) -> list[Answer | Failure]:
    """Run cases as one module, `count` warps of each, and compare them.

    A module that cannot be compiled is halved until the rows are known that are to blame.
    """
    compiled = runner.compile(module_of(some))
    if isinstance(compiled, Failure):
        if len(some) == 1:
            return [compiled]
        half = len(some) // 2
        return [
            *answers(runner, some[:half], count, seed), *answers(runner, some[half:], count, seed)
        ]  # fmt: skip
    return [_answer(runner, compiled, case, count, seed) for case in some]


def _answer(
    runner: Runner, compiled: Compiled, case: Case, count: int, seed: int
) -> Answer | Failure:
    total = Answer(case, 0, 0, 0)
    for piece, done in enumerate(range(0, count, _AT_ONCE)):
        given = case.operands(min(_AT_ONCE, count - done), seed + (piece << 32))
        ran = runner.run(compiled, case.images(given), entry=case.name)
        if isinstance(ran, Failure):
            return ran
        one = compared(case, given, case.results(ran.images))
        total = replace(
            # A wrong result is a better example than one that is open.
            one if (one.wrong and not total.wrong) or not total.example else total,
            compared=total.compared + one.compared,
            wrong=total.wrong + one.wrong,
            elsewhere=total.elsewhere + one.elsewhere,
        )
    return total
