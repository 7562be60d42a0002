"""What warpfuzz reads: sound examples of each kind, how they are broken, and who reads them."""

from __future__ import annotations

import io
import json
import resource
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
from hypothesis import strategies as st
from repro_cases import half, multiplication, stored

from corpus import Case, Entry, create_corpus, open_corpus
from corpus.exchange import export_zip, grouped, json_lines, merge, opened_archive, read_case
from corpus.known import PACKAGED, load_known
from fuzz.campaign.store import CampaignStore, State
from fuzz.checks.protocol import Counts, flattened
from fuzz.commands.reference import judge_file
from fuzz.commands.run import _seed, resumed
from fuzz.explain.folder import reproduction
from fuzz.explain.page import page_of
from fuzz.findings.case import ReplayOptions, commands_of
from fuzz.findings.replay import Replays
from fuzz.options.testing import Legal, Run
from fuzz.output import console
from fuzz.screening.sets import Description, ScreeningSet, read_set, write_set
from oracle.errors import InfrastructureError, WarpfuzzError
from oracle.isa.targets import Module
from oracle.models import model_for
from oracle.models.files import model_text, read_model
from strategies.contents import Recipe, ValueClass
from strategies.features import Focus
from strategies.rounds import Batch, ProgramCoverage, Reached

SECONDS = 10
"""Time for one answer."""
MEMORY = 1 << 30
"""Bytes for one answer, beside what the tests have already."""
PROGRAM = multiplication(half())


@dataclass(frozen=True, kw_only=True)
class Input:
    """A kind of file that somebody may give."""

    name: str
    """Name of the file."""
    sound: bytes = field(repr=False)
    read: Callable[[Path], object] = field(repr=False)
    """Does with it whatever warpfuzz does."""


def inputs(folder: Path) -> Mapping[str, Input]:
    """Return an example of each kind of input, by name."""
    entry = stored(folder / "finding", PROGRAM, faults=("accumulator-ignored",))
    corpus = open_corpus(folder / "finding")
    export_zip(corpus, corpus.entries(), folder / "all.zip")
    write_set(folder / "some.set", _screening_set())
    asked = {"runner": "sim", "only": "*"}
    state = State(options={"--seed": 5}, asked=asked, started="2026")
    state.coverage = Reached(ProgramCoverage).state()
    state.counts = {"programs": {"compiled": 1}}
    known = files("corpus").joinpath(PACKAGED).read_bytes()
    case = {"kind": "violation", "made": {"runner": "sim"}, "comment": "mine"}
    module = entry.read("module.ptx")
    found = [
        Input(name="finding.json", sound=(entry.path / "finding.json").read_bytes(),
              read=lambda path: _as_description(path, entry)),
        *(
            Input(name=name, sound=entry.read(name), read=lambda path: _as_file(path, entry))
            for name in entry.finding.files
        ),
        Input(name="corpus.json", sound=(corpus.path / "corpus.json").read_bytes(), read=_manifest),
        Input(name="case.json", sound=json.dumps(case).encode(),
              read=lambda path: _by_hand(path, {"module.ptx": module})),
        Input(name="mine.ptx", sound=module, read=_module),
        Input(name="all.zip", sound=(folder / "all.zip").read_bytes(), read=_archive),
        Input(name="some.set", sound=(folder / "some.set").read_bytes(), read=read_set),
        Input(name="known.toml", sound=known[:6000].rpartition(b"\n[[known]]")[0],
              read=lambda path: load_known(path).match(entry.finding)),
        Input(name="model.toml", sound=model_text(model_for("sm_90")).encode(), read=read_model),
        Input(name="state.json", sound=msgspec.json.encode(state), read=_state),
    ]  # fmt: skip
    return {one.name: one for one in found}


def _screening_set() -> ScreeningSet:
    return ScreeningSet(
        description=Description(
            target="sm_90", ptx_version="8.0", seed=1, generator=1,
            warpfuzz="test", model="", covers=(),
        ),
        programs=[
            Batch(
                entry="k", program=PROGRAM, recipe=Recipe(classes=(ValueClass.BITS,), seed=1),
                focus=Focus(), count=2, module=Module.named("sm_90"), form=None,
            )
        ],
    )  # fmt: skip


# Readers


def _as_description(path: Path, entry: Entry) -> None:
    folder = path.with_name("corpus") / "findings" / entry.id
    shutil.copytree(entry.path.parents[1], path.with_name("corpus"))
    shutil.copy(path, folder / "finding.json")
    used(path.with_name("corpus"))


def _as_file(path: Path, entry: Entry) -> None:
    """Have a file in a finding that is whole: whoever made it knows how."""
    corpus = create_corpus(path.with_name("corpus"), generator="test")
    case = Case(**{name: getattr(entry.finding, name) for name in Case.__struct_fields__})
    corpus.add(case, {**entry.files(), path.name: path.read_bytes()})
    used(corpus.path)


def used(folder: Path) -> None:
    """Do with a corpus what commands do."""
    out = console(file=io.StringIO(), width=120)
    corpus = open_corpus(folder)
    problems: list[Any] = []
    entries = list(corpus.entries(problems.append))
    merge(create_corpus(folder.with_name("merged"), generator="test"), [corpus])
    list(json_lines(entries))
    for group in grouped(entries):
        out.print(str(group))
    errors: list[WarpfuzzError] = []
    for entry in entries:
        out.print(str(commands_of(entry)))
        for act in (page_of, reproduction):
            try:
                out.print(act(entry))
            except WarpfuzzError as error:
                errors.append(error)
    with Replays(ReplayOptions()) as replays:
        for entry in entries:
            replayed = replays.replay(entry, times=1)
            replayed.row()
            # What is caught there so that no finding ends the replay of another is to be mended.
            assert "cannot be replayed" not in replayed.now.message, replayed.now.message
    if problems or errors:
        sentences = [problem.sentence for problem in problems] + [str(one) for one in errors]
        raise InfrastructureError("; ".join(sentences))


