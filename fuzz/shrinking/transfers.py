"""Plainer ldmatrix, stores of its registers, copies and words: addresses, offsets, qualifiers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fuzz.shrinking.draft import Draft
from fuzz.shrinking.sites import Site, Steps, edited, visit
from fuzz.shrinking.tidying import tidied
from fuzz.shrinking.tiles import bytes_moved, places_of
from oracle.isa import LANES, LDMATRIX_FORMS, LdmatrixForm
from oracle.program import (
    Branch,
    Copy,
    LoadRows,
    Loop,
    Place,
    Step,
    StoreRegisters,
    Word,
)

_ROW = LdmatrixForm.ROW_BYTES
_WORD_BYTES = 4


def plainer_transfers(draft: Draft) -> Iterator[Draft]:
    """Iterate over drafts in which one thing about one such step is as it is by default."""
    for site, step in visit(draft.program.steps):
        match step:
            case LoadRows():
                yield from _plainer_rows(draft, site, step)
            case StoreRegisters():
                yield from _plainer_stores(draft, site, step)
            case Copy():
                yield from _plainer_copies(draft, site, step)
            case Branch(condition=Word() as word):
                yield from _first_word(draft, site, step, word)
            case Loop(count=Word() as word):
                yield from _first_word(draft, site, step, word)


def _changed(draft: Draft, edits: dict[Site, Steps]) -> Draft:
    return draft.with_program(draft.program.buffers, edited(draft.program.steps, edits))


def _plainer_rows(draft: Draft, site: Site, step: LoadRows) -> Iterator[Draft]:
    form = step.form
    plain = tuple(range(0, LANES * _ROW, _ROW))
    if step.immediate:
        yield _changed(draft, {site: (replace(step, immediate=0),)})
    for wanted in (
        replace(form, number=1, transposed=False, space="shared"),
        replace(form, number=1),
        replace(form, transposed=False),
        replace(form, space="shared"),
    ):
        simpler = next((other for other in LDMATRIX_FORMS if _alike(other, wanted)), None)
        if simpler is not None and simpler != form:
            edits: dict[Site, Steps] = {site: (replace(step, form=simpler),)}
            for other_site, other in visit(draft.program.steps):
                if isinstance(other, StoreRegisters) and other.registers == step.registers:
                    edits[other_site] = (replace(other, count=simpler.registers),)
            yield _changed(draft, edits)
    if step.addresses != plain:
        yield from _readdressed(draft, site, step, plain)
        for lane, address in enumerate(step.addresses):
            if address != plain[lane]:
                one = (*step.addresses[:lane], plain[lane], *step.addresses[lane + 1 :])
                yield from _readdressed(draft, site, step, one)


def _alike(form: LdmatrixForm, wanted: LdmatrixForm) -> bool:
    """Whether two forms differ in nothing but the line of the page on which they stand."""
    return form.opcode == wanted.opcode


def _readdressed(
    draft: Draft, site: Site, step: LoadRows, addresses: tuple[int, ...]
) -> Iterator[Draft]:
    """Iterate over drafts with other addresses: with the rows behind them moved, and without."""
    target = _changed(draft, {site: (replace(step, addresses=addresses),)})
    runs = [
        (source, destination, _ROW)
        for old, new in zip(step.addresses, addresses, strict=True)
        for source, destination in zip(
            places_of(draft.program, Place(buffer=step.buffer, offset=old)),
            places_of(target.program, Place(buffer=step.buffer, offset=new)),
            strict=False,
        )
    ]
    yield bytes_moved(draft, runs[: step.form.addresses], target)
    yield target


def _plainer_stores(draft: Draft, site: Site, step: StoreRegisters) -> Iterator[Draft]:
    if step.place.offset:
        other = replace(step, place=replace(step.place, offset=0))
        target = _changed(draft, {site: (other,)})
        yield bytes_moved(draft, [(step.place, other.place, step.size)], target)
        yield target
    if draft.program.buffer(step.place.buffer).space == "shared":
        for place in places_of(draft.program, step.place, stored=True):
            yield tidied(_changed(draft, {site: (replace(step, place=place),)}))


def _plainer_copies(draft: Draft, site: Site, step: Copy) -> Iterator[Draft]:
    for other in (
        replace(step, source=replace(step.source, offset=0)),
        replace(step, destination=replace(step.destination, offset=0)),
    ):
        if other != step:
            target = _changed(draft, {site: (other,)})
            yield bytes_moved(
                draft,
                [
                    (step.source, other.source, step.size),
                    (step.destination, other.destination, step.size),
                ],
                target,
            )
            yield target


def _first_word(draft: Draft, site: Site, step: Branch | Loop, word: Word) -> Iterator[Draft]:
    """Iterate over drafts that read a word at the start of its buffer."""
    if not word.place.offset:
        return
    first = replace(word, place=replace(word.place, offset=0))
    other: Step = (
        replace(step, condition=first) if isinstance(step, Branch) else replace(step, count=first)
    )
    target = _changed(draft, {site: (other,)})
    yield bytes_moved(draft, [(word.place, first.place, _WORD_BYTES)], target)
    yield target
