"""The page of a finding in Markdown, for readers who do not know warpfuzz."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from corpus import Finding, Kind
from fuzz.explain.derivations import derivation, raw, sentences_about
from fuzz.explain.facts import ValueFacts, apart, facts_of, meaning_of, outcomes_of
from fuzz.explain.notation import code, decimal, escaped, fenced, hexadecimal, table
from fuzz.findings.case import MODULE
from fuzz.findings.making import variant_of
from fuzz.findings.verdicts import Difference
from fuzz.kinds import sentence
from oracle.formats import Format
from oracle.legality import Verdict, explain
from oracle.models import NO_FIGURES, Figure, NanRule
from oracle.ops import is_main, is_producer, loads_fragment, multiplies_registers
from oracle.program import walk
from oracle.sharing import in_brackets, overlaps
from oracle.steps import PlainAccess, Step, accesses_registers
from oracle.tracing import Event

_DIFFERENCES = 48
_INPUTS = 200
_MULTIPLICATIONS = 6
"""Steps of a chain that are derived: the last ones."""


def value_page(facts: ValueFacts, compilers: Sequence[str] = ()) -> str:
    """Return the page as Markdown; `compilers` are lines about what compilers make of it."""
    lines = [
        f"# {escaped(sentence(facts.finding))}",
        "",
        *_summary(facts),
        *_facts(facts_of(facts.finding)),
        *_isa(facts),
        *_kernel(facts),
        *_inputs(facts),
        *_differences(facts),
        *_arithmetic(facts),
        *_permission(facts),
        *_confidence(facts),
        *compilers,
        *_reproduction(facts),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _summary(facts: ValueFacts) -> list[str]:
    shown, finding = facts.shown, facts.finding
    if shown is None:
        message = finding.runners[-1].message if finding.runners else ""
        return [
            f"The kernel below was not run to its end: **{finding.kind}**.",
            "",
            *(fenced(message) if message else []),
        ]
    type_, form = facts.type_of(shown), facts.form
    about = "a matrix that is loaded and stored" if form is None else f"`{form.opcode}`"
    distance = "" if type_ is None else f", {apart(shown, type_)}"
    permitted = facts.is_permitted(shown)
    how = (
        "The PTX ISA permits the value; it is not what this target is known to return, so it is a "
        "**deviation**."
        if permitted
        else "The PTX ISA permits this value on no target: it is a **violation**."
    )
    return [
        f"A kernel with {about} leaves `{shown.where}` = "
        f"{_value(shown.actual, shown, type_)} where {_value(shown.expected, shown, type_)} is "
        f"expected{distance}. {how}",
        "",
    ]


def _value(bits: int, one: Difference, type_: Format | None) -> str:
    text = f"`{hexadecimal(bits, one.bits)}`"
    return text if type_ is None else f"{text} ({decimal(bits, type_)})"


def _isa(facts: ValueFacts) -> list[str]:
    lines = ["## What the PTX ISA says", ""]
    for section, text in sentences_about(facts.form):
        lines.append(f"- {section}: “{text}”")
    return [*lines, ""]


def _kernel(facts: ValueFacts) -> list[str]:
    lines = [
        "## The kernel",
        "",
        "One warp works on one memory image. In this order it does:",
        "",
    ]
    lines += [f"{number_}. {text}" for number_, text in enumerate(_steps(facts), start=1)]
    lines.append("")
    if facts.rewritten is not None:
        written = (
            "**The PTX was changed on its way to the compiler**, by a pass or a planted fault: "
            "`kernel.ptx` is what was run, `module.ptx` what was written first."
            if facts.source is None
            else f"**A front end wrote the PTX**, `{facts.source.compiler}` at "
            f"-O{facts.source.level}, from `{facts.source.name}`: `kernel.ptx` is what was run, "
            "`module.ptx` what the program means."
        )
        lines += [f"{written} Run `module.ptx` to see the difference.", ""]
    return lines


def _steps(facts: ValueFacts) -> Iterator[str]:
    for step in walk(facts.program.steps):
        shown = f"{step}{in_brackets(overlaps(step, facts.program.shared_banks))}"
        yield f"`{step.instruction.opcode}`: {shown}" if step.instruction else shown


def _inputs(facts: ValueFacts) -> list[str]:
    """List the elements that are not zero of whatever is loaded."""
    rows: list[tuple[str, str, str]] = []
    for event in facts.trace.events:
        if event.result is not None and accesses_registers(event.step):
            rows += _loaded_registers(event.step, event.result)
        if not loads_fragment(event.step) or event.result is None:
            continue
        type_, name = event.step.form.type(), event.step.names["fragment"]
        for row, values in enumerate(event.result):
            for column, value in enumerate(values):
                bits = raw(value, type_)
                if bits:
                    shown = f"`{hexadecimal(bits, type_.bits)}`"
                    rows.append(
                        (f"{name}[{row}, {column}] .{type_.name}", shown, decimal(bits, type_))
                    )
    lines = ["## The inputs that matter", ""]
    if facts.form is not None and facts.form.mnemonic == "ldmatrix":
        return [*lines, "The rows that the lanes point to are in the derivation below.", ""]
    if not rows:
        return [*lines, "Every element that is loaded is zero.", ""]
    return [
        *lines,
        "Elements that are not zero, [row, column], and registers, [lane, number]; all others are.",
        *table(("element", "bits", "value"), rows, most=_INPUTS),
    ]


def _loaded_registers(step: PlainAccess, words: NDArray[Any]) -> Iterator[tuple[str, str, str]]:
    """Iterate over the registers that are not zero; what most lanes have is listed once."""
    for number, lanes in enumerate(words.astype("<u4").view(f"<u{step.bits // 8}").T.tolist()):
        ((common, count),) = Counter(lanes).most_common(1)
        most = count > len(lanes) // 2
        apart = [(f"lane {at}", one) for at, one in enumerate(lanes) if not most or one != common]
        if most:
            apart.append(("every other lane" if apart else "every lane", common))
        for whose, bits in apart:
            if bits:
                shown = f"`{hexadecimal(bits, step.bits)}`"
                yield f"{step.registers}[{whose}, {number}] .b{step.bits}", shown, ""


def _differences(facts: ValueFacts) -> list[str]:
    if not facts.differences:
        return []
    rows = []
    for one in facts.differences:
        type_ = facts.type_of(one)
        rows.append(
            (
                one.where,
                _value(one.expected, one, type_),
                _value(one.actual, one, type_),
                "" if type_ is None else apart(one, type_),
                "yes" if facts.is_permitted(one) else "no",
            )
        )
    return [
        "## What came out",
        *table(("element", "expected", "actual", "apart", "permitted"), rows, most=_DIFFERENCES),
    ]


def _arithmetic(facts: ValueFacts) -> list[str]:
    shown, written = facts.shown, facts.written
    if shown is None:
        return []
    lines = [f"## How {shown.where} comes about", ""]
    if written is None:
        return [
            *lines,
            "No instruction of the kernel writes this byte, or it is copied from one that none "
            "writes: it has to stay as it was.",
            "",
        ]
    history = [event for event in facts.trace.history(written) if not loads_fragment(event.step)]
    if any(_rearranges(event.step) for event in history):
        history = []  # an element of what is stored stood in another lane or register before
    if len(history) > _MULTIPLICATIONS:
        lines += [f"The first {len(history) - _MULTIPLICATIONS} steps are left out.", ""]
    end: int | None = None
    for event in history[-_MULTIPLICATIONS:]:
        derived = derivation(event, written.row, written.column, facts.trace.model)
        if derived is None:
            continue
        lines += [f"### {_heading(event)}", "", *derived.lines]
        end = derived.bits
    if end is None and multiplies_registers(facts.producer and facts.producer.step):
        actual = hexadecimal(shown.actual, shown.bits)
        return [
            *lines,
            f"A multiplication made it; its sum is not written out. The device left `{actual}`.",
            "",
        ]
    return [*lines, _check(end, shown), ""]


def _heading(event: Event) -> str:
    step = event.step
    if step.changes:
        return f"{step.changes}, element by element"
    return f"`{step.instruction.opcode}`" if step.instruction else "step"


def _rearranges(step: Step) -> bool:
    """Whether elements stand in other lanes or registers than they were read from."""
    return step.action == "pack_registers" or (is_main(step) and not is_producer(step))


def _check(end: int | None, shown: Difference) -> str:
    actual = hexadecimal(shown.actual, shown.bits)
    if end is None:
        return f"It is loaded and stored as it is. The device left `{actual}`."
    ends = hexadecimal(end, shown.bits)
    if end == shown.expected:
        return f"That is the expected `{ends}`. The device left `{actual}`."
    # A page that hides this would mislead its reader.
    return (
        f"**This ends in `{ends}`, and `{hexadecimal(shown.expected, shown.bits)}` was recorded as "
        "expected: the model of this version of warpfuzz is another than the one that found it.** "
        f"The device left `{actual}`."
    )


def _permission(facts: ValueFacts) -> list[str]:
    shown = facts.shown
    if shown is None:
        return []
    lines = ["## What the PTX ISA permits there", ""]
    bound = facts.bound(shown)
    if bound is not None:
        nan = "NaN is permitted, too" if bound.nan_ok else "NaN is not permitted"
        either = (
            "only NaN"
            if not bound.low <= bound.high
            else f"every value from {bound.low!r} ({bound.low.hex()}) to {bound.high!r} "
            f"({bound.high.hex()}); {nan}"
        )
        lines.append(
            f"Over every order of accumulation, every rounding and either treatment of subnormal "
            f"inputs: {either}."
        )
    elif facts.is_exact(shown):
        lines.append("Exactly the expected bits.")
    else:
        lines.append("Nothing is known of this element: anything counts as permitted.")
    verdict = "inside: a deviation" if facts.is_permitted(shown) else "outside: a violation"
    return [*lines, "", f"The actual value is {verdict}.", ""]


def _confidence(facts: ValueFacts) -> list[str]:
    form = facts.form
    if form is None or not form.is_product:
        return []
    model = facts.trace.model
    base = "" if model.base == model.target else f", which computes as {model.base}"
    rows = [
        (name.replace("_", " "), _shown_figure(name, figure), str(figure.confidence), figure.source)
        for name, figure in model.figures_for(form).items()
    ]
    return [
        "## How sure the expected value is",
        "",
        f"It comes from the model of {model.target}{base}{_code(facts)}.",
        *table(("figure", "value", "confidence", "source"), rows),
    ]


def _code(facts: ValueFacts) -> str:
    """Name the compiler whose figures count, where they depend on it."""
    model, form = facts.trace.model, facts.form
    if model.compiler is None or form is None or not form.is_product:
        return ""
    whose = model.expansion_of(form)
    if whose == "all":
        return ""
    if whose == NO_FIGURES:
        return (
            f", whose figures are of other compilers than that of CUDA {model.compiler}: any value "
            "that the ISA permits is taken as right"
        )
    return f", for code of compilers of CUDA {whose}"


def _shown_figure(name: str, figure: Figure[Any]) -> str:
    value = figure.value
    if isinstance(value, NanRule):
        kept = f"that of {', then '.join(value.order)}" if value.order else "always the same"
        return f"{kept}; invalid: {hexadecimal(value.invalid, 64)}"
    return f"{value:#x}" if name == "nan" else str(value)


def _reproduction(facts: ValueFacts) -> list[str]:
    other = ["python repro.py --ptx module.ptx        # what was written first"]
    variant = variant_of(facts.finding)
    flags = "".join(f" -Xptxas {flag}" for flag in variant.flags)
    built = f"-arch={variant.architecture(facts.built_for)} -Xptxas -O{facts.level}{flags}"
    commands = [
        "python repro.py                         # needs PyCUDA and NumPy",
        f"nvcc {built} -o repro repro.cu -lcuda && ./repro",
        "python repro.py --ptxas PATH --opt 0     # another compiler, another level",
        *(other if facts.rewritten is not None else []),
        *(["./repro module.ptx"] if facts.rewritten is not None else []),
    ]
    compiled = (
        [
            f"`{facts.source.name}` is compiled again by",
            "",
            *fenced("\n".join(facts.source.commands), "sh"),
        ]
        if facts.source is not None
        else []
    )
    simulated = (
        [
            "It was found on a simulated device. Where the fault sits inside that device, and not "
            "in `kernel.ptx`, a GPU runs it without a difference.",
            "",
        ]
        if facts.finding.made.runner == "sim"
        else []
    )
    hang = (
        ["The kernel did not end: be ready to interrupt it.", ""]
        if facts.finding.kind is Kind.HANG
        else []
    )
    return [
        "## Seeing it again",
        "",
        *fenced("\n".join(commands), "sh"),
        "Both print each differing element and end with exit code 1; with 0 if every byte of the "
        "image is as expected. `repro.cu` needs nvcc alone: it holds the PTX, and the ptxas of the "
        "nvcc that builds it compiles that, at the level behind `-Xptxas`.",
        "",
        *compiled,
        *simulated,
        *hang,
        *_files(facts),
    ]


def _files(facts: ValueFacts) -> Sequence[str]:
    rows = [
        ("`kernel.ptx`", "what was run"),
        ("`input.bin`", f"memory before, {len(facts.expected)} bytes"),
        ("`expected.bin`", "memory after, by the model"),
        ("`repro.json`", "where the results lie in it, and how the kernel is launched"),
        ("`repro.py`, `repro.cu`", "run it"),
    ]
    if facts.actual is not None:
        rows.insert(3, ("`actual.bin`", "memory after, as it was found"))
    if facts.rewritten is not None:
        changed = "before a pass or a planted fault changed it"
        meant = "the program as PTX that no front end wrote"
        rows.insert(1, ("`module.ptx`", changed if facts.source is None else meant))
    if facts.source is not None:
        rows.insert(0, (f"`{facts.source.name}`", "what the front end compiled"))
    return table(("file", "what"), rows)


def instruction_page(finding: Finding, module: str) -> str:
    """Return the page as Markdown."""
    lines = [
        f"# {escaped(sentence(finding))}",
        "",
        f"{finding.kind}: {meaning_of(finding)}" if meaning_of(finding) else f"{finding.kind}.",
        "",
        *fenced(finding.text, "ptx"),
        *_facts(facts_of(finding)),
        "## What the PTX ISA says",
        "",
        *_expected(finding),
        *_observed(finding),
        "## Seeing it again",
        "",
        *fenced(
            f"PTXAS=/path/to/ptxas sh repro.sh    # ptxas -arch={finding.target} {MODULE}", "sh"
        ),
        f"`{MODULE}`:",
        "",
        *fenced(module, "ptx"),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _expected(finding: Finding) -> list[str]:
    lines = []
    for text in finding.instructions:
        explanation = explain(text, target=finding.target, ptx_version=finding.ptx_version)
        owed = {
            Verdict.LEGAL: "has to be accepted",
            Verdict.ILLEGAL: "has to be rejected",
            Verdict.UNDEFINED: "may be accepted or rejected: its behaviour is undefined",
            Verdict.NOT_JUDGED: "may be accepted or rejected: warpfuzz does not know it",
        }[explanation.verdict]
        verdict = explanation.verdict
        lines.append(f"{code(text)} is **{verdict}** in this module, so that it {owed}.")
        lines += [
            f"- {f'{reason.section}: ' if reason.section else ''}{escaped(reason.text)}"
            for reason in explanation.reasons
        ]
        lines.append("")
    return lines


def _observed(finding: Finding) -> list[str]:
    told = outcomes_of(finding)
    rows = [[escaped(cell) for cell in row] for row in told.rows]
    lines = [*table(("compiler", *map(escaped, told.levels)), rows)] if rows else []
    for one in told.others:
        who = escaped(f"{one.runner} {one.version} {one.options}")
        lines += [f"{who}: **{escaped(one.outcome)}**", ""]
        if one.message:
            lines += fenced(one.message)
    # A case that a person wrote need not say it.
    return ["## What the assembler does", "", *lines] if lines else []


def _facts(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return a table of facts; what Markdown could take for marks is shown as it is."""
    shown = [
        (escaped(name), (code if set("*_<[") & set(value) else escaped)(value))
        for name, value in rows
    ]
    return table(("what", "value"), shown)
