"""What the supervisor waits for: one task per request that has an answer."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
import numpy as np

from runners.cuda.compilation import refused
from runners.cuda.messages import (
    Compared,
    DeviceHealth,
    Done,
    Examine,
    Failed,
    Fresh,
    Health,
    LaunchEnded,
    Loaded,
    LoadModule,
    Refused,
    Reply,
    Request,
    RunBatch,
    Screen,
)
from runners.cuda.slots import Lease
from runners.ledger import read_ledger
from runners.protocol import Compiled, Failure, Ran, Trouble
from runners.reference.fresh import FreshRan
from runners.screening import References, Screened

T = TypeVar("T")


@dataclass(kw_only=True, eq=False)
class Task(ABC, Generic[T]):
    """A request on its way, and in the end its result."""

    allowance: float
    """Seconds that the child may spend on it, from when it comes to its turn."""
    result: T | Failure | None = None

    @abstractmethod
    def request(self) -> Request:
        """Return the message to send; a task that is sent again may return another one."""

    @abstractmethod
    def accept(self, reply: Reply) -> bool:
        """Take the reply, if it is one to this task; return whether it was."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The task as the subject of a sentence about it."""


@dataclass(kw_only=True, eq=False)
class LoadTask(Task[Compiled]):
    """Loading a module."""

    compiled: Compiled
    ahead: bool = False
    """Whether it is not needed at once."""
    title = "loading a module"

    def request(self) -> LoadModule:
        """Return the message."""
        one = self.compiled
        return LoadModule(
            key=one.key, code=one.code, optimization=one.optimization, ahead=self.ahead
        )

    def accept(self, reply: Reply) -> bool:
        """Take Loaded or Refused."""
        if isinstance(reply, Loaded) and reply.key == self.compiled.key:
            self.result = self.compiled
        elif isinstance(reply, Refused) and reply.key == self.compiled.key:
            self.result = refused("the driver refuses the module", reply.text)
        else:
            return False
        return True


M = TypeVar("M", RunBatch, Screen, Fresh)


@dataclass(kw_only=True, eq=False)
class KernelTask(Task[T], Generic[T, M]):
    """Running a kernel of a module."""

    compiled: Compiled
    message: M
    """What is sent, under another token each time."""
    load: LoadTask | None = None
    """The loading of its module in the present child."""

    @abstractmethod
    def leases(self) -> tuple[Lease, ...]:
        """Return the memory that the child has to share."""

    @abstractmethod
    def ended(self, reply: Reply) -> T | None:
        """Return the result, if the reply brings it."""

    def request(self) -> M:
        """Return the message, under a token that no earlier one had."""
        self.message = msgspec.structs.replace(self.message, token=secrets.randbits(48))
        return self.message

    def accept(self, reply: Reply) -> bool:
        """Take the result, or Failed, of the last request."""
        if getattr(reply, "token", None) != self.message.token:
            return False
        result = self.ended(reply)
        if result is None and not isinstance(reply, Failed):
            return False
        if self.load is not None and isinstance(self.load.result, Failure):
            self.result = self.load.result
        elif isinstance(reply, Failed) and reply.unusable:
            self.result = Failure(
                trouble=Trouble.UNAVAILABLE,
                message="the reference on the device cannot be used; leave it out "
                "(--no-device-reference)",
                detail=reply.text,
            )
        elif isinstance(reply, Failed):
            trouble = Trouble.STICKY_ERROR if reply.sticky else Trouble.LAUNCH_FAILURE
            what = "poisons the context" if reply.sticky else "fails, and the device works on"
            self.result = Failure(
                trouble=trouble, message=f"{self.title} {what}", detail=reply.text
            )
        else:
            self.result = result
        return True


@dataclass(kw_only=True, eq=False)
class RunTask(KernelTask[Ran, RunBatch]):
    """Running a batch."""

    source: Lease
    destination: Lease

    @property
    def title(self) -> str:
        """The task as the subject of a sentence about it."""
        return f"running {self.message.entry} on {self.message.count} images"

    def leases(self) -> tuple[Lease, ...]:
        """Return the memory of the images before and after."""
        return self.source, self.destination

    def ended(self, reply: Reply) -> Ran | None:
        """Return the images that Done says are there."""
        if not isinstance(reply, Done):
            return None
        batch = self.message
        images = self.destination.array(np.uint8, (batch.count, batch.image_bytes))
        sms = self.destination.array(np.uint32, (batch.count,), batch.sms_offset)
        images.flags.writeable = sms.flags.writeable = False
        return Ran(images=images, sms=sms, seconds=reply.seconds)


@dataclass(kw_only=True, eq=False)
class ScreenTask(KernelTask[Screened, Screen]):
    """Running a screening kernel."""

    references: References
    upload: Lease | None = None
    """The memory with the images, where the child has yet to be given them."""

    @property
    def title(self) -> str:
        """The task as the subject of a sentence about it."""
        launch = self.message
        return f"screening with {launch.entry}, {launch.limit} images a multiprocessor,"

    def leases(self) -> tuple[Lease, ...]:
        """Return the memory of the images, where the child does not have them."""
        return () if self.upload is None else (self.upload,)

    def fill(self, lease: Lease) -> None:
        """Copy the images into shared memory, from where the child takes them."""
        images, expected = self.references.images, self.references.expected
        memory = lease.array(np.uint8, (2, *images.shape))
        np.copyto(memory[0], images)
        np.copyto(memory[1], expected)
        self.upload = lease

    def request(self) -> Screen:
        """Return the message, under a token that no earlier one had."""
        slot = None if self.upload is None else self.upload.slot.number
        self.message = msgspec.structs.replace(self.message, upload=slot)
        return super().request()

    def ended(self, reply: Reply) -> Screened | None:
        """Return what the ledger says, and let go of the shared memory."""
        self.upload = None
        if not isinstance(reply, LaunchEnded):
            return None
        data = np.frombuffer(reply.ledger, np.uint8)
        return Screened(
            ledger=read_ledger(data, self.message.image_bytes),
            seconds=reply.seconds,
            health=reply.health,
        )


@dataclass(kw_only=True, eq=False)
class FreshTask(KernelTask[FreshRan, Fresh]):
    """Comparing what a kernel does with the reference."""

    @property
    def title(self) -> str:
        """The task as the subject of a sentence about it."""
        work = self.message
        return f"comparing {work.entry} on {work.count} images from {work.first} on"

    def leases(self) -> tuple[Lease, ...]:
        """Return nothing: images travel in the answer."""
        return ()

    def ended(self, reply: Reply) -> FreshRan | None:
        """Return what the device found."""
        if not isinstance(reply, Compared):
            return None
        shape = len(reply.numbers), self.message.image_bytes
        return FreshRan(
            images=self.message.count,
            differing=reply.differing,
            listed=reply.listed,
            seconds=reply.seconds,
            finished=np.frombuffer(reply.finished, np.uint32),
            numbers=np.array(reply.numbers, np.uint64),
            sms=np.frombuffer(reply.sms, np.uint32),
            before=np.frombuffer(reply.before, np.uint8).reshape(shape),
            after=np.frombuffer(reply.after, np.uint8).reshape(shape),
        )


@dataclass(kw_only=True, eq=False)
class ExamineTask(Task[DeviceHealth]):
    """Reading the device's sensors."""

    title = "reading the device's sensors"

    def request(self) -> Examine:
        """Return the message."""
        return Examine()

    def accept(self, reply: Reply) -> bool:
        """Take Health."""
        if not isinstance(reply, Health):
            return False
        self.result = reply.health
        return True
