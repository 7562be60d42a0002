"""Brings a kernel of a user's before those who judge it: reads it, and opens what runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fuzz.compilers.matrix import Matrix
from fuzz.compilers.members import Member, MemberRunner, fitting, members_of, placed
from fuzz.findings.launches import LaunchRows, Setup, entry_of, own_text, parse_launch
from fuzz.findings.making import remember
from fuzz.judging.comparing import Answerer
from fuzz.judging.guessing import Guess, guess
from fuzz.judging.reference import Reference, forgetting, rounded, undecided, without_rounding
from fuzz.output import counted, fetcher
from fuzz.runner import (
    BUILT_IN,
    OpenRunner,
    RunnerChoice,
    TargetError,
    cores,
    hardware_runner,
    opened,
    rewriters,
)
from oracle.errors import InfrastructureError, UsageError
from oracle.given_files import read_text
from oracle.targets import parse_target, parse_version
from runners.compilers import all_fetched, fetched_compiler, parse_levels, select
from runners.faults import by_name
from runners.foreign import is_command
from runners.processes import quoted
from runners.protocol import Failure
from runners.ptx_pass import PtxPass
from runners.ptx_text import header, is_listing, module_in, with_header
from runners.simulated.silicon import OLDEST, is_older

_COMPILERS = "installed,driver"


@dataclass(frozen=True, kw_only=True, eq=False)
class Court:
    """The compilers and devices that run a kernel."""

    ready: OpenRunner
    architecture: str
    """Which device the simulated one has to be like."""
    answerers: Callable[[str, Setup], Sequence[Answerer]]
    """Builds and devices that run a module; builds with the same machine code are one."""
    members: Sequence[Member] = ()
    """All compilers, oldest first; none where a pass is judged."""
    skipped: Sequence[str] = ()
    """Sentences about compilers that are left out."""


@contextmanager
def court(choice: RunnerChoice, members: Sequence[Member]) -> Iterator[Court]:
    """Open who is asked.

    Parameters
    ----------
    choice
        With the target and the version of the kernel's module.
    members
        Compilers; none: what the choice has of faults and passes.

    Raises
    ------
    WarpfuzzError
        As `fuzz.runner.opened` and `fuzz.compilers.members.fitting`.
    """
    if not members:
        with opened(choice) as ready:
            one = Answerer(title=choice.options or choice.label, runner=ready.runner, choice=choice)
            yield Court(
                ready=ready, architecture=ready.target, answerers=lambda _ptx, _setup: (one,)
            )
        return
    with placed(choice) as place:
        fit = fitting(members, place)
        assert place.opened is not None
        with Matrix(place.device, fit.members, jobs=cores()) as matrix:
            yield Court(
                ready=place.opened,
                architecture=place.architecture,
                answerers=lambda ptx, setup: _variants(matrix, choice, ptx, setup),
                members=fit.members,
                skipped=fit.skipped,
            )


def _variants(matrix: Matrix, choice: RunnerChoice, ptx: str, setup: Setup) -> Sequence[Answerer]:
    built = matrix.start(setup.module(ptx), matrix.members).wait()
    groups = [one.members for one in matrix.variants(built, setup.entry)]
    failed: dict[str, list[Member]] = {}
    for member, failure in built.failed.items():
        failed.setdefault(f"{failure.trouble} {failure.detail}", []).append(member)
    return [
        Answerer(
            title="",
            members=tuple(some),
            runner=MemberRunner(matrix.device, some[0]),
            choice=some[0].choice(choice),
        )
        for some in (*groups, *failed.values())
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class Brought(Court):
    """A kernel before those who judge it."""

    ptx: str
    """With a rounding for each sum and product."""
    launch: Guess
    reference: Reference | None
    """None: the simulated device does not know the kernel's instructions."""
    refusal: str
    """Why it does not; "" where it does."""
    notes: Sequence[str]
    """Sentences about what was changed."""


