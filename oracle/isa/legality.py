"""What is legal and why not: text of one instruction in, a verdict with its reasons out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from oracle.errors import UsageError
from oracle.isa.forms import ROW_BYTES, Form
from oracle.isa.lookup import (
    deprecations,
    form_spelt,
    forms_by_opcode,
    needs_aligned,
    refusals,
    selectors_of,
)
from oracle.isa.opcodes import KEYWORDS, Resolution, is_unjudged, order_of, resolve
from oracle.isa.reasons import Reason, Rule
from oracle.isa.tables import INSTRUCTIONS
from oracle.isa.tables.wmma import STORAGE
from oracle.isa.targets import DEFAULT_TARGET, DEFAULT_VERSION, Module, parse_target, parse_version


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
_DIRECTIVE = re.compile(
    r"\.(?:abi_preserve(?:_control)?|address_size|alias|align|blocksareclusters|branchtargets"
    r"|callprototype|calltargets|common|const|entry|explicitcluster|extern|file|func|global|loc"
    r"|local|maxclusterrank|maxnctapersm|maxnreg|maxntid|minnctapersm|noreturn|param|pragma|reg"
    r"|reqnctapercluster|reqntid|section|shared|target|tex|version|visible|weak)\b",
    re.ASCII,
)
_LABELS = re.compile(rf"(?:{_IDENTIFIER}\s*:(?!:)\s*)+", re.ASCII)
_OPERAND = re.compile(r"\{[^{}\[\]]*\}|\[[^{}\[\]]*\]|[^{}\[\],]+")
_REGISTER = re.compile(_IDENTIFIER, re.ASCII)
_INTEGER_OPERAND = re.compile(rf"([+-]?)\s*({_INTEGER})", re.ASCII)
_ADDRESS = re.compile(
    rf"\[\s*(?:({_IDENTIFIER})|([+-]?{_INTEGER}))\s*(?:\+\s*([+-]?{_INTEGER})\s*)?\]", re.ASCII
)
DIRECTIVES = "4.3.1"
"""Section of the PTX ISA that lists the directives of modules, which are those of _DIRECTIVE."""
ADDRESSES = "6.4.1"
"""Section of the PTX ISA on addresses as operands, to which both pages refer."""
_SYNTAX = "4.2"
"""Section of the PTX ISA on the form of statements."""


def explain(
    instruction: str, *, target: str = DEFAULT_TARGET, ptx_version: str = DEFAULT_VERSION
) -> Explanation:
    """Say whether one instruction is legal, and why not.

    It is judged without declarations: the number of registers counts, their types cannot. Addresses
    and strides in registers are taken to be as they should be.

    `instruction`: ``wmma.load.a.sync.aligned.row.m16n16k16.f16 {a0, …, a7}, [p], 16;``; the
        semicolon is optional.
    `target`, `ptx_version`: What the module's `.target` and `.version` would be.
    Raises UsageError if one of these does not exist. Malformed text is a verdict, not an error.
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
    return bool(_COMMENT.sub(_without_comment, line).strip(_SPACES))


def verdict_of(
    instruction: str, *, target: str = DEFAULT_TARGET, ptx_version: str = DEFAULT_VERSION
) -> Verdict:
    """Return the verdict of `explain` alone, which costs a tenth where the opcode is illegal."""
    text = _statement(instruction)
    match = _HEAD.match(text)
    if _beside(text, match) is not None:
        return Verdict.NOT_JUDGED
    if match is None or form_spelt(match[1]) is None:
        return Verdict.ILLEGAL
    return explain(instruction, target=target, ptx_version=ptx_version).verdict


def _statement(instruction: str) -> str:
    text = _COMMENT.sub(_without_comment, instruction)
    text = text.strip(_SPACES).removesuffix(";").rstrip(_SPACES)
    labels = _LABELS.match(text)
    return text if labels is None else text[labels.end() :] or text


def _beside(text: str, head: re.Match[str] | None) -> Reason | None:
    """Say why a statement is not judged: it is no instruction, or one that is not known here."""
    if (directive := _DIRECTIVE.match(text)) is not None:
        what, section = f"{directive[0]} is a directive", DIRECTIVES
    elif text in ("{", "}"):
        what, section = f"{text!r} is a brace", _SYNTAX
    elif _LABELS.fullmatch(text):
        what, section = f"{text[:80]!r} is a label", _SYNTAX
    elif head is not None and is_unjudged(head[1]):
        what, section = f"{head[1][:80]!r} is an instruction", KEYWORDS
    else:
        return None
    text = (
        f"{what} that is not judged here; the instructions that are: {', '.join(INSTRUCTIONS)} "
        "(without .kind and .block_scale)"
    )
    return Reason(text, section, Rule.INSTRUCTION)


def _without_comment(match: re.Match[str]) -> str:
    return " " if match["endless"] is None else match[0]


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
    if resolution.mnemonic is not None:
        wrong, undefined = _judge_operands(resolution, resolution.mnemonic, text[match.end() :])
        reasons = (*reasons, *wrong)
    if reasons:
        return Explanation(instruction, Verdict.ILLEGAL, reasons, (), form)
    verdict = Verdict.UNDEFINED if undefined else Verdict.LEGAL
    return Explanation(instruction, verdict, tuple(undefined), remarks, form)


