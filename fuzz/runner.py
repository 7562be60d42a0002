"""Which runner a campaign or a replay uses, what is planted in it, and what its failures mean."""

from __future__ import annotations

import ctypes.util
import os
import platform
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import numpy as np

from corpus import Kind
from fuzz import warpfuzz_version
from fuzz.kinds import BY_TROUBLE
from fuzz.output import counted
from oracle.errors import DeviceLostError, InfrastructureError, UsageError, WarpfuzzError
from oracle.isa.forms import Form
from oracle.isa.targets import (
    DEFAULT_TARGET,
    TARGETS,
    Module,
    newest_for_cuda,
    parse_target,
    parse_version,
    versions_of,
)
from oracle.models import NO_FIGURES, Model, model_for, use_model
from oracle.models.files import read_model
from runners.assemblers.assembler import Assembler
from runners.cuda.compilation import Compiler
from runners.faults import FaultPlace, by_name
from runners.foreign import (
    DEADLINE,
    ForeignRunner,
    PtxPass,
    Rewriter,
    RewritingRunner,
    check_named,
    identity_of,
    is_command,
    is_for_a_shell,
)
from runners.front_ends.protocol import FrontEndRunner, FrontEndToolchain
from runners.kernels import KernelModule
from runners.processes import check_program, quoted
from runners.protocol import (
    Compiled,
    Failure,
    ForwardingRunner,
    Images,
    Lender,
    Pending,
    Ran,
    Runner,
    Trouble,
)
from runners.toolchains import DRIVER, Toolchain
from strategies.draws import PtxVersions, only_version, versions_up_to
from strategies.rounds import GROUP_TARGETS

BUILT_IN = ("sim", "cuda")  # runners that warpfuzz has itself
LAYOUTS = 2  # fragment layouts that the simulated device has


@dataclass(frozen=True, kw_only=True)
class RunnerChoice:
    """What a person asks for."""

    name: str  # "sim", "cuda", or a runner of somebody else's (`runners.foreign`); with a maker any
    maker: Callable[[RunnerChoice], Runner] | None = None
    """Opens a runner of one's own, in every worker again: a function of a module, not a script."""
    identity: str = ""
    """`identity_of` a runner of the user's own where the campaign began: others are refused."""
    target: str | None = None
    """Value of .target; None: DEFAULT_TARGET on the simulated device, the device's own on a GPU."""
    ptx_version: str | None = None
    """Value of .version; None: as `version_for` has it, and in a campaign `drawn_versions`."""
    faults: tuple[str, ...] = ()
    ptx_pass: str | None = None  # command that rewrites PTX before the runner gets it
    front_end: FrontEndToolchain | None = None  # writes the PTX; None: warpfuzz does
    level: int | None = None  # -O, of the front end where there is one; None: the default
    assembler: Assembler | None = None
    """The ptxas that compiles; None: the driver's compiler. Simulated, one that judges as well."""
    layout: int = 0
    model: str | None = None  # path of that by which results are judged; None: the built-in one
    device: int = 0  # number of the GPU, as the driver counts
    visible: str = ""  # UUID of the only GPU, or slice, that the runner's process sees; empty: all
    deadline: float | None = None  # seconds of a batch, except simulated; None: the default

    def __post_init__(self) -> None:
        name, times = next(iter(Counter(self.faults).most_common(1)), ("", 0))
        if times > 1:
            raise UsageError(
                f"--fault {name} is given {times} times; give it once: what is planted twice may "
                "undo itself"
            )

    @property
    def options(self) -> str:
        """What was asked for beyond the defaults, as a person would type it, without folders."""
        parts = [f"--fault {name}" for name in self.faults]
        if self.ptx_pass:
            parts.append(f"--ptx-pass {quoted(_without_folders(self.ptx_pass))}")
        parts += [
            f"{name} {_without_folders(str(value))}"
            for name in ("--model", "--front-end", "--opt", "--assembler")
            if (value := self.given[name]) is not None
        ]
        return " ".join(parts)

    @property
    def given(self) -> dict[str, str | int | None]:
        """What was asked for beyond the runner, by the options, as a person types it."""
        return {
            "--fault": " ".join(self.faults),
            "--ptx-pass": self.ptx_pass,
            "--front-end": None if self.front_end is None else self.front_end.spelled,
            "--opt": self.level,
            "--assembler": None if self.assembler is None else self.assembler.spelled,
            "--model": self.model,
        }

    @property
    def label(self) -> str:
        """The name of the runner; of a command without folders, as in `options`."""
        return _without_folders(self.name) if is_command(self.name) else self.name

    @property
    def toolchain(self) -> Toolchain:
        """What is given programs: the front end, or else what compiles the PTX."""
        return self.front_end or self.assembler or DRIVER

    @property
    def replay_words(self) -> tuple[str, ...]:
        """What a replay has to be told to plant the same again."""
        words = [word for name in self.faults for word in ("--fault", name)]
        for name in ("--ptx-pass", "--front-end", "--model"):
            words += [name, str(self.given[name])] if self.given[name] else []
        return tuple(words)

    @property
    def changes_ptx(self) -> bool:
        """Whether other PTX runs than warpfuzz writes."""
        return bool(self.front_end or self.ptx_pass or self.faults)


