"""From the text of an opcode to the form that it spells, or to what is wrong with it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from oracle.isa.forms import Form, kind_of
from oracle.isa.lookup import form_spelt, mnemonic_of, spellings, vocabulary
from oracle.isa.reasons import Reason, Rule
from oracle.isa.tables import INSTRUCTIONS
from oracle.isa.tables.row import Instruction

_INSTRUCTIONS = "9.7.14"
"""Section of the PTX ISA on the warp-level matrix instructions."""

_UNJUDGED = frozenset(
    """abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra
    brev brkpt brx call clusterlaunchcontrol clz cnot copysign cos cp createpolicy cvt cvta discard
    div dp2a dp4a elect ex2 exit fence fma fns getctarank griddepcontrol isspacep istypep ld ldu lg2
    lop3 mad mad24 madc mapa match max mbarrier membar min mov mul mul24 multimem nanosleep neg not
    or pmevent popc prefetch prefetchu prmt rcp red redux rem ret rsqrt sad selp set setmaxnreg setp
    shf shfl shl shr sin slct sqrt st stackrestore stacksave sub subc suld suq sured sust szext tanh
    tcgen05 tensormap testp tex tld4 trap txq vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2
    vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vote vset vset2 vset4 vshl vshr vsub vsub2 vsub4
    wgmma xor""".split()  # noqa: SIM905
)
"""Other instructions of the PTX ISA: opcodes up to the first dot (4.3.2; 9.0, chapter 9)."""
KEYWORDS = "4.3.2"
"""Section of the PTX ISA that lists the names of its instructions."""
_UNJUDGED_QUALIFIERS = re.compile(r"kind::\w+|block_scale|scale_vec::\w+", re.ASCII)
"""Multiplications with scaled blocks and other narrow types (9.7.14.5.14, .6.3, PTX 8.7)."""


Key = tuple[str, ...]
"""Texts of all slots of a form but `.aligned`, in the page's order, "" where one is left out."""


@dataclass(frozen=True)
class Resolution:
    """What an opcode spells."""

    mnemonic: str | None
    """None if the opcode is of another instruction."""
    form: Form | None
    candidates: tuple[Form, ...]
    """The form, or the documented forms that are nearest."""
    aligned: bool
    faults: tuple[Reason, ...]

    @property
    def fragments(self) -> str:
        """Section that says how many registers the vectors have."""
        return INSTRUCTIONS[self.mnemonic].fragments if self.mnemonic else _INSTRUCTIONS

    @property
    def section(self) -> str:
        """Section of the page of the instruction."""
        return INSTRUCTIONS[self.mnemonic].section if self.mnemonic else _INSTRUCTIONS


def is_unjudged(opcode: str) -> bool:
    """Whether an opcode is of an instruction of the PTX ISA of which the rows here say nothing."""
    name, *qualifiers = opcode.split(".")
    if name == "mma":
        return any(map(_UNJUDGED_QUALIFIERS.fullmatch, qualifiers))
    return name in _UNJUDGED


def resolve(opcode: str) -> Resolution:
    """Resolve an opcode, such as "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"."""
    form = form_spelt(opcode)
    if form is not None:
        return Resolution(form.mnemonic, form, (form,), ".aligned" in opcode, ())
    mnemonic = mnemonic_of(opcode)
    if mnemonic is None:
        text = f"{opcode[:80]!r} is none of {', '.join(INSTRUCTIONS)} with qualifiers"
        fault = Reason(text, _INSTRUCTIONS, Rule.INSTRUCTION)
        return Resolution(None, None, (), False, (fault,))
    texts = opcode[len(mnemonic) :].split(".")[1:]
    row, words = INSTRUCTIONS[mnemonic], vocabulary(mnemonic)
    slots: dict[str, list[str]] = defaultdict(list)
    for text in texts:
        if text in words:
            slots[words[text]].append(text)
    faults = tuple(Reason(text, row.section, rule) for text, rule in _faults(row, texts, slots))
    if faults:
        return Resolution(mnemonic, None, (), "aligned" in slots, faults)
    key = _key(row, slots)
    form = _forms(mnemonic).get(key)
    if form is not None:
        return Resolution(mnemonic, None, (form,), "aligned" in slots, (order_of(form),))
    nearest, text = _nearest(mnemonic, key)
    fault = Reason(text, row.section, Rule.COMBINATION)
    return Resolution(mnemonic, None, nearest, "aligned" in slots, (fault,))


