"""As much of `pycuda.driver` as the child uses, on a device that is made of bytes.

Kernels named `increment` add one to every byte; images that start with one of the bytes below do
something else; the self-check has its answer, and the reference that of a build for the processor.
Everything else in a module is interpreted by the simulated device. What fails at the start is
chosen by the variable FAKE_DEVICE.
"""

import contextlib
import ctypes
import functools
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from runners.cuda import self_check

MISALIGNED, HANGS, KILLS, REFUSES, GARBLES, ANSWERS_ANOTHER, EXITS = range(0xF1, 0xF8)
"""First bytes of images that make `increment` misbehave."""

MODE = os.environ.get("FAKE_DEVICE", "")


class Error(Exception):
    """What all the driver's are."""


MemoryError = type("MemoryError", (Error, MemoryError), {})  # noqa: A001
LogicError, LaunchError, RuntimeError = (  # noqa: A001
    type(name, (Error,), {}) for name in ("LogicError", "LaunchError", "RuntimeError")
)
ctx_flags = SimpleNamespace(SCHED_BLOCKING_SYNC=4)
event_flags = SimpleNamespace(BLOCKING_SYNC=1)
device_attribute = SimpleNamespace(MULTIPROCESSOR_COUNT=16, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=97)
function_attribute = SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
jit_option = SimpleNamespace(OPTIMIZATION_LEVEL=7)

_dead = False
_memory: dict[int, np.ndarray] = {}
_filled: dict[int, int] = {}
_next_address = 1 << 32
_locked: set[int] = set()
_linked: dict[int, object] = {}


def _alive() -> None:
    if _dead:
        raise LogicError("cuCtxSynchronize failed: misaligned address")


def init(flags: int = 0) -> None:
    state = Path(os.environ.get("FAKE_STATE", os.devnull))
    if MODE == "gone" or (state.is_file() and state.read_text() == "lost"):
        raise RuntimeError("cuInit failed: no CUDA-capable device is detected")
    if MODE == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if MODE == "sleeps":
        time.sleep(1000)
    if MODE == "babbles":
        os.write(int(sys.argv[1]), b"hello, this is no answer at all")
        time.sleep(1000)
    if MODE == "small launches":
        from runners.cuda import fresh

        fresh._CHUNK_BYTES = 1 << 16


def get_driver_version() -> int:
    return 13000


class Context:
    @staticmethod
    def synchronize() -> None:
        _default.synchronize()

    @staticmethod
    def get_device() -> "Device":
        return Device(0)


class Device:
    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal

    @staticmethod
    def count() -> int:
        return 0 if MODE == "none" else 1

    def make_context(self, flags: int = 0) -> Context:
        return Context()

    def name(self) -> str:
        return "Fake Device"

    def pci_bus_id(self) -> str:
        return "0000:00:00.0"

    def compute_capability(self) -> tuple[int, int]:
        return (9, 0)

    def total_memory(self) -> int:
        return 1 << 30

    def get_attribute(self, attribute: int) -> int:
        return {
            device_attribute.MULTIPROCESSOR_COUNT: 132,
            device_attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: 227 << 10,
        }[attribute]


class Stream:
    """Runs what is queued when it is waited for, so that nothing works by being early."""

    def __init__(self, flags: int = 0) -> None:
        self.queue: list = []

    def synchronize(self) -> None:
        queue, self.queue = self.queue, []
        for job in queue:
            _alive()
            job()
        _alive()


_default = Stream()
"""Where what is given no stream is queued."""


class Event:
    """Happens when what was queued before it has run."""

    def __init__(self, flags: int = 0) -> None:
        self.when: float | None = None
        self.stream = Stream()

    def record(self, stream: Stream) -> None:
        self.when, self.stream = None, stream
        stream.queue.append(self._happen)

    def _happen(self) -> None:
        self.when = time.perf_counter()

    def synchronize(self) -> None:
        while self.when is None:
            _alive()
            self.stream.queue.pop(0)()
        _alive()

    def time_till(self, other: "Event") -> float:
        return 1000 * (other.when - self.when)


