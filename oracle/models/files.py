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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

from oracle.errors import UsageError
from oracle.formats import FORMATS
from oracle.given_files import TOML_BYTES, parse_toml, read_given, reason_of
from oracle.instructions import INSTRUCTIONS
from oracle.models.figures import (
    Compilers,
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
from oracle.targets import parse_release, parse_target

AnyUnit = TypeVar("AnyUnit", bound=Unit)
AnyDot = TypeVar("AnyDot", TruncatedDot, ScalarDot)
Table = Mapping[str, Any]


_PATTERN = Whole(0, 0xFFFF_FFFF_FFFF_FFFF, hexadecimal=True)
_RELEASE = r"[0-9]{1,3}\.[0-9]{1,3}"
_COMPILERS = re.compile(rf"(?P<first>{_RELEASE})(?: to (?P<last>{_RELEASE})|(?P<open> and later))?")
_INSTRUCTIONS = Words(
    *dict.fromkeys(row.figures or name for name, row in INSTRUCTIONS.items() if "d" in row.operands)
)
_NAN_ORDERS = ("a", "b", "c")


def read_model(path: Path) -> Model:
    """Read a model from a file, TOML or JSON; UsageError says what is wrong with it."""
    try:
        data = read_given(path, most=TOML_BYTES)
    except OSError as error:
        raise UsageError(
            f"the model {path} cannot be read: {reason_of(error)}; give a TOML file such as "
            "`warpfuzz measure --output FILE` writes"
        ) from None
    return _Reader(str(path)).model(_table(data, f"the model {path}"))


def parse_model(text: str, name: str) -> Model:
    """Read a model from text; `name` says in messages where the text is from."""
    return _Reader(name).model(_table(text.encode(), f"the model {name}"))


def _table(data: bytes, name: str) -> Table:
    """Return what a text says: JSON, which no TOML begins like, or TOML."""
    if not data.lstrip().startswith(b"{"):
        return parse_toml(data, name)
    try:
        found: Table = json.loads(data, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not JSON: {error!s:.300}; correct the file") from None
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, whose keys stand there once, as in TOML."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a key of {', '.join(found)} stands there twice")
    return found


@dataclass(frozen=True)
class _Reader:
    name: str

    def wrong(self, where: str, what: str) -> UsageError:
        return UsageError(f"the model {self.name}, {where:.200}: {what:.1000}")

    def model(self, table: Table) -> Model:
        top = "at the top"
        keys = ("target", "confidence", "source", "dot", "scalar", "double", "exact")
        self.known(table, keys, top)
        target = self.text(table, "target", top)
        try:
            parse_target(target)
        except UsageError as error:
            raise self.wrong(top, str(error)) from None
        dots = self.units(TruncatedDot, table, "dot")
        for dot in dots:
            self.complete(dot, f"[[dot]] ({dot.types})")
        scalars = self.units(ScalarDot, table, "scalar")
        dot_units: tuple[DotUnit, ...] = (*dots, *scalars)
        served: dict[tuple[str, str, str], list[DotUnit]] = {}
        for unit in dot_units:
            for shape in unit.shapes or ("",):
                served.setdefault((unit.instruction, unit.types, shape), []).append(unit)
        for key, units in served.items():
            if any(
                _overlap(one.compilers, other.compilers) for one, other in combinations(units, 2)
            ):
                words = " ".join(part for part in key if part)
                raise self.wrong(
                    f"[[dot]] of {words}",
                    "stands there twice for one compiler; leave one out, or give each its own "
                    'compilers, such as "12.4 to 12.6"',
                )
        doubles = None
        if "double" in table:
            doubles = self.doubles(self.table(table, "double"), table)
        exact = self.unit(ExactSum, self.table(table, "exact"), table, "[exact]", own=(), given={})
        return Model(
            target=target, base=target, file=self.name, dots=tuple(dots),
            scalars=tuple(scalars), doubles=doubles, exact=exact,
        )  # fmt: skip

    def units(self, kind: type[AnyDot], top: Table, key: str) -> list[AnyDot]:
        rows = top.get(key, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise self.wrong("at the top", f"{key} is no array of tables; write each as [[{key}]]")
        return [
            unit
            for number, row in enumerate(rows, 1)
            for unit in self.dots(kind, row, f"[[{key}]] {number}", top)
        ]

    def dots(self, kind: type[AnyDot], row: Table, where: str, top: Table) -> list[AnyDot]:
        types = row.get("types")
        if not isinstance(types, list) or not types:
            raise self.wrong(
                where, 'types is missing, or empty; give an array such as ["f32.f16.f16.f32"]'
            )
        for one in types:
            parts = one.split(".") if isinstance(one, str) else []
            if len(parts) != 4 or not set(parts) <= set(FORMATS):
                raise self.wrong(
                    where,
                    f"types holds {one!r}; give the formats of D, A, B and C with dots between "
                    f'them, such as "f32.f16.f16.f32", each one of {", ".join(FORMATS)}',
                )
        where += f" ({', '.join(types)})"
        instruction = row.get("instruction")
        if not _INSTRUCTIONS.accepts(instruction):
            raise self.wrong(where, f"instruction is {instruction!r}; give {_INSTRUCTIONS.allowed}")
        shapes = row.get("shapes", [])
        if not isinstance(shapes, list) or not all(isinstance(one, str) for one in shapes):
            raise self.wrong(where, f'shapes is {shapes!r}; give an array such as ["m16n16k8"]')
        made = []
        for one in types:
            given = {
                "instruction": instruction, "types": one, "shapes": tuple(shapes),
                "compilers": self.compilers(row, where),
            }  # fmt: skip
            own = ("instruction", "types", "shapes", "compilers")
            made.append(self.unit(kind, row, top, where, own=own, given=given))
        return made

    def compilers(self, row: Table, where: str) -> Compilers | None:
        if "compilers" not in row:
            return None
        given = row["compilers"]
        match = _COMPILERS.fullmatch(given) if isinstance(given, str) else None
        found = None
        if match is not None:
            first = parse_release(match["first"])
            last = None if match["open"] else parse_release(match["last"] or match["first"])
            found = Compilers(first=first, last=last)
        if found is None or (found.last is not None and found.last < found.first):
            raise self.wrong(
                where,
                f'compilers is {given!r:.80}; give releases of CUDA such as "12.4", "12.4 to 12.6" '
                'or "12.8 and later", or leave it out: then it is for all',
            )
        return found

    def complete(self, dot: TruncatedDot, where: str) -> None:
        if dot.accumulator.value == "f16" and "f32" in (dot.c_type, dot.d_type):
            raise self.wrong(where, 'accumulator is "f16", and C or D is f32; give "f32"')
        multiplicand = FORMATS[dot.multiplicand]
        needed = {
            "addition": (
                dot.addend.value == "last" or dot.sums is not None,
                'addend is "last", or sums is "separate"' if dot.sums else 'addend is "last"',
            ),
            "narrowing": (
                dot.accumulator.value != dot.d_type, f"D is {dot.d_type} and the accumulator is "
                f"{dot.accumulator.value}",
            ),
            "low_bits": (multiplicand.ignored_bits > 0, f"A and B are {multiplicand.name}"),
        }  # fmt: skip
        bytes_ = FORMATS[dot.types.split(".")[1]].bits == 8
        for name, may_be in (
            ("subnormal_exponent", bytes_),
            ("sum_bits", bytes_ and dot.accumulator.value == "f32"),
        ):
            if name in dot.named and not may_be:
                raise self.wrong(
                    where,
                    f"{name} is of elements of 8 bits"
                    f"{' with sums in f32' if name == 'sum_bits' else ''}; leave it out",
                )
        for name, (is_needed, why) in needed.items():
            if is_needed and name not in dot.named:
                raise self.wrong(
                    where,
                    f"{name} is missing, and {why}; give {allowed_of(TruncatedDot)[name].allowed}",
                )
            if not is_needed and name in dot.named:
                raise self.wrong(where, f"{name} says nothing here; leave it out")
        run, block = dot.interleaved.value, dot.block.value
        if run and block % run:
            raise self.wrong(
                where, f"interleaved is {run} and block {block}; give 0, or a divisor of block"
            )
        if dot.nan.value >> FORMATS[dot.d_type].bits:
            raise self.wrong(where, f"nan is {dot.nan.value:#x}, which does not fit {dot.d_type}")

    def doubles(self, row: Table, top: Table) -> DoubleChain:
        where = "[double]"
        own = ("nan_order", "nan_invalid", "nan_canonical")
        order = row.get("nan_order")
        found: dict[str, Any] = {}
        value, confidence, source = self.parts(order, row, top, where, "nan_order")
        if not isinstance(value, list) or any(one not in _NAN_ORDERS for one in value):
            raise self.wrong(
                where, f'nan_order is {value!r}; give an array of "a", "b" and "c", or an empty one'
            )
        for name in own[1:]:
            found[name] = row.get(name)
            if not _PATTERN.accepts(found[name]):
                raise self.wrong(where, f"{name} is {found[name]!r}; give {_PATTERN.allowed}")
        rule = NanRule(
            order=tuple(value), invalid=found["nan_invalid"], canonical=found["nan_canonical"]
        )
        nan = Figure(value=rule, confidence=confidence, source=source)
        return self.unit(DoubleChain, row, top, where, own=own, given={"nan": nan})

    def unit(
        self,
        kind: type[AnyUnit],
        row: Table,
        top: Table,
        where: str,
        *,
        own: tuple[str, ...],
        given: dict[str, Any],
    ) -> AnyUnit:
        """Return a unit with the figures of a table; `own` are the other keys that it may have."""
        any_kind: Any = kind
        schema = allowed_of(any_kind)
        self.known(row, (*own, *schema, "confidence", "source"), where)
        optional = {one.name for one in fields(kind) if one.default is None}
        for name, allowed in schema.items():
            if name in row:
                value, confidence, source = self.parts(row[name], row, top, where, name)
                if not allowed.accepts(value):
                    raise self.wrong(where, f"{name} is {value!r}; give {allowed.allowed}")
                given[name] = Figure(value=value, confidence=confidence, source=source)
            elif name not in optional:
                raise self.wrong(where, f"{name} is missing; give {allowed.allowed}")
        return kind(**given)

    def parts(
        self, given: object, row: Table, top: Table, where: str, name: str
    ) -> tuple[Any, Confidence, str]:
        tables: tuple[Table, ...] = (row, top)
        if isinstance(given, dict):
            self.known(given, ("value", "confidence", "source"), f"{where}, {name}")
            tables, given = (given, *tables), given.get("value")
        confidence = next((one["confidence"] for one in tables if "confidence" in one), None)
        source = next((one["source"] for one in tables if "source" in one), None)
        if confidence not in tuple(Confidence):
            raise self.wrong(
                f"{where}, {name}",
                f"confidence is {confidence!r}; give one of {', '.join(Confidence)}",
            )
        if not isinstance(source, str) or not source:
            raise self.wrong(
                f"{where}, {name}", f"source is {source!r}; say in a line who measured it, or how"
            )
        return given, Confidence(confidence), source

    def known(self, table: Table, keys: tuple[str, ...], where: str) -> None:
        for key in table:
            if key not in keys:
                raise self.wrong(where, f"there is no {key}; there are {', '.join(keys)}")

    def table(self, top: Table, key: str) -> Table:
        found = top.get(key)
        if not isinstance(found, dict):
            raise self.wrong("at the top", f"the table [{key}] is missing; add it")
        return found

    def text(self, table: Table, key: str, where: str) -> str:
        found = table.get(key)
        if not isinstance(found, str):
            raise self.wrong(where, f'{key} is {found!r}; give a text, such as {key} = "sm_90"')
        return found


def _overlap(one: Compilers | None, other: Compilers | None) -> bool:
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
