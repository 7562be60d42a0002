"""A multiplication that is taken out of its program multiplies what it multiplied there."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from shrinking_cases import TARGET, subjects

from fuzz.findings.replay import Subject
from fuzz.findings.tracing import trace
from fuzz.shrinking.draft import Draft
from fuzz.shrinking.shrinker import isolated
from oracle.definedness import undefined
from oracle.execution import execute
from oracle.program import walk
from oracle.steps import Multiply, Store
from oracle.storage import Tile, read


@settings(max_examples=20)
@given(subjects())
def test_each_multiplication_alone_gives_what_it_gave_in_the_program(subject: Subject) -> None:
    program = subject.program
    results = [
        event.result
        for event in trace(program, subject.image, target=TARGET).events
        if isinstance(event.step, Multiply)
    ]
    drafts = list(isolated(Draft(program=program, image=subject.image), target=TARGET))
    if sum(1 for _ in walk(program.steps)) <= 5:
        assert not drafts
        return
    assert len(drafts) == min(len(results), 32)
    for draft, result in zip(drafts, results, strict=False):
        assert not undefined(draft.program, target=TARGET)
        after = execute(draft.program, draft.image[None], target=TARGET).images
        (store,) = (step for step in draft.program.steps if isinstance(step, Store))
        tile = Tile(matrix=store.form.matrix, layout=store.form.layout)
        stored = read(after, draft.program.offset(store.place.buffer), tile)[0]
        assert np.array_equal(stored, result)
