"""The simulated device behind the runners' protocol: slow, and there on every machine."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import TypeVar

import numpy as np

from oracle.errors import UsageError
from oracle.isa.targets import DEFAULT_TARGET, TARGETS
from runners.cuda.compilation import Compiler
from runners.kernels import KernelModule, ScreeningKernel
from runners.ledger import ledger_bytes, read_ledger
from runners.protocol import (
    Capabilities,
    ClosedAtTheEnd,
    Collected,
    Compiled,
    Failure,
    Images,
    Pending,
    Ran,
    Trouble,
    check_images,
    check_open,
)
from runners.ptx_text import is_ptx
from runners.reference.fresh import FreshRan, FreshWork, PendingFresh, finished_by
from runners.reference.shipped import HostReference
from runners.screening import References, Screened, Screening, screening_kernel
from runners.simulated import LoadedModule, SimulatedDevice, SimulatedTrap, TrapKind
from runners.simulated.silicon import Chip, Planted, runs, target_named
from runners.simulated.warps import MULTIPROCESSORS

_MODULES = 16  # that stay loaded; one of eight programs takes 2.5 MiB (2026-11)

Result = TypeVar("Result")
# What a real runner would report where the simulated device traps.
_TROUBLES = {
    **dict.fromkeys((TrapKind.PARSE, TrapKind.ILLEGAL), Trouble.COMPILE_FAILURE),
    **dict.fromkeys((TrapKind.UNINITIALISED, TrapKind.RACE), Trouble.LAUNCH_FAILURE),
    TrapKind.UNSUPPORTED: Trouble.UNSUPPORTED,
    TrapKind.DIVERGENT: Trouble.DIVERGENCE,
    TrapKind.HANG: Trouble.HANG,
}
"""Any other is an error that a context does not survive."""


class SimulatedRunner(ClosedAtTheEnd):
    """A simulated device of a target and a fragment layout; batches run when they are submitted.

    `faults` are wrong with it (`runners.faults`), `chip` has its floating-point units if not those
    of the target. Whether it takes a module is the `compiler`'s to say, too: an assembler that
    writes PTX instead of machine code (`runners.ptx_text.is_ptx`), which the device runs. Machine
    code is refused. Raises UsageError if no such target can be simulated.
    """

    def __init__(
        self, target: str = DEFAULT_TARGET, *, layout_seed: int = 0, faults: Sequence[Planted] = (),
        compiler: Compiler | None = None, chip: Chip | None = None,
    ) -> None:  # fmt: skip
        self.compiler, self._closed = compiler, False
        # Kernels with parameters of their own are written by others, who may take the places of
        # things for granted; what they are compared with ran at the usual ones, too.
        make = partial(SimulatedDevice, target, layout_seed=layout_seed, faults=faults, chip=chip)
        self._device, self._elsewhere = make(), make(otherwise=True)
        self._modules: OrderedDict[str, LoadedModule | Failure] = OrderedDict()

    def capabilities(self) -> Capabilities:
        """Say what can run: every target whose code the simulated architecture takes."""
        device, targets = self._device, set()
        for name in TARGETS:
            with suppress(UsageError):
                if runs(device.target, target_named(name)):
                    targets.add(name)
        faults = len(device.faults)
        planted = f", {faults} fault{'s' if faults != 1 else ''} planted" if faults else ""
        description = f"simulated {device.target.name}{planted}"
        return Capabilities(name="sim", targets=frozenset(targets), description=description)

    def compile(self, module: KernelModule) -> Compiled | Failure:
        """Parse and check a module."""
        check_open(self._closed)
        compiled: Compiled | Failure
        if self.compiler is None:
            compiled = self._read(module, "the simulated device's reader of PTX", b"")
        else:
            compiled = self.compile_with(self.compiler, module)
        return compiled if isinstance(compiled, Failure) else self.load(compiled).collect()

    def load(self, compiled: Compiled) -> Collected[Compiled | Failure]:
        """Parse and check a module that is compiled."""
        loaded = self._load(compiled)
        return Collected(outcome=loaded if isinstance(loaded, Failure) else compiled)

    def submit(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Pending:
        """Run a batch; raises UsageError as the protocol says."""
        return Collected(outcome=self.run(compiled, images, entry=entry))

    def prepare(self, module: KernelModule) -> Compiled | Failure:
        """Parse and check a module."""
        return self.compile(module)

    def compile_with(self, compiler: Compiler, module: KernelModule) -> Compiled | Failure:
        """Have an assembler judge a module, and take what it wrote, without checking that.

        Several threads may do so at once.
        """
        written = compiler.compile(module, self.architecture(module.target))
        if isinstance(written, Failure):
            return written
        if not is_ptx(written.code):
            said = "the simulated device reads PTX and does not run the machine code of "
            said += f"{written.compiler}; run it on a GPU (--runner cuda)"
            return Failure(trouble=Trouble.UNSUPPORTED, message=said)
        module = replace(module, ptx=written.code.decode(errors="replace"))
        return self._read(module, written.compiler, written.code)

    def architecture(self, target: str) -> str:
        """Return the architecture for which modules of a target are compiled, such as "sm_90"."""
        module, own = target_named(target), self._device.target
        same = module.suffix and module.architecture == own.architecture
        return module.name if same else own.name

    def _read(self, module: KernelModule, compiler: str, code: bytes) -> Compiled:
        key = hashlib.sha256(f"sim {module.digest}".encode()).hexdigest()
        own = self.architecture(module.target)
        return Compiled(module=module, architecture=own, compiler=compiler, key=key, code=code)

    def _load(self, compiled: Compiled) -> LoadedModule | Failure:
        kernels = compiled.module.kernels
        own = any(one.launch and not isinstance(one, ScreeningKernel) for one in kernels)
        key = f"{compiled.key} {own}"
        if key not in self._modules:
            device, ptx = self._elsewhere if own else self._device, compiled.module.ptx
            self._modules[key] = _caught(ptx, lambda: device.load(ptx))
            if len(self._modules) > _MODULES:
                self._modules.popitem(last=False)
        self._modules.move_to_end(key)
        return self._modules[key]

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        """Run a batch; raises UsageError as the protocol says."""
        check_open(self._closed)
        kernel = compiled.module.kernel(entry)
        check_images(kernel, images)
        module = self._load(compiled)
        if isinstance(module, Failure):
            return module
        start = time.perf_counter()
        came = _caught(compiled.module.ptx, lambda: module.launch_kernel(kernel, images))
        if isinstance(came, Failure):
            return came
        results, sms = came
        results.flags.writeable = sms.flags.writeable = False
        return Ran(images=results, sms=sms, seconds=time.perf_counter() - start)

    def screen(
        self, compiled: Compiled, references: References, *, limit: int, entry: str | None = None,
        examine: bool = False,
    ) -> Screening:  # fmt: skip
        """Screen; raises as `runners.screening.Screener` says. There are no sensors."""
        check_open(self._closed)
        kernel = screening_kernel(compiled.module, entry, references, limit)
        module = self._load(compiled)
        if isinstance(module, Failure):
            return Collected(outcome=module)
        scratch = kernel.image_bytes * kernel.warps_per_block * MULTIPROCESSORS
        start = time.perf_counter()
        empty = np.zeros(ledger_bytes(kernel.image_bytes), np.uint8)
        book = _caught(compiled.module.ptx, lambda: module.screen(
            kernel.entry, references.images, references.expected, empty, limit=limit,
            scratch_bytes=scratch if kernel.scratch == "global" else 0,
            threads=kernel.threads, blocks=1, dynamic_bytes=kernel.dynamic_bytes,
        ))  # fmt: skip
        if isinstance(book, Failure):
            return Collected(outcome=book)
        ledger, seconds = read_ledger(book, kernel.image_bytes), time.perf_counter() - start
        return Collected(outcome=Screened(ledger=ledger, seconds=seconds, health=None))

    def fresh(
        self, compiled: Compiled, work: FreshWork, *, entry: str | None = None
    ) -> PendingFresh:
        """Run images that are made by their numbers, and compare on the processor.

        Raises InfrastructureError if there is no C++ compiler for the reference.
        """
        size, first, start = work.encoded.image_bytes, work.first, time.perf_counter()
        before = host_reference().fill(work.contents, size, first, work.count)
        ran = self.run(compiled, before, entry=entry)
        if isinstance(ran, Failure):
            return Collected(outcome=ran)
        found = host_reference().compare(work.encoded, before, ran.images, first)
        listed, sampled = work.kept(found, first)
        numbers = np.array([*listed, *sampled], np.uint64)
        places = (numbers - np.uint64(first)).astype(np.intp)
        compared = work.count if found.differing == len(listed) else listed[-1] + 1 - first
        return Collected(outcome=FreshRan(
            images=work.count, differing=found.differing, listed=len(listed),
            seconds=time.perf_counter() - start, finished=finished_by(ran.sms, compared),
            numbers=numbers, sms=ran.sms[places], before=before[places], after=ran.images[places],
        ))  # fmt: skip

    def close(self) -> None:
        """Forget the modules."""
        self._closed = True
        self._modules.clear()


@cache
def host_reference() -> HostReference:
    """Return the reference, built once for this process; raises as `HostReference` does."""
    return HostReference()


def _caught(ptx: str, run: Callable[[], Result]) -> Result | Failure:
    """Return what comes out, or a trap as a failure, whose detail ends with the line of the PTX."""
    try:
        return run()
    except SimulatedTrap as stopped:
        trap, said = stopped.trap, [str(stopped)]
    said += [text.strip() for text in ptx.splitlines()[trap.line - 1 : trap.line] if trap.line]
    message = "the simulated device stops"  # the detail says why
    trouble = _TROUBLES.get(trap.kind, Trouble.STICKY_ERROR)
    return Failure(trouble=trouble, message=message, detail="\n".join(said))
