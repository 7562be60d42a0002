"""The page of a finding with images, in the terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from corpus import Entry, Finding
from corpus.entry import DESCRIPTION, read_entry
from corpus.store import RAW
from fuzz.explain.derivations import raw
from fuzz.explain.facts import (
    NOT_A_NUMBER,
    ValueFacts,
    apart,
    facts_of,
    level,
    level_words,
    meaning_of,
    outcomes_of,
    unit_words,
    units,
)
from fuzz.explain.notation import decimal, hexadecimal, number
from fuzz.findings.case import LAUNCH, is_value_finding
from fuzz.findings.making import commands_of
from fuzz.findings.verdicts import Difference
from fuzz.kinds import title_of
from fuzz.output import in_ascii, kind_style, plain, table
from oracle.formats import Format
from oracle.forms import Form
from oracle.ops import multiplies_fragments
from oracle.program import Program
from oracle.reasons import cited
from oracle.sharing import in_brackets, overlaps
from oracle.steps import Step
from strategies.matrices import Result

EQUAL = "·"
_COLOURS = {
    "0": "black on #d9d9d9",
    "1": "black on #ffffb2",
    "2": "black on #fee187",
    "3": "black on #feca66",
    "4": "black on #feab49",
    "5": "black on #fd8c3c",
    "6": "white on #fc5b2e",
    "7": "white on #ed2e21",
    "8": "white on #d41020",
    "9": "white on #b00026",
    NOT_A_NUMBER: "white on #6a3d9a",
}
"""From light to dark, as ColorBrewer's YlOrRd does; violet is on no such scale, as NaN is not.
Both colours of a cell are set, so that it reads the same on light and dark terminals."""


def heat_map(
    result: Result,
    found: Mapping[tuple[int, int], Difference],
    type_: Format | None,
    *,
    width: int,
) -> list[Text]:
    """Return a map of a result: a digit for each element that differs, "·" for the others.

    Parameters
    ----------
    result
        A matrix, whose rows go down and columns to the right; or the registers of ldmatrix, of
        which there are few, and which go down, whereas lanes go to the right.
    found
        What differs, by row (or lane) and column (or register).
    width
        Columns of the terminal; what is wider than that goes on below.
    """
    names = ("register", "lane") if result.is_registers else ("row", "column")
    across = result.rows if result.is_registers else result.columns
    margin = max(map(len, names)) + 3
    cell = 3 if margin + 3 * across <= width else 2
    step = max(1, (width - margin) // cell)
    lines: list[Text] = []
    for start in range(0, across, step):
        if start:
            lines.append(Text())
        part = range(start, min(start + step, across))
        lines += _part(result, found, type_, part, names=names, margin=margin, cell=cell)
    return lines


def _part(
    result: Result,
    found: Mapping[tuple[int, int], Difference],
    type_: Format | None,
    part: range,
    *,
    names: tuple[str, str],
    margin: int,
    cell: int,
) -> list[Text]:
    turned = result.is_registers
    numbers = [str(index) for index in part]
    # Two columns have no room for a gap between two numbers of two digits: tens stand above ones.
    above = [number[:-1] for number in numbers] if cell == 2 else []
    rows = [above, [number[-1] for number in numbers]] if any(above) else [numbers]
    lines = [
        Text("".join([f"{name:<{margin}}", *(f"{one:>{cell}}" for one in row)]), style="quiet")
        for row, name in zip(rows, ("",) * (len(rows) - 1) + (names[1],), strict=True)
    ]
    for index in range(result.columns if turned else result.rows):
        name = names[0] if index == 0 else ""
        line = Text().append(f"{name}{index:>{margin - len(name)}}", style="quiet")
        for other in part:
            one = found.get((other, index) if turned else (index, other))
            if one is None:
                line.append(f"{EQUAL:>{cell}}", style="quiet")
            else:
                sign = level(units(one, type_))
                line.append(" " * (cell - 2)).append(f" {sign}", style=_COLOURS[sign])
        lines.append(line)
    return lines


def legend(found: Sequence[Difference], type_: Format | None) -> Text:
    """Return what the signs of a map mean, as far as they are there."""
    signs = sorted({level(units(one, type_)) for one in found})
    line = Text().append(f"{EQUAL} equal", style="quiet")
    for sign in signs:
        line.append("   ").append(f" {sign} ", style=_COLOURS[sign])
        line.append(f" {level_words(sign)}", style="quiet")
    return line.append(f"   ({unit_words(type_)})", style="quiet")


def step_lines(program: Program) -> list[tuple[str, str]]:
    """Return what each step does, and its opcode where it is a matrix instruction."""
    return [line for step in program.steps for line in _lines(step, "", program.shared_banks)]


def _lines(
    step: Step, indent: str, banks: Collection[tuple[str, int]]
) -> Iterator[tuple[str, str]]:
    opcode = step.instruction.opcode if step.instruction else ""
    shared = in_brackets(overlaps(step, banks))
    yield f"{indent}{step}{shared}{':' if step.blocks else ''}", opcode
    for field, inside in step.blocks.items():
        if field == "otherwise" and inside:
            yield f"{indent}else:", ""
        for inner in inside:
            yield from _lines(inner, f"{indent}  ", banks)


def page_of(entry: Entry, *, again: bool = True) -> RenderableType:
    """Return the page of a finding: with images, or of an instruction that was judged.

    With `again`, the commands that run it again stand at its end; a narrow page breaks them.
    """
    page = _value_page(entry) if is_value_finding(entry) else _text_page(entry)
    ending = _section("again", _facts(commands_of(entry))) if again else []
    return Group(*page, *ending)


def _text_page(entry: Entry) -> list[RenderableType]:
    finding = entry.finding
    parts: list[RenderableType] = [
        plain(title_of(finding), style="bold"),
        _verdict(finding),
        _facts(_instruction_facts(finding)),
        *_outcomes(finding),
    ]
    for name in finding.files:
        if name.endswith(".ptx"):
            text = entry.read(name).decode(errors="replace")
            parts.append(plain(str(entry.path / name), style="quiet"))
            parts.append(Syntax(text, "text", background_color="default", word_wrap=True))
    return [*parts, *_section("files", _files(entry))]


def _instruction_facts(finding: Finding) -> Iterator[tuple[str, str]]:
    if LAUNCH not in finding.files:  # The text of a kernel is that of its module.
        for text in finding.instructions:
            yield "instruction", text
        yield "ISA", finding.oracle.verdict
    for reason in finding.oracle.reasons:
        yield "", f"{reason.text} [{cited(reason.section)}]"
    others = outcomes_of(finding).others
    for verdict in others:
        yield f"{verdict.runner} {verdict.version}", f"{verdict.outcome}: {verdict.message}"
    for message in dict.fromkeys(one.message for one in finding.runners if one not in others):
        if message:
            yield "said", message
    yield from facts_of(finding)


_PADDING = (0, 2, 0, 0)
"""Padding of a table's cells: two columns to their right."""
_ROWS = 16
"""Differing elements that are listed; the map shows all."""
_TERMS = 16
"""Inputs that are listed."""
_WIDE = 118
"""Columns from which the values of an f64 stand side by side."""


