"""Per-thread loads and stores, asynchronous copies, barriers of a block, and what stops a program.

Source: PTX ISA 9.7.9.8 to .11 (ld, ldu, st), 9.7.9.13 to .17 (prefetch, discard), 9.7.9.20 to .22
(isspacep, cvta), 9.7.9.25 (cp.async), 9.7.13 (parallel synchronisation), 9.7.19 (miscellaneous).
Each warp keeps to its own image, and all of a launch's accesses happen in one order that everybody
sees: how caches are used, fences and hints change nothing.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from runners.simulated import floating
from runners.simulated.memory import WINDOWS, Owner, Space, constant_of
from runners.simulated.operands import SINK, OperandReader, Source
from runners.simulated.scalar import Qualifiers
from runners.simulated.syntax import TYPE_BITS, ImmediateText, Name
from runners.simulated.traps import TrapKind, refuse
from runners.simulated.warps import (
    DTYPES,
    LANES,
    Mask,
    Operation,
    Values,
    WarpState,
    constant,
    places,
    read_runs,
    spread,
    write_runs,
)

_SPACE = r"global|shared(?:::(?:cta|cluster))?|local|const|param(?:::(?:entry|func))?"
_HOW = (
    r"\.(?:weak|volatile|relaxed|acquire|release|acq_rel|mmio|cta|cluster|gpu|sys|unified"
    r"|nc|ca|cg|cs|lu|cv|wb|wt|level::\w+|L1::\w+|L2::\w+)"
)
_ORDER = rf"(?:{_HOW})*"
_TYPE = r"\.(?P<type>[bus](?:8|16|32|64)|b128|f16|bf16|f32|f64)"
_ACCESS = rf"{_ORDER}(?:\.(?P<space>{_SPACE}))?{_ORDER}(?:\.v(?P<count>[248]))?{_TYPE}"


def space_named(name: str | None) -> Space:
    """Return the state space of a qualifier, generic where there is none."""
    return Space.GENERIC if not name else Space(name.partition("::")[0])


def _elements(match: re.Match[str]) -> tuple[str, int]:
    """Return type and number of what a thread moves; 128 bits are two elements (5.2.1)."""
    kind, count = match["type"], int(match["count"] or 1)
    return ("b64", 2 * count) if kind == "b128" else (kind, count)


def _load(operands: OperandReader, match: re.Match[str]) -> Operation:
    kind, count = _elements(match)
    bits = TYPE_BITS[kind]
    width = bits // 8
    target, place = operands.expect(2, 3)[:2]
    targets = []
    for part in operands.parts(target, count):
        name = operands.destination(part, bits, wider=True)
        targets.append((name, DTYPES[bits if name == SINK else operands.width(part.text)]))
    space = operands.space(place, space_named(match["space"]))
    address = operands.address(place, space)

    def run(warps: WarpState, mask: Mask) -> None:
        starts = address(warps)
        if mask is not None and mask.shape[0] > starts.shape[0]:
            starts = spread(starts, (LANES, starts.shape[1]))
        read = read_runs(warps, space, starts, count, width, mask, alignment=width * count)
        for i, (name, dtype) in enumerate(targets):
            value = read[:, i]
            if value.dtype != dtype:
                # A narrow value is extended by its type's sign (PTX ISA 9.4.1).
                value = (value.view(f"i{width}") if kind[0] == "s" else value).astype(dtype)
            warps.write(name, value, mask)

    return run


def _store(operands: OperandReader, match: re.Match[str]) -> Operation:
    kind, count = _elements(match)
    bits = TYPE_BITS[kind]
    place, origin = operands.expect(2, 3)[:2]
    space = operands.space(place, space_named(match["space"]))
    # What lies in a thread's own memory may be a copy of what was never written.
    copied = space in (Space.LOCAL, Space.GENERIC)
    sources = [
        operands.source(part, bits, wider=True, copied=copied)
        for part in operands.parts(origin, count)
    ]
    address = operands.address(place, space)
    width, dtype = bits // 8, DTYPES[bits]

    def run(warps: WarpState, mask: Mask) -> None:
        starts, size = address(warps), warps.indices.size
        held = [source(warps) for source in sources]
        if count == 1 and held[0].dtype is dtype:
            values = held[0][:, None]
        else:
            values = np.empty((LANES, count, size), dtype)
            for i, value in enumerate(held):
                values[:, i] = value
        write_runs(warps, space, spread(starts, (LANES, size)), values, mask,
                   alignment=width * count)  # fmt: skip

    return run


def _generic_address(operands: OperandReader, match: re.Match[str]) -> Operation:
    """Convert between a window and generic addressing; global addresses are generic as they are."""
    target, given = operands.expect(2)
    window = WINDOWS[operands.space(given, space_named(match["space"]))]
    name, source = operands.destination(target, 64), operands.source(given, 64)
    shift = constant_of(-window if match["to"] else window)
    return lambda warps, mask: warps.write(name, source(warps) + shift, mask)


def _is_in_space(operands: OperandReader, match: re.Match[str]) -> Operation:
    target, given = operands.expect(2)
    name, source = operands.destination(target, 1), operands.source(given, 64)
    # Windows are 2^40 bytes apart, and global memory is above all of them.
    window = WINDOWS[space_named(match["space"])]
    lowest = np.uint64(window or max(WINDOWS.values()) + (1 << 40))
    beyond = np.uint64(1 << 40 if window else (1 << 64) - int(lowest))
    return lambda warps, mask: warps.write(name, source(warps) - lowest < beyond, mask)


_SUM = floating.adjusted(floating.add)
_SUMS_SINCE = {"bf16": 90, "bf16x2": 90}
"""Target that has the sum of a type (9.7.13.5, Target ISA Notes), where that is above sm_70."""
_ATOMIC: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda _, new: new,
    "cas": lambda old, wanted, new: np.where(old == wanted, new, old),
    "inc": lambda old, top: np.where(old >= top, 0, old + old.dtype.type(1)),
    "dec": lambda old, top: np.where((old == 0) | (old > top), top, old - old.dtype.type(1)),
}


def _atomic(operands: OperandReader, match: re.Match[str]) -> Operation:
    """Read, change and write, one thread after the other in the order of warps and lanes.

    Source: PTX ISA 9.7.13.5 (atom), 9.7.13.7 (red).
    """
    name, kind, returns = match["name"], match["type"], match["stem"] == "atom"
    bits, element = TYPE_BITS[kind], kind.removesuffix("x2")
    of_floats = element in floating.NAN
    if name is None or name not in (["add"] if of_floats else ["cas"] if bits == 16 else _ATOMIC):
        operands.unsupported("there is no such operation of this type")
    operands.need(_SUMS_SINCE.get(kind, 0))
    given = operands.expect(*((3, 4) if returns else (2, 3)))
    target, place, *values = given if returns else (Name(SINK), *given)
    if len(values) != (2 if name == "cas" else 1):
        operands.unsupported(f"has {len(given)} operands")
    key = operands.destination(target, bits)
    space = operands.space(place, space_named(match["space"]))
    address = operands.address(place, space)
    sources = [operands.source(each, bits) for each in values]
    width = bits // 8
    seen = np.dtype(f"{'i' if kind.startswith('s') else 'u'}{width}")
    half = np.dtype(f"u{TYPE_BITS[element] // 8}")

    def added(q: Qualifiers, *words: Values) -> Any:
        """Add numbers, of halves each for itself."""
        return _SUM(q, *[word.view(half) for word in words]).astype(half).reshape(-1).view(seen)

    def run(warps: WarpState, mask: Mask) -> None:
        whole = (LANES, warps.indices.size)
        starts = np.broadcast_to(address(warps), whole)
        held = np.zeros(whole, seen)
        # Transposed: by warps first.
        operand = [np.broadcast_to(source(warps), whole).T.view(seen) for source in sources]
        who = None if mask is None else warps.all_of(mask)
        for found in places(warps, space, starts, width, who, True, width):
            chosen = warps.all_of(found.chosen).T
            words = found.segment.view(width).view(seen)
            change = _ATOMIC[name]
            if of_floats:
                # In global memory subnormals of f32 are zeros, on what there is (9.7.13.5).
                flushes = kind == "f32" and found.segment.owner is Owner.LAUNCH
                q = Qualifiers(element=element, ftz="ftz" * (flushes and not warps.otherwise))
                change = partial(added, q)
            given = [each[chosen] for each in operand]
            before = np.empty(int(chosen.sum()), seen)
            for turn, at in enumerate(np.broadcast_to(found.offsets, whole).T[chosen] // width):
                before[turn] = words[at]
                now = [each[turn : turn + 1] for each in given]
                words[at] = change(words[at : at + 1], *now)[0]
            held.T[chosen] = before
        warps.write(key, held.view(DTYPES[bits]), mask)

    return run


_SIZES = {"ca": (4, 8, 16), "cg": (16,)}
"""Bytes of one copy (9.7.9.25.3.1)."""


def _copy(operands: OperandReader, match: re.Match[str]) -> Operation:
    """Copy up to 16 bytes for each thread, and fill up with zeros what it does not read (cp.async).

    A copy is made when it is asked for: of the moments between that and the wait for it, which the
    ISA leaves open, the first. Waiting has nothing left to do.
    """
    hints = 1 if match["hint"] else 0
    target, origin, given, *rest = operands.expect(3 + hints, 4 + hints)
    if not isinstance(given, ImmediateText) or given.value not in _SIZES[match["cache"]]:
        operands.unsupported(f"copies {' or '.join(map(str, _SIZES[match['cache']]))} bytes")
    size = given.value
    to = operands.address(target, Space.SHARED)
    source = operands.address(origin, Space.GLOBAL)
    read = operands.source(rest[0], 32) if len(rest) > hints else None

    def run(warps: WarpState, mask: Mask) -> None:
        whole = (LANES, warps.indices.size)
        starts, stops = (np.broadcast_to(each(warps), whole) for each in (source, to))
        for address in (starts, stops):
            warps.check_alignment(address, size, mask)
        if read is None:
            values = read_runs(warps, Space.GLOBAL, starts, size, 1, mask)
        else:
            wanted = np.broadcast_to(read(warps), whole)
            values = np.zeros((LANES, size, warps.indices.size), np.uint8)
            for byte in range(size):
                chosen = (wanted > byte) & warps.all_of(mask)
                if chosen.any():
                    part = read_runs(warps, Space.GLOBAL, starts + np.uint64(byte), 1, 1, chosen)
                    values[:, byte] = np.where(chosen, part[:, 0], np.uint8(0))
        write_runs(warps, Space.SHARED, stops, values, mask)

    return run


_BARRIER = re.compile(
    r"bar(?P<er>rier)?(?:\.cta)?\.(?:(?:sync|(?P<arrives>arrive))(?(er)(?:\.aligned)?)"
    r"|red\.(?:(?P<count>popc)|(?P<op>and|or))(?(er)(?:\.aligned)?)\.(?(count)u32|pred))"
)
_JOINED: dict[str, Callable[[Values], Values]] = {
    "popc": lambda held: np.atleast_2d(held.sum(dtype=np.uint32)),
    "and": lambda held: np.atleast_2d(held.all()),
    "or": lambda held: np.atleast_2d(held.any()),
}
"""What the predicates of a block's threads are joined to."""


