"""What is drawn of scalar code alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import pytest

from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module
from oracle.program.lane_code import Assign, LaneCode, every, may_be_open, row_of, statements_taken
from oracle.program.program import walk
from strategies.draws import draw_one
from strategies.features import Focus, Has
from strategies.programs import lane_code, programs

ALONE = programs(
    Focus(features=frozenset({Has.LANES_ALONE})), module=Module.named("sm_90", "8.7"), forms=FORMS
)
PROGRAMS = 300


def anew(count: int = PROGRAMS) -> list[LaneCode]:
    steps = (step for key in range(count) for step in walk(draw_one(ALONE, key).steps))
    return [step for step in steps if isinstance(step, LaneCode)]


drawn = cache(anew)
"""Code that several tests look at."""


def assigned() -> list[list[Assign]]:
    return [[one for one in every(step.code) if isinstance(one, Assign)] for step in drawn()]


def test_a_lane_takes_at_most_as_many_statements_as_code_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = max(statements_taken(step.code) for step in drawn())
    most = lane_code._BEHIND + 128
    assert before > most
    monkeypatch.setattr(lane_code, "MAX_STATEMENTS", most)
    assert max(statements_taken(step.code) for step in anew(80)) <= most


def test_no_lane_takes_bits_of_a_nan_that_ptx_leaves_open() -> None:
    assert not any(map(may_be_open, drawn()))


def test_nans_are_canonical_only_where_their_bits_are_taken() -> None:
    pairs = [(row_of(one), behind) for code in assigned() for one, behind in pairwise(code)]
    made = [(row, behind) for row, behind in pairs if row.nan]
    at_once = [row for row, behind in made if behind.opcode == row.settled_by]
    assert 0 < len(at_once) < len(made)


def test_instructions_and_operands_meet_again() -> None:
    again = twice = 0
    for code in assigned():
        seen = set()
        for one in code:
            own = row_of(one).family, one.sources
            again += own in seen and not one.opcode.startswith("max.NaN")
            twice += len(one.sources) == 2 and len({*one.sources}) == 1
            seen.add(own)
    assert again > PROGRAMS / 2
    assert twice > PROGRAMS / 2


def _read_behind(code: LaneCode) -> Iterator[tuple[Assign, Assign]]:
    """Iterate over instructions and those that read their results, as the text has them."""
    writers = dict[str | int, Assign]()
    for one in every(code.code):
        if isinstance(one, Assign):
            yield from ((writers[name], one) for name in {*one.sources} if name in writers)
            writers.update(dict.fromkeys(one.destinations, one))


def test_halves_are_compared_and_widened_as_what_they_are() -> None:
    pairs = [pair for code in drawn() for pair in _read_behind(code)]
    behind = [two.opcode for one, two in pairs if one.opcode.endswith(".s16")]
    assert sum(bool(re.fullmatch(r"setp?\..*\.s16", opcode)) for opcode in behind) > PROGRAMS / 10
    assert sum(bool(re.fullmatch(r"cvt\..*\.s16", opcode)) for opcode in behind) > PROGRAMS / 30


def test_no_lane_enters_a_loop_between_a_carry_and_what_reads_it() -> None:
    first, then = (
        Assign(opcode=opcode, destinations=(name,), sources=("r0", "r0", "r0"))
        for name, opcode in (("r1", "mad.lo.cc.u32"), ("r2", "madc.lo.cc.u32"))
    )
    between = Assign(opcode="mov.b32", destinations=("r3",), sources=("r0",))
    assert lane_code._needs([first], ["r0"], [between, then])
    assert lane_code._needs([first, between], ["r0"], [then])
    assert not lane_code._needs([between], ["r0"], [first, then])
