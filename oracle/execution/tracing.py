"""One warp's way through a program: what each step made, and what led to a stored value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from operator import mul, ne
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import own_scratch
from oracle.arithmetic.dots import block_sums
from oracle.arithmetic.doubles import chain
from oracle.arithmetic.scaled import exact_products
from oracle.execution.chosen import scales_of
from oracle.execution.execution import Warps, run
from oracle.isa.forms import FORMATS, LANES, Form, Format
from oracle.layouts import met, moves, places, rows_met, unpack
from oracle.models import DoubleChain, ExactSum, Model, ScalarDot, TruncatedDot, model_for
from oracle.program import lane_code, steps
from oracle.program.definedness import check_defined
from oracle.program.lane_code import Repeat, Statement
from oracle.program.lane_runs import Mask, Taken, trail
from oracle.program.operands import Place, Register, Use
from oracle.program.program import Program, check_images, position
from oracle.program.steps import Straight

_NOBODY = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class Event:
    """One step, as it was taken."""

    number: int
    """Its place in the order of execution."""
    step: Straight
    inputs: Mapping[str, NDArray[Any]]
    """Matrices (rows, columns), registers (32, count), ldmatrix's rows (addresses, 16)."""
    makers: Mapping[str, int]
    """Number of the event, of several the last, that made what was read, by the operand's text."""
    stored: frozenset[int]
    """Numbers of the events that stored bytes that it read, through copies, too."""
    result: NDArray[Any] | None
    """What it made; None for stores, copies and barriers."""


class Written(NamedTuple):
    """Record of the last write to a byte of the image."""

    event: Event
    """The event in which the step stored the byte."""
    row: int
    """Row of the matrix, or the lane."""
    column: int
    """Column of the matrix, or the register's number."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """One warp's way through a program."""

    model: Model
    image: NDArray[np.uint8]
    """The image behind the program, uint8 (image_bytes,)."""
    events: Sequence[Event]
    """The steps, in the order of execution."""
    written: NDArray[np.int32]
    """Of each byte of the image the number of the event that wrote it, and which element it is of,
    (2, image_bytes)."""


