"""Modules in the context of the child: compiled ahead, loaded, asked for their kernels."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from runners.cuda.kept_code import kept_code
from runners.cuda.libraries import DriverLibrary
from runners.cuda.messages import Loaded, LoadModule, Refused

_COMPILERS = 8
"""Threads that compile ahead: 31 ms a program on one, 6.7 ms on eight (H200, 2026-11-22)."""


class LoadError(Exception):
    """The driver refused a module."""


class LaunchError(Exception):
    """A batch failed."""

    def __init__(self, text: str, *, sticky: bool) -> None:
        super().__init__(text)
        self.text = text
        self.sticky = sticky


@dataclass(kw_only=True)
class Loading:
    """A module on its way."""

    request: LoadModule
    code: Future[bytes | None] | None
    """Its machine code, where another thread compiles it."""
    reply: Loaded | Refused | None = None
    """What came of it."""


class Modules:
    """The modules of a context.

    Parameters
    ----------
    driver
        PyCUDA's driver module.
    library
        What PyCUDA lacks.
    compiler
        Names the driver and the device that it compiles for; "" if they are not known.
    """

    def __init__(self, driver: Any, library: DriverLibrary, compiler: str = "") -> None:
        self._driver, self._library, self._compiler = driver, library, compiler
        self._modules: dict[str, Any] = {}
        self._functions: dict[tuple[str, str], Any] = {}
        self._loading: dict[str, Loading] = {}
        """Modules whose loading has begun, by key."""
        self._pool = ThreadPoolExecutor(min(_COMPILERS, os.cpu_count() or 1))

    def begin_loading(self, request: LoadModule) -> Loading:
        """Begin to load a module; what is to be compiled ahead is compiled on another thread."""
        code = None
        if request.ahead and request.optimization is not None:
            code = self._pool.submit(
                self._library.compile, request.code, request.optimization, self._library.context()
            )
        loading = self._loading[request.key] = Loading(request=request, code=code)
        return loading

    def end_loading(self, loading: Loading) -> Loaded | Refused:
        """Load a module, once it is compiled; a second call returns the same."""
        if loading.reply is None:
            request = loading.request
            self._loading.pop(request.key, None)
            code = None if loading.code is None else loading.code.result()
            try:
                if code is None:
                    # Here the driver also says why it refuses something.
                    self.load(request.key, request.code, request.optimization)
                else:
                    self.load(request.key, code, None)
                loading.reply = Loaded(key=request.key)
            except LoadError as error:
                loading.reply = Refused(key=request.key, text=str(error))
        return loading.reply

    def load(self, key: str, code: bytes, optimization: int | None) -> None:
        """Load a cubin, or PTX at a level of optimisation.

        Raises LoadError if the driver refuses it; the message is the driver's.
        """
        options = []
        if optimization is not None:
            options = [(self._driver.jit_option.OPTIMIZATION_LEVEL, optimization)]
        try:
            # `bytes` ends in a zero byte, which PTX for cuModuleLoadDataEx must.
            self._modules[key] = self._driver.module_from_buffer(code, options)
        except self._driver.Error as error:
            raise LoadError(str(error)) from None

    def load_own(self, key: str, ptx: bytes, level: int) -> None:
        """Load PTX that is not under test; its machine code is kept for other processes.

        Raises LoadError if the driver refuses it.
        """
        code = None
        if self._compiler:
            code = kept_code(
                f"{self._compiler} -O{level}\n{ptx.decode()}",
                lambda: self._library.compile(ptx, level, self._library.context()),
            )
        if code is None:
            self.load(key, ptx, level)
        else:
            self.load(key, code, None)

    def forget(self, key: str) -> None:
        """Unload a module."""
        for name in [name for name in self._functions if name[0] == key]:
            del self._functions[name]
        self._modules.pop(key, None)

    def function(self, key: str, entry: str, parameters: str) -> Any:
        """Return a kernel that takes parameters as PyCUDA spells them."""
        if key in self._loading:
            self.end_loading(self._loading[key])
        if key not in self._modules:
            raise LaunchError("its module is not loaded", sticky=False)
        if (key, entry) not in self._functions:
            function = self._modules[key].get_function(entry)
            function.prepare(parameters)
            self._functions[key, entry] = function
        return self._functions[key, entry]
