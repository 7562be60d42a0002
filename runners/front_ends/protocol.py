"""Front ends: compilers that write PTX from the programs of a module, and those that are here."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from oracle.errors import UsageError
from oracle.lane_steps import MoveRegisters, SetRegisters
from oracle.program import Program, by_register, walk
from runners.kernels import KernelModule
from runners.protocol import Failure

RELEASE = re.compile(r"\d{1,4}(\.\d{1,4}){0,3}")
"""What stands for a version in the name of a front end: "15", "12.4.131"."""
_SPELLED = re.compile(r"([a-z]+)(?::(.*))?", re.DOTALL)


class FrontEnd(AbstractContextManager["FrontEnd"], Protocol):
    """A compiler that writes PTX from the programs of a module, at one -O level."""

    @property
    def name(self) -> str:
        """The compiler in words, such as "LLVM 15.0.7 at -O2"."""
        ...

    def __call__(self, module: KernelModule) -> KernelModule | Failure:
        """Return the module with the PTX that it wrote, or why there is none.

        The trouble is UNSUPPORTED where the language or this version of it has no way to say the
        programs; that is no fault of the compiler.
        """
        ...

    def close(self) -> None:
        """End what it has running."""
        ...


def check_named(programs: Iterable[Program]) -> None:
    """Raise UsageError if a language without registers cannot say a program.

    There values have names, and the compiler chooses the registers.
    """
    for program in programs:
        for step in walk(program.steps):
            if isinstance(step, SetRegisters | MoveRegisters) or any(
                by_register(step, use) for use in step.uses
            ):
                raise UsageError(
                    f"the step {str(step)!r:.200} says which registers it uses; only PTX can, "
                    "so run the program without --front-end"
                )


def order(version: str) -> tuple[int, ...]:
    """Return a key that sorts older versions before newer ones; empty for what is none."""
    return tuple(map(int, version.split("."))) if RELEASE.fullmatch(version) else ()


@dataclass(frozen=True, kw_only=True)
class Installed(ABC):
    """A front end that is here."""

    language: str
    """The name by which `--front-end` knows it: "llvm"."""
    version: str
    """Such as "15.0.7"; of a command the command."""
    spelled: str
    """What a person types to have it, and a finding names: "llvm:15.0.7"."""
    path: str
    """Where it is."""

    @property
    def order(self) -> tuple[int, ...]:
        """Key that sorts older versions before newer ones; empty for what has none."""
        return order(self.version)

    @property
    def levels(self) -> tuple[int, ...]:
        """-O levels that it has."""
        return (0, 1, 2, 3)

    @property
    @abstractmethod
    def default_level(self) -> int:
        """-O level that it takes where nobody says."""

    @abstractmethod
    def knows(self, target: str, version: str) -> bool:
        """Whether it writes modules of this target and PTX ISA version.

        Raises
        ------
        InfrastructureError
            If it cannot be run.
        """

    @abstractmethod
    def opened(self, level: int) -> FrontEnd:
        """Return the compiler, ready to work; the caller closes it.

        Raises
        ------
        InfrastructureError
            If it cannot be run.
        """

    def has_version(self, version: str) -> bool:
        """Whether this is what "15" or "15.0.7" names."""
        parts = tuple(map(int, version.split(".")))
        return self.order[: len(parts)] == parts


def parted(spelled: str) -> tuple[str, str]:
    """Return the language that the name of a front end begins with, and what is after the colon.

    Raises
    ------
    UsageError
        If it begins with none.
    """
    found = _SPELLED.fullmatch(spelled.strip())
    if found is None:
        raise UsageError(
            f"{spelled!r:.200} names no front end; give a language, and after a colon a version, a "
            "folder or a command, such as llvm, llvm:15 or 'llvm:my-llc {level}'"
        )
    return found[1], (found[2] or "").strip()


def names_program(spelled: str) -> bool:
    """Whether the name of a front end has a folder or a command in it, and no mere version."""
    which = parted(spelled)[1]
    return bool(which) and RELEASE.fullmatch(which) is None


def each(spelled: Sequence[str]) -> tuple[str, ...]:
    """Return the front ends that texts name, each once: versions may have commas between them."""
    found: list[str] = []
    for text in spelled:
        parts = [part.strip() for part in text.split(",")]
        plain = all(_SPELLED.fullmatch(part) and not names_program(part) for part in parts)
        found += parts if plain else [text]
    return tuple(dict.fromkeys(found))
