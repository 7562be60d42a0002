"""What is legal and why not: text of one instruction in, a verdict with its reasons out."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache

from oracle.errors import UsageError
from oracle.isa import lookup
from oracle.isa.forms import ROW_BYTES, Form, kind_of
from oracle.isa.lookup import INSTRUCTIONS, refusals
from oracle.isa.nearest import Key, dotted, forms_by_key, nearest_forms, shapes_beside
from oracle.isa.targets import DEFAULT_TARGET, DEFAULT_VERSION, Module, parse_target, parse_version


class Rule(StrEnum):
    """Which kind of rule is broken; what findings are grouped by."""

    SYNTAX = "syntax"
    """Not one instruction with operands."""
    INSTRUCTION = "instruction"
    """Another instruction, or none."""
    UNKNOWN_QUALIFIER = "unknown qualifier"
    REPEATED_QUALIFIER = "repeated qualifier"
    MISSING_QUALIFIER = "missing qualifier"
    ORDER = "order of qualifiers"
    COMBINATION = "combination of qualifiers"
    AVAILABILITY = "version or target"
    OPERANDS = "number of operands"
    VECTOR = "vector"
    REGISTER = "register name"
    REGISTERS = "number of registers"
    ADDRESS = "address"
    STRIDE = "stride"
    STRIDE_BELOW_DEFAULT = "stride below default"
    ALIGNMENT = "alignment"
    SELECTOR = "sparsity selector"
    SCALE_IDS = "selectors of scales"
    CONSTANT = "constant operand"
    DEPRECATED = "deprecated"
    PRECISION = "precision"
    """Hardware computes with less than the page promises."""


SECTIONS = "9.0"
"""Version of the PTX ISA whose sections are named; in 9.4 matrices are in 9.7.16, not 9.7.14."""


def cited(section: str) -> str:
    """Return a section as a sentence names it."""
    return f"PTX ISA {SECTIONS}, {section}"


@dataclass(frozen=True)
class Reason:
    """One reason, with the section of the PTX ISA that it comes from."""

    text: str
    section: str
    """Section of the PTX ISA, such as "9.7.14.4.3"."""
    rule: Rule

    def __str__(self) -> str:
        return f"{self.text} [{cited(self.section)}]"


# What is not ended reaches to the end of the text, so that every sign is looked at once.
_SIGN = re.compile(r"[^\n]")
_APART = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_STATEMENT = re.compile(
    rf"(?<![\w.$%])(?:{'|'.join(map(re.escape, INSTRUCTIONS))})(?![\w$])[^;]*(;|\Z)", re.ASCII
)
_TARGET = re.compile(r"\.target\s+(sm_\w+)")
_VERSION = re.compile(r"\.version\s+([0-9]+\.[0-9]+)")


def without_comments(module: str) -> str:
    """Return a module with blanks for its comments and strings, everything else in its place."""
    return _APART.sub(_blank, module)


def matrix_instructions(text: str) -> Iterator[tuple[int, str]]:
    """Yield line number and text of each matrix instruction of a module `without_comments`."""
    line, place = 1, 0
    for match in _STATEMENT.finditer(text):
        if not match[1]:
            return
        line += text.count("\n", place, match.start())
        place = match.start()
        yield line, " ".join(match[0].split())


def directives(text: str) -> tuple[str | None, str | None]:
    """Return the values of `.target` and `.version`, as far as they are there."""
    found = (pattern.search(text) for pattern in (_TARGET, _VERSION))
    target, version = (None if one is None else one[1] for one in found)
    return target, version


def _blank(match: re.Match[str]) -> str:
    return _SIGN.sub(" ", match[0])


_INSTRUCTIONS = "9.7.14"
"""Section of the PTX ISA on the warp-level matrix instructions."""


@dataclass(frozen=True)
class Resolution:
    """What an opcode spells."""

    row: lookup.Instruction | None
    """None if the opcode is of another instruction."""
    form: Form | None
    candidates: tuple[Form, ...]
    """The form, or the documented forms that are nearest."""
    aligned: bool
    faults: tuple[Reason, ...]


def resolve(opcode: str) -> Resolution:
    """Resolve an opcode, such as "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"."""
    form = lookup.form_spelt(opcode)
    if form is not None:
        return Resolution(INSTRUCTIONS[form.mnemonic], form, (form,), ".aligned" in opcode, ())
    mnemonic = lookup.mnemonic_of(opcode)
    if mnemonic is None:
        text = f"{opcode[:80]!r} is none of {', '.join(INSTRUCTIONS)} with qualifiers"
        fault = Reason(text, _INSTRUCTIONS, Rule.INSTRUCTION)
        return Resolution(None, None, (), False, (fault,))
    texts = opcode[len(mnemonic) :].split(".")[1:]
    row, words = INSTRUCTIONS[mnemonic], lookup.vocabulary(mnemonic)
    slots: dict[str, list[str]] = defaultdict(list)
    for text in texts:
        if text in words:
            slots[words[text]].append(text)
    faults = tuple(
        Reason(text, row.section, rule) for text, rule in _opcode_faults(row, texts, slots)
    )
    if faults:
        return Resolution(row, None, (), "aligned" in slots, faults)
    key = _key(row, slots)
    form = forms_by_key(mnemonic).get(key)
    if form is not None:
        return Resolution(row, None, (form,), "aligned" in slots, (order_of(form),))
    nearest, text = nearest_forms(mnemonic, key)
    fault = Reason(text, row.section, Rule.COMBINATION)
    return Resolution(row, None, nearest, "aligned" in slots, (fault,))


def _opcode_faults(
    row: lookup.Instruction, texts: list[str], slots: dict[str, list[str]]
) -> Iterator[tuple[str, Rule]]:
    """Say which qualifiers there are not, too many or too few, `slots` being those of each kind."""
    known = {text for given in slots.values() for text in given}
    for text in dict.fromkeys(texts):
        if text not in known:
            shown = f".{text}" if text else "an empty qualifier"
            yield f"{shown} is not a qualifier of {row.mnemonic}", Rule.UNKNOWN_QUALIFIER
    for kind, given in [*slots.items()]:
        if len(given) > row.most[kind]:
            text = f"{dotted(given)}: {row.mnemonic} takes at most {row.most[kind]} of this kind"
            yield text, Rule.REPEATED_QUALIFIER
    for kind, least in row.required.items():
        if len(slots[kind]) < least and not (row.implicit_types and kind == "type"):
            text = f"a .{kind} qualifier is missing"
            if kind == "shape":
                text += f"; there are {shapes_beside(row.mnemonic, _key(row, slots))}"
            yield text, Rule.MISSING_QUALIFIER
    if row.implicit_types and len(slots["type"]) not in (2, 4):
        text = f"{row.mnemonic} takes two types (.dtype.ctype, of .f16 multiplicands) or four"
        yield f"{text} (.dtype.atype.btype.ctype), not {len(slots['type'])}", Rule.COMBINATION


def order_of(form: Form) -> Reason:
    """Say in which order the page has the qualifiers of a form, where an opcode has another."""
    orders = dict.fromkeys(
        ".".join(("", *(slot.text for slot in slots if slot.text)))
        for slots in lookup.spellings(form)
    )
    text = "the qualifiers stand in another order than the page has them: " + " or ".join(orders)
    return Reason(text, form.section, Rule.ORDER)


def _key(row: lookup.Instruction, slots: dict[str, list[str]]) -> Key:
    """Place the qualifiers, in their order, into the slots of the page's syntax."""
    waiting = {kind: list(texts) for kind, texts in slots.items()}
    implicit = row.implicit_types and len(slots["type"]) == 2
    key = []
    for name in row.slots:
        texts = waiting.get(kind_of(name), [])
        skipped = implicit and name in ("atype", "btype")
        if name != "aligned":
            key.append(texts.pop(0) if texts and not skipped else "")
    return tuple(key)


