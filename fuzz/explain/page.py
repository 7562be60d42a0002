"""The page of a finding: one document, whatever it is of, from its record and a trace."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from corpus import Entry, Finding, Identity, Kind, ShrinkStatus
from corpus.finding import AGREES, KERNEL, MODULE, RIGHT
from corpus.known import KnownRow, answers_about, load_known, read_answers
from fuzz.diagnosis.multiplications import UNREAD_D
from fuzz.explain.document import (
    Block,
    CodeBlock,
    Document,
    FactTable,
    Heading,
    hexadecimal,
    notation,
    number,
    shown,
    spans,
)
from fuzz.explain.way import ValueFacts, ValueWay
from fuzz.findings.case import (
    LAUNCH,
    ORIGINAL,
    OTHER_KERNELS,
    REWRITTEN,
    SINCE,
    commands_of,
    is_runnable,
    is_value_finding,
)
from fuzz.findings.families import Asked, asked_of, who_has
from fuzz.findings.verdicts import Difference
from fuzz.kinds import KINDS, described, is_provisional, sentence
from fuzz.output import counted, typed
from oracle.arithmetic.scaled import scale_value
from oracle.execution.chosen import scale_places
from oracle.execution.tracing import Link, TermSum, operands_of, sums_of
from oracle.isa.forms import FORMATS, Form, Format
from oracle.isa.lookup import INSTRUCTIONS
from oracle.program.lane_code import Assign, row_of
from oracle.program.steps import Product, multiplies
from oracle.program.warpgroup import AsyncProduct
from runners.toolchains import version_order

ISA = "PTX ISA 9.0"  # whose sections are cited (`oracle.scalar.integers`)
_ROWS = 16  # differing elements that are listed, and products of a sum
_SUMS = 4  # sums of a multiplication that are listed: of a chain of f64 there are 16
_MESSAGE = 12  # lines of a message that are shown, each once
_SAID = 3  # sentences of the ISA about one matrix instruction
_MARKS = re.compile(r"`|\b_|_\b")  # of Markdown, in sentences of the ISA
_BRANCH = (
    f"bra ({ISA}, 9.7.12.3), of which branches and loops are made: “Branch to a target and "
    "continue execution there.” Lanes whose guard predicate is false go on behind it."
)
_SPANS = 8  # of lanes that are listed; 32 of them break the lines of a table
_SMALL_KERNEL = 40  # lines up to which a page shows the kernel


def page_of(
    entry: Entry,
    *,
    machine: Sequence[Block] = (),
    asked: Sequence[Asked] = (),
    here: Sequence[Block] | None = None,
) -> Document:
    """Return the page of a finding, with where machine code parts, and what each ptxas did.

    `here` says how it is run in the folder that the page lies in, which may be sent to somebody.
    """
    finding, gives, sent = entry.finding, "", here is not None
    kernel = entry.read(KERNEL).decode(errors="replace") if KERNEL in finding.files else ""
    lines, (row, builds) = len(kernel.splitlines()), _known_row(finding)
    if is_value_finding(entry):
        facts = ValueFacts.of(entry)
        way = ValueWay.of(facts)
        gives = "" if way is None else _gives(way)
        blocks = _of_values(facts, way)
    else:
        blocks = _of_module(entry)
    if here is None:
        commands = _commands(entry)
        if kernel:
            commands.append((f"a kernel of {lines} lines", str(entry.path / KERNEL)))
        elif MODULE in finding.files:
            commands.append(("its PTX", str(entry.path / MODULE)))
        if row and row.finding and row.finding != finding.id:
            small = "warpfuzz", "corpus", "show", row.finding, "--corpus", "record"
            commands.append(("a small case of it", typed(small)))
        here = [FactTable(commands, commands=True)]
    return Document(
        sentence=sentence(finding, who=who_has([finding]), gives=gives),
        blocks=[
            *([f"Known as {row.id}{builds}: {row.cause}"] if row else []),
            *blocks,
            Heading("Compilers"),
            FactTable(list(_compilers(entry, asked, sent=sent))),
            *machine,
            Heading("How to see it"),
            *here,
            *([CodeBlock(kernel, "ptx")] if 0 < lines <= _SMALL_KERNEL else []),
            Heading("How it was found"),
            FactTable([(name, str(fact)) for name, fact in _found(entry, sent=sent) if fact]),
        ],
    )


def _known_row(finding: Finding) -> tuple[KnownRow | None, str]:
    """Return the row that ships of a finding's cause, and words where its builds are not known."""
    known = load_known()
    row = known.match(finding)
    like = row or known.like(finding)
    builds = "" if row else ", which is not known of these builds"
    return (like, builds) if isinstance(like, KnownRow) else (None, "")


