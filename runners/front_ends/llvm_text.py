"""Text of LLVM IR: intrinsics, instructions, stack slots of what names hold, and addresses.

Names and types of the nvvm intrinsics are those of LLVM's `IntrinsicsNVVM.td`; which version has
which was asked of LLVM 14, 15, 20 and 22 (2026-11). Where a version has none, None is returned, and
the instruction is written as inline assembly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from oracle.isa.forms import Form
from oracle.program.operands import Fragment, Place, Use
from runners.front_ends.protocol import NamedStepWriter

OPAQUE_SINCE = 16
"""First LLVM that has no typed pointers by default wherever it is embedded: LLVM 15 still reads
them, and llvmlite 0.44, which carries it, reads no others (seen 2026-11-22)."""
LATE_SINCE = 22
"""Stores of rows, loads of rows of elements of 8 bits and less, mma of fp8 and of the larger
shapes of f64, and multiplications with metadata: not in 20."""
SPACES = {"": 0, "global": 1, "shared": 3, "shared::cta": 3}
"""Address spaces of NVPTX by the spelling of a state space (LLVM, User Guide for NVPTX)."""
_REGISTER_TYPES = {"f16": "<2 x half>", "f32": "float", "f64": "double"}
SCALED = "scaled"
"""Name of a function of the module: a lane's number, times a number of bytes."""
SCALED_TEXT = f"""define internal i64 @{SCALED}(i32 %lane, i64 %bytes) {{
  %wide = zext i32 %lane to i64
  %product = mul i64 %wide, %bytes
  ret i64 %product
}}
"""
_VECTORS = {
    "<2 x half>": (1, "h"), "float": (4, "f"), "double": (2, "d"), "i32": (4, "i"), "i64": (2, "l"),
}  # fmt: skip
"""Registers of a type in one vector, those of 16 bytes, which PTX moves at a time (`<2 x half>` is
a vector itself), and a letter."""


def register_type(format_name: str) -> str:
    """Return the LLVM type of a register that holds elements of a format, in an operand too."""
    return _REGISTER_TYPES.get(format_name, "i32")


def held_type(use: Use) -> str:
    """Return the type of a register of what a name holds where a step uses it."""
    holds = use.holds
    if isinstance(holds, Fragment):
        return register_type(holds.matrix.type.name)
    return f"i{holds.bits}"


def access_name(form: Form, *, stride: bool) -> str:
    """Return the name of a wmma.load or wmma.store, without the suffix of its pointer."""
    matrix = form.matrix()
    what = "load" if form.mnemonic == "wmma.load" else "store"
    strided = ".stride" if stride else ""
    return (
        f"llvm.nvvm.wmma.{matrix.shape.name}.{what}.{matrix.operand}.{form.layout}{strided}"
        f".{matrix.type.name}"
    )


def multiply_name(form: Form, *, llvm: int) -> str | None:
    """Return the name of the intrinsic of a multiplication; None where this LLVM has none."""
    d, a, b, c = (form.matrix(operand).type.name for operand in "dabc")
    shape = form.shape.name
    op = [f"{form.op}.popc"] if form.op else []
    layouts = [form.a_layout, form.b_layout]
    saturated = ["satfinite"] if form.satfinite else []
    if form.opaque:
        rounding = [form.rounding] if form.rounding else []
        signature = [d, c] if a == "f16" else [a]
        parts = ["wmma", shape, "mma", *op, *layouts, *rounding, *signature, *saturated]
        return ".".join(("llvm.nvvm", *parts))
    late = a in ("e4m3", "e5m2") or (a == "f64" and shape != "m8n8k4") or "e" in form.operands
    if form.rounding or (late and llvm < LATE_SINCE):
        return None
    if a in ("e4m3", "e5m2"):
        signature = [d, a, b, c]
    elif a == "f16":
        signature = [d, c]
    else:
        signature = [a] if a == b else [a, b]
    mnemonic = form.mnemonic.replace("::", ".").replace("_", ".")
    return ".".join(("llvm.nvvm", mnemonic, *op, shape, *layouts, *saturated, *signature))


