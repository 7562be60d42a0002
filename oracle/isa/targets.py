"""PTX ISA versions and targets, as data; asked of ptxas 11.7 to 13.5 (2026-11), and as released."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Self

from oracle.errors import UsageError


class Dotted(NamedTuple):
    """Two numbers with a dot between them; "unknown" for 0 and 0."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}" if any(self) else "unknown"


class PtxVersion(Dotted):
    """A version of the PTX ISA, as in `.version 8.0`."""


class Release(Dotted):
    """A release of CUDA, by which its compilers are called: 12.4 has ptxas 12.4.131."""


UNKNOWN_RELEASE = Release(0, 0)
"""Release of a compiler that does not tell its own: older than every range of releases."""
_RELEASE = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})")
_COMPILED = re.compile(rf"(\w+)@(unknown|{_RELEASE.pattern})")


def parse_release(text: str) -> Release:
    """Return the release that a text names, "12.4" or "unknown"; UsageError if it names none."""
    match = _RELEASE.fullmatch(text)
    if match is None and text != str(UNKNOWN_RELEASE):
        raise UsageError(f'{text!r:.80} is no release of CUDA; give one such as "12.4"')
    return UNKNOWN_RELEASE if match is None else Release(int(match[1]), int(match[2]))


@cache
def split_compiler(text: str) -> tuple[str, Release | None]:
    """Take apart "sm_90@12.4": a target, and a compiler's release; None is the newest known."""
    match = _COMPILED.fullmatch(text) if isinstance(text, str) else None
    return (text, None) if match is None else (match[1], parse_release(match[2]))


# Every version of the PTX ISA so far (PTX ISA, chapter "Release Notes"); 9.4 and 9.5 are newer than
# the stored pages: the highest that ptxas 13.4 and 13.5 accept (2026-11).
_LAST_MINOR = {1: 5, 2: 3, 3: 2, 4: 3, 5: 0, 6: 5, 7: 8, 8: 8, 9: 5}
VERSIONS: tuple[PtxVersion, ...] = tuple(
    PtxVersion(major, minor) for major, last in _LAST_MINOR.items() for minor in range(last + 1)
)
_SINCE_CUDA = {
    (11, 0): (7, 0), (11, 1): (7, 1), (11, 2): (7, 2), (11, 3): (7, 3), (11, 4): (7, 4),
    (11, 5): (7, 5), (11, 6): (7, 6), (11, 7): (7, 7), (11, 8): (7, 8), (12, 0): (8, 0),
    (12, 1): (8, 1), (12, 2): (8, 2), (12, 3): (8, 3), (12, 4): (8, 4), (12, 5): (8, 5),
    (12, 7): (8, 6), (12, 8): (8, 7), (12, 9): (8, 8), (13, 0): (9, 0), (13, 1): (9, 1),
    (13, 2): (9, 2), (13, 3): (9, 3), (13, 4): (9, 4), (13, 5): (9, 5),
}  # fmt: skip
"""By CUDA: the newest version that ptxas and driver read (PTX ISA, "Release Notes"; 2026-11)."""


def newest_for_cuda(cuda: str) -> PtxVersion | None:
    """Return the newest PTX ISA version that the driver of CUDA "13.0" reads, if known."""
    match = re.match(r"([0-9]{1,3})\.([0-9]{1,3})(?![0-9])", cuda)
    if match is None:
        return None
    own = int(match[1]), int(match[2])
    return max((PtxVersion(*new) for since, new in _SINCE_CUDA.items() if since <= own),
               default=None)  # fmt: skip


DEFAULT_TARGET = "sm_90"
DEFAULT_VERSION = "8.0"


@cache
def parse_version(text: str) -> PtxVersion:
    """Return the PTX ISA version that `text` names, such as "8.0"; UsageError if there is none."""
    match = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})", text) if isinstance(text, str) else None
    version = PtxVersion(int(match[1]), int(match[2])) if match else None
    if version is None or version not in VERSIONS:
        raise UsageError(
            f"there is no PTX ISA version {text!r:.80}; known are {VERSIONS[0]} to {VERSIONS[-1]}, "
            'written like "8.0"'
        )
    return version


