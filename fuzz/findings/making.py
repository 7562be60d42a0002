"""How a finding was made, so that it can be made again: runner, faults, pass, compiler, level.

A corpus may come from anybody, and its findings and its campaign name assemblers, front ends and
PTX passes: commands, which are shown, and run only with the user's word. The word is `--trust`,
the same option given again, or that the same command was given in the same folder on this machine
before, which is remembered outside of any corpus. A version, such as "13.5", is no command: it
names one of the assemblers that this machine has anyway.
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from corpus import Entry, Finding
from corpus.finding import RIGHT
from fuzz.output import typed
from fuzz.runner import RunnerChoice
from oracle.errors import UsageError
from oracle.targets import parse_target, parse_version
from runners.assemblers.assembler import Assembler
from runners.compilers import (
    Selected,
    find_front_end,
    find_front_ends,
    front_ends_of,
    front_ends_selected,
    named_assembler,
    select,
)
from runners.faults import Place, by_name
from runners.folders import cache_folder
from runners.foreign import is_command
from runners.front_ends.sources import Source, source_of
from runners.kernels import KernelModule
from runners.processes import quoted
from runners.toolchains import VERSION, names_program, parted
from runners.variants import NONE, PLAIN, Variant, parse_variant, split_variant

NOTHING = "none"
"""In place of a fault or a pass: nothing is planted."""
FAULTS, PASS, FRONT_END, ASSEMBLER = "faults", "ptx pass", "front end", "assembler"
"""Names in the details of a finding."""


class UntrustedError(UsageError):
    """A corpus names a command, and nobody gave his word for it."""


@dataclass(frozen=True, kw_only=True)
class MadeWith:
    """What a finding says of how it was made."""

    runner: str | None
    """"sim", "cuda", one of somebody else's, or whatever stands there; None if it does not say."""
    layout: int
    level: int | None
    assembler: str | None
    """Version or path, with its options behind it."""
    faults: tuple[str, ...]
    ptx_pass: str | None
    """A command; of findings from before 2026-11-22 without its folders."""
    front_end: str | None = None
    """What wrote the PTX; None: warpfuzz."""

    @classmethod
    def of(cls, entry: Entry) -> MadeWith:
        """Read what a finding says."""
        details = entry.finding.details
        runner, layout = details.get("runner"), details.get("layout", 0)
        level, assembler = details.get("opt"), details.get(ASSEMBLER)
        faults, ptx_pass = details.get(FAULTS), details.get(PASS)
        front_end = details.get(FRONT_END)
        options = [word for one in entry.finding.runners for word in _words(one.options)]
        if not isinstance(faults, str):
            faults = " ".join(_after("--fault", options))
        if not isinstance(ptx_pass, str):
            ptx_pass = next(iter(_after("--ptx-pass", options)), None)
        return cls(
            runner=runner if isinstance(runner, str) else None,
            layout=layout if isinstance(layout, int) else 0,
            level=level if isinstance(level, int) else None,
            assembler=assembler if isinstance(assembler, str) else None,
            faults=tuple(dict.fromkeys(faults.split())),
            ptx_pass=ptx_pass,
            front_end=front_end if isinstance(front_end, str) else None,
        )

    def source(self, module: KernelModule) -> Source | None:
        """Return what the front end was given for a module; None where warpfuzz wrote the PTX."""
        if self.front_end is None:
            return None
        return source_of(self.front_end, module, level=self.level)


def details_of(choice: RunnerChoice) -> dict[str, str]:
    """Return what a finding has to remember of a runner beyond what is plain."""
    found = {}
    if choice.faults:
        found[FAULTS] = " ".join(choice.faults)
    if choice.ptx_pass is not None:
        found[PASS] = choice.ptx_pass
    if choice.front_end is not None:
        found[FRONT_END] = choice.front_end.spelled
    if choice.assembler is not None:
        found[ASSEMBLER] = choice.assembler.spelled
    return found


def _words(options: str) -> list[str]:
    try:
        return shlex.split(options)
    except ValueError:
        return options.split()


