"""A screening set: programs, their images, and what must come out, in one file; and its counts."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from corpus import durable
from corpus.programs import decode_program, encode_program
from fuzz.output import counted
from oracle.errors import UsageError, WarpfuzzError
from oracle.given_files import read_given, reason_of
from oracle.isa.targets import Module, parse_target
from oracle.program.program import Program, walk
from oracle.program.steps import is_lane_code
from runners.ledger import ROWS, Ledger, Rate
from runners.screening import References
from strategies.contents import Recipe

_MAGIC = b"warpfuzz screening set\n"
_FORMAT = 1  # version of what is written here
_LENGTH_BYTES = 8
_DIGEST_BYTES = 32
_HEADER_AT = len(_MAGIC) + _LENGTH_BYTES + _DIGEST_BYTES
_ALIGNMENT = 4096
SET_BYTES = 4 << 30
"""Most bytes of a set that is read: half a million images of 4 KiB, before and after."""
_ENTRY = re.compile("[A-Za-z_][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True, kw_only=True, eq=False)
class SetProgram:
    """A program of a set."""

    entry: str  # name of its kernel
    program: Program
    references: References  # its images, and what must come out
    round: int  # number of the program in its set, or of the campaign's round that it comes from
    recipe: Recipe | None = None  # how its images were made; None where nobody says

    @property
    def has_scalar_code(self) -> bool:
        """Whether it has any; compilers often get that wrong."""
        return any(map(is_lane_code, walk(self.program.steps)))


def _rows() -> NDArray[np.uint64]:
    return np.zeros(ROWS, np.uint64)


@dataclass(kw_only=True)
class Tally:
    """What a device made of a set."""

    cases: NDArray[np.uint64] = field(default_factory=_rows)
    """(ROWS,) images that each multiprocessor ran and compared."""
    wrong: NDArray[np.uint64] = field(default_factory=_rows)  # (ROWS,) those of them that differed
    images: Counter[str] = field(default_factory=Counter)
    """By program: how many images were compared."""
    programs: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    """By program of which images differed: (ROWS,) how many on each multiprocessor."""

    def add(self, ledger: Ledger, entry: str) -> None:
        """Count a launch of a program."""
        self.cases += ledger.finished
        self.wrong += ledger.wrong
        self.images[entry] += int(ledger.finished.sum())
        if ledger.wrong.any():
            before = self.programs.get(entry, np.zeros(ROWS, np.int64))
            self.programs[entry] = before + ledger.wrong

    @property
    def multiprocessors(self) -> NDArray[np.intp]:
        """Numbers of those that ran anything."""
        return np.flatnonzero(self.cases)

    @property
    def faulty(self) -> NDArray[np.intp]:
        """Numbers of those on which something differed."""
        return np.flatnonzero(self.wrong)

    @property
    def total(self) -> Rate:
        """The rate of the device."""
        return Rate(cases=int(self.cases.sum()), wrong=int(self.wrong.sum()))

    def rate(self, sm: int) -> Rate:
        """Return the rate of a multiprocessor."""
        return Rate(cases=int(self.cases[sm]), wrong=int(self.wrong[sm]))

    @property
    def least(self) -> Rate:
        """The rate of the multiprocessor that ran fewest images of those with no error."""
        right = self.cases[(self.cases > 0) & (self.wrong == 0)]
        return Rate(cases=int(right.min()) if right.size else 0, wrong=0)

    @property
    def pattern(self) -> str:
        """Say whether it is always the same multiprocessor; empty if nothing differed."""
        if not self.faulty.size:
            return ""
        where = f"{self.faulty.size} of {self.multiprocessors.size} multiprocessors"
        if self.faulty.size == 1:
            where = f"always multiprocessor {self.faulty[0]}"
        return f"{where}, in {counted(len(self.programs), 'program')}"


class Covered(msgspec.Struct, frozen=True, kw_only=True):
    """How much of one dimension a set reaches."""

    reached: int
    total: int
    missing: tuple[str, ...] = ()  # names of what it does not reach


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """The description that is stored in a set."""

    target: str  # value of `.target` of the modules
    ptx_version: str
    architecture: str  # whose arithmetic the expected images are: "sm_90"
    seed: int
    generator: int  # version of the generator of programs and contents
    warpfuzz: str
    model: str = ""
    """Name of the model that the expected images come from; empty: nobody has written it down."""
    covers: Mapping[str, Covered]
    """By dimension: forms, kinds of steps, classes of values, planted faults."""


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    entry: str
    program: bytes
    count: int
    image_bytes: int
    start: int  # byte of the first image, counted from the first block


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    description: Description
    rows: tuple[_Row, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class ScreeningSet:
    """What is screened with."""

    description: Description
    programs: Sequence[SetProgram]

    @property
    def images(self) -> int:
        """How many images it has."""
        return sum(len(one.references.images) for one in self.programs)


def write_set(path: Path, made: ScreeningSet) -> None:
    """Write a set."""
    rows, blocks, start = [], list[bytes](), 0
    for one in made.programs:
        (count, size), program = one.references.images.shape, encode_program(one.program)
        rows.append(
            _Row(entry=one.entry, program=program, count=count, image_bytes=size, start=start)
        )
        for images in (one.references.images, one.references.expected):
            blocks += [images.tobytes(), bytes(-images.nbytes % _ALIGNMENT)]
            start += _aligned(images.nbytes)
    header = msgspec.msgpack.encode(
        _Header(format=_FORMAT, description=made.description, rows=tuple(rows))
    )
    before = _HEADER_AT + len(header)
    parts = [header, bytes(-before % _ALIGNMENT), *blocks]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    with durable.output_file(path) as file:
        file.write(_MAGIC + len(header).to_bytes(_LENGTH_BYTES, "little") + digest.digest())
        file.writelines(parts)


def read_set(path: Path) -> ScreeningSet:
    """Read a set.

    Raises UsageError if there is no such file, it is no set, it is damaged, or what it says cannot
    be.
    """
    anew = "`warpfuzz distill --output FILE` makes one"
    try:
        contents = read_given(path, most=SET_BYTES)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {reason_of(error)}; {anew}") from None
    data, start = np.frombuffer(contents, np.uint8), _HEADER_AT
    if not contents.startswith(_MAGIC) or data.size < start:
        raise UsageError(f"{path} is no screening set; {anew}")
    if hashlib.sha256(data[start:].data).digest() != contents[start - _DIGEST_BYTES : start]:
        raise UsageError(
            f"{path} is damaged: its contents do not have the hash that it names; copy it anew, or "
            "distill it again from its seed"
        )
    length = int.from_bytes(contents[len(_MAGIC) :][:_LENGTH_BYTES], "little")
    try:
        header = msgspec.msgpack.decode(contents[start : start + length], type=_Header)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} was written by another version of warpfuzz ({error!s:.300}); distill it again"
        ) from None
    blocks = data[_aligned(start + length) :]
    try:
        if header.format != _FORMAT:
            raise UsageError(f"it has format {header.format}, and {_FORMAT} is known here")
        Module.named(header.description.target, header.description.ptx_version)
        parse_target(header.description.architecture)
        if len({row.entry for row in header.rows}) < max(1, len(header.rows)):
            raise UsageError("it has no programs, or two of one name")
        programs = [_program(row, number, blocks) for number, row in enumerate(header.rows)]
    except WarpfuzzError as error:
        # Its contents have the hash that they name: somebody made it so.
        raise UsageError(f"{path}: {error}; distill a set anew") from None
    return ScreeningSet(description=header.description, programs=programs)


def _program(row: _Row, number: int, blocks: NDArray[np.uint8]) -> SetProgram:
    if not _ENTRY.fullmatch(row.entry):
        raise UsageError(f"{row.entry!r:.80} is no name of a kernel")
    program = decode_program(row.program, row.entry)
    size = row.count * row.image_bytes
    if row.image_bytes != program.image_bytes or not (
        row.count > 0 and 0 <= row.start <= blocks.size - size - _aligned(size)
    ):
        raise UsageError(f"the images of {row.entry} are not where and as large as they have to be")
    images, expected = (
        blocks[start : start + size].reshape(row.count, row.image_bytes)
        for start in (row.start, row.start + _aligned(size))
    )
    references = References(images=images, expected=expected)
    return SetProgram(entry=row.entry, program=program, references=references, round=number)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
