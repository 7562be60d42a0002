"""How a finding was made, so that it can be made again: runner, faults, pass, compiler, level.

A corpus may come from anybody, and its findings and its campaign name assemblers, front ends and
PTX passes: commands, which are shown, and run only with the user's word. The word is `--trust`,
the same option given again, or that the same command was given in the same folder on this machine
before, which is remembered outside of any corpus. A version, and the path of an assembler that is
found here anyway, need no word.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from corpus import Entry, Finding, Kind
from corpus.finding import EXPECTED, INPUT, MODULE, PROGRAM, RIGHT
from fuzz.output import typed
from fuzz.runner import BUILT_IN, RunnerChoice
from oracle.errors import UsageError
from oracle.isa.targets import parse_target, parse_version
from runners.assemblers.assembler import Assembler
from runners.compilers import (
    Selected,
    find_front_end,
    find_front_ends,
    front_ends_of,
    front_ends_selected,
    is_discovered,
    named_assembler,
    select,
)
from runners.faults import FaultPlace, by_name
from runners.folders import cache_folder
from runners.foreign import is_command
from runners.processes import quoted
from runners.toolchains import VERSION, names_program, parted
from runners.variants import NONE, PLAIN, Variant, parse_variant, split_variant

SINCE = "since when"  # what a bisection tells
NOTHING = "none"  # in place of a fault or a pass: nothing is planted


class UntrustedError(UsageError):
    """A corpus names a command, and nobody gave his word for it."""


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """What findings are to be run with; what is left out is as each finding was made."""

    runner: str | None = None  # by its name; None: the finding's
    target: str | None = None
    ptx_version: str | None = None
    faults: tuple[str, ...] | None = None
    """Names of planted faults; none where it is empty, or `NOTHING` alone."""
    ptx_pass: str | None = None  # a command; `NOTHING`: none
    front_end: str | None = None  # what writes the PTX; `NOTHING`: warpfuzz
    assembler: str | None = None
    variant: str | None = None
    """Its options; those of the finding where neither this nor `assembler` names some."""
    level: int | None = None
    trust: bool = False  # whether commands and programs that findings name may be run
    model: str | None = None  # path of the model that judges; None: the built-in one of the target

    def choice(self, entry: Entry, *, compiled: bool = True) -> RunnerChoice:
        """Return the runner for a finding, with its own compilers and level if `compiled`.

        UntrustedError: the finding names a program. UsageError: it does not say where it ran.
        """
        made, finding = entry.finding.made, entry.finding
        target, name = self.target or finding.target, self.runner or made.runner
        if self.model is None and "model file" in finding.details:
            raise UsageError(
                f"finding {entry.id} was judged by the model {finding.details['model']}, which is "
                "not built in; give its file with --model"
            )
        if name in ("", "ptxas"):
            raise UsageError(f"finding {entry.id} does not say what found it; choose with --runner")
        if self.runner is None and is_command(name):
            self._check_trusted(entry, name, "--runner")
        again = name == made.runner
        version = max(parse_version(finding.ptx_version), parse_target(target).since)
        choice = RunnerChoice(
            name=name,
            target=target,
            ptx_version=self.ptx_version or str(version),
            layout=made.layout if again else 0,
            faults=self.planted(entry, name),
            ptx_pass=self.chosen(entry, "ptx_pass"),
            model=self.model,
        )
        if not compiled:
            return choice
        front_end, assembler = self.chosen(entry, "front_end"), self.assembler
        if assembler is None and again and made.assembler:
            self._check_trusted(entry, made.assembler, "--assembler")
            assembler = made.assembler
        return replace(
            choice,
            front_end=find_front_end(front_end) if front_end else None,
            assembler=self.having(named_assembler(assembler), variant_of(finding))
            if assembler
            else None,
            level=made.level if self.level is None and again else self.level,
        )

    def having(self, assembler: Assembler, own: Variant) -> Assembler:
        """Return an assembler with the options that are asked for, or else with a finding's own."""
        if self.variant is None:
            return assembler if assembler.variant else assembler.having(own)
        return assembler.having(parse_variant(self.variant))

    def planted(self, entry: Entry, runner: str | None = None) -> tuple[str, ...]:
        """Return the faults for a finding; those of the simulated device only there."""
        if self.faults is not None:
            return tuple(name for name in self.faults if name != NOTHING)
        faults = entry.finding.made.faults
        if runner in (None, "sim"):
            return faults
        return tuple(name for name in faults if by_name(name).place is FaultPlace.PTX)

    def chosen(self, entry: Entry, what: Literal["ptx_pass", "front_end"]) -> str | None:
        """Return the PTX pass for a finding, or what writes its PTX, if that is trusted."""
        given, made = getattr(self, what), getattr(entry.finding.made, what)
        if given is not None:
            return None if given == NOTHING else str(given)
        if made and (what == "ptx_pass" or names_program(made)):
            self._check_trusted(entry, made, f"--{what.replace('_', '-')}")
        return made or None

    def compilers(self, entry: Entry, named: str | None, *, runs: bool) -> Selected:
        """Return the compilers that a bisection asks; `runs`: the finding is of what ran.

        `named` is as `runners.compilers.select` takes it. None: versions of the front end that
        wrote the PTX, or the one that is given; those that are here where there is none.
        UsageError: one is not here, or not trusted, or no compiler has a part in the finding.
        """
        front_end = self.chosen(entry, "front_end")
        if named is None and front_end is None:
            self.chosen(entry, "ptx_pass")  # the user's word comes first
            made = entry.finding.made
            device = self.runner or made.runner
            if runs and device == "sim" and not made.assembler:
                raise UsageError(
                    f"finding {entry.id} came out on the simulated device, which runs the PTX "
                    "itself: there is no compiler to bisect; give --runner cuda on a machine with "
                    "a GPU, or name a compiler that writes PTX with --front-end"
                )
        if named is not None or front_end is None:
            given = variant_of(entry.finding) if self.variant is None else None
            return select(named).having(given or parse_variant(self.variant or NONE))
        if self.front_end is not None:
            return front_ends_selected(find_front_ends((front_end,)))
        return front_ends_of(parted(front_end)[0])

    def _check_trusted(self, entry: Entry, command: str, option: str) -> None:
        check_trusted(command, option=option, named_by=f"finding {entry.id}", trust=self.trust)

    def baseline(self, compiler: str) -> ReplayOptions:
        """Return the same with another compiler, or with `NOTHING` planted."""
        if compiler == NOTHING:
            return replace(self, faults=(), ptx_pass=NOTHING, front_end=NOTHING)
        return replace(self, assembler=compiler)


