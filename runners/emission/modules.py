"""Modules: the header, and a kernel for each program, or the smallest kernel of one.

`emit` writes a kernel that many warps run on many images and that records their multiprocessors.
Whoever reads a finding needs none of that: `emit_single` writes one warp, one pointer to one image.
It has addresses of one sum each; the rest of what can go is for `fuzz.reducer` to take away.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from oracle.errors import UsageError
from oracle.isa.forms import LANES
from oracle.isa.targets import Module
from oracle.program.program import Program
from runners.emission.body import Body, displaced
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
_ADDRESS = re.compile(r"\[(%\w+)(?:\+(-?\d+))?\]")
_NO_RESULT = ("bra", "bar.")


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
        "    setp.eq.and.u32 %record, %lane, 0, %record;",
        "    mul.wide.u32 %position, %warp, 4;",
        "    add.u64 %sms, %sms, %position;",
        "    cvta.to.global.u64 %sms, %sms;",
        "    mov.u32 %sm, %smid;",
        "    @%record st.global.u32 [%sms], %sm;",
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
    while (smaller := _addresses(code)) != code:
        code = smaller
    return "\n".join([
        f".visible .entry {kernel.entry}(.param .u64 image)",
        "{",
        *declared,
        *(line.text for line in code),
        "    ret;", "}", "",
    ])  # fmt: skip


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


def _addresses(code: list[KernelLine]) -> list[KernelLine]:
    """Move constants of addresses into brackets, and write lane * width + base as one mad."""
    writes = Counter(name for line in code for name in line.writes)
    reads = Counter(name for line in code for name in line.reads)
    added = {line.operands[2] for line in code if line.opcode == "add.s64"}
    sums: dict[str, tuple[str, int]] = {}
    products: dict[str, tuple[str, ...]] = {}
    for line in code:
        if line.opcode == "add.s64" and writes[line.operands[0]] == 1:
            total, base, addend = line.operands
            if addend.lstrip("-").isdecimal() and writes[base] == 1:
                sums[total] = base, int(addend)
        elif line.opcode == "mul.wide.u32" and line.operands[0] in added:
            product, *factors = line.operands
            if writes[product] == reads[product] == 1:
                products[product] = tuple(factors)

    def folded(at: re.Match[str]) -> str:
        if at[1] not in sums:
            return at[0]
        base, constant = sums[at[1]]
        return displaced(base, int(at[2] or 0) + constant)

    changed: list[KernelLine] = []
    for line in code:
        if line.opcode == "mul.wide.u32" and line.operands[0] in products:
            continue
        if line.opcode == "add.s64" and line.operands[2] in products:
            total, base, product = line.operands
            if base in sums and reads[base] == 1:
                # The constant is added last, where a bracket can take it.
                base, constant = sums[base]
                changed.append(line.having("mad.wide.u32", product, *products[product], base))
                changed.append(line.having("add.s64", total, product, str(constant)))
            else:
                changed.append(line.having("mad.wide.u32", total, *products[product], base))
            continue
        operands = [_ADDRESS.sub(folded, one) for one in line.operands]
        same = [*line.operands] == operands
        changed.append(line if same else line.having(line.opcode, *operands))
    return changed
