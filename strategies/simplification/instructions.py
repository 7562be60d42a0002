"""Making one instruction plainer, part by part, and the module in which it stands."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cache

from oracle.isa.lookup import INSTRUCTIONS
from oracle.isa.targets import TARGETS, Module, Target, versions_of
from strategies.instructions import Draft, as_operands, described, vector

_PLAIN = {
    "sync": "sync", "aligned": "aligned", "layout": "row", "alayout": "row",
    "blayout": "col", "space": "", "rnd": "",
    "satfinite": "", "op": "", "popc": "", "trans": "", "num": "x1",
}  # fmt: skip
"""What a slot holds when nobody asks for more, of layouts the first of each matrix on the page."""
_TYPES = {
    "multiplicands": {"atype": "", "btype": ""},
    "accumulators": {"dtype": "f16", "ctype": "f16"},
}
"""The first types of wmma.mma's syntax: those of .f16 multiplicands, which are not written."""
_PARTS = (*_PLAIN, *_TYPES, "predicate", "order", "registers")
"""What can be plain, in this order; operands come last."""

_FIRST = 70  # Number of the first target with matrix instructions (9.7.14.4.1)


def parts(draft: Draft) -> tuple[str, ...]:
    """Name the parts of an instruction that could be plainer; of token soup, words and operands."""
    operands = [f"operand {i}" for i in range(len(draft.operands))]
    if _is_soup(draft):
        return (*(f"word {i}" for i in range(len(draft.qualifiers))), *operands)
    names = [name for name in _PARTS if _with_plain(draft, name) != draft]
    plain = [_plain(draft, i) for i in range(len(draft.operands))]
    changed = zip(operands, plain, draft.operands, strict=True)
    return (*names, *(name for name, simple, operand in changed if simple != operand))


def simplified(draft: Draft, plain: frozenset[str]) -> Draft:
    """Return the draft with the named parts (of `parts`) made as plain as they can be."""
    if _is_soup(draft):
        words = (pair for i, pair in enumerate(draft.qualifiers) if f"word {i}" not in plain)
        kept = (one for i, one in enumerate(draft.operands) if f"operand {i}" not in plain)
        return replace(draft, qualifiers=tuple(words), operands=tuple(kept))
    for name in _PARTS:
        if name in plain:
            draft = _with_plain(draft, name)
    simple = [
        _plain(draft, i) if f"operand {i}" in plain else operand
        for i, operand in enumerate(draft.operands)
    ]
    return replace(draft, operands=tuple(filter(None, simple)))


def _is_soup(draft: Draft) -> bool:
    return not draft.qualifiers or any(not slot for slot, _ in draft.qualifiers)


def _with_plain(draft: Draft, name: str) -> Draft:
    row = INSTRUCTIONS[draft.mnemonic]
    if name in _PLAIN:
        # A required slot holds what every form has, as ".trans".
        kept = not _PLAIN[name] and name in row.required
        return draft if kept else draft.with_qualifiers({name: _PLAIN[name]})
    if name in _TYPES:
        return draft.with_qualifiers(_TYPES[name]) if draft.mnemonic == "wmma.mma" else draft
    if name == "predicate":
        return replace(draft, predicate="")
    if name == "order":  # that of the page's syntax, doubled qualifiers once
        first = dict(reversed(draft.qualifiers))
        ordered = tuple((slot, first[slot]) for slot in row.slots if slot in first)
        return replace(draft, qualifiers=ordered)
    # The vectors that the page's tables give the shape and the types.
    vectors = described(draft)
    if "d" in row.operands:
        if len(vectors) < 4 or len(draft.operands) != len(row.operands):
            return draft
        return replace(draft, operands=(*as_operands(vectors), *draft.operands[4:]))
    written = [i for i, operand in enumerate(draft.operands) if operand.startswith("{")]
    if len(vectors) != 1 or len(written) != 1:
        return draft
    (one,) = vectors.values()
    operands = list(draft.operands)
    operands[written[0]] = vector(max(1, one.registers), one.register_type)
    return replace(draft, operands=tuple(operands))


def _plain(draft: Draft, position: int) -> str:
    """Return an operand in its plainest form; "" where it can be left out (a stride)."""
    operand = draft.operands[position]
    if operand.startswith("["):
        return "[%addr]"
    kinds = INSTRUCTIONS[draft.mnemonic].form(dict(draft.qualifiers)).operands
    kind = dict(enumerate(kinds)).get(position, "stride")
    if kind in ("selector", "ids_a", "ids_b"):
        return "0" if kind == "selector" else "{0, 0}"
    return "" if kind == "stride" and not operand.startswith("{") else operand


def plainest(draft: Draft, shows: Callable[[Draft], bool]) -> Draft:
    """Return the plainest instruction that still shows what one does; what `shows` raises ends it.

    All parts are made plain, halves of them, and in the end single ones, until none can be.
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

    Targets without a suffix are plainer than those with one, and older ones than newer ones.
    `shows` tells whether the finding is there; it is asked some 40 times at most.
    """
    rows = sorted((TARGETS[name] for name in targets if name in TARGETS), key=_plainness)
    for target in rows:
        if target.number < _FIRST or _plainness(target) >= _plainness(module.target):
            continue
        plainer = Module(target, max(module.version, target.since))
        if plainer.exists and shows(plainer):
            module = plainer
            break
    older = (one for one in versions_of(module.target) if one < module.version)
    return next(filter(shows, (Module(module.target, one) for one in older)), module)


def _plainness(target: Target) -> tuple[bool, int, str]:
    return target.suffix != "", target.number, target.suffix