@dataclass(frozen=True, kw_only=True)
class OpenRunner:
    """A runner that is ready, and what it is."""

    choice: RunnerChoice
    runner: Runner
    target: str
    ptx_version: str
    version: str  # version of the runner: the driver's, or warpfuzz's
    device: str  # one line that names the device
    uuid: str = ""  # what tells a GPU from all others; empty where nothing does
    cuda: str = ""  # highest version that the driver supports, such as "13.0"; empty without
    groups: str = ""
    """`.target` of programs of forms that `target` lacks (`GROUP_TARGETS`), where nobody has asked
    for a target; empty where there are none."""
    release: str = ""
    """Of CUDA whose compiler makes its code, "12.4" or "unknown"; empty where PTX is run itself."""

    @property
    def oracle_target(self) -> str:
        """The oracle's target for what it runs (`oracle.isa.targets.split_compiler`)."""
        return f"{self.target}@{self.release}" if self.release else self.target


_PATH = re.compile(r"[\w.+@~%,:=-]*(/[\w.+@~%,:=-]+)+")
"""What may be a path; `s/a/b/g` may be one, too."""


def _without_folders(command: str) -> str:
    """Return a command with the names of its program and its files alone, its other words whole."""
    if is_for_a_shell(command):
        return command
    try:
        program, *words = shlex.split(command)
    except ValueError:  # no command, or one whose quotes do not match
        return command
    shown, left = "", command
    files = [
        word for word in words
        if _PATH.fullmatch(word) and (Path(word).suffix or Path(word).exists())
    ]  # fmt: skip
    for word in (program, *files):
        # In place, so that quotes stay as they were typed.
        before, found, left = left.partition(word)
        shown += before + (found.rpartition("/")[2] or found)
    return shown + left


def best_runner(*, planted: bool, device_faults: bool, has_assembler: Callable[[], bool]) -> str:
    """Return the name of the best runner there is: "cuda", "ptxas" or "sim"."""
    # Looked for, not imported: PyCUDA is imported nowhere but in the runner's child.
    is_gpu = (
        not device_faults
        and Path("/dev/nvidiactl").exists()
        and ctypes.util.find_library("cuda") is not None
        and find_spec("pycuda") is not None
    )
    if is_gpu:
        return "cuda"
    return "sim" if device_faults or planted or not has_assembler() else "ptxas"


def hardware_runner(asked: str | None) -> str:
    """Return the runner of a command about hardware: a GPU, unless another one is asked for."""
    return asked or "cuda"  # never simulated: a broken host would pass for a sound one


def has_device_fault(names: tuple[str, ...]) -> bool:
    """Whether one of these faults sits inside the simulated device.

    Raises UsageError if a fault does not exist.
    """
    return any(by_name(name).place is FaultPlace.DEVICE for name in names)


def visible_devices() -> int:
    """Return how many GPUs CUDA shows, at least 1: asked of files, without a context."""
    there = sum(path.name[6:].isdigit() for path in Path("/dev").glob("nvidia[0-9]*"))
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is not None:
        there = min(there, len([part for part in wanted.split(",") if part.strip()]))
    return max(1, there)