def _after(option: str, words: list[str]) -> list[str]:
    return list(dict.fromkeys(value for name, value in pairwise(words) if name == option))


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """What findings are to be run with; what is left out is as each finding was made."""

    runner: str | None = None
    """By its name; None: the finding's."""
    target: str | None = None
    ptx_version: str | None = None
    faults: tuple[str, ...] | None = None
    """Names of planted faults; none where it is empty, or `NOTHING` alone."""
    ptx_pass: str | None = None
    """A command; `NOTHING`: none."""
    front_end: str | None = None
    """What writes the PTX; `NOTHING`: warpfuzz."""
    assembler: str | None = None
    variant: str | None = None
    """Its options; those of the finding where neither this nor `assembler` names some."""
    level: int | None = None
    trust: bool = False
    """Whether commands and programs that findings name may be run."""
    model: str | None = None
    """Path of the model that judges; None: the built-in one of the target."""

    def choice(self, entry: Entry, *, compiled: bool = True) -> RunnerChoice:
        """Return the runner for a finding.

        With `compiled`, the finding's own compilers and level are taken; others are asked if not.
        Raises UntrustedError if the finding names a program, and nobody gave his word for it, and
        UsageError if the finding does not say where it ran, or there is no such fault.
        """
        made, finding = MadeWith.of(entry), entry.finding
        if self.model is None and "model file" in finding.details:
            raise UsageError(
                f"finding {entry.id} was judged by the model {finding.details['model']}, which is "
                "not built in; give its file with --model"
            )
        target = self.target or finding.target
        name = self.runner or made.runner
        if name in (None, "ptxas"):
            raise UsageError(f"finding {entry.id} does not say what found it; choose with --runner")
        if self.runner is None and is_command(name):
            self._check_trusted(entry, name, "--runner")
        again = name == made.runner
        choice = RunnerChoice(
            name=name,
            target=target,
            ptx_version=self.ptx_version or _version(finding.ptx_version, target),
            layout=made.layout if again else 0,
            faults=self.planted(entry, name),
            ptx_pass=self.passed(entry),
            model=self.model,
        )
        if not compiled:
            return choice
        front_end = self.fronted(entry)
        level = self.level if self.level is not None or not again else made.level
        assembler = self.assembler
        if assembler is None and again and made.assembler is not None:
            self._check_trusted(entry, made.assembler, "--assembler")
            assembler = made.assembler
        return replace(
            choice,
            front_end=None if front_end is None else find_front_end(front_end),
            assembler=None
            if assembler is None
            else self.having(named_assembler(assembler), variant_of(finding)),
            level=level,
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
        faults = MadeWith.of(entry).faults
        if runner in (None, "sim"):
            return faults
        return tuple(name for name in faults if by_name(name).place is Place.PTX)

    def passed(self, entry: Entry) -> str | None:
        """Return the PTX pass for a finding. Raises UntrustedError if only the finding names it."""
        if self.ptx_pass is not None:
            return None if self.ptx_pass == NOTHING else self.ptx_pass
        made = MadeWith.of(entry).ptx_pass
        if made is not None:
            self._check_trusted(entry, made, "--ptx-pass")
        return made

    def fronted(self, entry: Entry) -> str | None:
        """Return what writes the PTX for a finding.

        Raises UntrustedError if it is a program that only the finding names.
        """
        if self.front_end is not None:
            return None if self.front_end == NOTHING else self.front_end
        made = MadeWith.of(entry).front_end
        if made is not None and names_program(made):
            self._check_trusted(entry, made, "--front-end")
        return made

    def compilers(self, entry: Entry, named: str | None, *, runs: bool) -> Selected:
        """Return the compilers that a bisection asks.

        Raises UntrustedError if the finding names a program, and nobody gave his word for it, and
        UsageError if one is not here, or no compiler has a part in the finding.

        Parameters
        ----------
        named
            As `runners.compilers.select` takes it. None: versions of the front end that wrote the
            PTX, or the one that is given; those that are here where there is none.
        runs
            Whether the finding is of what ran.
        """
        front_end = self.fronted(entry)
        if named is None and front_end is None:
            self.passed(entry)  # the user's word comes first
            made = MadeWith.of(entry)
            device = self.runner or made.runner
            if runs and device == "sim" and made.assembler is None:
                raise UsageError(
                    f"finding {entry.id} came out on the simulated device, which runs the PTX "
                    "itself: no compiler made its code, so there is none to bisect; give --runner "
                    "cuda on a machine with a GPU, or name compilers that write PTX with "
                    "--compilers"
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
    named = finding.details.get(ASSEMBLER)
    names = {named} if isinstance(named, str) else {
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


def _version(version: str, target: str) -> str:
    return str(max(parse_version(version), parse_target(target).since))


def replay_command(entry: Entry, *, path: str | None = None) -> str:
    """Return the command that makes a finding again, whole, as a person types it.

    The programs that it was made with are named in it: who runs the command has read them.
    """
    made = MadeWith.of(entry)
    words = ["warpfuzz", "replay", path or entry.path, *_passed(made)]
    if made.assembler is not None and not VERSION.fullmatch(split_variant(made.assembler)[0]):
        words += ["--assembler", made.assembler]
    if "model file" in entry.finding.details:
        words += ["--model", str(entry.finding.details["model file"])]
    return typed(words)


def _passed(made: MadeWith) -> list[str]:
    words = ["--runner", made.runner] if made.runner and is_command(made.runner) else []
    words += [] if made.ptx_pass is None else ["--ptx-pass", made.ptx_pass]
    if made.front_end is not None and names_program(made.front_end):
        words += ["--front-end", made.front_end]
    return words


def commands_of(entry: Entry) -> list[tuple[str, str]]:
    """Return the commands that a page of a finding names, each with what it does."""
    path, made = entry.path, MadeWith.of(entry)
    found = [("run it again", replay_command(entry))]
    # Others than a GPU run PTX: no ptxas has to do with what came out there.
    if (
        made.runner in (None, "ptxas", "cuda")
        or made.front_end is not None
        or made.assembler is not None
    ):
        found.append(("since when", typed(("warpfuzz", "bisect", path, *_passed(made)))))
    return [*found, ("without warpfuzz", typed(("warpfuzz", "repro", path)))]


def remember(*commands: str | None) -> None:
    """Keep that the user gave these commands here; a cache that cannot be written is none."""
    for command in filter(None, commands):
        with suppress(OSError):
            path = _mark(command)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()


def check_trusted(command: str, *, option: str, named_by: str, trust: bool) -> None:
    """Check that a command of a corpus may be run.

    `option` is what it is for, as a person types it: "--assembler". Raises UntrustedError if it
    may not; the command is shown.
    """
    if trust or VERSION.fullmatch(split_variant(command)[0]) or _mark(command).exists():
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