def _manifest(path: Path) -> None:
    folder = path.with_name("corpus")
    folder.mkdir()
    shutil.copy(path, folder / "corpus.json")
    open_corpus(folder)


def _by_hand(path: Path, others: Mapping[str, bytes]) -> None:
    folder = path.with_name("case")
    folder.mkdir()
    for name, data in {**others, path.name: path.read_bytes()}.items():
        (folder / name).write_bytes(data)
    corpus = create_corpus(path.with_name("corpus"), generator="test")
    corpus.add(*read_case(folder))
    used(corpus.path)


def _module(path: Path) -> None:
    judge_file(Legal(file=path, json=True))
    case = {"kind": "violation", "made": {"runner": "sim"}}
    path.with_name("case.json").write_text(json.dumps(case))
    _by_hand(path.with_name("case.json"), {"module.ptx": path.read_bytes()})


def _archive(path: Path) -> None:
    with opened_archive(path) as corpus:
        merge(create_corpus(path.with_name("merged"), generator="test"), [corpus])


def _state(path: Path) -> None:
    corpus = create_corpus(path.with_name("corpus"), generator="test")
    with CampaignStore(corpus.path) as store:
        shutil.copy(path, store.folder / "state.json")
        state = store.load()
    assert state is not None
    resumed(Run(), state)
    _seed(Run(), state)
    try:
        Counts().update(flattened(state.counts))
        Reached(ProgramCoverage).restore(state.coverage)
    except (KeyError, TypeError, ValueError) as error:  # what Campaign turns into a sentence
        raise InfrastructureError(f"{path}: {error}") from None


# Broken examples


_LONG = [
    b"9" * 5000, b"[" * 20_000, b'{"a":' * 5000, b"a." * 5000, b"{" * 20_000, b"(" * 5000,
    b"wmma.mma." * 3000, b" " * 200_000,
]  # fmt: skip
_SHORT = [
    b"\x00", b"\xff", b"\x1b]0;x\x07", b"-1", b"1e999", b"NaN", b"9223372036854775808", b'"', b"'",
    b"\\u0000", b"\\ud800", b"null", b"true", b"0123", b"0x", b"{}", b"}", b";", b"/*", b"//",
    b"\n", b"<2000000000>", b"[/]", b"../", b"1099511627776", b"4294967296", b"bra L;", b"L:",
]  # fmt: skip
_VALUES = st.sampled_from(
    [
        None, True, -1, 0, 1, 2**31, 2**32, 2**63, 10**30, 1.5, 1e308, "", "x", "\x1b]0;x\x07",
        "/dev/zero", "../..", [], {}, [[]] * 3, "9" * 5000, "sm_90", "x" * 100_000, [0] * 10_000,
    ]
)  # fmt: skip


@st.composite
def broken(draw: st.DrawFn, sound: bytes) -> bytes:
    """Return an example with some places changed: of JSON, values, fields and their order, too."""
    data = sound
    if sound.lstrip()[:1] == b"{" and draw(st.booleans()):
        data = json.dumps(changed(draw, json.loads(sound))).encode()
        if draw(st.booleans()):
            return data
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.sampled_from([0, 1, 2, 8, 64, 4096])))
        token = draw(st.sampled_from([b"", *_SHORT, data[start:end] * 3]) | st.sampled_from(_LONG))
        data = data[:start] + token + (b"" if draw(st.integers(0, 9)) == 0 else data[end:])
    return data


def changed(draw: st.DrawFn, document: Any) -> Any:
    """Change some places of a document of JSON: values, fields and their order; return it."""
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(document))
        if not places:
            break
        where, key = draw(st.sampled_from(places))
        match draw(st.sampled_from(["value", "gone", "twice", "deep", "name"])):
            case "value":
                where[key] = deepcopy(draw(_VALUES))
            case "gone":
                del where[key]
            case "twice" if isinstance(where, list):
                where.extend([where[key]] * draw(st.sampled_from([1, 100, 5000])))
            case "deep":
                for _ in range(draw(st.sampled_from([1, 30, 400]))):
                    where[key] = draw(st.sampled_from([[where[key]], {"a": where[key]}]))
            case "name" if isinstance(where, dict):
                where[str(draw(_VALUES))[:200]] = where.pop(key)
            case _:
                where[key] = deepcopy(draw(_VALUES))
    return document


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(document) if isinstance(document, dict) else range(len(document))
    for key in keys:
        yield document, key
        if isinstance(document[key], dict | list):
            yield from _places(document[key])


# Bounds


@contextmanager
def bounded() -> Iterator[None]:
    """Allow so many seconds and bytes; what takes more fails."""

    def late(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"no answer within {SECONDS} s")

    status = Path("/proc/self/statm")
    there = int(status.read_text().split()[0]) * resource.getpagesize() if status.exists() else 0
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    if there:
        resource.setrlimit(resource.RLIMIT_AS, (there + MEMORY, hard))
    # Of processor time, so that a machine with other work is no failure.
    signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))