def cores() -> int:
    """Return how many processors this process may use, at least 1: as many workers are usual."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


_MODULES_KEPT = 64  # of those that are not compiled again


class BeatingRunner(ForwardingRunner):
    """A runner as it is, which calls `beat` as a sign of life.

    One that `keeps` compiles a module once: experiments and shrinking come back to the same, in 182
    of 778 compilations (2026-11).
    """

    def __init__(self, runner: Runner, beat: Callable[[], None], *, keeps: bool = False) -> None:
        super().__init__(runner)
        self._beat, self._keeps = beat, keeps
        self._lender = runner if isinstance(runner, Lender) else None
        self.kept: dict[KernelModule, Compiled] = {}

    def compile(self, module: KernelModule) -> Compiled | Failure:
        """Translate a module, as the runner does."""
        self._beat()
        compiled = (self._keeps and self.kept.get(module)) or self._runner.compile(module)
        if self._keeps and module not in self.kept and isinstance(compiled, Compiled):
            if len(self.kept) >= _MODULES_KEPT:
                del self.kept[next(iter(self.kept))]
            self.kept[module] = compiled
        self._beat()
        return compiled

    def lease(self, count: int, image_bytes: int) -> Images:
        """Return memory to fill, uint8 (count, image_bytes), of the runner if it has any."""
        if self._lender is not None:
            return self._lender.lease(count, image_bytes)
        return np.empty((count, image_bytes), np.uint8)

    def submit(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Pending:
        """Start a batch, as the runner does."""
        self._beat()
        return self._runner.submit(compiled, images, entry=entry)

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        """Run a batch and wait for it, as the runner does."""
        ran = self.submit(compiled, images, entry=entry).collect()
        self._beat()
        return ran


class TargetError(UsageError):
    """A device does not run modules of a target; `own` is its own one."""

    def __init__(self, message: str, *, own: str) -> None:
        super().__init__(message)
        self.own = own


@contextmanager
def opened(choice: RunnerChoice) -> Iterator[OpenRunner]:
    """Open a runner and close it in the end.

    Raises UsageError if something is asked for that the runner does not do, and DeviceLostError or
    InfrastructureError if there is no device, or something that it needs is missing.
    """
    ready = open_runner(choice)
    with ready.runner:
        yield ready


def open_runner(choice: RunnerChoice) -> OpenRunner:
    """Open a runner; the caller closes it. Raises as `opened` does."""
    _check(choice)
    choice = _on_this_host(choice)
    runner = plain = _plain(choice)
    try:
        if passes := rewriters(choice.faults, choice.ptx_pass):
            runner = RewritingRunner(runner, passes)
        if choice.front_end is not None:
            own = choice.front_end.default_level if choice.level is None else choice.level
            runner = FrontEndRunner(runner, choice.front_end.opened(own))
        can = runner.capabilities()
        if isinstance(can, Failure):
            kind_of_failure(can)
            raise InfrastructureError(f"{can}")
        if choice.model is not None:
            judge_by(Path(choice.model), own=_own_target(can.targets), device=can.description)
        target = choice.target or _own_target(can.targets)
        assembler = choice.assembler
        if assembler is not None and assembler.variant:
            found = getattr(plain, "architecture", str)(target)
            if not isinstance(found, Failure) and (said := assembler.refusal(target, found)):
                raise UsageError(f"{assembler.named} does not take its options: {said}")
        if target not in can.targets:
            raise TargetError(
                f"{can.description} does not run {target}; it runs "
                f"{', '.join(name for name in TARGETS if name in can.targets)}",
                own=_own_target(can.targets),
            )
        groups = "" if choice.target or choice.front_end else GROUP_TARGETS.get(target, "")
        return OpenRunner(
            choice=choice, runner=runner, target=target,
            groups=groups if groups in can.targets else "",
            ptx_version=version_for(choice.ptx_version, target), version=warpfuzz_version(),
            device=can.description, **_facts(plain),
        )  # fmt: skip
    except BaseException:
        runner.close()
        raise


def rewriters(faults: Sequence[str], ptx_pass: str | None) -> list[Rewriter]:
    """Return what happens to PTX on its way: faults of it, and then a pass."""
    rows = [by_name(name) for name in faults]
    passes = [] if ptx_pass is None else [PtxPass(ptx_pass)]
    return [*(row.rewrite for row in rows if row.place is FaultPlace.PTX), *passes]


def _facts(runner: Runner) -> dict[str, str]:
    from runners.cuda.runner import CudaRunner

    facts = runner.facts() if isinstance(runner, CudaRunner) else None
    if facts is None or isinstance(facts, Failure) or not isinstance(runner, CudaRunner):
        return {}
    return {"uuid": facts.uuid, "cuda": facts.cuda, "release": runner.release()}


def drawn_versions(ready: OpenRunner) -> PtxVersions:
    """Return the PTX ISA versions that a campaign's modules are drawn from.

    That which was asked for, or else all that know the target and that everything reads which gets
    PTX: the front end, and the assembler that is named or else the driver.
    """
    choice = ready.choice
    if choice.ptx_version is not None:
        return only_version(ready.ptx_version)
    known = versions_of(parse_target(ready.target))
    newest = [known[-1]]
    if choice.assembler is not None:
        try:
            newest.append(choice.assembler.highest_version)
        except WarpfuzzError:
            # What it gets wrong is for the campaign to find.
            newest.append(parse_version(ready.ptx_version))
    elif ready.cuda:
        newest.append(newest_for_cuda(ready.cuda) or parse_version(ready.ptx_version))
    if choice.front_end is not None:
        found = choice.front_end.newest(ready.target, ready.target)
        newest.append(found or parse_version(ready.ptx_version))
    return versions_up_to(ready.target, min(newest))


def without_figures(forms: Iterable[Form], target: str, compiler: str) -> str:
    """Say which forms the model of a target has no figures for in code of a compiler; "" if none.

    The target comes with the release of the compiler: "sm_90@12.4".
    """
    model = model_for(target)
    found = [
        form.opcode for form in forms if form.is_product and model.expansion_of(form) == NO_FIGURES
    ]
    if not found:
        return ""
    return (
        f"figures of the model {model.name} for {counted(len(found), 'form')} in code of "
        f"{compiler}, such as {found[0]}: results are judged by what the ISA permits alone"
    )


def judge_by(path: Path, *, own: str | None = None, device: str = "") -> Model:
    """Have results judged by the model of a file, in this process, from now on.

    Raises UsageError if the file holds no model, or that of another target.
    """
    model = read_model(path)
    if own is not None and parse_target(own).number != parse_target(model.target).number:
        raise UsageError(
            f"the model {path} is of {model.target}, and {device} computes as {own}; give the one "
            "that `warpfuzz measure --output FILE` writes there"
        )
    use_model(model)
    return model


def _check(choice: RunnerChoice) -> None:
    device_faults = [name for name in choice.faults if by_name(name).place is FaultPlace.DEVICE]
    if choice.name == "sim":
        if choice.level is not None and choice.assembler is None and choice.front_end is None:
            raise UsageError(
                f"--opt {choice.level} says how to compile for a GPU, and the simulated device "
                "reads the PTX itself; leave it out, name an assembler that judges the modules, or "
                "choose --runner cuda"
            )
    elif choice.maker is None:
        check_named(choice.name, BUILT_IN)
        if device_faults:
            raise UsageError(
                f"fault {device_faults[0]} sits inside the simulated device, and the runner is "
                f"{choice.name}; choose --runner sim, or a fault of the PTX"
            )
        compiled = choice.assembler or (choice.front_end is None and choice.level is not None)
        if compiled and choice.name != "cuda":
            raise UsageError(
                f"the runner {choice.name} reads the PTX itself, and --assembler and --opt say how "
                "to compile for a GPU; leave them out"
            )
    if choice.target is not None:
        parse_target(choice.target)
    if choice.ptx_pass is not None:
        check_program(PtxPass(choice.ptx_pass).missing, f"--ptx-pass {quoted(choice.ptx_pass)}")


def _plain(choice: RunnerChoice) -> Runner:
    if choice.maker is not None:
        return choice.maker(choice)
    level = DRIVER.default_level if choice.level is None else choice.level
    compiler: Compiler | None = None
    if choice.assembler is not None:
        compiler = choice.assembler.compiler(level, text_taken=choice.name == "sim")
    if choice.name == "sim":
        from runners.simulated_runner import SimulatedRunner

        return SimulatedRunner(
            choice.target or DEFAULT_TARGET,
            layout_seed=choice.layout,
            faults=[
                fault for fault in map(by_name, choice.faults) if fault.place is FaultPlace.DEVICE
            ],
            compiler=compiler,
        )
    if choice.name != "cuda":
        if choice.identity not in ("", identity_of(choice.name)):
            raise UsageError(
                f"the runner {choice.name} on {platform.node()} is not the one with which the "
                "campaign began: its files differ; install the same everywhere"
            )
        deadline = DEADLINE if choice.deadline is None else choice.deadline
        return ForeignRunner(choice.name, choice.target or DEFAULT_TARGET, deadline=deadline)
    from runners.cuda.runner import CudaRunner

    seen = {"CUDA_VISIBLE_DEVICES": choice.visible} if choice.visible else {}
    waits: dict[str, Any] = {} if choice.deadline is None else {"deadline": choice.deadline}
    return CudaRunner(
        device=choice.device, compiler=compiler or DRIVER.compiler(level), environment=seen, **waits
    )


def _on_this_host(choice: RunnerChoice) -> RunnerChoice:
    """Return a choice with compilers as they lie here: a fleet's hosts may differ."""
    if choice.assembler is None and choice.front_end is None:
        return choice
    from runners.compilers import assembler_on_this_host, front_end_on_this_host

    return replace(
        choice,
        assembler=choice.assembler and assembler_on_this_host(choice.assembler),
        front_end=choice.front_end and front_end_on_this_host(choice.front_end),
    )


