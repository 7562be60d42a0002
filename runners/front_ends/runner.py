"""Front ends behind the runners' protocol: as what comes before a runner, and as a compiler."""

from __future__ import annotations

import hashlib

from runners.front_ends.protocol import FrontEnd
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Runner
from runners.ptx_pass import RewritingRunner

_DRIVER_LEVEL = 3
"""-O level at which a driver compiles what a front end wrote: its default."""


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


class FrontEndCompiler:
    """A front end as a compiler whose code is PTX (`runners.cuda.compilation.Compiler`).

    Parameters
    ----------
    front_end
        What writes the PTX.
    """

    def __init__(self, front_end: FrontEnd) -> None:
        self._front_end = front_end

    def compile(self, module: KernelModule, architecture: str) -> Compiled | Failure:
        """Return the PTX that the front end writes."""
        made = self._front_end(module)
        if isinstance(made, Failure):
            return made
        code = made.ptx.encode()
        return Compiled(
            module=made,
            architecture=architecture,
            compiler=self._front_end.name,
            key=hashlib.sha256(architecture.encode() + b"\0" + code).hexdigest(),
            code=code,
            optimization=_DRIVER_LEVEL,
        )

    def close(self) -> None:
        """End what the front end has running."""
        self._front_end.close()
