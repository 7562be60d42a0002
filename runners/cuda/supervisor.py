"""The supervisor: keeps a child alive, hands it tasks in order, and survives whatever they do.

It shares memory with the child. A slot is an anonymous file in memory (memfd_create): it has no
name that could be left behind, and goes away with the last process that maps it, however that ends.
"""

from __future__ import annotations

import math
import mmap
import os
import secrets
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InfrastructureError
from runners.cuda.libraries import DeviceFacts
from runners.processes import NoAnswerError, SupervisedChild, helper, helper_environment
from runners.protocol import Compiled, Failure, Trouble, check_open
from runners.screening import References

T = TypeVar("T")

PAGE = 4096
_GRANULE = 1 << 20
"""Sizes of slots are multiples of this many bytes, so that batches of about one size share."""
_RESTARTS = 4  # attempts to bring a device back that has worked before
_PAUSE = 1.0
"""Seconds before the second attempt; each further one waits twice as long. A driver that resets a
channel after a hang needs a moment."""
_MODULES = 1024
"""Modules that stay loaded: more than a screening set has programs (300), which take turns."""
_REFERENCE_BYTES = 1 << 30
"""Bytes of images that stay in the device's memory for screening. A set has hundreds of MB."""


class DeviceSlot:
    """A run of shared memory; InfrastructureError if there is none."""

    def __init__(self, number: int, size: int) -> None:
        self.number, self.size = number, size
        try:
            self.descriptor = os.memfd_create(f"warpfuzz-{number}", os.MFD_CLOEXEC)
            self._close = weakref.finalize(self, os.close, self.descriptor)
            os.ftruncate(self.descriptor, size)
            self._map = mmap.mmap(self.descriptor, size)
        except OSError as error:
            raise InfrastructureError(
                f"{size} bytes of shared memory cannot be had ({error}); use smaller batches, or "
                "collect and drop earlier ones first"
            ) from error
        self.address: int = np.frombuffer(self._map, np.uint8).ctypes.data

    def close(self) -> None:
        """Give the memory up. No array over it may be left."""
        # The child may map it still; the pages go now.
        os.ftruncate(self.descriptor, 0)
        self._close()


class Lease:
    """The right to use a slot: it lasts while any array over it is alive, of which it is the base.

    (NumPy's array interface, version 3.)
    """

    def __init__(self, slot: DeviceSlot, pool: SlotPool) -> None:
        self.slot, self.pool = slot, pool
        self.__array_interface__ = {
            "version": 3, "typestr": "|u1", "shape": (slot.size,), "data": (slot.address, False),
        }  # fmt: skip
        weakref.finalize(self, pool.give_back, slot)

    def array(self, dtype: type[Any], shape: tuple[int, ...], offset: int = 0) -> NDArray[Any]:
        """Return an array over the slot's memory, `offset` bytes from its start."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        array: NDArray[Any] = np.asarray(self)[offset:][:size].view(dtype).reshape(shape)
        return array


def lease_of(array: NDArray[Any]) -> tuple[Lease, int] | None:
    """Return the lease over whose memory a contiguous array lies, and its offset in bytes."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if not isinstance(base, Lease) or not array.flags.c_contiguous:
        return None
    return base, array.ctypes.data - base.slot.address


