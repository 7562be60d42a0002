"""The highest load of a chip: programs of warpgroups whose multiplications wait for no memory."""

from __future__ import annotations

from oracle.isa.forms import Form
from oracle.program.operands import Buffer, Place
from oracle.program.operations import set_registers
from oracle.program.program import Program
from oracle.program.steps import Barrier, Copy, Loop, Step, plain_store
from oracle.program.warpgroup import THREADS, AsyncProduct, SharedTile
from strategies.programs.repairs import sync

_LINE = 128  # Bytes of a line along K, those of the longest swizzle (PTX ISA 9.7.15.5.1.2)
_COLUMNS = 256
"""N of the largest multiplications: fewest bytes of A and B are read for each of their products."""
_TURNS = 8, 15  # Of two loops, one in the other


def is_largest(form: Form) -> bool:
    """Tell whether a form is a dense multiplication of a warpgroup with the largest N."""
    return form.warps > 1 and form.is_product and not form.has_metadata and form.shape.n == _COLUMNS


def highest_load(form: Form) -> Program:
    """Return the main loop of a multiplication of matrices: A and B in shared memory, D adds up.

    A turn multiplies all of K that lies there while the turn before is still in flight.
    """
    sizes = {"a": form.shape.m * _LINE, "b": form.shape.n * _LINE}
    count, deep = form.words("d"), form.shape.k * form.a_type.bits // 8
    buffers = [Buffer(name="gd", space="global", size=THREADS * 4 * count)]
    steps: list[Step] = [set_registers(destination="d", count=count, constant=0)]
    for name, size in sizes.items():
        buffers += [Buffer(name=f"g{name}", space="global", size=size)]
        buffers += [Buffer(name=f"s{name}", space="shared", size=size)]
        ends = Place(buffer=f"g{name}"), Place(buffer=f"s{name}")
        steps.append(Copy(source=ends[0], destination=ends[1], size=size))
    turn: list[Step] = [sync("fence")]
    for start in range(0, _LINE, deep):
        a, b = (
            SharedTile(
                place=Place(buffer=f"s{name}", offset=start), stride=8 * _LINE, swizzle=_LINE
            )
            for name in sizes
        )
        turn.append(AsyncProduct(form=form, d="d", a_tile=a, b_tile=b))
    turn += [sync("commit_group"), sync("wait_group", 1)]
    inner = Loop(count=_TURNS[1], body=tuple(turn))
    steps += [
        sync("proxy_fence"), Barrier(), Loop(count=_TURNS[0], body=(inner,)), sync("wait_group"),
        plain_store(registers="d", count=count, place=Place(buffer="gd"), lanes=THREADS),
    ]  # fmt: skip
    return Program(buffers=tuple(buffers), steps=tuple(steps), warps=4)
