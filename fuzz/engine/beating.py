"""A runner that gives a sign of life before and after everything that may take long."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np

from fuzz.engine.beats import Heart
from runners.kernels import KernelModule
from runners.protocol import (
    Capabilities,
    Compiled,
    Failure,
    Images,
    Lender,
    Pending,
    Ran,
    Runner,
)


@dataclass(frozen=True, kw_only=True)
class _BeatingBatch:
    """A batch whose collection is a sign of life."""

    pending: Pending
    heart: Heart

    def collect(self) -> Ran | Failure:
        """Wait for the batch."""
        self.heart.beat()
        ran = self.pending.collect()
        self.heart.beat()
        return ran


class BeatingRunner:
    """A runner as it is, with signs of life; closing it closes the runner."""

    def __init__(self, runner: Runner, heart: Heart) -> None:
        self._runner, self._heart = runner, heart

    def capabilities(self) -> Capabilities | Failure:
        """Say what the runner can run."""
        return self._runner.capabilities()

    def compile(self, module: KernelModule) -> Compiled | Failure:
        """Translate a module, as the runner does."""
        self._heart.beat()
        compiled = self._runner.compile(module)
        self._heart.beat()
        return compiled

    def lease(self, count: int, image_bytes: int) -> Images:
        """Return memory to fill, uint8 (count, image_bytes), of the runner if it has any."""
        if isinstance(self._runner, Lender):
            return self._runner.lease(count, image_bytes)
        return np.empty((count, image_bytes), np.uint8)

    def submit(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Pending:
        """Start a batch, as the runner does."""
        self._heart.beat()
        pending = self._runner.submit(compiled, images, entry=entry)
        return _BeatingBatch(pending=pending, heart=self._heart)

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        """Run a batch and wait for it, as the runner does."""
        return self.submit(compiled, images, entry=entry).collect()

    def close(self) -> None:
        """Close the runner."""
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
