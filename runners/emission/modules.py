"""Modules: the header, and a kernel for each program, or the smallest kernel of one.

`emit` writes a kernel that many warps run on many images and that records their multiprocessors.
Whoever reads a finding needs none of that: `emit_single` writes one warp, one pointer to one image.
It leaves out what only the frame needs: copies of registers, parts of addresses, unread results.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from oracle.errors import UsageError
from oracle.isa.forms import LANES
from oracle.isa.targets import Module
from oracle.program.program import Program
from runners.emission.body import Body, braced, displaced
from runners.emission.warpgroups import MEMORY, group_kernel, group_text
from runners.kernels import MAX_WARPS_PER_BLOCK, Kernel, KernelModule, Launch
from runners.ptx_text import opening

STATIC_SHARED_BYTES = 48 << 10
"""Most statically declared shared memory of a block, in bytes, on every target (CUDA C++
Programming Guide, Technical Specifications per Compute Capability)."""
_IDENTIFIER = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")
""""[a-zA-Z][a-zA-Z0-9_$]*" (PTX ISA 4.4, Identifiers), less the dollar sign."""
_REGISTER = re.compile(r"%\w+")
_INSTRUCTION = re.compile(r"\s*(?:(@!?%\w+)\s+)?([a-z][\w.:]*)\s*(.*);")
_DECLARED = re.compile(r"\s*\.reg \.(\w+) ([^;]+);")
_VECTOR_LOAD = re.compile(r"(ld\.\w+)\.v([24])\.b(\d+)")
_ADDRESS = re.compile(r"\[(%\w+)(?:\+(-?\d+))?\]")
_NO_RESULT = ("bra", "bar.")
_COPIES = ("mov.b16", "mov.b32", "mov.b64", "mov.pred")
_CARRY = re.compile(r"\.cc\b|^(?:addc|subc|madc)\b")
"""Instructions that write or read the carry flag, which no operand names (PTX ISA 9.0, 9.7.2)."""


def emit(program: Program, *, module: Module | None = None, entry: str = "kernel") -> KernelModule:
    """Turn a program, legal or not, into a PTX module of one kernel, for `Module.named()` if None.

    Raises UsageError if the entry's name is no PTX identifier, a buffer is accessed through another
    state space than it lies in, or one warp needs more shared memory than a block has.
    """
    return emit_all({entry: program}, module=module)


def emit_all(programs: Mapping[str, Program], *, module: Module | None = None) -> KernelModule:
    """Turn programs into a module with a kernel for each, by their names; UsageError as `emit`."""
    return module_of(programs, _kernel, _text, module)


def emit_single(
    program: Program, *, module: Module | None = None, entry: str = "kernel"
) -> KernelModule:
    """Turn a program into a module of one kernel, which one warp runs on `.param .u64 image`."""
    return module_of({entry: program}, _single_kernel, _single_text, module)


K = TypeVar("K", bound=Kernel)


def module_of(
    programs: Mapping[str, Program], kernel_of: Callable[[Program, str], K],
    text_of: Callable[[Program, K, bool], str], module: Module | None,
) -> KernelModule:  # fmt: skip
    """Return a module with a kernel for each program; UsageError if a name is no identifier.

    `kernel_of` makes a program's kernel under a name, `text_of` its text, with `.aligned` or not.
    """
    if not programs:
        raise UsageError("a module needs at least one program, and none was given")
    module = module or Module.named()
    target, version = module.target.name, str(module.version)
    # ".aligned is required from 6.3 onwards, and considered implicit" before (9.7.14.4.3);
    # ptxas 11.7 to 13.5 reject it in a module of an earlier version.
    aligned = module.version >= (6, 3)
    texts, kernels = [opening(target, version)], list[K]()
    if any(program.warps > 1 for program in programs.values()):
        texts.append(f"{MEMORY}\n")
    for entry, program in programs.items():
        if not _IDENTIFIER.fullmatch(entry):
            raise UsageError(
                f"{entry!r} cannot name a kernel: a name is a letter followed by letters, digits "
                "and underscores"
            )
        kernels.append(kernel := kernel_of(program, entry))
        texts.append(text_of(program, kernel, aligned))
    return KernelModule(
        ptx="\n".join(texts), target=target, version=version, kernels=tuple(kernels),
        programs=dict(programs),
    )  # fmt: skip


def warps_of_block(program: Program, entry: str) -> int:
    """Return the most warps of a block by their shared memory; UsageError if one needs too much."""
    room = STATIC_SHARED_BYTES // max(1, program.shared_bytes)
    if not room:
        raise UsageError(
            f"one warp of {entry} needs {program.shared_bytes} bytes of shared memory; a block "
            f"has at most {STATIC_SHARED_BYTES}, so make the shared buffers smaller"
        )
    return min(MAX_WARPS_PER_BLOCK, room)


# Kernels of many images


def _kernel(program: Program, entry: str) -> Kernel:
    if program.warps > 1:
        return group_kernel(program, entry)
    warps, shared = warps_of_block(program, entry), program.shared_bytes
    size = program.image_bytes
    return Kernel(entry=entry, image_bytes=size, warps_per_block=warps, shared_bytes=shared)


def _text(program: Program, kernel: Kernel, aligned: bool) -> str:
    if program.warps > 1:
        return group_text(program, kernel)
    body = Body(program, aligned)
    body.write(program.steps)
    lines = [
        f"// {kernel.entry}: one warp per image of {kernel.image_bytes} bytes",
        *(
            f"//   {buffer.name}: {buffer.size} bytes of {buffer.space} memory at "
            f"{program.offset(buffer.name)}"
            for buffer in program.buffers
        ),
        f".visible .entry {kernel.entry}(",
        "    .param .u64 images,",
        "    .param .u64 sms,",
        "    .param .u32 count",
        ")",
        "{",
        "    .reg .b32 %warp, %warps, %in_block, %lane, %count, %sm;",
        "    .reg .b64 %image_generic, %image, %sms, %position;",
        "    .reg .pred %done, %record;",
        *body.declarations(kernel, "%shared, %shared_generic, %slice"),
        "", *_prologue(kernel, body), "", *body.lines, "END:", "    ret;", "}", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _prologue(kernel: Kernel, body: Body) -> list[str]:
    """Return what comes before the first step: which image, where it lies, on which SM."""
    lines = [
        "    // warp = ctaid.x * (ntid.x / 32) + tid.x / 32: the number of its image",
        "    mov.u32 %warps, %ntid.x;",
        "    shr.u32 %warps, %warps, 5;",
        "    mov.u32 %in_block, %tid.x;",
        "    shr.u32 %in_block, %in_block, 5;",
        "    mov.u32 %warp, %ctaid.x;",
        "    mad.lo.u32 %warp, %warp, %warps, %in_block;",
        "    ld.param.u32 %count, [count];",
        "    setp.ge.u32 %done, %warp, %count;",
        "    @%done bra END;",
        "    mov.u32 %lane, %laneid;",
        "    ld.param.u64 %image_generic, [images];",
        *body.zero(),
        f"    mul.wide.u32 %image, %warp, {kernel.image_bytes};",
        "    add.u64 %image_generic, %image_generic, %image;",
        "    cvta.to.global.u64 %image, %image_generic;",
    ]
    if kernel.shared_bytes:
        lines += [
            "    // this warp's slice of the block's shared memory",
            "    mov.u64 %shared, shared_memory;",
            f"    mul.wide.u32 %slice, %in_block, {kernel.shared_bytes};",
            "    add.u64 %shared, %shared, %slice;",
            "    cvta.shared.u64 %shared_generic, %shared;",
        ]
    lines += [
        "    // lane 0 records the multiprocessor, where the launcher wants to know it",
        "    ld.param.u64 %sms, [sms];",
        "    setp.ne.u64 %record, %sms, 0;",
        "    @!%record bra START;",
        "    mul.wide.u32 %position, %warp, 4;",
        "    add.u64 %sms, %sms, %position;",
        "    cvta.to.global.u64 %sms, %sms;",
        "    setp.eq.u32 %record, %lane, 0;",
        "    mov.u32 %sm, %smid;",
        "    @%record st.global.u32 [%sms], %sm;",
        "START:",
    ]
    return lines


# The smallest kernel


def _single_kernel(program: Program, entry: str) -> Kernel:
    if program.warps > 1:
        return group_kernel(program, entry)
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


def _single_text(program: Program, kernel: Kernel, aligned: bool) -> str:
    if program.warps > 1:
        return group_text(program, kernel)
    body = Body(program, aligned)
    body.write(program.steps)
    declared = [
        "    .reg .b64 %image_generic, %image;",
        "    .reg .b32 %lane;",
        *body.declarations(kernel, "%shared, %shared_generic"),
    ]
    prologue = [
        "    mov.u32 %lane, %laneid;",
        "    ld.param.u64 %image_generic, [image];",
        *body.zero(),
        "    cvta.to.global.u64 %image, %image_generic;",
    ]
    if kernel.shared_bytes:
        prologue += [
            "    mov.u64 %shared, shared_memory;",
            "    cvta.shared.u64 %shared_generic, %shared;",
        ]
    text = [line for line in (*prologue, *body.lines) if not line.lstrip().startswith("//")]
    code = [*map(KernelLine.of, text)]
    # Each step keeps what the kernel stores.
    while (smaller := _dead(_addresses(_copies(code)))) != code:
        code = smaller
    lines = [line.text for line in code]
    return "\n".join([
        f".visible .entry {kernel.entry}(.param .u64 image)",
        "{",
        *(line for line in declared if ".shared" in line),
        *_declarations(declared, lines),
        *lines,
        "    ret;", "}", "",
    ])  # fmt: skip


def _declarations(declared: Iterable[str], lines: Iterable[str]) -> Iterator[str]:
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


class KernelLine(NamedTuple):
    """A line of a kernel: an instruction, or a label with no opcode."""

    text: str
    guard: str = ""
    opcode: str = ""
    operands: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> KernelLine:
        """Take a line of PTX apart."""
        found = _INSTRUCTION.fullmatch(text)
        if found is None:
            return cls(text)
        guard, opcode, rest = found.groups()
        # Commas divide them; what is inside of braces and brackets stays together.
        operands = re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|[^,{\[])+", rest)
        return cls(text, guard or "", opcode, tuple(one.strip() for one in operands))

    def having(self, opcode: str, *operands: str) -> KernelLine:
        """Return another instruction under the same guard."""
        guard = f"{self.guard} " if self.guard else ""
        return KernelLine.of(f"    {guard}{opcode} {', '.join(operands)};")

    @property
    def writes(self) -> tuple[str, ...]:
        """Registers that it writes, in the order of the operand; a store's first is an address."""
        if not self.operands or self.operands[0][0] == "[" or self.opcode.startswith(_NO_RESULT):
            return ()
        return tuple(_REGISTER.findall(self.operands[0]))

    @property
    def reads(self) -> tuple[str, ...]:
        """Registers that it reads, its guard's first."""
        read = self.operands[1 if self.writes else 0 :]
        return tuple(_REGISTER.findall(" ".join((self.guard, *read))))

    def renamed(self, names: dict[str, str]) -> KernelLine:
        """Return it with other registers in what it reads."""
        first = 1 if self.writes else 0
        if not {*self.reads} & names.keys():
            return self

        def other(text: str) -> str:
            return _REGISTER.sub(lambda one: names.get(one[0], one[0]), text)

        kept, changed = self.operands[:first], map(other, self.operands[first:])
        return self._replace(guard=other(self.guard)).having(self.opcode, *kept, *changed)


