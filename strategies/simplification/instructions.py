"""Making one instruction plainer, part by part, and the module in which it stands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cache, partial

from oracle.instructions import INSTRUCTIONS
from oracle.targets import TARGETS, VERSIONS, Module, Target
from strategies.drafts import Draft, as_operands, described, vector

# What a slot holds when nobody asks for more: what every form has, the first layout of each matrix
# on the page, and nothing where a qualifier is optional.
_PLAIN = {
    "sync": "sync", "aligned": "aligned", "layout": "row", "alayout": "row",
    "blayout": "col", "space": "", "rnd": "",
    "satfinite": "", "op": "", "popc": "", "trans": "", "num": "x1",
}  # fmt: skip

_FIRST = 70
"""Compute capability, times ten, of the first target with matrix instructions (9.7.14.4.1)."""


def parts(draft: Draft) -> tuple[str, ...]:
    """Name the parts of an instruction that could be plainer than they are.

    Token soup has no slots; its parts are its words and operands.
    """
    operands = [f"operand {i}" for i in range(len(draft.operands))]
    if _is_soup(draft):
        return (*(f"word {i}" for i in range(len(draft.qualifiers))), *operands)
    names = [name for name, change in _CHANGES.items() if change(draft) != draft]
    plain = [_plain(draft, i) for i in range(len(draft.operands))]
    changed = zip(operands, plain, draft.operands, strict=True)
    return (*names, *(name for name, simple, operand in changed if simple != operand))


def simplified(draft: Draft, plain: frozenset[str]) -> Draft:
    """Return the draft with the named parts (of `parts`) made as plain as they can be."""
    if _is_soup(draft):
        words = (pair for i, pair in enumerate(draft.qualifiers) if f"word {i}" not in plain)
        kept = (one for i, one in enumerate(draft.operands) if f"operand {i}" not in plain)
        return replace(draft, qualifiers=tuple(words), operands=tuple(kept))
    for name, change in _CHANGES.items():
        if name in plain:
            draft = change(draft)
    simple = [
        _plain(draft, i) if f"operand {i}" in plain else operand
        for i, operand in enumerate(draft.operands)
    ]
    return replace(draft, operands=tuple(filter(None, simple)))


def _is_soup(draft: Draft) -> bool:
    """Tell whether a draft has no slots: token soup, also when no word of it is left."""
    return not draft.qualifiers or any(not slot for slot, _ in draft.qualifiers)


def _with_slot(slot: str, text: str, draft: Draft) -> Draft:
    if not text and slot in INSTRUCTIONS[draft.mnemonic].required:
        # It holds what every form has, as ".trans".
        return draft
    return draft.with_qualifiers({slot: text})


def _with_types(slots: tuple[str, str], plain: str, draft: Draft) -> Draft:
    if draft.mnemonic != "wmma.mma":
        return draft
    return draft.with_qualifiers(dict.fromkeys(slots, plain))


def _with_table_registers(draft: Draft) -> Draft:
    """Return the draft with the vectors that the page's tables give its shape and types."""
    vectors = described(draft)
    if "d" in INSTRUCTIONS[draft.mnemonic].operands:
        needed = len(INSTRUCTIONS[draft.mnemonic].operands)
        if len(vectors) < 4 or len(draft.operands) != needed:
            return draft
        return replace(draft, operands=(*as_operands(vectors), *draft.operands[4:]))
    written = [i for i, operand in enumerate(draft.operands) if operand.startswith("{")]
    if len(vectors) != 1 or len(written) != 1:
        return draft
    (one,) = vectors.values()
    operands = list(draft.operands)
    operands[written[0]] = vector(max(1, one.registers), one.register_type)
    return replace(draft, operands=tuple(operands))


def _ordered(draft: Draft) -> Draft:
    """Return the draft with its qualifiers in the order of the page's syntax, doubled ones once."""
    first = dict(reversed(draft.qualifiers))
    slots = INSTRUCTIONS[draft.mnemonic].slots
    return replace(draft, qualifiers=tuple((slot, first[slot]) for slot in slots if slot in first))


_CHANGES: Mapping[str, Callable[[Draft], Draft]] = {
    **{slot: partial(_with_slot, slot, text) for slot, text in _PLAIN.items()},
    # The first types of the page's syntax: those of .f16 multiplicands, which are not written.
    "multiplicands": partial(_with_types, ("atype", "btype"), ""),
    "accumulators": partial(_with_types, ("dtype", "ctype"), "f16"),
    "predicate": lambda draft: replace(draft, predicate=""),
    "order": _ordered,
    "registers": _with_table_registers,
}
"""What makes each part plain, in this order; operands come last."""


def _plain(draft: Draft, position: int) -> str:
    """Return an operand in its plainest form; "" where it can be left out (a stride)."""
    operand = draft.operands[position]
    if operand.startswith("["):
        return "[%addr]"
    kind = dict(enumerate(INSTRUCTIONS[draft.mnemonic].operands)).get(position, "stride")
    if kind == "selector":
        return "0"
    return "" if kind == "stride" and not operand.startswith("{") else operand


def plainest(draft: Draft, shows: Callable[[Draft], bool]) -> Draft:
    """Return the plainest instruction that still shows what one does.

    All parts are made plain, halves of them, and in the end single ones, until none can be.

    Parameters
    ----------
    draft
        The instruction as it was found.
    shows
        Whether an instruction does the same.

    Raises
    ------
    TimeoutError
        From `shows`, which may end it.
    """
    asked, names = cache(shows), parts(draft)
    plain, size = frozenset[str](), len(names)
    while size:
        before = plain
        for start in range(0, len(names), size):
            more = plain.union(names[start : start + size])
            if more != plain and asked(simplified(draft, more)):
                plain = more
        if size > 1 or plain == before:
            size //= 2
    return simplified(draft, plain)


def plainest_module(
    shows: Callable[[Module], bool], module: Module, *, targets: Collection[str] = tuple(TARGETS)
) -> Module:
    """Return the module with the plainest target, and for it the lowest version, that shows it.

    A finding in `.version 9.5` for `sm_121f` can be asked of one assembler; most are not about
    that. Targets without a suffix are plainer than those with one, and older ones than newer ones.

    Parameters
    ----------
    shows
        Whether the finding is there in a module: the assembler does the same, and the ISA says the
        same of it. Asked some 40 times at most.
    module
        One in which it is there.
    targets
        Those that the assembler knows.
    """
    rows = sorted((TARGETS[name] for name in targets if name in TARGETS), key=_plainness)
    for target in rows:
        if target.number < _FIRST or _plainness(target) >= _plainness(module.target):
            continue
        version = max(module.version, target.since)
        found = Module(target, version)
        if target.known_to(version) and shows(found):
            module = found
            break
    target = module.target
    for version in VERSIONS:
        if target.known_to(version) and version < module.version:
            older = Module(target, version)
            if shows(older):
                return older
    return module


def _plainness(target: Target) -> tuple[bool, int, str]:
    return target.is_specific, target.number, target.suffix
