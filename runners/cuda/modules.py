"""Modules and memory in the context of the child."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from runners.cuda.libraries import DriverLibrary
from runners.folders import cache_folder
from runners.kernels import LANES, Kernel, launches_of, parameters_at
from runners.protocol import Failure, Trouble, refused

Launcher: TypeAlias = Callable[[int, int, int, Any], None]
"""Queues a kernel: takes addresses of images and of the numbers of their multiprocessors, how many
images there are, and a stream."""
_FOLDER = "machine code"
_WITHOUT_ASKING = 48 << 10
"""Dynamic shared memory of a block for which nobody is asked (CUDA C++ Programming Guide, Shared
Memory of 9.0), in bytes."""
_DIGEST_BYTES = hashlib.sha256().digest_size


class LoadError(Exception):
    """The driver refused a module."""


class LaunchError(Exception):
    """A batch failed; of its failure the message is the end of a sentence about the batch."""

    def __init__(self, text: str, *, sticky: bool) -> None:
        super().__init__(text)
        self.failure = Failure(
            trouble=Trouble.STICKY_ERROR if sticky else Trouble.LAUNCH_FAILURE,
            message="poisons the context" if sticky else "fails, and the device works on",
            detail=text,
        )


class GrowingMemory:
    """Memory that is used again under its name, and made anew where it is too small.

    `made` makes memory of a size; `idle` waits until nobody uses what was made before.
    """

    def __init__(
        self, made: Callable[[int], Any], idle: Callable[[], object] = lambda: None
    ) -> None:
        self._made, self._idle = made, idle
        self._memories: dict[str, tuple[int, Any]] = {}

    def __call__(self, name: str, size: int) -> Any:
        """Return memory of at least a size."""
        there, memory = self._memories.get(name, (-1, None))
        if there < size:
            if memory is not None:
                self._idle()
                del memory, self._memories[name]
            memory = self._made(size)
            self._memories[name] = size, memory
        return memory


def kept_code(identity: str, made: Callable[[], bytes | None]) -> bytes | None:
    """Return machine code that was kept, or have it made and keep it; None if that fails.

    Of warpfuzz's own kernels: programs under test are compiled anew each time. The driver takes 6
    to 12 s for the reference while others work (H200, 2026-11-28), and so would each process that
    replaces one whose context is lost. While one has it made, the others wait. `identity` is all
    that it depends on.
    """
    name = hashlib.sha256(identity.encode()).hexdigest()
    with contextlib.ExitStack() as stack:
        file = None
        # Without a folder that can be written it is made each time.
        with contextlib.suppress(OSError):
            folder = cache_folder() / _FOLDER
            folder.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context((folder / name).open("a+b"))
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            digest, code = file.read(_DIGEST_BYTES), file.read()
            # Of one that was written in part, as when a disk is full, it is not the digest.
            if digest == hashlib.sha256(code).digest():
                return code
        new = made()
        if file is not None and new is not None:
            with contextlib.suppress(OSError):
                file.truncate(0)
                file.write(hashlib.sha256(new).digest() + new)
                file.flush()
        return new


class Modules:
    """The modules of a context of PyCUDA's driver module, and what that lacks.

    `compiler` names the driver and the device that it compiles for; "" if they are not known.
    """

    def __init__(self, driver: Any, library: DriverLibrary, compiler: str = "") -> None:
        self._driver, self._library, self._compiler = driver, library, compiler
        self._modules: dict[str, Any] = {}
        self._functions: dict[tuple[str, str], Any] = {}

    def take(self, key: str, code: bytes, level: int | None) -> Failure | None:
        """Load machine code, or PTX at a level; say why not if the driver refuses it."""
        try:
            self.load(key, code, level)
        except LoadError as error:
            text = code.decode(errors="replace")
            return refused("the driver refuses the module", str(error), text)
        return None

    def load(self, key: str, code: bytes, level: int | None) -> None:
        """Load a cubin, or PTX at a level of optimisation.

        PTX under test is compiled by this call alone: what cuLink makes of it is other code, of
        `ptxas -c` (of 135 kernels 64 had other registers, driver 580.159.04, 2026-11-29). Raises
        LoadError if the driver refuses it; the message is the driver's.
        """
        option = self._driver.jit_option.OPTIMIZATION_LEVEL
        options = [] if level is None else [(option, level)]
        try:
            # `bytes` ends in a zero byte, which PTX for cuModuleLoadDataEx must.
            self._modules[key] = self._driver.module_from_buffer(code, options)
        except self._driver.Error as error:
            raise LoadError(str(error)) from None

    def load_own(self, key: str, ptx: bytes, level: int) -> None:
        """Load PTX that is not under test; its machine code is kept for other processes.

        Raises LoadError if the driver refuses it.
        """
        code = self._compiler and kept_code(
            f"{self._compiler} -O{level}\n{ptx.decode()}",
            lambda: self._library.compile(ptx, level),
        )
        self.load(key, code or ptx, None if code else level)

    def forget(self, key: str) -> None:
        """Unload a module."""
        for name in [name for name in self._functions if name[0] == key]:
            del self._functions[name]
        self._modules.pop(key, None)

    def function(self, key: str, entry: str, parameters: str, dynamic_bytes: int = 0) -> Any:
        """Return a kernel that takes parameters as PyCUDA spells them, with so much memory."""
        if key not in self._modules:
            raise LaunchError("its module is not loaded", sticky=False)
        if (key, entry) not in self._functions:
            function = self._modules[key].get_function(entry)
            function.prepare(parameters)
            if dynamic_bytes > _WITHOUT_ASKING:
                asked = self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
                function.set_attribute(asked, dynamic_bytes)
            self._functions[key, entry] = function
        return self._functions[key, entry]

    def launcher(self, key: str, kernel: Kernel) -> Launcher:
        """Return what queues a kernel; LaunchError if its module is not loaded."""
        own = kernel.launch
        parameters = "PPI" if own is None else f"{len(own.parameters)}s"
        dynamic = own.shared_bytes if own else 0
        function = self.function(key, kernel.entry, parameters, dynamic)
        return partial(_launch, function, kernel)


def _launch(function: Any, kernel: Kernel, images: int, sms: int, count: int, stream: Any) -> None:
    warps = kernel.warps_per_block
    if kernel.launch is None:
        grid, block = (-(-count // warps), 1), (LANES * warps, 1, 1)
        function.prepared_async_call(grid, block, stream, images, sms, count)
        return
    for some, one in launches_of(kernel.launch, count, kernel.image_bytes, count):
        function.prepared_async_call(
            one.grid, one.block, stream,
            parameters_at(one, images + some.start * kernel.image_bytes),
            shared_size=one.shared_bytes,
        )  # fmt: skip
