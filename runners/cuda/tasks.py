"""What the supervisor waits for: one task per request that has an answer."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from runners.cuda.messages import (
    DeviceHealth,
    Done,
    Examine,
    Failed,
    Health,
    Loaded,
    LoadModule,
    Refused,
    Reply,
    Request,
    RunBatch,
)
from runners.cuda.slots import Lease
from runners.kernels import Kernel
from runners.protocol import Compiled, Failure, Ran, Trouble

T = TypeVar("T")


@dataclass(kw_only=True, eq=False)
class Task(ABC, Generic[T]):
    """A request on its way, and in the end its result."""

    allowance: float
    """Seconds that the child may spend on it, from when it comes to its turn."""
    result: T | Failure | None = None

    @abstractmethod
    def request(self) -> Request:
        """Return the message to send; a task that is sent again may make it anew."""

    @abstractmethod
    def accept(self, reply: Reply) -> bool:
        """Take the reply, if it is one to this task; return whether it was."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What is going on, as the subject of a sentence."""


@dataclass(kw_only=True, eq=False)
class LoadTask(Task[Compiled]):
    """Loading a module."""

    compiled: Compiled
    optimization: int | None

    def request(self) -> LoadModule:
        """Return the message."""
        return LoadModule(
            key=self.compiled.key, code=self.compiled.code, optimization=self.optimization
        )

    def accept(self, reply: Reply) -> bool:
        """Take Loaded or Refused."""
        if isinstance(reply, Loaded) and reply.key == self.compiled.key:
            self.result = self.compiled
        elif isinstance(reply, Refused) and reply.key == self.compiled.key:
            self.result = Failure(
                trouble=Trouble.COMPILE_FAILURE,
                message="the driver refuses the module",
                detail=reply.text,
            )
        else:
            return False
        return True

    @property
    def title(self) -> str:
        """What is going on."""
        return "loading a module"


@dataclass(kw_only=True, eq=False)
class RunTask(Task[Ran]):
    """Running a batch."""

    compiled: Compiled
    optimization: int | None
    kernel: Kernel
    count: int
    source: Lease
    source_offset: int
    destination: Lease
    sms_offset: int
    chunk_images: int
    load: LoadTask | None = None
    """The loading of its module in the present child."""
    token: int = 0

    def request(self) -> RunBatch:
        """Return the message, under a token that no earlier one had."""
        self.token = secrets.randbits(48)
        return RunBatch(
            token=self.token,
            key=self.compiled.key,
            entry=self.kernel.entry,
            image_bytes=self.kernel.image_bytes,
            count=self.count,
            warps_per_block=self.kernel.warps_per_block,
            source=self.source.slot.number,
            source_offset=self.source_offset,
            destination=self.destination.slot.number,
            sms_offset=self.sms_offset,
            chunk_images=self.chunk_images,
        )

    def accept(self, reply: Reply) -> bool:
        """Take Done or Failed of this batch."""
        if not isinstance(reply, Done | Failed) or reply.token != self.token:
            return False
        if self.load is not None and isinstance(self.load.result, Failure):
            self.result = self.load.result
        elif isinstance(reply, Done):
            images = self.destination.array(np.uint8, (self.count, self.kernel.image_bytes))
            sms = self.destination.array(np.uint32, (self.count,), self.sms_offset)
            images.flags.writeable = sms.flags.writeable = False
            self.result = Ran(images=images, sms=sms, seconds=reply.seconds)
        else:
            trouble = Trouble.STICKY_ERROR if reply.sticky else Trouble.LAUNCH_FAILURE
            what = "poisons the context" if reply.sticky else "fails, and the device works on"
            self.result = Failure(
                trouble=trouble, message=f"{self.title} {what}", detail=reply.text
            )
        return True

    @property
    def title(self) -> str:
        """What is going on."""
        return f"running {self.kernel.entry} on {self.count} images"


@dataclass(kw_only=True, eq=False)
class ExamineTask(Task[DeviceHealth]):
    """Reading the device's sensors."""

    def request(self) -> Examine:
        """Return the message."""
        return Examine()

    def accept(self, reply: Reply) -> bool:
        """Take Health."""
        if not isinstance(reply, Health):
            return False
        self.result = reply.health
        return True

    @property
    def title(self) -> str:
        """What is going on."""
        return "reading the device's sensors"
