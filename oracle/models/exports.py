"""Models for other programs: the table of the TOML file as JSON, and as a C header."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oracle.isa.targets import parse_target
from oracle.models.figures import (
    DotUnit,
    DoubleChain,
    ExactSum,
    NanRule,
    ScalarDot,
    TruncatedDot,
    Unit,
    Whole,
    allowed_of,
    weakest,
)
from oracle.models.files import model_text
from oracle.models.model import Model


def model_json(model: Model) -> str:
    """Return a model as JSON, with the keys and values of its TOML file, which loses nothing."""
    return json.dumps(tomllib.loads(model_text(model)), indent=2, ensure_ascii=False) + "\n"


_TEXT, _NUMBER, _BITS = "const char *", "int ", "uint64_t "
_OF_DOTS = {
    "instruction": (_TEXT, "such as wmma.mma"),
    "types": (_TEXT, "formats of D, A, B and C"),
    "shapes": (_TEXT, "with blanks between them; empty: all"),
    "compilers": (_TEXT, "releases of CUDA whose code computes so; empty: all"),
}
_OF_DOUBLES = {
    "nan_order": (_TEXT, "operands in which a NaN is looked for, in this order"),
    "nan_invalid": (_BITS, "0 * inf and inf - inf"),
    "nan_canonical": (_BITS, "where no payload is kept"),
}
_STRUCTS: Mapping[str, tuple[type[Unit], Mapping[str, tuple[str, str]]]] = {
    "dot": (TruncatedDot, _OF_DOTS),
    "scalar": (ScalarDot, _OF_DOTS),
    "double": (DoubleChain, _OF_DOUBLES),
    "exact": (ExactSum, {}),
}
"""By table of the TOML file: the kind of its units, and fields that are no figures."""


def model_header(model: Model) -> str:
    """Return a model as a header of C99: an array of units for each table of its TOML file.

    Of confidences it has the weakest of each unit, of sources all. It is not read back.
    """
    name = f"sm_{parse_target(model.target).number}"
    units = {
        "dot": model.dots,
        "scalar": model.scalars,
        "double": () if model.doubles is None else (model.doubles,),
        "exact": (model.exact,),
    }
    lines = [
        f"/* What the tensor cores of {name} compute: model {model.digest[:12]} of warpfuzz.",
        "   A text that a unit does not have is NULL, a number 0. An array without units is left",
        "   out. */",
        f"#ifndef WARPFUZZ_MODEL_{name.upper()}_H",
        f"#define WARPFUZZ_MODEL_{name.upper()}_H",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "#ifndef WARPFUZZ_MODEL_TYPES",
        "#define WARPFUZZ_MODEL_TYPES",
    ]
    for key in _STRUCTS:
        lines += [f"struct warpfuzz_{key} {{"]
        lines += [f"    {type_}{one}; /* {says} */" for one, (type_, says) in _fields(key).items()]
        lines += ["};"]
    lines += ["#endif"]
    for key, rows in units.items():
        if rows:
            lines += [f"static const struct warpfuzz_{key} warpfuzz_{name}_{key}[] = {{"]
            lines += [f"    {{{', '.join(_row(key, row))}}}," for row in rows]
            lines += ["};"]
    return "\n".join([*lines, "#endif"]) + "\n"


def _fields(key: str) -> dict[str, tuple[str, str]]:
    kind, others = _STRUCTS[key]
    any_kind: Any = kind
    found = {
        **others,
        "confidence": (_TEXT, "of the figure that is least sure"),
        "source": (_TEXT, "who says so of its figures"),
    }
    for name, allowed in allowed_of(any_kind).items():
        number = _BITS if isinstance(allowed, Whole) and allowed.hexadecimal else _NUMBER
        found[name] = (number if isinstance(allowed, Whole) else _TEXT, allowed.allowed)
    return found


def _row(key: str, unit: Unit) -> Sequence[str]:
    """Return the initialisers of a unit, in the order of the fields; what it lacks is left out."""
    values: dict[str, Any] = {
        **unit.values,
        "confidence": weakest(one.confidence for one in unit.figures),
        "source": "; ".join(dict.fromkeys(one.source for one in unit.figures)),
    }
    if isinstance(unit, DotUnit):
        values |= {
            "instruction": unit.instruction, "types": unit.types,
            "shapes": " ".join(unit.shapes), "compilers": str(unit.compilers or ""),
        }  # fmt: skip
    nan = values.get("nan")
    if isinstance(nan, NanRule):
        values |= {"nan_order": "".join(nan.order), "nan_invalid": nan.invalid}
        values["nan_canonical"] = nan.canonical
    written: dict[str, Callable[[Any], str]] = {
        _TEXT: lambda value: json.dumps(str(value)), _BITS: "UINT64_C({:#x})".format, _NUMBER: str,
    }  # fmt: skip
    return [
        f".{name} = {written[type_](values[name])}"
        for name, (type_, _) in _fields(key).items()
        if name in values
    ]


EXPORTS: Mapping[str, Callable[[Model], str]] = {
    "toml": model_text, "json": model_json, "c": model_header,
}  # fmt: skip
"""By name of a format: what writes a model in it."""
