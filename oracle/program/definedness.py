"""What the ISA leaves undefined of a program, on every path through it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UndefinedProgramError
from oracle.isa.forms import replicated
from oracle.isa.lookup import FRAGMENTS, INSTRUCTIONS, STORAGE, chunks_of, selectors_of
from oracle.isa.targets import DEFAULT_TARGET, parse_target, split_compiler
from oracle.program import operands
from oracle.program.breaches import (
    ADDRESSES,
    CONSISTENCY,
    LAST_WITH_ALL_ADDRESSES,
    STATE_SPACES,
    VECTORS,
    Breach,
    BreachReason,
    Mixed,
    RegisterContent,
    met,
)
from oracle.program.lane_code import LaneCode
from oracle.program.operands import Held, Place
from oracle.program.operations import Elementwise, Scalar
from oracle.program.program import Program, position, space_of, writable
from oracle.program.steps import (
    AnyOp,
    Barrier,
    Branch,
    Copy,
    Loop,
    MatrixAccess,
    OneWarp,
    Op,
    PlainAccess,
    RowAccess,
    Step,
    Straight,
    accesses_matrix,
    accesses_rows,
)
from oracle.program.warpgroup import (
    BULK,
    BULK_BYTES,
    COPIES,
    MBARRIERS,
    ORDERING,
    AsyncProduct,
    Bytes,
    InFlight,
    WarpgroupSync,
    Wrong,
)


def undefined(program: Program, *, target: str = DEFAULT_TARGET) -> tuple[BreachReason, ...]:
    """Return every reason why a program is undefined on a target, forms that it lacks apart."""
    return _undefined(program, parse_target(split_compiler(target)[0]).number)


@lru_cache(maxsize=1024)
def _undefined(program: Program, number: int) -> tuple[BreachReason, ...]:
    marks: _Marks = {
        (space, what, None): np.full(size, what == _UNWRITTEN)
        for space, size in (("global", program.image_bytes), ("shared", program.shared_bytes))
        for what in (_READ, _WRITTEN, _UNWRITTEN)
    }
    flight = InFlight.of(program.shared_bytes, program.offset) if program.warps > 1 else None
    state = _State(program, number, [], "", {}, marks, flight)
    state = _check_steps(state, program.steps, "")
    for one, begun in () if state.flight is None else state.flight.phases.items():
        if begun is not False:
            text = f"nobody waits for the last copy at mbarrier {one}; put a wait behind it"
            _report(state, Breach.PHASE, MBARRIERS, text)
    return tuple(state.reasons)


def check_defined(program: Program, *, target: str = DEFAULT_TARGET) -> None:
    """Raise UndefinedProgramError, with every reason, if a program is undefined on a target."""
    if reasons := undefined(program, target=target):
        words = "; ".join(map(str, reasons))
        raise UndefinedProgramError(f"the ISA leaves this program undefined; {words}")


_READ, _WRITTEN, _UNWRITTEN = "read", "written", "not written"
"""What bytes are marked as: since the last barrier, and, on any path, never."""
_BEFORE = {_READ: "read before", _WRITTEN: "written before"}
"""What one warp alone did before its own last barrier, and since the last of all four."""
_Marks = dict[tuple[str, str, int | None], NDArray[np.bool_]]
"""Bytes by space, by what they are marked as, and by the warp that did it alone; None: by all."""


@dataclass(slots=True)
class _State:
    program: Program
    target: int
    reasons: list[BreachReason]
    at: str
    """The position of the step that is checked."""
    registers: dict[operands.Register, RegisterContent]
    marks: _Marks
    flight: InFlight | None
    """What a warpgroup has in flight; None of a warp."""
    warp: int | None = None
    """The warp that takes the steps alone."""


def _copy(state: _State) -> _State:
    marks = {key: mask.copy() for key, mask in state.marks.items()}
    flight = None if state.flight is None else state.flight.copy()
    return replace(state, registers={**state.registers}, marks=marks, flight=flight)


def _joined(one: _State, other: _State) -> _State:
    registers = {
        key: met(one.registers.get(key), other.registers.get(key))
        for key in one.registers | other.registers
    }
    marks = {**one.marks, **other.marks}
    marks |= {key: one.marks[key] | mask for key, mask in other.marks.items() if key in one.marks}
    flight = one.flight and other.flight and one.flight.joined(other.flight)
    return replace(one, registers=registers, marks=marks, flight=flight)


def _report(state: _State, cause: Breach, section: str, text: str) -> None:
    reason = BreachReason(cause=cause, text=text, section=section, step=state.at)
    if reason not in state.reasons:
        state.reasons.append(reason)


def _check_steps(state: _State, steps: Iterable[Step], prefix: str) -> _State:
    """Go through steps from a state, which may be changed; return the state after them."""
    for index, step in enumerate(steps):
        state.at = f"{prefix}{index}"
        state = _check_step(state, step)
    return state


def _check_step(state: _State, step: Step) -> _State:
    flight = state.flight
    if flight is not None and not isinstance(step, AsyncProduct):
        for use in step.uses:
            _report_all(state, flight.touch(use.registers))
    match step:
        case AsyncProduct() if flight is not None:
            _check_async(state, step, flight)
        case WarpgroupSync() if flight is not None:
            before = flight.copies
            if step.mbarrier is not None:
                _report_all(state, flight.end_phase(step.mbarrier))
            # What has ended may be overwritten by other threads behind a barrier alone (9.7.15.4).
            state.marks["shared", _READ, None][flight.synchronise(step)] = True
            for copy in before.keys() - flight.copies.keys():
                # Each thread has written, and read, what it copied by now (9.7.9.25.3.3); of a copy
                # in bulk each sees all, as does the async proxy (9.7.9.25.2, 9.7.13.15.16).
                (source,), (target,) = copy.bytes_read, copy.bytes_written
                own = copy.mbarrier is None
                for space, span, what in (("global", source, _READ), ("shared", target, _WRITTEN)):
                    start = state.program.offset(span.buffer) + span.start
                    state.marks[space, what, None][start : start + span.run] = own
                flight.unproxied[:, start : start + span.run] |= own
        case AsyncProduct() | WarpgroupSync():
            pass  # no program of one warp has them
        case Op():
            if step.form.has_metadata:
                _check_metadata(state, step, step.selector or 0)
            _check_uses(state, step, step.form.section)
            if accesses_matrix(step):
                _check_tile(state, step)
            elif accesses_rows(step):
                _check_rows(state, step)
        case Elementwise():
            _check_uses(state, step, FRAGMENTS)
        case PlainAccess():
            _check_uses(state, step, INSTRUCTIONS["ldmatrix"].section)
            what = f"a lane's {step.bits}-bit registers"
            if _is_aligned(state, step.place, step.bits // 8, what):
                _check_bytes(state, step.place, step.size, step.stores)
        case Scalar() | LaneCode():
            _check_uses(state, step, INSTRUCTIONS["mma"].section)
        case Copy():
            _check_copy(state, step)
        case Barrier():
            _check_barrier(state)
        case Branch():
            (least, most), at = _bounds(state, step.condition), state.at
            ends = []
            if most > 0:
                ends.append(_check_steps(_copy(state), step.then, f"{at}.then."))
            if least == 0:
                ends.append(_check_steps(_copy(state), step.otherwise, f"{at}.otherwise."))
            return _joined(ends[0], ends[-1])
        case Loop():
            (least, most), at = _bounds(state, step.count), state.at
            if step.counts:  # each turn does something else
                ends = [_turns(state, step, turns, at) for turns in range(least, most + 1)]
                return reduce(_joined, ends)
            for _ in range(min(most, 2)):
                after = _check_steps(_copy(state), step.body, f"{at}.body.")
                state = after if least > 0 else _joined(state, after)
        case OneWarp():
            prefix = f"{state.at}.body."
            after = _check_steps(replace(state, warp=step.warp), step.body, prefix)
            return replace(after, warp=None)
        case _:
            assert_never(step)
    return state


def _turns(state: _State, loop: Loop, turns: int, at: str) -> _State:
    """Go through so many turns of a loop; return the state after them."""
    state = _copy(state)
    for turn in range(turns):
        state = _check_steps(state, loop.turn(turn, turns), f"{at}.body.")
    return state


def _check_barrier(state: _State) -> None:
    """Order accesses before with those behind: of a warp alone those that it made itself."""
    for (space, what, warp), mask in [*state.marks.items()]:
        if what == _UNWRITTEN or state.warp not in (None, warp):
            continue
        if state.warp is not None and what in _BEFORE:
            before = _marked(state, space, _BEFORE[what])
            before |= mask
        if state.warp is None or what in _BEFORE:
            mask[...] = False
    if state.flight is not None and state.warp is None:
        state.flight.barrier()


def _marked(state: _State, space: str, what: str) -> NDArray[np.bool_]:
    """Return the marks of those who take the steps."""
    key = space, what, state.warp
    if key not in state.marks:
        state.marks[key] = np.zeros(state.marks[space, _UNWRITTEN, None].size, np.bool_)
    return state.marks[key]


def _report_all(state: _State, wrong: Iterable[Wrong]) -> None:
    for cause, text, section in wrong:
        _report(state, cause, section, text)


def _check_async(state: _State, step: AsyncProduct, flight: InFlight) -> None:
    """Check a multiplication of a warpgroup, which is in flight behind it."""
    if step.selector is not None:
        _check_metadata(state, step, step.selector)
    _check_uses(state, step, step.form.section)
    _bounds(state, step.scale_d)
    _report_all(state, flight.begin(step))
    for operand, tile in step.tiles.items():
        name, offsets = tile.place.buffer, step.bytes_of(operand)
        first, last = Place(buffer=name, offset=int(offsets[0])), int(offsets[-1])
        if _is_inside(state, first, last + 1 - first.offset, "the tile"):
            bytes_ = offsets + state.program.offset(name)
            _check_access(state, name, bytes_, False, proxied=True)
            _check_proxy(state, name, bytes_, flight, stores=False)


def _check_proxy(
    state: _State, name: str, bytes_: Bytes, flight: InFlight, *, stores: bool
) -> None:
    """Check that the async proxy sees what it reads, or that what it writes is no longer used."""
    if (late := flight.late(bytes_, stores=stores)).any():
        done = "accessed" if stores else "written"
        text = f"byte {_first(state, name, bytes_, late)} of {name} was {done} without the async "
        text += "proxy; put fence.proxy.async, then a barrier, between"
        _report(state, Breach.PROXY, ORDERING, text)


def _check_metadata(state: _State, step: AnyOp | AsyncProduct, selector: int) -> None:
    """Check the selector, and metadata that are one number in every lane."""
    form, known = step.form, selectors_of(step.form)
    of = f"of {form.mnemonic} {form.shape.name} with .{form.a_type.name}"
    if selector not in known:  # with scales a step has no other than those of the ISA
        text = f"the sparsity selector is {selector}; {of} it is {' or '.join(map(str, known))}"
        _report(state, Breach.SELECTOR, form.metadata_section, text)
    cell = state.registers.get(next(use.registers[0] for use in step.uses if use.field == "e"))
    if cell is None or cell.constant is None:
        return
    pairs = {cell.constant >> bit & 15 for bit in range(0, 32, 4)}
    if pairs - {*chunks_of(form)}:
        allowed = ", ".join(map(hex, chunks_of(form)))
        text = f"the metadata are {cell.constant:#010x}; {of} 4 bits are {allowed}"
        _report(state, Breach.METADATA, form.metadata_section, text)


def _bounds(state: _State, value: operands.Uniform) -> tuple[int, int]:
    """Check the reading of a uniform value; return the least and the most that it can be."""
    if isinstance(value, int):
        return value, value
    assert isinstance(value, operands.Word)  # a turn's is known in each
    if _is_aligned(state, value.place, 4, "a 32-bit word"):
        _check_bytes(state, value.place, 4, False)
    return 0, value.mask


def _check_uses(state: _State, step: Straight, section: str) -> None:
    """Check that the registers which a step reads hold what it needs; note what it writes."""
    made = step.writes
    for use in step.reads:
        needed, held = use.holds, _content(state, use)
        if isinstance(needed, operands.Fragment) and needed.any_layout:
            # A multiplicand's layout stays what it is; there is none to check it against.
            layout = held.layout if isinstance(held, operands.Fragment) else "row"
            needed = replace(needed, layout=layout)
            if made is not None and made.holds == use.holds:
                made = replace(made, holds=needed)
        _check_use(state, use.name, needed, held, section)
    if made is None:
        return
    registers = made.registers
    if len(set(registers)) != len(registers):
        twice = operands.text_of([next(one for one in registers if registers.count(one) > 1)])
        text = f"register {twice} stands more than once in the destination {made.name}; which "
        text += "result it holds is said nowhere, so give each a register of its own"
        _report(state, Breach.TWICE, VECTORS, text)
    if step.address is not None and made.holds.bits == 32:
        space = space_of(state.program, step)
        if not space.startswith("shared"):
            text = "the address stands in a register of 32 bits and the access is "
            text += f"{f'.{space}' if space else 'generic'}; only .shared has such addresses"
            _report(state, Breach.SHORT_ADDRESS, ADDRESSES, text)
    constant = step.sets
    if step.copies:
        cells = [state.registers.get(register) for register in step.reads[0].registers]
        found = {None if cell is None else cell.constant for cell in cells}
        constant = found.pop() if len(found) == 1 else None
    holds, apart = made.holds, False
    if state.flight is not None and isinstance(holds, operands.Registers):
        # A warpgroup's registers are no fragments, which have a meaning as a whole alone.
        holds, apart = replace(holds, registers=1), True
    for index, register in enumerate(registers):
        part = 0 if apart else index
        state.registers[register] = RegisterContent(state.at, holds, part, constant)


def _content(state: _State, use: operands.Use) -> Held | Mixed | None:
    """Return what the registers of an operand hold; None if one was never written."""
    cells = [state.registers.get(register) for register in use.registers]
    first, needed = cells[0], use.holds
    named = not operands.listed(use.name) and state.flight is None
    if named and first is not None and first.part == 0 and first.constant is None:
        held = first.holds
        if not isinstance(held, Mixed) and held.registers != needed.registers:
            return held
    known = [cell for cell in cells if cell is not None]
    if first is None or len(known) < len(cells):
        return None
    if isinstance(needed, operands.Fragment) and all(
        cell.constant is not None and cell.constant == first.constant for cell in known
    ):
        bits, number = needed.matrix.type.bits, first.constant or 0
        alike = number == replicated(number & ((1 << bits) - 1), bits, needed.bits)
        return needed if alike else Mixed.PIECES
    if any(cell.holds is Mixed.CONFLICTING for cell in known):
        return Mixed.CONFLICTING
    whole = all(
        cell.maker == first.maker and cell.part == index for index, cell in enumerate(known)
    )
    if isinstance(needed, operands.Fragment) or named:
        return first.holds if whole else Mixed.PIECES
    lanes = all(isinstance(cell.holds, operands.Registers) for cell in known)
    return needed if lanes else Mixed.PIECES


def _check_use(
    state: _State, name: str, needed: Held, held: Held | Mixed | None, section: str
) -> None:
    if held == needed:
        return
    text = f"{name} holds {held}; it must hold {needed}"
    if held is None:
        text = f"{name} is used before anything writes it; it must hold {needed}"
    elif isinstance(held, operands.Fragment) and isinstance(needed, operands.Fragment):
        kinds = {(one.matrix.operand, one.matrix.type.name) for one in (held, needed)}
        if kinds == {("c", "f16"), ("c", "f32")}:
            text += "; there is no conversion between .f16 and .f32 accumulators"
            section = FRAGMENTS
    _report(state, Breach.CONTENT, section, text)


def _check_tile(state: _State, step: MatrixAccess) -> None:
    form, matrix, place = step.form, step.form.matrix(), step.memory.place
    _check_space(state, form.space, place.buffer, form.section)
    least, size = matrix.default_stride(form.layout), matrix.fragment_bytes
    stride = least if step.memory.stride is None else step.memory.stride
    if stride < least:
        text = f"stride {stride} is below the default {least}; raise it"
        _report(state, Breach.STRIDE, INSTRUCTIONS["wmma.load"].section, text)
    elif not matrix.has_aligned_lines(form.layout, stride):
        apart = stride * matrix.type.bits
        text = f"stride {stride} puts lines {apart} bits apart, no multiple of the fragment's "
        _report(state, Breach.PITCH, STORAGE, f"{text}{size} bytes")
    elif _is_aligned(state, place, size, "the fragment", STORAGE) and _is_inside(
        state, place, step.tile.extent
    ):
        bytes_ = position(state.program, place) + step.tile.byte_offsets.ravel()
        _check_access(state, place.buffer, bytes_, step.stores)


def _check_rows(state: _State, step: RowAccess) -> None:
    form, own, size = step.form, state.program.buffer(step.memory.buffer), step.form.row_bytes
    _check_space(state, "shared", own.name, form.section)
    every = form.is_load and state.target <= LAST_WITH_ALL_ADDRESSES
    start, rows = state.program.offset(own.name), dict[int, int]()
    for lane, address in enumerate(step.memory.addresses[: None if every else form.addresses]):
        if (start + address) % size or not 0 <= address <= own.size - size:
            place, what = Place(buffer=own.name, offset=address), f"the row of lane {lane}"
            if _is_aligned(state, place, size, what, form.section):
                _is_inside(state, place, size, what)
        elif (first := rows.setdefault(address, lane)) != lane and step.stores:
            text = f"lanes {first} and {lane} name the same row; which is written last is open"
            _report(state, Breach.RACE, CONSISTENCY, f"{text}, so part them")
    if used := [address for address, lane in rows.items() if lane < form.addresses]:
        bytes_ = np.add.outer(np.array(used) + start, np.arange(size)).ravel()
        _check_access(state, own.name, bytes_, step.stores)


def _check_copy(state: _State, step: Copy) -> None:
    places = step.source, step.destination
    inside = [_is_inside(state, place, step.size) for place in places]
    if not all(inside):
        return
    source, target = (position(state.program, place) for place in places)
    spaces = {state.program.buffer(place.buffer).space for place in places}
    if len(spaces) == 1 and abs(source - target) < step.size:
        text = "source and destination of a copy overlap; part them"
        _report(state, Breach.OVERLAP, CONSISTENCY, text)
        return
    flight, bulk = state.flight, step.mbarrier is not None
    if bulk and flight is not None:
        if source % BULK_BYTES or target % BULK_BYTES or step.size % BULK_BYTES:
            text = f"addresses and size of a copy in bulk are multiples of {BULK_BYTES} bytes"
            _report(state, Breach.ADDRESS, BULK, f"{text}; align them")
        if writable(state.program)[source : source + step.size].any():
            text = "a copy in bulk reads what the program writes to global memory without the async"
            _report(state, Breach.PROXY, BULK, f"{text} proxy; copy from where nothing is written")
        there = slice(target, target + step.size)
        _check_proxy(state, step.destination.buffer, there, flight, stores=True)
    for stores, place in enumerate(places):
        _check_bytes(state, place, step.size, bool(stores), proxied=bulk)
    if flight is not None:
        if step.mbarrier is not None:
            _report_all(state, flight.count(step, step.mbarrier))
        elif step.is_async:
            flight.copies[step] = -1


def _check_bytes(
    state: _State, place: Place, size: int, stores: bool, *, proxied: bool = False
) -> None:
    if _is_inside(state, place, size):
        start = position(state.program, place)
        bytes_ = slice(start, start + size)
        _check_access(state, place.buffer, bytes_, stores, proxied=proxied)


def _check_space(state: _State, space: str, buffer: str, section: str) -> None:
    """Check that the space of an instruction is that of the buffer ("": generic)."""
    actual = state.program.buffer(buffer).space
    if space and space.partition("::")[0] != actual:
        text = f"buffer {buffer} is {actual}, the instruction accesses .{space}"
        _report(state, Breach.SPACE, section, f"{text}; make them the same")


def _is_aligned(
    state: _State, place: Place, size: int, what: str, section: str = ADDRESSES
) -> bool:
    start = position(state.program, place)
    if start % size:
        text = f"address {start} ({place.buffer}+{place.offset}) is not a multiple of {size}"
        _report(state, Breach.ADDRESS, section, f"{text} bytes, the size of {what}; align it")
    return start % size == 0


def _is_inside(state: _State, place: Place, size: int, what: str = "the access") -> bool:
    available = state.program.buffer(place.buffer).size
    within = place.offset >= 0 and place.offset + size <= available
    if not within:
        text = f"{what}, bytes {place.offset} to {place.offset + size - 1}, leaves buffer "
        _report(state, Breach.OUTSIDE, ADDRESSES, f"{text}{place.buffer} of {available} bytes")
    return within


def _check_access(
    state: _State, buffer: str, bytes_: Bytes, stores: bool, *, proxied: bool = False
) -> None:
    """Check for races and for reading what nothing wrote; then note bytes of the space.

    `proxied` is what is accessed through the async proxy.
    """
    space = state.program.buffer(buffer).space
    reads, writes = _marked(state, space, _READ), _marked(state, space, _WRITTEN)
    unwritten = state.marks[space, _UNWRITTEN, None]
    racing = writes[bytes_] | reads[bytes_] if stores else writes[bytes_]
    for (other, what, warp), mask in state.marks.items() if state.flight is not None else ():
        written = what in (_WRITTEN, _BEFORE[_WRITTEN])
        own = what in _BEFORE.values() and warp == state.warp
        if other == space and what != _UNWRITTEN and (written or stores) and not own:
            racing = racing | mask[bytes_]
    if racing.any():
        text = f"byte {_first(state, buffer, bytes_, racing)} of {buffer} was accessed since the "
        text += "last barrier, perhaps by another lane; put a barrier between"
        _report(state, Breach.RACE, CONSISTENCY, text)
    if space == "shared" and not stores and (lacking := unwritten[bytes_]).any():
        text = f"byte {_first(state, buffer, bytes_, lacking)} of shared {buffer} is read before "
        text += "anything writes it on every path; write it first"
        _report(state, Breach.UNWRITTEN, STATE_SPACES, text)
    (writes if stores else reads)[bytes_] = True
    if stores:
        unwritten[bytes_] = False
    flight = state.flight
    if flight is not None and (late := flight.copied(space, bytes_, stores=stores)).any():
        text = f"byte {_first(state, buffer, bytes_, late)} of {buffer} belongs to an asynchronous "
        _report(state, Breach.IN_FLIGHT, COPIES, f"{text}copy in flight; wait for it first")
    flight = flight if space == "shared" else None
    if flight is None:
        return
    if (taken := flight.access(bytes_, stores=stores, proxied=proxied)).any():
        text = f"byte {_first(state, buffer, bytes_, taken)} of {buffer} is read by a "
        text += "multiplication in flight; wait for its group and put a barrier between"
        _report(state, Breach.IN_FLIGHT, ORDERING, text)


def _first(state: _State, buffer: str, bytes_: Bytes, marked: NDArray[np.bool_]) -> int:
    """Return the first of some bytes that is marked, counted from the start of a buffer."""
    index = int(np.argmax(marked))
    byte = bytes_.start + index if isinstance(bytes_, slice) else int(bytes_[index])
    return byte - state.program.offset(buffer)
