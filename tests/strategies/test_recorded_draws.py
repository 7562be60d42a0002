"""What a seed draws is what it drew when the version of its generator was recorded.

A digest that changes means that the seeds of recorded campaigns give other programs: if that is
wanted, GENERATOR_VERSION goes up, and its digests are recorded here in place of the old ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import islice

import pytest

from corpus.programs import encode_program
from oracle.isa.targets import Module, parse_target, parse_version
from strategies import instructions, programs
from strategies.contents import expand
from strategies.draws import Selection
from strategies.rounds import campaign_rounds, round_batches, selected_forms, undefined_of_round

OF_PROGRAMS = 19
"""GENERATOR_VERSION of programs with which their digests were recorded."""
OF_INSTRUCTIONS = 10
"""The same of instructions."""
ROUNDS = 3  # Of 12 programs

DEFINED = {
    "sm_75": "b2f49c4c1b8eded1",
    "sm_80": "aed9b3d4b48f54f0",
    "sm_90": "2b25260cdd85a266",
    "sm_90a": "9d433bcd5d715603",
    "sm_100a": "f6a95bb1025b46b3",
}
UNDEFINED = {"sm_75": "f97fccb663d1a9a5", "sm_90": "d7117d9fa990a519"}
INSTRUCTIONS = {
    "sm_90": "9936c4bc443b16ac",
    "sm_90a": "4559edc1a05b7a48",
    "sm_100a": "2b49acf0b90ffb3a",
}
VERSIONS = {
    "sm_75": "6.5", "sm_80": "7.0", "sm_90": "8.0", "sm_90a": "8.0", "sm_100a": "8.7",
}  # fmt: skip


def digest(parts: Iterable[bytes]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()[:16]


@pytest.mark.parametrize("target", DEFINED)
def test_rounds_of_programs_and_their_images_are_those_of_their_version(target: str) -> None:
    version = VERSIONS[target]
    forms = selected_forms(Selection(), target=target, version=version)
    rounds = campaign_rounds(forms, target=target, version=version, seed=33)

    def parts() -> Iterable[bytes]:
        for batches in islice(rounds, ROUNDS):
            for batch in batches:
                yield encode_program(batch.program)
                yield expand(batch.recipe, batch.program, 5).tobytes()
        for batch in round_batches(
            forms, target=target, version=version, key=33, line_bytes=128, count=8
        ):
            yield encode_program(batch.program)

    assert (programs.GENERATOR_VERSION, digest(parts())) == (OF_PROGRAMS, DEFINED[target])


@pytest.mark.parametrize("target", UNDEFINED)
def test_undefined_programs_are_those_of_their_version(target: str) -> None:
    version = VERSIONS[target]
    forms = selected_forms(Selection(), target=target, version=version)
    module = Module.named(target, version)
    drawn = [
        encode_program(program)
        for number in range(4)
        for program, _ in undefined_of_round(forms, module, seed=33, number=number)
    ]
    assert (programs.GENERATOR_VERSION, digest(drawn)) == (OF_PROGRAMS, UNDEFINED[target])


@pytest.mark.parametrize("target", INSTRUCTIONS)
def test_rounds_of_instructions_are_those_of_their_version(target: str) -> None:
    drafts = instructions.round_drafts(
        Selection().forms(), parse_target(target), parse_version(VERSIONS[target]), seed=33,
        number=1,
    )  # fmt: skip
    drawn = [draft.text.encode() for draft in drafts]
    assert (instructions.GENERATOR_VERSION, digest(drawn)) == (
        OF_INSTRUCTIONS,
        INSTRUCTIONS[target],
    )