@dataclass(frozen=True, kw_only=True)
class WarpBarrier:
    """A barrier for all threads of a block (9.7.13.1): its number, and for how many it says it is.

    It may join a predicate over the threads, in the way of a name, and write that to a register.
    """

    number: Source
    count: Source | None
    held: Source | None
    name: str
    target: str
    arrives: bool  # those who come there go on at once

    def pass_through(self, warps: WarpState, mask: Mask) -> None:
        """Let the threads of a mask, all of some blocks, go on."""
        through = warps.all_of(mask)
        if self.count is not None:
            wrong = through & (self.count(warps) != warps.threads)
            if wrong.any():
                said = "a barrier for another number of threads than the "
                said += f"{warps.threads} of the block"
                refuse(TrapKind.UNSUPPORTED, 0, said, warps.names(wrong))
        if self.held is None:
            return
        held = np.broadcast_to(self.held(warps), through.shape)
        for block in np.unique(warps.blocks):
            those = through & (warps.blocks == block)
            if those.any():
                warps.write(self.target, _JOINED[self.name](held[those]), those)


def barrier(operands: OperandReader) -> WarpBarrier | None:
    """Return the barrier that an instruction is; None if it is none."""
    match = _BARRIER.fullmatch(operands.instruction.opcode)
    if match is None:
        return None
    name, arrives = match["count"] or match["op"] or "", match["arrives"] is not None
    given = list(operands.expect(*((3, 4) if name else (2,) if arrives else (1, 2))))
    target, held = SINK, None
    if name:
        target = operands.destination(given.pop(0), 32 if match["count"] else 1)
        held = operands.source(given.pop(), 1)
    number, *counts = (operands.source(each, 32) for each in given)
    count = counts[0] if counts else None
    return WarpBarrier(
        number=number, count=count, held=held, name=name, target=target, arrives=arrives
    )


