"""Whether a device and `oracle.mma_sync` and `oracle.mma_sp` agree: every form, every selector.

Registers are of any bits, near one, of any finite size, and such that products cancel; C of
integers lies near the ends of 32 bits. Metadata are any, also such as the ISA leaves undefined.
Prints a line for each form, selector and kind that differs, and one JSON object. Ends with 1 if
anything differs. Usage:

    python benchmarks/lanes_agreement.py [--runner sim|cuda] [--count IMAGES] [--only PATTERN]
        [--assembler VERSION] [--seed N]
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import oracle
from fuzz.runner import RunnerChoice, open_runner
from oracle.isa.forms import LANES, Form, Format
from oracle.isa.lookup import FORMS, is_available, selectors_of
from oracle.isa.targets import Module
from oracle.program.program import Program
from oracle.program.steps import Op
from runners.compilers import find_assembler
from runners.emission import emit_all
from runners.protocol import Failure
from strategies.matrices import single_program

MODULE = Module.named("sm_90", "8.7")
KINDS = ("any bits", "near one", "wide", "cancelling")
_TOGETHER = 20
"""Kernels of one module."""

Words = np.ndarray[Any, np.dtype[np.uint32]]
"""Registers, (count, 32, words), or metadata, (count, 32)."""


def any_bits(rng: np.random.Generator, *shape: int) -> Words:
    """Return words of any bits."""
    return rng.integers(0, 1 << 32, shape, np.uint32)


def windowed(rng: np.random.Generator, words: Words, fmt: Format, width: int) -> None:
    """Put the exponents of floats so far around that of one, or as far as they go."""
    elements = words.view(f"u{fmt.bits // 8}")
    kind, shift = elements.dtype.type, fmt.bits - 1 - fmt.exponent_bits
    width = min(width, fmt.bias)
    fields = rng.integers(fmt.bias - width, fmt.bias + width + 1, elements.shape)
    elements &= ~kind((1 << fmt.exponent_bits) - 1 << shift)
    elements |= fields.astype(elements.dtype) << kind(shift)


def opposed(rng: np.random.Generator, a: Words, b: Words, form: Form) -> None:
    """Give elements of A the opposite of a neighbour, and those of B the same, or nearly."""
    for words, type_, sign in ((a, form.a_type, True), (b, form.b_type, False)):
        elements = words.view(f"u{type_.bits // 8}")
        half = elements.shape[-1] // 2
        one = slice(0, None, 2) if type_.bits < 32 else slice(0, half)
        other = slice(1, None, 2) if type_.bits < 32 else slice(half, 2 * half)
        change = np.uint64(1 << type_.bits - 1) if sign else rng.random(b.shape[:1]) < 0.25
        change = np.reshape(change, (-1, 1, 1)).astype(elements.dtype)
        elements[..., other] = elements[..., one] ^ change


def operands(form: Form, kind: str, count: int, seed: int) -> dict[str, Words]:
    """Return registers of A, B and C, and metadata."""
    rng = np.random.default_rng(seed)
    found = {name: any_bits(rng, count, LANES, form.words(name)) for name in "abc"}
    if kind == "any bits":
        pass
    elif form.a_type.is_float:
        for name in "abc":
            windowed(rng, found[name], form.type(name), 2 if kind != "wide" else 1 << 12)
        if kind == "cancelling":
            opposed(rng, found["a"], found["b"], form)
            windowed(rng, found["c"], form.c_type, 20)
            found["c"][::2] = 0
    else:
        near = found["c"] & np.uint32(0xFFFF)
        found["c"] = np.where(found["c"] >> 31, 0x7FFF_FFFF - near, 0x8000_0000 + near)
        found["c"] = found["c"].astype(np.uint32)
    return found | {"e": any_bits(rng, count, LANES)}


def program_of(form: Form, selector: int | None) -> Program:
    """Return loads of all operands, the instruction, and the store of D."""
    constants = {} if selector is None else {"selector": selector}
    return single_program(Op.of(form, **{name: name for name in form.vectors}, **constants))


def images_of(program: Program, words: dict[str, Words]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the images that hold operands."""
    count = len(words["a"])
    images = np.zeros((count, program.image_bytes), np.uint8)
    for buffer in program.buffers:
        if buffer.name != "d":
            held = words[buffer.name].reshape(count, -1).view(np.uint8)
            at = program.offset(buffer.name)
            images[:, at : at + held.shape[1]] = held
    return images


def expected(form: Form, selector: int | None, words: dict[str, Words]) -> Words:
    """Return D as the oracle has it."""
    a, b, c = (words[name] for name in "abc")
    if selector is None:
        return oracle.mma_sync(form.opcode, a, b, c)
    return oracle.mma_sp(form.opcode, a, b, c, words["e"], selector)


def main() -> int:
    """Compare all forms."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runner", choices=("sim", "cuda"), default="sim")
    parser.add_argument("--count", type=int, default=16, help="images of each kind")
    parser.add_argument("--only", default="*", help="opcodes, such as 'mma.sp*'")
    parser.add_argument("--assembler", help="a version of ptxas; without it the driver compiles")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    assembler = None if given.assembler is None else find_assembler(given.assembler)
    choice = RunnerChoice(name=given.runner, target="sm_90", assembler=assembler)
    forms = [
        form for form in FORMS
        if form.is_product and not form.opaque and is_available(form, MODULE)
        and fnmatch.fnmatch(form.opcode, given.only)
    ]  # fmt: skip
    cases = [(form, one) for form in forms for one in selectors_of(form) or (None,)]
    start, images, differing = time.monotonic(), 0, 0
    with open_runner(choice).runner as runner:
        for first in range(0, len(cases), _TOGETHER):
            part = cases[first : first + _TOGETHER]
            programs = {f"case_{number}": program_of(*one) for number, one in enumerate(part)}
            compiled = runner.compile(emit_all(programs, module=MODULE))
            if isinstance(compiled, Failure):
                raise SystemExit(f"not compiled: {compiled} {compiled.detail}")
            for (form, selector), (entry, program), kind in (
                (*one, kind) for one in zip(part, programs.items(), strict=True) for kind in KINDS
            ):
                words = operands(form, kind, given.count, given.seed)
                ran = runner.run(compiled, images_of(program, words), entry=entry)
                if isinstance(ran, Failure):
                    raise SystemExit(f"{form.opcode}: {ran} {ran.detail}")
                at, size = program.offset("d"), 4 * LANES * form.words("d")
                found = np.ascontiguousarray(ran.images[:, at : at + size]).view(np.uint32)
                wanted = expected(form, selector, words)
                wrong = (found.reshape(wanted.shape) != wanted).any(axis=(1, 2))
                images, differing = images + given.count, differing + int(wrong.sum())
                if wrong.any():
                    print(f"{form.opcode}, selector {selector}, {kind}: {wrong.sum()} differ")
    counts = {"cases": len(cases), "images": images, "differing": differing}
    print(json.dumps(counts | {"seconds": round(time.monotonic() - start, 1)}))
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
