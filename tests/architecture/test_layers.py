"""Who imports whom inside the rooms: layers in `oracle`, circles nowhere.

oracle: basics <- words of the ISA <- instructions <- legality <- models <- arithmetic <- scalar
instructions <- programs <- products <- execution <- measuring
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from test_rooms import ROOT, nodes

LAYERS = (
    "errors given_files lazy", "isa", "models", "arithmetic", "scalar", "layouts descriptors",
    "program",
    "execution bounds", "measuring", "api",
)  # fmt: skip
"""Modules and packages of `oracle`; each imports its own layer and those before it."""
HEIGHT = {name: height for height, layer in enumerate(LAYERS) for name in layer.split()}


@cache
def modules(room: str) -> dict[str, Path]:
    """Map the name of every module of a room to its file."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((ROOT / room).rglob("*.py"))
    }


@cache
def inside(room: str, path: Path) -> tuple[str, ...]:
    """Name the modules of its own room that a file imports, wherever in it."""
    return tuple(_inside(room, path))


def _inside(room: str, path: Path) -> Iterator[str]:
    known = modules(room)
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in known else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)


def layer(name: str) -> int:
    part = name.split(".")[1]
    assert part in HEIGHT, f"oracle.{part} stands in none of LAYERS: add it to the one it is of"
    return HEIGHT[part]


def test_a_module_of_the_oracle_imports_its_own_layer_and_those_before_it() -> None:
    for name, path in modules("oracle").items():
        if name != "oracle":  # it imports its interface when a part of that is asked for
            above = [other for other in inside("oracle", path) if layer(other) > layer(name)]
            assert not above, name


APART = {
    "strategies.contents": "programs simplification features instructions rounds",
    "strategies.programs": "contents simplification instructions rounds",
    "strategies.simplification": "contents rounds",
    "runners.simulated": "assemblers cuda emission faults front_ends protocol simulated_runner",
    "runners.faults": "assemblers cuda emission front_ends protocol simulated_runner",
    "runners.emission": "assemblers cuda faults front_ends protocol simulated",
    "runners.front_ends": "assemblers faults simulated simulated_runner",
    "runners.assemblers": "emission faults front_ends simulated simulated_runner",
    "runners.cuda": "faults front_ends simulated simulated_runner",
}
"""What a package never imports of its room: what it has to stay apart from."""


@pytest.mark.parametrize("package", APART)
def test_a_package_stays_apart_from_what_it_must_not_know(package: str) -> None:
    room = package.split(".")[0]
    for name, path in modules(room).items():
        if f"{name}.".startswith(f"{package}."):
            parts = {other.split(".")[1] for other in inside(room, path) if "." in other}
            assert not parts & set(APART[package].split()), name


@pytest.mark.parametrize("room", ["oracle", "strategies", "runners", "corpus", "fuzz"])
def test_no_modules_import_each_other_in_a_circle(room: str) -> None:
    graph = {name: {*inside(room, path)} - {name} for name, path in modules(room).items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(error.args[1][::-1]))
