"""Strategies for single instructions: legal, near-legal, and token soup; rounds of a campaign.

Near-legal ones come as neighbourhoods, because a draw costs more than an instruction: a form and a
few axes along which to leave it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import islice
from math import prod
from typing import TypeVar

from hypothesis import strategies as st

from oracle.isa.forms import FORMATS, LANES, Form, Matrix, Vector, kind_of
from oracle.isa.lookup import (
    FORMS,
    IMMEDIATES,
    INSTRUCTIONS,
    SHAPES,
    is_available,
    kinds_written,
    ptx_operands,
    selectors_of,
    spellings,
    warpgroup_forms,
    with_registers,
)
from oracle.isa.targets import Module, PtxVersion, Target
from strategies.draws import derived_seed, draw, draw_several, shuffled


@dataclass(frozen=True, kw_only=True)
class Draft:
    """One instruction, legal or not: qualifiers in slots, operands beside them.

    Register names tell their declared type: `%r0` is .b32, `%f0` .f32, `%d0` .f64, `%h0` .b16,
    `%p0` .pred, `%addr` a 64-bit address, `%stride` .b32; `tile` is a variable in shared memory.
    """

    mnemonic: str
    qualifiers: tuple[tuple[str, str], ...]  # (slot, text) as written; "" is left out
    operands: tuple[str, ...]
    predicate: str = ""

    @cached_property
    def opcode(self) -> str:
        """Mnemonic and qualifiers."""
        return ".".join((self.mnemonic, *(text for _, text in self.qualifiers if text)))

    @cached_property
    def text(self) -> str:
        """The whole instruction, with its semicolon."""
        guard = f"@{self.predicate} " if self.predicate else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)}".rstrip() + ";"

    def qualifier(self, slot: str) -> str:
        """Return what stands in a slot, "" if nothing."""
        return next((text for name, text in self.qualifiers if name == slot), "")

    def with_qualifiers(self, texts: Mapping[str, str]) -> Draft:
        """Return the draft with other texts in every slot that is named."""
        changed = tuple((name, texts.get(name, old)) for name, old in self.qualifiers)
        return replace(self, qualifiers=changed)


_ALLOWED = {"b32": "r", "s32": "r", "f32": "fr", "f64": "d"}
"""Prefixes of registers that fit a fragment, its own first: .b32 holds any 32-bit type."""
_FIRST_REGISTERS = {"d": 0, "c": 0, "a": 16, "b": 32, "e": 48, "sa": 49, "sb": 50}
"""Number of the first register of an operand; D has those of C: few names serve every shape."""


@lru_cache(maxsize=1024)
def vector(registers: int, register_type: str, first: int = 0) -> str:
    """Return a brace-enclosed vector of consecutive registers."""
    prefix = _ALLOWED[register_type][0]
    return "{" + ", ".join(f"%{prefix}{first + i}" for i in range(registers)) + "}"


def canonical(
    form: Form, *, address: str = "[%addr]", stride: str = "", selector: int = 0
) -> Draft:
    """Return the plainest instruction of a form: lowest registers, default stride."""
    if form.warps > 1:
        return Draft(
            mnemonic=form.mnemonic, qualifiers=form.slots,
            operands=of_warpgroup(form, {"selector": f"{selector}"}),
        )  # fmt: skip
    texts = {"p": address, "stride": stride, "to": "%r0", "from": "%r1"}
    for kind, rows in form.vectors.items():
        texts[kind] = vector(rows.registers, rows.register_type, _FIRST_REGISTERS.get(kind, 0))
    if form.is_product and not form.opaque:
        operands = tuple(ptx_operands(form, [texts[kind] for kind in form.vectors], selector))
    else:
        operands = tuple(texts[kind] for kind in form.operands if texts[kind])
    return Draft(mnemonic=form.mnemonic, qualifiers=form.slots, operands=operands)


_IN_A_WARPGROUP = {
    "a-desc": "%addr", "b-desc": "%addr", "e": "%r132", "selector": "0", "scale-d": "%p0",
    "groups": "0", **{kind: f"{plain}" for kind, (plain, _) in IMMEDIATES.items()},
}  # fmt: skip
"""Operands of a warpgroup's instructions that are no vectors."""


