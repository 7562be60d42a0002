"""A runner that gets the PTX of a front end instead of what was emitted."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Runner
from runners.ptx_pass import RewritingRunner


class FrontEnd(AbstractContextManager["FrontEnd"], Protocol):
    """A compiler that writes PTX from the programs of a module."""

    @property
    def name(self) -> str:
        """The compiler in words."""
        ...

    def __call__(self, module: KernelModule) -> KernelModule | Failure:
        """Return the module with the PTX that it wrote, or why there is none."""
        ...

    def close(self) -> None:
        """End what it has running."""
        ...


class FrontEndRunner(RewritingRunner):
    """A runner behind a front end; the front end is closed together with it.

    Parameters
    ----------
    runner
        Where the modules run.
    front_end
        What writes their PTX.
    """

    def __init__(self, runner: Runner, front_end: FrontEnd) -> None:
        super().__init__(runner, [])
        self._front_end = front_end

    def compile(self, module: KernelModule) -> Compiled | Failure:
        """Translate a module and compile it; the compiled module holds the front end's text."""
        translated = self._front_end(module)
        if isinstance(translated, Failure):
            return translated
        return super().compile(translated)

    def close(self) -> None:
        """Close the front end and the runner."""
        self._front_end.close()
        super().close()
