"""Every input of warpfuzz, broken in whatever way: read, or refused in a sentence and in bounds.

For hours: OWN_INPUTS_SECONDS=14400 pytest -m slow tests/meta/inputs
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from own_inputs import Input, bounded, broken, inputs

from oracle.errors import WarpfuzzError

NAMES = (
    "finding.json", "program.json", "module.ptx", "input.npy", "expected.npy", "actual.npy",
    "rewritten.ptx", "corpus.json", "case.json", "mine.ptx", "all.zip", "some.set", "known.toml",
    "model.toml", "state.json",
)  # fmt: skip
LONG = float(os.environ.get("OWN_INPUTS_SECONDS", "600"))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Input]:
    return inputs(tmp_path_factory.mktemp("sound"))


def answered(one: Input, data: bytes) -> None:
    """Have something read; whatever is wrong with it is said in sentences that name the file."""
    with TemporaryDirectory() as folder:
        path = Path(folder, one.name)
        path.write_bytes(data)
        try:
            with bounded():
                one.read(path)
        except WarpfuzzError as error:
            said = str(error)
            named = (
                one.name,
                "case.json",
                "findings/",
                "the campaign's state",
                "the counts of what",
            )
            assert any(name in said for name in named), said
            assert len(said) < 5000, said[:300]


def test_every_kind_of_input_is_broken_here(sound: Mapping[str, Input]) -> None:
    assert set(sound) == set(NAMES)
    for one in sound.values():
        with TemporaryDirectory() as folder:
            Path(folder, one.name).write_bytes(one.sound)
            one.read(Path(folder, one.name))


FEW = settings(
    max_examples=4, deadline=None, phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@FEW
def test_what_is_broken_is_read_or_refused(
    sound: Mapping[str, Input], name: str, data: st.DataObject
) -> None:
    answered(sound[name], data.draw(broken(sound[name].sound)))


KEPT = {
    # 115 s in the expression with which planted faults find instructions.
    "spaces between parameters": ("module.ptx", b".param .u32 c", b".param .u32 " + b" " * 190_000),
    # Refused without a word of which file it is in.
    "a store past its buffer": ("program.json", b'"stride": null', b'"stride": 1024'),
    # Ended with a traceback.
    "details that are no object": ("case.json", b"}", b', "details": "/dev/zero"}'),
    "a verdict that is no object": ("case.json", b"}", b', "runners": ["sim"]}'),
    "a verdict without options": ("case.json", b"}", b', "runners": [{}]}'),
    "an opcode of 15,000 parts": ("module.ptx", b"END:", b"END: " + b"a." * 15_000),
}
"""What the long search found: an input, and what stands in place of what."""


@pytest.mark.parametrize("case", KEPT)
def test_what_was_found_once_is_answered(sound: Mapping[str, Input], case: str) -> None:
    name, old, new = KEPT[case]
    assert old in sound[name].sound
    answered(sound[name], sound[name].sound.replace(old, new, 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_is_broken_is_read_or_refused_for_hours(sound: Mapping[str, Input], name: str) -> None:
    end = time.monotonic() + LONG / len(NAMES)
    turn = 0
    while time.monotonic() < end:
        turn += 1

        @seed(turn)
        @settings(FEW, max_examples=50, phases=(*FEW.phases, Phase.shrink))
        @given(data=st.data())
        def look(data: st.DataObject) -> None:
            answered(sound[name], data.draw(broken(sound[name].sound)))

        look()