@contextmanager
def brought(
    *,
    kernel: Path,
    launch: Path | None,
    runner: str | None,
    compilers: str | None,
    levels: str | None,
    device: int,
    faults: tuple[str, ...],
    ptx_pass: str | None,
    json: bool,
    target: str | None = None,
) -> Iterator[Brought]:
    """Read a kernel and open all that is asked about it, as the options of `judge` name them.

    Raises
    ------
    WarpfuzzError
        If it is no kernel, or nothing can be said of its result.
    """
    remember(ptx_pass, runner if is_command(runner or "") else None)
    written = read_text(kernel, "kernel")
    rows = LaunchRows()
    if launch is not None:
        rows = parse_launch(read_text(launch, "launch").encode(), str(launch))
    notes = []
    if is_listing(written):
        written = module_in(written, kernel.name)
        notes.append(f"The PTX module was taken out of {kernel}, a listing of cuobjdump.")
    ptx, asked = rounded(written), target
    target, version = header(ptx)
    if not target or not version:
        raise UsageError(f"{kernel} has no .target or no .version, so it is no PTX module")
    entry = entry_of(ptx, rows.entry)
    own = own_text(written, entry)
    for name in faults:
        if not by_name(name).applies(ptx):
            raise UsageError(
                f"the fault {name} changes nothing in {kernel}, which has none of the "
                "instructions that it breaks, so that nothing would be judged; leave it out"
            )
    if asked is not None and asked != target:
        row = parse_target(asked)
        newer = max(parse_version(version), row.since)
        notes.append(f".target {target} became {row.name} (--target), with PTX ISA {newer}.")
        ptx = with_header(ptx, target=row.name, version=newer)
        target, version = header(ptx)
    name, simulated = hardware_runner(runner), target or None
    # Every device runs modules for targets that were before it; none is simulated as one of these.
    if is_older(target):
        simulated = OLDEST if name == "sim" else None
    choice = RunnerChoice(
        name=name,
        target=simulated,
        ptx_version=version if simulated == target else None,
        device=device,
        faults=faults,
        ptx_pass=ptx_pass,
    )
    _check_pass(choice, ptx)
    members = _members(choice, compilers, levels, json=json)
    if without := without_rounding(own):
        added = counted(without, "sum or product", "sums and products")
        notes.append(f"{added} without a rounding got .rn: a compiler may fuse them otherwise.")
    with ExitStack() as stack:
        try:
            try:
                who = stack.enter_context(court(choice, members))
            except TargetError as error:
                if parse_target(target).is_specific:
                    raise
                notes.insert(0, f".target {target} became {error.own}, which is what the GPU runs.")
                ptx = with_header(ptx, target=error.own, version=version)
                who = stack.enter_context(court(replace(choice, target=error.own), members))
        except InfrastructureError as error:
            if runner is not None:
                raise
            raise type(error)(
                f"{error}; without a GPU, a pass or compilers that write PTX are judged on the "
                "simulated device: --runner sim with --ptx-pass or --compilers"
            ) from error
        reference = Reference(target=who.architecture)
        refusal = reference.refusal(ptx, entry)
        if refusal and choice.name != "cuda":
            raise InfrastructureError(
                f"the simulated device does not know the kernel ({refusal}), and there is nothing "
                "else to compare with"
            )
        open_ = undecided(own)
        if refusal and (said := open_ or forgetting(own)):
            raise UsageError(
                f"the simulated device does not know the kernel ({refusal}), and {said}"
            )
        try:
            yield Brought(
                **vars(who), ptx=ptx, launch=guess(ptx, rows, reference.device),
                reference=None if refusal else reference, refusal=refusal, notes=notes,
            )  # fmt: skip
        except UsageError as error:
            if open_:
                raise UsageError(f"{error}; {open_}") from None
            raise


def _check_pass(choice: RunnerChoice, ptx: str) -> None:
    """Raise InfrastructureError where a pass fails, or makes no PTX of the kernel."""
    if choice.ptx_pass is None or PtxPass(choice.ptx_pass).missing is not None:
        return
    for rewriter in rewriters(choice.faults, choice.ptx_pass):
        rewritten = rewriter(ptx)
        if isinstance(rewritten, Failure):
            raise InfrastructureError(str(rewritten))
        ptx = rewritten
    if not all(header(ptx)):
        first = next(iter(ptx.splitlines()), "")
        raise InfrastructureError(
            f"the PTX pass {quoted(choice.ptx_pass)} makes no PTX of the kernel, with .version and "
            f".target: what it writes begins with {first[:60]!r}"
        )


def _members(
    choice: RunnerChoice, compilers: str | None, levels: str | None, *, json: bool
) -> tuple[Member, ...]:
    """Return the compilers that are asked; none where a fault or a pass is."""
    changed = choice.faults or choice.ptx_pass
    if choice.name not in BUILT_IN:
        if compilers is not None:
            raise UsageError(
                f"--compilers makes code for a GPU, and the runner {choice.name} reads the PTX "
                "itself; leave one of the two out"
            )
        return ()
    if changed and compilers is not None:
        raise UsageError(
            "--fault and --ptx-pass change what every compiler gets, and compilers are compared on "
            "the same text; leave one of the two out"
        )
    if changed and choice.name == "sim":
        return ()
    if choice.name == "sim" and compilers is None:
        raise UsageError(
            "the simulated device has nothing to compare the kernel with; give a --ptx-pass or a "
            "--fault that changes it, or choose --runner cuda"
        )
    if changed:
        raise UsageError(
            "--fault and --ptx-pass are compared on the simulated device: --runner sim"
        )
    with fetcher(fetched_compiler, json=json) as fetch_one:
        selected = all_fetched(select(compilers or _COMPILERS), fetch_one)
    return members_of(selected, parse_levels(levels))
