"""Brings a kernel of a user's before those who judge it: reads it, and opens what runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from fuzz.compilers.members import (
    BuildMatrix,
    Member,
    MemberRunner,
    failed_in,
    fitting,
    members_of,
    placed,
)
from fuzz.findings.case import remember
from fuzz.findings.launches import LaunchRows, Setup, entry_of, own_text, parse_launch
from fuzz.judging.reference import Reference, forgetting, guess, refused_by, rounded, undecided
from fuzz.options.testing import Judge
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
from oracle.errors import DeviceLostError, InfrastructureError, UsageError
from oracle.given_files import read_named, read_text
from oracle.isa.targets import parse_target, parse_version
from runners.compilers import all_fetched, fetched_compiler, parse_levels, select
from runners.faults import by_name
from runners.foreign import PtxPass, is_command, passed_on
from runners.processes import quoted
from runners.protocol import Failure, Images, Runner, Trouble
from runners.ptx_text import header, is_listing, module_in, with_header
from runners.simulated.silicon import OLDEST, is_older

_COMPILERS = "installed,driver"


@dataclass(frozen=True, kw_only=True, eq=False)
class Answerer:
    """One way to run a module."""

    names: tuple[str, ...]
    """Of the compilers that made the code, "V13.5.37 -O3", or one: "--ptx-pass 'my-pass'"."""
    members: tuple[Member, ...] = ()  # compilers and levels that make the same code
    runner: Runner
    choice: RunnerChoice  # what a person would ask for to run with the first alone

    def answer(self, ptx: str, setup: Setup, images: Images) -> Images | Failure:
        """Return what a module makes of images; raises DeviceLostError without a device."""
        compiled = self.runner.compile(setup.module(ptx))
        ran = compiled if isinstance(compiled, Failure) else self.runner.run(compiled, images)
        if not isinstance(ran, Failure):
            return ran.images
        if ran.trouble is Trouble.DEVICE_LOST:
            raise DeviceLostError(ran.line)
        return ran


@dataclass(frozen=True, kw_only=True, eq=False)
class Brought:
    """A kernel before the compilers and devices that run it."""

    ready: OpenRunner
    answerers: Callable[[str, Setup], Sequence[Answerer]]
    """Builds and devices that run a module; builds with the same machine code are one."""
    members: Sequence[Member]  # all compilers, oldest first; none where a pass is judged
    skipped: Sequence[str]  # sentences about compilers that are left out
    ptx: str  # with a rounding for each sum and product
    setup: Setup
    guessed: Sequence[str]  # sentences about what of the launch was guessed
    reference: Reference | None  # None: it does not know the kernel's instructions
    refusal: str  # why it does not; "" where it does
    notes: Sequence[str]  # sentences about what was changed


@contextmanager
def brought(options: Judge) -> Iterator[Brought]:
    """Read a kernel and open all that is asked about it; WarpfuzzError if nothing can be said."""
    kernel = options.kernel
    remember(options.ptx_pass, options.runner if is_command(options.runner or "") else None)
    written, rows, notes = read_text(kernel, "kernel"), LaunchRows(), []
    if options.launch is not None:
        rows = parse_launch(read_named(options.launch, "launch"), f"{options.launch}")
    if is_listing(written):
        written = module_in(written, kernel.name)
        notes.append(f"The PTX module was taken out of {kernel}, a listing of cuobjdump.")
    ptx, _ = rounded(written)
    target, version = header(ptx)
    if not target or not version:
        raise UsageError(f"{kernel} has no .target or no .version, so it is no PTX module")
    entry = entry_of(ptx, rows.entry)
    own = own_text(written, entry)
    if idle := [fault for fault in options.faults if not by_name(fault).applies(ptx)]:
        raise UsageError(f"the fault {idle[0]} changes nothing in {kernel}; leave it out")
    if options.target is not None and options.target != target:
        row = parse_target(options.target)
        version = f"{max(parse_version(version), row.since)}"
        notes.append(f".target {target} became {row.name} (--target), with PTX ISA {version}.")
        ptx, target = with_header(ptx, target=row.name, version=version), row.name
    name, simulated = hardware_runner(options.runner), target or None
    # Every device runs modules for targets that were before it; none is simulated as one of these.
    if is_older(target):
        simulated = OLDEST if name == "sim" else None
    choice = RunnerChoice(
        name=name,
        target=simulated,
        ptx_version=version if simulated == target else None,
        device=options.device,
        faults=options.faults,
        ptx_pass=options.ptx_pass,
    )
    _check_pass(choice, ptx)
    members = _members(choice, options)
    if without := rounded(own)[1]:
        added = counted(without, "sum or product", "sums and products")
        notes.append(f"{added} without a rounding got .rn: a compiler may fuse them otherwise.")
    with ExitStack() as stack:
        try:
            who, architecture = _opened(stack, choice, members)
        except TargetError as error:
            if parse_target(target).suffix:
                raise
            notes.insert(0, f".target {target} became {error.own}, which is what the GPU runs.")
            ptx = with_header(ptx, target=error.own, version=version)
            who, architecture = _opened(stack, replace(choice, target=error.own), members)
        except InfrastructureError as error:
            if options.runner is not None:
                raise
            raise type(error)(
                f"{error}; without a GPU, a pass or compilers that write PTX are judged on the "
                "simulated device: --runner sim with --ptx-pass or --compilers"
            ) from error
        reference = Reference(target=architecture)
        refusal = f"{refused_by(reference.device, ptx, entry) or ''}"
        undefined = undecided(own)
        if refusal:
            said = f"the simulated device does not know the kernel ({refusal}), and"
            if choice.name != "cuda":
                raise InfrastructureError(f"{said} there is nothing else to compare with")
            if open_ := undefined or forgetting(own):
                raise UsageError(f"{said} {open_}")
        try:
            setup, guessed = guess(ptx, rows, reference.device)
            yield Brought(
                **who, ptx=ptx, setup=setup, guessed=guessed, notes=notes, refusal=refusal,
                reference=None if refusal else reference,
            )  # fmt: skip
        except UsageError as error:
            raise UsageError(f"{error}; {undefined}") if undefined else error from None


def _opened(
    stack: ExitStack, choice: RunnerChoice, members: Sequence[Member]
) -> tuple[dict[str, Any], str]:
    """Open who is asked; return what `Brought` says of them, and the device to be like."""
    if not members:
        ready = stack.enter_context(opened(choice))
        title = choice.options or choice.label
        one = Answerer(names=(title,), runner=ready.runner, choice=choice)
        who = {"ready": ready, "answerers": lambda *_: (one,), "members": (), "skipped": ()}
        return who, ready.target
    place = stack.enter_context(placed(choice))
    fit = fitting(members, place)
    matrix = stack.enter_context(BuildMatrix(place.device, fit.members, jobs=cores()))

    def answerers(ptx: str, setup: Setup) -> Sequence[Answerer]:
        (built,) = matrix.build(setup.module(ptx), members=matrix.members)
        groups = [tuple(one.members) for one in matrix.variants(built, setup.entry)]
        failed: dict[str, tuple[Member, ...]] = {}
        for member, failure in failed_in(built).items():
            key = f"{failure.trouble} {failure.detail}"
            failed[key] = (*failed.get(key, ()), member)
        return [
            Answerer(
                names=tuple(member.name for member in group),
                members=group,
                runner=MemberRunner(matrix.device, group[0]),
                choice=group[0].choice(choice),
            )
            for group in (*groups, *failed.values())
        ]

    who = {"ready": place.opened, "members": fit.members, "skipped": fit.skipped}
    return who | {"answerers": answerers}, place.architecture


def _check_pass(choice: RunnerChoice, ptx: str) -> None:
    """Raise InfrastructureError where a pass fails, or makes no PTX of the kernel."""
    if choice.ptx_pass is None or PtxPass(choice.ptx_pass).missing is not None:
        return
    made = passed_on(ptx, rewriters(choice.faults, choice.ptx_pass))
    if isinstance(made, Failure):
        raise InfrastructureError(str(made))
    if not all(header(made)):
        raise InfrastructureError(
            f"the PTX pass {quoted(choice.ptx_pass)} makes no PTX of the kernel, with .version and "
            f".target: what it writes begins with {made.partition(chr(10))[0][:60]!r}"
        )


def _members(choice: RunnerChoice, options: Judge) -> tuple[Member, ...]:
    """Return the compilers that are asked; none where a fault or a pass is."""
    simulated, changed = choice.name == "sim", bool(choice.faults or choice.ptx_pass)
    if options.compilers is not None and (changed or choice.name not in BUILT_IN):
        raise UsageError(
            "--compilers goes without --fault, --ptx-pass and other runners; leave one"
        )
    if choice.name not in BUILT_IN or (changed and simulated):
        return ()
    if changed or (simulated and options.compilers is None):
        raise UsageError(
            "the simulated device compares a kernel with what a --ptx-pass or a --fault makes of it"
        )
    with fetcher(fetched_compiler, json=options.json) as fetch_one:
        selected = all_fetched(select(options.compilers or _COMPILERS), fetch_one)
    return members_of(selected, parse_levels(options.levels))