@dataclass(frozen=True, kw_only=True)
class Target:
    """One value of the `.target` directive."""

    name: str
    """Spelling in a module: "sm_90a"."""
    number: int
    """Compute capability times ten: 90 for sm_90."""
    suffix: str = ""
    """Empty, or of features that no other target has: "a" (architecture-specific), "f" (family)."""
    since: PtxVersion
    """First PTX ISA version that knows the target."""
    until: PtxVersion | None = None
    """First PTX ISA version that knows it no more (because it was renamed)."""
    family: int | None = None
    """Number of the oldest member of its family, where the ISA defines families (sm_100 on)."""


def _rows() -> tuple[Target, ...]:
    v = PtxVersion
    plain = {
        30: v(3, 0), 32: v(4, 0), 35: v(3, 1), 37: v(4, 1), 50: v(4, 0), 52: v(4, 1), 53: v(4, 2),
        60: v(5, 0), 61: v(5, 0), 62: v(5, 0), 70: v(6, 0), 72: v(6, 1), 75: v(6, 3), 80: v(7, 0),
        86: v(7, 1), 87: v(7, 4), 88: v(9, 0), 89: v(7, 8), 90: v(7, 8),
    }  # fmt: skip
    rows = [Target(name=f"sm_{one}", number=one, since=since) for one, since in plain.items()]
    rows.append(Target(name="sm_90a", number=90, suffix="a", since=v(8, 0)))
    # number: (plain and "a" since, "f" since, until, family). sm_101 became sm_110 in 9.0
    # (9.7.14.5.15, Target ISA Notes).
    blackwell = {
        100: (v(8, 6), v(8, 8), None, 100),
        101: (v(8, 6), v(8, 8), v(9, 0), 101),
        103: (v(8, 8), v(8, 8), None, 100),
        # The stored pages do not know sm_107; that ptxas 13.5 gives it the forms of the sm_100
        # family is all that is known of its family.
        107: (v(9, 4), v(9, 4), None, 100),
        110: (v(9, 0), v(9, 0), None, 110),
        120: (v(8, 7), v(8, 8), None, 120),
        121: (v(8, 8), v(8, 8), None, 120),
    }
    for number, (since, since_f, until, family) in blackwell.items():
        for suffix, first in (("", since), ("a", since), ("f", since_f)):
            rows.append(Target(
                name=f"sm_{number}{suffix}", number=number, suffix=suffix, since=first,
                until=until, family=family,
            ))  # fmt: skip
    return tuple(rows)


TARGETS: dict[str, Target] = {row.name: row for row in _rows()}


@cache
def parse_target(text: str) -> Target:
    """Return the target that `text` names, such as "sm_90"; UsageError lists those that are."""
    target = TARGETS.get(text) if isinstance(text, str) else None
    if target is None:
        raise UsageError(f"there is no target {text!r:.80}; known are {', '.join(TARGETS)}")
    return target


@dataclass(frozen=True)
class Module:
    """What a PTX module is written for: the values of its `.target` and `.version`."""

    target: Target
    version: PtxVersion

    @classmethod
    @cache
    def named(cls, target: str = DEFAULT_TARGET, version: str | None = None) -> Self:
        """Return the module; None: DEFAULT_VERSION, or the target's first if that is later."""
        row = parse_target(target)
        if version is not None:
            return cls(row, parse_version(version))
        return cls(row, max(parse_version(DEFAULT_VERSION), row.since))

    @property
    def exists(self) -> bool:
        """Whether the version knows the target: whether there can be such a module at all."""
        until = self.target.until
        return self.target.since <= self.version and (until is None or self.version < until)

    def __str__(self) -> str:
        return f"{self.target.name} with PTX ISA {self.version}"


def versions_of(target: Target) -> tuple[PtxVersion, ...]:
    """Return the PTX ISA versions that know a target, the oldest first."""
    return tuple(version for version in VERSIONS if Module(target, version).exists)