# A program on an image

_REGISTERS = re.compile(r"\{(%\w+), (?:%\w+, ){4,}(%\w+)\}")  # of a D of wgmma up to 128


def _of_values(facts: ValueFacts, way: ValueWay | None) -> Iterator[Block]:
    one = facts.shown
    if one is None:
        if meaning := KINDS[facts.finding.kind].of_programs:
            yield meaning[:1].upper() + meaning[1:]
        if facts.finding.runners and (message := facts.finding.runners[-1].message):
            yield CodeBlock(_REGISTERS.sub(r"{\1, …, \2}", message))
        return
    yield _summary(facts, way, one)
    if way is not None:
        yield way.top()
        yield from _said(way)
        for link in _products(way)[-_SAID:]:
            yield from _terms(facts, link, one)
    if bound := facts.bound(one):
        either = "only NaN"
        if bound.low <= bound.high:
            nan = ", or NaN" if bound.nan_ok else ""
            either = f"every value from {bound.low!r} to {bound.high!r}{nan}"
        yield (
            "Over every order of accumulation, every rounding and either treatment of subnormal "
            f"inputs the ISA permits {either} at {one.where}."
        )
    if len(facts.differences) > 1:
        yield Heading("What differs")
        yield from _differences(facts, "" if way is None else way.stored_type)
    if way is not None and (whole := way.whole()) is not None:
        yield Heading("Every instruction that the value depends on")
        yield whole


def _summary(facts: ValueFacts, way: ValueWay | None, one: Difference) -> str:
    count, where = len(facts.differences), one.where
    if way is not None and one.where.startswith("r"):
        where = f"lane {one.row}"
    more = f"; {count:,} elements of the image differ" if count > 1 else ""
    if not facts.is_permitted(one):
        judged = "No target may return this value"
    elif way is not None and _is_exact(way):
        judged = "Nothing that the value depends on leaves it open: the ISA permits no other"
    else:
        judged = "The ISA permits the value, and it is not what this target is known to return"
    text = f"{judged} ({where}{more})."
    if way is None:
        text += (
            f" No instruction writes {one.where}: {shown(one.expected, one.bits, '')} stands there "
            f"before, and the build leaves {shown(one.actual, one.bits, '')}."
        )
    elif way.words and not way.guilty:
        text += _beside(facts.finding.identity)
    if facts.rewritten is not None and facts.source is None:
        text += (
            " A pass or a planted fault changed the PTX on its way to the compiler; below is what "
            "was written first."
        )
    if others := facts.finding.details.get(OTHER_KERNELS):
        kernels = counted(int(others), "other kernel")
        text += f" The module has {kernels}, and without them it is right."
    return text


def _beside(identity: Identity) -> str:
    """Say what a value that does not depend on what is named has to do with it, if known."""
    names = " or ".join(identity.instructions)
    if not names.startswith("wgmma"):
        return f" No {names} is among the instructions that the value depends on."
    if identity.condition != UNREAD_D:
        return ""
    return (
        " It depends on no multiplication: one in flight writes its D, which nothing reads, to "
        "registers that the compiler has given to something else."
    )


def _gives(way: ValueWay) -> str:
    """Say which value is stored in place of which, of an instruction that gave it if one did."""
    if is_provisional(way.facts.finding):
        return ""
    last, made = way.lines[-1], way.lines[-2] if len(way.lines) > 1 else None
    both, size = (way.shown.actual, way.shown.expected), way.shown.bits
    words = [notation(bits, way.stored_type) or hexadecimal(bits, size) for bits in both]
    if words[0] == words[1]:
        words = [hexadecimal(bits, size) for bits in both]
    if made is None or not made.marked or not {*last.reads} <= {*made.writes}:
        return f": {words[0]} is stored where {words[1]} is right"
    verb = "give" if len(way.facts.finding.identity.instructions) > 1 else "gives"
    return f" {verb} {words[0]} where {words[1]} is right"


