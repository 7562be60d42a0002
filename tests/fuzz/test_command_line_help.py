"""Help pages, completion by shells, and options from files."""

import re
from collections import defaultdict
from contextlib import suppress
from functools import reduce

import click
import pytest
from click.testing import CliRunner
from command_line import ROOT, warpfuzz

from fuzz.cli import _INTERRUPTED, HEADINGS, Exit, app
from fuzz.options.declared import Options
from fuzz.options.operating import COMMANDS
from oracle.errors import WarpfuzzError


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.words)
def test_headings_name_options_of_the_command(kind: type[Options]):
    names = [name for names in kind.headings.values() for name in names.split()]
    options = {one.name for one in kind.declared() if one.is_option}
    assert len(names) == len(set(names))
    assert set(names) == (options if kind.headings else set())


def test_every_command_stands_under_one_heading():
    words = [word for names in HEADINGS.values() for word in names.split()]
    assert sorted(words) == sorted(app.commands)


def test_summaries_are_whole():
    page = " ".join(CliRunner().invoke(app, ["--help"]).output.split())
    for command in app.commands.values():
        assert " ".join((command.help or "").partition("\n\n")[0].split()) in page
    assert "..." not in page.replace("[ARGS]...", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete(tmp_path, shell):
    told = warpfuzz(tmp_path, _WARPFUZZ_COMPLETE=f"{shell}_source")
    assert told.code == 0
    assert "_WARPFUZZ_COMPLETE" in told.out


def test_completion_lists_the_faults_command(tmp_path):
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
        ("[isa]\njson = 'no'", "Expected `bool`"),
        ("[isa]\nonly = ['a']", "Expected `float | str`"),
        ("[isa]\nonly = true", "Expected `float | str`"),
    ],
)
def test_what_is_wrong_in_the_file_is_said(tmp_path, text, words):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    told = warpfuzz(tmp_path, "isa", "--config", str(file))
    assert told.code == 2
    assert words in told.err
    assert "Traceback" not in told.err


VALUES = ("1", "1.5", "nan", "true", "'x'", "''", "[]", "[1]", "['x', true]", "[[1]]", "{a = 1}",
          "2027-01-31", "07:32:00")  # fmt: skip
"""Of each type that TOML has (TOML 1.0)."""


def test_no_option_takes_a_value_of_a_file_that_is_of_another_type(tmp_path):
    """A list for a number was an internal error, and 1.5 cases were one (2026-11-24)."""
    file, taken = tmp_path / "mine.toml", defaultdict(set)
    for kind in COMMANDS:
        *groups, last = kind.words.split()
        command = reduce(lambda group, name: group.commands[name], (*groups, last), app)
        words = ["sim" for one in kind.declared() if not one.is_option]
        for one in kind.declared():
            for value in VALUES if one.is_option else ():
                option = one.spelled[2:]
                file.write_text(f"[{'.'.join((*groups, last))}]\n{option} = {value}\n")
                with suppress(click.UsageError, WarpfuzzError):
                    command.make_context(last, ["--config", str(file), *words])
                    taken[one.annotation].add(value)
    assert taken["bool"] == {"true"}
    assert taken["int | None"] <= {"1"}
    assert taken["tuple[int, ...]"] <= {"[]", "[1]"}


def test_a_missing_file_is_said(tmp_path):
    told = warpfuzz(tmp_path, "isa", "--config", str(tmp_path / "none.toml"))
    assert told.code == 2
    assert "cannot be read" in told.err


def test_every_exit_code_stands_in_the_help_and_in_the_readme(tmp_path):
    told = " ".join(warpfuzz(tmp_path, "--help").out.split())
    readme = " ".join((ROOT / "README.md").read_text().split())
    for code in (*map(int, Exit), _INTERRUPTED):
        assert re.search(rf"Exit codes: [^.]*\b{code} ", told)
        assert re.search(rf"Exit codes: [^.]*\b{code} ", readme)
