"""How fast instructions are judged with a ptxas: `python benchmarks/judging_speed.py [PTXAS]`.

Prints instructions per second on one core, beside one process for each instruction in the same
run, and the ratio between the two:

rejected      near-legal instructions that all have an ordinary error
legal         documented forms, each text once
mix, fresh    one third of them legal, drawn with repeats, the texts not seen before the run
mix, later    the next draw of the same: what a campaign sees after its first seconds
with crashes  the rejected ones, with instructions among them that crash some assemblers
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter

from oracle.isa.forms import Form, Matrix
from oracle.isa.lookup import FORMS
from runners.assemblers.judgements import Judgement, Response, minimal_module
from runners.assemblers.judging import ToolJudge, judge_module
from runners.compilers import find_assembler

TARGET, VERSION = "sm_90", "8.0"
PREFIXES = {"b32": "r", "s32": "r", "f32": "f", "f64": "d"}
QUALIFIERS = [
    "sync", "row", "col", "global", "f16", "f32", "s8", "u8", "b1", "satfinite", "rn", "trans",
    "m8n8", "m16n16k8", "m8n8k4",
]  # fmt: skip
# Documented for no type but integers; ptxas 12.8 and 13.5 crash on it (2026-11).
CRASHING = [
    f"wmma.mma.sync.aligned.{layouts}.{shape}.f16.f16{end} {{%r0, %r1, %r2, %r3}}, "
    "{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, "
    "{%r0, %r1, %r2, %r3};"
    for layouts in ("row.col", "row.row")
    for shape in ("m8n8k32", "m8n8k128")
    for end in ("", ".satfinite")
]


def vector(matrix: Matrix) -> str:
    """Return the registers of a fragment, of a prefix that fits."""
    prefix = PREFIXES[matrix.register_type]
    return "{" + ", ".join(f"%{prefix}{i}" for i in range(matrix.registers)) + "}"


def operands(form: Form, rng: random.Random) -> str:
    """Return operands that fit the form."""
    stride = rng.choice(["", ", 64", ", %stride"])
    if form.mnemonic == "wmma.load":
        return f"{vector(form.matrix())}, [%addr]{stride}"
    if form.mnemonic == "wmma.store":
        return f"[%addr], {vector(form.matrix())}{stride}"
    if form.mnemonic == "wmma.mma":
        return ", ".join(vector(form.matrix(matrix)) for matrix in "dabc")
    return "{" + ", ".join(f"%r{i}" for i in range(form.registers)) + "}, [%addr]"


def is_there(form: Form) -> bool:
    """Whether the target and version have the form."""
    if form.mnemonic == "ldmatrix":
        return form.shape.n == 8
    return not (form.mnemonic == "wmma.mma" and form.satfinite and form.a_type.name == "f16")


LEGAL = [form for form in FORMS if is_there(form)]


def legal(rng: random.Random) -> str:
    """Draw a legal instruction."""
    form = rng.choice(LEGAL)
    return f"{form.opcode} {operands(form, rng)};"


def near_legal(rng: random.Random) -> str:
    """Draw an instruction with some qualifiers changed."""
    form = rng.choice(FORMS)
    words = form.opcode.split(".")
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(1, len(words) - 1)
        words[at] = rng.choice([words[at - 1], *QUALIFIERS])
    return f"{'.'.join(words)} {operands(form, rng)};"


def report(name: str, judge: ToolJudge, texts: list[str], alone: float) -> list[Judgement]:
    """Judge, and print what it took."""
    processes = judge.processes
    start = time.perf_counter()
    judged = judge.judge(texts)
    rate = len(texts) / (time.perf_counter() - start)
    kinds = Counter(one.outcome.name.lower() for one in judged)
    print(
        f"{name:13} {rate:8.0f}/s  {rate / alone:6.0f} times one by one  "
        f"{judge.processes - processes:4} processes  {dict(kinds)}"
    )
    return judged


def main() -> None:
    """Run all."""
    assembler = find_assembler(sys.argv[1] if len(sys.argv) > 1 else None)
    rng = random.Random(0)

    def judge() -> ToolJudge:
        return ToolJudge(assembler, target=TARGET, version=VERSION)

    start = time.perf_counter()
    for _ in range(50):
        judge_module(assembler, minimal_module(legal(rng), target=TARGET, version=VERSION))
    alone = 50 / (time.perf_counter() - start)
    print(f"{assembler}, {TARGET}, .version {VERSION}\none by one    {alone:8.0f}/s")

    near = [near_legal(rng) for _ in range(60_000)]
    judged = judge().judge(near)
    pairs = zip(near, judged, strict=True)
    rejected = [text for text, one in pairs if one.outcome is Response.REJECTED]
    report("rejected", judge(), rejected, alone)
    forms = [f"{form.opcode} {operands(form, rng)};" for form in LEGAL]
    report("legal", judge(), forms, alone)

    def mix(size: int) -> list[str]:
        drawn = (legal(rng) if rng.random() < 1 / 3 else near_legal(rng) for _ in range(size))
        return list(drawn)

    mixed = judge()
    report("mix, fresh", mixed, mix(40_000), alone)
    report("mix, later", mixed, mix(40_000), alone)
    rng.shuffle(crashing := [*rejected, *CRASHING])
    report("with crashes", judge(), crashing, alone)


if __name__ == "__main__":
    main()