class Verdict(StrEnum):
    """What the ISA says of an instruction."""

    LEGAL = "legal"
    UNDEFINED = "undefined"
    """Well formed, but its behaviour is left undefined."""
    ILLEGAL = "illegal"
    NOT_JUDGED = "not judged"
    """An instruction that is not known here, a directive, a label, a brace."""


@dataclass(frozen=True)
class Explanation:
    """Verdict on one instruction for one PTX ISA version and target."""

    instruction: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    """Why it is illegal, undefined or not judged; empty if legal."""
    remarks: tuple[Reason, ...] = ()
    """On a legal one: deprecated, target unknown to the version, another order than the page's."""
    form: Form | None = None
    """The documented form, where the text spells one."""

    @property
    def legal(self) -> bool:
        """Whether the instruction is legal and its behaviour defined as far as the text shows."""
        return self.verdict is Verdict.LEGAL


# PTX ISA 4.4 (identifiers) and 4.5.1 (integer constants). Source is ASCII text (4.1), so these
# are expressions over ASCII; none of them has two ways to match the same spaces.
_IDENTIFIER = r"(?:[A-Za-z][\w$]*|[_$%][\w$]+)"
_INTEGER = r"(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)U?"
_SPACES = " \t\n\r\f\v"
_COMMENT = re.compile(r"/\*(?:.*?\*/|(?P<endless>.*))|//[^\n]*", re.DOTALL)
_HEAD = re.compile(
    rf"(?:@\s*(?:!\s*)?{_IDENTIFIER}\s+)?([A-Za-z_][\w.:]*)(?=[\s{{\[]|\Z)", re.ASCII
)
_DIRECTIVE = re.compile(rf"\.(?:{'|'.join(lookup.DIRECTIVES)})\b", re.ASCII)
_LABELS = re.compile(rf"(?:{_IDENTIFIER}\s*:(?!:)\s*)+", re.ASCII)
_OPERAND = re.compile(r"\{[^{}\[\]]*\}|\[[^{}\[\]]*\]|[^{}\[\],]+")
_REGISTER = re.compile(_IDENTIFIER, re.ASCII)
_INTEGER_OPERAND = re.compile(rf"([+-]?)\s*({_INTEGER})", re.ASCII)
_ADDRESS = re.compile(
    rf"\[\s*(?:({_IDENTIFIER})|([+-]?{_INTEGER}))\s*(?:\+\s*([+-]?{_INTEGER})\s*)?\]", re.ASCII
)
_SYNTAX, _DIRECTIVES, ADDRESSES = "4.2", "4.3.1", "6.4.1"
"""Sections of the PTX ISA on statements, directives, and addresses as operands."""


