"""Options are declared once, records of them stay as they are, and conflicts name what there is."""

from __future__ import annotations

from collections import defaultdict

import click
import pytest

from fuzz.options.declared import CONFLICTS, OPTIONS, Options, check_conflicts
from fuzz.options.operating import COMMANDS, Screen
from fuzz.options.testing import Bench, Conform, Measure, Reduce, Replay, Run
from oracle.errors import UsageError

OWN = {"--device", "--front-end"}
"""Options that mean something else for one command: a single GPU, several compilers."""
KINDS: dict[str, type[Options]] = {
    "run": Run, "campaign": Run, "module of replay": Replay, "bench": Bench, "measure": Measure,
    "screen": Screen, "conform": Conform, "reduce": Reduce,
}  # fmt: skip


def test_an_option_of_several_commands_is_declared_once() -> None:
    commands = defaultdict(set)
    for kind in COMMANDS:
        for one in kind.declared():
            if one.is_option:
                commands[one.spelled].add(kind.words)
    spelled = [(one.names or (f"--{name.replace('_', '-')}",))[0] for name, one in OPTIONS.items()]
    shared = {*spelled, "--json"}
    several = {spelled for spelled, words in commands.items() if len(words) > 1}
    assert several - OWN <= shared
    assert shared <= several | OWN


def test_an_empty_name_is_no_file_and_no_folder_and_an_empty_text_no_value() -> None:
    """`--corpus "$UNSET"` would be the current folder, and `--only "$UNSET"` every form."""
    found = [
        one.parameter
        for kind in COMMANDS
        for one in kind.declared()
        if ("Path" in one.annotation or "str" in one.annotation) and one.name != "instruction"
    ]
    assert len(found) > 140
    for one in found:
        with pytest.raises(click.BadParameter):
            one.type.convert("", one, None)


def test_a_text_that_is_kept_is_text() -> None:
    """A state or a finding could not be written with it (2026-11-24)."""
    run = {one.name: one.parameter for one in Run.declared()}
    for name, given in (("ptx_pass", "sed s/\udcff/x/"), ("only", "\udc80"), ("target", "\udcff")):
        with pytest.raises(click.BadParameter, match="no text in UTF-8"):
            run[name].type.convert(given, run[name], None)
    for given in ("é", "a\nb", "sed s/\x01//"):
        assert run["ptx_pass"].type.convert(given, run["ptx_pass"], None) == given


def test_every_conflict_is_of_options_that_there_are() -> None:
    assert KINDS.keys() == CONFLICTS.keys()
    for command, rows in CONFLICTS.items():
        names = {one.name for one in KINDS[command].declared()}
        for given, _, sentence in rows:
            assert set(given.split()) <= names
            assert sentence.format(value=1, count=2, o=KINDS[command]())


def test_what_was_asked_for_stays_as_it_is() -> None:
    asked = Run(cases=3)
    with pytest.raises(AttributeError, match="cannot change"):
        asked.cases = 4  # type: ignore[misc]
    other = asked.but(cases=4)
    assert (asked.cases, other.cases, other.only, other.faults) == (3, 4, "*", ())
    assert asked.is_set("cases")
    assert not asked.is_set("seed")


def test_a_default_that_was_typed_counts_as_given() -> None:
    check_conflicts(Bench(lines=True), "bench")
    typed = Bench(lines=True, seeds=20, given=frozenset({"lines", "seeds"}))
    with pytest.raises(UsageError, match="--seeds means nothing for --lines"):
        check_conflicts(typed, "bench")