def rows_name(form: Form, *, llvm: int) -> str | None:
    """Return the name of a load or store of rows without its pointer's suffix; None: none here."""
    if llvm < LATE_SINCE and (form.is_store or form.element_bits != 16):
        return None
    # The opcode, but for the state space, which the pointer says.
    words = [slot.text for slot in form.slots if slot.text and slot.name != "space"]
    return ".".join(("llvm.nvvm", form.mnemonic, *words))


def vector(first: int, count: int) -> str:
    """Return operands of inline assembly as a vector."""
    return "{" + ", ".join(f"${first + index}" for index in range(count)) + "}"


def signed(pattern: int, bits: int) -> int:
    """Return a bit pattern as the number by which LLVM writes it."""
    return pattern - (1 << bits) if pattern >> (bits - 1) else pattern


def struct(type_: str, count: int) -> str:
    """Return the type of several registers of a type."""
    return type_ if count == 1 else "{ " + ", ".join([type_] * count) + " }"


@dataclass(kw_only=True)
class LlvmText(NamedStepWriter):
    """The body of one function, as it is written for a major version of LLVM."""

    llvm: int
    slots: dict[str, str] = field(default_factory=dict)  # types of what is on the stack, by name
    declared: dict[str, str] = field(default_factory=dict)
    """Declarations of the functions that are called, by their names; "" of those defined here."""
    bases: dict[tuple[str, int], str] = field(default_factory=dict)
    """What the prologue computes: each lane's own start, by a space's start and bytes of a lane."""

    def __post_init__(self) -> None:
        self.opaque = self.llvm >= OPAQUE_SINCE  # pointers are `ptr`; else they have types

    def add(self, *texts: str) -> None:
        """Append instructions; what ends with a colon is a label."""
        self.lines += [text if text.endswith(":") else f"  {text}" for text in texts]

    def value(self, text: str) -> str:
        """Append an instruction that has a result; return its name."""
        self.count += 1
        self.add(f"%v{self.count} = {text}")
        return f"%v{self.count}"

    def labels(self, *words: str) -> tuple[str, ...]:
        """Return labels that no other block has, one for each word."""
        self.count += 1
        return tuple(f"{word}{self.count}" for word in words)

    def pointer(self, pointee: str, space: int) -> str:
        """Return the type of a pointer to a type in an address space."""
        where = f" addrspace({space})" if space else ""
        return f"ptr{where}" if self.opaque else f"{pointee}{where}*"

    def overload(self, space: int, pointee: str = "i8") -> str:
        """Return the suffix of an intrinsic's name for a pointer in an address space."""
        return f".p{space}" if self.opaque else f".p{space}{pointee}"

    def call(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Append a call of an intrinsic; return the name of its result, "" of void."""
        types = ", ".join(type_ for type_, _ in arguments)
        self.declared[name] = f"{result} @{name}({types})"
        values = ", ".join(f"{type_} {value}" for type_, value in arguments)
        return self._made(result, f"call {result} @{name}({values})")

    def _made(self, result: str, call: str) -> str:
        if result != "void":
            return self.value(call)
        self.add(call)
        return ""

    def read(self, register: str) -> str:
        """Return the call that reads a special register."""
        name = f"llvm.nvvm.read.ptx.sreg.{register}"
        self.declared[name] = f"i32 @{name}()"
        return f"call i32 @{name}()"

    def assembly(self, integer: str, opcode: str, constant: str, source: str = "") -> str:
        """Append one PTX instruction on whole registers that LLVM does not look into."""
        letter = "l" if integer == "i64" else "r"
        operands = f"$1, {constant}" if source else constant
        constraints = f"={letter},{letter}" if source else f"={letter}"
        argument = f"{integer} {source}" if source else ""
        return self.value(
            f'call {integer} asm "{opcode}.b{integer[1:]} $0, {operands};", "{constraints}"'
            f"({argument})"
        )

    def instruction(
        self, text: str, result: str, arguments: Sequence[tuple[str, str]], *, memory: bool = False
    ) -> str:
        """Append a warp-level instruction as inline assembly; return the name of its result.

        Its text has `$0` and so on for the results and then the arguments; the result is of type
        "void", one type, or a struct of several of one; `memory` says whether it accesses that.
        """
        count = 0 if result == "void" else max(1, result.count("i32") + result.count("i64"))
        kinds = ["=l" if "i64" in result else "=r"] * count
        kinds += ["l" if type_ == "i64" else "r" for type_, _ in arguments]
        kinds += ["~{memory}"] if memory else []
        values = ", ".join(f"{type_} {value}" for type_, value in arguments)
        effect = " sideeffect" if memory else ""
        call = f'call {result} asm{effect} "{text}", "{",".join(kinds)}"({values}) convergent'
        return self._made(result, call)

    def cast(self, from_: str, value: str, to: str) -> str:
        """Append a bit cast where types differ; return the name of its result."""
        return value if from_ == to else self.value(f"bitcast {from_} {value} to {to}")

    def slot(self, name: str, type_: str) -> str:
        """Return a place on the stack, as an operand that is a pointer to it."""
        self.slots[name] = type_
        return f"{self.pointer(type_, 0)} {name}"

    def vectors(self, use: Use) -> Iterator[tuple[str, str, int]]:
        """Iterate over the vectors in which a name's registers stand: slot, type, registers."""
        type_, first = held_type(use), 0
        longest, letter = _VECTORS[type_]
        while left := use.holds.registers - first:
            most = min(left, longest)
            together = f"<{most} x {type_}>" if most > 1 else type_
            yield self.slot(f"%{use.name}.{letter}{first}x{most}", together), together, most
            first += most

    def values(self, use: Use) -> list[tuple[str, str]]:
        """Append the loads of what a step reads; return types and names of its registers."""
        type_, found = held_type(use), list[tuple[str, str]]()
        for slot, together, count in self.vectors(use):
            loaded = self.value(f"load {together}, {slot}")
            parts = [loaded]
            if count > 1:
                extract = f"extractelement {together} {loaded}, i32"
                parts = [self.value(f"{extract} {index}") for index in range(count)]
            found += [(type_, part) for part in parts]
        return found

    def parts(self, result: str, type_: str, count: int) -> list[str]:
        """Return the registers of a result of `count` registers."""
        extract = f"extractvalue {struct(type_, count)} {result},"
        return [self.value(f"{extract} {i}") for i in range(count)] if count > 1 else [result]

    def keep(self, use: Use, result: str) -> None:
        """Append the stores of a result, a struct if there are several registers."""
        self.fill(use, self.parts(result, held_type(use), use.holds.registers))

    def fill(self, use: Use, values: Sequence[str]) -> None:
        """Append the stores of registers into the slots of what a step writes."""
        type_, rest = held_type(use), iter(values)
        for slot, together, count in self.vectors(use):
            filled = next(rest) if count == 1 else "undef"
            for index in range(count) if count > 1 else ():
                insert = f"insertelement {together} {filled}, {type_} {next(rest)}"
                filled = self.value(f"{insert}, i32 {index}")
            self.add(f"store {together} {filled}, {slot}")

    def result(self, use: Use) -> str:
        """Return the type of a result that fills the slots of what a step writes."""
        return struct(held_type(use), use.holds.registers)

    def address(
        self, place: Place, *, space: int = -1, lane: int | None = None, offset: str = "",
        pointee: str = "i8",
    ) -> tuple[str, str]:  # fmt: skip
        """Append what computes a pointer to a place of lane 0; return its type and value.

        It is generic in space 0, in the buffer's own in -1; `lane` has the bytes from each lane's
        place to that of the next, None where all have the same; `offset` is an `i64` that is added.
        """
        own = 3 if self.program.buffer(place.buffer).space == "shared" else 1
        value = "%shared" if own == 3 else "%image"
        distance = self.program.offset(place.buffer) + place.offset
        type_ = self.pointer("i8", own)
        if lane is not None:
            value = self.bases.setdefault((value, lane), f"{value}.x{lane}")
        for more in (offset, str(distance) if distance else ""):
            if more:
                value = self.value(f"getelementptr i8, {type_} {value}, i64 {more}")
        if space == 0:
            generic = self.pointer("i8", 0)
            value = self.value(f"addrspacecast {type_} {value} to {generic}")
            type_, own = generic, 0
        if not self.opaque and pointee != "i8":
            wanted = self.pointer(pointee, own)
            value = self.value(f"bitcast {type_} {value} to {wanted}")
            type_ = wanted
        return type_, value
