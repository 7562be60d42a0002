"""Programs of one mma.sync each, reached through plain loads and through ldmatrix."""

from __future__ import annotations

from dataclasses import replace

from oracle.isa.forms import Form
from oracle.isa.lookup import FORMS, form_of
from oracle.program.operands import Buffer, Place, Registers
from oracle.program.operations import pack_registers
from oracle.program.program import Program
from oracle.program.steps import (
    Barrier,
    Copy,
    Op,
    Step,
    memory_of,
    plain_load,
    plain_store,
    product_of,
)
from strategies.matrices import buffers_of, plain_access, single_instruction, span_of

MOVE = next(form for form in FORMS if memory_of(form) is None and not form.is_product)
ROWS = tuple(range(0, 512, 16))


def plain(form: Form, *, over: str = "d", offset: int = 16) -> Program:
    """Load A, B and C by lane, multiply into `over`, store."""
    multiply = Op.of(form=form, d=over, a="a", b="b", c="c")
    steps = tuple(
        step if step == multiply else step.changed(place=replace(step.place, offset=offset))
        for step in single_instruction(multiply)
    )
    return Program(buffers=buffers_of(steps, lambda step: span_of(step).end + 16), steps=steps)


def rows(mnemonic: str, number: int, *, transposed: bool) -> Form:
    turned = ".trans" if transposed else ""
    return form_of(f"{mnemonic}.sync.aligned.m8n8.x{number}{turned}.shared.b16")


def through_shared(form: Form, *, transposed: bool) -> Program:
    """Load rows of A and B where they fit, pack and turn D, store its rows."""
    buffers, fills, loads = [], [], list[Step]()
    product = product_of(form).changed(d="c")
    for use in product.reads:
        operand, has = use.field, use.holds
        assert isinstance(has, Registers)
        size = max(1024, 128 * has.words)
        buffers.append(Buffer(name=operand, space="global", size=size))
        if has.bits == 32 and has.registers <= 4 and operand != "c":
            shared = f"s{operand}"
            buffers.append(Buffer(name=shared, space="shared", size=1024))
            fills.append(
                Copy(source=Place(buffer=operand), destination=Place(buffer=shared), size=1024)
            )
            load = rows("ldmatrix", has.registers, transposed=transposed)
            loads.append(Op.of(form=load, registers=operand, buffer=shared, addresses=ROWS))
        else:
            loads.append(plain_access(use, Place(buffer=operand)))
    has = Registers.of(form.vectors["d"])
    steps: list[Step] = [*fills, Barrier(), *loads, product]
    if has.bits == 64:
        buffers.append(Buffer(name="d", space="global", size=128 * has.words))
        store = plain_store(registers="c", count=has.registers, bits=64, place=Place(buffer="d"))
        return Program(buffers=tuple(buffers), steps=(*steps, store))
    count = has.registers
    if form.d_type.name == "f32":
        steps.append(pack_registers(type="f16", source="c", destination="c", count=count))
        count //= 2
    steps.append(Op.of(form=MOVE, source="c", destination="t", count=count))
    buffers += [
        Buffer(name="so", space="shared", size=512), Buffer(name="o", space="global", size=512),
    ]  # fmt: skip
    empty = Copy(source=Place(buffer="o"), destination=Place(buffer="so"), size=512)
    turned = Op.of(
        form=rows("stmatrix", count, transposed=transposed), registers="t", buffer="so",
        addresses=ROWS[::-1],
    )  # fmt: skip
    back = Copy(source=Place(buffer="so"), destination=Place(buffer="o"), size=512)
    return Program(buffers=tuple(buffers), steps=(empty, *steps, turned, Barrier(), back))


def moves(count: int) -> Program:
    """Load registers, turn them, store their rows, both ways; pack pairs."""
    size = 512
    buffers = [Buffer(name="i", space="global", size=2 * size)]
    steps: list[Step] = [
        plain_load(registers="r", count=count, place=Place(buffer="i")),
        plain_load(registers="w", count=4, place=Place(buffer="i", offset=size)),
        Op.of(form=MOVE, source="r", destination="t", count=count),
        pack_registers(type="f16", source="w", destination="p", count=4),
        pack_registers(type="bf16", source="w", destination="q", count=4),
    ]
    for name in "pqt":
        has = count if name == "t" else 2
        buffers.append(Buffer(name=f"o{name}", space="global", size=size))
        steps.append(plain_store(registers=name, count=has, place=Place(buffer=f"o{name}")))
    for transposed in (False, True):
        shared, back = f"s{transposed:d}", f"b{transposed:d}"
        buffers += [
            Buffer(name=shared, space="shared", size=size),
            Buffer(name=back, space="global", size=size),
        ]
        steps += [
            Copy(source=Place(buffer=back), destination=Place(buffer=shared), size=size),
            Barrier(),
            Op.of(
                form=rows("stmatrix", count, transposed=transposed), registers="r", buffer=shared,
                addresses=ROWS[::-1],
            ),
            Barrier(),
            Copy(source=Place(buffer=shared), destination=Place(buffer=back), size=size),
        ]  # fmt: skip
    return Program(buffers=tuple(buffers), steps=tuple(steps))


def programs(form: Form) -> dict[str, Program]:
    """Return the programs of a form by the names of their kernels."""
    found = {
        "plain": plain(form),
        "over_c": plain(form, over="c", offset=8),
        "over_a": plain(form, over="a"),
        "over_b": plain(form, over="b"),
    }
    if form.groups == 1:
        found["rows"] = through_shared(form, transposed=False)
        found["columns"] = through_shared(form, transposed=True)
    return found
