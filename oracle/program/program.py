"""Programs: what warps do to one memory image, and what the ISA leaves undefined of it.

An *image* is the global buffers, back to back, each at a multiple of its alignment, the whole
rounded up to 256 bytes; shared buffers lie so in memory of the warp's own, undefined at first.
A batch of images is uint8 (count, image_bytes), one warp, or warpgroup, a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UndefinedProgramError, UsageError
from oracle.isa.forms import LANES, WARPGROUP, Form, replicated
from oracle.isa.lookup import FRAGMENTS, INSTRUCTIONS, STORAGE, chunks_of, selectors_of
from oracle.isa.targets import DEFAULT_TARGET, parse_target, split_compiler
from oracle.program import operands
from oracle.program.breaches import (
    ADDRESSES,
    CONSISTENCY,
    LAST_WITH_ALL_ADDRESSES,
    STATE_SPACES,
    VECTORS,
    Mixed,
    RegisterContent,
    met,
)
from oracle.program.breaches import Breach as Breach
from oracle.program.breaches import BreachReason as BreachReason
from oracle.program.lane_code import LaneCode
from oracle.program.operands import Held, Place, check, check_range
from oracle.program.operations import Elementwise, Scalar
from oracle.program.steps import (
    AnyOp,
    Barrier,
    Branch,
    Copy,
    Loop,
    MatrixAccess,
    Op,
    PlainAccess,
    RowAccess,
    Step,
    Straight,
    accesses_matrix,
    accesses_rows,
    check_threads,
)
from oracle.program.steps import by_register as by_register
from oracle.program.steps import walk as walk
from oracle.program.steps import work as work
from oracle.program.warpgroup import (
    ALIGNMENT,
    ORDERING,
    AsyncProduct,
    Bytes,
    InFlight,
    WarpgroupSync,
    Wrong,
)

MAX_WORK = 2048
"""Most work of a program, see `work`; drawn programs have 350 at most (30,000 of them, 2026-11)."""
MAX_BYTES = {"global": 1 << 21, "shared": 227 << 10}
"""Most bytes of a space: drawn images have 1 MiB, a block 227 KiB of shared memory."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """Buffers and the steps taken on them; UsageError says what cannot be."""

    buffers: tuple[operands.Buffer, ...]
    steps: tuple[Step, ...]
    warps: int = 1
    """That take them on one image: 1, or the 4 of a warpgroup."""

    def __post_init__(self) -> None:
        for buffer in self.buffers:
            operands.check_buffer(buffer)
        names = [buffer.name for buffer in self.buffers]
        check(len(set(names)) == len(names), f"buffer names repeat: {', '.join(names)}")
        spaces = {buffer.name: buffer.space for buffer in self.buffers}
        check("global" in spaces.values(), "no buffer is global; results need one to be seen in")
        check(self.warps in (1, WARPGROUP), f"{self.warps} warps given; there are 1 or {WARPGROUP}")
        for space, most in MAX_BYTES.items():
            size = self._lay_out(space)[1]
            check(size <= most, f"{space} buffers take {size} bytes; at most {most} are possible")
        amount = work(self.steps)
        text = f"the program takes {amount} steps, counted as often as they may run; at most "
        check(amount <= MAX_WORK, f"{text}{MAX_WORK} are possible")
        for step in walk(self.steps):
            for span in (*step.bytes_read, *step.bytes_written):
                if span.buffer not in spaces:
                    text = f"a step names buffer {span.buffer!r}; the program has "
                    raise UsageError(text + (", ".join(names) or "none"))
                check_range(span.start, *operands.OFFSETS, "offset of a place, in bytes,")
            for use in step.uses:
                _ = use.registers  # as many as the operand has
            if isinstance(step.uniform, operands.Word):
                name = step.uniform.place.buffer
                text = f"a word is read from shared buffer {name!r}; words are read from the image"
                check(spaces[name] == "global", f"{text}, so name a global buffer")
            check_threads(step, self.warps, spaces)

    def buffer(self, name: str) -> operands.Buffer:
        """Return the buffer of this name; UsageError if there is none."""
        if name not in self._named:
            raise UsageError(f"the program has no buffer {name!r}")
        return self._named[name]

    @cached_property
    def _named(self) -> dict[str, operands.Buffer]:
        return {buffer.name: buffer for buffer in self.buffers}

    @cached_property
    def _offsets(self) -> dict[str, int]:
        return {**self._lay_out("global")[0], **self._lay_out("shared")[0]}

    def _lay_out(self, space: str) -> tuple[dict[str, int], int]:
        """Offsets of the buffers of a space, and the bytes that they take."""
        least = ALIGNMENT if self.warps > 1 and space == "shared" else 1
        offsets, end = dict[str, int](), 0
        for buffer in self.buffers:
            if buffer.space == space:
                offsets[buffer.name] = _rounded(end, max(buffer.alignment, least))
                end = offsets[buffer.name] + buffer.size
        return offsets, _rounded(end, operands.IMAGE_ALIGNMENT)

    @property
    def threads(self) -> int:
        """Threads that work on one image: 32, or the 128 of a warpgroup."""
        return self.warps * LANES

    def offset(self, buffer: str) -> int:
        """Bytes from the start of the image, or of the warp's shared memory, to a buffer."""
        self.buffer(buffer)
        return self._offsets[buffer]

    @cached_property
    def shared_banks(self) -> frozenset[tuple[str, int]]:
        """Banks, by name and bits, of which some step uses registers, whatever their types are."""
        return frozenset(
            (register.bank, register.bits)
            for step in walk(self.steps)
            for use in step.uses
            if by_register(step, use)
            for register in use.registers
        )

    @cached_property
    def image_bytes(self) -> int:
        """Size of one image, in bytes: the global buffers, rounded up to IMAGE_ALIGNMENT."""
        return self._lay_out("global")[1]

    @cached_property
    def shared_bytes(self) -> int:
        """Shared memory for an image, in bytes, rounded up to IMAGE_ALIGNMENT; 0 without any."""
        return self._lay_out("shared")[1]