def of_warpgroup(
    form: Form, texts: Mapping[str, str] | None = None, *, registers: bool = False,
    counts: Mapping[str, int] | None = None,
) -> tuple[str, ...]:  # fmt: skip
    """Return the operands of a form of a warpgroup, documented or not.

    `texts`: Of kinds that are not to be plain. `registers`: Whether A is in registers, behind those
    of the largest D. `counts`: Registers of the vectors d and a, if not those of the form.
    """
    written = {**_IN_A_WARPGROUP, **(texts or {})}
    for kind in form.vectors.keys() - {"e"}:
        one = form.vectors[kind]
        count = (counts or {}).get(kind, max(1, one.registers))
        written[kind] = vector(count, one.register_type, 128 if kind == "a" else 0)
    kinds = with_registers(form.operands) if registers else form.operands
    return tuple(written[kind] for kind in kinds)


def as_operands(
    vectors: Mapping[str, Matrix | Vector], counts: Mapping[str, int] | None = None
) -> tuple[str, ...]:
    """Return the vectors d, a, b, c of a product, each with registers of its own where it can."""
    # `counts` overrides the number of registers of an operand.
    operands = []
    for name in "dabc":
        registers = (counts or {}).get(name, max(1, vectors[name].registers))
        operands.append(vector(registers, vectors[name].register_type, _FIRST_REGISTERS[name]))
    return tuple(operands)


_TYPE_SLOTS = ("dtype", "atype", "btype", "ctype")
_SHAPE = re.compile(r"m\d{1,3}n\d{1,3}k\d{1,3}")


def described(draft: Draft) -> dict[str, Matrix | Vector]:
    """Return the vectors that a draft's qualifiers describe, documented together or not, by matrix.

    Fragments of wmma are left out whose shape or type is not one of its page.
    """
    row = INSTRUCTIONS.get(draft.mnemonic)
    if row is None:
        return {}
    written = dict(reversed(draft.qualifiers))  # of a slot that is there twice, the first
    texts = {slot: written.get(slot, "") for slot in row.slots}
    if row.implicit_types:
        texts["atype"] = texts["atype"] or "f16"  # implicit (9.7.14.4.5)
        texts["btype"] = texts["btype"] or texts["atype"]
    types = {name[0]: texts[name] for name in texts if name in _TYPE_SLOTS}
    if not row.opaque:
        known = _SHAPE.fullmatch(texts.get("shape", "")) and FORMATS.keys() >= set(types.values())
        return row.form(texts).vectors if known and types else {}
    shape = SHAPES.get(texts["shape"])
    if "matrix" in texts:
        types = {texts["matrix"]: texts["type"]}
    return {
        operand: Matrix(operand=operand, shape=shape, type=FORMATS[type_])
        for operand, type_ in types.items()
        if shape is not None and type_ in FORMATS and operand in ("a", "b", "c", "d")
    }


