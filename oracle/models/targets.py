"""Which model a target has: the built-in one of its own or of a relative, or one in its place."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from oracle.errors import UsageError
from oracle.isa.targets import Release, parse_target, split_compiler
from oracle.models.figures import Confidence, Figure
from oracle.models.files import parse_model, read_model
from oracle.models.model import Model

BASES = {
    70: "sm_70", 72: "sm_70", 75: "sm_75", 80: "sm_80", 86: "sm_86", 87: "sm_86", 88: "sm_86",
    89: "sm_89", 90: "sm_90", 100: "sm_100", 101: "sm_100", 103: "sm_100", 107: "sm_100",
    110: "sm_100", 120: "sm_120", 121: "sm_120",
}  # fmt: skip
"""Base target by number. A number that is not its base's own is a close relative on which nothing
was measured: all its figures are labelled inferred."""


_IN_USE: dict[int, Model] = {}
"""Models of this process that stand in for built-in ones, by the number of their target."""


def use_model(model: Model) -> None:
    """Have `model_for` return a model for its target, in this process, from now on."""
    _IN_USE[parse_target(model.target).number] = model


def forget_models() -> None:
    """Have `model_for` return the built-in models again."""
    _IN_USE.clear()


def model_for(target: str) -> Model:
    """Return the model of a target: the one in use (`use_model`), else the built-in one.

    `target`: Such as "sm_90", "sm_90a" or "sm_121f": suffixes add instructions, no other
    arithmetic. "sm_90@12.4" is code of a compiler of CUDA 12.4
    (`oracle.isa.targets.split_compiler`). Raises UsageError if the target is unknown, or has no
    warp-level matrix instructions.
    """
    name, compiler = split_compiler(target)
    number = parse_target(name).number
    if number in _IN_USE:
        return replace(_IN_USE[number], target=name, compiler=compiler)
    return _of_target(name, number, compiler)


@cache
def _of_target(target: str, number: int, compiler: Release | None) -> Model:
    base = BASES.get(number)
    if base is None:
        raise UsageError(
            f"{target} has no wmma instructions; a model exists for "
            f"{', '.join(f'sm_{known}' for known in BASES)} (and their suffixes)"
        )
    model = built_in_model(base)
    if base != f"sm_{number}":
        model = replace(
            model,
            dots=tuple(_inferred(row, base) for row in model.dots),
            scalars=tuple(_inferred(row, base) for row in model.scalars),
            doubles=None if model.doubles is None else _inferred(model.doubles, base),
            exact=_inferred(model.exact, base),
        )
    return replace(model, target=target, compiler=compiler)


@cache
def built_in_model(base: str) -> Model:
    """Return the model of a target that has figures of its own, whatever stands in for it."""
    path = files("oracle.models") / f"{base}.toml"
    return replace(parse_model(path.read_text(encoding="utf-8"), str(path)), file="")


def _inferred(unit: Any, base: str) -> Any:
    return replace(
        unit,
        **{
            name: Figure(
                value=figure.value,
                confidence=Confidence.INFERRED,
                source=f"taken from {base}: {figure.source}",
            )
            for name, figure in unit.named.items()
        },
    )


def model_of(target: str, model: Model | str | Path | None) -> Model:
    """Return a model, that of a file, or, where None is given, the one of a target."""
    if model is None:
        return model_for(target)
    return read_model(Path(model)) if isinstance(model, str | Path) else model
