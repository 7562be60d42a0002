"""Which model a target has, and models as files, read strictly and written: TOML, JSON, a C header.

    target = "sm_90"
    confidence = "measured"            # of the figures that do not say otherwise
    source = "H200, 2026-11"

    [[dot]]                            # f16, bf16 and tf32: oracle.models.TruncatedDot
    instruction = "wmma.mma"
    types = ["f32.f16.f16.f32"]        # of D, A, B and C; several that are alike in all figures
    compilers = "12.4 to 12.6"         # or "12.4", "12.8 and later"; without it, all
    block = 16
    zero_exponent = { value = -133, confidence = "inferred", source = "as of bf16" }
    ...

    [[scalar]]                         # f16 where there is no unit: oracle.models.ScalarDot
    [[scaled]]                         # scaled blocks: oracle.models.ScaledDot
    [double]                           # f64: oracle.models.DoubleChain
    [exact]                            # integers and single bits: oracle.models.ExactSum

A figure is a value, or a table with a value, a confidence and a source; what is not given comes
from the table around it, and there from the top of the file. A figure that a unit does not have,
such as `narrowing` where the accumulator's format is that of D, is left out. What a compiler makes
of an instruction that the target has no unit for may change from release to release: `compilers`
names those whose code computes so. JSON has the same keys and values.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

from oracle.errors import UsageError
from oracle.given_files import parse_toml, read_named, toml_of
from oracle.isa.forms import FORMATS
from oracle.isa.lookup import INSTRUCTIONS
from oracle.isa.targets import Release, parse_release, parse_target, split_compiler
from oracle.models import figures
from oracle.models.figures import (
    KINDS,
    Allowed,
    AnyUnit,
    Figure,
    Model,
    TruncatedDot,
    Unit,
    figures_in,
    is_among,
)

Table = Mapping[str, Any]

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
        known = ", ".join(f"sm_{one}" for one in BASES)
        raise UsageError(
            f"{target} has no wmma instructions; a model exists for {known} (and their suffixes)"
        )
    model = built_in_model(base)

    def inferred(unit: Any) -> Any:
        changes = {
            name: Figure(one.value, figures.Confidence.INFERRED, f"taken from {base}: {one.source}")
            for name, one in figures_in(unit).items()
        }
        return replace(unit, **changes)

    if base != f"sm_{number}":
        model = replace(model, units=tuple(map(inferred, model.units)))
    return replace(model, target=target, compiler=compiler)


@cache
def built_in_model(base: str) -> Model:
    """Return the model of a target that has figures of its own, whatever stands in for it."""
    path = files("oracle.models") / f"{base}.toml"
    return _model(tomllib.loads(path.read_text(encoding="utf-8")), "")


def model_of(target: str, model: Model | str | Path | None) -> Model:
    """Return a model, that of a file, or, where None is given, the one of a target."""
    if model is None:
        return model_for(target)
    return read_model(Path(model)) if isinstance(model, str | Path) else model


def read_model(path: Path) -> Model:
    """Read a model from a file, TOML or JSON; UsageError says what is wrong with it."""
    return parse_model(read_named(path, "model"), str(path))


def _need(condition: object, where: str, what: str) -> None:
    if not condition:
        raise UsageError(f"{where:.200}: {what:.1000}")


def parse_model(text: str | bytes, name: str) -> Model:
    """Read a model from text; `name` says in messages where the text is from."""
    data = text.encode() if isinstance(text, str) else text
    if data.lstrip().startswith(b"{"):  # JSON, which no TOML begins like
        try:
            table = json.loads(data)
        except (ValueError, RecursionError) as error:
            text = f"the model {name} is not JSON: {error!s:.300}; correct the file"
            raise UsageError(text) from None
    else:
        table = parse_toml(data, f"the model {name}")
    try:
        return _model(table, name)
    except UsageError as error:
        raise UsageError(f"the model {name}, {error}") from None


_TOP = "at the top"
_RELEASE = r"[0-9]{1,3}\.[0-9]{1,3}"
_COMPILERS = re.compile(rf"(?P<first>{_RELEASE})(?: to (?P<last>{_RELEASE})|(?P<open> and later))?")
_PRODUCTS = (row.figures or row.mnemonic for row in INSTRUCTIONS.values() if "d" in row.operands)
_INSTRUCTIONS = Allowed(tuple(dict.fromkeys(_PRODUCTS)))
_BITS = Allowed(most=(1 << 64) - 1, hexadecimal=True)
_NANS = {"nan_invalid": _BITS, "nan_canonical": _BITS}


def _accepts(allowed: Allowed, value: object) -> bool:
    """Tell whether a figure may have a value."""
    if allowed.words:
        return isinstance(value, str) and value in allowed.words
    return type(value) is int and allowed.least <= value <= allowed.most


def _said(allowed: Allowed) -> str:
    """Say what a figure may be."""
    if allowed.words:
        return "one of " + ", ".join(f'"{word}"' for word in allowed.words)
    spec = "#x" if allowed.hexadecimal else ""
    return f"an integer from {allowed.least:{spec}} to {allowed.most:{spec}}"


def _model(top: Table, name: str) -> Model:
    _known(top, ("target", "confidence", "source", *KINDS), _TOP)
    target = top.get("target")
    _need(isinstance(target, str), _TOP, f"target is {target!r}; give a text")
    parse_target(str(target))
    units = [unit for key, kind in KINDS.items() for unit in _units(kind, top, key)]
    served: dict[str, list[Unit]] = {}
    for unit in units:
        if not isinstance(unit, figures.DotUnit):
            continue
        if isinstance(unit, TruncatedDot):
            _check_dot(unit, f"[[dot]] ({unit.types})")
        of = f"{unit.instruction} {'scaled ' * isinstance(unit, figures.ScaledDot)}{unit.types}"
        for shape in unit.shapes or ("",):
            served.setdefault(f"{of} {shape}".rstrip(), []).append(unit)
    for words, alike in served.items():
        for one, other in combinations([unit.compilers for unit in alike], 2):
            # None is all compilers.
            apart = one and other and not (is_among(other.first, one) or is_among(one.first, other))
            text = "stands there twice for one compiler; leave one out"
            _need(apart, f"[[dot]] of {words}", text)
    return Model(target=str(target), base=str(target), file=name, units=tuple(units))


def _units(kind: type[Unit], top: Table, key: str) -> Iterator[Unit]:
    """Return the units of a table, or of an array of them."""
    if issubclass(kind, figures.DotUnit):
        yield from _dots(kind, top, key)
    elif kind is figures.ExactSum or key in top:
        table: Any = top.get(key)
        _need(isinstance(table, dict), _TOP, f"the table [{key}] is missing; add it")
        if kind is figures.DoubleChain:
            yield _doubles(table, top)
        else:
            yield _unit(kind, table, top, f"[{key}]", {})


def _known(table: Table, keys: Sequence[str], where: str) -> None:
    for key in table:
        _need(key in keys, where, f"there is no {key}; there are {', '.join(keys)}")


def _are(given: object, is_right: Callable[[str], bool]) -> bool:
    return isinstance(given, list) and all(isinstance(one, str) and is_right(one) for one in given)


def _dots(kind: type[AnyUnit], top: Table, key: str) -> Iterator[AnyUnit]:
    rows = top.get(key, [])
    are_tables = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    _need(are_tables, _TOP, f"{key} is no array of tables; write each as [[{key}]]")

    def are_formats(types: str) -> bool:
        parts = types.split(".")
        return len(parts) == 4 and set(parts) <= FORMATS.keys()

    for number, row in enumerate(rows, 1):
        where, types = f"[[{key}]] {number}", row.get("types")
        text = f"types is {types!r:.80}; give an array of formats of D, A, B and C, such as "
        text += f'["f32.f16.f16.f32"], each one of {", ".join(FORMATS)}'
        _need(types and _are(types, are_formats), where, text)
        where += f" ({', '.join(types)})"
        instruction, shapes = row.get("instruction"), row.get("shapes", [])
        text = f"instruction is {instruction!r}; give {_said(_INSTRUCTIONS)}"
        _need(_accepts(_INSTRUCTIONS, instruction), where, text)
        text = f'shapes is {shapes!r}; give an array such as ["m16n16k8"]'
        _need(_are(shapes, bool), where, text)
        compilers = _compilers(row["compilers"], where) if "compilers" in row else None
        own = {"instruction": instruction, "shapes": tuple(shapes), "compilers": compilers}
        for one in types:
            yield _unit(kind, row, top, where, {**own, "types": one})


def _compilers(given: object, where: str) -> figures.CompilerRange:
    match = _COMPILERS.fullmatch(given) if isinstance(given, str) else None
    if match is not None:
        first = parse_release(match["first"])
        last = None if match["open"] else parse_release(match["last"] or match["first"])
        if last is None or first <= last:
            return figures.CompilerRange(first=first, last=last)
    text = f'compilers is {given!r:.80}; give releases of CUDA such as "12.4", "12.4 to 12.6" '
    raise UsageError(f'{where}: {text}or "12.8 and later", or leave it out: then it is for all')


def _check_dot(dot: TruncatedDot, where: str) -> None:
    accumulator, d_type, multiplicand = dot.accumulator.value, dot.d_type, FORMATS[dot.multiplicand]
    both = accumulator == "f16" and "f32" in (dot.c_type, d_type)
    _need(not both, where, 'accumulator is "f16", and C or D is f32; give "f32"')
    is_added = dot.addend.value == "last" or dot.sums is not None
    are_bytes = FORMATS[dot.types.split(".")[1]].bits <= 8
    # Whether a figure may be there, and why it has to be, if it has.
    rows = {
        "addition": (is_added, 'addend is "last", or sums is "separate"'),
        "narrowing": (accumulator != d_type, f"D is {d_type} and the accumulator is {accumulator}"),
        "low_bits": (multiplicand.ignored_bits > 0, f"A and B are {multiplicand.name}"),
        "subnormal_exponent": (are_bytes, ""),
        "sum_bits": (are_bytes and accumulator == "f32", ""),
    }
    for name, (may_be, why) in rows.items():
        allowed, is_there = figures.allowed_of(TruncatedDot)[name], name in figures_in(dot)
        missing = may_be and why and not is_there
        _need(not missing, where, f"{name} is missing, and {why}; give {_said(allowed)}")
        _need(may_be or not is_there, where, f"{name} says nothing here; leave it out")
    run, block = dot.interleaved.value, dot.block.value
    text = f"interleaved is {run} and block {block}; give 0, or a divisor of block"
    _need(not run or block % run == 0, where, text)
    nan = dot.nan.value
    _need(not nan >> FORMATS[d_type].bits, where, f"nan is {nan:#x}, which does not fit {d_type}")


def _doubles(row: Table, top: Table) -> figures.DoubleChain:
    where = "[double]"
    order = _figure(row.get("nan_order"), (row, top), where, "nan_order")
    text = f'nan_order is {order.value!r}; give an array of "a", "b" and "c", or an empty one'
    _need(_are(order.value, lambda one: one in "abc"), where, text)
    for name, allowed in _NANS.items():
        given = row.get(name)
        _need(_accepts(allowed, given), where, f"{name} is {given!r}; give {_said(allowed)}")
    nan = replace(order, value=figures.NanRule(tuple(order.value), *(row[name] for name in _NANS)))
    return _unit(figures.DoubleChain, row, top, where, {"nan": nan}, own=("nan_order", *_NANS))


def _unit(
    kind: type[AnyUnit], row: Table, top: Table, where: str, given: dict[str, Any],
    own: Sequence[str] = (),
) -> AnyUnit:  # fmt: skip
    """Return a unit of what is given and the figures of a table, which may have `own` keys, too."""
    schema = figures.allowed_of(kind)
    _known(row, (*(own or given), *schema, "confidence", "source"), where)
    optional = {one.name for one in fields(kind) if one.default is None}
    for name, allowed in schema.items():
        if name in row:
            given[name] = _figure(row[name], (row, top), where, name)
            value = given[name].value
            _need(_accepts(allowed, value), where, f"{name} is {value!r}; give {_said(allowed)}")
        else:
            _need(name in optional, where, f"{name} is missing; give {_said(allowed)}")
    return kind(**given)


def _figure(given: object, tables: tuple[Table, ...], where: str, name: str) -> Figure[Any]:
    where += f", {name}"
    if isinstance(given, dict):
        _known(given, ("value", "confidence", "source"), where)
        tables, given = (given, *tables), given.get("value")
    confidence, source = (
        next((table[key] for table in tables if key in table), None)
        for key in ("confidence", "source")
    )
    text = f"confidence is {confidence!r}; give one of {', '.join(figures.Confidence)}"
    _need(confidence in tuple(figures.Confidence), where, text)
    text = f"source is {source!r}; say in a line who measured it, or how"
    _need(isinstance(source, str) and source, where, text)
    return Figure(given, figures.Confidence(str(confidence)), str(source))


def _tables(model: Model) -> Iterator[tuple[str, Unit, dict[str, Any]]]:
    for unit in model.units:
        own: dict[str, Any] = {}
        if isinstance(unit, figures.DotUnit):
            own = {"instruction": unit.instruction, "types": [unit.types], "shapes": [*unit.shapes]}
            own["compilers"] = figures.releases_text(unit.compilers)
        elif isinstance(unit, figures.DoubleChain):
            nan = unit.nan.value
            values = ([*nan.order], nan.invalid, nan.canonical)
            own = dict(zip(("nan_order", *_NANS), values, strict=True))
        yield next(key for key, kind in KINDS.items() if type(unit) is kind), unit, own


def model_text(model: Model) -> str:
    """Return a model as the text of a file, for its target without a suffix."""
    lines = [f'target = "sm_{parse_target(model.target).number}"']
    for key, unit, own in _tables(model):
        lines += ["", f"[[{key}]]" if isinstance(unit, figures.DotUnit) else f"[{key}]"]
        # A confidence and a source that most have are said once.
        named = figures_in(unit)
        pairs = [(figure.confidence, figure.source) for figure in named.values()]
        usual = max(pairs, key=pairs.count, default=("", ""))
        if pairs:
            own = {**own, "confidence": usual[0], "source": usual[1]}
        if isinstance(unit, figures.DoubleChain):
            # Its three keys have one figure's confidence and source.
            named["nan_order"] = replace(named.pop("nan"), value=own.pop("nan_order"))
        given = {name: value for name, value in own.items() if value not in ("", [])}
        lines += [f"{name} = {_written(name, value)}" for name, value in given.items()]
        for name, figure in named.items():
            said = _written(name, figure.value)
            if (figure.confidence, figure.source) != usual:
                said = f'{{ value = {said}, confidence = "{figure.confidence}"'
                said += f", source = {_written('', figure.source)} }}"
            lines.append(f"{name} = {said}")
    return "\n".join(lines) + "\n"


def _written(name: str, value: object) -> str:
    if isinstance(value, int) and name.startswith("nan"):
        return hex(value)
    return toml_of(value)


def model_json(model: Model) -> str:
    """Return a model as JSON, with the keys and values of its TOML file, which loses nothing."""
    return json.dumps(tomllib.loads(model_text(model)), indent=2, ensure_ascii=False) + "\n"


_TEXTS = ("instruction", "types", "shapes", "compilers")
_C_TYPES: Mapping[str, Callable[[Any], str]] = {
    "const char *": lambda value: json.dumps(
        value if isinstance(value, str) else " ".join(value), ensure_ascii=True
    ),
    "uint64_t ": "UINT64_C({:#x})".format,
    "int ": str,
}


def _c_fields(key: str) -> dict[str, str]:
    """Return the C type of each field of a unit of a kind."""
    text, bits, number = _C_TYPES
    others = {"double": ("nan_order",), "exact": ()}.get(key, _TEXTS)
    found = dict.fromkeys((*others, "confidence", "source"), text)
    for name, allowed in {
        **figures.allowed_of(KINDS[key]),
        **(_NANS if key == "double" else {}),
    }.items():
        found[name] = text if allowed.words else bits if allowed.hexadecimal else number
    return found


def model_header(model: Model) -> str:
    """Return a model as a header of C99: an array of units for each table of its TOML file.

    Of confidences it has the weakest of each unit, of sources all. It is not read back.
    """
    name = f"sm_{parse_target(model.target).number}"
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
    for key in KINDS:
        declared = "".join(f"    {type_}{one};\n" for one, type_ in _c_fields(key).items())
        lines.append(f"struct warpfuzz_{key} {{\n{declared}}};")
    lines.append("#endif")
    arrays: dict[str, list[str]] = {}
    for key, unit, own in _tables(model):
        found = figures_in(unit).values()
        sources = "; ".join(dict.fromkeys(one.source for one in found))
        values = {**own, **figures.values_in(unit), "source": sources}
        values["nan_order"] = "".join(own.get("nan_order", ()))
        values["confidence"] = figures.weakest(one.confidence for one in found).value
        made = [
            f".{field} = {_C_TYPES[type_](values[field])}"
            for field, type_ in _c_fields(key).items()
            if field in values
        ]
        arrays.setdefault(key, []).append(f"    {{{', '.join(made)}}},")
    for key, rows in arrays.items():
        lines += [f"static const struct warpfuzz_{key} warpfuzz_{name}_{key}[] = {{", *rows, "};"]
    return "\n".join([*lines, "#endif"]) + "\n"


EXPORTS: Mapping[str, Callable[[Model], str]] = {
    "toml": model_text, "json": model_json, "c": model_header,
}  # fmt: skip
"""By name of a format: what writes a model in it."""