def dealt_once(matrix: Matrix) -> int:
    """Return the registers of a fragment that holds each element exactly once (at least one)."""
    bits = matrix.rows * matrix.columns * matrix.type.bits
    return max(1, bits // (LANES * matrix.register_bits))


def fits_declarations(draft: Draft, form: Form) -> bool:
    """Tell whether the operands of a legal instruction are declared as the instruction needs.

    The oracle sees no declarations; an assembler may refuse `%h0` (.b16) where 32 bits are loaded.
    """

    def fits(kind: str, operand: str) -> bool:
        match kind:
            case "p":
                pointer = operand.strip("[] ").split("+")[0].strip()
                return pointer == "%addr" or (pointer == "tile" and form.space[:6] == "shared")
            case "to" | "from":
                return operand[:2] == "%r"
            case "e" | "sa" | "sb":
                return operand.strip("{")[:2] in ("%r", "%f")
            case "ids_a" | "ids_b":  # of 16 bits (9.7.14.5.14)
                ids = (one.strip() for one in operand.strip("{}").split(","))
                return all(one[:1].isdigit() or one[:2] == "%h" for one in ids)
            case "a-desc" | "b-desc":
                return operand == "%addr"
            case "scale-d":
                return operand in ("0", "1", "%p0", "!%p0")
            case "selector" | "groups":
                return True
            case _ if kind in IMMEDIATES:
                return True
            case "stride":
                number = not operand[0].isalpha() and operand[0] not in "%_$"
                return operand == "%stride" or number
        allowed = _ALLOWED[form.vectors[kind].register_type]
        items = [item.strip() for item in operand.strip("{}").split(",")]
        return all(item[:1] == "%" and item[1:2] in allowed for item in items)

    kinds = kinds_written(form.operands, draft.operands)
    operands = zip(kinds, draft.operands, strict=False)
    return draft.predicate in ("", "%p0", "!%p0") and all(fits(*pair) for pair in operands)


# What other instructions of the PTX ISA have in such a place (mma 9.7.14.5, ld 9.7.9.8,
# cvt 9.7.9.21, atom 9.7.13): the qualifiers that a compiler's tables may let through by mistake.
_FOREIGN: dict[str, tuple[str, ...]] = {
    "matrix": ("d",),
    "layout": ("trans",),
    "shape": (
        "m8n8k16", "m8n8k64", "m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", "m16n8k64",
        "m16n8k128", "m16n8k256", "m64n8k16", "m8n8", "m16n16", "m8n16", "m16n8",
    ),
    "space": ("local", "const", "param", "shared::cluster", "generic"),
    "type": (
        "b8", "b16", "b32", "b64", "s16", "u16", "u32", "s64", "u64", "f16x2", "bf16x2", "e4m3",
        "e5m2", "b4", "b8x16", "b6x16_p32", "b4x16_p64", "pred",
    ),
    "rnd": ("rna", "rs", "rni", "ftz"),
    "satfinite": ("sat", "relu", "satfinite.relu"),
    "op": ("or", "add", "mul", "min", "cas"),
    "popc": ("popcll", "clz"),
    "dst_fmt": ("b6x16_p32", "b16x16", "b8"),
    "src_fmt": ("b8x16", "b4x16", "b6x16", "b6p2x16", "s8"),
    "num": ("x3", "x8", "x16"),
    "sync": ("async", "cta", "nosync"),
    "aligned": ("unaligned", "weak"),
    "trans": ("notrans",),
    # tcgen05.mma, 9.7.16.10.9
    "kind": ("kind::f16", "kind::tf32", "kind::i8"),
    "scale_vec": ("scale_vec::8X", "block16", "block32"),
    "stype": ("ue5m3",),
}  # fmt: skip


@cache
def documented(kind: str, warps: int = 1) -> tuple[str, ...]:
    """Return every qualifier of a kind that stands in some documented form, in page order.

    `warps`: That of the forms: of one warp, or of a warpgroup.
    """
    forms = FORMS if warps == 1 else warpgroup_forms()
    slots = (slot for form in forms for slot in form.slots if slot.text)
    return tuple(dict.fromkeys(slot.text for slot in slots if kind_of(slot.name) == kind))


@cache
def foreign(kind: str) -> tuple[str, ...]:
    """Return qualifiers of a kind that only other instructions have."""
    return tuple(text for text in _FOREIGN.get(kind, ()) if text not in documented(kind))


@cache
def tokens() -> tuple[str, ...]:
    """Return every word that token soup is made of."""
    kinds = dict.fromkeys(kind for row in INSTRUCTIONS.values() for kind in row.most)
    words = [word for kind in kinds for word in (*documented(kind), *foreign(kind))]
    heads = [part for mnemonic in INSTRUCTIONS for part in mnemonic.split(".")]
    return tuple(dict.fromkeys((*heads, *words, "", "::", "v4", "x", "0")))


GENERATOR_VERSION = 10  # Goes up when a seed would draw other instructions; CHANGELOG.md says why

_LEGAL_FORMS = 40  # Forms of a round whose legal instructions are asked: 6 on average
_LEGAL, _NEAR, _DAMAGED, _SOUP = 300, 7200, 60, 40
"""Most instructions of each sort: those of neighbourhoods cost a tenth of what is drawn singly."""
_NEIGHBOURHOODS = 48  # Neighbourhoods of a round: they list 160 instructions on average
ROUND_CASES = _LEGAL + _NEAR + _DAMAGED + _SOUP  # Most instructions of a round
ADDRESSES: tuple[str, ...] = ("[%addr]", "[%addr+64]", "[tile]", "[tile+128]")
"""Addresses that every instruction takes; multiples of 64 bytes keep any fragment aligned."""
_NEIGHBOURHOOD_LIMIT = 800  # Most instructions of one: a round of 4,000 visits several
T = TypeVar("T")


def legal_drafts(form: Form) -> tuple[Draft, ...]:
    """List the legal instructions of a form: other addresses, strides and orders one at a time."""
    plain = canonical(form)
    drafts = [plain, *(replace(plain, qualifiers=slots) for slots in spellings(form)[1:])]
    if "p" in form.operands:
        # The variable lies in shared memory, where global and generic addresses do not point.
        addresses = ADDRESSES[1:2] if form.space in ("", "global") else ADDRESSES[1:]
        drafts += [canonical(form, address=address) for address in addresses]
    if "stride" in form.operands:
        matrix = form.matrix()
        default = matrix.default_stride(form.layout)
        # The smallest multiple of the fragment that is no smaller than the default.
        step = max(1, 8 * matrix.fragment_bytes // matrix.type.bits)
        padded = -(-default // step) * step
        strides = ("%stride", str(default), str(2 * padded), hex(5 * padded))
        drafts += [canonical(form, stride=stride) for stride in strides]
    step = 9 if form.is_scaled else 1  # of 8 to 128 combinations of what selects scales
    drafts += [canonical(form, selector=selector) for selector in selectors_of(form)[1::step]]
    if form.is_scaled:
        operands = [("{%h0, %h1}" if one == "{0, 0}" else one) for one in plain.operands]
        drafts.append(replace(plain, operands=tuple(operands)))
    if form.warps > 1:
        others: dict[str, tuple[str, ...]] = {"scale-d": ("0", "1", "!%p0"), "groups": ("1", "7")}
        others |= {kind: (f"{other}",) for kind, (_, other) in IMMEDIATES.items()}
        drafts += [
            replace(plain, operands=of_warpgroup(form, {kind: text}))
            for kind in form.operands
            for text in others.get(kind, ())
        ]
    if "a-desc" in form.operands:
        drafts.append(replace(plain, operands=of_warpgroup(form, registers=True)))
    return tuple(drafts)


def _one_of(draw: st.DrawFn, items: Sequence[T]) -> T:
    """Draw an item by its index: `sampled_from` hashes every item whenever it is made."""
    return items[draw(st.integers(0, len(items) - 1))]


@dataclass(frozen=True, kw_only=True)
class Neighbourhood:
    """A legal instruction and the directions in which to leave it."""

    origin: Draft
    axes: tuple[tuple[str, ...], ...]  # Each has slots that change together, to the same text
    foreign: bool  # Whether qualifiers of other instructions are tried as well
    registers: str | int
    """Registers of the vectors: "table" (by the page's rule for the new shape and type), "once"
    (each element dealt out once), "origin" (as the form had them), or a number for all."""
    start: int = 0  # Where to begin in a neighbourhood that is too large to be listed whole

    def drafts(self) -> Iterator[Draft]:
        """List the instructions of the neighbourhood; of too many, some spread over all."""
        warps = INSTRUCTIONS[self.origin.mnemonic].warps
        choices = [
            ("", *documented(kind, warps), *(foreign(kind) if self.foreign else ()))
            for kind in (kind_of(axis[0]) for axis in self.axes)
        ]
        total = prod(map(len, choices))
        step = max(1, total // _NEIGHBOURHOOD_LIMIT)
        for index in range(self.start % step, total, step):
            changed: dict[str, str] = {}
            rest = index
            for axis, texts in zip(self.axes, choices, strict=True):
                rest, at = divmod(rest, len(texts))
                changed |= dict.fromkeys(axis, texts[at])
            yield self._with_registers(self.origin.with_qualifiers(changed))

    def _with_registers(self, draft: Draft) -> Draft:
        def count(one: Matrix | Vector) -> int:
            if isinstance(self.registers, int):
                return self.registers
            if self.registers == "once" and isinstance(one, Matrix):
                return dealt_once(one)
            return max(1, one.registers)

        if self.registers == "origin":
            return draft
        row = INSTRUCTIONS[draft.mnemonic]
        if row.warps > 1:
            counts = {name: count(one) for name, one in described(draft).items()}
            of_a = any(operand.startswith("{") for operand in draft.operands[1:])
            if not counts:
                return draft
            form = row.form(dict(draft.qualifiers))
            return replace(draft, operands=of_warpgroup(form, registers=of_a, counts=counts))
        vectors, by_hand = described(draft), isinstance(self.registers, int)
        if len(vectors) >= 4 and not (by_hand and not INSTRUCTIONS[draft.mnemonic].opaque):
            counts = {name: count(one) for name, one in vectors.items()}
            operands = (*as_operands(vectors, counts), *draft.operands[4:])
            return replace(draft, operands=operands)
        if len(vectors) == 1:
            (one,) = vectors.values()
            registers = vector(count(one), one.register_type)
        elif isinstance(self.registers, int):
            registers = vector(self.registers, "b32")
        else:
            return draft
        operands = tuple(registers if o.startswith("{") else o for o in draft.operands)
        return replace(draft, operands=operands)


_REGISTERS: tuple[str | int, ...] = ("table", "once", "origin", 1, 2, 4, 8)
_TOGETHER = (("atype", "btype"), ("dtype", "ctype"), ("alayout", "blayout"))
"""Slots of products that documented forms often change together."""


def _axes(mnemonic: str) -> tuple[tuple[str, ...], ...]:
    always, slots = ("sync", "aligned"), INSTRUCTIONS[mnemonic].slots
    singles = ((slot,) for slot in (*(slot for slot in slots if slot not in always), *always))
    return (*singles, *(some for some in _TOGETHER if some[0] in slots))


def neighbourhoods(forms: Sequence[Form]) -> st.SearchStrategy[Neighbourhood]:
    """Draw a documented form and one to three axes along which to leave it."""
    # The block of its page is drawn before the form: the 20 forms of double precision are left as
    # often as the 96 with .f16 multiplicands.
    blocks: dict[str, dict[str, list[Form]]] = {}
    for form in forms:
        blocks.setdefault(form.mnemonic, {}).setdefault(form.page_family, []).append(form)
    return _neighbourhoods({name: list(some.values()) for name, some in blocks.items()})


@st.composite
def _neighbourhoods(
    draw: st.DrawFn, blocks: Mapping[str, Sequence[Sequence[Form]]]
) -> Neighbourhood:
    mnemonic = _one_of(draw, list(blocks))
    form = _one_of(draw, _one_of(draw, blocks[mnemonic]))
    fertile = draw(st.booleans())
    axes: list[tuple[str, ...]] = []
    if fertile:
        some = draw(st.sampled_from(INSTRUCTIONS[mnemonic].fertile))
        axes = [tuple(slots.split()) for slots in some]
    else:
        every = st.sampled_from(_axes(mnemonic))
        for axis in draw(st.lists(every, min_size=1, max_size=3, unique=True)):
            if not any(slot in before for before in axes for slot in axis):
                axes.append(axis)
    return Neighbourhood(
        origin=canonical(form),
        axes=tuple(axes),
        foreign=not fertile and draw(st.booleans()),
        registers="table" if fertile else _one_of(draw, _REGISTERS),
        start=draw(st.integers(0, _NEIGHBOURHOOD_LIMIT - 1)),
    )


@st.composite
def damaged_drafts(draw: st.DrawFn, forms: Sequence[Form]) -> Draft:
    """Draw a legal instruction and damage its order, number of qualifiers, or operands."""
    draft = _one_of(draw, legal_drafts(_one_of(draw, forms)))
    return _one_of(draw, _DAMAGES)(draw, draft)


def _double(draw: st.DrawFn, draft: Draft) -> Draft:
    pair = draw(st.sampled_from([pair for pair in draft.qualifiers if pair[1]]))
    at = draw(st.integers(0, len(draft.qualifiers)))
    return replace(draft, qualifiers=(*draft.qualifiers[:at], pair, *draft.qualifiers[at:]))


def _with_operand(draft: Draft, at: int, *texts: str) -> Draft:
    return replace(draft, operands=(*draft.operands[:at], *texts, *draft.operands[at + 1 :]))


def _change_vector(draw: st.DrawFn, draft: Draft) -> Draft:
    vectors = [i for i, operand in enumerate(draft.operands) if operand.startswith("{")]
    if not vectors:
        return _swap_operands(draw, draft)
    at = draw(st.sampled_from(vectors))
    items = draft.operands[at].strip("{}").split(", ")
    change = draw(st.sampled_from(("longer", "shorter", "element", "bare", "double")))
    if change == "longer":
        items = [*items, *items][: len(items) + draw(st.integers(1, len(items)))]
    elif change == "shorter":
        items = items[: draw(st.integers(0, len(items) - 1))]
    elif change == "double":
        items = [items[0]] * len(items)
    elif change == "element":
        position = draw(st.integers(0, len(items) - 1))
        items[position] = draw(
            st.sampled_from(("_", "7", "1.0", "%h0", "%d0", "%f0", "%r0", "%p0", "%tid.x", "tile"))
        )
    return _with_operand(draft, at, items[0] if change == "bare" else "{" + ", ".join(items) + "}")


_WILD_STRIDES = (
    "0", "1", "7", "8", "-8", "0x7fffffff", "0x80000000", "0xffffffff", "0x100000000", "1.0",
    "0f3F800000", "%addr", "%f0", "{%stride}", "[%stride]", "tile", "16, 16",
)  # fmt: skip
_WILD_ADDRESSES = (
    "[%addr+-32]", "[%addr-32]", "[%addr+%stride]", "[%addr+2]", "[tile+1]", "[0]", "[64]",
    "[%stride]", "[%f0]", "[]", "%addr", "{%addr}", "[%addr", "[undeclared]", "[%addr+0x100000000]",
)  # fmt: skip


def _wild_address(draw: st.DrawFn, draft: Draft) -> Draft:
    addresses = [i for i, operand in enumerate(draft.operands) if operand.startswith("[")]
    if not addresses:
        return _swap_operands(draw, draft)
    return _with_operand(draft, addresses[0], _one_of(draw, _WILD_ADDRESSES))


def _swap_operands(draw: st.DrawFn, draft: Draft) -> Draft:
    return replace(draft, operands=tuple(draw(st.permutations(draft.operands))))


_EXTRA = st.sampled_from(("%r0", "16", "{%r0}", "[%addr]", "%stride"))
_PREDICATES = st.sampled_from(("%p0", "!%p0", "%r0", "p", "!!%p0"))
_DAMAGES: tuple[Callable[[st.DrawFn, Draft], Draft], ...] = (
    lambda draw, x: replace(x, qualifiers=tuple(draw(st.permutations(x.qualifiers)))),
    _double,
    lambda draw, x: _with_operand(x, draw(st.integers(0, max(0, len(x.operands) - 1)))),
    lambda draw, x: replace(x, operands=(*x.operands, draw(_EXTRA))),
    _swap_operands,
    _change_vector,
    lambda draw, x: replace(x, operands=(*x.operands[:2], _one_of(draw, _WILD_STRIDES))),
    _wild_address,
    lambda draw, x: replace(x, predicate=draw(_PREDICATES)),
)


@st.composite
def token_soup(draw: st.DrawFn) -> Draft:
    """Draw words of the instructions' vocabulary in any order and number."""
    # Shrinks towards few words.
    indices = draw(st.lists(st.integers(0, len(tokens()) - 1), min_size=1, max_size=14))
    return Draft(
        mnemonic=_one_of(draw, (*INSTRUCTIONS, "wmma", "wmma.load.a")),
        qualifiers=tuple(("", tokens()[index]) for index in indices),
        operands=tuple(draw(_SOUP_OPERANDS)),
    )


_SOUP_OPERANDS = st.lists(
    st.sampled_from(
        ("{%r0}", "{%r0, %r1}", vector(4, "b32"), vector(8, "b32"), "{}", "[%addr]", "%stride",
         "16", "{%f0}", "{%d0, %d1}", "[tile]", "-1", "{{%r0}}", "{%r0", "_")
    ),
    max_size=5,
)  # fmt: skip


@lru_cache(maxsize=4)
def round_drafts(
    forms: Sequence[Form], target: Target, version: PtxVersion, *, seed: int, number: int
) -> tuple[Draft, ...]:
    """Draw the different instructions of a round of a campaign, in an order that mixes them.

    A pure function of seed and number, about 7,500: a few of the selected forms with all their
    legal spellings, every form once before any comes again, and for the rest what is near legal.
    (Legal instructions cost an assembler most, for it assembles them to the end.)
    """
    key = derived_seed(seed, GENERATOR_VERSION, number)
    available = [form for form in forms if is_available(form, Module(target, version))]
    order = cache(lambda turn: shuffled(available, derived_seed(seed, "forms", turn)))
    places = range(number * _LEGAL_FORMS, (number + 1) * _LEGAL_FORMS) if available else ()
    dealt = [order(place // len(available))[place % len(available)] for place in places]
    drafts = [draft for form in dict.fromkeys(dealt) for draft in legal_drafts(form)][:_LEGAL]
    near = draw(neighbourhoods(forms), _NEIGHBOURHOODS, derived_seed(key, "near"))
    drafts += islice((draft for area in near for draft in area.drafts()), _NEAR)
    drafts += draw_several(damaged_drafts(forms), _DAMAGED, derived_seed(key, "damaged"))
    drafts += draw_several(token_soup(), _SOUP, derived_seed(key, "soup"))
    different = {draft.text: draft for draft in drafts}.values()
    return tuple(shuffled(different, derived_seed(key, "order")))
