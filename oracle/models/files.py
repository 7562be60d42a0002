"""Models as files, read strictly and written: TOML, or JSON with the same keys and values.

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
    [double]                           # f64: oracle.models.DoubleChain
    [exact]                            # integers and single bits: oracle.models.ExactSum

A figure is a value, or a table with a value, a confidence and a source; what is not given comes
from the table around it, and there from the top of the file. A figure that a unit does not have,
such as `narrowing` where the accumulator's format is that of D, is left out. What a compiler makes
of an instruction that the target has no unit for may change from release to release: `compilers`
names those whose code computes so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

from oracle.errors import UsageError
from oracle.given_files import TOML_BYTES, parse_toml, read_given, reason_of
from oracle.isa.forms import FORMATS
from oracle.isa.tables import INSTRUCTIONS
from oracle.isa.targets import parse_release, parse_target
from oracle.models.figures import (
    CompilerRange,
    Confidence,
    DotUnit,
    DoubleChain,
    ExactSum,
    Figure,
    NanRule,
    ScalarDot,
    TruncatedDot,
    Unit,
    Whole,
    Words,
    allowed_of,
)
from oracle.models.model import Model

AnyUnit = TypeVar("AnyUnit", bound=Unit)
AnyDot = TypeVar("AnyDot", TruncatedDot, ScalarDot)
Table = Mapping[str, Any]

_PATTERN = Whole(0, 0xFFFF_FFFF_FFFF_FFFF, hexadecimal=True)
_RELEASE = r"[0-9]{1,3}\.[0-9]{1,3}"
_COMPILERS = re.compile(rf"(?P<first>{_RELEASE})(?: to (?P<last>{_RELEASE})|(?P<open> and later))?")
_INSTRUCTIONS = Words(
    *dict.fromkeys(row.figures or name for name, row in INSTRUCTIONS.items() if "d" in row.operands)
)
_TOP = "at the top"


class _WrongModelError(Exception):
    """Something that no model has: where, and what."""


def _need(condition: object, where: str, what: str) -> None:
    if not condition:
        raise _WrongModelError(where, what)


def read_model(path: Path) -> Model:
    """Read a model from a file, TOML or JSON; UsageError says what is wrong with it."""
    try:
        data = read_given(path, most=TOML_BYTES)
    except OSError as error:
        raise UsageError(
            f"the model {path} cannot be read: {reason_of(error)}; give a TOML file such as "
            "`warpfuzz measure --output FILE` writes"
        ) from None
    return _parsed(data, str(path))


def parse_model(text: str, name: str) -> Model:
    """Read a model from text; `name` says in messages where the text is from."""
    return _parsed(text.encode(), name)


def _parsed(data: bytes, name: str) -> Model:
    if data.lstrip().startswith(b"{"):  # JSON, which no TOML begins like
        try:
            table = json.loads(data, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            text = f"the model {name} is not JSON: {error!s:.300}; correct the file"
            raise UsageError(text) from None
    else:
        table = parse_toml(data, f"the model {name}")
    try:
        return _model(table, name)
    except _WrongModelError as error:
        where, what = error.args
        raise UsageError(f"the model {name}, {where:.200}: {what:.1000}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, whose keys stand there once, as in TOML."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a key of {', '.join(found)} stands there twice")
    return found


def _model(top: Table, name: str) -> Model:
    _known(top, ("target", "confidence", "source", "dot", "scalar", "double", "exact"), _TOP)
    target = top.get("target")
    _need(isinstance(target, str), _TOP, f"target is {target!r}; give a text")
    try:
        parse_target(str(target))
    except UsageError as error:
        raise _WrongModelError(_TOP, str(error)) from None
    dots, scalars = [*_dots(TruncatedDot, top, "dot")], [*_dots(ScalarDot, top, "scalar")]
    for dot in dots:
        _check_dot(dot, f"[[dot]] ({dot.types})")
    served: dict[str, list[DotUnit]] = {}
    for unit in (*dots, *scalars):
        for shape in unit.shapes or ("",):
            served.setdefault(f"{unit.instruction} {unit.types} {shape}".rstrip(), []).append(unit)
    for words, units in served.items():
        for one, other in combinations(units, 2):
            apart = not _overlap(one.compilers, other.compilers)
            what = "stands there twice for one compiler; leave one out, or give each its own "
            _need(apart, f"[[dot]] of {words}", f'{what}compilers, such as "12.4 to 12.6"')
    doubles = _doubles(_subtable(top, "double"), top) if "double" in top else None
    exact = _unit(ExactSum, _subtable(top, "exact"), top, "[exact]", own=(), given={})
    return Model(
        target=str(target), base=str(target), file=name, dots=tuple(dots),
        scalars=tuple(scalars), doubles=doubles, exact=exact,
    )  # fmt: skip


def _subtable(top: Table, key: str) -> Table:
    found = top.get(key)
    if not isinstance(found, dict):
        raise _WrongModelError(_TOP, f"the table [{key}] is missing; add it")
    return found


def _known(table: Table, keys: tuple[str, ...], where: str) -> None:
    for key in table:
        _need(key in keys, where, f"there is no {key}; there are {', '.join(keys)}")


def _dots(kind: type[AnyDot], top: Table, key: str) -> Iterator[AnyDot]:
    """Yield the units of an array of tables, one for each of the types of a table."""
    rows = top.get(key, [])
    are_tables = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    _need(are_tables, _TOP, f"{key} is no array of tables; write each as [[{key}]]")
    for number, row in enumerate(rows, 1):
        where, types = f"[[{key}]] {number}", row.get("types")
        _need(
            isinstance(types, list) and types, where,
            'types is missing, or empty; give an array such as ["f32.f16.f16.f32"]',
        )  # fmt: skip
        for one in types:
            parts = one.split(".") if isinstance(one, str) else []
            _need(
                len(parts) == 4 and set(parts) <= set(FORMATS), where,
                f"types holds {one!r}; give the formats of D, A, B and C with dots between them, "
                f'such as "f32.f16.f16.f32", each one of {", ".join(FORMATS)}',
            )  # fmt: skip
        where += f" ({', '.join(types)})"
        instruction, shapes = row.get("instruction"), row.get("shapes", [])
        text = f"instruction is {instruction!r}; give {_INSTRUCTIONS.allowed}"
        _need(_INSTRUCTIONS.accepts(instruction), where, text)
        are_texts = isinstance(shapes, list) and all(isinstance(one, str) for one in shapes)
        _need(are_texts, where, f'shapes is {shapes!r}; give an array such as ["m16n16k8"]')
        given = {
            "instruction": instruction, "shapes": tuple(shapes),
            "compilers": _compilers(row["compilers"], where) if "compilers" in row else None,
        }  # fmt: skip
        for one in types:
            own = {**given, "types": one}
            yield _unit(kind, row, top, where, own=tuple(own), given=own)


def _compilers(given: object, where: str) -> CompilerRange:
    match = _COMPILERS.fullmatch(given) if isinstance(given, str) else None
    if match is not None:
        first = parse_release(match["first"])
        last = None if match["open"] else parse_release(match["last"] or match["first"])
        if last is None or first <= last:
            return CompilerRange(first=first, last=last)
    raise _WrongModelError(
        where,
        f'compilers is {given!r:.80}; give releases of CUDA such as "12.4", "12.4 to 12.6" '
        'or "12.8 and later", or leave it out: then it is for all',
    )


def _check_dot(dot: TruncatedDot, where: str) -> None:
    """Check what depends on several figures."""
    sums, accumulator, d_type = dot.accumulator_format.name, dot.accumulator.value, dot.d_type
    both = accumulator == "f16" and "f32" in (dot.c_type, d_type)
    _need(not both, where, 'accumulator is "f16", and C or D is f32; give "f32"')
    multiplicand = FORMATS[dot.multiplicand]
    last = 'addend is "last", or sums is "separate"' if dot.sums else 'addend is "last"'
    needed = {
        "addition": (dot.addend.value == "last" or dot.sums is not None, last),
        "narrowing": (accumulator != d_type, f"D is {d_type} and the accumulator is {accumulator}"),
        "low_bits": (multiplicand.ignored_bits > 0, f"A and B are {multiplicand.name}"),
    }
    bytes_ = FORMATS[dot.types.split(".")[1]].bits == 8
    fits = "subnormal_exponent" not in dot.named or bytes_
    _need(fits, where, "subnormal_exponent is of elements of 8 bits; leave it out")
    fits = "sum_bits" not in dot.named or (bytes_ and sums == "f32")
    _need(fits, where, "sum_bits is of elements of 8 bits with sums in f32; leave it out")
    for name, (is_needed, why) in needed.items():
        allowed = allowed_of(TruncatedDot)[name].allowed
        is_there = name in dot.named
        _need(is_there or not is_needed, where, f"{name} is missing, and {why}; give {allowed}")
        _need(is_needed or not is_there, where, f"{name} says nothing here; leave it out")
    run, block = dot.interleaved.value, dot.block.value
    text = f"interleaved is {run} and block {block}; give 0, or a divisor of block"
    _need(not run or block % run == 0, where, text)
    nan = dot.nan.value
    _need(not nan >> FORMATS[d_type].bits, where, f"nan is {nan:#x}, which does not fit {d_type}")


def _doubles(row: Table, top: Table) -> DoubleChain:
    where, patterns = "[double]", ("nan_invalid", "nan_canonical")
    value, confidence, source = _parts(row.get("nan_order"), (row, top), where, "nan_order")
    is_order = isinstance(value, list) and all(one in ("a", "b", "c") for one in value)
    text = f'nan_order is {value!r}; give an array of "a", "b" and "c", or an empty one'
    _need(is_order, where, text)
    for name in patterns:
        given = row.get(name)
        _need(_PATTERN.accepts(given), where, f"{name} is {given!r}; give {_PATTERN.allowed}")
    rule = NanRule(tuple(value), *(row[name] for name in patterns))
    nan = Figure(value=rule, confidence=confidence, source=source)
    return _unit(DoubleChain, row, top, where, own=("nan_order", *patterns), given={"nan": nan})


def _unit(
    kind: type[AnyUnit], row: Table, top: Table, where: str, *,
    own: tuple[str, ...], given: dict[str, Any],
) -> AnyUnit:  # fmt: skip
    """Return a unit with the figures of a table; `own` are the other keys that it may have."""
    any_kind: Any = kind
    schema = allowed_of(any_kind)
    _known(row, (*own, *schema, "confidence", "source"), where)
    optional = {one.name for one in fields(kind) if one.default is None}
    for name, allowed in schema.items():
        if name in row:
            value, confidence, source = _parts(row[name], (row, top), where, name)
            _need(allowed.accepts(value), where, f"{name} is {value!r}; give {allowed.allowed}")
            given[name] = Figure(value=value, confidence=confidence, source=source)
        else:
            _need(name in optional, where, f"{name} is missing; give {allowed.allowed}")
    return kind(**given)


def _parts(
    given: object, tables: tuple[Table, ...], where: str, name: str
) -> tuple[Any, Confidence, str]:
    """Return the value, the confidence and the source of a figure."""
    where += f", {name}"
    if isinstance(given, dict):
        _known(given, ("value", "confidence", "source"), where)
        tables, given = (given, *tables), given.get("value")
    said: dict[str, Any] = {}
    for table in reversed(tables):
        said |= table
    confidence, source = said.get("confidence"), said.get("source")
    text = f"confidence is {confidence!r}; give one of {', '.join(Confidence)}"
    _need(confidence in tuple(Confidence), where, text)
    text = f"source is {source!r}; say in a line who measured it, or how"
    _need(isinstance(source, str) and source, where, text)
    return given, Confidence(str(confidence)), str(source)


def _overlap(one: CompilerRange | None, other: CompilerRange | None) -> bool:
    """Whether a compiler is in both; None is all compilers."""
    if one is None or other is None:
        return True
    return one.include(other.first) or other.include(one.first)


def model_text(model: Model) -> str:
    """Return a model as the text of a file, for its target without a suffix."""
    lines = [f'target = "sm_{parse_target(model.target).number}"']
    arrays: dict[str, Sequence[DotUnit]] = {"dot": model.dots, "scalar": model.scalars}
    for key, units in arrays.items():
        for unit in units:
            lines += ["", f"[[{key}]]", f'instruction = "{unit.instruction}"']
            lines.append(f'types = ["{unit.types}"]')
            if unit.shapes:
                lines.append(f"shapes = [{', '.join(map(_quoted, unit.shapes))}]")
            if unit.compilers is not None:
                lines.append(f"compilers = {_quoted(str(unit.compilers))}")
            lines += _figures(unit)
    if model.doubles is not None:
        lines += ["", "[double]", *_figures(model.doubles)]
    lines += ["", "[exact]", *_figures(model.exact)]
    return "\n".join(lines) + "\n"


def _figures(unit: Unit) -> list[str]:
    """Write figures down; a confidence and a source that most have are said once."""
    figures = dict(unit.named)
    pairs = [(figure.confidence, figure.source) for figure in figures.values()]
    if not pairs:
        return []
    confidence, source = max(pairs, key=pairs.count)
    lines = [f'confidence = "{confidence}"', f"source = {_quoted(source)}"]
    for name, figure in figures.items():
        said = ""
        if (figure.confidence, figure.source) != (confidence, source):
            said = f', confidence = "{figure.confidence}", source = {_quoted(figure.source)}'
        value, extra = _written(name, figure.value), []
        if isinstance(figure.value, NanRule):
            name, value = "nan_order", f"[{', '.join(map(_quoted, figure.value.order))}]"
            extra = [f"nan_invalid = {figure.value.invalid:#x}"]
            extra += [f"nan_canonical = {figure.value.canonical:#x}"]
        lines.append(f"{name} = {{ value = {value}{said} }}" if said else f"{name} = {value}")
        lines += extra
    return lines


def _written(name: str, value: object) -> str:
    if isinstance(value, int):
        return hex(value) if name == "nan" else str(value)
    return _quoted(str(value))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in escaped) + '"'
