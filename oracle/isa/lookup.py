"""The warp-level matrix instructions, a row of `instructions.toml` each, and all of their forms."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from oracle.errors import UsageError
from oracle.isa.forms import LANES, WARPGROUP, Form, Matrix, Slot, kind_of
from oracle.isa.targets import Module, PtxVersion

FRAGMENTS, STORAGE = "9.7.14.4.1", "9.7.14.4.2"
"""Sections of PTX ISA 9.0 on the registers of fragments, and on matrices in memory."""


_RANGE = re.compile(r"\((\d+) to (\d+) by (\d+)\)")


@cache
def slots_of(text: str) -> dict[str, tuple[str, ...]]:
    """Read "shape: m8n8|m16n8; type: b16" as what may stand in slots, by name.

    "m64n(8 to 256 by 8)k16" are 32 texts.
    """
    parts = (part.partition(":") for part in text.split(";"))
    return {
        name.strip(): tuple(one for some in texts.split("|") for one in _listed(some.strip()))
        for name, _, texts in parts
    }


def _listed(text: str) -> Iterator[str]:
    match = _RANGE.search(text)
    if match is None:
        yield text
        return
    first, last, step = map(int, match.groups())
    for number in range(first, last + 1, step):
        yield text[: match.start()] + str(number) + text[match.end() :]


def describes(where: str, form: Form) -> bool:
    """Tell whether something applies to a form.

    `where`: What has to stand in slots, or in some slot of a kind, such as "shape: m8n8|m16n8;
    type: b16". Several of these, parted by "or": one has to be so. "" describes every form.
    """
    return _fits(where, form.slots)


def _fits(where: str, slots: tuple[Slot, ...]) -> bool:
    return not where or any(
        all(
            any(text in texts for slot, text in slots if name in (slot, kind_of(slot)))
            for name, texts in slots_of(some).items()
        )
        for some in where.split(" or ")
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class IsaNote:
    """One note of a page: what it says, and which versions and targets it asks for."""

    text: str
    """The page's own words."""
    where: str = ""
    """To which forms it applies (`describes`)."""
    since: PtxVersion | None = None
    """First PTX ISA version that has it."""
    until: PtxVersion | None = None
    """First PTX ISA version that has it no more."""
    deprecated: PtxVersion | None = None
    """First PTX ISA version that advises against it."""
    target: int | None = None
    specific: bool = False
    """Whether it asks for an architecture- or family-specific target of 9.7.14.5.15."""
    also: str = ""
    """A target that a note of these asks for besides."""
    suffix: str = ""
    """The suffix that its specific targets have to have, where not every one does."""
    only: str = ""
    """The one target that it asks for, where no other has what it is about."""


def _refusal(note: IsaNote, module: Module) -> str | None:
    """Say why the version or the target of a module does not satisfy a note, if so."""
    version, target = module.version, module.target
    if (note.since and version < note.since) or (note.until and version >= note.until):
        return f"{note.text} The PTX ISA version here is {version}."
    if note.target is not None and target.number < note.target:
        return f"{note.text} The target here is {target.name}."
    if note.only not in ("", target.name):
        return f"{note.text} The target here is {target.name}."
    specific = _has_specific_shapes(module) and note.suffix in ("", target.suffix)
    if note.specific and target.name != note.also and not specific:
        return f"{note.text} Here: {target.name} and PTX ISA version {version}."
    return None


def _has_specific_shapes(module: Module) -> bool:
    """Tell whether the target has the shapes, types and formats that ldmatrix got in 8.6.

    sm_100a, sm_101a and sm_120a; from 8.8 also their "f" targets and younger members of a family.
    """
    version, target = module.version, module.target
    if target.suffix == "" or target.family is None or not module.exists:
        return False
    oldest = target.number == target.family
    return (oldest and target.suffix == "a") or version >= PtxVersion(8, 8)


class Block(NamedTuple):
    """Forms under one heading of the page: every combination of what may stand in the slots."""

    heading: str
    slots: str
    """As in "shape: m8n8|m16n8; type: b16"; the last changes first. Several slots ("atype btype:
    f16") change together: to one text for all of them, or to one for each, parted by spaces."""

    def texts(self) -> Iterator[dict[str, str]]:
        """Iterate over what stands in the slots."""
        known = slots_of(self.slots)
        for chosen in product(*known.values()):
            found: dict[str, str] = {}
            for names, text in zip(known, chosen, strict=True):
                slots, texts = names.split(), text.split(" ")
                found |= zip(slots, texts * len(slots) if len(texts) == 1 else texts, strict=True)
            yield found


