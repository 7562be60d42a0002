"""Multiplications of a warpgroup as text: their descriptors, and what is asked of a loop's turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from oracle.program.operands import Turn, Uniform
from oracle.program.warpgroup import AsyncProduct, SharedTile

DESCRIPTOR_BYTES = 8
_START = 0x3FFF
"""Bits of a descriptor with the start, in units of 16 bytes (PTX ISA 9.7.15.5.1.2.2)."""


class Text(Protocol):
    """What instructions are appended to."""

    threads: int  # that they are for

    def add(self, *instructions: str, guard: str = "") -> None:
        """Append instructions."""

    def scratch(self, type_: str) -> str:
        """Return a register that nothing has used yet."""

    def own(self, base: str, pitch: int, threads: int) -> str:
        """Return a register with the start of what each of so many threads has, bytes apart."""

    def label(self, name: str) -> None:
        """Append a label."""

    def labels(self, *words: str) -> tuple[str, ...]:
        """Return labels that nothing has used yet."""

    def use(self, register: str) -> str:
        """Take note that a register of the prologue is read; return it."""

    def predicate(self, value: Uniform) -> str:
        """Return a predicate that says whether a value is not zero."""


def multiplied(
    text: Text, step: AsyncProduct, registers: Sequence[Sequence[str]],
    offset: Callable[[str], int], end: int,
) -> None:  # fmt: skip
    """Append a multiplication; `registers` are those of its uses, `offset` says where buffers lie.

    The first of the uses has the registers of D.
    """
    of = {use.field: given for use, given in zip(step.uses, registers, strict=True)}
    made = {
        name: _descriptor(text, tile, offset(tile.place.buffer), end)
        for name, tile in step.tiles.items()
    }
    operands = [
        "{" + ", ".join(of["d"]) + "}",
        made.get("a", "{" + ", ".join(of.get("a", ())) + "}"),
    ]
    operands.append(made["b"])
    if step.e:
        operands += [of["e"][0], str(step.selector)]
    scale = step.scale_d
    operands.append(str(scale) if isinstance(scale, int) else text.predicate(scale))
    if "imm-scale-a" in step.form.operands:
        operands += [str(step.scale_a), str(step.scale_b)]
    if "imm-trans-b" in step.form.operands:
        operands += [str(int(tile.transposed)) for tile in step.tiles.values()]
    text.add(f"{step.form.opcode} {', '.join(operands)}")


_ASKED = {
    "ne": "setp.ne.u32 {asked}, {turn}, {number}",
    "lt": "setp.lt.u32 {asked}, {turn}, {number}",
    "and": "and.b32 {made}, {turn}, {number}; setp.ne.u32 {asked}, {made}, 0",
    "more": "add.u32 {made}, {turn}, {number}; setp.lt.u32 {asked}, {made}, {turns}",
}


def asked(text: Text, value: Turn, turn: str, turns: str) -> str:
    """Append what asks something of a turn of so many, of two registers; return the predicate."""
    predicate, made = text.scratch("pred"), text.scratch("b32")
    names = {"asked": predicate, "made": made, "turn": turn, "turns": turns}
    text.add(*_ASKED[value.asks].format(number=value.number, **names).split("; "))
    return predicate


def _descriptor(text: Text, tile: SharedTile, offset: int, end: int) -> str:
    """Append what makes a descriptor of a base that is known when the kernel runs.

    At `end` begins shared memory that the program does not have, 8 bytes for each thread.
    """
    # The base is a multiple of 1024, so that nothing is carried out of the start. Each descriptor
    # has its own shift: with one for all, ptxas 13.0 unrolls short loops, which hides what the
    # turns of one overwrite (2 of 7 findings of an H200, 2026-11-30).
    bits, made, base = (
        tile.descriptor.bits + (offset >> 4),
        text.scratch("b64"),
        text.scratch("b64"),
    )
    text.add(f"shr.u64 {base}, {text.use('%shared')}, 4")
    match tile.built:
        case "or":
            start = text.scratch("b64")
            text.add(
                f"add.u64 {start}, {base}, {bits & _START}", f"and.b64 {start}, {start}, {_START}",
                f"or.b64 {made}, {start}, {bits & ~_START:#x}",
            )  # fmt: skip
        case "mad":
            low = text.scratch("b32")
            text.add(f"cvt.u32.u64 {low}, {base}", f"mad.wide.u32 {made}, {low}, 1, {bits:#x}")
        case "shuffled":
            low, high = text.scratch("b32"), text.scratch("b32")
            text.add(
                f"add.u64 {made}, {base}, {bits:#x}", f"mov.b64 {{{low}, {high}}}, {made}",
                f"shfl.sync.idx.b32 {low}, {low}, 0, 31, -1",
                f"shfl.sync.idx.b32 {high}, {high}, 0, 31, -1",
                f"mov.b64 {made}, {{{low}, {high}}}",
            )  # fmt: skip
        case "selected":
            holds = text.scratch("pred")
            text.add(
                f"setp.eq.u32 {holds}, {text.use('%zero')}, 0",
                f"add.u64 {base}, {base}, {bits:#x}",
                f"selp.b64 {made}, {base}, 0, {holds}",
            )  # fmt: skip
        case "halves":
            low = text.scratch("b32")
            text.add(
                f"cvt.u32.u64 {low}, {base}", f"add.u32 {low}, {low}, {bits & 0xFFFF_FFFF:#x}",
                f"mov.b64 {made}, {{{low}, {bits >> 32:#x}}}",
            )  # fmt: skip
        case "loaded":
            slot = text.own("%shared", DESCRIPTOR_BYTES, text.threads)
            text.add(
                f"add.u64 {made}, {base}, {bits:#x}", f"st.shared.b64 [{slot}+{end}], {made}",
                f"ld.shared.b64 {made}, [{slot}+{end}]",
            )  # fmt: skip
        case _:
            text.add(f"add.u64 {made}, {base}, {bits:#x}")
    return made
