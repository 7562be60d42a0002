"""Help pages, completion by shells, and options from files."""

import importlib.metadata
import re
from collections import defaultdict
from contextlib import suppress
from functools import reduce

import click
import pytest
from click.testing import CliRunner
from command_line import ROOT, warpfuzz

from fuzz import UNKNOWN, warpfuzz_version
from fuzz.cli import _INTERRUPTED, HEADINGS, Exit, app
from fuzz.options.operating import COMMANDS
from fuzz.output import generator
from oracle.errors import WarpfuzzError


def test_headings_name_every_command_and_the_options_of_one():
    words = [word for names in HEADINGS.values() for word in names.split()]
    assert sorted(words) == sorted(app.commands)
    for kind in COMMANDS:
        names = [name for names in kind.headings.values() for name in names.split()]
        options = {one.name for one in kind.declared() if one.is_option}
        assert len(names) == len(set(names))
        assert set(names) == (options if kind.headings else set())


def test_summaries_are_whole():
    page = " ".join(CliRunner().invoke(app, ["--help"]).output.split())
    for command in app.commands.values():
        assert " ".join((command.help or "").partition("\n\n")[0].split()) in page
    assert "..." not in page.replace("[ARGS]...", "")


def test_shells_complete(tmp_path):
    told = warpfuzz(tmp_path, _WARPFUZZ_COMPLETE="zsh_source")
    assert told.code == 0
    assert "_WARPFUZZ_COMPLETE" in told.out
    asked = {"_WARPFUZZ_COMPLETE": "bash_complete", "COMP_WORDS": "warpfuzz fau", "COMP_CWORD": "1"}
    assert "faults" in warpfuzz(tmp_path, **asked).out


@pytest.mark.parametrize("name", ["warpfuzz.toml", "pyproject.toml"])
def test_options_come_from_a_file_unless_they_are_typed(tmp_path, name):
    prefix = "tool.warpfuzz." if name == "pyproject.toml" else ""
    file = tmp_path / name
    file.write_text(
        f"[{prefix}isa]\nonly = '*.m8n8k128.*'\nptx-version = '7.1'\ntarget = 'sm_80'\n"
    )
    taken = warpfuzz(tmp_path, "isa", "--config", str(file), "--json")
    own = ("--ptx-version", "7.1", "--target", "sm_80", "--only", "*.m8n8k128.*")
    typed = warpfuzz(tmp_path, "isa", "--json", *own)
    assert taken.code == 0
    assert taken.out == typed.out != ""
    other = warpfuzz(tmp_path, "isa", "--config", str(file), "--json", "--only", "ldmatrix*")
    assert "ldmatrix" in other.out
    assert "m8n8k128" not in other.out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[isa]\nonyl = '*'", "'onyl' of"),
        ("isa = 3", "write a table of options"),
        ("[isa]\nonly = ", "is not TOML"),
        ("[isa]\nonly = ['a']", "Expected `float | str`"),
        (None, "cannot be read"),
    ],
)
def test_what_is_wrong_with_the_file_is_said(tmp_path, text, words):
    file = tmp_path / "mine.toml"
    if text is not None:
        file.write_text(text)
    told = warpfuzz(tmp_path, "isa", "--config", str(file))
    assert told.code == 2
    assert words in told.err


VALUES = ("1", "1.5", "nan", "true", "'x'", "[]", "[1]", "['x', true]", "{a = 1}", "2027-01-31")
"""Of each type that TOML has (TOML 1.0)."""


def test_no_option_takes_a_value_of_a_file_that_is_of_another_type(tmp_path):
    """A list for a number was an internal error, and 1.5 cases were one (2026-11-24)."""
    file, taken = tmp_path / "mine.toml", defaultdict(set)
    for kind in COMMANDS[:4]:
        *groups, last = kind.words.split()
        command = reduce(lambda group, name: group.commands[name], (*groups, last), app)
        words = ["sim" for one in kind.declared() if not one.is_option]
        for one in kind.declared():
            for value in VALUES if one.is_option else ():
                head = ".".join((*groups, last))
                file.write_text(f"[{head}]\n{one.spelled[2:]} = {value}\n")
                with suppress(click.UsageError, WarpfuzzError):
                    command.make_context(last, ["--config", str(file), *words])
                    taken[one.annotation].add(value)
    assert taken["bool"] == {"true"}
    assert taken["int | None"] <= {"1"}
    assert taken["tuple[int, ...]"] <= {"[]", "[1]"}


def test_every_exit_code_stands_in_the_help_and_in_the_readme(tmp_path):
    told = " ".join(warpfuzz(tmp_path, "--help").out.split())
    readme = " ".join((ROOT / "README.md").read_text().split())
    for code in (*map(int, Exit), _INTERRUPTED):
        assert re.search(rf"Exit codes: [^.]*\b{code} ", told)
        assert re.search(rf"Exit codes: [^.]*\b{code} ", readme)


def test_what_is_not_installed_has_a_version_to_show(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    warpfuzz_version.cache_clear()
    try:
        assert generator() == f"warpfuzz {UNKNOWN}"
    finally:
        warpfuzz_version.cache_clear()