class DeviceAllocation:
    def __init__(self, size: int) -> None:
        global _next_address
        _alive()
        if size > 1 << 30:
            raise MemoryError("cuMemAlloc failed: out of memory")
        self.address = _next_address
        _next_address += -(-size // 4096) * 4096 + 4096
        _memory[self.address] = np.full(size, 0xCD, np.uint8)

    def __int__(self) -> int:
        return self.address

    def free(self) -> None:
        del _memory[self.address]


mem_alloc = DeviceAllocation


class _Library:
    """What the child calls of libcuda.so.1 itself."""

    def cuMemHostRegister_v2(self, address, size, flags) -> int:  # noqa: N802
        if MODE == "unregistrable":
            return 801
        assert address.value not in _locked
        assert size.value % 4096 == 0
        _locked.add(address.value)
        return 0

    def cuMemHostUnregister(self, address) -> int:  # noqa: N802
        _locked.remove(address.value)
        return 0

    def cuLinkCreate_v2(self, count, options, values, state) -> int:  # noqa: N802
        assert options[0] == jit_option.OPTIMIZATION_LEVEL
        state._obj.value = id(state._obj)
        return 0

    def cuLinkAddData_v2(self, state, kind, data, size, *_) -> int:  # noqa: N802
        text = ctypes.string_at(data, size.value)
        assert text.endswith(b"\0")
        _check_compiler(text)
        _linked[state.value] = text[:-1]
        return 218 if b"unacceptable" in text else 0

    def cuLinkComplete(self, state, code, size) -> int:  # noqa: N802
        text = _linked[state.value]
        buffer = _linked[-state.value] = ctypes.create_string_buffer(text)
        code._obj.value, size._obj.value = ctypes.addressof(buffer), len(text)
        return 0

    def cuLinkDestroy(self, state) -> int:  # noqa: N802
        for key in (state.value, -state.value):
            _linked.pop(key, None)
        return 0


_load_library = ctypes.CDLL
ctypes.CDLL = lambda name: _Library() if name == "libcuda.so.1" else _load_library(name)


def pagelocked_empty(shape: int, dtype: type, order: str = "C", mem_flags: int = 0) -> np.ndarray:
    return np.full(shape, 0xAB, dtype)


def to_device(array: np.ndarray) -> DeviceAllocation:
    made = DeviceAllocation(array.nbytes)
    memcpy_htod(made, array)
    return made


def memcpy_htod(dest: DeviceAllocation, src: np.ndarray) -> None:
    memcpy_htod_async(dest, src, _default)
    _default.synchronize()


def memcpy_dtoh(dest: np.ndarray, src: int) -> None:
    _default.synchronize()
    dest.reshape(-1).view(np.uint8)[:] = _at(int(src), dest.nbytes)


def _at(address: int, size: int) -> np.ndarray:
    """Return bytes of an allocation, from an address inside of it on."""
    base = max(one for one in _memory if one <= address)
    found = _memory[base][address - base :][:size]
    assert found.size == size
    return found


def _check_host(array: np.ndarray) -> None:
    assert isinstance(array, np.ndarray)
    assert array.flags.c_contiguous


def memcpy_htod_async(dest: DeviceAllocation, src: np.ndarray, stream: Stream) -> None:
    _check_host(src)
    _alive()

    def job() -> None:
        memory = _memory[int(dest)]
        assert src.nbytes <= memory.size
        memory[: src.nbytes] = src.reshape(-1).view(np.uint8)
        _filled[int(dest)] = src.nbytes

    stream.queue.append(job)


def memcpy_dtoh_async(dest: np.ndarray, src: DeviceAllocation, stream: Stream) -> None:
    _check_host(dest)
    assert dest.flags.writeable
    _alive()
    stream.queue.append(
        lambda: np.copyto(dest.reshape(-1).view(np.uint8), _memory[int(src)][: dest.nbytes])
    )


class Function:
    def __init__(self, module: "Module", name: str) -> None:
        self.module, self.name, self.format = module, name, ""
        self.shared_bytes = 48 << 10

    def set_attribute(self, attribute: int, value: int) -> None:
        assert attribute == function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.shared_bytes = value

    def prepare(self, arg_types: str) -> "Function":
        self.format = arg_types
        return self

    def prepared_async_call(self, grid, block, stream, *args, shared_size=0) -> None:
        stream = stream or _default
        assert shared_size <= self.shared_bytes
        if self.module.reference is not None:
            stream.queue.append(lambda: self.module.reference[self.name](*args))
            return
        if self.format.endswith("s"):
            stream.queue.append(lambda: _launch(self, grid, block, shared_size, *args))
            return
        assert self.format in ("PPI", "PPPPII")
        assert all(isinstance(arg, int) for arg in args)
        _alive()
        if self.format == "PPPPII":
            stream.queue.append(lambda: _screen(self, grid, block, shared_size, *args))
            return
        images, sms, count = args
        warps = block[0] // 32
        assert grid == (-(-count // warps), 1)
        assert block[1:] == (1, 1)

        def job() -> None:
            size = _filled[images]
            memory = _memory[images][:size].reshape(count, size // count)
            numbers = _memory[sms][: 4 * count].view(np.uint32)
            if self.name == "increment":
                _increment(memory, numbers)
            elif self.name == self_check.ENTRY:
                # As tests/meta/cuda has it of the simulated device, which would take twice the
                # time of everything else at a start.
                first = int(memory[0, :4].view(np.uint32)[0]) >> 5
                memory[:] = self_check.expected(first + count)[first:]
                numbers[:] = np.arange(count) % 132
            else:
                memory[:], numbers[:] = _simulated(self.module, self.name, memory, block[0])
            if MODE == "miscalculates" and self.name == self_check.ENTRY:
                memory[count // 2] ^= 1

        stream.queue.append(job)


def _screen(
    function: Function, grid, block, shared_size, images, expected, ledger, scratch, count, limit
):
    size = _filled[images]
    before, after = (_memory[at][:size].reshape(count, size // count) for at in (images, expected))
    assert scratch == 0 or scratch in _memory
    room = len(_memory[scratch]) if scratch else 0
    multiprocessors = 132
    # One block of each multiprocessor: the others would find nothing left to do.
    assert grid[0] % multiprocessors == 0
    with _trapping():
        _memory[ledger][:] = function.module.device.screen(
            function.name, before, after, _memory[ledger], limit=limit, threads=block[0],
            scratch_bytes=room, blocks=1, dynamic_bytes=shared_size,
        )  # fmt: skip


def _launch(function: Function, grid, block, shared_size, parameters: bytes) -> None:
    """Run a kernel of parameters of its own on all memory that there is."""
    from runners.kernels import Launch

    assert len(parameters) == int(function.format[:-1])
    base = max(at for at in _memory if at <= int.from_bytes(parameters[:8], "little"))
    memory = _memory[base]
    pointers = [
        (place, int.from_bytes(parameters[place : place + 8], "little") - base)
        for place in range(0, len(parameters) - 7, 8)
    ]
    launch = Launch(
        grid=grid, block=block, shared_bytes=shared_size, parameters=parameters,
        pointers=[one for one in pointers if 0 <= one[1] < memory.size],
        buffers=((0, memory.size),),
    )  # fmt: skip
    with _trapping():
        memory[:] = function.module.device.launch_grid(function.name, memory, launch).image


def _increment(memory: np.ndarray, numbers: np.ndarray) -> None:
    global _dead
    numbers[:] = np.arange(numbers.size) % 132
    first = memory[:, 0].copy()
    memory += 1
    for behaviour in first[first >= MISALIGNED]:
        match behaviour:
            case 0xF1:  # MISALIGNED
                _dead = True
                raise LogicError("cuStreamSynchronize failed: misaligned address")
            case 0xF2:  # HANGS
                if "FAKE_STATE" in os.environ:
                    Path(os.environ["FAKE_STATE"]).write_text("lost")
                threading.Event().wait()
            case 0xF3:  # KILLS
                os.kill(os.getpid(), signal.SIGKILL)
            case 0xF4:  # REFUSES
                raise LaunchError("cuLaunchKernel failed: too many resources requested for launch")
            case 0xF5:  # GARBLES
                os.write(int(sys.argv[1]), bytes(range(255, -1, -1)))
            case 0xF6:  # ANSWERS_ANOTHER
                Connection(os.dup(int(sys.argv[1]))).send((1 << 60, 0.0))
            case 0xF7:  # EXITS
                print("the fake driver prints this and exits", flush=True)
                os._exit(7)


def _simulated(module: "Module", name: str, memory: np.ndarray, threads: int):
    with _trapping():
        return module.device.launch(name, memory.copy(), threads=threads)


@contextlib.contextmanager
def _trapping():
    """Let a trap poison the context, and a hang hang."""
    global _dead
    from runners.simulated import SimulatedTrap, TrapKind

    try:
        yield
    except SimulatedTrap as trap:
        if trap.trap.kind is TrapKind.HANG:
            threading.Event().wait()
        _dead = True
        raise LogicError(f"cuStreamSynchronize failed: {trap}") from None


def _fill(contents, first, count, batch, images, copies, memory) -> None:
    size = int(_at(contents, 24).view(np.uint64)[2]) & 0xFFFFFFFF
    words = next(_memory[at] for at in _memory if at == contents).view(np.uint64)
    made = _host_reference().fill(words, size, first, count)
    for address in (images, copies):
        _at(address, made.nbytes)[:] = made.reshape(-1)
        _filled[address] = made.nbytes


def _compare(code, images, results, *rest) -> None:
    from runners.reference.encoding import Encoded

    image_bytes, work_bytes, shared_words, first, count, _, found = rest
    words = _memory[code].view(np.uint32)
    assert shared_words in (0, len(words))
    encoded = Encoded(words=words, image_bytes=image_bytes, work_bytes=work_bytes)
    before, after = (
        _at(one, count * image_bytes).reshape(count, image_bytes) for one in (images, results)
    )
    if MODE == "misjudges":
        return
    wrong = np.flatnonzero((_host_reference().execute(encoded, before) != after).any(axis=1))
    there = _at(found, 16).view(np.uint64)
    there[0] += wrong.size
    # Whoever comes first on a device is listed: here the last ones.
    some = wrong[::-1][: int(there[1])].astype(np.uint64) + np.uint64(first)
    _at(found + 16, some.nbytes)[:] = some.view(np.uint8)


@functools.cache
def _host_reference():
    from runners.reference.shipped import HostReference

    return HostReference()


class _SimulatedModule:
    def __init__(self, text: str) -> None:
        from runners.simulated import SimulatedDevice, SimulatedTrap

        try:
            self.device = SimulatedDevice("sm_90a").load(text)
        except SimulatedTrap as trap:
            raise LogicError(f"cuModuleLoadDataEx failed: {trap}") from None


class Module:
    def __init__(self, code: bytes) -> None:
        self.text = code.decode()
        self.device = self.reference = None
        if all(f".entry {name}(" in self.text for name in ("fill", "compare")):
            self.reference = {"fill": _fill, "compare": _compare}
        elif not any(f".entry {name}" in self.text for name in ("increment", self_check.ENTRY)):
            self.device = _SimulatedModule(self.text).device

    def get_function(self, name: str) -> Function:
        if f".entry {name}" not in self.text:
            raise LogicError("cuModuleGetFunction failed: named symbol not found")
        return Function(self, name)


def module_from_buffer(buffer: bytes, options: tuple = (), message_handler=None) -> Module:
    assert isinstance(buffer, bytes)
    _alive()
    if b"unacceptable" in buffer:
        raise LogicError("cuModuleLoadDataEx failed: a PTX JIT compilation failed")
    _check_compiler(buffer)
    return Module(buffer)


def _check_compiler(text: bytes) -> None:
    if b"crash the compiler" in text:
        os.kill(os.getpid(), signal.SIGSEGV)
    if b"hang the compiler" in text:
        time.sleep(1000)