def variant_of(finding: Finding) -> Variant:
    """Return the options of ptxas that a finding has in all its compilers that are wrong."""
    named = finding.made.assembler
    names = {named} if named else {
        one.version for one in finding.runners
        if one.runner == "ptxas" and one.outcome not in RIGHT
    }  # fmt: skip
    found = {split_variant(name)[1] for name in names}
    return found.pop() if len(found) == 1 else PLAIN


def replay_options(options: object) -> ReplayOptions:
    """Return what the options of a command say of how findings are to be run."""
    names = [name for name in ReplayOptions.__dataclass_fields__ if hasattr(options, name)]
    given: dict[str, Any] = {name: getattr(options, name) for name in names}
    return ReplayOptions(**{**given, "faults": given["faults"] or None})


def is_value_finding(entry: Entry) -> bool:
    """Whether a finding has a program and an image, so that a runner can replay it."""
    return PROGRAM in entry.finding.files and INPUT in entry.finding.files


def is_by_hand(entry: Entry) -> bool:
    """Whether a finding has images and no program: its expected image is what a person says."""
    files = entry.finding.files
    return {MODULE, INPUT, EXPECTED} <= files.keys() and PROGRAM not in files


def is_runnable(entry: Entry) -> bool:
    """Whether a runner can replay a finding: it has a program, or images that a person wrote."""
    return is_value_finding(entry) or is_by_hand(entry)


def lacks_images(entry: Entry) -> bool:
    """Whether a finding is of what a program did, and has nothing that it could run on."""
    of_results = (Kind.DEVIATION, Kind.LAUNCH_FAILURE, Kind.DIVERGENCE, Kind.VIOLATION)
    return entry.finding.kind in of_results and not is_runnable(entry)


def commands_of(entry: Entry, *, sent: bool = False) -> list[tuple[str, str]]:
    """Return the commands that a page of a finding names, each with what it does.

    They name its folder; or its id, on a page that is `sent` to others.
    """
    path, made = entry.id if sent else entry.path, entry.finding.made
    found = [("without warpfuzz", typed(("warpfuzz", "repro", path)))]
    if lacks_images(entry):
        return found
    passed = ["--runner", made.runner] if made.runner and is_command(made.runner) else []
    passed += ["--ptx-pass", made.ptx_pass] if made.ptx_pass else []
    if made.front_end and names_program(made.front_end):
        passed += ["--front-end", made.front_end]
    again = ["warpfuzz", "replay", path, *passed]
    if made.assembler and not _is_version(made.assembler):
        again += ["--assembler", made.assembler]
    if "model file" in entry.finding.details:
        again += ["--model", str(entry.finding.details["model file"])]
    # Others than a GPU run PTX: no ptxas has to do with what came out there.
    if made.runner in ("", "ptxas", "cuda") or made.front_end or made.assembler:
        found.insert(0, (SINCE, typed(("warpfuzz", "bisect", path, *passed))))
    return [("run it again", typed(again)), *found]


def _is_version(command: str) -> bool:
    return VERSION.fullmatch(split_variant(command)[0]) is not None


def remember(*commands: str | None) -> None:
    """Keep that the user gave these commands here (built-in names and versions are none)."""
    for command in filter(None, commands):
        if command in (NOTHING, *BUILT_IN) or _is_version(command):
            continue
        with suppress(OSError):
            path = _mark(command)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()


def check_trusted(command: str, *, option: str, named_by: str, trust: bool) -> None:
    """Check that a command of a corpus may be run for an option; UntrustedError, which shows it."""
    if trust or _is_version(command) or _mark(command).exists():
        return
    if option == "--assembler" and is_discovered(split_variant(command)[0]):
        return
    raise UntrustedError(
        f"{named_by} names the command {quoted(command):.500}, which you have not given in "
        "this folder before: a corpus may come from anybody, so it is not run; give --trust if you "
        f"know it, or {option} with it or with another one"
    )


def _mark(command: str) -> Path:
    # Together with the folder: what a relative path names is another program elsewhere.
    key = f"{Path.cwd()}\0{split_variant(command)[0]}".encode(errors="surrogateescape")
    return cache_folder() / "trusted" / sha256(key).hexdigest()
