"""The smallest kernel of a program: one warp, one pointer to one image, nothing else.

`emit` writes a kernel that many warps run on many images and that records their multiprocessors.
Whoever reads a finding needs none of that. `emit_single` writes the same steps and then takes away
what only the frame needs: copies between registers, parts of addresses, and what nothing reads.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from oracle.isa.forms import LANES
from oracle.isa.targets import Module
from oracle.program.program import Program
from runners.emission.body import Body, braced, displaced
from runners.emission.modules import declarations, module_of, warps_of_block, zero
from runners.emission.steps import StepWriter
from runners.kernels import Kernel, KernelModule, Launch

_REGISTER = re.compile(r"%\w+")
_INSTRUCTION = re.compile(r"\s*(?:(@!?%\w+)\s+)?([a-z][\w.:]*)\s*(.*);")
_DECLARED = re.compile(r"\s*\.reg \.(\w+) ([^;]+);")
_VECTOR_LOAD = re.compile(r"(ld\.\w+)\.v([24])\.b(\d+)")
_ADDRESS = re.compile(r"\[(%\w+)(?:\+(-?\d+))?\]")
_NO_RESULT = ("bra", "bar.")
_COPIES = ("mov.b16", "mov.b32", "mov.b64", "mov.pred")
_CARRY = re.compile(r"\.cc\b|^(?:addc|subc|madc)\b")
"""Instructions that write or read the carry flag, which no operand names (PTX ISA 9.0, 9.7.2)."""


def emit_single(
    program: Program, *, module: Module | None = None, entry: str = "kernel"
) -> KernelModule:
    """Turn a program into a module of one kernel that one warp runs on one image.

    The entry's parameter is `.param .u64 image`, the address of the image's bytes. Arguments and
    errors are those of `runners.emission.emit`.
    """
    return module_of({entry: program}, _kernel, _text, module)


def _kernel(program: Program, entry: str) -> Kernel:
    warps_of_block(program, entry)  # raises UsageError where shared memory is too small
    size = program.image_bytes
    launch = Launch(
        grid=(1, 1, 1), block=(LANES, 1, 1), shared_bytes=0, parameters=bytes(8),
        pointers=((0, 0),), buffers=((0, size),),
    )  # fmt: skip
    return Kernel(
        entry=entry, image_bytes=size, warps_per_block=1, shared_bytes=program.shared_bytes,
        launch=launch,
    )  # fmt: skip


def _text(program: Program, kernel: Kernel, aligned: bool) -> str:
    body = Body()
    StepWriter(program, body, aligned).write(program.steps)
    declared = [
        "    .reg .b64 %image_generic, %image;",
        "    .reg .b32 %lane;",
        *declarations(program, body, kernel, "%shared, %shared_generic"),
    ]
    prologue = [
        "    mov.u32 %lane, %laneid;",
        "    ld.param.u64 %image_generic, [image];",
        *zero(body),
        "    cvta.to.global.u64 %image, %image_generic;",
    ]
    if kernel.shared_bytes:
        prologue += [
            "    mov.u64 %shared, shared_memory;",
            "    cvta.shared.u64 %shared_generic, %shared;",
        ]
    text = [line for line in (*prologue, *body.lines) if not line.lstrip().startswith("//")]
    lines = [line.text for line in _without_frame([*map(_Line.of, text)])]
    return "\n".join([
        f".visible .entry {kernel.entry}(.param .u64 image)",
        "{",
        *(line for line in declared if ".shared" in line),
        *_registers(declared, lines),
        *lines,
        "    ret;", "}", "",
    ])  # fmt: skip


def _registers(declared: Iterable[str], lines: Iterable[str]) -> Iterator[str]:
    """Declare the registers that lines name, one line for each type."""
    used = {name for line in lines for name in _REGISTER.findall(line)}
    types: dict[str, list[str]] = {}
    for line in declared:
        for type_, names in _DECLARED.findall(line):
            for name in names.split(", "):
                prefix, numbered, _ = name.partition("<")
                ends = [one[len(prefix) :] for one in used if one.startswith(prefix)]
                numbers = [int(end) for end in ends if end.isdecimal()]
                if numbered and numbers:
                    types.setdefault(type_, []).append(f"{prefix}<{max(numbers) + 1}>")
                elif not numbered and name in used:
                    types.setdefault(type_, []).append(name)
    for type_, names in types.items():
        yield f"    .reg .{type_} {', '.join(names)};"


class _Line(NamedTuple):
    """A line of a kernel: an instruction, or a label with no opcode."""

    text: str
    guard: str = ""
    opcode: str = ""
    operands: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> _Line:
        found = _INSTRUCTION.fullmatch(text)
        if found is None:
            return cls(text)
        guard, opcode, rest = found.groups()
        # Commas divide them; what is inside of braces and brackets stays together.
        operands = re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|[^,{\[])+", rest)
        return cls(text, guard or "", opcode, tuple(one.strip() for one in operands))

    def having(self, opcode: str, *operands: str) -> _Line:
        guard = f"{self.guard} " if self.guard else ""
        return _Line.of(f"    {guard}{opcode} {', '.join(operands)};")

    @property
    def writes(self) -> tuple[str, ...]:
        """Registers that it writes, in the order of the operand; a store's first is an address."""
        if not self.operands or self.operands[0][0] == "[" or self.opcode.startswith(_NO_RESULT):
            return ()
        return tuple(_REGISTER.findall(self.operands[0]))

    @property
    def reads(self) -> tuple[str, ...]:
        read = self.operands[1 if self.writes else 0 :]
        return tuple(_REGISTER.findall(" ".join((self.guard, *read))))

    def renamed(self, names: dict[str, str]) -> _Line:
        """Return it with other registers in what it reads."""
        first = 1 if self.writes else 0
        if not {*self.reads} & names.keys():
            return self

        def other(text: str) -> str:
            return _REGISTER.sub(lambda one: names.get(one[0], one[0]), text)

        kept, changed = self.operands[:first], map(other, self.operands[first:])
        return self._replace(guard=other(self.guard)).having(self.opcode, *kept, *changed)


