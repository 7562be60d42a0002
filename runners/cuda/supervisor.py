"""The supervisor: keeps a child alive, hands it tasks in order, and survives whatever they do."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any

from runners.cuda.messages import (
    DeviceFacts,
    Failed,
    Forget,
    ForgetReferences,
    MapSlot,
    NotReady,
    Ready,
    UnmapSlot,
)
from runners.cuda.process import ChildGoneError, ChildProcess, GarbledError
from runners.cuda.slots import Lease, SlotPool
from runners.cuda.tasks import KernelTask, LoadTask, ScreenTask, T, Task
from runners.protocol import Compiled, Failure, Trouble, check_open

_RESTARTS = 4
"""Attempts to bring a device back that has worked before."""
_PAUSE = 1.0
"""Seconds before the second attempt; each further one waits twice as long. A driver that resets a
channel after a hang needs a moment."""
_MODULES = 1024
"""Modules that stay loaded: more than a screening set has programs (300), which take turns."""
_REFERENCE_BYTES = 1 << 30
"""Bytes of images that stay in the device's memory for screening. A set has hundreds of MB."""


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
        self._child: ChildProcess | None = None
        self._facts: DeviceFacts | None = None
        self._lost: Failure | None = None
        self._closed = False
        self._queue: deque[Task[Any]] = deque()
        self._turn = 0.0
        """When the head of the queue came to its turn (time.monotonic)."""
        self._loaded: OrderedDict[str, LoadTask] = OrderedDict()
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

    def load(self, compiled: Compiled) -> Compiled | Failure:
        """Load a module unless it is loaded."""
        failure = self._ensure_child()
        if failure is not None:
            return failure
        task = self._loaded.get(compiled.key)
        if task is None:
            task = LoadTask(allowance=self._load_allowance, compiled=compiled)
            self._enqueue([task])
        return self.wait(task)

    def load_ahead(self, compiled: Compiled) -> None:
        """Have a module loaded, unless it is, without waiting; who runs it hears of a failure."""
        if self._ensure_child() is None and compiled.key not in self._loaded:
            self._enqueue([LoadTask(allowance=self._load_allowance, compiled=compiled, ahead=True)])

    def submit(self, task: Task[Any]) -> None:
        """Put a task behind the others; its result comes with `wait`."""
        failure = self._ensure_child()
        if failure is not None:
            task.result = failure
            return
        self._enqueue([task])

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
        try:
            child = ChildProcess(self._ordinal, self._environment)
        except OSError as error:
            return Failure(
                trouble=Trouble.UNAVAILABLE,
                message=f"no process can be started for the device ({error})",
            )
        try:
            reply = child.receive(deadline=deadline)
        except TimeoutError:
            child.end()
            return _lost(f"the device was not ready within {self._start_allowance:g} s", "")
        except ChildGoneError:
            return _lost(
                f"the process for the device {child.end()} before it was ready", child.log()
            )
        except GarbledError as error:
            child.end()
            return _lost(f"the process for the device answered garbage ({error})", child.log())
        except BaseException:
            child.end()
            raise
        if isinstance(reply, Ready):
            self._child, self._facts = child, reply.facts
            self._loaded.clear()
            self._mapped.clear()
            self._references.clear()
            self.pool.dropped.clear()
            self.starts += 1
            return None
        child.end()
        if isinstance(reply, NotReady):
            trouble = Trouble.UNAVAILABLE if reply.missing else Trouble.DEVICE_LOST
            return Failure(trouble=trouble, message=reply.text, detail=reply.detail)
        return _lost("the process for the device answered out of turn", child.log())

    # The queue

    def _enqueue(self, tasks: list[Task[Any]]) -> None:
        """Send tasks to a child that is there, and put them into the queue."""
        while tasks:
            task = tasks.pop(0)
            if isinstance(task, KernelTask):
                task.load = self._loaded.get(task.compiled.key)
                if task.load is None:
                    load = LoadTask(allowance=self._load_allowance, compiled=task.compiled)
                    tasks[:0] = [load, task]
                    continue
            self._queue.append(task)
            if len(self._queue) == 1:
                self._turn = time.monotonic()
            self._send(task)

    def _send(self, task: Task[Any]) -> None:
        child = self._child
        assert child is not None
        if isinstance(task, LoadTask):
            self._loaded[task.compiled.key] = task
            if len(self._loaded) > _MODULES:
                key, _ = self._loaded.popitem(last=False)
                child.send(Forget(key=key))
        if isinstance(task, ScreenTask):
            self._provide(child, task)
        if isinstance(task, KernelTask):
            self._loaded.move_to_end(task.compiled.key)
            while self.pool.dropped:
                number = self.pool.dropped.pop()
                if number in self._mapped:
                    self._mapped.remove(number)
                    child.send(UnmapSlot(slot=number))
            for lease in task.leases():
                self._map(child, lease)
        child.send(task.request())

    def _provide(self, child: ChildProcess, task: ScreenTask) -> None:
        """See to it that the child has the images of a task, or gets them with it."""
        number = task.references.number
        if number not in self._references:
            task.fill(self.pool.lease(2 * task.references.images.nbytes))
            self._references[number] = 2 * task.references.images.nbytes
        self._references.move_to_end(number)
        while len(self._references) > 1 and sum(self._references.values()) > _REFERENCE_BYTES:
            number, _ = self._references.popitem(last=False)
            child.send(ForgetReferences(references=number))

    def _map(self, child: ChildProcess, lease: Lease) -> None:
        slot = lease.slot
        if slot.number not in self._mapped:
            message = MapSlot(slot=slot.number, size=slot.size)
            child.send(message, descriptor=slot.descriptor)
            self._mapped.add(slot.number)

    def _advance(self) -> None:
        """Take one reply, or find out why there is none; the head of the queue gets a result."""
        child, head = self._child, self._queue[0]
        assert child is not None
        try:
            reply = child.receive(deadline=self._turn + head.allowance)
        except TimeoutError:
            text = f"did not end within {head.allowance:g} s and was killed"
            self._give_up(head, Trouble.HANG, text, "")
        except ChildGoneError:
            ending = child.end()
            text = f"ended the process that drives the device: it {ending}"
            self._give_up(head, Trouble.CRASH, text, child.log())
        except GarbledError as error:
            text = "brought an answer that cannot be trusted"
            self._give_up(head, Trouble.CORRUPTED_REPLY, text, str(error))
        else:
            if not head.accept(reply):
                text = "brought the answer to another question"
                self._give_up(head, Trouble.CORRUPTED_REPLY, text, type(reply).__name__)
                return
            self._queue.popleft()
            self._turn = time.monotonic()
            if isinstance(reply, Failed) and isinstance(head, ScreenTask):
                self._references.pop(head.references.number, None)
            if isinstance(reply, Failed) and reply.sticky:
                child.end()
                self._start_anew()

    def _give_up(self, head: Task[Any], trouble: Trouble, text: str, detail: str) -> None:
        """Fail the head of the queue, and go on with the rest in a new child."""
        if self._child:
            ending = self._child.end()
            if "cannot be killed" in ending:
                text += f"; its process {ending}"
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
        if failure is None:
            self._enqueue(waiting)
            return
        for task in waiting:
            task.result = failure


def _lost(message: str, detail: str) -> Failure:
    return Failure(trouble=Trouble.DEVICE_LOST, message=message, detail=detail)