def space_of(program: Program, step: Step) -> str:
    """Return the state space that a step accesses memory through; "" is generic addressing."""
    (span, *_) = (*step.bytes_read, *step.bytes_written)
    space: str = getattr(step.instruction, "space", program.buffer(span.buffer).space)
    return space


def fresh_bank(program: Program, like: str) -> str:
    """Return a name like another that no registers of a program have."""
    used = {one.bank for step in walk(program.steps) for use in step.uses for one in use.registers}
    numbered = (f"{like[:24]}{number or ''}" for number in range(len(used) + 1))
    return next(name for name in numbered if name not in used)


def requirements(program: Program) -> frozenset[Form]:
    """Return the forms of instructions that a program uses."""
    return frozenset(step.instruction for step in walk(program.steps) if step.instruction)


def _rounded(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def position(program: Program, place: Place) -> int:
    """Return the byte of the image, or of the warp's shared memory, at a place."""
    return program.offset(place.buffer) + place.offset


def locate(program: Program, byte: int) -> Place | None:
    """Return the place of a byte of the image, None for padding; UsageError beyond its end."""
    check_range(byte, 0, program.image_bytes - 1, "byte of the image")
    for buffer in program.buffers:
        offset = byte - program.offset(buffer.name)
        if buffer.space == "global" and 0 <= offset < buffer.size:
            return Place(buffer=buffer.name, offset=offset)
    return None


def writable(program: Program) -> NDArray[np.bool_]:
    """Return which bytes of the image steps of a defined program write, bool (image_bytes,)."""
    mask = np.zeros(program.image_bytes, dtype=bool)
    for step in walk(program.steps):
        for span in step.bytes_written:
            if program.buffer(span.buffer).space == "global":
                mask[program.offset(span.buffer) + span.offsets] = True
    return mask


def check_images(program: Program, images: NDArray[Any]) -> None:
    """Raise UsageError unless an array is a batch of images of a program."""
    if (given := getattr(images, "dtype", type(images).__name__)) != np.uint8:
        raise UsageError(f"images are {given}; they must be an array of uint8, so convert them")
    wanted = f"(count, {program.image_bytes}), a row for each image of this program"
    fits = images.shape[1:] == (program.image_bytes,)
    check(fits, f"images have shape {images.shape}; it must be {wanted}")


def different(expected: NDArray[np.uint8], actual: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Return the numbers of images that differ, of two batches; equal words are told first."""
    flat, also = (np.ascontiguousarray(images).reshape(-1) for images in (expected, actual))
    whole = len(flat) // 8 * 8
    one, other = (images[:whole].view(np.uint64) for images in (flat, also))
    if np.array_equal(one, other) and np.array_equal(flat[whole:], also[whole:]):
        return np.zeros(0, np.intp)
    return np.flatnonzero((expected != actual).any(axis=1))


@lru_cache(maxsize=1024)
def undefined(program: Program, *, target: str = DEFAULT_TARGET) -> tuple[BreachReason, ...]:
    """Return every reason why a program is undefined on a target, forms that it lacks apart."""
    marks = {
        (space, what): np.full(size, what == _UNWRITTEN)
        for space, size in (("global", program.image_bytes), ("shared", program.shared_bytes))
        for what in (_READ, _WRITTEN, _UNWRITTEN)
    }
    flight = InFlight.of(program.shared_bytes, program.offset) if program.warps > 1 else None
    number = parse_target(split_compiler(target)[0]).number
    state = _State(program, number, [], "", {}, marks, flight)
    _check_steps(state, program.steps, "")
    return tuple(state.reasons)


def check_defined(program: Program, *, target: str = DEFAULT_TARGET) -> None:
    """Raise UndefinedProgramError, with every reason, if a program is undefined on a target."""
    if reasons := undefined(program, target=target):
        words = "; ".join(map(str, reasons))
        raise UndefinedProgramError(f"the ISA leaves this program undefined; {words}")


_READ, _WRITTEN, _UNWRITTEN = "read", "written", "not written"
"""What bytes are marked as: since the last barrier, and, on any path, never."""


@dataclass(slots=True)
class _State:
    program: Program
    target: int
    reasons: list[BreachReason]
    at: str
    """The position of the step that is checked."""
    registers: dict[operands.Register, RegisterContent]
    marks: dict[tuple[str, str], NDArray[np.bool_]]
    """Bytes of each space."""
    flight: InFlight | None
    """What a warpgroup has in flight; None of a warp."""


def _copy(state: _State) -> _State:
    marks = {key: mask.copy() for key, mask in state.marks.items()}
    flight = None if state.flight is None else state.flight.copy()
    return replace(state, registers={**state.registers}, marks=marks, flight=flight)


def _joined(one: _State, other: _State) -> _State:
    registers = {
        key: met(one.registers.get(key), other.registers.get(key))
        for key in one.registers | other.registers
    }
    marks = {key: mask | other.marks[key] for key, mask in one.marks.items()}
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
            # What has ended may be overwritten by other threads behind a barrier alone (9.7.15.4).
            state.marks["shared", _READ][flight.synchronise(step)] = True
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
            for (_, what), mask in state.marks.items():
                mask[...] &= what == _UNWRITTEN
            if flight is not None:
                flight.unseen[...] = False
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
            for _ in range(min(most, 2)):
                after = _check_steps(_copy(state), step.body, f"{at}.body.")
                state = after if least > 0 else _joined(state, after)
        case _:
            assert_never(step)
    return state


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
            _check_access(state, name, bytes_, False)
            if (late := flight.late(bytes_)).any():
                text = f"byte {_first(state, name, bytes_, late)} of {name} was written without "
                text += "the async proxy; put fence.proxy.async, then a barrier, between"
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
    for index, register in enumerate(registers):
        state.registers[register] = RegisterContent(state.at, made.holds, index, constant)


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
    for stores, place in enumerate(places):
        _check_bytes(state, place, step.size, bool(stores))


def _check_bytes(state: _State, place: Place, size: int, stores: bool) -> None:
    if _is_inside(state, place, size):
        start = position(state.program, place)
        _check_access(state, place.buffer, slice(start, start + size), stores)


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


def _check_access(state: _State, buffer: str, bytes_: Bytes, stores: bool) -> None:
    """Check for races and for reading what nothing wrote; then note bytes of the space."""
    space = state.program.buffer(buffer).space
    reads, writes, unwritten = (state.marks[space, what] for what in (_READ, _WRITTEN, _UNWRITTEN))
    racing = writes[bytes_] | reads[bytes_] if stores else writes[bytes_]
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
    flight = state.flight if stores and space == "shared" else None
    if flight is not None and (taken := flight.store(bytes_)).any():
        text = f"byte {_first(state, buffer, bytes_, taken)} of {buffer} is read by a "
        text += "multiplication in flight; wait for its group and put a barrier between"
        _report(state, Breach.IN_FLIGHT, ORDERING, text)


def _first(state: _State, buffer: str, bytes_: Bytes, marked: NDArray[np.bool_]) -> int:
    """Return the first of some bytes that is marked, counted from the start of a buffer."""
    index = int(np.argmax(marked))
    byte = bytes_.start + index if isinstance(bytes_, slice) else int(bytes_[index])
    return byte - state.program.offset(buffer)
