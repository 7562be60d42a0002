"""The supervisor: keeps a child alive, hands it tasks in order, and survives whatever they do."""

from __future__ import annotations

import os
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from runners.children import HELD, NoAnswerError, SupervisedChild
from runners.cuda.messages import DeviceFacts
from runners.cuda.slots import Lease, SlotPool
from runners.processes import helper, helper_environment
from runners.protocol import Compiled, Failure, Trouble, check_open
from runners.screening import References

T = TypeVar("T")

_RESTARTS = 4
"""Attempts to bring a device back that has worked before."""
_PAUSE = 1.0
"""Seconds before the second attempt; each further one waits twice as long. A driver that resets a
channel after a hang needs a moment."""
_MODULES = 1024
"""Modules that stay loaded: more than a screening set has programs (300), which take turns."""
_REFERENCE_BYTES = 1 << 30
"""Bytes of images that stay in the device's memory for screening. A set has hundreds of MB."""


@dataclass(kw_only=True, eq=False)
class Task(Generic[T]):
    """A request on its way, and in the end its result."""

    title: str
    """The task as the subject of a sentence about it."""
    request: tuple[Any, ...]
    """Method of the child's session, and its arguments."""
    allowance: float
    """Seconds that the child may spend on it, from when it comes to its turn."""
    made: Callable[[Any], T] = lambda answer: answer
    """Makes the result of an answer that is no failure."""
    loads: Compiled | None = None
    """The module that it loads."""
    runs: Compiled | None = None
    """The module of the kernel that it runs."""
    leases: tuple[Lease, ...] = ()
    """Memory that the child has to share."""
    references: References | None = None
    """Images that the child has to keep; the slot with those that it does not have is its last
    argument."""
    load: Task[Any] | None = None
    """The loading of its module in the present child."""
    token: int = 0
    result: T | Failure | None = None


@dataclass(kw_only=True, eq=False)
class Waiting(Generic[T]):
    """A task, and who works on it."""

    supervisor: Supervisor
    task: Task[T]

    def collect(self) -> T | Failure:
        """Work until there is a result."""
        return self.supervisor.wait(self.task)