def _own_target(targets: frozenset[str]) -> str:
    plain = [TARGETS[name] for name in targets if not TARGETS[name].suffix]
    return max(plain, key=lambda target: target.number).name


def version_for(wanted: str | None, target: str) -> str:
    """Return the PTX ISA version of modules for a target: DEFAULT_VERSION, or the first to know it.

    Raises UsageError if one of them does not exist, or the one does not know the other.
    """
    module = Module.named(target, wanted)
    if not module.exists:
        row = module.target
        raise UsageError(
            f"PTX ISA version {module.version} does not know {target}, which is known since "
            f"{row.since}{f' and until {row.until}' if row.until else ''}; choose another "
            "--ptx-version"
        )
    return str(module.version)


class UnsupportedError(InfrastructureError):
    """A runner cannot do by design what it was asked: it takes no launch of its own, say."""


def kind_of_failure(failure: Failure) -> Kind:
    """Return what a finding of this failure is called.

    Raises DeviceLostError if there is no device: nothing more can be run, UnsupportedError if the
    runner cannot do it by design, and InfrastructureError if it lacks something: nothing was found.
    """
    detail = f" ({failure.detail.strip()})" if failure.detail.strip() else ""
    ends = {
        Trouble.DEVICE_LOST: DeviceLostError,
        Trouble.UNSUPPORTED: UnsupportedError,
        Trouble.UNAVAILABLE: InfrastructureError,
    }
    if failure.trouble in ends:
        raise ends[failure.trouble](f"{failure}{detail}")
    return BY_TROUBLE[failure.trouble]


_MADE: list[Any] = []  # what a process of a pool has made of its runner


def make_here(choice: RunnerChoice, make: Callable[..., Any], *given: object) -> None:
    """Make something of a runner, and of what is given, for `made_here` in this process."""
    runner = open_runner(choice).runner
    # A process of a pool ends without `atexit`; this is what it does run.
    Finalize(None, runner.close, exitpriority=10)
    _MADE[:] = [make(runner, *given)]


def made_here() -> Any:
    """Return what this process of a pool has made of its runner."""
    return _MADE[0]
