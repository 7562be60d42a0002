"""What a stranger wrote reaches a terminal as text, and never as an order to it or to Rich."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import pytest
from command_line import COMMAND, environment, warpfuzz
from hypothesis import given
from hypothesis import strategies as st
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from corpus import Case, Identity, Kind, create_corpus
from fuzz.output import console, encoded, harmless

ORDERS = (
    "\x1b]0;owned\x07", "\x1b[2J", "\x9b31m", "\r", "\x08", "\x7f", "\u202e", "\u2066", "\x00",
)  # fmt: skip


def shown(thing: object) -> str:
    file = io.StringIO()
    console(file=file, force_terminal=True, color_system=None, width=200).print(thing)
    return file.getvalue()


def is_harmless(text: str) -> bool:
    return all(sign.isprintable() or sign in "\n\t" or ord(sign) == 0xA0 for sign in text)


@pytest.mark.parametrize("order", ORDERS)
def test_a_text_gives_no_orders_however_it_is_shown(order: str) -> None:
    hostile = f"a{order}b [/] [bold] :warning: \\[x] [link=x]"
    table = Table("head")
    table.add_row(hostile)
    table.add_row(Text(hostile))
    for thing in (hostile, Text(hostile), table, Panel(hostile, title=Text(hostile))):
        text = shown(thing)
        assert order not in text
        assert "[/] [bold] :warning:" in text


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_text_is_harmless(text: str) -> None:
    assert all(
        sign not in harmless(text, one_line=True)
        for sign in map(chr, (*range(0x20), *range(0x7F, 0xA0)))
    )
    assert json.loads(encoded({"a": text})) == {"a": text}
    line = encoded({"a": text})
    assert len(line.splitlines()) == 1
    assert not any(0x7F <= ord(sign) < 0xA0 for sign in line)


def test_a_long_text_is_cut() -> None:
    assert len(harmless("x" * 10_000_000)) < 300_000


HOSTILE = "\x1b]0;owned\x07[/]\u202e\x9b"


def test_a_hostile_finding_or_name_is_shown_as_text(tmp_path: Path) -> None:
    case = Case(
        kind=Kind.CRASH,
        identity=Identity(failure="wrong result", instructions=("k",)),
        instructions=(f"wmma.load{HOSTILE};",),
        target="sm_90", ptx_version="8.0", comment=HOSTILE,
    )  # fmt: skip
    files = {"module.ptx": f"// {HOSTILE} [/bold]\n".encode()}
    saved = create_corpus(tmp_path / "c", generator="test").add(case, files)
    for code, *words in (
        (0, "corpus", "list", "c"), (0, "corpus", "list", "c", "--json"),
        (0, "corpus", "show", saved.id, "--corpus", "c"),
        (2, "corpus", "list", HOSTILE), (2, HOSTILE),
    ):  # fmt: skip
        ended = warpfuzz(tmp_path, *words)
        assert ended.code == code, ended.err
        assert is_harmless(ended.out + ended.err)


def test_a_reader_that_goes_away_ends_the_command_quietly(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "isa", "--json"], cwd=tmp_path, env=environment(tmp_path),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 128 + 13


@pytest.mark.parametrize(
    "arguments",
    [("corpus", "list", "record"), ("explain", "wmma.mma \u2603")],
    ids=" ".join,
)
def test_a_terminal_that_knows_ascii_alone_gets_ascii(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "COLUMNS": "99999999"}
    told = warpfuzz(tmp_path, *arguments, **plain)
    assert told.code == 0, told.err
    assert told.out.strip()
    assert (told.out + told.err).isascii()


@pytest.mark.parametrize("columns", ["0", "-1", "x", ""])
def test_a_width_that_is_none_is_not_taken(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert console(file=io.StringIO()).width >= 80


def test_a_row_of_a_table_is_one_line_in_a_pipe(tmp_path: Path) -> None:
    """`grep` found halves of titles, and an opcode was cut in the middle (2026-11-24)."""
    out = warpfuzz(tmp_path, "corpus", "list", "record").out
    shown = [json.loads(line) for line in
             warpfuzz(tmp_path, "corpus", "list", "record", "--json").out.splitlines()]  # fmt: skip
    lines = out.splitlines()[1:-1]
    assert [line.split(" ")[0] for line in lines] == [one["id"] for one in shown]
    assert all(line == line.rstrip() for line in lines)
    assert max(map(len, lines)) > 160


def test_an_entry_that_holds_no_more_is_mentioned(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'schema = 2\n[[known]]\nid = "old"\nfailure = "crash"\ncompilers = [{ name = "ptxas" }]\n'
        'cause = "was waited for"\nevidence = "none"\nexpires = 2020-01-01\n'
    )
    told = warpfuzz(tmp_path, "corpus", "list", "record", "--known", "mine.toml")
    assert "old expired on 2020-01-01" in " ".join(told.err.split())