def _nothing(operands: OperandReader, match: re.Match[str]) -> Operation:
    if match[0].startswith("cp.async"):
        operands.expect(int(match[0].endswith("wait_group")))
    return lambda _warps, _mask: None


def _policy(operands: OperandReader, _match: re.Match[str]) -> Operation:
    """Make a cache policy: opaque bits (9.7.9.18), that nothing but hints takes."""
    name = operands.destination(operands.expect(1, 2, 4)[0], 64)
    return lambda warps, mask: warps.write(name, constant(warps.otherwise, 64), mask)


def _stop(operands: OperandReader, match: re.Match[str]) -> Operation:
    operands.expect(0)
    return stopping(f"the program executes {match[0]}")


def stopping(why: str) -> Operation:
    """Return what ends a launch with an error."""

    def run(warps: WarpState, mask: Mask) -> None:
        if mask is None or mask.any():
            refuse(TrapKind.STOPPED, 0, why, warps.names(mask))

    return run


def leaving_open(offsets: Sequence[int]) -> Operation:
    """Return what puts words into local memory that nobody can tell."""

    def run(warps: WarpState, mask: Mask) -> None:
        whole = (LANES, warps.indices.size)
        values = np.full((LANES, 1, whole[1]), warps.otherwise, np.uint32)
        for offset in offsets:
            write_runs(warps, Space.LOCAL, np.full(whole, offset, np.uint64), values, mask)

    return run