def explain(
    instruction: str, *, target: str = DEFAULT_TARGET, ptx_version: str = DEFAULT_VERSION
) -> Explanation:
    """Say whether one instruction, its semicolon optional, is legal, and why not.

    It is judged without declarations: the number of registers counts, their types cannot. Raises
    UsageError if target or version do not exist; malformed text is a verdict.
    """
    if not isinstance(instruction, str):
        raise UsageError(f"the instruction is a {type(instruction).__name__}; give text")
    return _explain(instruction, Module(parse_target(target), parse_version(ptx_version)))


def explain_lines(
    lines: Iterable[str], *, target: str = DEFAULT_TARGET, ptx_version: str = DEFAULT_VERSION
) -> Iterator[Explanation]:
    """Explain each line of a text in order; see `explain`."""
    module = Module(parse_target(target), parse_version(ptx_version))
    for line in lines:
        yield _explain(line.rstrip("\n"), module)


def says_something(line: str) -> bool:
    """Whether there is more in a line than blanks and comments."""
    return bool(_bare(line))


def verdict_of(
    instruction: str, *, target: str = DEFAULT_TARGET, ptx_version: str = DEFAULT_VERSION
) -> Verdict:
    """Return the verdict of `explain` alone, which costs a tenth where the opcode is illegal."""
    text = _statement(instruction)
    match = _HEAD.match(text)
    if _beside(text, match) is not None:
        return Verdict.NOT_JUDGED
    if match is None or lookup.form_spelt(match[1]) is None:
        return Verdict.ILLEGAL
    return explain(instruction, target=target, ptx_version=ptx_version).verdict


