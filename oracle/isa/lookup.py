"""Every documented form of the warp-level matrix instructions, and which forms a module may use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache, partial

from oracle.errors import UsageError
from oracle.isa.forms import LANES, Form, Slot, kind_of
from oracle.isa.tables import INSTRUCTIONS, IsaNote, describes
from oracle.isa.targets import Module

LOAD_FORMS = INSTRUCTIONS["wmma.load"].forms
STORE_FORMS = INSTRUCTIONS["wmma.store"].forms
MMA_FORMS = INSTRUCTIONS["wmma.mma"].forms
LDMATRIX_FORMS = INSTRUCTIONS["ldmatrix"].forms
MMA_SYNC_FORMS = INSTRUCTIONS["mma"].forms
SHAPES = {form.shape.name: form.shape for form in MMA_FORMS}
"""Shapes of wmma by name."""
FORMS: tuple[Form, ...] = tuple(form for row in INSTRUCTIONS.values() for form in row.forms)


def spellings(form: Form) -> tuple[tuple[Slot, ...], ...]:
    """Return the orders in which the pages write the qualifiers of a form, the syntax's first."""
    # Examples of the wmma page have shape, space and layout in this order; ptxas takes more.
    slots = form.slots
    if not form.opaque:
        return (slots,)
    layouts = tuple(slot for slot in slots if slot.name.endswith("layout"))
    leading = [slot for slot in slots if slot.name == "shape" or slot.name == "space"]
    at = slots.index(layouts[0])
    head, tail = (
        [slot for slot in some if slot not in layouts and slot not in leading]
        for some in (slots[:at], slots[at:])
    )
    return (slots, (*head, *leading, *layouts, *tail))


@cache
def forms_by_opcode() -> dict[str, Form]:
    """Map every documented spelling of every form, with and without `.aligned`, to the form."""
    table: dict[str, Form] = {}
    for form in FORMS:
        for slots in spellings(form):
            texts = [slot.text for slot in slots if slot.text]
            table[".".join((form.mnemonic, *texts))] = form
            texts.remove("aligned")
            table[".".join((form.mnemonic, *texts))] = form
    return table


_TOGETHER = {"dst_fmt": "type", "src_fmt": "type", "popc": "op"}
"""Slots whose qualifiers keep the order that they have among others."""
_Spelling = tuple[tuple[str, ...], ...]
"""What stands in slots of each kind, in its order; the kinds in alphabetical order."""


def _spelling(mnemonic: str, pairs: Iterable[tuple[str, str]]) -> tuple[str, _Spelling]:
    kinds: dict[str, list[str]] = {}
    for kind, text in pairs:
        if text and kind != "aligned":
            kinds.setdefault(_TOGETHER.get(kind, kind), []).append(text)
    return mnemonic, tuple((kind, *texts) for kind, texts in sorted(kinds.items()))


@cache
def _forms_by_spelling() -> dict[tuple[str, _Spelling], Form]:
    return {
        _spelling(form.mnemonic, ((kind_of(slot), text) for slot, text in form.slots)): form
        for form in FORMS
    }


@cache
def vocabulary(mnemonic: str) -> dict[str, str]:
    """Map every qualifier of an instruction to the kind of slot in which it stands."""
    return {
        slot.text: kind_of(slot.name)
        for form in INSTRUCTIONS[mnemonic].forms
        for slot in form.slots
        if slot.text
    }


def mnemonic_of(opcode: str) -> str | None:
    """Return the instruction of which an opcode is; None if it is another than those here."""
    fitting = (m for m in INSTRUCTIONS if opcode == m or opcode.startswith(m + "."))
    return max(fitting, key=len, default=None)


@lru_cache(maxsize=65536)
def form_spelt(opcode: str) -> Form | None:
    """Return the form that an opcode spells, its qualifiers in any order that ptxas takes.

    That is any in which types, formats and layouts keep theirs, `.popc` comes behind the operation,
    and the matrix of wmma.load and wmma.store first (ptxas 11.8 to 13.5, 2026-11-28).
    """
    if (form := forms_by_opcode().get(opcode)) is not None:
        return form
    mnemonic = mnemonic_of(opcode)
    if mnemonic is None:
        return None
    kinds, texts = vocabulary(mnemonic), opcode[len(mnemonic) + 1 :].split(".")
    aligned = texts.count("aligned")
    if aligned > 1 or any(text not in kinds for text in texts):
        return None
    if "matrix" in INSTRUCTIONS[mnemonic].slots and kinds[texts[0]] != "matrix":
        return None
    return _forms_by_spelling().get(_spelling(mnemonic, ((kinds[text], text) for text in texts)))


