"""The page of a finding: one document, whatever it is of, from its record and a trace."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from corpus import Entry, Finding, Kind, ShrinkStatus
from corpus.entry import KERNEL, MODULE
from corpus.finding import RIGHT
from corpus.opening import read_answers
from fuzz.explain.document import (
    Block,
    Code,
    Document,
    Facts,
    Grid,
    Heading,
    Map,
    Paragraph,
)
from fuzz.explain.facts import ValueFacts
from fuzz.explain.values import apart, number, shown, spans
from fuzz.explain.way import Way
from fuzz.findings.case import LAUNCH, ORIGINAL, OTHER_KERNELS, REWRITTEN
from fuzz.findings.families import Asked, asked_of, who_has
from fuzz.findings.making import SINCE, commands_of, is_runnable, is_value_finding
from fuzz.findings.verdicts import Difference
from fuzz.kinds import KINDS, described, sentence
from fuzz.output import counted, typed
from oracle.formats import FORMATS, Format
from oracle.instructions import INSTRUCTIONS
from oracle.lane_code import Assign
from oracle.ops import multiplies
from oracle.slicing import Link
from oracle.terms import TermSum, operands_of, sums_of
from strategies.matrices import Result

ISA = "PTX ISA 9.0"
"""Whose sections are cited (`oracle.scalar.row`)."""
_MAPPED = 4
"""Differing elements from which on a result has a map."""
_ROWS = 16
"""Differing elements that are listed; the map shows all."""
_TERMS = 16
"""Products of a sum that are listed."""
_SUMS = 4
"""Sums of a multiplication that are listed: of a chain of f64 there are 16."""
_MESSAGE = 12
"""Lines of a message that are shown, each once."""
_SAID = 3
"""Sentences of the ISA about one matrix instruction."""
_PLAIN = str.maketrans("", "", "`_")
"""Marks of Markdown in sentences of the ISA."""
_SMALL_KERNEL = 40
"""Lines up to which a page shows the kernel."""


def page_of(
    entry: Entry,
    *,
    machine: Sequence[Block] = (),
    asked: Sequence[Asked] = (),
    here: Sequence[Block] | None = None,
) -> Document:
    """Return the page of a finding.

    Parameters
    ----------
    machine
        Where the machine code of builds parts.
    asked
        What each ptxas did, where more is known than the finding has.
    here
        How it is run in the folder that the page lies in, which may be sent to somebody; None: it
        lies in none, and names the finding's own.
    """
    finding, gives = entry.finding, ""
    if is_value_finding(entry):
        facts = ValueFacts.of(entry)
        way = None if facts.shown is None else Way.of(facts)
        gives = "" if way is None else way.gives
        blocks = _of_values(facts, way)
    else:
        blocks = _of_module(entry)
    return Document(
        sentence=sentence(finding, who=who_has([finding]), gives=gives),
        blocks=[
            *blocks,
            *_compilers(entry, asked, sent=here is not None),
            *machine,
            Heading("How to see it"),
            *([Facts(_commands(entry), commands=True)] if here is None else here),
            *_kernel(entry),
            Heading("How it was found"),
            Facts(list(_found(entry, sent=here is not None))),
        ],
    )


# A program on an image


def _of_values(facts: ValueFacts, way: Way | None) -> Iterator[Block]:
    if facts.shown is None:
        yield from _without_result(facts.finding)
        return
    yield Paragraph(_summary(facts, way))
    if way is not None:
        yield way.top()
        yield from _said(way)
        for link in way.products[-_SAID:]:
            yield from _terms(facts, link)
    yield from _permission(facts)
    yield from _maps(facts)
    if len(facts.differences) > 1:
        yield Heading("What differs")
        yield _differences(facts, "" if way is None else way.writer.stored_type)
    if way is not None and (whole := way.whole()) is not None:
        yield Heading("Every instruction that the value depends on")
        yield whole


def _without_result(finding: Finding) -> Iterator[Block]:
    meaning = KINDS[finding.kind].of_programs
    if meaning:
        yield Paragraph(_sentence(meaning))
    message = finding.runners[-1].message if finding.runners else ""
    if message:
        yield Code(message)


def _summary(facts: ValueFacts, way: Way | None) -> str:
    one = facts.shown
    assert one is not None
    count = len(facts.differences)
    where = one.where
    if way is not None and one.where.startswith("r") and len(way.lanes):
        where = f"lane {one.row}"
    more = f"; {count:,} elements of the image differ" if count > 1 else ""
    if not facts.is_permitted(one):
        judged = "No target may return this value"
    elif way is not None and way.is_exact:
        judged = "Nothing that the value depends on leaves it open: the ISA permits no other"
    else:
        judged = "The ISA permits the value, and it is not what this target is known to return"
    nobody = "" if way is not None else (
        f" No instruction writes {one.where}: {shown(one.expected, one.bits, '')} stands there "
        f"before, and the build leaves {shown(one.actual, one.bits, '')}."
    )  # fmt: skip
    rewritten = (
        " A pass or a planted fault changed the PTX on its way to the compiler; below is what was "
        "written first." if facts.rewritten is not None and facts.source is None else ""
    )  # fmt: skip
    others = facts.finding.details.get(OTHER_KERNELS)
    beside = (
        f" The module has {counted(int(others), 'other kernel')}, and without them it is right."
        if others else ""
    )  # fmt: skip
    return f"{judged} ({where}{more}).{nobody}{rewritten}{beside}"


def _said(way: Way) -> Iterator[Block]:
    """Say what the ISA says of each instruction that is named.

    A branch and a loop of lanes have no sentence of their own.
    """
    told: dict[str, str] = {}
    for at in sorted(way.guilty):
        one = way.links[at].taken
        if one is not None and isinstance(one.statement, Assign):
            row = one.statement.row
            told.setdefault(f"{row.opcode} ({ISA}, {row.section})", row.says)
    for text, said in told.items():
        yield Paragraph(f"{text}: {said}")
    forms = dict.fromkeys(
        form
        for at in sorted(way.guilty)
        if (form := way.links[at].event.step.instruction) is not None
    )
    quoted: dict[str, None] = {}
    for form in forms:
        quotes = INSTRUCTIONS[form.mnemonic].quotes_of(form)[:_SAID]
        if not quotes:
            quoted[f"{form.mnemonic}: {ISA}, {INSTRUCTIONS[form.mnemonic].section}."] = None
        for section, some in groupby(quotes, lambda quote: quote[0]):
            text = " ".join(f"“{quote.translate(_PLAIN)}”" for _, quote in some)
            quoted[f"{form.mnemonic} ({ISA}, {section}): {text}"] = None
    yield from map(Paragraph, quoted)
    if way.unread:
        yield Paragraph(
            f"Of what is named the program has {', '.join(way.unread)}, too; the value does not "
            "depend on it."
        )


def _terms(facts: ValueFacts, link: Link) -> Iterator[Block]:
    """Tell how the element of D that matters is summed."""
    step, at, result = link.event.step, link.at, link.event.result
    if at is None or result is None or not multiplies(step):
        return
    form = step.form
    if form.opaque:
        d = int(result[at]) & ((1 << form.d_type.bits) - 1)
    else:
        at, d = _element(facts, link, result)
    given = operands_of(link.event, at)
    yield Heading(f"How D[{given.row}, {given.column}] is summed: {form.opcode}")
    sums = list(sums_of(form, given, d, facts.trace.model))
    for number_, one in enumerate(sums[:_SUMS], start=1):
        yield from _sum(form.a_type, form.b_type, one, number_, len(sums), given)
    if len(sums) > _SUMS:
        yield Paragraph(f"{len(sums) - _SUMS} more additions follow.")
    c_bits = int(given.c) & ((1 << form.c_type.bits) - 1)
    c, made = (
        shown(bits, fmt.bits, fmt.name) for bits, fmt in ((c_bits, form.c_type), (d, form.d_type))
    )
    place = f"[{given.row}, {given.column}]"
    clamped = ", clamped to the range of .s32 (.satfinite)" if form.satfinite else ""
    last = "" if sums[0].adds else ", added by an instruction of its own"
    yield Paragraph(f"C{place} = {c}{last}, and D{place} = {made}{clamped}.")


def _element(facts: ValueFacts, link: Link, result: object) -> tuple[tuple[int, int], int]:
    """Return which element of D a register of a lane holds that differs, and its pattern."""
    form, at = link.event.step.form, link.at  # type: ignore[union-attr]
    assert at is not None
    lane, register = at
    bits = form.d_type.bits
    if bits >= 32:
        words = result[lane, register * bits // 32 :]  # type: ignore[index]
        return at, int(words[0]) | (int(words[1]) << 32 if bits == 64 else 0)
    one = facts.shown
    part = 0
    if one is not None and one.bits == 32 and not (one.expected ^ one.actual) & ((1 << bits) - 1):
        part = 1
    word = int(result[lane, register])  # type: ignore[index]
    return (lane, 32 // bits * register + part), word >> bits * part & ((1 << bits) - 1)


def _sum(
    a_type: Format, b_type: Format, one: TermSum, place: int, count: int, given: object
) -> Iterator[Block]:
    zero = [
        term for term in one.terms if not _counts(term.a, a_type) or not _counts(term.b, b_type)
    ]
    kept = [term for term in one.terms if term not in zero or (term.value not in (0, 0.0, None))]
    truncated = one.unit is not None
    head = ["k", "A", "B", *(["A x B"] if kept and kept[0].value is not None else [])]
    head += ["units"] if truncated else []
    rows = []
    for term in kept[:_TERMS]:
        name = str(term.k) if term.k == term.met else f"{term.k}, row {term.met} of B"
        row = [
            name,
            shown(term.a, a_type.bits, a_type.name),
            shown(term.b, b_type.bits, b_type.name),
        ]
        if term.value is not None:
            row.append(number(term.value) if a_type.is_float else str(term.value))
        if truncated:
            row.append(f"{term.units:.0f}" if term.units is not None else "")
        rows.append(row)
    before = shown(one.before, one.addend.bits, one.addend.name)
    words = f"Addition {place} of {count}: products" if count > 1 else "Products"
    ks = spans(sorted(term.k for term in one.terms))
    to = f", added to {one.adds} = {before}" if one.adds else ""
    left = len(one.terms) - len(kept)
    zeros = f"; {left} of {len(one.terms)} are zero" if left else ""
    yield Paragraph(f"{words} of k = {ks}{to}{zeros}.")
    if rows:
        yield Grid(head, rows, len(kept) - len(rows))
    if count > 1 or truncated:
        text = f"The sum is {shown(one.after, one.total.bits, one.total.name)}"
        if one.apart and count > 1:
            text += ", and the sums are added by instructions of their own"
        if one.unit is not None and kept:
            text += f". Each term is cut to a multiple of {number(one.unit, 6)}, the unit"
            text += (
                "" if one.apart else f", and what it is added to to {one.addend_units:.0f} units"
            )
        yield Paragraph(f"{text}.")


def _counts(bits: int, fmt: Format) -> bool:
    return bool(bits & (fmt.magnitude if fmt.is_float else (1 << fmt.bits) - 1))


def _permission(facts: ValueFacts) -> Iterator[Block]:
    one = facts.shown
    bound = None if one is None else facts.bound(one)
    if one is None or bound is None:
        return
    nan = ", or NaN" if bound.nan_ok else ""
    either = (
        "only NaN"
        if not bound.low <= bound.high
        else f"every value from {bound.low!r} to {bound.high!r}{nan}"
    )
    yield Paragraph(
        f"Over every order of accumulation, every rounding and either treatment of subnormal "
        f"inputs the ISA permits {either} at {one.where}."
    )


def _maps(facts: ValueFacts) -> Iterator[Block]:
    for result in facts.results:
        found = {
            (one.row, one.column): one
            for one in facts.differences
            if one.row >= 0 and one.where == result.where(one.row, one.column)
        }
        # Of registers, lanes with the same values are one row of the table.
        kinds = {(column, one.expected, one.actual) for (_, column), one in found.items()}
        if len(kinds if result.is_registers else found) >= _MAPPED:
            yield Heading(f"Where {result.name} differs: {_kind_of(result)}")
            yield Map(result, found, facts.type_of(next(iter(found.values()))))


def _kind_of(result: Result) -> str:
    if result.is_registers:
        return f"{counted(result.columns, 'register')} of {result.rows} lanes"
    return f"{result.rows} x {result.columns} elements of {result.type}"


def _differences(facts: ValueFacts, type_: str) -> Grid:
    """List what differs; `type_` is the notation of the register of which the page is about."""
    groups: dict[tuple[object, ...], list[Difference]] = {}
    # What the ISA forbids comes first.
    for one in sorted(facts.differences, key=facts.is_permitted):
        name, of_lanes, _ = one.where.partition("[lane ")
        key = (name, one.column, one.expected, one.actual) if of_lanes else (one.where,)
        groups.setdefault(key, []).append(one)
    listed = [*groups.values()][:_ROWS]
    own = facts.written.column if facts.written else -1
    rows = []
    for one, *others in listed:
        fmt, where = facts.type_of(one), one.where
        if fmt is None and one.column == own and one.row >= 0:
            fmt = FORMATS.get(type_)
        if others:
            lanes = spans(sorted(same.row for same in (one, *others)))
            where = f"{one.where.partition('[')[0]}[lanes {lanes}; {one.column}]"
        name = fmt.name if fmt else type_ if one.column == own and one.row >= 0 else ""
        values = (shown(bits, one.bits, name) for bits in (one.expected, one.actual))
        rows.append((where, *values, apart(one, fmt)))
    left = sum(map(len, groups.values())) - sum(map(len, listed))
    return Grid(("element", "expected", "left by the build", "apart"), rows, left)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


# What compilers say of a module


def _of_module(entry: Entry) -> Iterator[Block]:
    finding = entry.finding
    row = KINDS[finding.kind]
    runs = is_runnable(entry)
    meaning = row.of_programs if runs else row.of_modules
    if meaning:
        yield Paragraph(_sentence(meaning))
    if "referee" in finding.details:
        who, referee = (str(finding.details[name]) for name in ("compilers", "referee"))
        yield Paragraph(f"Run by {who}, compared with {referee}.")
    messages = dict.fromkeys(
        one.message for one in finding.runners if one.message and one.outcome not in RIGHT
    )
    for message in messages:
        lines = [*dict.fromkeys(message.rstrip().split("\n"))]
        more = [f"… {len(lines) - _MESSAGE} more"] if len(lines) > _MESSAGE else []
        yield Code("\n".join([*lines[:_MESSAGE], *more]))
    if finding.oracle.verdict != "not asked" and LAUNCH not in finding.files and not runs:
        owed = {
            "illegal": "is illegal and has to be rejected",
            "undefined": "has undefined behaviour, so that it may be accepted or rejected",
            # Of an instruction alone the declared types of its registers are not judged.
            "legal": "is legal and has to be accepted" if finding.kind is Kind.REJECTED else "",
        }.get(finding.oracle.verdict)
        if owed and len(finding.instructions) == 1:
            yield Paragraph(f"By the PTX ISA {finding.instructions[0]} {owed}.")
        for reason in finding.oracle.reasons:
            section = f" ({ISA}, {reason.section})" if reason.section else ""
            yield Paragraph(f"{reason.text}{section}")
    name = next((name for name in (REWRITTEN, MODULE) if name in finding.files), "")
    module = entry.read(name).decode(errors="replace") if name else ""
    if missing := [text for text in finding.instructions if text not in module]:
        yield Code("\n".join(missing), "ptx")
    if module:
        yield Heading(f"The module: {name}")
        yield Code(module, "ptx")


# Compilers


def _compilers(entry: Entry, asked: Sequence[Asked], *, sent: bool) -> Iterator[Block]:
    """Tell what each compiler does at each level that was run, and what was not run."""
    rows = list(_judged(entry, asked, sent=sent))
    yield Heading("Compilers")
    yield Facts(rows)


_RIGHT = "right"
_SPAN = re.compile(r"V(\d+\.\d+\.\d+)")


def _judged(entry: Entry, asked: Sequence[Asked], *, sent: bool) -> Iterator[tuple[str, str]]:
    finding, details = entry.finding, entry.finding.details
    told = sorted(tuple(asked) or asked_of(finding), key=_age)
    found: dict[str, list[Asked]] = {}
    for one in told:
        found.setdefault(_outcome_word(one) if one.wrong else _RIGHT, []).append(one)
    texts = {outcome: _named(some, told) for outcome, some in found.items()}
    versions = {name: [one.version for one in some] for name, some in found.items()}
    if not told:
        named = (("wrong", "disagree with the oracle"), (_RIGHT, "agree with the oracle"))
        texts = {word: str(details[name]) for word, name in named if details.get(name)}
        versions = {name: [text] for name, text in texts.items()}
    answers = _answers(entry)
    if answers:
        texts = {word: f"{', '.join(spans_)} at the default level" for word, spans_ in answers}
        own = finding.kind.value.partition(" although")[0]
        versions = {word if word == own else _RIGHT: [] for word in texts}
        for word, spans_ in answers:
            versions[word if word == own else _RIGHT] += spans_
    elif not told and (build := _own_build(finding)):
        texts["wrong"] = "; ".join(filter(None, (texts.get("wrong", ""), build)))
        versions["wrong"] = [texts["wrong"]]
    if told:
        # A span below is of neighbours among these.
        ran = dict.fromkeys(one.version for one in told)
        yield "run", ", ".join(ran).replace("driver", "the driver's compiler")
    for name in sorted(texts, key=lambda name: (name == _RIGHT, name)):
        yield name, texts[name]
    for what, command in commands_of(entry, sent=sent):
        if what == SINCE:
            others = "other versions and levels" if _SPAN.search(str(texts)) else "any ptxas"
            yield "not run", f"{others}: {command} --compilers all"
    behind = "another answer" if answers else _RIGHT
    yield from _since({name: " ".join(some) for name, some in versions.items()}, behind)


def _answers(entry: Entry) -> Sequence[tuple[str, Sequence[str]]]:
    """Return what versions of ptxas answered about a finding that the record that ships has."""
    spans_: dict[str, list[str]] = {}
    for answer, group in groupby(read_answers().of(entry.id), lambda pair: pair[1]):
        versions = [f"V{version}" for version, _ in group]
        span = versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
        spans_.setdefault(answer, []).append(span)
    return [*spans_.items()]


def _named(some: Sequence[Asked], told: Sequence[Asked]) -> str:
    """Name compilers with their levels."""
    return described(some, told).replace("driver -O", "the driver's compiler -O")


def _outcome_word(one: Asked) -> str:
    return "wrong" if one.outcome in ("violation", "deviation", "flaky") else one.outcome


def _own_build(finding: Finding) -> str:
    """Name the compiler that made what was run, with the device."""
    compiler = finding.details.get("compiler")
    devices = [one.device for one in finding.runners if one.device]
    if isinstance(compiler, str):
        return f"{compiler}, on {devices[0]}" if devices else compiler
    (one, *rest) = finding.runners or (None,)
    if one is None or rest or one.outcome in RIGHT:
        return ""
    return f"{one.runner} {one.version} {one.options}".strip()


def _age(one: Asked) -> tuple[object, ...]:
    """Order versions of ptxas by their age, and others behind them."""
    found = _SPAN.match(one.version)
    return (0, *_order(found[1])) if found else (1, one.version)


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _since(texts: Mapping[str, str], word: str) -> Iterator[tuple[str, str]]:
    """Tell between which versions of ptxas it appeared and went."""
    right = _SPAN.findall(texts.get(_RIGHT, ""))
    wrong = [one for name, text in texts.items() if name != _RIGHT for one in _SPAN.findall(text)]
    if not wrong:
        return
    first, last = min(wrong, key=_order), max(wrong, key=_order)
    before = [one for one in right if _order(one) < _order(first)]
    behind = [one for one in right if _order(one) > _order(last)]
    oldest = f"{word} in {max(before, key=_order)}" if before else "the oldest that was run"
    newest = f"{word} in {min(behind, key=_order)}" if behind else "the newest that was run"
    yield "since", f"{first} ({oldest})"
    yield "until", f"{last} ({newest})"


# How to see it, and how it was found


def _kernel(entry: Entry) -> Iterator[Block]:
    if KERNEL in entry.finding.files:
        text = entry.read(KERNEL).decode(errors="replace")
        if len(text.splitlines()) <= _SMALL_KERNEL:
            yield Code(text, "ptx")


def _commands(entry: Entry) -> list[tuple[str, str]]:
    finding = entry.finding
    found = commands_of(entry)
    if not is_runnable(entry) and MODULE in finding.files:
        asked = next((one for one in finding.runners if one.outcome not in RIGHT), None)
        options = asked.options.split() if asked is not None else []
        command = typed(
            (
                "ptxas",
                f"-arch={finding.target}",
                *options,
                entry.path / MODULE,
                "-o",
                "module.cubin",
            )
        )
        which = f"ptxas {asked.version.removeprefix('V')}" if asked is not None else "ptxas"
        found.insert(0, (which, command))
    if KERNEL in finding.files:
        lines = len(entry.read(KERNEL).splitlines())
        found.append((f"a kernel of {lines} lines", str(entry.path / KERNEL)))
    return found


_SHRUNK = {
    ShrinkStatus.RAW: "no",
    ShrinkStatus.FLAKY: "until it did not fail every time",
    ShrinkStatus.CAPPED: "until a limit of time or steps",
    ShrinkStatus.COMPLETE: "as far as it goes",
}
"""How far a finding was made smaller."""


def _found(entry: Entry, *, sent: bool) -> Iterator[tuple[str, str]]:
    """Yield what was recorded: the name of a fact, and the fact."""
    finding, details = entry.finding, entry.finding.details
    yield "finding", finding.id if sent else f"{finding.id}, {entry.path}"
    yield "identity", finding.identity.text
    yield "kind", finding.kind.value
    yield "module", f".target {finding.target}, .version {finding.ptx_version}"
    for device in dict.fromkeys(runner.device for runner in finding.runners if runner.device):
        yield "device", device
    if "runs" in details:
        yield "replayed", _replays(details)
    if details.get("sms"):
        yield "multiprocessors", str(details["sms"])
    if "confidence" in details:
        yield f"model of {finding.target}", str(details["confidence"])
    made = finding.made
    if made.faults:
        yield "planted faults", ", ".join(made.faults)
    if made.ptx_pass:
        yield "PTX pass", made.ptx_pass
    if made.front_end:
        yield "front end", made.front_end
    if ORIGINAL in finding.files:
        yield "before it was made smaller", ORIGINAL if sent else str(entry.path / ORIGINAL)
    yield "made smaller", _SHRUNK[finding.shrink]
    if finding.origin is not None:
        where = finding.origin
        image = "" if where.image is None else f", image {where.image}"
        yield "drawn from", f"seed {where.seed}, round {where.round}{image}"
    if finding.versions.warpfuzz:
        yield "warpfuzz", finding.versions.warpfuzz
    if finding.comment:
        yield "comment", finding.comment


def _replays(details: Mapping[str, object]) -> str:
    runs, copies, rate = (details.get(name) for name in ("runs", "copies", "rate"))
    text = f"{details.get('failed runs', 0)} of {runs} {'run' if runs == 1 else 'runs'} failed"
    if isinstance(rate, float) and isinstance(copies, int) and copies > 1:
        text += f", {100 * rate:.3g} % of the {copies:,} warps of each"
    return text