def _bare(text: str) -> str:
    """Return a text without comments and the blanks around it; an endless comment is none."""
    return _COMMENT.sub(lambda m: m[0] if m["endless"] else " ", text).strip(_SPACES)


def _statement(instruction: str) -> str:
    text = _bare(instruction).removesuffix(";").rstrip(_SPACES)
    labels = _LABELS.match(text)
    return text if labels is None else text[labels.end() :] or text


def _beside(text: str, head: re.Match[str] | None) -> Reason | None:
    """Say why a statement is not judged: it is no instruction, or one that is not known here."""
    if (directive := _DIRECTIVE.match(text)) is not None:
        what, section = f"{directive[0]} is a directive", _DIRECTIVES
    elif text in ("{", "}"):
        what, section = f"{text!r} is a brace", _SYNTAX
    elif _LABELS.fullmatch(text):
        what, section = f"{text[:80]!r} is a label", _SYNTAX
    elif head is not None and head[1].split(".")[0] in lookup.OTHERS:
        what, section = f"{head[1][:80]!r} is an instruction", "4.3.2"
    else:
        return None
    text = f"{what} that is not judged here; those that are: {', '.join(INSTRUCTIONS)}"
    return Reason(text, section, Rule.INSTRUCTION)


def _explain(instruction: str, module: Module) -> Explanation:
    text = _statement(instruction)
    match = _HEAD.match(text)
    if (beside := _beside(text, match)) is not None:
        return Explanation(instruction, Verdict.NOT_JUDGED, (beside,))
    if match is None:
        what = f"{text[:80]!r}" if text else "an empty line"
        reason = Reason(f"{what} is no instruction with its operands", _SYNTAX, Rule.SYNTAX)
        return Explanation(instruction, Verdict.ILLEGAL, (reason,))
    resolution, reasons, remarks = _judge_opcode(match[1], module)
    form, undefined = resolution.form, list[Reason]()
    if resolution.row is not None:
        wrong, undefined = _judge_operands(resolution, match[1], text[match.end() :])
        reasons = (*reasons, *wrong)
    if reasons:
        return Explanation(instruction, Verdict.ILLEGAL, reasons, (), form)
    verdict = Verdict.UNDEFINED if undefined else Verdict.LEGAL
    return Explanation(instruction, verdict, tuple(undefined), remarks, form)


_SHORT_SUMS = (
    "the page promises sums of at least single precision; {} keeps 13 bits below the largest "
    "exponent, of {}, too"
)
"""Of elements of 8 bits (oracle/models/sm_89.toml, and of wgmma sm_90.toml)."""