def form_of(opcode: str, mnemonic: str | None = None) -> Form:
    """Return the form that an opcode spells, of a mnemonic if one is given; else UsageError."""
    # Whoever hands over something else than text is told so in the same words.
    form = form_spelt(opcode.strip()) if isinstance(opcode, str) else None
    if form is None:
        raise UsageError(
            f"{opcode!r} is not a documented form of {', '.join(INSTRUCTIONS)}; "
            "`warpfuzz isa` lists them all and `warpfuzz explain 'INSTRUCTION'` says what is wrong "
            "with one"
        )
    if mnemonic is not None and form.mnemonic != mnemonic:
        raise another_needed(form, mnemonic)
    return form


def another_needed(form: Form, mnemonic: str) -> UsageError:
    """Return the error for a form of another instruction; it names the function that takes it."""
    name = INSTRUCTIONS[form.mnemonic].function
    taken = f"; `oracle.{name}` takes it" if name else ""
    return UsageError(
        f"{form.opcode!r} is a form of {form.mnemonic}; a form of {mnemonic} is needed{taken}"
    )


mma_form = partial(form_of, mnemonic="wmma.mma")
ldmatrix_form = partial(form_of, mnemonic="ldmatrix")
mma_sync_form = partial(form_of, mnemonic="mma")


def figures_of(form: Form) -> str:
    """Return the mnemonic under which a model has the figures of a form."""
    return INSTRUCTIONS[form.mnemonic].figures or form.mnemonic


METADATA = "9.7.14.6.1"
"""Section on metadata. `docs/oracle.md`, "Metadata", says where they lie."""
_ORDERED = (0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110)
"""Pairs of indices that rise (9.7.14.6.1); of e4m3 and e5m2 it names no others."""


@cache
def chunks_of(form: Form) -> tuple[int, ...]:
    """Return the values of 4 bits of metadata, two indices, that the ISA gives a meaning; or ()."""
    if not form.has_metadata:
        return ()
    if form.a_type.name == "tf32":
        return 0b0100, 0b1110  # of the halves of a word
    if form.mnemonic != "mma.sp" or (form.a_type.is_float and form.a_type.bits == 8):
        return _ORDERED
    return tuple(pair for pair in range(16) if pair >> 2 != pair & 3)


def unit_bits(form: Form) -> int:
    """Return the bits of a unit of stored A that has an index: an element, two, or half of one."""
    return 16 if form.a_type.bits >= 16 else 8


@cache
def metadata_lanes(form: Form) -> int:
    """Return how many lanes of each group of four hold metadata: 1, 2 or 4."""
    units = form.matrix("a").columns * form.a_type.bits // unit_bits(form)
    return form.shape.m * units * 2 // (LANES // 4 * 32)


def selectors_of(form: Form) -> Sequence[int]:
    """Return the selectors that the ISA defines for a form (it takes 0 to 3, 9.7.14.6.3); or ()."""
    return range(4 // metadata_lanes(form)) if form.has_metadata else ()


def index_bit(form: Form, selector: int, row: int, unit: int) -> int:
    """Return 32 times the lane of a unit's index, plus its lowest bit in the lane's register."""
    lane, half = row % 8 * 4 + metadata_lanes(form) * selector, row // 8
    if form.a_type.bits >= 16:
        return 32 * (lane + unit // 8) + 16 * half + 2 * (unit % 8)
    return 32 * (lane + half + 2 * (unit // 16)) + 2 * (unit % 16)


@cache
def notes_of(form: Form) -> tuple[IsaNote, ...]:
    """Return the notes that apply to a form, in the order of the page."""
    notes = INSTRUCTIONS[form.mnemonic].notes
    return tuple(note for note in notes if describes(note.where, form))


def refusals(form: Form, module: Module) -> tuple[tuple[str, str], ...]:
    """Return (text, section) of every note that a module does not satisfy."""
    found = (note.refusal(module) for note in notes_of(form))
    return tuple((text, form.section) for text in found if text is not None)


def is_available(form: Form, module: Module) -> bool:
    """Tell whether a form exists in modules of a PTX ISA version for a target."""
    return not refusals(form, module)


def deprecations(form: Form, module: Module) -> tuple[tuple[str, str], ...]:
    """Return (text, section) of every note that advises against the form in this version."""
    return tuple(
        (note.text, form.section)
        for note in notes_of(form)
        if note.deprecated is not None and module.version >= note.deprecated
    )


def needs_aligned(form: Form, module: Module) -> bool:
    """Tell whether `.aligned` has to be written."""
    since = INSTRUCTIONS[form.mnemonic].aligned_since
    return since is None or module.version >= since
