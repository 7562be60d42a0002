"""Making one instruction plainer, part by part, and the module in which it stands."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cache

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
    if _is_soup(draft):
        words = [f"word {i}" for i in range(len(draft.qualifiers))]
        return (*words, *(f"operand {i}" for i in range(len(draft.operands))))
    names = [
        slot
        for slot, plain in _PLAIN.items()
        if (draft.qualifier(slot) not in ("", plain) and not _has_to_be_there(draft, slot, plain))
        or (plain and not draft.qualifier(slot) and slot in INSTRUCTIONS[draft.mnemonic].slots)
    ]
    names += [name for name in _TYPES if _with_plain_types(draft, name) != draft]
    if draft.predicate:
        names.append("predicate")
    if _with_table_registers(draft) != draft:
        names.append("registers")
    if _ordered(draft) != draft.qualifiers:
        names.append("order")
    names += [
        f"operand {i}" for i, operand in enumerate(draft.operands) if _plain(draft, i) != operand
    ]
    return tuple(names)


def simplified(draft: Draft, plain: frozenset[str]) -> Draft:
    """Return the draft with the named parts (of `parts`) made as plain as they can be."""
    if _is_soup(draft):
        return replace(
            draft,
            qualifiers=tuple(
                pair for i, pair in enumerate(draft.qualifiers) if f"word {i}" not in plain
            ),
            operands=tuple(
                operand for i, operand in enumerate(draft.operands) if f"operand {i}" not in plain
            ),
        )
    result = draft
    for slot, text in _PLAIN.items():
        if slot in plain:
            result = result.with_qualifiers({slot: text})
    for name in _TYPES:
        if name in plain:
            result = _with_plain_types(result, name)
    if "predicate" in plain:
        result = replace(result, predicate="")
    if "order" in plain:
        result = replace(result, qualifiers=_ordered(result))
    if "registers" in plain:
        result = _with_table_registers(result)
    operands = [
        _plain(result, i) if f"operand {i}" in plain else operand
        for i, operand in enumerate(result.operands)
    ]
    return replace(result, operands=tuple(operand for operand in operands if operand))


def _is_soup(draft: Draft) -> bool:
    """Tell whether a draft has no slots: token soup, also when no word of it is left."""
    return not draft.qualifiers or any(not slot for slot, _ in draft.qualifiers)


# The first types of the page's syntax: those of .f16 multiplicands, which are not written.
_TYPES = {"multiplicands": ("atype", "btype", ""), "accumulators": ("dtype", "ctype", "f16")}


def _has_to_be_there(draft: Draft, slot: str, plain: str) -> bool:
    """Tell whether a slot that is plain when empty holds what every form has, as ".trans"."""
    return not plain and slot in INSTRUCTIONS[draft.mnemonic].required


def _with_plain_types(draft: Draft, name: str) -> Draft:
    if draft.mnemonic != "wmma.mma":
        return draft
    first, second, plain = _TYPES[name]
    return draft.with_qualifiers({first: plain, second: plain})


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


def _ordered(draft: Draft) -> tuple[tuple[str, str], ...]:
    """Return the qualifiers in the order of the page's syntax, doubled ones once."""
    first = dict(reversed(draft.qualifiers))
    return tuple(
        (slot, first[slot]) for slot in INSTRUCTIONS[draft.mnemonic].slots if slot in first
    )


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