@lru_cache(maxsize=65536)
def _judge_opcode(
    opcode: str, module: Module
) -> tuple[Resolution, tuple[Reason, ...], tuple[Reason, ...]]:
    """Return what the opcode spells, what is wrong with it, and what is worth knowing of it."""
    resolution = resolve(opcode)
    reasons, remarks, form = list(resolution.faults), list[Reason](), resolution.form
    first, *others = resolution.candidates or (None,)
    if first is not None:
        # A note counts where it applies to everything that the opcode may have meant.
        shared = set(refusals(first, module)).intersection(*(refusals(f, module) for f in others))
        reasons += [
            Reason(text, section, Rule.AVAILABILITY)
            for text, section in refusals(first, module)
            if (text, section) in shared
        ]
        if not resolution.aligned and lookup.needs_aligned(first, module):
            since = INSTRUCTIONS[first.mnemonic].aligned_since
            text = (
                f"Modifier .aligned is required{f' from PTX ISA {since} onwards' if since else ''}."
            )
            reasons.append(Reason(text, first.section, Rule.MISSING_QUALIFIER))
    if form is None:
        return resolution, tuple(reasons), ()
    if opcode not in lookup.forms_by_opcode():
        remarks.append(order_of(form))
    if (
        form.is_product
        and (module.target.number == 89 or form.warps > 1)
        and form.a_type.is_float
        and (form.a_type.bits, form.d_type.name) == (8, "f32")
    ):
        short, addend = ("sm_90", "D") if form.warps > 1 else ("sm_89", "C")
        remarks.append(Reason(_SHORT_SUMS.format(short, addend), form.section, Rule.PRECISION))
    for note in lookup.notes_of(form):
        if note.deprecated is not None and module.version >= note.deprecated:
            remarks.append(Reason(note.text, form.section, Rule.DEPRECATED))
    if not module.exists:
        text = f"target {module.target.name} is unknown to PTX ISA version {module.version}"
        remarks.append(Reason(text, "11", Rule.AVAILABILITY))
    return resolution, tuple(reasons), tuple(remarks)


@cache
def _operands(row: lookup.Instruction, scales: str) -> tuple[str, ...]:
    return row.form({"block_scale": scales}).operands


def _judge_operands(
    resolution: Resolution, opcode: str, text: str
) -> tuple[list[Reason], list[Reason]]:
    assert resolution.row is not None
    row, operands = resolution.row, _split(text)
    section = row.section
    if operands is None:
        return [Reason(f"the operands {text[:80]!r} cannot be read", section, Rule.SYNTAX)], []
    known = [lookup.kinds_written(form.operands, operands) for form in resolution.candidates]
    if not known:
        # Which operands there are, the types of a warpgroup's multiplication may say.
        if row.limited and row.warps > 1:
            return [], []
        has_scales = "block_scale" if ".block_scale" in opcode else ""
        known = [_operands(row, has_scales)]
    fitting = (kinds for kinds in known if len(kinds) == len(operands))
    kinds = next(fitting, known[0])
    required = sum(1 for kind in kinds if kind != "stride")
    if not required <= len(operands) <= len(kinds):
        count = str(required) if required == len(kinds) else f"{required} or {len(kinds)}"
        listed = ", ".join(kinds) + (", the stride optional" if "stride" in kinds else "")
        noun = "operand" if count == "1" else "operands"
        takes = f"takes {count} {noun} ({listed})" if kinds else "takes no operands"
        text = f"{row.mnemonic} {takes}, not {len(operands)}"
        return [Reason(text, section, Rule.OPERANDS)], []
    given = dict(zip(kinds, operands, strict=False))
    wrong = [
        one for kind in given for one in _faults(kind, given[kind], resolution.candidates, row)
    ]
    if wrong or resolution.form is None:
        return wrong, []
    return [], [*_undefined(resolution.form, given)]


def _split(text: str) -> list[str] | None:
    """Split operands at the commas outside braces and brackets; None if they do not nest."""
    operands: list[str] = []
    position = 0
    text = text.strip(_SPACES)
    while position < len(text):
        match = _OPERAND.match(text, position)
        if match is None or not match[0].strip(_SPACES):
            return None
        operands.append(match[0].strip(_SPACES))
        position = match.end()
        rest = text[position:].lstrip(_SPACES)
        if not rest:
            return operands
        if not rest.startswith(",") or not rest[1:].strip(_SPACES):
            return None
        position = len(text) - len(rest[1:].lstrip(_SPACES))
    return operands