def _is_exact(way: ValueWay) -> bool:
    """Whether nothing that the value depends on leaves it open: no sum, no bits of a NaN."""
    taken = [link.taken.statement for link in way.links if link.taken is not None]
    rows = [row_of(one) for one in taken if isinstance(one, Assign)]
    steps = [link.event.step for link in way.links]
    sums = any(multiplies(step) or isinstance(step, AsyncProduct) for step in steps)
    return not (sums or any(row.nan or row.defined is not None for row in rows))


def _products(way: ValueWay) -> Sequence[Link]:
    """Return the multiplications among what is named; where nothing is, the last on the way."""
    among = [way.links[at] for at in sorted(way.guilty)] or way.links
    found = [link for link in among if multiplies(link.event.step)]
    return found if way.guilty else found[-1:]


def _said(way: ValueWay) -> Iterator[str]:
    texts = dict[str, None]()
    for at in sorted(way.guilty):
        taken, form = way.links[at].taken, way.links[at].event.step.instruction
        if taken is not None and isinstance(taken.statement, Assign):
            row = row_of(taken.statement)
            texts[f"{row.opcode} ({ISA}, {row.section}): {row.says}"] = None
        elif taken is not None:
            texts[_BRANCH] = None
        elif form is not None:
            of_isa = INSTRUCTIONS[form.mnemonic]
            quotes = of_isa.quotes_of(form)[:_SAID]
            if not quotes:
                texts[f"{form.mnemonic}: {ISA}, {of_isa.section}."] = None
            for section, some in groupby(quotes, lambda quote: quote[0]):
                text = " ".join(f"“{_MARKS.sub('', quote)}”" for _, quote in some)
                texts[f"{form.mnemonic} ({ISA}, {section}): {text}"] = None
    yield from texts


