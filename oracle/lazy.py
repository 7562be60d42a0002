"""Public names of a package, which its module `api` imports when one is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazily(package: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package: `--help` need not import what it does not use."""

    def find(name: str) -> Any:
        # `from oracle import isa` asks for the name before the module of that name is imported.
        if name == "__all__" or not (name.startswith("_") or find_spec(f"{package}.{name}")):
            api = import_module(f"{package}.api")
            if name == "__all__":
                return [one for one in vars(api) if not one.startswith("_")]
            if name in vars(api):
                return getattr(api, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