class SlotPool:
    """Slots, kept for use again: registering memory with the driver costs more than a copy."""

    def __init__(self, *, keep_bytes: int = 1 << 30) -> None:
        self._keep_bytes = keep_bytes
        self._free: list[DeviceSlot] = []
        self._next = 0
        self.dropped: list[int] = []
        """Numbers of slots that were given up; the child has yet to be told."""

    def lease(self, size: int) -> Lease:
        """Return a lease of a slot with at least so many bytes; InfrastructureError if none is."""
        wanted = max(1, -(-size // _GRANULE)) * _GRANULE
        fitting = [slot for slot in self._free if wanted <= slot.size <= 2 * wanted]
        if fitting:
            slot = min(fitting, key=lambda slot: slot.size)
            self._free.remove(slot)
        else:
            slot = DeviceSlot(self._next, wanted)
            self._next += 1
        return Lease(slot, self)

    def give_back(self, slot: DeviceSlot) -> None:
        """Take back a slot over which there is no array any more."""
        self._free.append(slot)
        self._drop(self._keep_bytes)

    def _drop(self, keep_bytes: int) -> None:
        while self._free and sum(slot.size for slot in self._free) > keep_bytes:
            dropped = self._free.pop(0)
            dropped.close()
            self.dropped.append(dropped.number)

    def close(self) -> None:
        """Drop all slots that are free, and the others as soon as they are."""
        self._keep_bytes = -1
        self._drop(-1)


@dataclass(kw_only=True, eq=False)
class Task(Generic[T]):
    """A request on its way, and in the end its result."""

    title: str  # the task as the subject of a sentence about it
    request: tuple[Any, ...]  # method of the child's session, and its arguments
    allowance: float  # seconds that the child may spend on it, from when it comes to its turn
    made: Callable[[Any], T] = lambda answer: answer
    """Makes the result of an answer that is no failure."""
    loads: Compiled | None = None  # the module that it loads
    runs: Compiled | None = None  # the module of the kernel that it runs
    leases: tuple[Lease, ...] = ()  # memory that the child has to share
    references: References | None = None
    """Images that the child has to keep; the slot with those that it does not have is its last
    argument."""
    load: Task[Any] | None = None  # the loading of its module in the present child
    token: int = 0
    result: T | Failure | None = None


class Waiting(NamedTuple, Generic[T]):
    """A task, and who works on it."""

    supervisor: Supervisor
    task: Task[T]

    def collect(self) -> T | Failure:
        """Work until there is a result."""
        while self.task.result is None:
            self.supervisor.advance()
        return self.task.result


class Supervisor:
    """Owner of the child process, for the CUDA device of a number.

    `start_allowance`: seconds that a child may take to import PyCUDA, make a context and pass its
    self-check. `load_allowance`: seconds that the driver may take to load, or compile, one module.
    `environment`: variables for the child.
    """

    def __init__(
        self,
        ordinal: int,
        *,
        start_allowance: float,
        load_allowance: float,
        environment: Mapping[str, str],
    ) -> None:
        self.pool = SlotPool()
        self.starts = 0  # children that became ready so far
        self._ordinal, self._environment = ordinal, environment
        self._start_allowance, self._load_allowance = start_allowance, load_allowance
        self._child: SupervisedChild | None = None
        self._spare: SupervisedChild | None = None
        """Takes the child's place when that dies next: a compiler that dies of a module dies of one
        of its kernels as well, when each is compiled by itself. Not after an error of the device:
        programs that cause one do it again and again, and none takes a spare's place then."""
        self._crashed = False  # whether the last child died, and the device was sound
        self._facts: DeviceFacts | Failure | None = None
        self._lost: Failure | None = None
        self._closed = False
        self._queue: deque[Task[Any]] = deque()
        self._turn = 0.0  # when the head of the queue came to its turn (time.monotonic)
        self._loaded: OrderedDict[str, Task[Compiled]] = OrderedDict()
        self._mapped: set[int] = set()
        self._references: OrderedDict[int, int] = OrderedDict()
        """Bytes of the images that the child keeps, by their number."""

    @property
    def pid(self) -> int | None:
        """Process number of the child, while there is one."""
        return self._child.process.pid if self._child else None

    def facts(self) -> DeviceFacts | Failure:
        """Return what is known of the device, starting a child if there is none."""
        failure = self._ensure_child()
        if failure is not None:
            return failure
        assert self._facts is not None
        return self._facts

    def load(self, compiled: Compiled) -> Waiting[Compiled]:
        """Have a module loaded unless it is; whoever runs it hears of a failure, too."""
        failure = self._ensure_child()
        task = None if failure else self._loaded.get(compiled.key)
        if task is None:
            return self._submitted(self._load_task(compiled))
        return Waiting(self, task)

    def _load_task(self, compiled: Compiled) -> Task[Compiled]:
        return Task(
            title="loading a module",
            request=("modules.take", compiled.key, compiled.code, compiled.optimization),
            allowance=self._load_allowance,
            made=lambda _: compiled,
            loads=compiled,
        )

    def submit(self, title: str, *request: Any, allowance: float, **fields: Any) -> Waiting[Any]:
        """Put a task behind the others: a method of the session, and its arguments."""
        return self._submitted(Task(title=title, request=request, allowance=allowance, **fields))

    def _submitted(self, task: Task[T]) -> Waiting[T]:
        task.result = self._ensure_child()
        if task.result is None:
            self._enqueue(task)
        return Waiting(self, task)

    def close(self) -> None:
        """End the child; what is still on its way fails."""
        self._closed = True
        for child in filter(None, (self._child, self._spare)):
            child.end()
        self._child = self._spare = None
        for task in self._queue:
            task.result = Failure(
                trouble=Trouble.LAUNCH_FAILURE, message="the runner was closed before it ran"
            )
        self._queue.clear()
        self.pool.close()

    # The child

    def _ensure_child(self) -> Failure | None:
        check_open(self._closed)
        if self._child is None and self._lost is None:
            for attempt in range(_RESTARTS if self.starts else 1):
                if attempt:
                    time.sleep(_PAUSE * 2 ** (attempt - 1))
                self._lost = self._start()
                if self._lost is None or self._lost.trouble is Trouble.UNAVAILABLE:
                    break
        return self._lost

    def _begun(self) -> SupervisedChild:
        # So that no stale machine code hides a change of the driver's compiler
        # (CUDA C++ Programming Guide, CUDA Environment Variables).
        own = {"CUDA_CACHE_DISABLE": "1"}
        return SupervisedChild(
            helper("runners.cuda.child"),
            str(self._ordinal),
            environment={**helper_environment(), **self._environment, **own},
        )

    def _start(self) -> Failure | None:
        deadline = time.monotonic() + self._start_allowance
        try:
            child, self._spare = self._spare or self._begun(), None
            if self._crashed:
                self._spare = self._begun()
        except OSError as error:
            return Failure(
                trouble=Trouble.UNAVAILABLE,
                message=f"no process can be started for the device ({error})",
            )
        try:
            facts = child.receive(deadline=deadline)
        except NoAnswerError as error:
            text = f"the process for the device {error.how} before it was ready"
            if error.trouble is Trouble.HANG:
                text += f", which may take {self._start_allowance:g} s"
            return Failure(trouble=Trouble.DEVICE_LOST, message=text, detail=error.log)
        except BaseException:
            child.end()
            raise
        if isinstance(facts, Failure):
            child.end()
            return facts
        self._child, self._facts = child, facts
        for known in (self._loaded, self._mapped, self._references, self.pool.dropped):
            known.clear()
        self.starts += 1
        return None

    # The queue

    def _enqueue(self, task: Task[Any]) -> None:
        if task.runs is not None:
            task.load = self._loaded.get(task.runs.key)
            if task.load is None:
                task.load = self._load_task(task.runs)
                self._enqueue(task.load)
        self._queue.append(task)
        if len(self._queue) == 1:
            self._turn = time.monotonic()
        child, request = self._child, task.request
        assert child is not None
        if task.loads is not None:
            self._loaded[task.loads.key] = task
            if len(self._loaded) > _MODULES:
                key, _ = self._loaded.popitem(last=False)
                child.send((None, "modules.forget", (key,)))
        if task.references is not None:
            request = (*request, self._provide(child, task, task.references))
        if task.runs is not None:
            self._loaded.move_to_end(task.runs.key)
            while self.pool.dropped:
                number = self.pool.dropped.pop()
                if number in self._mapped:
                    self._mapped.remove(number)
                    child.send((None, "unmap_slot", (number,)))
            for slot in (lease.slot for lease in task.leases):
                if slot.number not in self._mapped:
                    arguments = slot.number, slot.size
                    child.send((None, "map_slot", arguments), descriptor=slot.descriptor)
                    self._mapped.add(slot.number)
        # One that no earlier request had.
        task.token = secrets.randbits(48)
        child.send((task.token, request[0], request[1:]))

    def _provide(
        self, child: SupervisedChild, task: Task[Any], references: References
    ) -> int | None:
        """See to it that the child has the images of a task, or gets them from a slot with it."""
        number, size = references.number, 2 * references.images.nbytes
        task.leases = ()
        if number not in self._references:
            lease = self.pool.lease(size)
            memory = lease.array(np.uint8, (2, *references.images.shape))
            np.copyto(memory[0], references.images)
            np.copyto(memory[1], references.expected)
            task.leases = (lease,)
            self._references[number] = size
        self._references.move_to_end(number)
        while len(self._references) > 1 and sum(self._references.values()) > _REFERENCE_BYTES:
            oldest, _ = self._references.popitem(last=False)
            child.send((None, "forget_references", (oldest,)))
        return task.leases[0].slot.number if task.leases else None

    def advance(self) -> None:
        """Take one reply, or find out why there is none; the head of the queue gets a result."""
        child, head = self._child, self._queue[0]
        assert child is not None
        trouble, detail = Trouble.CORRUPTED_REPLY, ""
        try:
            match child.receive(deadline=self._turn + head.allowance):
                case (head.token, value):
                    self._take(child, head, value)
                    return
            child.end()
            text = "brought the answer to another question"
        except NoAnswerError as error:
            trouble, detail = error.trouble, error.log
            text = f"ended the process that drives the device: it {error.how}"
            if trouble is Trouble.HANG:
                text, detail = f"did not end within {head.allowance:g} s and was killed", ""
        head.result = Failure(trouble=trouble, message=f"{head.title} {text}", detail=detail)
        self._queue.popleft()
        self._start_anew(is_device_sound=trouble is Trouble.CRASH)

    def _take(self, child: SupervisedChild, head: Task[Any], value: Any) -> None:
        self._queue.popleft()
        self._turn = time.monotonic()
        if not isinstance(value, Failure):
            head.result = head.made(value)
        elif value.trouble in (Trouble.STICKY_ERROR, Trouble.LAUNCH_FAILURE):
            head.result = replace(value, message=f"{head.title} {value.message}")
        else:
            head.result = value
        if head.load is not None and isinstance(head.load.result, Failure):
            head.result = head.load.result
        if head.references is not None:
            head.leases = ()  # the child has the images
            if isinstance(value, Failure):
                self._references.pop(head.references.number, None)
        if isinstance(value, Failure) and value.trouble is Trouble.STICKY_ERROR:
            child.end()
            self._start_anew(is_device_sound=False)

    def _start_anew(self, *, is_device_sound: bool) -> None:
        self._child, self._crashed = None, is_device_sound
        if self._spare is not None and not is_device_sound:
            # It has passed its self-check before that.
            self._spare.end()
            self._spare = None
        waiting = list(self._queue)
        self._queue.clear()
        if not waiting:
            return
        failure = self._ensure_child()
        for task in waiting:
            if failure is None:
                self._enqueue(task)
            else:
                task.result = failure
