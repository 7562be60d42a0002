"""Simpler steps of a warpgroup: narrower multiplications, of fewer and plainer bytes.

Each function iterates over simpler examples, the most promising first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import Any

from oracle.errors import UsageError
from oracle.isa.lookup import form_of
from oracle.program.operands import Place, Span, text_of
from oracle.program.program import walk
from oracle.program.steps import Barrier, accesses_registers, copies_bytes
from oracle.program.warpgroup import AsyncProduct, SharedTile, WarpgroupSync
from strategies.simplification.examples import Example, Site, Steps, edited, visit

_LEAST = 8  # columns


def narrower(example: Example, *, one_by_one: bool = True) -> Iterator[Example]:
    """Iterate over examples whose products of a warpgroup have fewer columns, the fewest first.

    All of them become narrower together, or those that share a D as well, and so do the steps that
    load, set and store it.
    """
    steps = [step for _, step in visit(example.program.steps)]
    shapes = {one.d: one.form.shape for one in steps if isinstance(one, AsyncProduct)}
    ways = [dict.fromkeys(shapes, _LEAST)] if shapes else []
    if one_by_one:
        ways += [{name: n} for name, one in shapes.items() for n in (_LEAST, one.n // 16 * 8)]
    for way in ways:
        if all(0 < columns <= shapes[name].n for name, columns in way.items()):
            # Some types have no such form, some code reads more of D.
            with suppress(UsageError):
                yield reduce(_narrowed, way.items(), example).tidied()


def _narrowed(example: Example, way: tuple[str, int]) -> Example:
    (name, columns), edits = way, dict[Site, Steps]()
    steps = [*visit(example.program.steps)]
    for site, step in steps:
        if isinstance(step, AsyncProduct) and step.d == name:
            form = form_of(step.form.opcode.replace(f"n{step.form.shape.n}k", f"n{columns}k"))
            edits[site], count = (replace(step, form=form),), form.words("d")
    for site, step in steps:
        whole = accesses_registers(step) or step.sets is not None
        if whole and [use.name for use in step.uses] == [name]:
            edits[site] = (step.changed(count=count),)
        elif site not in edits and not step.blocks:
            changes: dict[str, Any] = {
                use.field: text_of(
                    one._replace(number=one.number % count) if one.bank == name else one
                    for one in use.registers
                )
                for use in step.uses
                if any(one.bank == name and one.number >= count for one in use.registers)
            }
            edits |= {site: (step.changed(**changes),)} if changes else {}
    return example.edited(edits)


_ADJACENT: Mapping[str, Any] = {"leading": 128, "stride": 256}
"""Bytes between the parts of 8 rows of 16 bytes of a matrix without a swizzle, two in a row."""


def plainer_products(example: Example, *, one_by_one: bool = True) -> Iterator[Example]:
    """Iterate over examples whose products of a warpgroup are plainer: all, or one by one as well.

    Plain ones multiply what lies plainly at the start of one buffer, with constants of 1.
    """
    products = {
        site: step for site, step in visit(example.program.steps) if isinstance(step, AsyncProduct)
    }
    tiles = [tile for step in products.values() for tile in step.tiles.values()]
    plain: list[tuple[str, Any]] = [
        ("tile", SharedTile(place=Place(buffer=name), **_ADJACENT))
        for name in dict.fromkeys(tile.place.buffer for tile in tiles)
    ]
    plain += [("scale_d", 1), ("scale_d", 0), ("scale_a", 1), ("scale_b", 1), ("selector", 0)]
    for name, value in plain if products else ():
        edits = {site: (_plain_product(step, name, value),) for site, step in products.items()}
        yield example.edited(edits).tidied()
        if one_by_one and len(edits) > 1:
            for site, steps in edits.items():
                yield example.edited({site: steps}).tidied()


def _plain_product(step: AsyncProduct, name: str, value: Any) -> AsyncProduct:
    if name == "tile":
        return replace(step, **{f"{operand}_tile": value for operand in step.tiles})
    own = getattr(step, name)
    return replace(step, **{name: value}) if own != value and own not in (0, None) else step


_ORDERED = WarpgroupSync(kind="proxy_fence"), Barrier()


def plain_copies(example: Example) -> Iterator[Example]:
    """Iterate over examples with plain copies in place of those in bulk, or without these.

    First all of them, then those at one mbarrier; the waits for them go with them.
    """
    numbers = [*example.program.mbarriers]
    sites = [
        (site, step)
        for site, step in visit(example.program.steps)
        if copies_bytes(step) or isinstance(step, WarpgroupSync)
    ]
    for some in [numbers, *([one] for one in numbers)] if numbers else ():
        own = [(site, step) for site, step in sites if step.mbarrier in some]
        plain = {
            site: (replace(step, mbarrier=None),) if copies_bytes(step) else _ORDERED
            for site, step in own
        }
        for edits in (plain, dict.fromkeys(plain, ())):
            yield example.edited(edits).tidied()


_COPIED_AT_ONCE = 16  # bytes of a thread


def fitted(example: Example) -> Iterator[Example]:
    """Yield a warpgroup's example whose copies and buffers end behind what steps touch.

    A narrower multiplication reads little of what is copied for it.
    """
    program = example.program
    if program.warps == 1:
        return
    whole = program.threads * _COPIED_AT_ONCE
    read = _ends(span for step in walk(program.steps) for span in step.bytes_read)
    edits = dict[Site, Steps]()
    for site, step in visit(program.steps):
        if copies_bytes(step) and program.buffer(step.destination.buffer).space == "shared":
            left = read.get(step.destination.buffer, 0) - step.destination.offset
            # A turn that all threads take is one line, others have a predicate as well.
            size = -(-left // whole) * whole
            if 0 < size < step.size:
                edits[site] = (replace(step, size=size),)
    steps = edited(program.steps, edits)
    touched = _ends(
        span for step in walk(steps) for span in (*step.bytes_read, *step.bytes_written)
    )
    buffers = [
        replace(one, size=min(one.size, touched.get(one.name, one.size))) for one in program.buffers
    ]
    yield example.with_program(buffers, steps).tidied()


def _ends(spans: Iterable[Span]) -> dict[str, int]:
    """Return by buffer where the last of some bytes ends."""
    found = dict[str, int]()
    for span in spans:
        found[span.buffer] = max(found.get(span.buffer, 1), span.end)
    return found
