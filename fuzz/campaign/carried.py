"""A check as workers are given it: with what the process that sends it has in memory.

A worker imports the packages anew. What somebody has put into the place of one of their functions,
in the memory of the process that begins the campaign, is not in their files, so that the worker
would run something else, and nobody would be told.
"""

from __future__ import annotations

import pickle
import sys
import types
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from fuzz.checks.protocol import Check, Facts, Heartbeat, OpenCheck, Options, Plan
from oracle.errors import UsageError

_PACKAGES = ("oracle", "strategies", "runners", "fuzz.runner", "fuzz.checks")
"""What a worker carries out rounds with."""
Memory = Mapping[str, Mapping[str, str]]
"""By module and name: where each function comes from (file, line and name)."""


def loaded() -> Memory:
    """Return the functions of those packages that this process has loaded."""
    found: dict[str, dict[str, str]] = {}
    for name, module in tuple(sys.modules.items()):
        if isinstance(module, types.ModuleType) and _is_ours(name):
            found[name] = dict(_functions(module))
    return found


def _is_ours(name: str) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in _PACKAGES)


def _functions(module: types.ModuleType) -> Iterator[tuple[str, str]]:
    for key, value in tuple(vars(module).items()):
        if not isinstance(value, type):
            yield from _origin(key, value)
        elif value.__module__ != module.__name__:
            yield key, f"{value.__module__}.{value.__qualname__}"
        else:
            for inner, one in tuple(vars(value).items()):
                yield from _origin(f"{key}.{inner}", one)


def _origin(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield a name and where it comes from, if it is something that can be called."""
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, cached_property):
        value = value.func
    value = getattr(value, "__func__", value)  # of staticmethod and classmethod
    value = getattr(value, "__wrapped__", value)
    if isinstance(value, types.FunctionType):
        code = value.__code__
        yield name, f"{code.co_filename}:{code.co_firstlineno} {code.co_name}"
    elif callable(value) and not name.rpartition(".")[2].startswith("__"):
        yield name, f"{type(value).__module__}.{type(value).__qualname__}"


def changed(sender: Memory) -> list[str]:
    """Return the names of functions that are others here than in the process that sent these."""
    here = loaded()
    return sorted(
        f"{module}.{name}"
        for module in sender.keys() & here.keys()
        for name, origin in sender[module].items()
        # Modules import some names late; classes have all their functions from the start.
        if here[module].get(name, "" if "." in name else origin) != origin
    )


@dataclass(frozen=True, kw_only=True)
class AroundCheck:
    """A check inside of another one, which is as it is but for what is said otherwise."""

    check: Check

    @property
    def seed(self) -> int:
        """Of the campaign."""
        return self.check.seed

    @property
    def patience(self) -> float:
        """Seconds of silence after which a worker is killed."""
        return self.check.patience

    def on(self, device: int) -> Self:
        """Return the same for a worker that has this device."""
        return replace(self, check=self.check.on(device))

    def opened(self, heartbeat: Heartbeat) -> AbstractContextManager[OpenCheck]:
        """Open what a worker needs. Raises as that of the check does."""
        return self.check.opened(heartbeat)

    def plan(self, facts: Facts) -> Plan:
        """Return the coordinator's side. Raises as that of the check does."""
        return self.check.plan(facts)

    def options(self, facts: Facts) -> Options:
        """Return what decides which cases there are."""
        return self.check.options(facts)


@dataclass(frozen=True, kw_only=True)
class Carried(AroundCheck):
    """A check that a worker opens only if it has the functions of who sent it."""

    memory: Memory = field(default_factory=loaded, repr=False)

    @contextmanager
    def opened(self, heartbeat: Heartbeat) -> Iterator[OpenCheck]:
        """Open what a worker needs.

        Raises
        ------
        UsageError
            If a function is another one here.
        WarpfuzzError
            As that of the check.
        """
        with self.check.opened(heartbeat) as inside:
            others = changed(self.memory)
            if others:
                more = f" and {len(others) - 1} more" if len(others) > 1 else ""
                raise UsageError(
                    f"{others[0]}{more} was changed in the memory of the process that begins the "
                    "campaign, and workers import it from its file: they would run something else. "
                    "Change the file, or give the campaign a runner of your own "
                    "(RunnerChoice.maker, a function of a module that PYTHONPATH leads to)"
                )
            yield inside

    def pickled(self) -> bytes:
        """Return it as bytes.

        Raises
        ------
        UsageError
            If it, or the runner that it names, cannot be made again in another process.
        """
        try:
            data = pickle.dumps(self)
            if b"\x8c\x08__main__" in data:
                raise AttributeError("it is of the script that was started")
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise _not_made_again(str(error)) from None
        return zlib.compress(data, 1)


def unpickled(data: bytes) -> Check:
    """Return a check that was sent.

    Raises
    ------
    UsageError
        If what it names is not there.
    """
    try:
        check: Check = pickle.loads(zlib.decompress(data))
    except (ImportError, AttributeError) as error:
        raise _not_made_again(str(error)) from None
    return check


def _not_made_again(why: str) -> UsageError:
    return UsageError(
        f"the runner cannot be made again in a worker process ({why:.300}); let RunnerChoice.maker "
        "be a function of a module that PYTHONPATH leads to, not of a script or of another function"
    )
