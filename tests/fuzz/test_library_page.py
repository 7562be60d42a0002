"""The page of the library: its examples run as they stand there, and it names what is public."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT, environment
from hypothesis import settings

PAGE = (ROOT / "docs" / "library.md").read_text()
EXAMPLES = dict(re.findall(r"<!-- (test_\w+\.py) -->\n```python\n(.*?)```", PAGE, re.DOTALL))
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE))


def functions_of(name: str, text: str) -> dict[str, Callable[..., None]]:
    names: dict[str, Any] = {"__name__": name}
    exec(compile(text, name, "exec"), names)
    return {one: made for one, made in names.items() if one.startswith("test_")}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_passes_as_it_stands_on_the_page(name: str, tmp_path: Path) -> None:
    before = settings.get_current_profile_name()
    settings.register_profile("few", settings(max_examples=5))
    settings.load_profile("few")
    try:
        tests = functions_of(name, EXAMPLES[name])
    finally:
        settings.load_profile(before)
    assert tests
    assert len(EXAMPLES) == 6
    for test in tests.values():
        fixtures = {"tmp_path": tmp_path} if "tmp_path" in signature(test).parameters else {}
        test(**fixtures)


def test_the_first_example_fails_for_a_device_that_is_wrong() -> None:
    planted = {
        'SimulatedRunner("sm_90")':
            'SimulatedRunner("sm_90", faults=[by_name("sum-rounded-to-nearest")])',
        "deadline=None": "deadline=None, phases=[Phase.generate], derandomize=True, database=None",
    }  # fmt: skip
    text = EXAMPLES["test_mine.py"]
    for sound, wrong in planted.items():
        assert sound in text
        text = text.replace(sound, wrong)
    text = f"from hypothesis import Phase\nfrom runners.faults import by_name\n{text}"
    (test,) = functions_of("test_mine", text).values()
    with pytest.raises(AssertionError, match="Arrays are not equal"):
        test()


@pytest.mark.slow
def test_a_type_checker_takes_the_examples(tmp_path: Path) -> None:
    for name, text in EXAMPLES.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "mypy", "--check-untyped-defs", *EXAMPLES]
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout


def test_the_page_names_what_is_public_and_each_says_what_it_is() -> None:
    rooms = {name: import_module(name) for name in ("oracle", "strategies", "runners")}
    for name, room in rooms.items():
        told = set(re.findall(r"`(\w+)`", ROWS[name]))
        assert told == set(room.__all__), name
        for one in room.__all__:
            assert getattr(room, one).__doc__, one
    assert set(re.findall(r"`(\w+)`", ROWS["corpus"])) <= set(import_module("corpus").__all__)
