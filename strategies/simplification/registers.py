"""Gives operands registers of their own, one sharing at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.image import position
from oracle.ops import COUNTS, multiplies
from oracle.program import Program, fresh_bank, walk
from oracle.registers import listed
from oracle.steps import Step, accesses_registers, set_registers
from strategies.matrices import Image
from strategies.simplification.examples import Example, Site, Steps, edited, visit
from strategies.simplification.structure import tidied


def less_shared(example: Example) -> Iterator[Example]:
    """Iterate over examples in which one operand less shares registers.

    What is listed gets a name of its own, wherever it stands or in one step alone; an address
    leaves the destination of its load, and what registers are set to becomes zero.
    """
    program = example.program
    texts = dict.fromkeys(
        use.name for step in walk(program.steps) for use in step.uses if listed(use.name)
    )
    for text in texts:
        own = fresh_bank(program, text.partition(".")[0])
        yield _edited(example, _renamed(program.steps, text, own))
        yield from _set_apart(example, text, own)
    for site, step in visit(program.steps):
        for use in step.uses:
            if listed(use.name):
                change: dict[str, Any] = {use.field: use.bank}
                yield _edited(example, edited(program.steps, {site: (step.changed(**change),)}))
        simpler: Step | None = None
        if step.address is not None:
            simpler = step.changed(address=None)
        elif step.sets:
            simpler = step.changed(constant=0)
        if simpler is not None:
            yield _edited(example, edited(program.steps, {site: (simpler,)}))


_PLAIN_METADATA = 0x4444_4444
"""Metadata that choose the first two elements of each chunk, which every form with metadata
allows (9.7.14.6.1)."""


def metadata_names(program: Program) -> set[str]:
    """Return what metadata are called."""
    return {use.name for step in walk(program.steps) for use in step.uses if use.field == "e"}


def plainer_metadata(example: Example) -> Iterator[Example]:
    """Iterate over examples with metadata that are set to one word, or selector 0.

    What the image held of them can then go.
    """
    steps = example.program.steps
    names = metadata_names(example.program)
    for site, step in visit(steps):
        made = step.writes
        if multiplies(step):
            if step.selector:
                yield _edited(example, edited(steps, {site: (step.changed(selector=0),)}))
        elif made is not None and made.name in names and step.sets != _PLAIN_METADATA:
            holds = made.holds
            plain = set_registers(
                destination=made.name, count=holds.registers, constant=_PLAIN_METADATA
            )
            yield _edited(example, edited(steps, {site: (plain,)}))


def metadata_words(program: Program) -> NDArray[np.intp]:
    """Return the bytes of the image that lanes load as metadata, (words, 4)."""
    names, found = metadata_names(program), [np.zeros((0, 4), np.intp)]
    for step in walk(program.steps):
        if not (accesses_registers(step) and step.loads and step.registers in names):
            continue
        if program.buffer(step.place.buffer).space == "global":
            words = np.arange(step.lanes * step.count)[:, None]
            found.append(position(program, step.place) + 4 * words + np.arange(4))
    return np.unique(np.concatenate(found), axis=0)


_COSTLY = np.array([(one.bit_count(), one) > (2, _PLAIN_METADATA & 0xFF) for one in range(256)])
"""Of each byte whether it has more bits than plain metadata, or higher ones: in the order in which
numbers become simpler, so that what became simpler than plain metadata never becomes plain."""


def is_costly(image: Image) -> NDArray[np.bool_]:
    """Return which bytes would be simpler if they were plain metadata."""
    return np.asarray(_COSTLY[image])


def with_plain_metadata(image: Image, bytes_: NDArray[np.intp]) -> Image:
    """Return an image in which some bytes of metadata are plain."""
    changed = image.copy()
    changed[bytes_] = _PLAIN_METADATA & 0xFF
    return changed


def _set_apart(example: Example, text: str, own: str) -> Iterator[Example]:
    """Iterate over examples in which registers that are one number are as many as are listed."""
    program = example.program
    size = text.count(" ") + 1
    bank = text.partition(".")[0]
    edits: dict[Site, Steps] = {
        site: (step.changed(destination=own, count=size),)
        for site, step in visit(program.steps)
        if step.sets is not None and step.names["destination"] == bank and size in COUNTS
    }
    if edits:
        yield _edited(example, _renamed(edited(program.steps, edits), text, own))


def _edited(example: Example, steps: Steps) -> Example:
    return tidied(example.with_program(example.program.buffers, steps))


def _renamed(steps: Steps, old: str, new: str) -> Steps:
    """Return steps with an operand under another name wherever it stands."""
    found: list[Step] = []
    for step in steps:
        changes: dict[str, Any] = {use.field: new for use in step.uses if use.name == old}
        changes |= {field: _renamed(inside, old, new) for field, inside in step.blocks.items()}
        found.append(step.changed(**changes))
    return tuple(found)