FORMS = tuple(
    (re.compile(pattern), decoder)
    for decoder, pattern in (
        (_load, rf"ldu?{_ACCESS}"),
        (_store, rf"st{_ACCESS}"),
        (_generic_address, rf"cvta(?P<to>\.to)?\.(?P<space>{_SPACE})\.u64"),
        (_is_in_space, rf"isspacep\.(?P<space>{_SPACE})"),
        (_atomic, rf"(?P<stem>atom|red)(?:{_HOW}|\.(?P<space>global|shared(?:::(?:cta|cluster))?)"
         r"|\.noftz|\.(?P<name>add|min|max|and|or|xor|exch|cas|inc|dec))*"
         r"\.(?P<type>[bus](?:16|32|64)|b?f16(?:x2)?|f32|f64)"),
        (_copy, r"cp\.async\.(?P<cache>ca|cg)\.shared(?:::cta)?\.global"
         r"(?P<hint>\.L2::cache_hint)?(?:\.L2::(?:64|128|256)B)?"),
        (_nothing, r"cp\.async\.(?:commit_group|wait_all|wait_group)"
         r"|(?:membar|fence)(?:(?:\.|::)\w+)*|(?:prefetchu?|discard|applypriority)(?:(?:\.|::)\w+)+"
         r"|nanosleep\.u32|pmevent(?:\.mask)?|griddepcontrol\.\w+"
         r"|setmaxnreg\.(?:inc|dec)\.sync\.aligned\.u32"),
        (_policy, r"createpolicy\.(?:range|fractional|cvt)(?:(?:\.|::)\w+)*\.b64"),
        (_stop, r"trap|brkpt"),
    )
)  # fmt: skip
"""Every form that is known, as the pattern of its opcode and what decodes it."""