def _terms(facts: ValueFacts, link: Link, shown_: Difference) -> Iterator[Block]:
    step, at, result = link.event.step, link.at, link.event.result
    if at is None or result is None or not multiplies(step):
        return
    form, bits = step.form, step.form.d_type.bits
    mask, d = (1 << bits) - 1, 0
    if form.opaque:
        d = int(result[at])
    elif bits >= 32:
        words = result[at[0], at[1] * bits // 32 :]
        d = int(words[0]) | (int(words[1]) << 32 if bits == 64 else 0)
    else:
        # Of a register with several elements, one that differs.
        lane, register = at
        part = int(shown_.bits == 32 and not (shown_.expected ^ shown_.actual) & mask)
        d = int(result[lane, register]) >> bits * part
        at = (lane, 32 // bits * register + part)
    d &= mask
    given = operands_of(link.event, at)
    place = f"[{given.row}, {given.column}]"
    yield Heading(f"How D{place} is summed: {form.opcode}")
    if form.is_scaled:
        yield _of_scales(step, given.row, given.column)
    sums = list(sums_of(form, given, d, facts.trace.model))
    for index, one in enumerate(sums[:_SUMS], start=1):
        yield from _sum(form, one, f"Addition {index} of {len(sums)}: products")
    if len(sums) > _SUMS:
        yield f"{len(sums) - _SUMS} more additions follow."
    c_bits = int(given.c) & ((1 << form.c_type.bits) - 1)
    c, made = (
        shown(raw, fmt.bits, fmt.name) for raw, fmt in ((c_bits, form.c_type), (d, form.d_type))
    )
    clamped = ", clamped to the range of .s32 (.satfinite)" if form.satfinite else ""
    last = "" if sums[0].adds else ", added by an instruction of its own"
    yield f"C{place} = {c}{last}, and D{place} = {made}{clamped}."


def _of_scales(step: Product, row: int, column: int) -> str:
    """Say which lanes and bytes have the scales of a row of A and a column of B."""
    form, places = step.form, list[str]()
    for operand, at in (("a", row), ("b", column)):
        lanes, first = scale_places(form, operand, step.selector or 0)
        bytes_ = spans(range(first, first + form.scales))
        places.append(f"byte{'s' * (form.scales > 1)} {bytes_} of lane {lanes[at]}")
    verb, those = ("are", "those") if form.scales > 1 else ("is", "that")
    return (
        f"The scale{'s' * (form.scales > 1)} of row {row} of A {verb} {places[0]}, {those} of "
        f"column {column} of B {verb} {places[1]}, each for {form.shape.k // form.scales} "
        "neighbours along K (9.7.14.3)."
    )


def _sum(form: Form, one: TermSum, words: str) -> Iterator[Block]:
    def counts(bits: int, fmt: Format) -> bool:
        return bool(bits & (fmt.magnitude if fmt.is_float else (1 << fmt.bits) - 1))

    a, b = form.a_type, form.b_type
    kept = [
        term
        for term in one.terms
        if (counts(term.a, a) and counts(term.b, b)) or term.value not in (0, 0.0, None)
    ]
    ks, left = spans(sorted(term.k for term in one.terms)), len(one.terms) - len(kept)
    before, after = (
        shown(bits, fmt.bits, fmt.name)
        for bits, fmt in ((one.before, one.addend), (one.after, one.total))
    )
    to = f", added to {one.adds} = {before}" if one.adds else ""
    zeros = f"; {left} of {len(one.terms)} are zero" if left else ""
    yield f"{words} of k = {ks}{to}{zeros}."
    with_value, with_unit = bool(kept) and kept[0].value is not None, one.unit is not None
    rows = []
    for term in kept[:_ROWS]:
        row = [str(term.k) if term.k == term.met else f"{term.k}, row {term.met} of B"]
        row += [shown(bits, fmt.bits, fmt.name) for bits, fmt in ((term.a, a), (term.b, b))]
        if with_value and term.value is not None:
            row.append(number(term.value) if a.is_float else str(term.value))
        if with_unit:
            row.append(f"{term.units:.0f}" if term.units is not None else "")
        if term.scales is not None:
            row[3:3] = [
                f"{hexadecimal(bits, 8)} {number(scale_value(bits, form.texts['stype']))}"
                for bits in term.scales
            ]
        rows.append(row)
    if rows:
        of_scales = ["scale of A", "scale of B"] if form.is_scaled else []
        product = "product" if of_scales else "A x B"
        head = ["k", "A", "B", *of_scales, *[product] * with_value, *["units"] * with_unit]
        yield FactTable(rows, head=head)
        yield from _left_out(len(kept) - len(rows))
    text = f"The sum is {after}"
    if one.unit is not None and kept:
        text += f". Each term is cut to a multiple of {number(one.unit, 6)}, the unit"
        text += "" if one.apart else f", and what it is added to to {one.addend_units:.0f} units"
    yield f"{text}."


def _left_out(count: int) -> Iterator[str]:
    if count:
        yield f"… and {count:,} more."


def _differences(facts: ValueFacts, type_: str) -> Iterator[Block]:
    """List what differs; `type_` is the notation of the register of which the page is about."""
    groups: dict[tuple[object, ...], list[Difference]] = {}
    # What the ISA forbids comes first; lanes with the same values are one row.
    for one in sorted(facts.differences, key=facts.is_permitted):
        name, of_lanes, _ = one.where.partition("[lane ")
        key = (name, one.column, one.expected, one.actual) if of_lanes else (one.where,)
        groups.setdefault(key, []).append(one)
    listed = [*groups.values()][:_ROWS]
    own = facts.written.column if facts.written else -1
    rows = []
    for same in listed:
        one, where, fmt = same[0], same[0].where, facts.type_of(same[0])
        is_own = one.column == own and one.row >= 0
        if fmt is None and is_own:
            fmt = FORMATS.get(type_)
        if len(same) > 1:
            numbers = sorted(other.row for other in same)
            lanes = f"lanes {spans(numbers)}"
            if lanes.count(",") >= _SPANS:
                lanes = f"{len(numbers)} lanes from {numbers[0]} to {numbers[-1]}"
            where = f"{one.where.partition('[')[0]}[{lanes}; {one.column}]"
        notation = fmt.name if fmt else type_ if is_own else ""
        values = (shown(bits, one.bits, notation) for bits in (one.expected, one.actual))
        rows.append((where, *values))
    yield FactTable(rows, head=("element", "expected", "left by the build"))
    yield from _left_out(len(facts.differences) - sum(map(len, listed)))


# What compilers say of a module

_OWED = {
    "illegal": "is illegal and has to be rejected",
    "undefined": "has undefined behaviour, so that it may be accepted or rejected",
}  # what the ISA says of an instruction, by the oracle's verdict


def _of_module(entry: Entry) -> Iterator[Block]:
    finding, details, runs = entry.finding, entry.finding.details, is_runnable(entry)
    kind, oracle = KINDS[finding.kind], finding.oracle
    if meaning := kind.of_programs if runs else kind.of_modules:
        yield meaning[:1].upper() + meaning[1:]
    if "referee" in details:
        yield f"Run by {details['compilers']}, compared with {details['referee']}."
    wrong = (one for one in finding.runners if one.message and one.outcome not in RIGHT)
    for message in dict.fromkeys(one.message for one in wrong):
        lines = [*dict.fromkeys(message.rstrip().split("\n"))]
        more = [f"… {len(lines) - _MESSAGE} more"] if len(lines) > _MESSAGE else []
        yield CodeBlock("\n".join([*lines[:_MESSAGE], *more]))
    if oracle.verdict != "not asked" and LAUNCH not in finding.files and not runs:
        owed = _OWED.get(oracle.verdict)
        # Of an instruction alone the declared types of its registers are not judged.
        if oracle.verdict == "legal" and finding.kind is Kind.REJECTED:
            owed = "is legal and has to be accepted"
        if owed and len(finding.instructions) == 1:
            yield f"By the PTX ISA {finding.instructions[0]} {owed}."
        for reason in oracle.reasons:
            section = f" ({ISA}, {reason.section})" if reason.section else ""
            yield f"{reason.text}{section}"
    name = next((name for name in (REWRITTEN, MODULE) if name in finding.files), "")
    module = entry.read(name).decode(errors="replace") if name else ""
    # Of a program only opcodes are known, and code of lanes has names that PTX does not have.
    if missing := [text for text in finding.instructions if " " in text and text not in module]:
        yield CodeBlock("\n".join(missing), "ptx")
    if module:
        yield Heading(f"The module: {name}")
        yield CodeBlock(module, "ptx")


# Compilers

_RIGHT = "right"
_SPAN = re.compile(r"V(\d+\.\d+\.\d+)")


def _word(outcome: str) -> str:
    """Return what is said of a build by its outcome."""
    if outcome in ("violation", "deviation", "flaky"):
        return "wrong"
    return _RIGHT if outcome == AGREES else outcome


def _compilers(entry: Entry, asked: Sequence[Asked], *, sent: bool) -> Iterator[tuple[str, str]]:
    """Tell what each compiler does at each level that was run, and what was not run."""
    finding, details = entry.finding, entry.finding.details
    answers = answers_about(read_answers(), entry.id)

    def age(one: Asked) -> tuple[object, ...]:
        span = _SPAN.match(one.version)
        return (0, *version_order(span[1])) if span else (1, one.version)

    told = sorted(tuple(asked) or asked_of(finding), key=age)
    texts: dict[str, list[str]] = {}  # by what they do; spans below are of neighbours among these
    if answers:
        for answer, group in groupby(answers, lambda pair: pair[1]):
            versions = [f"V{version}" for version, _ in group]
            span = f"{versions[0]} to {versions[-1]}" if len(versions) > 1 else versions[0]
            texts.setdefault(answer, []).append(span)
    elif told:
        groups: dict[str, list[Asked]] = {}
        for one in told:
            groups.setdefault(_word(one.outcome if one.wrong else _RIGHT), []).append(one)
        texts = {
            word: [described(some, told).replace("driver -O", "the driver's compiler -O")]
            for word, some in groups.items()
        }
        ran = ", ".join(dict.fromkeys(one.version for one in told))
        yield "run", ran.replace("driver", "the driver's compiler")
    else:
        named = (("wrong", "disagree with the oracle"), (_RIGHT, "agree with the oracle"))
        texts = {word: [str(details[name])] for word, name in named if details.get(name)}
        build, runners = details.get("compiler"), finding.runners
        if isinstance(build, str):
            devices = [f"on {one.device}" for one in runners if one.device][:1]
            texts.setdefault("wrong", []).append(", ".join([build, *devices]))
        elif len(runners) == 1 and runners[0].outcome not in RIGHT:
            (alone,) = runners
            text = f"{alone.runner} {alone.version} {alone.options}".strip()
            if alone.runner == "cuda":
                text = f"the driver's compiler, on {alone.device}"
            texts.setdefault("wrong", []).append(text)
        for name, said in details.items():
            if name.startswith("at -O"):
                texts.setdefault(_word(str(said)), []).append(f"the same compiler {name}")
    joined, at = (", ", " at the default level") if answers else ("; ", "")
    rows = [(word, joined.join(some) + at) for word, some in texts.items()]
    yield from sorted(rows, key=lambda row: (row[0] == _RIGHT, row))
    for what, command in commands_of(entry, sent=sent):
        if what == SINCE:
            others = "other versions and levels" if _SPAN.search(str(texts)) else "any ptxas"
            yield "not run", f"{others}: {command} --compilers all"
    # Between which versions of ptxas it appeared and went: of answers, what the finding is of.
    own = {finding.kind.value.partition(" although")[0]} if answers else texts.keys() - {_RIGHT}
    found = [(word in own, one) for word, text in rows for one in _SPAN.findall(text)]
    if told:
        found = [(one.wrong, span) for one in told for span in _SPAN.findall(one.version)]
    wrong = [one for bad, one in found if bad]
    if wrong and len({one for _, one in found}) > 1:
        word, order = "another answer" if answers else _RIGHT, version_order
        first, last = min(wrong, key=order), max(wrong, key=order)
        before = [one for bad, one in found if not bad and order(one) < order(first)]
        behind = [one for bad, one in found if not bad and order(one) > order(last)]
        oldest = f"{word} in {max(before, key=order)}" if before else "the oldest that was run"
        newest = f"{word} in {min(behind, key=order)}" if behind else "the newest that was run"
        yield "since", f"{first} ({oldest})"
        yield "until", f"{last} ({newest})"


# How to see it, and how it was found


def _commands(entry: Entry) -> list[tuple[str, str]]:
    finding, found = entry.finding, commands_of(entry)
    if not is_runnable(entry) and MODULE in finding.files:
        asked = next((one for one in finding.runners if one.outcome not in RIGHT), None)
        which, options = "ptxas", list[str]()
        if asked is not None:
            which, options = f"ptxas {asked.version.removeprefix('V')}", asked.options.split()
        command = ("ptxas", f"-arch={finding.target}", *options, str(entry.path / MODULE))
        found.insert(0, (which, typed((*command, "-o", "module.cubin"))))
    return found


_SHRUNK = {
    ShrinkStatus.RAW: "no",
    ShrinkStatus.FLAKY: "until it did not fail every time",
    ShrinkStatus.CAPPED: "until a limit of time or steps",
    ShrinkStatus.COMPLETE: "as far as it goes",
}  # how far a finding was made smaller


def _found(entry: Entry, *, sent: bool) -> Iterator[tuple[str, object]]:
    """Yield what was recorded: the name of a fact, and the fact; nothing where there is none."""
    finding, details, made = entry.finding, entry.finding.details, entry.finding.made
    yield "finding", finding.id if sent else f"{finding.id}, {entry.path}"
    yield "identity", finding.identity.text
    yield "kind", finding.kind.value
    yield "module", f".target {finding.target}, .version {finding.ptx_version}"
    for device in dict.fromkeys(runner.device for runner in finding.runners):
        yield "device", device
    if "runs" in details:
        runs, copies, rate = (details.get(name) for name in ("runs", "copies", "rate"))
        text = f"{details.get('failed runs', 0)} of {runs} {'run' if runs == 1 else 'runs'} failed"
        if isinstance(rate, float) and isinstance(copies, int) and copies > 1:
            text += f", {100 * rate:.3g} % of the {copies:,} copies of the image in each"
        yield "replayed", text
    yield "multiprocessors", details.get("sms")
    yield f"model of {finding.target}", details.get("confidence")
    yield "planted faults", ", ".join(made.faults)
    yield "PTX pass", made.ptx_pass
    yield "front end", made.front_end
    if ORIGINAL in finding.files:
        yield "before it was made smaller", ORIGINAL if sent else entry.path / ORIGINAL
    yield "made smaller", _SHRUNK[finding.shrink]
    if where := finding.origin:
        image = "" if where.image is None else f", image {where.image}"
        yield "drawn from", f"seed {where.seed}, round {where.round}{image}"
    yield "warpfuzz", finding.versions.warpfuzz
    yield "comment", finding.comment
