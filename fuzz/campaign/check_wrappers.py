"""Wrappers of checks: one for workers, and one that has only the rounds of a shard.

A worker imports the packages anew. What somebody has put into the place of one of their functions,
in the memory of the process that begins the campaign, is not in their files, so that the worker
would run something else, and nobody would be told: `Carried` tells them.

A shard is one of several campaigns that divide the rounds of a seed, for clusters without Ray.
"""

from __future__ import annotations

import pickle
import re
import sys
import types
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from fuzz.checks.protocol import (
    Check,
    Facts,
    Heartbeat,
    OpenCheck,
    Options,
    Plan,
    RoundJob,
    RoundReport,
)
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
    """Wrapper of a check: delegates everything that a subclass does not override."""

    check: Check

    @property
    def seed(self) -> int:
        return self.check.seed

    @property
    def patience(self) -> float:
        return self.check.patience

    def on(self, device: int) -> Self:
        return replace(self, check=self.check.on(device))

    def opened(self, heartbeat: Heartbeat) -> AbstractContextManager[OpenCheck]:
        return self.check.opened(heartbeat)

    def plan(self, facts: Facts) -> Plan:
        return self.check.plan(facts)

    def options(self, facts: Facts) -> Options:
        return self.check.options(facts)


@dataclass(frozen=True, kw_only=True)
class Carried(AroundCheck):
    """A check that a worker opens only if it has the functions of who sent it."""

    memory: Memory = field(default_factory=loaded, repr=False)

    @contextmanager
    def opened(self, heartbeat: Heartbeat) -> Iterator[OpenCheck]:
        """Open what a worker needs.

        Raises UsageError if a function is another one here, and WarpfuzzError as that of the check.
        """
        with self.check.opened(heartbeat) as inside:
            others = changed(self.memory)
            if others:
                more = f" and {len(others) - 1} more" if len(others) > 1 else ""
                raise UsageError(
                    f"{others[0]}{more} was replaced in memory by the process that begins the "
                    "campaign; workers import the original from its file and would run that. "
                    "Change the file, or give the campaign a runner of your own "
                    "(RunnerChoice.maker, a function of a module that PYTHONPATH leads to)"
                )
            yield inside

    def pickled(self) -> bytes:
        """Return it as bytes.

        Raises UsageError if it, or the runner that it names, cannot be made again in another
        process.
        """
        try:
            data = pickle.dumps(self)
            if b"\x8c\x08__main__" in data:
                raise AttributeError("it is defined in the script that was started")
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise _not_made_again(str(error)) from None
        return zlib.compress(data, 1)


def unpickled(data: bytes) -> Check:
    """Return a check that was sent. Raises UsageError if what it names is not there."""
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


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One of `count` campaigns with the same seed: the rounds `index` - 1, + `count`, and so on."""

    index: int
    """From 1 to `count`."""
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the shard that a text such as "3/8" names. Raises UsageError if it names none."""
        match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text.strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(
                f"--shard {text!r} is no shard; write I/N with I from 1 to N, and N at most "
                "999999, such as 3/8 for the third of eight"
            )
        return cls(index=int(match[1]), count=int(match[2]))

    def __str__(self) -> str:
        """Return it as a person types it."""
        return f"{self.index}/{self.count}"

    def number(self, place: int) -> int:
        """Return the number of a round from its place, from 0, among those of the shard."""
        return place * self.count + self.index - 1


@dataclass(frozen=True, kw_only=True)
class Sharded(AroundCheck):
    """A check of which a campaign carries out the rounds of one shard.

    The campaign counts its own rounds from 0. What they are about takes into account what the
    rounds of the same shard have reached: a shard needs to know nothing of the others.
    """

    shard: Shard

    @contextmanager
    def opened(self, heartbeat: Heartbeat) -> Iterator[OpenCheck]:
        with self.check.opened(heartbeat) as whole:

            def carry_out(job: RoundJob) -> RoundReport:
                report = whole.round(replace(job, number=self.shard.number(job.number)))
                report.number = job.number
                return report

            yield replace(whole, round=carry_out)

    def plan(self, facts: Facts) -> Plan:
        whole = self.check.plan(facts)
        return replace(
            whole,
            words=replace(whole.words, where=f"{whole.words.where} · shard {self.shard}"),
            round=lambda number, known: whole.round(self.shard.number(number), known),
            summary={**whole.summary, "shard": str(self.shard)},
        )

    def options(self, facts: Facts) -> Options:
        return {**self.check.options(facts), "--shard": str(self.shard)}
