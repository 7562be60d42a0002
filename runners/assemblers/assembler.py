"""One assembler: what it accepts, kept in the user's cache folder by the hash of the binary."""

from __future__ import annotations

import contextlib
import errno
import json
import re
import tempfile
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar, Unpack

import msgspec

from oracle.errors import InfrastructureError, UsageError
from oracle.isa.targets import TARGETS, VERSIONS, PtxVersion, parse_target
from runners.cuda.compilation import CompilerLimits, PtxasCompiler, digest_of, version_told
from runners.folders import cache_folder, disk_full, temporary_folder, writing
from runners.processes import Finished, run_tool
from runners.ptx_text import opening
from runners.toolchains import Toolchain, ToolOrigin
from runners.variants import PLAIN, Variant, split_variant

_QUESTION_SECONDS = 20.0
"""A question takes 10 ms (ptxas 13.5, 2026-11); the rest is for slow machines."""
MEMORY_BYTES = 4 << 30
"""Most address space of a process; ptxas 13.5 takes 120 MB for 8,192 instructions (2026-11)."""
_MOST_MINOR = 12
"""The second number of a version was 8 at most (PTX ISA 7.8 and 8.8, release notes), or 5 so far
(9.5); beyond this a program is asked no more, because it takes whatever it is given."""
_HELP_TARGET = re.compile(r"'(sm_\d+[a-z]?)'")
_SCHEMA = 1  # changes whenever a question is asked otherwise, so that old answers are not read
Answer = str | bool | list[str]
T = TypeVar("T", bound=Answer)
_MOST_BYTES = 4 << 20
"""Most bytes of a file of answers; an answer takes 20, and there are a few hundred questions."""


class _Stored(msgspec.Struct):
    schema: int
    answers: dict[str, Answer]


class ToolAnswers(dict[str, Answer]):
    """The answers of one binary, by question."""

    def __init__(self, binary: str) -> None:
        self._file = cache_folder() / "answers" / f"{binary}.json"
        super().__init__(self._read())

    def put(self, question: str, answer: Answer) -> None:
        """Keep an answer, for other processes too; a cache that cannot be written is left alone."""
        self[question] = answer
        # Another process may have added answers since.
        merged = {**self._read(), **self}
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", dir=self._file.parent, prefix=".fresh-", delete=False
            ) as fresh:
                json.dump({"schema": _SCHEMA, "answers": merged}, fresh)
            Path(fresh.name).replace(self._file)

    def _read(self) -> dict[str, Answer]:
        # What is not whole, or not what was written here, was never answered.
        try:
            with self._file.open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
            stored = msgspec.json.decode(data[:_MOST_BYTES], type=_Stored)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}
        return stored.answers if stored.schema == _SCHEMA else {}