@dataclass(frozen=True, kw_only=True, eq=False)
class Instruction:
    """One instruction of the PTX ISA: all that its forms have in common, and which they are."""

    mnemonic: str
    alias: str = ""
    """As people call it, if not by its mnemonic: "mma.sync" for `mma`."""
    section: str
    lengths: str = ""
    """Section that says how many registers its vectors have, if another does."""
    operands: tuple[str, ...]
    """Kinds in the order of the syntax: "p" an address, "stride" optional, "to", "from", "e", "sa",
    "sb" a register, "selector" and "groups" constants, "ids_a" and "ids_b" two, and those of
    `IMMEDIATES`; "a-desc" and "b-desc" a register with a matrix descriptor, or "a" in place of the
    first (`with_registers`); "scale-d" a predicate or constant; every other is a vector of
    registers. The first is written."""
    limited: tuple[tuple[str, str], ...] = ()
    """Operands, by kind, that only some forms have, and which (`describes`)."""
    warps: int = 1
    """Warps that execute it together: one, or a warpgroup."""
    function: str = ""
    """Name of the function of the package `oracle` that computes it; "" if none does."""
    figures: str = ""
    """Mnemonic of the instruction whose figures a model has for it, if not its own."""
    opaque: bool = False
    """Whether it is left open which lane holds which element of its vectors."""
    syntax: str
    """Slots in the order of the page's syntax; one that may be left out ends in "?"."""
    aligned_since: PtxVersion | None = None
    """First PTX ISA version in which `.aligned` has to be written; None: it always has to be."""
    blocks: tuple[Block, ...]
    notes: tuple[IsaNote, ...]
    fertile: tuple[tuple[str, ...], ...]
    """Sets of slots whose combinations are tried: shapes and types, where a compiler's tables have
    most room for holes. Several slots in one text ("atype btype") get the same qualifier."""

    @property
    def name(self) -> str:
        """As people call it."""
        return self.alias or self.mnemonic

    @property
    def fragments(self) -> str:
        """Section that says how many registers its vectors have."""
        return self.lengths or self.section

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """Names of the slots in the order of the page's syntax."""
        return tuple(self.syntax.replace("?", "").split())

    @property
    def implicit_types(self) -> bool:
        """Whether the types of A and B may be left out, which are .f16 then."""
        return "atype?" in self.syntax

    @cached_property
    def most(self) -> dict[str, int]:
        """How many qualifiers of each kind there are at most."""
        return _counted(self.slots)

    @cached_property
    def required(self) -> dict[str, int]:
        """How many qualifiers of a kind every form has; `.aligned` was once left out."""
        found = _counted(name for name in self.syntax.split() if not name.endswith("?"))
        found.pop("aligned")
        return found

    def form(self, texts: Mapping[str, str], heading: str = "") -> Form:
        """Return the form with these texts in its slots, documented or not."""
        given = {"sync": "sync", "aligned": "aligned", **texts}
        slots = tuple(Slot(name, given.get(name, "")) for name in self.slots)
        absent = {kind for kind, where in self.limited if not _fits(where, slots)}
        return Form(
            mnemonic=self.mnemonic, section=self.section, opaque=self.opaque, slots=slots,
            operands=tuple(kind for kind in self.operands if kind not in absent),
            page_family=heading, warps=self.warps,
        )  # fmt: skip

    @cached_property
    def forms(self) -> tuple[Form, ...]:
        """Every documented form."""
        return tuple(
            self.form(texts, block.heading) for block in self.blocks for texts in block.texts()
        )

    def quotes_of(self, form: Form) -> tuple[tuple[str, str], ...]:
        """Return (section, text) of what the ISA says that a form does."""
        return tuple(
            (quote.get("section", self.section), quote["text"])
            for quote in sentences()["matrix"].get(self.mnemonic, ())
            if describes(quote.get("where", ""), form)
        )


def _counted(slots: Iterable[str]) -> dict[str, int]:
    return {**Counter(map(kind_of, slots))}


@cache
def sentences() -> dict[str, Any]:
    """Return `sentences.toml`; it is read when a page asks for the first of them."""
    return _read("sentences.toml")


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


def _typed(row: dict[str, Any]) -> dict[str, Any]:
    versions = {"since", "until", "deprecated", "aligned_since"}
    lists = {name: tuple(value) for name, value in row.items() if isinstance(value, list)}
    return row | lists | {name: PtxVersion(*row[name]) for name in versions & row.keys()}