def _faults(
    row: Instruction, texts: list[str], slots: dict[str, list[str]]
) -> Iterator[tuple[str, Rule]]:
    """Say which qualifiers there are not, too many or too few, `slots` being those of each kind."""
    known = {text for given in slots.values() for text in given}
    for text in dict.fromkeys(texts):
        if text not in known:
            shown = f".{text}" if text else "an empty qualifier"
            yield f"{shown} is not a qualifier of {row.mnemonic}", Rule.UNKNOWN_QUALIFIER
    for kind, given in [*slots.items()]:
        if len(given) > row.most[kind]:
            text = f"{_dotted(given)}: {row.mnemonic} takes at most {row.most[kind]} of this kind"
            yield text, Rule.REPEATED_QUALIFIER
    for kind, least in row.required.items():
        if len(slots[kind]) < least and not (row.implicit_types and kind == "type"):
            yield f"a .{kind} qualifier is missing", Rule.MISSING_QUALIFIER
    if row.implicit_types and len(slots["type"]) not in (2, 4):
        text = f"{row.mnemonic} takes two types (.dtype.ctype, of .f16 multiplicands) or four"
        yield f"{text} (.dtype.atype.btype.ctype), not {len(slots['type'])}", Rule.COMBINATION


def order_of(form: Form) -> Reason:
    """Say in which order the page has the qualifiers of a form, where an opcode has another."""
    orders = dict.fromkeys(
        ".".join(("", *(slot.text for slot in slots if slot.text))) for slots in spellings(form)
    )
    text = "the qualifiers stand in another order than the page has them: " + " or ".join(orders)
    return Reason(text, form.section, Rule.ORDER)


@cache
def _forms(mnemonic: str) -> dict[Key, Form]:
    return {
        tuple(slot.text for slot in form.slots if slot.name != "aligned"): form
        for form in INSTRUCTIONS[mnemonic].forms
    }


def _key(row: Instruction, slots: dict[str, list[str]]) -> Key:
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


def _nearest(mnemonic: str, key: Key) -> tuple[tuple[Form, ...], str]:
    """Return the documented forms that differ in the fewest slots, and the difference in words."""
    names = [name for name in INSTRUCTIONS[mnemonic].slots if name != "aligned"]
    differing: dict[tuple[int, ...], list[Key]] = defaultdict(list)
    for other in _forms(mnemonic):
        differing[tuple(i for i, text in enumerate(other) if text != key[i])].append(other)
    least = min(map(len, differing))
    if least == len(names):
        return (), "no documented form is like this"
    found = {slots: differing[slots] for slots in sorted(differing) if len(slots) == least}
    words = []
    for slots, members in found.items():
        given = " ".join(f".{names[i]} {_dotted([key[i]])}" for i in slots)
        allowed = [*Counter(" ".join(_dotted([one[i]]) for i in slots) for one in members)]
        more = f" and {len(allowed) - 6} more" if len(allowed) > 6 else ""
        words.append(f"{given}, which may be {', '.join(allowed[:6])}{more} beside the others")
    text = "no documented form has these qualifiers together: " + "; or ".join(words)
    return tuple(_forms(mnemonic)[k] for members in found.values() for k in members), text


def _dotted(texts: list[str]) -> str:
    return " ".join(f".{text}" if text else "(none)" for text in texts)