@dataclass(frozen=True, kw_only=True)
class Assembler(Toolchain):
    """A ptxas."""

    kind: str = "ptxas"
    path: Path
    version: str = ""
    """Full version: "V13.5.37"; "V" and the release where it prints none; "" if it tells none."""
    origin: ToolOrigin = ToolOrigin.GIVEN
    variant: Variant = PLAIN  # its options beside the -O level

    def __post_init__(self) -> None:
        if not self.spelled:
            object.__setattr__(self, "spelled", str(self.path))

    @property
    def release(self) -> str:
        """Release of the CUDA tools: "13.5"."""
        return ".".join(self.version.removeprefix("V").split(".")[:2])

    @property
    def label(self) -> str:
        """What a finding calls it: "V13.5.37", "V13.5.37+maxrregcount=32"."""
        return f"{self.version}{self.variant}"

    @property
    def named(self) -> str:
        """The assembler's name in a sentence."""
        return f"ptxas {self.label}"

    def __str__(self) -> str:
        return f"{self.named} ({self.path})"

    def having(self, variant: Variant) -> Assembler:
        """Return the same with these options and no others."""
        spelled = f"{split_variant(self.spelled)[0]}{variant}"
        return replace(self, variant=variant, spelled=spelled)

    def knows(self, target: str, version: str, architecture: str) -> bool:
        """Whether it compiles modules of a target and PTX ISA version for an architecture."""
        known = architecture in self.targets and self.accepts(version, target)
        return known and not self.refusal(target, architecture)

    def refusal(self, target: str, architecture: str) -> str:
        """Return what it has against its options for an architecture; "" if nothing."""
        if not self.variant:
            return ""
        own = self.variant.architecture(architecture)
        if parse_target(own).number != parse_target(architecture).number:
            return f"{own} is no sibling of {architecture}, whose code runs there"

        def ask() -> str:
            before, now = (
                self._told_of(str(self.highest_version), target, architecture, variant)
                for variant in (PLAIN, self.variant)
            )
            news = [line for line in now.text.splitlines() if line not in before.text]
            return news[0] if news else "" if now.status == 0 else f"it {now.ending}"

        return self._answer(f"{self.variant} {target} {architecture}", str, ask)

    def newest(self, target: str, architecture: str) -> PtxVersion | None:
        """Return the newest PTX ISA version of such modules; None if it knows none."""
        return self.highest_version if architecture in self.targets else None

    def compiler(self, level: int, **limits: Unpack[CompilerLimits]) -> PtxasCompiler:
        """Return what compiles at a level; raises as `PtxasCompiler` does."""
        return PtxasCompiler(self.path, level=level, variant=self.variant, **limits)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the binary, in hexadecimal; InfrastructureError if it cannot be read."""
        return digest_of(self.path)

    @cached_property
    def _answers(self) -> ToolAnswers:
        return ToolAnswers(self.digest)

    def _answer(self, question: str, kind: type[T], ask: Callable[[], T]) -> T:
        """Return what it answered to a question, or ask it now."""
        known = self._answers.get(question)
        if isinstance(known, kind):
            return known
        self._answers.put(question, answer := ask())
        return answer

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Targets that its help names, oldest first; InfrastructureError if the help names none."""

        def ask() -> list[str]:
            found = set(_HELP_TARGET.findall(asked(self.path, "--help").text))
            # By their numbers, and the letters behind them.
            if names := sorted(found, key=lambda one: (int(re.sub(r"\D", "", one)), one)):
                return names
            raise InfrastructureError(f"{self.path} --help names no target; is it a ptxas?")

        return tuple(self._answer("targets", list, ask))

    @cached_property
    def highest_version(self) -> PtxVersion:
        """Highest `.version` that it accepts, also a new one; InfrastructureError if none."""
        told = self._answer("highest version", str, lambda: str(self._highest()))
        return PtxVersion(*map(int, told.split(".")))

    def _highest(self) -> PtxVersion:
        # The target knows all versions from its first on, so what is accepted of them ends at the
        # assembler's own highest, and can be bisected.
        target = self.targets[0]
        since = TARGETS[target].since if target in TARGETS else VERSIONS[0]
        known = [version for version in VERSIONS if version >= since]
        count = bisect_left(known, True, key=lambda one: not self._tries(str(one), target))
        if not count:
            raise InfrastructureError(
                f"{self.path} accepts no .version from {known[0]} to {known[-1]} with .target "
                f"{target}; is it a ptxas?"
            )
        found = known[count - 1]
        while count == len(known) and found.minor < _MOST_MINOR:
            following = PtxVersion(found.major, found.minor + 1)
            if not self._tries(str(following), target):
                break
            found = following
        return found

    def accepts(self, version: PtxVersion | str, target: str) -> bool:
        """Whether it assembles an empty entry under `.version` and `.target` of these values."""
        question = f"{version} {target}"
        return self._answer(question, bool, lambda: self._tries(str(version), target))

    def _tries(self, version: str, target: str) -> bool:
        return self._told_of(version, target, target, PLAIN).status == 0

    def _told_of(self, version: str, target: str, architecture: str, variant: Variant) -> Finished:
        # Without an entry, ptxas does not look whether the version knows the target (2026-11).
        text = opening(target, version) + ".visible .entry k()\n{\nret;\n}\n"
        with temporary_folder() as folder:
            files = variant.files("a.ptx", text)
            with writing(folder):
                for name, one in files.items():
                    (folder / name).write_text(one)
            command = [*variant.command(architecture), *files, "-o", "a.cubin"]
            return asked(self.path, *command, folder=folder)


def identify(path: Path, origin: ToolOrigin = ToolOrigin.GIVEN, *, spelled: str = "") -> Assembler:
    """Ask a program which assembler it is.

    `spelled`: what a person typed for it; its path where that is not given. Raises UsageError if it
    is none: not there, not executable, or does not answer as a ptxas does.
    """
    advice = "give the path of a ptxas, or see `warpfuzz compilers list` for those that are here"
    if not path.is_file():
        raise UsageError(f"there is no file {path}; {advice}")
    path = path.absolute()
    try:
        told = asked(path, "--version")
    except InfrastructureError as error:
        raise UsageError(f"{path} is not an assembler: {error}") from None
    version = version_told(told.text)
    if told.status != 0 or version is None:
        # A long path in the answer would push what went wrong out of the cut.
        first = told.text.strip().partition("\n")[0].replace(str(path), path.name)[:80]
        raise UsageError(
            f"{path} is not an assembler: asked for --version it answered {first!r} "
            f"({told.ending}); {advice}"
        )
    return Assembler(path=path, version=f"V{version}", origin=origin, spelled=spelled)


def asked(
    path: Path, *arguments: str, folder: Path | None = None, deadline: float = _QUESTION_SECONDS,
    stall: float | None = None, memory_bytes: int = MEMORY_BYTES,
) -> Finished:  # fmt: skip
    """Run a tool of CUDA, its streams together; InfrastructureError: no start, or a full disk."""
    try:
        return run_tool(
            [str(path), *arguments], cwd=folder, deadline=deadline, stall=stall,
            memory_bytes=memory_bytes, together=True,
        )  # fmt: skip
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(folder or Path(tempfile.gettempdir())) from None
        raise InfrastructureError(
            f"{path} cannot be started: {error.strerror}; name a ptxas with --assembler, or fetch "
            "one with `warpfuzz compilers fetch VERSION`"
        ) from None