def _instruction(row: dict[str, Any]) -> Instruction:
    nested: dict[str, Any] = {
        "blocks": tuple(Block(*block) for block in row["blocks"]),
        "notes": tuple(IsaNote(**_typed(note)) for note in row["notes"]),
        "fertile": tuple(map(tuple, row["fertile"])),
        "limited": tuple(map(tuple, row.get("limited", ()))),
    }
    return Instruction(**_typed(row) | nested)


_DATA = _read("instructions.toml")
OTHERS, DIRECTIVES = frozenset(_DATA["others"].split()), tuple(_DATA["directives"].split())
"""First words of the other instructions of the PTX ISA, and its directives."""
INSTRUCTIONS: dict[str, Instruction] = {
    row.mnemonic: row for row in map(_instruction, _DATA["instructions"])
}
"""Rows by mnemonic, in the order in which they are listed to a user."""


LOAD_FORMS = INSTRUCTIONS["wmma.load"].forms
STORE_FORMS = INSTRUCTIONS["wmma.store"].forms
MMA_FORMS = INSTRUCTIONS["wmma.mma"].forms
LDMATRIX_FORMS = INSTRUCTIONS["ldmatrix"].forms
MMA_SYNC_FORMS = tuple(form for form in INSTRUCTIONS["mma"].forms if not form.kind)
"""Of mma those without `.kind`."""
SHAPES = {form.shape.name: form.shape for form in MMA_FORMS}
"""Shapes of wmma by name."""
FORMS: tuple[Form, ...] = tuple(
    form for row in INSTRUCTIONS.values() for form in row.forms if row.warps == 1
)
"""Of one warp."""
NARROW_FORMS = tuple(form for form in FORMS if form.kind)
"""Multiplications with `.kind`: of narrow floats, and of blocks with scales."""
ACCESS_FORMS: Mapping[tuple[Matrix, str, str], Form] = {
    (form.matrix(), form.layout, form.space): form for form in reversed(FORMS) if form.is_access
}
"""By matrix, layout and state space the wmma.load, of a D the wmma.store; the first of several."""


@cache
def warpgroup_forms() -> tuple[Form, ...]:
    """Return the forms of a warpgroup; making them takes 30 ms (2026-11-29)."""
    rows = INSTRUCTIONS.values()
    return tuple(form for row in rows for form in row.forms if row.warps == WARPGROUP)


def with_registers(operands: tuple[str, ...]) -> tuple[str, ...]:
    """Return operands of a warpgroup's multiplication with A in registers, not in shared memory."""
    kinds = ("a" if kind == "a-desc" else kind for kind in operands)
    return tuple(kind for kind in kinds if kind != "imm-trans-a")