def _faults(
    kind: str, operand: str, candidates: tuple[Form, ...], row: lookup.Instruction
) -> Iterator[Reason]:
    section, value, is_register = (
        row.section,
        _integer(operand),
        _REGISTER.fullmatch(operand) is not None,
    )
    match kind:
        case "p":
            match = _ADDRESS.fullmatch(operand)
            forms = "[register], [variable], both + constant, [immediate]"
            if match is None:
                yield Reason(f"{operand!r} is no address: {forms}", ADDRESSES, Rule.ADDRESS)
            elif match[2] and not 0 <= (_integer(match[2]) or 0) < 1 << 32:
                text = f"the immediate address {match[2]} is not an unsigned 32-bit integer"
                yield Reason(text, ADDRESSES, Rule.ADDRESS)
            elif match[3] and not -(1 << 31) <= (_integer(match[3]) or 0) < 1 << 31:
                text = f"the offset {match[3]} is not a signed 32-bit integer"
                yield Reason(text, ADDRESSES, Rule.ADDRESS)
        case "stride":
            # "stride is an optional 32-bit integer operand" (9.7.14.4.3, 9.7.14.4.4)
            if not is_register and (value is None or not -(1 << 31) <= value < 1 << 32):
                text = f"the stride {operand!r} is neither a register nor an integer of 32 bits"
                yield Reason(text, section, Rule.STRIDE)
        case "selector":
            # "operand f is a 32-bit integer constant with values in the range 0..3" (9.7.14.6.3)
            if value is None or not 0 <= value <= 3:
                text = f"the sparsity selector {operand!r} is no integer constant from 0 to 3"
                yield Reason(text, section, Rule.SELECTOR)
        case "ids_a" | "ids_b":
            # "unsigned 16-bit integer values" (9.7.14.5.14); in registers they are not seen here
            ids = [one.strip(_SPACES) for one in operand.strip("{}").split(",")]
            numbers = [_integer(one) for one in ids if not _REGISTER.fullmatch(one)]
            right = all(one is not None and 0 <= one < 1 << 16 for one in numbers)
            if not (operand.startswith("{") and len(ids) == 2 and right):
                text = f"the selectors of scales {operand!r} are no {{byte-id, thread-id}}, "
                yield Reason(f"{text}unsigned integers of 16 bits", section, Rule.SCALE_IDS)
        case "scale-d":
            # "the input predicate argument scale-d" (9.7.15.5.2); its examples have 1 there.
            inner = operand.removeprefix("!").lstrip(_SPACES)
            if value not in (0, 1) and not _REGISTER.fullmatch(inner):
                text = f"scale-d is {operand!r:.80}; it is a predicate, 0 or 1"
                yield Reason(text, section, Rule.CONSTANT)
        case "groups":
            # "Operand N is an integer constant" (9.7.15.7.3)
            if value is None or value < 0:
                text = f"the number of groups is {operand!r:.80}; it is a constant, 0 or more"
                yield Reason(text, section, Rule.CONSTANT)
        case _ if kind in lookup.IMMEDIATES:
            if value not in lookup.IMMEDIATES[kind]:
                allowed = " or ".join(map(str, lookup.IMMEDIATES[kind]))
                text = f"{kind} is {operand!r:.80}; it is {allowed}"
                yield Reason(text, section, Rule.CONSTANT)
        case "to" | "from" | "e" | "sa" | "sb" | "a-desc" | "b-desc":
            if kind[0] == "s":  # ptxas takes it as a vector of one register, too (2026-11-29)
                is_register = _REGISTER.fullmatch(operand.strip("{}" + _SPACES)) is not None
            if not is_register:
                yield Reason(f"{operand!r} is not the name of a register", section, Rule.REGISTER)
        case _ if not (operand.startswith("{") and operand.endswith("}")):
            text = f"operand {kind} is a brace-enclosed vector, not {operand!r}"
            yield Reason(text, section, Rule.VECTOR)
        case _:
            inside = operand[1:-1].strip(_SPACES)
            registers = [item.strip(_SPACES) for item in inside.split(",")] if inside else []
            for item in registers:
                if not _REGISTER.fullmatch(item):
                    text = f"{item!r} in operand {kind} is not the name of a register"
                    yield Reason(text, section, Rule.REGISTER)
            counts = sorted({form.vectors[kind].registers for form in candidates})
            if counts and len(registers) not in counts:
                given = f"{len(registers)} register{'s' if len(registers) != 1 else ''}"
                known = " or ".join(map(str, counts))
                text = f"operand {kind} has {given}; the fragment has {known}"
                yield Reason(text, row.fragments, Rule.REGISTERS)