_SHORT_SUMS = 89
"""Number of the target whose sums of elements of 8 bits are short (oracle/models/sm_89.toml)."""
_ARE_SHORT = (
    "the page promises sums of at least single precision; sm_89 keeps 13 bits below the largest "
    "exponent, of C, too"
)


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
        if not resolution.aligned and needs_aligned(first, module):
            since = INSTRUCTIONS[first.mnemonic].aligned_since
            text = (
                f"Modifier .aligned is required{f' from PTX ISA {since} onwards' if since else ''}."
            )
            reasons.append(Reason(text, first.section, Rule.MISSING_QUALIFIER))
    if form is None:
        return resolution, tuple(reasons), ()
    if opcode not in forms_by_opcode():
        remarks.append(order_of(form))
    if (
        module.target.number == _SHORT_SUMS
        and form.is_product
        and form.a_type.is_float
        and (form.a_type.bits, form.d_type.name) == (8, "f32")
    ):
        remarks.append(Reason(_ARE_SHORT, form.section, Rule.PRECISION))
    for text, section in deprecations(form, module):
        remarks.append(Reason(text, section, Rule.DEPRECATED))
    if not module.exists:
        text = f"target {module.target.name} is unknown to PTX ISA version {module.version}"
        remarks.append(Reason(text, "11", Rule.AVAILABILITY))
    return resolution, tuple(reasons), tuple(remarks)


def _judge_operands(
    resolution: Resolution, mnemonic: str, text: str
) -> tuple[list[Reason], list[Reason]]:
    section = resolution.section
    operands = _split(text)
    if operands is None:
        return [Reason(f"the operands {text[:80]!r} cannot be read", section, Rule.SYNTAX)], []
    kinds = INSTRUCTIONS[mnemonic].operands
    required = sum(1 for kind in kinds if kind != "stride")
    if not required <= len(operands) <= len(kinds):
        count = str(required) if required == len(kinds) else f"{required} or {len(kinds)}"
        listed = ", ".join(kinds) + (", the stride optional" if "stride" in kinds else "")
        text = f"{mnemonic} takes {count} operands ({listed}), not {len(operands)}"
        return [Reason(text, section, Rule.OPERANDS)], []
    given = dict(zip(kinds, operands, strict=False))
    wrong = [one for kind in given for one in _faults(kind, given[kind], resolution)]
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


def _faults(kind: str, operand: str, resolution: Resolution) -> Iterator[Reason]:
    section = resolution.section
    value, is_register = _integer(operand), _REGISTER.fullmatch(operand) is not None
    match kind:
        case "p":
            if (fault := _address_fault(operand)) is not None:
                yield Reason(fault, ADDRESSES, Rule.ADDRESS)
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
        case "to" | "from" | "e":
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
            counts = sorted({form.vectors[kind].registers for form in resolution.candidates})
            if counts and len(registers) not in counts:
                given = f"{len(registers)} register{'s' if len(registers) != 1 else ''}"
                known = " or ".join(map(str, counts))
                text = f"operand {kind} has {given}; the fragment has {known}"
                yield Reason(text, resolution.fragments, Rule.REGISTERS)


def _address_fault(operand: str) -> str | None:
    match = _ADDRESS.fullmatch(operand)
    if match is None:
        return (
            f"{operand!r} is not an address: [register], [variable], both + constant, [immediate]"
        )
    if match[2] and not 0 <= (_integer(match[2]) or 0) < 1 << 32:
        return f"the immediate address {match[2]} is not an unsigned 32-bit integer"
    if match[3] and not -(1 << 31) <= (_integer(match[3]) or 0) < 1 << 31:
        return f"the offset {match[3]} is not a signed 32-bit integer"
    return None


def _integer(text: str) -> int | None:
    match = _INTEGER_OPERAND.fullmatch(text)
    if match is None:
        return None
    digits = match[2].removesuffix("U").lower()
    prefix = next((prefix for prefix in _BASES if digits.startswith(prefix)), "")
    significant = digits.removeprefix(prefix).lstrip("0")
    # Constants have 64 bits (4.5.1); of a longer one, only that it is too large matters, and
    # Python refuses to convert thousands of decimal digits.
    value = int(significant or "0", _BASES[prefix]) if len(significant) <= 64 else 1 << 64
    return -value if match[1] == "-" else value


_BASES = {"0x": 16, "0b": 2, "0": 8, "": 10}
"""Base of an integer constant, by how it begins (PTX ISA 4.5.1)."""


def _undefined(form: Form, operands: dict[str, str]) -> Iterator[Reason]:
    """Say what the text shows to be undefined: strides, addresses and selectors as numbers."""
    alignment, section = ROW_BYTES, form.section
    if form.is_access:
        matrix = form.matrix()
        alignment, section = matrix.fragment_bytes, STORAGE
        stride, default = _integer(operands.get("stride", "")), matrix.default_stride(form.layout)
        if stride is not None and stride < default:
            text = f"stride {stride} is below the default of {default} elements, which is undefined"
            yield Reason(text, form.section, Rule.STRIDE_BELOW_DEFAULT)
        elif stride is not None and not matrix.has_aligned_lines(form.layout, stride):
            apart = f"{stride * matrix.type.bits / 8:g}"
            text = f"stride {stride} puts rows {apart} bytes apart, not a multiple of {alignment}"
            yield Reason(f"{text}, the fragment's size", STORAGE, Rule.ALIGNMENT)
    if "selector" in operands:
        selector, known = _integer(operands["selector"]), selectors_of(form)
        if selector not in known:
            text = (
                f"the sparsity selector {selector} is undefined with {form.shape.name} of "
                f".{form.a_type.name}; it is {' or '.join(map(str, known))}"
            )
            yield Reason(text, INSTRUCTIONS[form.mnemonic].metadata.section, Rule.SELECTOR)
    match = _ADDRESS.fullmatch(operands["p"]) if "p" in operands else None
    if match and match[2]:
        address = (_integer(match[2]) or 0) + (_integer(match[3] or "0") or 0)
        if address % alignment:
            text = f"address {address} is not a multiple of {alignment} bytes"
            yield Reason(text, section, Rule.ALIGNMENT)
