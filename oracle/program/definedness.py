"""What the ISA leaves undefined in a program: `docs/oracle.md`, "Undefined programs"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UndefinedProgramError
from oracle.isa.forms import replicated
from oracle.isa.legality import cited
from oracle.isa.lookup import METADATA, chunks_of, selectors_of
from oracle.isa.tables import FRAGMENTS, INSTRUCTIONS, STORAGE
from oracle.isa.targets import DEFAULT_TARGET, parse_target, split_compiler
from oracle.program.lane_code import LaneCode
from oracle.program.operands import (
    SPACES,
    Fragment,
    Held,
    Place,
    Register,
    Registers,
    Uniform,
    Use,
    listed,
)
from oracle.program.operations import Elementwise, Scalar
from oracle.program.program import Program, space_of
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
)

# Sections: of the memory consistency model (conflicting accesses without synchronisation race), of
# state spaces (shared memory has no initial values), of vectors as operands, and of addresses.
CONSISTENCY, STATE_SPACES, VECTORS, ADDRESSES = "8", "5.1", "6.4.3", "6.4"
LAST_WITH_ALL_ADDRESSES = 75
"""Last target on which every lane of ldmatrix needs a valid address (9.7.14.5.15, a note)."""


class Breach(StrEnum):
    """What sort of thing makes a program undefined."""

    STRIDE = "stride below the default"
    PITCH = "stride not aligned"
    ADDRESS = "address not aligned"
    OUTSIDE = "outside of its buffer"
    SPACE = "other state space"
    RACE = "no barrier between accesses"
    OVERLAP = "copy onto itself"
    UNWRITTEN = "shared memory read unwritten"
    CONTENT = "name holds something else"
    SELECTOR = "sparsity selector"
    METADATA = "metadata without a meaning"
    TWICE = "register twice in a destination"
    SHORT_ADDRESS = "address too narrow for its state space"


@dataclass(frozen=True, kw_only=True)
class BreachReason:
    """Why a program is undefined."""

    cause: Breach
    text: str
    section: str
    step: str
    """Where: the position of the step, as in "3" or "3.then.0"."""

    def __str__(self) -> str:
        return f"step {self.step}: {self.text} ({cited(self.section)})"


@lru_cache(maxsize=1024)
def undefined(program: Program, *, target: str = DEFAULT_TARGET) -> tuple[BreachReason, ...]:
    """Return every reason why a program is undefined on a target, forms that it lacks apart."""
    analysis = _Analysis(program, parse_target(split_compiler(target)[0]).number)
    analysis.steps(program.steps, "", _State.initial(program))
    return tuple(analysis.reasons)


def check_defined(program: Program, *, target: str = DEFAULT_TARGET) -> None:
    """Raise UndefinedProgramError, with every reason, if a program is undefined on a target."""
    if reasons := undefined(program, target=target):
        words = "; ".join(map(str, reasons))
        raise UndefinedProgramError(f"the ISA leaves this program undefined; {words}")


class _Mixed(StrEnum):
    CONFLICTING = "what not every path to this step has written, or has written alike"
    PIECES = "registers of several fragments, a part of one, or one in another order"


class _Cell(NamedTuple):
    """What a register holds: a part of what one step wrote, or several on paths that meet."""

    maker: object
    """What is equal for what one step, or the same ones, wrote."""
    holds: Held | _Mixed
    part: int
    constant: int | None

    def join(self, other: _Cell | None) -> _Cell:
        if self == other:
            return self
        if other is None or (self.holds, self.part) != (other.holds, other.part):
            return _Cell(None, _Mixed.CONFLICTING, 0, None)
        constant = self.constant if self.constant == other.constant else None
        return _Cell((self.maker, other.maker), self.holds, self.part, constant)


@dataclass
class _State:
    registers: dict[Register, _Cell]
    reads: dict[str, NDArray[np.bool_]]
    """For each space, the bytes that were read since the last barrier."""
    writes: dict[str, NDArray[np.bool_]]
    filled: NDArray[np.bool_]
    """The bytes of shared memory that every path has written."""

    @staticmethod
    def initial(program: Program) -> _State:
        sizes = {"global": program.image_bytes, "shared": program.shared_bytes}
        reads, writes = ({space: np.zeros(sizes[space], bool) for space in SPACES} for _ in "rw")
        return _State({}, reads, writes, np.zeros(sizes["shared"], bool))

    def copy(self) -> _State:
        reads, writes = (
            {space: mask.copy() for space, mask in masks.items()}
            for masks in (self.reads, self.writes)
        )
        return _State(dict(self.registers), reads, writes, self.filled.copy())

    def join(self, other: _State) -> _State:
        registers = {
            register: cell.join(other.registers.get(register))
            for register, cell in self.registers.items()
        }
        for register in other.registers.keys() - self.registers.keys():
            registers[register] = other.registers[register].join(None)
        return _State(
            registers,
            {space: self.reads[space] | other.reads[space] for space in SPACES},
            {space: self.writes[space] | other.writes[space] for space in SPACES},
            self.filled & other.filled,
        )


class _Analysis:
    def __init__(self, program: Program, target: int) -> None:
        self.program = program
        self.target = target
        self.reasons: list[BreachReason] = []
        self.at = ""

    def report(self, cause: Breach, section: str, text: str) -> None:
        reason = BreachReason(cause=cause, text=text, section=section, step=self.at)
        if reason not in self.reasons:
            self.reasons.append(reason)

    def steps(self, steps: Iterable[Step], prefix: str, state: _State) -> _State:
        """Go through steps from a state, which may be changed; return the state after them."""
        for index, step in enumerate(steps):
            self.at = f"{prefix}{index}"
            state = self.step(step, state)
        return state

    def step(self, step: Step, state: _State) -> _State:
        match step:
            case Op():
                if step.selector is not None:
                    self.metadata(step, step.selector, state)
                self.uses(step, step.form.section, state)
                if accesses_matrix(step):
                    self.tile(step, state)
                elif accesses_rows(step):
                    self.rows(step, state)
            case Elementwise():
                self.uses(step, FRAGMENTS, state)
            case PlainAccess():
                self.uses(step, INSTRUCTIONS["ldmatrix"].section, state)
                what = f"a lane's {step.bits}-bit registers"
                if self.aligned(step.place, step.bits // 8, what):
                    self.run_of_bytes(step.place, step.size, step.stores, state)
            case Scalar() | LaneCode():
                self.uses(step, INSTRUCTIONS["mma"].section, state)
            case Copy():
                self.copy(step, state)
            case Barrier():
                for mask in (*state.reads.values(), *state.writes.values()):
                    mask[...] = False
            case Branch():
                at = self.at
                least, most = self.bounds(step.condition, state)
                ends = []
                if most > 0:
                    ends.append(self.steps(step.then, f"{at}.then.", state.copy()))
                if least == 0:
                    ends.append(self.steps(step.otherwise, f"{at}.otherwise.", state.copy()))
                return ends[0].join(ends[-1])
            case Loop():
                at = self.at
                least, most = self.bounds(step.count, state)
                for _ in range(min(most, 2)):
                    after = self.steps(step.body, f"{at}.body.", state.copy())
                    state = after if least > 0 else state.join(after)
            case _:
                assert_never(step)
        return state

    def metadata(self, step: AnyOp, selector: int, before: _State) -> None:
        """Check the selector, and metadata that are one number in every lane."""
        form, known = step.form, selectors_of(step.form)
        of = f"of {form.mnemonic} {form.shape.name} with .{form.a_type.name}"
        if selector not in known:
            text = f"the sparsity selector is {selector}; {of} it is {' or '.join(map(str, known))}"
            self.report(Breach.SELECTOR, METADATA, text)
        cell = before.registers.get(step.uses[-1].registers[0])
        if cell is None or cell.constant is None:
            return
        pairs = {cell.constant >> bit & 15 for bit in range(0, 32, 4)}
        if pairs - {*chunks_of(form)}:
            allowed = ", ".join(map(hex, chunks_of(form)))
            text = f"the metadata are {cell.constant:#010x}; {of} 4 bits are {allowed}"
            self.report(Breach.METADATA, METADATA, text)

    def bounds(self, value: Uniform, state: _State) -> tuple[int, int]:
        """Check the reading of a uniform value; return the least and the most that it can be."""
        if isinstance(value, int):
            return value, value
        if self.aligned(value.place, 4, "a 32-bit word"):
            self.run_of_bytes(value.place, 4, False, state)
        return 0, value.mask

    def uses(self, step: Straight, section: str, state: _State) -> None:
        """Check that the registers which a step reads hold what it needs; note what it writes."""
        made = step.writes
        for use in step.reads:
            needed, held = use.holds, self.content(use, state)
            if isinstance(needed, Fragment) and needed.any_layout:
                # A multiplicand's layout stays what it is; there is none to check it against.
                layout = held.layout if isinstance(held, Fragment) else "row"
                needed = replace(needed, layout=layout)
                if made is not None and made.holds == use.holds:
                    made = replace(made, holds=needed)
            self.use(use.name, needed, held, section)
        if made is None:
            return
        registers = made.registers
        if len(set(registers)) != len(registers):
            twice = next(one for one in registers if registers.count(one) > 1)
            text = f"register {twice} stands more than once in the destination {made.name}; which "
            text += "result it holds is said nowhere, so give each a register of its own"
            self.report(Breach.TWICE, VECTORS, text)
        if step.address is not None and made.holds.bits == 32:
            space = space_of(self.program, step)
            if not space.startswith("shared"):
                text = "the address stands in a register of 32 bits and the access is "
                text += f"{f'.{space}' if space else 'generic'}; only .shared has such addresses"
                self.report(Breach.SHORT_ADDRESS, ADDRESSES, text)
        constant = step.sets
        if step.copies:
            cells = [state.registers.get(register) for register in step.reads[0].registers]
            found = {None if cell is None else cell.constant for cell in cells}
            constant = found.pop() if len(found) == 1 else None
        for index, register in enumerate(registers):
            state.registers[register] = _Cell(self.at, made.holds, index, constant)

    def content(self, use: Use, state: _State) -> Held | _Mixed | None:
        """Return what the registers of an operand hold; None if one was never written."""
        cells = [state.registers.get(register) for register in use.registers]
        first, needed, named = cells[0], use.holds, not listed(use.name)
        if named and first is not None and first.part == 0 and first.constant is None:
            held = first.holds
            if not isinstance(held, _Mixed) and held.registers != needed.registers:
                return held
        known = [cell for cell in cells if cell is not None]
        if first is None or len(known) < len(cells):
            return None
        if isinstance(needed, Fragment) and all(
            cell.constant is not None and cell.constant == first.constant for cell in known
        ):
            bits, number = needed.matrix.type.bits, first.constant or 0
            alike = number == replicated(number & ((1 << bits) - 1), bits, needed.bits)
            return needed if alike else _Mixed.PIECES
        if any(cell.holds is _Mixed.CONFLICTING for cell in known):
            return _Mixed.CONFLICTING
        whole = all(
            cell.maker == first.maker and cell.part == index for index, cell in enumerate(known)
        )
        if isinstance(needed, Fragment) or named:
            return first.holds if whole else _Mixed.PIECES
        lanes = all(isinstance(cell.holds, Registers) for cell in known)
        return needed if lanes else _Mixed.PIECES

    def use(self, name: str, needed: Held, held: Held | _Mixed | None, section: str) -> None:
        if held == needed:
            return
        text = f"{name} holds {held}; it must hold {needed}"
        if held is None:
            text = f"{name} is used before anything writes it; it must hold {needed}"
        elif isinstance(held, Fragment) and isinstance(needed, Fragment):
            kinds = {(one.matrix.operand, one.matrix.type.name) for one in (held, needed)}
            if kinds == {("c", "f16"), ("c", "f32")}:
                text += "; there is no conversion between .f16 and .f32 accumulators"
                section = FRAGMENTS
        self.report(Breach.CONTENT, section, text)

    def tile(self, step: MatrixAccess, state: _State) -> None:
        form, matrix, place = step.form, step.form.matrix(), step.memory.place
        self.space(form.space, place.buffer, form.section)
        least, size = matrix.default_stride(form.layout), matrix.fragment_bytes
        stride = least if step.memory.stride is None else step.memory.stride
        if stride < least:
            text = f"stride {stride} is below the default {least}; raise it"
            self.report(Breach.STRIDE, INSTRUCTIONS["wmma.load"].section, text)
        elif not matrix.has_aligned_lines(form.layout, stride):
            apart = stride * matrix.type.bits
            text = f"stride {stride} puts lines {apart} bits apart, no multiple of the fragment's "
            self.report(Breach.PITCH, STORAGE, f"{text}{size} bytes")
        elif self.aligned(place, size, "the fragment", STORAGE) and self.inside(
            place, step.tile.extent
        ):
            bytes_ = self.start(place) + step.tile.byte_offsets.ravel()
            self.access(place.buffer, bytes_, step.stores, state)

    def rows(self, step: RowAccess, state: _State) -> None:
        form, buffer = step.form, step.memory.buffer
        self.space(form.space or "shared", buffer, form.section)
        every = form.is_load and self.target <= LAST_WITH_ALL_ADDRESSES
        addresses = step.memory.addresses[: None if every else form.addresses]
        if form.is_load and self.read_rows(step, addresses, state):
            return
        size = form.row_bytes
        written: dict[int, int] = {}
        for lane, address in enumerate(addresses):
            place = Place(buffer=buffer, offset=address)
            what = f"the row of lane {lane}"
            if not self.aligned(place, size, what, form.section) or not self.inside(
                place, size, what
            ):
                continue
            if step.stores and (first := written.setdefault(address, lane)) != lane:
                text = f"lanes {first} and {lane} name the same row; which is written last is open"
                self.report(Breach.RACE, CONSISTENCY, f"{text}, so part them")
            elif lane < form.addresses:
                self.run_of_bytes(place, size, step.stores, state)

    def read_rows(self, step: RowAccess, addresses: Sequence[int], state: _State) -> bool:
        """Note rows as read if no address is wrong, much faster than lane by lane; tell if so."""
        own, size = self.program.buffer(step.memory.buffer), step.form.row_bytes
        if min(addresses) < 0 or max(addresses) > own.size - size:
            return False
        start = self.program.offset(own.name)
        if any((start + address) % size for address in addresses):
            return False
        rows = start + step.memory.offsets(step.form)
        shared = own.space == "shared"
        if state.writes[own.space][rows].any() or (shared and not state.filled[rows].all()):
            return False
        state.reads[own.space][rows] = True
        return True

    def copy(self, step: Copy, state: _State) -> None:
        places = step.source, step.destination
        inside = [self.inside(place, step.size) for place in places]
        if not all(inside):
            return
        starts = [self.start(place) for place in places]
        spaces = {self.program.buffer(place.buffer).space for place in places}
        if len(spaces) == 1 and abs(starts[0] - starts[1]) < step.size:
            text = "source and destination of a copy overlap; part them"
            self.report(Breach.OVERLAP, CONSISTENCY, text)
            return
        self.run_of_bytes(step.source, step.size, False, state)
        self.run_of_bytes(step.destination, step.size, True, state)

    def run_of_bytes(self, place: Place, size: int, stores: bool, state: _State) -> None:
        if self.inside(place, size):
            start = self.start(place)
            self.access(place.buffer, slice(start, start + size), stores, state)

    def space(self, space: str, buffer: str, section: str) -> None:
        """Check that the space of an instruction is that of the buffer ("": generic)."""
        actual = self.program.buffer(buffer).space
        if space and space.partition("::")[0] != actual:
            text = f"buffer {buffer} is {actual}, the instruction accesses .{space}"
            self.report(Breach.SPACE, section, f"{text}; make them the same")

    def start(self, place: Place) -> int:
        return self.program.offset(place.buffer) + place.offset

    def aligned(self, place: Place, size: int, what: str, section: str = ADDRESSES) -> bool:
        start = self.start(place)
        if start % size:
            text = (
                f"address {start} ({place.buffer}+{place.offset}) is not a multiple of {size} bytes"
            )
            self.report(Breach.ADDRESS, section, f"{text}, the size of {what}; align it")
        return start % size == 0

    def inside(self, place: Place, size: int, what: str = "the access") -> bool:
        available = self.program.buffer(place.buffer).size
        within = place.offset >= 0 and place.offset + size <= available
        if not within:
            text = f"{what}, bytes {place.offset} to {place.offset + size - 1}, leaves buffer "
            self.report(Breach.OUTSIDE, ADDRESSES, f"{text}{place.buffer} of {available} bytes")
        return within

    def access(
        self, buffer: str, bytes_: slice | NDArray[np.int64], stores: bool, state: _State
    ) -> None:
        """Check for races and for reading what nothing wrote; then note bytes of the space."""
        space = self.program.buffer(buffer).space
        reads, writes = state.reads[space], state.writes[space]
        racing = writes[bytes_] | reads[bytes_] if stores else writes[bytes_]
        if racing.any():
            text = f"byte {self.first(buffer, bytes_, racing)} of {buffer} was accessed since the "
            text += "last barrier, perhaps by another lane; put a barrier between"

            self.report(Breach.RACE, CONSISTENCY, text)
        if space == "shared" and not stores and not (filled := state.filled[bytes_]).all():
            text = f"byte {self.first(buffer, bytes_, ~filled)} of shared {buffer} is read before "
            text += "anything writes it on every path; write it first"
            self.report(Breach.UNWRITTEN, STATE_SPACES, text)
        (writes if stores else reads)[bytes_] = True
        if stores and space == "shared":
            state.filled[bytes_] = True

    def first(
        self, buffer: str, bytes_: slice | NDArray[np.int64], marked: NDArray[np.bool_]
    ) -> int:
        """Return the first of some bytes that is marked, counted from the start of a buffer."""
        index = int(np.argmax(marked))
        byte = bytes_.start + index if isinstance(bytes_, slice) else int(bytes_[index])
        return byte - self.program.offset(buffer)