def _integer(text: str) -> int | None:
    match = _INTEGER_OPERAND.fullmatch(text)
    if match is None:
        return None
    digits = match[2].removesuffix("U").lower()
    bases = {"0x": 16, "0b": 2, "0": 8, "": 10}  # by how a constant begins (4.5.1)
    prefix = next(prefix for prefix in bases if digits.startswith(prefix))
    significant = digits.removeprefix(prefix).lstrip("0")
    # Constants have 64 bits (4.5.1); of a longer one, only that it is too large matters, and
    # Python refuses to convert thousands of decimal digits.
    value = int(significant or "0", bases[prefix]) if len(significant) <= 64 else 1 << 64
    return -value if match[1] == "-" else value


def _undefined(form: Form, operands: dict[str, str]) -> Iterator[Reason]:
    """Say what the text shows to be undefined: strides, addresses and selectors as numbers."""
    alignment, section = ROW_BYTES, form.section
    if form.is_access:
        matrix = form.matrix()
        alignment, section = matrix.fragment_bytes, lookup.STORAGE
        stride, default = _integer(operands.get("stride", "")), matrix.default_stride(form.layout)
        if stride is not None and stride < default:
            text = f"stride {stride} is below the default of {default} elements, which is undefined"
            yield Reason(text, form.section, Rule.STRIDE_BELOW_DEFAULT)
        elif stride is not None and not matrix.has_aligned_lines(form.layout, stride):
            apart = f"{stride * matrix.type.bits / 8:g}"
            text = f"stride {stride} puts rows {apart} bytes apart, not a multiple of {alignment}"
            yield Reason(f"{text}, the fragment's size", lookup.STORAGE, Rule.ALIGNMENT)
    if "selector" in operands:
        selector, known = _integer(operands["selector"]), lookup.selectors_of(form)
        if selector not in known:
            text = (
                f"the sparsity selector {selector} is undefined with {form.shape.name} of "
                f".{form.a_type.name}; it is {' or '.join(map(str, known))}"
            )
            yield Reason(text, form.metadata_section, Rule.SELECTOR)
    for kind, threads in (("ids_a", lookup.THREADS_A), ("ids_b", lookup.THREADS_B)):
        if kind in operands:
            ids = (_integer(one.strip(_SPACES)) for one in operands[kind].strip("{}").split(","))
            allowed = (lookup.byte_ids(form), threads)
            for name, one, known in zip(("byte", "thread"), ids, allowed, strict=True):
                if one is not None and one not in known:
                    text = f"{name}-id-{kind[-1]} {one} is undefined with .scale_vec::"
                    text += f"{form.scales}X; it is {' or '.join(map(str, known))}"
                    yield Reason(text, lookup.BLOCK_SCALING, Rule.SCALE_IDS)
    match = _ADDRESS.fullmatch(operands["p"]) if "p" in operands else None
    if match and match[2]:
        address = (_integer(match[2]) or 0) + (_integer(match[3] or "0") or 0)
        if address % alignment:
            text = f"address {address} is not a multiple of {alignment} bytes"
            yield Reason(text, section, Rule.ALIGNMENT)
