"""The CUDA runner: programs on a real GPU."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from oracle.errors import UsageError
from oracle.isa.targets import TARGETS, Target
from runners.cuda.compilation import Compiler, DriverCompiler, PtxasCompiler, release_of
from runners.cuda.libraries import DeviceFacts, DeviceHealth
from runners.cuda.session import RunBatch, ScreenRequest
from runners.cuda.supervisor import PAGE, Supervisor, lease_of
from runners.emission.warpgroups import SHARED_BYTES
from runners.kernels import LANES, KernelModule
from runners.protocol import (
    Capabilities,
    ClosedAtTheEnd,
    Collected,
    Compiled,
    Failure,
    Images,
    Later,
    Pending,
    Ran,
    Trouble,
    check_images,
)
from runners.ptx_text import is_ptx
from runners.reference.fresh import FreshWork, PendingFresh
from runners.screening import References, Screening, screening_kernel

_EXAMINE_SECONDS = 20.0
_REFERENCE_SECONDS = 60.0
"""What a child's first comparison may take longer: the driver compiles the reference, for 6 to 12 s
while others work (H200, 2026-11-28)."""
_WARPS = 64
"""Most warps of a multiprocessor on any target (CUDA C++ Programming Guide, Technical
Specifications). Blocks that find no room start when others have ended, and end at once."""
_SCRATCH_BYTES = 8 << 20
"""Scratch memory of a launch, in bytes, beside the images in the second-level cache: of 8 to 96
MiB, 8 was the fastest, 755 million images a second against 467 to 490 (H200, 2026-11-22)."""


class CudaRunner(ClosedAtTheEnd):
    """A CUDA device in a child process that may be lost at any time.

    Batches may be submitted while earlier ones run; they run one after another, each cut into
    chunks whose copies and kernels overlap. Results lie in shared memory, which is used again
    when the last array over it is gone.

    `device`: number of the device, as the driver counts. `compiler`: who translates PTX:
    `DriverCompiler()` (the default) or a `PtxasCompiler`. `deadline`: seconds that one batch may
    take before it is called a hang. `start_deadline`: seconds until the device must have passed its
    self-check. `load_deadline`: seconds that the driver may take over one module. `chunk_bytes`:
    bytes of images in one copy. `environment`: variables for the child, besides those of this
    process.
    """

    def __init__(
        self,
        *,
        device: int = 0,
        compiler: Compiler | None = None,
        deadline: float = 10.0,
        start_deadline: float = 60.0,
        load_deadline: float = 120.0,
        chunk_bytes: int = 8 << 20,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if min(deadline, start_deadline, load_deadline) <= 0 or chunk_bytes <= 0 or device < 0:
            raise UsageError(
                f"deadlines and chunk_bytes must be positive and the device not negative; given "
                f"are {deadline}, {start_deadline}, {load_deadline}, {chunk_bytes} and {device}"
            )
        self.compiler: Compiler = compiler or DriverCompiler()
        self.deadline = deadline  # seconds that one batch may take; may be changed between batches
        self._chunk_bytes = chunk_bytes
        self._supervisor = Supervisor(
            device,
            start_allowance=start_deadline,
            load_allowance=load_deadline,
            environment=environment or {},
        )

    @property
    def starts(self) -> int:
        """How many children have become ready so far: one, and one more after each disaster."""
        return self._supervisor.starts

    @property
    def pid(self) -> int | None:
        """Process number of the child, which leads its group; None while there is none."""
        return self._supervisor.pid

    def facts(self) -> DeviceFacts | Failure:
        """Describe the device and its software, or say why there is none."""
        if sys.platform != "linux":
            return Failure(
                trouble=Trouble.UNAVAILABLE,
                message=f"the CUDA runner needs Linux, and this is {sys.platform}; use `sim`",
            )
        return self._supervisor.facts()

    def health(self) -> DeviceHealth | Failure:
        """Read the device's clocks, temperature and error counters."""
        facts = self.facts()
        if isinstance(facts, Failure):
            return facts
        title = "reading the device's sensors"
        health: DeviceHealth | Failure = self._supervisor.submit(
            title, "health", allowance=_EXAMINE_SECONDS
        ).collect()
        return health

    def capabilities(self) -> Capabilities | Failure:
        """Say what can run on the device: its own target and all portable ones before it."""
        facts = self.facts()
        if isinstance(facts, Failure):
            return facts
        number = facts.number
        own = TARGETS.get(f"sm_{number}")
        family = own.family if own else None

        def runs(target: Target) -> bool:  # (PTX ISA 11.1.2)
            if target.suffix == "a":
                return target.number == number
            same = target.suffix != "f" or (family is not None and target.family == family)
            return same and target.number <= number

        return Capabilities(
            name="cuda",
            targets=frozenset(target.name for target in TARGETS.values() if runs(target)),
            description=f"{facts.name}, driver {facts.driver or '?'}, CUDA {facts.cuda}, "
            f"PyCUDA {facts.pycuda}",
        )

    def compile(self, module: KernelModule) -> Compiled | Failure:
        """Compile a module for the device and load it."""
        compiled = self.compile_with(self.compiler, module)
        if isinstance(compiled, Failure):
            return compiled
        return self.load(compiled).collect()

    def load(self, compiled: Compiled) -> Later[Compiled | Failure]:
        """Begin to load a module, unless it is loaded; the driver compiles PTX then."""
        return self._supervisor.load(compiled)

    def prepare(self, module: KernelModule) -> Compiled | Failure:
        """Begin to compile a module for the device; the first launch reports the result."""
        compiled = self.compile_with(self.compiler, module)
        if isinstance(compiled, Compiled):
            self.load(compiled)
        return compiled

    def compile_with(self, compiler: Compiler, module: KernelModule) -> Compiled | Failure:
        """Compile a module for the device with any compiler, without loading it.

        A batch of it loads it. Once the device is there (`facts`), several threads may compile.
        """
        architecture = self.architecture(module.target)
        if isinstance(architecture, Failure):
            return architecture
        made = compiler.compile(module, architecture)
        if isinstance(made, Compiled) and is_ptx(made.code):
            # Whoever wrote that, the driver makes machine code of it.
            return replace(made, release=self.release(driver=True))
        return made

    def release(self, *, driver: bool = False) -> str:
        """Return the release of CUDA whose compiler makes machine code: "13.0", or "unknown".

        Asked for the driver, it is that of the compiler inside it, whatever the runner's own is.
        """
        if not driver and isinstance(self.compiler, PtxasCompiler):
            return release_of(self.compiler.version)
        facts = self.facts()
        return "unknown" if isinstance(facts, Failure) else release_of(facts.cuda)

    def architecture(self, target: str) -> str | Failure:
        """Return the architecture for which modules of a target are compiled, such as "sm_90"."""
        can, facts = self.capabilities(), self.facts()
        if isinstance(can, Failure):
            return can
        if isinstance(facts, Failure):
            return facts
        if target not in can.targets:
            return Failure(
                trouble=Trouble.UNSUPPORTED,
                message=f"{facts.name} is sm_{facts.number} and does not run {target}",
            )
        return target if TARGETS[target].suffix else f"sm_{facts.number}"

    def lease(self, count: int, image_bytes: int) -> Images:
        """Return a writable array, uint8 (count, image_bytes), that travels without a copy.

        Whatever was there before is in it. A batch of it, or of consecutive images of it, is read
        by the device in place: leave it alone from submission to collection. Raises
        InfrastructureError if there is no memory.
        """
        lease = self._supervisor.pool.lease(count * image_bytes)
        return lease.array(np.uint8, (count, image_bytes))

    def submit(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Pending:
        """Start a batch.

        Raises UsageError if the images do not fit the kernel, or the module has no such entry;
        InfrastructureError if there is no shared memory.
        """
        kernel = compiled.module.kernel(entry)
        check_images(kernel, images)
        count = images.shape[0]
        if count == 0:
            nothing = np.zeros((0, kernel.image_bytes), np.uint8)
            return Collected(outcome=Ran(images=nothing, sms=np.zeros(0, np.uint32), seconds=0.0))
        source, offset = lease_of(images) or (None, 0)
        if source is None or source.pool is not self._supervisor.pool:
            source, offset = self._supervisor.pool.lease(images.nbytes), 0
            np.copyto(source.array(np.uint8, images.shape), images)
        sms_offset = -(-images.nbytes // PAGE) * PAGE
        destination = self._supervisor.pool.lease(sms_offset + 4 * count)
        chunk = max(1, self._chunk_bytes // kernel.image_bytes // kernel.warps_per_block)
        batch = RunBatch(
            key=compiled.key, kernel=kernel, count=count, source=source.slot.number,
            source_offset=offset, destination=destination.slot.number, sms_offset=sms_offset,
            chunk_images=min(chunk * kernel.warps_per_block, count),
        )  # fmt: skip

        def made(seconds: float) -> Ran:
            after = destination.array(np.uint8, (count, kernel.image_bytes))
            sms = destination.array(np.uint32, (count,), sms_offset)
            after.flags.writeable = sms.flags.writeable = False
            return Ran(images=after, sms=sms, seconds=seconds)

        return self._supervisor.submit(
            f"running {kernel.entry} on {count} images", "run", batch,
            allowance=self.deadline, made=made, runs=compiled, leases=(source, destination),
        )  # fmt: skip

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        """Run a batch and wait for it; raises as `submit` does."""
        return self.submit(compiled, images, entry=entry).collect()

    def screen(
        self,
        compiled: Compiled,
        references: References,
        *,
        limit: int,
        entry: str | None = None,
        examine: bool = False,
    ) -> Screening:
        """Start a screening launch; raises as `runners.screening.Screener` says."""
        kernel = screening_kernel(compiled.module, entry, references, limit)
        facts = self.facts()
        if isinstance(facts, Failure):
            return Collected(outcome=facts)
        # So many fill a device, with scratch memory that stays in its cache.
        each = -(-_WARPS * LANES // kernel.threads)
        if kernel.dynamic_bytes:
            each = min(each, SHARED_BYTES // kernel.dynamic_bytes)
        elif kernel.scratch == "global":
            wave = kernel.image_bytes * kernel.warps_per_block * facts.multiprocessors
            each = max(1, min(each, _SCRATCH_BYTES // wave))
        launch = ScreenRequest(
            key=compiled.key, kernel=kernel, references=references.number, limit=limit,
            count=len(references.images), blocks=each * facts.multiprocessors, examine=examine,
        )  # fmt: skip
        return self._supervisor.submit(
            f"screening with {kernel.entry}, {limit} images a multiprocessor,", "screen", launch,
            allowance=self.deadline, runs=compiled, references=references,
        )  # fmt: skip

    def fresh(
        self, compiled: Compiled, work: FreshWork, *, entry: str | None = None
    ) -> PendingFresh:
        """Start a comparison of images that the device makes by their numbers."""
        kernel = compiled.module.kernel(entry)
        return self._supervisor.submit(
            f"comparing {kernel.entry} on {work.count} images from {work.first} on",
            "compare", compiled.key, kernel, work,
            allowance=self.deadline + _REFERENCE_SECONDS, runs=compiled,
        )  # fmt: skip

    def close(self) -> None:
        """End the child and everything it started."""
        self._supervisor.close()