def _value_page(entry: Entry) -> list[RenderableType]:
    facts = ValueFacts.of(entry)
    finding = entry.finding
    parts: list[RenderableType] = [
        plain(title_of(finding), style="bold"),
        _verdict(finding, len(facts.differences)),
        Text(),
        _facts(facts_of(finding)),
        *_section("program", _program(facts)),
        *_outcomes(finding),
    ]
    parts += _maps(facts, "")
    parts += _as_found(entry)
    if facts.differences:
        parts += _section("what differs", _Differences(facts))
        parts += _inputs(facts)
    return [*parts, *_section("files", _files(entry))]


def _section(title: str, body: RenderableType) -> list[RenderableType]:
    return [Text(), Rule(Text(title, style="bold"), align="left", style="quiet"), body]


def _verdict(finding: Finding, differing: int = 0) -> Text:
    line = Text().append(finding.kind.value, style=kind_style(finding.kind, known=False))
    meaning = meaning_of(finding)
    if meaning:
        line.append(f": {meaning}")
    if differing:
        some = "element differs" if differing == 1 else "elements differ"
        line.append(f" {differing:,} {some}.")
    return line


# Facts


def _facts(rows: Iterable[tuple[str, str]]) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="quiet", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(name, plain(value))
    return grid


def _program(facts: ValueFacts) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="quiet", justify="right")
    grid.add_column(overflow="fold")
    for number_, (what, opcode) in enumerate(step_lines(facts.program), start=1):
        grid.add_row(str(number_), plain(what))
        if opcode:
            grid.add_row("", plain(f"  {opcode}"), style="quiet")
    return grid


# The map and the table


def _maps(facts: ValueFacts, note: str) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for result, found in _by_result(facts):
        type_ = facts.type_of(next(iter(found.values())))
        title = f"{result.name}, {_kind_of(result)}{note}"
        parts += _section(title, _Map(result, found, type_))
    return parts


def _as_found(entry: Entry) -> list[RenderableType]:
    """Return the maps of the raw finding: what a fault does to a tile tells where it sits."""
    origin = entry.finding.shrunk_from
    if origin is None:
        return []
    path = entry.path.parents[1] / RAW / origin
    if not (path / DESCRIPTION).is_file():
        return []
    raw_entry = read_entry(path)
    if not is_value_finding(raw_entry):
        return []
    return _maps(ValueFacts.of(raw_entry), ", before it was shrunk")


def _kind_of(result: Result) -> str:
    if result.is_registers:
        registers = "register" if result.columns == 1 else "registers"
        return f"{result.columns} {registers} of {result.rows} lanes"
    return f"{result.rows} × {result.columns} elements of {result.type}"