def _dead(code: list[KernelLine]) -> list[KernelLine]:
    """Leave out what writes registers that no other line reads, and narrow loads to the others."""
    readers = Counter(name for line in code for name in {*line.reads})
    kept = []
    for index, line in enumerate(code):
        read = {name for name in line.writes if readers[name] > (name in line.reads)}
        removable = line.writes and _CARRY.search(line.opcode) is None
        if not removable or any(not _overwritten(name, code, index) for name in read):
            kept.append(_narrowed(line, read))
    return kept


def _overwritten(name: str, code: list[KernelLine], index: int) -> bool:
    """Whether a register that a line writes is always written again before anything reads it."""
    for line in code[index + 1 :]:
        if name in line.reads or not line.opcode or line.opcode in ("bra", "ret"):
            return False
        if name in line.writes and not line.guard:
            return True
    return False


def _narrowed(line: KernelLine, read: set[str]) -> KernelLine:
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


def _written(code: list[KernelLine]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for index, line in enumerate(code):
        for name in line.writes:
            places.setdefault(name, []).append(index)
    return places


def _copies(code: list[KernelLine]) -> list[KernelLine]:
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


def _addresses(code: list[KernelLine]) -> list[KernelLine]:
    """Move constants of addresses into brackets, and write lane * width + base as one mad."""
    once = {name for name, places in _written(code).items() if len(places) == 1}
    reads = Counter(name for line in code for name in line.reads)
    sums: dict[str, tuple[str, int]] = {}
    products: dict[str, KernelLine] = {}
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

    changed: list[KernelLine] = []
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
