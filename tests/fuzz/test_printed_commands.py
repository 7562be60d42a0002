"""Every command that a page, a message or a report prints is one that the command line takes.

Commands are collected from the pages and pictures, and from the source of whatever prints. Each is
parsed by the command line itself, which checks its options; `run` and `bench` also check how they
go together. Commands that only read what is installed are run. The others need a GPU, the network,
a corpus of the user's or minutes, and end there. The commands of a finding's page are run in
`tests/fuzz/findings/test_what_was_asked.py`.
"""

from __future__ import annotations

import ast
import html
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus.known import FOLDER as RECORD
from fuzz.cli import app
from fuzz.findings.case import check_trusted
from fuzz.options.declared import DEFAULT_CORPUS
from fuzz.output import typed
from oracle.errors import UsageError, WarpfuzzError
from oracle.isa.lookup import FORMS
from runners.foreign import check_named
from runners.front_ends.protocol import check_there

ROOT = Path(__file__).parents[2]
PAGES = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")))
PICTURES = sorted((ROOT / "docs").glob("*.svg"))
SOURCES = [
    path
    for room in ("fuzz", "corpus", "runners", "oracle", "strategies")
    for path in sorted((ROOT / room).rglob("*.py"))
]
NAMES = ("warpfuzz", ".venv/bin/warpfuzz")
ENDS = ("&&", "||", "|", ";", ">", ">>", "<", "&")
SHOWN = re.compile(rf"\bwarpfuzz (?:{'|'.join(app.commands)})\b")

RUN = (("compilers", "list"), ("corpus", "list"), ("corpus", "show"), ("explain",))
"""Commands that only read. `isa` does, too, and has tests of its own: it prints 752 forms."""
_IDENTITY = re.compile(r"[0-9a-f]{16}")
PLACES = {
    "ID": min(path.name for path in (RECORD / "findings").iterdir()),
    "DATE": "2027-01-01",
    "INSTRUCTION": "mma.sync",
    **dict.fromkeys(("RUNNER", "mine", "./my_command.py"), "sim"),
    **dict.fromkeys(("findings", "all", "record"), "record"),
}
"""What a person has in the place of a word of a page."""
PATHS = (
    "path", "corpus", "path or entry.path", "folder", "output", "options.path", "options.corpus",
    "path.with_suffix('.toml')",
)  # fmt: skip
TARGETS = ("compiled.architecture", "module.target.name", "target")
EXPRESSIONS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(PATHS, ("a folder",)),
    "quote(str(self.path))": ("record",),
    **dict.fromkeys(TARGETS, ("sm_90",)),
    **dict.fromkeys(("module.version", "version"), ("8.0",)),
    **dict.fromkeys(("candidate.name", "self.name"), ("13.5",)),
    **dict.fromkeys(("entry.id", "finding.id"), (PLACES["ID"],)),
    "row.finding": ("b884f655abb52017",),
    **dict.fromkeys(("release", "release_of(version)", "missing"), ("13.5",)),
    "releases": ("12.4 13.5", "llvm:15 llvm:20"),
    "focus.form.opcode": (FORMS[0].opcode,),
    **dict.fromkeys(("language", "name"), ("llvm",)),
    **dict.fromkeys(("which or WHEELS[name].releases[-1]", "WHEELS['llvm'].releases[-1]"), ("15",)),
    "option": ("--resume", "--new"),
    "wanted or '13.0'": ("13.0",),
    "*passed": ("--ptx-pass 'my-pass --opt' --front-end llvm:python3",),
    "where": ("--target sm_90 --ptx-version 8.0",),
    "*where": ("", "--runner sim --target sm_90"),
    "*status.words.replay": ("", "--ptx-pass my-pass", "--compiler 13.5 --baseline 12.4"),
}
"""What may stand in printed commands in the place of expressions, by their source; of what stands
for several words, all in one."""