def kinds_written(kinds: tuple[str, ...], operands: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds of operands as they are written: A of a warpgroup may be a vector."""
    is_vector = "a-desc" in kinds and any(text.startswith("{") for text in operands[1:2])
    return with_registers(kinds) if is_vector else kinds


IMMEDIATES: Mapping[str, tuple[int, int]] = {
    "imm-scale-a": (1, -1), "imm-scale-b": (1, -1), "imm-trans-a": (0, 1), "imm-trans-b": (0, 1),
}  # fmt: skip
"""Constants that operands of a warpgroup's multiplication may be; the first changes nothing
(9.7.15.5.2)."""


def spellings(form: Form) -> tuple[tuple[Slot, ...], ...]:
    """Return the orders in which the pages write the qualifiers of a form, the syntax's first."""
    # Examples of the wmma page have shape, space and layout in this order; ptxas takes more.
    slots = form.slots
    if form.warps > 1 and form.is_product and form.satfinite:
        # Examples of 9.7.15.5.2 have it behind the types.
        last = next(slot for slot in slots if slot.name == "satfinite")
        return (slots, (*(slot for slot in slots if slot is not last), last))
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
    for form in (*FORMS, *warpgroup_forms()):
        for slots in spellings(form):
            texts = [slot.text for slot in slots if slot.text]
            table[".".join((form.mnemonic, *texts))] = form
            texts.remove("aligned")
            table[".".join((form.mnemonic, *texts))] = form
    return table


_TOGETHER = {"dst_fmt": "type", "src_fmt": "type", "stype": "type", "popc": "op"}
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
        for form in (*FORMS, *warpgroup_forms())
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


_ORDERED = (0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110)
"""Pairs of indices that rise (9.7.14.6.1); of e4m3 and e5m2 it names no others."""


@cache
def chunks_of(form: Form) -> tuple[int, ...]:
    """Return the values of 4 bits of metadata, two indices, that the ISA gives a meaning; or ()."""
    if not form.has_metadata:
        return ()
    if form.a_type.name == "tf32":
        return 0b0100, 0b1110  # of the halves of a word
    if form.mnemonic != "mma.sp" or (form.a_type.is_float and form.a_type.bits <= 8):
        return _ORDERED
    return tuple(pair for pair in range(16) if pair >> 2 != pair & 3)


def unit_bits(form: Form) -> int:
    """Return the bits of a unit of stored A that has an index: an element, two, or half of one."""
    return 16 if form.a_type.bits >= 16 else 8


@cache
def metadata_lanes(form: Form) -> int:
    """Return how many lanes of each group of four hold metadata: 1, 2 or 4."""
    units = form.matrix("a").columns * form.a_type.bits // unit_bits(form)
    return form.shape.m * units * 2 // (form.threads // 4 * 32)


BLOCK_SCALING = "9.7.14.3"
"""Section on scales and their selectors."""


class ScaleIds(NamedTuple):
    """Which byte of the scales' registers, and which lanes of each four, hold scales (9.7.14.3)."""

    byte_a: int
    thread_a: int
    byte_b: int
    thread_b: int


THREADS_A, THREADS_B = range(2), range(4)
"""Values of thread-id-a (of pairs of lanes) and thread-id-b (9.7.14.3, table 37)."""


def byte_ids(form: Form) -> Sequence[int]:
    """Return the values of byte-id-a and byte-id-b (9.7.14.3, table 37)."""
    return range(0, 4, form.scales)


def scale_ids(form: Form, selector: int) -> ScaleIds:
    """Return what a selector of `selectors_of` stands for, of a form with scales."""
    found = []
    for known in (THREADS_B, byte_ids(form), THREADS_A, byte_ids(form)):
        selector, at = divmod(selector, len(known))
        found.append(known[at])
    return ScaleIds(*found[::-1])


def selectors_of(form: Form) -> Sequence[int]:
    """Return numbers for what the ISA lets constants of a form choose; () where it has none.

    That is the sparsity selector (9.7.14.6.3), or the `scale_ids`; with scales the former is 0.
    """
    if form.is_scaled:
        return range(len(THREADS_A) * len(THREADS_B) * len(byte_ids(form)) ** 2)
    return range(4 // metadata_lanes(form)) if form.has_metadata else ()


def ptx_operands(
    form: Form, vectors: Sequence[str], selector: int | None, ids: Sequence[object] = ()
) -> list[str]:
    """Return the operands of a multiplication as PTX has them, of its vectors in order.

    `ids`: Four registers that hold the `scale_ids`, in their order, which else are constants.
    """
    texts = dict(zip(form.vectors, vectors, strict=True))
    texts |= {name: texts[name].strip("{}") for name in ("e", "sa", "sb") if name in texts}
    if form.is_scaled:
        byte_a, thread_a, byte_b, thread_b = ids or scale_ids(form, selector or 0)
        texts |= {"ids_a": f"{{{byte_a}, {thread_a}}}", "selector": "0"}
        texts |= {"ids_b": f"{{{byte_b}, {thread_b}}}"}
    elif selector is not None:
        texts["selector"] = f"{selector}"
    return [texts[kind] for kind in form.operands]


def index_bit(form: Form, selector: int, row: Any, unit: Any) -> Any:
    """Return 32 times the thread of a unit's index, plus its lowest bit in the thread's register.

    Of a row and a unit, or of arrays of them.

    Each warp of a warpgroup has the metadata of its 16 rows, as mma.sp has them (9.7.15.6.1).
    `selector`: A number of `selectors_of`; those of a form with scales choose no metadata.
    """
    lane, half = row % 8 * 4 + row // 16 * LANES, row // 8 % 2
    lane += 0 if form.is_scaled else metadata_lanes(form) * selector
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
    found = (_refusal(note, module) for note in notes_of(form))
    return tuple((text, form.section) for text in found if text is not None)


def is_available(form: Form, module: Module) -> bool:
    """Tell whether a form exists in modules of a PTX ISA version for a target."""
    return not refusals(form, module)


def needs_aligned(form: Form, module: Module) -> bool:
    """Tell whether `.aligned` has to be written."""
    since = INSTRUCTIONS[form.mnemonic].aligned_since
    return since is None or module.version >= since