def _without_frame(code: list[_Line]) -> list[_Line]:
    """Take away copies, parts of addresses and what nothing reads, until nothing is left to take.

    Each step keeps what the kernel stores.
    """
    while (smaller := _dead(_addresses(_copies(code)))) != code:
        code = smaller
    return code


def _dead(code: list[_Line]) -> list[_Line]:
    """Leave out what writes registers that no other line reads, and narrow loads to the others."""
    readers = Counter(name for line in code for name in {*line.reads})
    kept = []
    for index, line in enumerate(code):
        read = {name for name in line.writes if readers[name] > (name in line.reads)}
        removable = line.writes and _CARRY.search(line.opcode) is None
        if not removable or any(not _overwritten(name, code, index) for name in read):
            kept.append(_narrowed(line, read))
    return kept


def _overwritten(name: str, code: list[_Line], index: int) -> bool:
    """Whether a register that a line writes is always written again before anything reads it."""
    for line in code[index + 1 :]:
        if name in line.reads or not line.opcode or line.opcode in ("bra", "ret"):
            return False
        if name in line.writes and not line.guard:
            return True
    return False


def _narrowed(line: _Line, read: set[str]) -> _Line:
    """Return a vector load with no more elements than it takes to load those that are read."""
    found = _VECTOR_LOAD.fullmatch(line.opcode)
    at = _ADDRESS.fullmatch(line.operands[1]) if found else None
    if found is None or at is None:
        return line
    places = [index for index, name in enumerate(line.writes) if name in read]
    for count in (1, 2):
        start = places[0] // count * count
        if places[-1] < start + count < int(found[2]) + count and count < int(found[2]):
            offset = int(at[2] or 0) + start * int(found[3]) // 8
            names = line.writes[start : start + count]
            opcode = f"{found[1]}.b{found[3]}" if count == 1 else f"{found[1]}.v2.b{found[3]}"
            vector = names[0] if count == 1 else braced(names)
            return line.having(opcode, vector, displaced(at[1], offset))
    return line


def _written(code: list[_Line]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for index, line in enumerate(code):
        for name in line.writes:
            places.setdefault(name, []).append(index)
    return places


def _copies(code: list[_Line]) -> list[_Line]:
    """Read the source of a copy where the copy is read, if neither is written again."""
    written, names = _written(code), dict[str, str]()
    labels = {line.text.strip().removesuffix(":"): at for at, line in enumerate(code)
              if not line.opcode}  # fmt: skip
    loops = [(labels[line.operands[0]], at) for at, line in enumerate(code)
             if line.opcode == "bra" and labels[line.operands[0]] < at]  # fmt: skip
    for index, line in enumerate(code):
        if line.opcode in _COPIES and not line.guard and line.operands[1] in written:
            copy, source = line.operands
            # Nothing writes the source behind the copy, or in a loop around it.
            kept = all(
                place < index and not any(first <= place and index <= last for first, last in loops)
                for place in written[source]
            )
            if written.get(copy) == [index] and kept:
                names[copy] = names.get(source, source)
    return [line.renamed(names) for line in code]


def _addresses(code: list[_Line]) -> list[_Line]:
    """Move constants of addresses into brackets, and write lane * width + base as one mad."""
    once = {name for name, places in _written(code).items() if len(places) == 1}
    reads = Counter(name for line in code for name in line.reads)
    sums: dict[str, tuple[str, int]] = {}
    products: dict[str, _Line] = {}
    for line in code:
        if line.opcode == "add.s64" and line.operands[0] in once:
            total, base, addend = line.operands
            if addend.lstrip("-").isdecimal() and base in once:
                sums[total] = base, int(addend)
        elif line.opcode == "mul.wide.u32" and reads[line.operands[0]] == 1:
            products[line.operands[0]] = line

    def folded(at: re.Match[str]) -> str:
        if at[1] not in sums:
            return at[0]
        base, constant = sums[at[1]]
        return displaced(base, int(at[2] or 0) + constant)

    changed: list[_Line] = []
    for line in code:
        if line.opcode == "add.s64" and line.operands[2] in products:
            total, base, product = line.operands
            lane, width = products[product].operands[1:]
            if base in sums and reads[base] == 1:
                # The constant is added last, where a bracket can take it.
                first, constant = sums[base]
                changed.append(line.having("mad.wide.u32", product, lane, width, first))
                changed.append(line.having("add.s64", total, product, str(constant)))
            else:
                changed.append(line.having("mad.wide.u32", total, lane, width, base))
            continue
        operands = [_ADDRESS.sub(folded, one) for one in line.operands]
        same = [*line.operands] == operands
        changed.append(line if same else line.having(line.opcode, *operands))
    return changed