def trace(program: Program, image: NDArray[np.uint8], *, target: str) -> Trace:
    """Take one warp through a program on an image, uint8 (image_bytes,); raises as `execute`."""
    check_defined(program, target=target)
    images = np.array(image[None], order="C")
    check_images(program, images)
    events: list[Event] = []
    makers_of: dict[Register, int] = {}
    sizes = {"global": program.image_bytes, "shared": program.shared_bytes}
    writers = {space: np.full((2, size), _NOBODY, np.int32) for space, size in sizes.items()}

    def bytes_at(place: Place) -> tuple[NDArray[np.int32], int]:
        return writers[program.buffer(place.buffer).space], position(program, place)

    def note(place: Place, offsets: NDArray[Any], cells: NDArray[Any]) -> None:
        written, start = bytes_at(place)
        written[0, start + offsets] = len(events)
        written[1, start + offsets] = cells

    def take(warp: Warps, step: Straight) -> None:
        """Take one step, and note what it read and made."""
        inputs, makers, stored = dict[str, NDArray[Any]](), dict[str, int](), {_NOBODY}
        for use in step.reads:
            inputs[use.field] = warp.held(use)["bits"][0]
            makers[use.name] = max(makers_of[register] for register in use.registers)
        if steps.accesses_rows(step) and not step.stores:
            memory, rows = warp.rows(step)
            inputs["rows"] = memory["bits"][0][rows]
        for span in step.bytes_read:
            written, start = bytes_at(Place(buffer=span.buffer, offset=0))
            stored.update(written[0, start + span.offsets].ravel().tolist())
        warp.take(step)
        result = None
        if step.writes is not None:
            makers_of.update(dict.fromkeys(step.writes.registers, len(events)))
            result = warp.held(step.writes)["bits"][0]
        if steps.copies_bytes(step):
            (source, start), (copy, at) = bytes_at(step.source), bytes_at(step.destination)
            copy[:, at : at + step.size] = source[:, start : start + step.size].copy()
        elif steps.accesses_matrix(step) and step.stores:
            tile = step.tile
            line = np.arange(tile.lines)[:, None]
            element = np.arange(tile.line_bytes)[None] * 8 // tile.matrix.type.bits
            row, column = (line, element) if tile.layout == "row" else (element, line)
            note(step.memory.place, tile.byte_offsets, row * tile.matrix.columns + column)
        elif steps.accesses_registers(step) and step.stores:
            offsets = np.arange(step.size)
            note(step.place, offsets, offsets // (step.bits // 8))
        elif steps.accesses_rows(step) and step.stores:
            index = moves(step.form)
            offsets = steps.row_offsets(step).ravel()[index.ravel()]
            note(Place(buffer=step.memory.buffer), offsets, np.arange(index.size) // 4)
        events.append(
            Event(
                number=len(events), step=step, inputs=inputs, makers=makers,
                stored=frozenset(stored - {_NOBODY}), result=result,
            )
        )  # fmt: skip

    model = model_for(target)
    run(program.steps, Warps(program, images, model), take)
    return Trace(model=model, image=images[0], events=events, written=writers["global"])


def seen_by(warp: int, traced: Trace) -> Trace:
    """Return the trace of a warpgroup's program with the registers of one of its warps, 0 to 3."""

    def own(values: NDArray[Any]) -> NDArray[Any]:
        return values[LANES * warp :][:LANES] if len(values) > LANES else values

    events = [
        replace(
            event, inputs={field: own(values) for field, values in event.inputs.items()},
            result=None if event.result is None else own(event.result),
        )
        for event in traced.events
    ]  # fmt: skip
    return replace(traced, events=events)


def writer_of(trace: Trace, byte: int) -> Written | None:
    """Return who wrote a byte of the image, None if nobody did or its bytes were copied in."""
    number, cell = trace.written[:, byte].tolist()
    if number == _NOBODY:
        return None
    step = trace.events[number].step
    columns = (
        step.form.matrix().columns if steps.accesses_matrix(step) else step.reads[0].holds.registers
    )
    return Written(trace.events[number], *divmod(cell, columns))


def in_its_warp(traced: Trace, written: Written) -> tuple[Trace, Written, int]:
    """Return a warpgroup's trace as the warp saw it that wrote a byte, what it wrote, and which."""
    warp, lane = divmod(written.row, LANES)
    seen = seen_by(warp, traced)
    return seen, Written(seen.events[written.event.number], lane, written.column), warp


def maker_of(trace: Trace, event: Event, name: str | None) -> Event | None:
    """Return the event that made what another read as an operand; None if none did."""
    number = None if name is None else event.makers.get(name)
    return None if number is None else trace.events[number]


def producer_of(trace: Trace, written: Written) -> Event | None:
    """Return the last multiplication or ldmatrix behind a store, None if there is none."""
    (stored,) = written.event.step.reads
    event = maker_of(trace, written.event, stored.name)
    while event is not None and not steps.is_producer(event.step):
        event = maker_of(trace, event, event.step.carried)
    return event


@dataclass(frozen=True, kw_only=True)
class Term:
    """One product."""

    k: int
    """Column of A; of a sparse A counted among what is stored."""
    met: int
    """Row of B."""
    a: int
    """Raw pattern."""
    b: int
    """Raw pattern."""
    value: float | None = None
    """The exact product; None of f64, where a double does not hold it."""
    units: float | None = None
    """The truncated product, in units of the sum; None where nothing is truncated."""
    scales: tuple[int, int] | None = None
    """Raw patterns of the scales of A and of B, which are in the product; None: it has none."""


@dataclass(frozen=True, kw_only=True)
class TermSum:
    """Products that are added at once."""

    terms: Sequence[Term]
    before: int
    """Raw pattern of what they are added to."""
    addend: Format
    """Its format."""
    after: int
    """Raw pattern of the sum."""
    total: Format
    """Its format."""
    adds: str = "C"
    """What they are added to: "C", "the sum so far", or nothing: ""."""
    apart: bool = False
    """Whether the sum is added to the sums so far by an instruction of its own."""
    unit: float | None = None
    """What each term is truncated to a multiple of, toward zero; None: to nothing."""
    addend_units: float | None = None
    """What they are added to, in units."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Operands:
    """What an element of D is computed from."""

    row: int
    column: int
    a: NDArray[Any]
    """The row of A, raw patterns (k,); of a sparse one what is stored."""
    b: NDArray[Any]
    """What each of them meets in B, (k,)."""
    c: NDArray[Any]
    """The element of C, shape ()."""
    rows: Sequence[int]
    """The row of B that each meets."""
    scales: tuple[NDArray[np.uint8], NDArray[np.uint8]] | None = None
    """Scales of the row of A and of the column of B, each (s,)."""


def operands_of(event: Event, at: tuple[int, int]) -> Operands:
    """Return what an element of D is computed from; `at`: row, column, or lane and element."""
    form: Form = event.step.form  # type: ignore[union-attr]
    a, b, c = (event.inputs[name] for name in "abc")
    row, column = at
    if not form.opaque:
        group, row, column = places(form, "d")[at].tolist()
        a, b, c = (unpack(form, name, event.inputs[name][None])[group] for name in "abc")
    rows: Sequence[int] = range(a.shape[1])
    column_met = b[:, column]
    if form.has_metadata:
        selector = getattr(event.step, "selector", None) or 0
        metadata = event.inputs["e"][None, :, 0]
        rows = rows_met(form, metadata, selector)[0, row].tolist()
        column_met = b[rows, column]
        if form.b_type.is_float:
            column_met = met(form, b[None], metadata, selector)[row][:, column]
    scales = None
    if form.is_scaled:
        left, right = (event.inputs[name][None] for name in ("sa", "sb"))
        chosen = getattr(event.step, "selector", None) or 0
        of_a, of_b = scales_of(form, (left, right, chosen))
        scales = of_a[0, row], of_b[0, :, column]
    c = np.asarray(c[row, column])
    return Operands(
        row=row, column=column, a=a[row], b=column_met, c=c, rows=rows, scales=scales
    )  # fmt: skip


def sums_of(form: Form, given: Operands, d: int, model: Model) -> Iterator[TermSum]:
    """Yield how an element of D, a raw pattern, is computed: one addition of products each."""
    a_bits, b_bits = _patterns(given.a, form.a_type), _patterns(given.b, form.b_type)
    c_bits = _patterns(given.c[None], form.c_type)[0]
    whole = partial(TermSum, before=c_bits, addend=form.c_type, after=d, total=form.d_type)
    unit = model.unit_for(form)

    def term(k: int, value: float | None = None, units: float | None = None) -> Term:
        return Term(k=k, met=given.rows[k], a=a_bits[k], b=b_bits[k], value=value, units=units)

    if isinstance(unit, ExactSum):
        combine = ne if form.op == "xor" else mul
        products = (int(combine(int(x), int(y))) for x, y in zip(given.a, given.b, strict=True))
        yield whole(terms=[*map(term, count(), products)])
    elif isinstance(unit, DoubleChain):
        before, adds, rounding = c_bits, "C", form.rounding or "rn"
        for k, bits in enumerate(zip(a_bits, b_bits, strict=True)):
            operands = (np.array([[[pattern]]], np.uint64) for pattern in (*bits, before))
            rule: Any = {"rounding": rounding, "rule": unit, "scratch": own_scratch()}
            after = int(chain(*operands, **rule)[0, 0, 0])
            f64 = FORMATS["f64"]
            yield TermSum(
                terms=[term(k)], before=before, adds=adds, addend=f64, after=after, total=f64
            )
            before, adds = after, "the sum so far"
    elif given.scales is not None:
        types, blocks = (form.a_type, form.b_type), len(a_bits) // form.scales
        exact = exact_products(given.a, given.b, given.scales, form.texts["stype"], types)
        of_a, of_b = (one.repeat(blocks).tolist() for one in given.scales)
        terms = map(term, count(), exact.tolist())
        pairs = zip(terms, zip(of_a, of_b, strict=True), strict=False)
        yield whole(terms=[replace(one, scales=pair) for one, pair in pairs])
    elif isinstance(unit, ScalarDot):
        yield whole(terms=[*map(term, range(len(a_bits)))])
    elif isinstance(unit, TruncatedDot):
        adds = "" if unit.addend.value == "last" else "C"
        accumulator = unit.accumulator_format
        for ks, before, after, least, values in block_sums(given.a, given.b, given.c, rule=unit):
            finite = bool(np.isfinite(values).all())
            counts = [float(np.trunc(value / least)) if finite else None for value in values]
            yield TermSum(
                terms=[*map(term, ks, values, counts)],
                before=before, adds=adds, apart=unit.sums is not None, addend=accumulator,
                after=after, total=accumulator, unit=least if finite else None,
                addend_units=counts[-1],
            )  # fmt: skip
            adds = "" if unit.sums is not None else "the sum so far"


def _patterns(values: NDArray[Any], fmt: Format) -> list[int]:
    return [int(value) & ((1 << fmt.bits) - 1) for value in values]


@dataclass(frozen=True, kw_only=True, eq=False)
class Link:
    """One instruction on the way to a value."""

    event: Event
    taken: Taken | None = None
    """The instruction, branch, loop or end of a turn of scalar code; None: the step itself."""
    lanes: Mask
    registers: tuple[int, ...] = ()
    at: tuple[int, int] | None = None
    """Row and column of a matrix, or lane and register; None where several elements matter."""


def _no_lanes() -> Mask:
    return np.zeros(LANES, np.bool_)


def slice_of(trace: Trace, written: Written, *others: int) -> tuple[Link, ...]:
    """Return what led to a stored value, in order; `others` are lanes that matter, too."""
    links: list[Link] = []
    need: dict[Register, Mask] = {}
    """Lanes in which the value of a register matters."""
    at_of: dict[Register, tuple[int, int]] = {}
    """Elements of matrices that matter alone."""

    def want(use: Use, lanes: Mask, at: tuple[int, int] | None = None) -> None:
        for register in use.registers:
            want_one(register, lanes)
            if at is not None:
                at_of.setdefault(register, at)

    def want_one(register: Register, lanes: Mask) -> None:
        need[register] = need.get(register, _no_lanes()) | lanes

    def store(event: Event, at: tuple[int, int] | None = None) -> None:
        (use,) = event.step.reads
        lanes = ~_no_lanes()
        if at is not None and not use.is_fragment:
            lanes = _no_lanes()
            lanes[[at[0], *others]] = True
            want_one(use.registers[at[1]], lanes)
        else:
            want(use, lanes, at)
        links.append(Link(event=event, lanes=lanes, at=at))

    def back(event: Event) -> None:
        step, made = event.step, event.step.writes
        if made is None:
            return
        hit = {
            index: need.pop(register)
            for index, register in enumerate(made.registers)
            if register in need
        }
        if not hit:
            return
        places_ = [at_of.pop(one) for one in made.registers if one in at_of]
        # An element of a matrix is no register of a lane.
        at = next(iter(places_), None) if made.is_fragment else None
        if steps.is_lane_code(step):
            scalar(event, hit)
            return
        lanes = np.logical_or.reduce([*hit.values()])
        if not made.is_fragment and len(hit) == lanes.sum() == 1:
            at = int(np.argmax(lanes)), next(iter(hit))
        matter = lanes if steps.accesses_registers(step) else ~_no_lanes()
        links.append(Link(event=event, registers=(*hit,), at=at, lanes=matter))
        ways = 1 if step.changes or step.copies else 2 if step.action == "pack_registers" else 0
        for use in step.reads:
            carried = use.name == step.carried
            if ways and not use.is_fragment:
                for index, some in hit.items():
                    for register in use.registers[ways * index : ways * (index + 1)]:
                        want_one(register, some)
            elif carried and steps.multiplies_registers(step):
                for index, some in hit.items():
                    # C may have other registers than D: of another type, say.
                    if len(use.registers) == len(made.registers):
                        want_one(use.registers[index], some)
                    else:
                        want(use, some)
            else:
                want(use, ~_no_lanes(), at if carried and use.is_fragment else None)

    def scalar(event: Event, hit: dict[int, Mask]) -> None:
        step = event.step
        assert steps.is_lane_code(step)
        named: dict[str, Mask] = defaultdict(_no_lanes)
        for index, lanes in hit.items():
            named[step.results[index]] |= lanes
        inputs = event.inputs.get("source", np.zeros((LANES, 0), np.uint32))
        passed = trail(step, inputs[None])
        for taken, lanes in _needed(step.code, passed, named):
            links.append(Link(event=event, taken=taken, lanes=lanes))
        for use in step.reads:
            for name, register in zip(step.inputs, use.registers, strict=True):
                if named[name].any():
                    want_one(register, named[name])

    store(written.event, (written.row, written.column))
    needed = set[int]()
    for event in reversed(trace.events[: written.event.number]):
        if event.number in needed:
            store(event)
        else:
            back(event)
        if links[-1].event is event:
            needed |= event.stored
    return tuple(reversed(links))


def _needed(
    code: Sequence[Statement], passed: Sequence[Taken], need: dict[str, Mask]
) -> Iterator[tuple[Taken, Mask]]:
    """Yield what lanes passed that matters, last first; `need` becomes what matters before it."""
    outer_of = around(code)
    guarded: dict[int, Mask] = defaultdict(_no_lanes)
    for taken in reversed(passed):
        one = taken.statement
        came = taken.came[0]
        match one:
            case lane_code.Assign():
                row = lane_code.row_of(one)
                names = (*one.destinations, *(["carry"] if row.carry_out else []))
                wanted = np.logical_or.reduce([need[name] for name in names]) & came
                done = wanted & taken.lanes[0]
                for name in names:
                    need[name] = need[name] & ~done
                if done.any():
                    reading = came if row.warp else done
                    for source in (*one.sources, *(["carry"] if row.carry_in else [])):
                        if isinstance(source, str):
                            need[source] = need[source] | reading
                if one.guard:
                    need[one.guard.removeprefix("!")] |= wanted
            case Repeat() if not taken.sources:
                wanted = (guarded[id(one)] | need[one.counter]) & came
            case lane_code.If() | Repeat():
                # What stands inside was met before this, its beginning.
                own = guarded.pop(id(one), _no_lanes())
                counted = need[one.counter] if isinstance(one, Repeat) else own
                wanted = (own | counted | _wanted_inside(one, need)) & came
                for name in lane_code.read_by(one):
                    need[name] = need[name] | wanted
                if isinstance(one, Repeat):
                    need[one.counter] = need[one.counter] & ~came
            case lane_code.Leave():
                loop = [outer for outer in outer_of[id(one)] if isinstance(outer, Repeat)][-1]
                wanted = (guarded[id(loop)] | _wanted_inside(loop, need)) & came
                need[one.predicate.removeprefix("!")] |= wanted
        if wanted.any():
            for outer in outer_of[id(one)]:
                guarded[id(outer)] = guarded[id(outer)] | wanted
            yield taken, wanted


def _wanted_inside(one: Statement, need: dict[str, Mask]) -> Mask:
    names = {name for block in lane_code.inside(one).values() for some in lane_code.every(block)
             for name in lane_code.written_by(some)}  # fmt: skip
    met: Mask = np.logical_or.reduce([_no_lanes(), *(need[name] for name in names & need.keys())])
    return met


def around(
    code: Sequence[Statement], outer: tuple[Statement, ...] = ()
) -> dict[int, tuple[Statement, ...]]:
    """Return the branches and loops around each statement, the innermost last, by identity."""
    found: dict[int, tuple[Statement, ...]] = {}
    for one in code:
        found[id(one)] = outer
        for block in lane_code.inside(one).values():
            found |= around(block, (*outer, one))
    return found
