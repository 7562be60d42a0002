"""One module by every member: what each accepts, and what the distinct binaries compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self, TypeVar

from fuzz.compilers.members import Device, Member
from oracle.errors import InfrastructureError
from runners.assemblers.machine_code import kernel_digests
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Images, Pending, Ran

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Built:
    """One module as every member compiled it."""

    module: KernelModule
    made: Mapping[Member, Compiled | Failure]
    """In the order of the members."""

    @property
    def failed(self) -> Mapping[Member, Failure]:
        """The members that did not compile it."""
        return {one: made for one, made in self.made.items() if isinstance(made, Failure)}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One binary of a kernel, and who made it."""

    members: tuple[Member, ...]
    compiled: Compiled
    """Of the first of them."""


@dataclass(kw_only=True)
class Building:
    """A module that is being compiled."""

    module: KernelModule
    waiting: Mapping[Member, Future[Compiled | Failure]] = field(repr=False)

    def wait(self, beat: Callable[[], None] = lambda: None) -> Built:
        """Return what came of it; `beat` is called every second until then."""
        while wait_for(self.waiting.values(), timeout=1.0).not_done:
            beat()
        made = {member: future.result() for member, future in self.waiting.items()}
        return Built(module=self.module, made=made)


class Matrix:
    """Compiles with all members at the same time, and runs on one device.

    Parameters
    ----------
    device
        Where binaries run.
    members
        Who compiles.
    jobs
        Compilers that run at the same time.
    """

    def __init__(self, device: Device, members: Sequence[Member], *, jobs: int) -> None:
        self.device = device
        self.members = tuple(members)
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="compile")
        self._codes: dict[str, dict[str, str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def start(self, module: KernelModule, members: Sequence[Member] | None = None) -> Building:
        """Start compiling a module, by all members or by some."""
        return Building(
            module=module,
            waiting={
                member: self._pool.submit(self.device.compile_with, member.compiler, module)
                for member in (self.members if members is None else members)
            },
        )

    def variants(self, built: Built, entry: str) -> Sequence[Variant]:
        """Return the distinct binaries of a kernel: identical machine code is run once."""
        groups: dict[str, list[Member]] = {}
        for member, compiled in built.made.items():
            if isinstance(compiled, Compiled):
                groups.setdefault(self._identity(compiled, entry), []).append(member)
        return [
            Variant(members=tuple(members), compiled=_compiled(built.made[members[0]]))
            for members in groups.values()
        ]

    def submit(self, variants: Sequence[Variant], images: Images, entry: str) -> Sequence[Pending]:
        """Start a batch on each variant."""
        return [self.device.submit(one.compiled, images, entry=entry) for one in variants]

    @staticmethod
    def collect(pending: Sequence[Pending]) -> Iterator[Ran | Failure]:
        """Wait for batches, in order."""
        for one in pending:
            yield one.collect()

    def each(self, codes: Mapping[Member, bytes], work: Callable[[bytes], T]) -> dict[Member, T]:
        """Do something with the code of each member, with as many at a time as are compiled."""
        started = {member: self._pool.submit(work, code) for member, code in codes.items()}
        return {member: future.result() for member, future in started.items()}

    def forget(self) -> None:
        """Forget the machine code of modules that are over."""
        self._codes.clear()

    def _identity(self, compiled: Compiled, entry: str) -> str:
        """Return what is equal for code that does the same on this device."""
        if compiled.key not in self._codes:
            digests: dict[str, str] = {}
            with suppress(ValueError):  # PTX for the driver, or for a device that reads it
                digests = kernel_digests(compiled.code)
            self._codes[compiled.key] = digests
        return self._codes[compiled.key].get(entry, compiled.key)


def _compiled(made: Compiled | Failure) -> Compiled:
    if isinstance(made, Failure):
        raise InfrastructureError(f"there is no code to run: {made}")
    return made