def _by_result(facts: ValueFacts) -> list[tuple[Result, Mapping[tuple[int, int], Difference]]]:
    parts: list[tuple[Result, Mapping[tuple[int, int], Difference]]] = []
    for result in facts.results:
        found = {
            (one.row, one.column): one
            for one in facts.differences
            if one.row >= 0 and one.where == result.where(one.row, one.column)
        }
        if found:
            parts.append((result, found))
    return parts


class _Map:
    def __init__(
        self,
        result: Result,
        found: Mapping[tuple[int, int], Difference],
        type_: Format | None,
    ) -> None:
        self._result, self._found, self._type = result, found, type_

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = heat_map(self._result, self._found, self._type, width=options.max_width)
        for line in [*lines, Text(), legend(list(self._found.values()), self._type)]:
            yield in_ascii(line) if options.ascii_only else line


class _Differences:
    """The elements that differ; where there is little room, the two values below each other."""

    def __init__(self, facts: ValueFacts) -> None:
        self._facts = facts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        found = self._facts.differences
        together = any(one.bits > 32 for one in found) and options.max_width < _WIDE
        # What the ISA forbids comes first.
        listed = sorted(found, key=self._facts.is_permitted)[:_ROWS]
        # Bytes and registers without a type have no other notation than their bits.
        valued = any(self._facts.type_of(one) is not None for one in listed)
        headings = ("expected", "actual") * (2 if valued else 1)
        shown = table(
            "place",
            *(("", "bits", "value")[: 2 + valued] if together else headings),
            "difference",
            padding=_PADDING,
            justify="left" if together else "right",
        )
        shown.columns[0].justify, shown.columns[0].no_wrap = "left", True
        shown.columns[-1].justify = "right"
        for one in listed:
            shown.add_row(*self._row(one, together=together, valued=valued))
        yield shown
        if len(found) > _ROWS:
            yield Text(f"… and {len(found) - _ROWS:,} more", style="quiet")

    def _row(self, one: Difference, *, together: bool, valued: bool) -> list[RenderableType]:
        type_, both = self._facts.type_of(one), (one.expected, one.actual)
        notations = [[hexadecimal(value, one.bits) for value in both]]
        if valued:
            notations.append(["" if type_ is None else decimal(value, type_) for value in both])
        place = plain(one.where)
        distance = Text(apart(one, type_))
        if together:
            return [place, "expected\nactual", *map("\n".join, notations), distance]
        return [place, *(text for pair in notations for text in pair), distance]


# Inputs


def _inputs(facts: ValueFacts) -> list[RenderableType]:
    shown, written, event = facts.shown, facts.written, facts.producer
    if shown is None or written is None or event is None or not multiplies_fragments(event.step):
        return []
    form, row, column = event.step.form, written.row, written.column
    a = [raw(value, form.a_type) for value in event.inputs["a"][row]]
    b = [raw(value, form.b_type) for value in event.inputs["b"][:, column]]
    c = raw(event.inputs["c"][row, column], form.c_type)
    places = [k for k in range(len(a)) if _matters(a[k], b[k], form)]
    headings = ("k", f"A[{row}, k]", "", f"B[k, {column}]", "")
    listed = table(*headings, padding=_PADDING, justify="right")
    for k in places[:_TERMS]:
        listed.add_row(
            str(k),
            hexadecimal(a[k], form.a_type.bits),
            decimal(a[k], form.a_type),
            hexadecimal(b[k], form.b_type.bits),
            decimal(b[k], form.b_type),
        )
    left = len(a) - len(places)
    words = f"C[{row}, {column}] = {hexadecimal(c, form.c_type.bits)} ({decimal(c, form.c_type)})"
    notes = [Text(words)]
    if len(places) > _TERMS:
        notes.append(Text(f"… and {len(places) - _TERMS} more terms", style="quiet"))
    if left:
        notes.append(Text(f"{left} of {len(a)} terms are zero", style="quiet"))
    body = Group(*([listed] if places else []), *notes)
    return _section(f"what {shown.where} is made of", body)


def _matters(x: int, y: int, form: Form) -> bool:
    if form.op is not None:
        return bool(x ^ y if form.op == "xor" else x & y)
    if not form.a_type.is_float:
        return bool(x and y)
    left, right = number(x, form.a_type), number(y, form.b_type)
    if left.kind != "finite" or right.kind != "finite":
        return True
    return not (left.is_zero or right.is_zero)


# Files and commands


def _files(entry: Entry) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(justify="right", style="quiet")
    for name, record in sorted(entry.finding.files.items()):
        grid.add_row(plain(name), f"{record.size:,} bytes")
    return Group(plain(str(entry.path), style="quiet"), grid)


def _outcomes(finding: Finding) -> list[RenderableType]:
    """Return what each compiler version did at each level; nothing where one alone was asked."""
    told = outcomes_of(finding)
    if not told.rows:
        return []
    shown = table("compiler", *told.levels, padding=_PADDING)
    for row in told.rows:
        shown.add_row(*map(plain, row))
    return _section("what each compiler did", shown)