class Supervisor:
    """Owner of the child process.

    Parameters
    ----------
    ordinal
        Number of the CUDA device.
    start_allowance
        Seconds that a child may take to import PyCUDA, make a context and pass its self-check.
    load_allowance
        Seconds that the driver may take to load, or compile, one module.
    environment
        Variables for the child.
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
        self.starts = 0
        """Children that became ready so far."""
        self._ordinal = ordinal
        self._start_allowance = start_allowance
        self._load_allowance = load_allowance
        self._environment = environment
        self._child: SupervisedChild | None = None
        self._facts: DeviceFacts | None = None
        self._lost: Failure | None = None
        self._closed = False
        self._queue: deque[Task[Any]] = deque()
        self._turn = 0.0
        """When the head of the queue came to its turn (time.monotonic)."""
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
        return self._facts or _lost("the device was never ready", "")

    def load(self, compiled: Compiled, *, ahead: bool = False) -> Waiting[Compiled]:
        """Have a module loaded unless it is; whoever runs it hears of a failure, too.

        Parameters
        ----------
        ahead
            Whether it is not needed at once.
        """
        failure = self._ensure_child()
        task = None if failure else self._loaded.get(compiled.key)
        if task is None:
            return self.submit(self._load_task(compiled, ahead=ahead))
        return Waiting(supervisor=self, task=task)

    def _load_task(self, compiled: Compiled, *, ahead: bool = False) -> Task[Compiled]:
        code = compiled.key, compiled.code, compiled.optimization
        return Task(
            title="loading a module",
            request=("modules.begin_loading", *code, ahead),
            allowance=self._load_allowance,
            made=lambda _: compiled,
            loads=compiled,
        )

    def submit(self, task: Task[T]) -> Waiting[T]:
        """Put a task behind the others."""
        task.result = self._ensure_child()
        if task.result is None:
            self._enqueue(task)
        return Waiting(supervisor=self, task=task)

    def wait(self, task: Task[T]) -> T | Failure:
        """Work until the task has its result."""
        while task.result is None:
            self._advance()
        return task.result

    def close(self) -> None:
        """End the child; what is still on its way fails."""
        self._closed = True
        if self._child:
            self._child.end(politely=not self._queue)
            self._child = None
        for task in self._queue:
            task.result = Failure(
                trouble=Trouble.LAUNCH_FAILURE, message="the runner was closed before it ran"
            )
        self._queue.clear()
        self.pool.close()

    # The child

    def _ensure_child(self) -> Failure | None:
        """Start a child unless there is one; return why there is none."""
        check_open(self._closed)
        if self._child is None and self._lost is None:
            attempts = _RESTARTS if self.starts else 1
            pause = _PAUSE
            for attempt in range(attempts):
                if attempt:
                    time.sleep(pause)
                    pause *= 2
                self._lost = self._start()
                if self._lost is None or self._lost.trouble is Trouble.UNAVAILABLE:
                    break
        return self._lost

    def _start(self) -> Failure | None:
        """Start a child and wait until it is ready; return why it is not."""
        deadline = time.monotonic() + self._start_allowance
        # So that no stale machine code hides a change of the driver's compiler
        # (CUDA C++ Programming Guide, CUDA Environment Variables).
        own = {"CUDA_CACHE_DISABLE": "1"}
        try:
            child = SupervisedChild(
                helper("runners.cuda.child"),
                str(self._ordinal),
                str(os.getpid()),
                environment={**helper_environment(), **self._environment, **own},
            )
        except OSError as error:
            return Failure(
                trouble=Trouble.UNAVAILABLE,
                message=f"no process can be started for the device ({error})",
            )
        try:
            facts = child.receive(deadline=deadline)
        except NoAnswerError as error:
            text = {
                Trouble.HANG: f"the device was not ready within {self._start_allowance:g} s",
                Trouble.CRASH: f"the process for the device {error.how} before it was ready",
                Trouble.CORRUPTED_REPLY: f"the process for the device answered garbage ({error})",
            }[error.trouble]
            return _lost(text, error.log)
        except BaseException:
            child.end()
            raise
        if not isinstance(facts, DeviceFacts):
            child.end()
            said = "the process for the device answered out of turn"
            return facts if isinstance(facts, Failure) else _lost(said, child.log())
        self._child, self._facts = child, facts
        self._loaded.clear()
        self._mapped.clear()
        self._references.clear()
        self.pool.dropped.clear()
        self.starts += 1
        return None

    # The queue

    def _enqueue(self, task: Task[Any]) -> None:
        """Send a task to a child that is there, and put it into the queue."""
        if task.runs is not None:
            task.load = self._loaded.get(task.runs.key)
            if task.load is None:
                task.load = self._load_task(task.runs)
                self._enqueue(task.load)
        self._queue.append(task)
        if len(self._queue) == 1:
            self._turn = time.monotonic()
        self._send(task)

    def _send(self, task: Task[Any]) -> None:
        child = self._child
        assert child is not None
        request = task.request
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
            for lease in task.leases:
                self._map(child, lease)
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
            child.send((None, "launches.forget_references", (oldest,)))
        return task.leases[0].slot.number if task.leases else None

    def _map(self, child: SupervisedChild, lease: Lease) -> None:
        slot = lease.slot
        if slot.number not in self._mapped:
            request = None, "map_slot", (slot.number, slot.size)
            child.send(request, descriptor=slot.descriptor)
            self._mapped.add(slot.number)

    def _advance(self) -> None:
        """Take one reply, or find out why there is none; the head of the queue gets a result."""
        child, head = self._child, self._queue[0]
        assert child is not None
        try:
            answer = child.receive(deadline=self._turn + head.allowance)
        except NoAnswerError as error:
            held = "" if error.how != HELD else f"; its process {HELD}"
            text, detail = {
                Trouble.HANG: (f"did not end within {head.allowance:g} s and was killed{held}", ""),
                Trouble.CRASH: (
                    f"ended the process that drives the device: it {error.how}",
                    error.log,
                ),
                Trouble.CORRUPTED_REPLY: ("brought an answer that cannot be trusted", error.how),
            }[error.trouble]
            self._give_up(head, error.trouble, text, detail)
        else:
            match answer:
                case (head.token, value):
                    self._take(child, head, value)
                case _:
                    child.end()
                    text = "brought the answer to another question"
                    self._give_up(head, Trouble.CORRUPTED_REPLY, text, "")

    def _take(self, child: SupervisedChild, head: Task[Any], value: Any) -> None:
        """Give the head of the queue its result."""
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
            self._start_anew()

    def _give_up(self, head: Task[Any], trouble: Trouble, text: str, detail: str) -> None:
        """Fail the head of the queue, and go on with the rest in a new child."""
        head.result = Failure(trouble=trouble, message=f"{head.title} {text}", detail=detail)
        self._queue.popleft()
        self._start_anew()

    def _start_anew(self) -> None:
        self._child = None
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


def _lost(message: str, detail: str) -> Failure:
    return Failure(trouble=Trouble.DEVICE_LOST, message=message, detail=detail)
