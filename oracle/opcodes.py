"""From the text of an opcode to the form that it spells, or to what is wrong with it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from oracle.forms import Form, kind_of
from oracle.instructions import INSTRUCTIONS
from oracle.isa import form_spelt, mnemonic_of, spellings, vocabulary
from oracle.reasons import Reason, Rule

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
"""Texts of all slots of a form in the order of the page's syntax, "" where one is left out."""


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
        fault = Reason(
            f"{opcode[:80]!r} is none of {', '.join(INSTRUCTIONS)} with qualifiers",
            _INSTRUCTIONS,
            Rule.INSTRUCTION,
        )
        return Resolution(None, None, (), False, (fault,))
    return _diagnose(mnemonic, opcode[len(mnemonic) :].split(".")[1:])


def _diagnose(mnemonic: str, texts: list[str]) -> Resolution:
    row = INSTRUCTIONS[mnemonic]
    words = vocabulary(mnemonic)
    faults: list[tuple[str, Rule]] = []
    for text in dict.fromkeys(texts):
        if text not in words:
            shown = f".{text}" if text else "an empty qualifier"
            faults.append((f"{shown} is not a qualifier of {mnemonic}", Rule.UNKNOWN_QUALIFIER))
    slots: dict[str, list[str]] = defaultdict(list)
    for text in texts:
        if text in words:
            slots[words[text]].append(text)
    aligned = "aligned" in slots
    for name, given in slots.items():
        most = row.most[name]
        if len(given) > most:
            listed = " ".join(f".{text}" for text in given)
            faults.append(
                (
                    f"{listed}: {mnemonic} takes at most {most} of the kind .{name}",
                    Rule.REPEATED_QUALIFIER,
                )
            )
    faults += [
        (f"a .{kind} qualifier is missing", Rule.MISSING_QUALIFIER)
        for kind, least in row.required.items()
        if len(slots[kind]) < least and not (row.implicit_types and kind == "type")
    ]
    if row.implicit_types and len(slots["type"]) not in (2, 4):
        faults.append(
            (
                f"{mnemonic} takes two types (.dtype.ctype, of .f16 multiplicands) or four "
                f"(.dtype.atype.btype.ctype), not {len(slots['type'])}",
                Rule.COMBINATION,
            )
        )
    if faults:
        reasons = tuple(Reason(text, row.section, rule) for text, rule in faults)
        return Resolution(mnemonic, None, (), aligned, reasons)
    key = _key(mnemonic, slots)
    form = _forms(mnemonic).get(key)
    if form is not None:
        return Resolution(mnemonic, None, (form,), aligned, (order_of(form),))
    nearest, fault = _nearest(mnemonic, key)
    reason = Reason(fault, row.section, Rule.COMBINATION)
    return Resolution(mnemonic, None, nearest, aligned, (reason,))


def order_of(form: Form) -> Reason:
    """Say in which order the page has the qualifiers of a form, where an opcode has another."""
    orders = dict.fromkeys(
        ".".join(("", *(slot.text for slot in slots if slot.text))) for slots in spellings(form)
    )
    text = "the qualifiers stand in another order than the page has them: " + " or ".join(orders)
    return Reason(text, form.section, Rule.ORDER)


def _form_key(form: Form) -> Key:
    return tuple(slot.text for slot in form.slots if slot.name != "aligned")


@cache
def _forms(mnemonic: str) -> dict[Key, Form]:
    return {_form_key(form): form for form in INSTRUCTIONS[mnemonic].forms}


@cache
def _slot_names(mnemonic: str) -> tuple[str, ...]:
    return tuple(name for name in INSTRUCTIONS[mnemonic].slots if name != "aligned")


def _key(mnemonic: str, slots: dict[str, list[str]]) -> Key:
    """Place the qualifiers, in their order, into the slots of the page's syntax."""
    waiting = {kind: list(texts) for kind, texts in slots.items()}
    implicit = INSTRUCTIONS[mnemonic].implicit_types and len(slots["type"]) == 2
    key = []
    for name in _slot_names(mnemonic):
        texts = waiting.get(kind_of(name), [])
        skipped = implicit and name in ("atype", "btype")
        key.append(texts.pop(0) if texts and not skipped else "")
    return tuple(key)


@cache
def _by_wildcard(mnemonic: str, slots: tuple[int, ...]) -> dict[Key, tuple[Key, ...]]:
    """Group the forms by what stands in all slots but the given ones."""
    groups: dict[Key, list[Key]] = defaultdict(list)
    for key in _forms(mnemonic):
        groups[_without(key, slots)].append(key)
    return {key: tuple(members) for key, members in groups.items()}


def _without(key: Key, slots: tuple[int, ...]) -> Key:
    return tuple(text for i, text in enumerate(key) if i not in slots)


def _nearest(mnemonic: str, key: Key) -> tuple[tuple[Form, ...], str]:
    """Return the documented forms that differ in the fewest slots, and the difference in words."""
    names = _slot_names(mnemonic)
    for count in range(1, len(names)):
        found: dict[tuple[int, ...], tuple[Key, ...]] = {}
        for slots in combinations(range(len(names)), count):
            members = _by_wildcard(mnemonic, slots).get(_without(key, slots))
            if members:
                found[slots] = members
        if found:
            return (
                tuple(_forms(mnemonic)[k] for members in found.values() for k in members),
                "no documented form has these qualifiers together: "
                + "; or ".join(
                    _difference(names, key, slots, members) for slots, members in found.items()
                ),
            )
    return (), "no documented form is like this"


def _difference(
    names: tuple[str, ...], key: Key, slots: tuple[int, ...], members: tuple[Key, ...]
) -> str:
    given = " ".join(f".{names[i]} {_shown(key[i])}" for i in slots)
    allowed = Counter(" ".join(_shown(member[i]) for i in slots) for member in members)
    listed = list(allowed)[:6]
    more = f" and {len(allowed) - len(listed)} more" if len(allowed) > len(listed) else ""
    return f"{given}, which may be {', '.join(listed)}{more} beside the others"


def _shown(text: str) -> str:
    return f".{text}" if text else "(none)"