def commands_in(line: str) -> Iterator[tuple[str, ...]]:
    """Iterate over the commands `warpfuzz` of a line for a shell, without the name."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] | None = None
    for word in [*lexer, ";"]:
        if word in ENDS:
            if words is not None:
                yield tuple(words)
            words = None
        elif words is not None:
            words.append(word)
        elif word in NAMES:
            words = []


def in_page(text: str) -> Iterator[tuple[str, ...]]:
    """Iterate over the commands of a page, but for names of commands in the middle of a text."""
    fence = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    for block in fence.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if SHOWN.search(line):
                found = tuple(commands_in(line))
                assert found, f"no command is found in {line!r}"
                yield from found
    for code in re.findall(r"`(warpfuzz [^`]*)`", fence.sub("", text)):
        for words in commands_in(code.replace("\n", " ")):
            if len(words) > 1:
                yield words
            else:
                assert words[0] in app.commands


def in_picture(text: str) -> Iterator[tuple[str, ...]]:
    for line in html.unescape(re.sub(r"<[^>]*>", "\n", text)).replace("\xa0", " ").splitlines():
        if SHOWN.search(line):
            yield from commands_in(line)


def in_source(text: str) -> Iterator[tuple[str, ...]]:
    """Iterate over the commands that a module prints: in backticks, or put together of words."""
    tree = ast.parse(text)
    unprinted = {
        id(node.value) for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    } | {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
        for part in node.values
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple):
            first = node.elts[:2]
            if [isinstance(one, ast.Constant) and one.value for one in first[:1]] == ["warpfuzz"]:
                yield from put_together(node)
        elif isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in unprinted:
            for printed in said(node):
                quoted = re.findall(r"`(warpfuzz [^`]*)`", printed)
                for code in quoted:
                    yield from commands_in(code)
                rest = re.sub(r"`[^`]*`", "", printed)
                assert not re.search(rf"{SHOWN.pattern} (?:-|[A-Z]|\d)", rest), (
                    f"a command without backticks: {rest!r}"
                )


def put_together(node: ast.List | ast.Tuple) -> Iterator[tuple[str, ...]]:
    for parts in product(*map(said, node.elts)):
        words = [
            word
            for part, one in zip(parts, node.elts, strict=True)
            for word in (shlex.split(part) if isinstance(one, ast.Starred) else [part])
        ]
        if words[1] in app.commands:
            yield tuple(words[1:])


def said(node: ast.expr) -> tuple[str, ...]:
    """Return what an expression may say: several things, where its samples are several."""
    if isinstance(node, ast.Constant):
        return (str(node.value),)
    if isinstance(node, ast.JoinedStr):
        if not any("warpfuzz " in part for value in node.values for part in _constant(value)):
            return ()
        return tuple(map("".join, product(*map(said, node.values))))
    source = ast.unparse(node.value if isinstance(node, ast.FormattedValue) else node)
    return EXPRESSIONS.get(source, (f"\N{LEFT CEILING}{source}",))


def _constant(node: ast.expr) -> tuple[str, ...]:
    return (str(node.value),) if isinstance(node, ast.Constant) else ()


def checked(words: Sequence[str]) -> tuple[click.Command, click.Context]:
    """Parse a command as the command line does."""
    command: click.Command = app
    context = app.make_context("warpfuzz", list(words))
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command, context = found, found.make_context(name, rest, parent=context)
    return command, context


PARTS = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1
) | st.binary(min_size=1).map(lambda data: os.fsdecode(data.replace(b"\0", b"x")))


@settings(max_examples=15)
@given(st.lists(PARTS, min_size=1))
def test_a_shell_reads_the_words_of_a_command_as_they_were(words: list[str]) -> None:
    """A folder with a line end or a sign for terminals in its name was shown as another one."""
    line = typed(words)
    assert line.isprintable()
    read = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True)
    assert read.stdout.split(b"\0")[:-1] == list(map(os.fsencode, words))
    # `warpfuzz replay -c` was printed for a corpus in the folder `-c` (2026-11-24).
    assert typed(("replay", Path("-c"), "--runner", "-")) == "replay ./-c --runner -"


@pytest.mark.parametrize(
    "check",
    [
        lambda command: check_trusted(command, option="--ptx-pass", named_by="it", trust=False),
        lambda command: check_named(f"./no-{command}", ()),
        lambda command: check_there([["./no"]], command),
    ],
)
def test_a_message_shows_a_command_as_a_shell_takes_it_again(check) -> None:
    """A refused pass was shown with its backslashes doubled: pasted, it changed nothing, and the
    finding was gone (2026-11-24)."""
    precious = r"sed s/\\.trans//"
    with pytest.raises(UsageError) as caught:
        check(precious)
    said = str(caught.value)
    shown = said[min(at for sign in "'\"" if (at := said.find(sign)) >= 0) :]
    assert shlex.split(shown, posix=True)[0].rstrip(":,").endswith(precious), said


@pytest.fixture(autouse=True)
def _corpus_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / DEFAULT_CORPUS).symlink_to(RECORD)


def begun(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin a command: run it if it only reads, else check its options."""
    from fuzz.commands import bench, run

    command, context = checked(words)
    monkeypatch.setattr(run, "_run", lambda options, stack: run.budget_of(options))
    for search in ("_search", "_search_lines"):
        monkeypatch.setattr(bench, search, lambda options: False)
    ran = words[:1] in (("run",), ("bench",)) or any(words[: len(one)] == one for one in RUN)
    if ran:
        with context:
            assert not command.invoke(context) or words[0] == "run"


def wrong(found: Iterator[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what the command line says of the commands that it does not take."""
    said = []
    for words in dict.fromkeys(found):
        given = tuple(PLACES.get(_IDENTITY.sub("ID", word), word) for word in words)
        line = shlex.join(words)
        if "\N{LEFT CEILING}" in line:
            said.append(f"{line}: say in EXPRESSIONS what stands there")
            continue
        try:
            begun(given, monkeypatch)
        except click.exceptions.Exit:
            assert "--help" in words
        except (click.ClickException, WarpfuzzError) as error:
            said.append(f"{line}: {error}")
    return said


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_of_a_page_is_complete(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wrong(in_page(path.read_text()), monkeypatch) == []


def test_every_command_of_a_picture_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [words for path in PICTURES for words in in_picture(path.read_text())]
    assert {words[0] for words in found} >= {"run", "replay", "repro"}
    assert wrong(iter(found), monkeypatch) == []


def test_every_command_of_a_message_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [text for path in SOURCES if "warpfuzz" in (text := path.read_text())]
    found = [found for text in texts if (found := tuple(in_source(text)))]
    assert len(found) > 20
    every = (words for commands in found for words in commands)
    assert wrong(every, monkeypatch) == []


@pytest.mark.parametrize(
    "line",
    [
        "warpfuzz run --no-such-option",
        "warpfuzz corpus merge",
        "warpfuzz run --time soon",
        "warpfuzz bench --images 5",
        "warpfuzz run --new --resume",
        "warpfuzz explain",
    ],
)
def test_a_command_that_is_not_complete_is_seen(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = f"text\n\n```sh\n{line}\n```\n"
    message = f"raise UsageError('try `{line}`')"
    for found in (in_page(page), in_source(message)):
        assert len(wrong(found, monkeypatch)) == 1
