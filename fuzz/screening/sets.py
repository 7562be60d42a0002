"""A screening set: programs, their images, and what must come out, in one file; and its counts."""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import re
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from corpus import durable
from corpus.programs import decode_program, encode_program
from fuzz.findings.families import form_name
from fuzz.output import counted
from oracle.errors import UsageError, WarpfuzzError
from oracle.isa.targets import Module, parse_target
from oracle.program.program import Program, walk
from oracle.program.steps import is_lane_code
from runners.ledger import ROWS, Ledger, Rate
from runners.screening import References
from strategies.contents import Recipe
from strategies.features import main_form

_MAGIC = b"warpfuzz screening set\n"
_FORMAT = 1  # version of what is written here
_LENGTH_BYTES = 8
_DIGEST_BYTES = 32
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


@dataclass(kw_only=True)
class Tally:
    """What a device made of a set."""

    cases: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(ROWS, np.uint64))
    """(ROWS,) images that each multiprocessor ran and compared."""
    wrong: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(ROWS, np.uint64))
    """(ROWS,) those of them that differed."""
    bits: Counter[int] = field(default_factory=Counter)
    """By number of the bit in its element, counted from the lowest: how many elements differed in
    it, of the images that were kept."""
    images: Counter[str] = field(default_factory=Counter)
    """By program: how many images were compared."""
    programs: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    """By program of which images differed: (ROWS,) how many on each multiprocessor."""
    instructions: Counter[str] = field(default_factory=Counter)
    """By what the program is about: how many images differed."""

    def add(self, ledger: Ledger, source: SetProgram) -> None:
        """Count a launch of a program."""
        self.cases += ledger.finished
        self.wrong += ledger.wrong
        self.images[source.entry] += int(ledger.finished.sum())
        if wrong := int(ledger.wrong.sum()):
            before = self.programs.get(source.entry, np.zeros(ROWS, np.int64))
            self.programs[source.entry] = before + ledger.wrong
            self.instructions[form_name(main_form(source.program))] += wrong

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
        """Say whether it is always the same unit, bit or instruction; empty if nothing differed."""
        if not self.faulty.size:
            return ""
        where = f"{self.faulty.size} of {self.multiprocessors.size} multiprocessors"
        if self.faulty.size == 1:
            where = f"always multiprocessor {self.faulty[0]}"
        bit = f"always bit {next(iter(self.bits))}" if len(self.bits) == 1 else "several bits"
        only = f", always {next(iter(self.instructions))}" if len(self.instructions) == 1 else ""
        return f"{where}, {bit}, in {counted(len(self.programs), 'program')}{only}"


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
        count, image_bytes = one.references.images.shape
        program = encode_program(one.program)
        rows.append(
            _Row(
                entry=one.entry, program=program, count=count, image_bytes=image_bytes, start=start
            )
        )
        for images in (one.references.images, one.references.expected):
            blocks += [images.tobytes(), bytes(-images.nbytes % _ALIGNMENT)]
            start += _aligned(images.nbytes)
    header = msgspec.msgpack.encode(
        _Header(format=_FORMAT, description=made.description, rows=tuple(rows))
    )
    before = len(_MAGIC) + _LENGTH_BYTES + _DIGEST_BYTES + len(header)
    parts = [header, bytes(-before % _ALIGNMENT), *blocks]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    with durable.output_file(path) as file:
        file.write(_MAGIC + len(header).to_bytes(_LENGTH_BYTES, "little") + digest.digest())
        file.writelines(parts)


def read_set(path: Path) -> ScreeningSet:
    """Read a set; its images stay in the file until they are used.

    Raises UsageError if there is no such file, it is no set, it is damaged, or what it says cannot
    be.
    """
    data = _mapped(path)
    start = len(_MAGIC) + _LENGTH_BYTES + _DIGEST_BYTES
    if data[: len(_MAGIC)].tobytes() != _MAGIC or data.size < start:
        raise UsageError(f"{path} is no screening set; `warpfuzz distill --output FILE` makes one")
    digest = hashlib.sha256(data[start:].data).digest()
    if digest != data[start - _DIGEST_BYTES : start].tobytes():
        raise UsageError(
            f"{path} is damaged: its contents do not have the hash that it names; copy it anew, or "
            "distill it again from its seed"
        )
    length = int.from_bytes(data[len(_MAGIC) :][:_LENGTH_BYTES].tobytes(), "little")
    try:
        header = msgspec.msgpack.decode(data[start : start + length].tobytes(), type=_Header)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} was written by another version of warpfuzz ({error!s:.300}); distill it again"
        ) from None
    if header.format != _FORMAT:
        raise UsageError(
            f"{path} has format {header.format}, and {_FORMAT} is known here; distill it again"
        )
    blocks = data[_aligned(start + length) :]
    try:
        Module.named(header.description.target, header.description.ptx_version)
        parse_target(header.description.architecture)
        if len({row.entry for row in header.rows}) < max(1, len(header.rows)):
            raise UsageError("it has no programs, or two of one name")
        programs = [_program(row, number, blocks) for number, row in enumerate(header.rows)]
    except WarpfuzzError as error:
        # Its contents have the hash that they name: somebody made it so.
        raise UsageError(f"{path}: {error}; distill a set anew") from None
    return ScreeningSet(description=header.description, programs=programs)


def _mapped(path: Path) -> NDArray[np.uint8]:
    try:
        # A pipe is not waited for.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.ENXIO, "it is no plain file")
            if found.st_size > SET_BYTES:
                raise OSError(errno.EFBIG, f"it has more than {SET_BYTES >> 30} GiB")
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or "it is empty"
        raise UsageError(
            f"{path} cannot be read: {said}; `warpfuzz distill --output FILE` makes a set"
        ) from None


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
    return SetProgram(
        entry=row.entry,
        program=program,
        references=References(images=images, expected=expected),
        round=number,
    )


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
