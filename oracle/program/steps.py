"""Steps: what one warp does, one after the other, and what each says of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property, partial
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from oracle.isa.forms import LANES, WARPGROUP, Form, Matrix
from oracle.isa.lookup import scale_ids, selectors_of
from oracle.layouts import Tile
from oracle.program.lane_code import LaneCode, Statement
from oracle.program.lane_runs import addresses_of
from oracle.program.operands import (
    COUNTS,
    MAX_ITERATIONS,
    OFFSETS,
    Count,
    Fragment,
    Held,
    Place,
    Registers,
    Span,
    StepBase,
    Uniform,
    Use,
    check,
    check_range,
    check_registers,
    check_vector,
    fields_alone,
    is_repeatable,
    most_of,
)
from oracle.program.operations import Elementwise, Scalar
from oracle.program.warpgroup import THREADS, AsyncProduct, WarpgroupSync

MAX_NESTING = 8  # Most branches and loops around one step: drawn programs have 2 (2026-11)
_COPIED_AT_ONCE = 4096  # Bytes of a copy that count as one step


def _check_address(address: int | None, count: int) -> None:
    check_range(address or 0, 0, count - 1, "register of the destination with the address")


def _address_text(address: int | None) -> str:
    return "" if address is None else f", address in register {address} of them"


@dataclass(frozen=True, kw_only=True)
class Lines:
    """The lines of a matrix, equally far apart, as wmma.load and wmma.store take them."""

    place: Place
    stride: int | None = None
    """Elements from one row (or column) to the next; None: the operand is left out."""
    stride_in_register: bool = False
    immediate: int = 0
    """Bytes of the address in the instruction, as in `[p+immediate]`; a register has the rest."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows at addresses that the lanes give, as ldmatrix and its reverse take them."""

    buffer: str
    addresses: tuple[int, ...]
    """Of each lane, bytes from the start of the buffer. Lanes beyond `form.addresses` do not count,
    except of ldmatrix on sm_75. Rows that are written must lie apart."""
    immediate: int = 0
    computed: tuple[Statement, ...] = ()
    """Code that leaves each lane's address in r0, where PTX is to compute them; (): as emitted."""


def row_offsets(step: RowAccess) -> NDArray[np.int64]:
    """Return every byte of the rows that a step uses, (form.addresses, form.row_bytes)."""
    starts = np.array(step.memory.addresses[: step.form.addresses], np.int64)
    return starts[:, None] + np.arange(step.form.row_bytes)


Memory: TypeAlias = Lines | Rows
M = TypeVar("M", bound=Memory | None, covariant=True)


@dataclass(frozen=True, kw_only=True)
class Op(StepBase, Generic[M]):
    """One matrix instruction. Its result may have registers of any of its sources."""

    form: Form
    operands: tuple[str, ...]
    """Its vectors of registers, in the order of its `uses`."""
    memory: M
    """What it reads or writes there; None of one that only works on registers."""
    address: int | None = None
    """Which register of a load's destination holds the address before; None: none of them."""
    count: int = 1
    """Registers of each operand, where the instruction is done for one after the other."""
    selector: int | None = None
    """Which lanes' metadata or scales count, a number of `oracle.isa.lookup.selectors_of`; None of
    a form without this operand."""
    ids_in_registers: bool = False
    """Whether byte-ids and thread-ids of scales stand in registers of 16 bits."""

    @staticmethod
    def of(form: Form, **given: Any) -> Op[Any]:
        """Return a step from its operands and the fields of its memory, by their names.

        "d", "a", "b", "c", "e" of a product, "fragment" or "registers" of what is loaded or stored,
        "source" and "destination" of what is moved between registers.
        """
        names = [field for field, *_ in operands_of(form)]
        missing = [name for name in names if name not in given]
        check(not missing, f"{form.mnemonic} lacks its operand {', '.join(missing)}")
        operands = tuple(given.pop(name) for name in names)
        kind = memory_of(form)
        own = [field.name for field in fields(kind) if field.name in given] if kind else []
        memory = kind(**{name: given.pop(name) for name in own}) if kind else None
        return Op(form=form, operands=operands, memory=memory, **given)

    def __post_init__(self) -> None:
        allowed, mnemonic = COUNTS if is_repeated(self.form) else (1,), self.form.mnemonic
        known = ", ".join(map(str, allowed))
        check(self.count in allowed, f"{self.count} registers given; there are {known}")
        for use in self.uses:
            check_vector(use.name, "fragment" if use.is_fragment else "vector of registers")
        memory: Memory | None = self.memory
        if memory is not None:
            check_range(memory.immediate, *OFFSETS, "immediate part of an address, in bytes,")
        if isinstance(memory, Lines):
            # "stride is an optional 32-bit integer operand" (9.7.14.4.3)
            check_range(memory.stride or 0, 0, (1 << 32) - 1, "stride, in elements,")
            absent = memory.stride is None and memory.stride_in_register
            check(not absent, "a default stride stands in no register; give a stride")
        elif isinstance(memory, Rows):
            given = memory.addresses
            text = f"{len(given)} addresses given; {mnemonic} takes one for each of {LANES} lanes"
            check(len(given) == LANES, text)
            for address in (min(given), max(given)):
                check_range(address, *OFFSETS, "address of a row, in bytes,")
            same = not memory.computed or addresses_of(memory.computed) == given
            check(same, "code of lanes computes other addresses of rows than those given")
        has_selector = self.form.has_metadata or self.form.is_scaled
        what = "selector of scales" if self.form.is_scaled else "sparsity selector"
        text = f"{mnemonic} {f'lacks its {what}' if has_selector else 'has no selector'}"
        check(has_selector == (self.selector is not None), text)
        # "a 32-bit integer constant with values in the range 0..3" (9.7.14.6.3)
        most = len(selectors_of(self.form)) - 1 if self.form.is_scaled else 3
        check_range(self.selector or 0, 0, most, what)
        text = f"{mnemonic} has no scales here, and so no selectors of them in registers"
        check(self.form.is_scaled or not self.ids_in_registers, text)
        if self.address is not None:
            text = f"{mnemonic} loads nothing, so that no destination holds its address"
            check(self.form.is_load, text)
            _check_address(self.address, self.uses[0].holds.registers)

    @cached_property
    def action(self) -> str:
        if self.form.is_product:
            return "multiply" if self.form.opaque else "multiply_registers"
        if self.memory is None:
            return "move"
        verb = "load" if self.form.is_load else "store"
        return verb if self.form.opaque else f"{verb}_rows"

    @property
    def instruction(self) -> Form:
        return self.form

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        return tuple(
            Use(field=field, name=name, holds=holds, written=written)
            for (field, holds, written), name in zip(
                operands_of(self.form, self.count), self.operands, strict=True
            )
        )

    @property
    def fields(self) -> dict[str, Any]:
        """What `of` takes: operands, and the fields of its memory, by their names."""
        found: dict[str, Any] = {"form": self.form, **self.names}
        if self.memory is not None:
            found |= {field.name: getattr(self.memory, field.name) for field in fields(self.memory)}
        found["address"] = self.address
        if self.selector is not None:
            found["selector"] = self.selector
        if self.ids_in_registers:
            found["ids_in_registers"] = True
        return found | {"count": self.count} if is_repeated(self.form) else found

    @cached_property
    def tile(self) -> Tile:
        """The matrix of a wmma.load or wmma.store as it lies in memory, from its place on."""
        assert isinstance(self.memory, Lines)
        stride = self.memory.stride
        return Tile(matrix=self.form.matrix(), layout=self.form.layout, stride=stride)

    @property
    def carried(self) -> str | None:
        return self.names.get("c", self.names.get("source"))

    @cached_property
    def bytes_read(self) -> tuple[Span, ...]:
        return self._spans if self.form.is_load else ()

    @cached_property
    def bytes_written(self) -> tuple[Span, ...]:
        return self._spans if self.form.is_store else ()

    @property
    def _spans(self) -> tuple[Span, ...]:
        form, memory = self.form, self.memory
        if isinstance(memory, Rows):
            used = memory.addresses[: form.addresses]
            return tuple(Span.block(memory.buffer, address, form.row_bytes) for address in used)
        if not isinstance(memory, Lines):
            return ()
        matrix, place = form.matrix(), memory.place
        length, bits = matrix.default_stride(form.layout), matrix.type.bits
        pitch = (length if memory.stride is None else memory.stride) * bits // 8
        runs = matrix.leading_instances(form.layout)
        return (Span(place.buffer, place.offset, length * bits // 8, pitch, runs),)

    def changed(self, **changes: Any) -> Self:
        """Return the step with other fields, operands or fields of its memory, by their names."""
        own = {name: changes.pop(name) for name in self.names if name in changes}
        if own:
            changes["operands"] = tuple((self.names | own).values())
        if "addresses" in changes:
            changes.setdefault("computed", ())
        memory: Any = self.memory
        names = [] if memory is None else [field.name for field in fields(memory)]
        others = {name: changes.pop(name) for name in names if name in changes}
        if others:
            changes["memory"] = replace(memory, **others)
        return super().changed(**changes)

    def __str__(self) -> str:
        form, memory, named = self.form, self.memory, self.operands[0]
        if form.is_product:
            text = "{d} = {a} x {b} + {c}".format(**self.names)
            if form.is_scaled:
                ids = scale_ids(form, self.selector or 0)
                text += f", a scaled by {self.names['sa']} at byte {ids.byte_a} of lanes "
                text += f"{2 * ids.thread_a} and {2 * ids.thread_a + 1} of 4, b by "
                text += f"{self.names['sb']} at byte {ids.byte_b} of lane {ids.thread_b} of 4"
                text += ", both told by registers" if self.ids_in_registers else ""
            if form.has_metadata:
                text += f", a placed by {self.names['e']}"
                text += "" if form.is_scaled else f", selector {self.selector}"
        elif isinstance(memory, Lines):
            matrix, stride = form.matrix(), "default" if memory.stride is None else memory.stride
            text = f"load {named} =" if form.is_load else f"store {named} to"
            text += f" {matrix.operand.upper()} {matrix.rows}x{matrix.columns} {matrix.type.name} "
            text += f"{form.layout}-major at {memory.place}, stride {stride}"
        elif isinstance(memory, Rows):
            verb, where = ("load", "from") if form.is_load else ("store", "to")
            text = f"{verb} rows {named} {where} {memory.buffer}"
        else:
            text = "{destination} = {source}, every register transposed".format(**self.names)
        return text + _address_text(self.address)


def memory_of(form: Form) -> type[Memory] | None:
    """Return how an instruction accesses memory; None if it does not."""
    if "p" not in form.operands:
        return None
    return Lines if form.opaque else Rows


def is_repeated(form: Form) -> bool:
    """Whether a step does an instruction for each register of its operands."""
    return not form.vectors


@cache
def operands_of(form: Form, count: int = 1) -> tuple[tuple[str, Held, bool], ...]:
    """Return name, contents and whether it is written of each vector, in the order of a step."""
    held: Held = Registers(registers=count)
    if is_repeated(form):
        return ("source", held, False), ("destination", held, True)
    layouts = {"r": "layout", "a": "alayout", "b": "blayout"}
    found: list[tuple[str, Held, bool]] = []
    for operand, vector in form.vectors.items():
        if isinstance(vector, Matrix):
            layout = form.texts[layouts[operand]] if operand in layouts else None
            held, name = Fragment.of(vector, None if form.is_store else layout), "fragment"
        else:
            held, name = Registers.of(vector), "registers"
        if form.is_product:
            found.append((operand, held, operand == "d"))
        else:
            found.append((name, held, form.is_load))
    return tuple(found)


AnyOp = Op[Memory | None]
MatrixAccess = Op[Lines]
"""A wmma.load or wmma.store."""
RowAccess = Op[Rows]
"""An ldmatrix or its reverse."""
Product = Op[None]
"""A multiplication of matrices."""


def product_of(form: Form) -> Product:
    """Return a multiplication whose operands are called as on the page, with selector 0."""
    constants = {"selector": 0} if form.has_metadata or form.is_scaled else {}
    return Op.of(form, **{name: name for name in form.vectors}, **constants)


def _does(*actions: str) -> Any:
    return lambda step: isinstance(step, Op | AsyncProduct) and step.action in actions


_ROWS, _PRODUCTS = ("load_rows", "store_rows"), ("multiply", "multiply_registers")
is_instruction: Callable[[object], TypeGuard[AnyOp]] = _does(
    "load", "store", *_ROWS, *_PRODUCTS, "move"
)
accesses_matrix: Callable[[object], TypeGuard[MatrixAccess]] = _does("load", "store")
loads_fragment: Callable[[object], TypeGuard[MatrixAccess]] = _does("load")
stores_fragment: Callable[[object], TypeGuard[MatrixAccess]] = _does("store")
accesses_rows: Callable[[object], TypeGuard[RowAccess]] = _does(*_ROWS)
loads_rows: Callable[[object], TypeGuard[RowAccess]] = _does("load_rows")
stores_rows: Callable[[object], TypeGuard[RowAccess]] = _does("store_rows")
multiplies: Callable[[object], TypeGuard[Product]] = _does(*_PRODUCTS)
multiplies_fragments: Callable[[object], TypeGuard[Product]] = _does("multiply")
multiplies_registers: Callable[[object], TypeGuard[Product]] = _does("multiply_registers")
is_producer: Callable[[object], TypeGuard[AnyOp | AsyncProduct]] = _does(
    *_PRODUCTS, "load_rows", "multiply_async"
)
"""Whether a step makes values that others only move: it multiplies, or loads rows."""
is_main: Callable[[object], TypeGuard[AnyOp | AsyncProduct]] = _does(
    *_PRODUCTS, *_ROWS, "move", "multiply_async"
)
"""Whether a program can be about a step: loads and stores of wmma only serve others."""


@dataclass(frozen=True, kw_only=True)
class PlainAccess(StepBase):
    """Each lane loads or stores registers: lane l its i-th at place + bits / 8 (l count + i)."""

    loads: bool
    registers: str
    count: int
    """Registers in each lane: 1, 2, 4 or 8; of a store as what wrote them has."""
    place: Place
    bits: int = 32
    lanes: int = LANES
    """Lanes that store, from the first on, or threads of a warpgroup, 128 of which load; the others
    skip it under a condition. All load."""
    address: int | None = None
    """Which register holds the address before a load; None: another one."""

    def __post_init__(self) -> None:
        check_registers(self.registers, self.count, self.bits)
        least = LANES if self.loads else 1
        check_range(self.lanes, least, THREADS, "lanes that access registers")
        check(self.loads or self.address is None, "a store overwrites no register of its address")
        _check_address(self.address, self.count)

    @property
    def size(self) -> int:
        """Bytes that are read or written."""
        return self.lanes * self.count * self.bits // 8

    @property
    def action(self) -> str:
        return "load_registers" if self.loads else "store_registers"

    @property
    def fields(self) -> dict[str, Any]:
        names = ["registers", "count", "place", "bits", "address" if self.loads else "lanes"]
        names += ["lanes"] if self.loads and self.lanes != LANES else []
        return {name: getattr(self, name) for name in names}

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        holds = Registers(registers=self.count, bits=self.bits)
        return (Use(field="registers", name=self.registers, holds=holds, written=self.loads),)

    @cached_property
    def bytes_read(self) -> tuple[Span, ...]:
        return (Span.block(self.place.buffer, self.place.offset, self.size),) if self.loads else ()

    @cached_property
    def bytes_written(self) -> tuple[Span, ...]:
        return () if self.loads else (Span.block(self.place.buffer, self.place.offset, self.size),)

    def __str__(self) -> str:
        if self.loads:
            text = f"load registers {self.registers} from {self.place}"
            return text + _address_text(self.address)
        who = "" if self.lanes in (LANES, THREADS) else f" of lanes below {self.lanes}"
        return f"store registers {self.registers}{who} to {self.place}"


plain_load = partial(PlainAccess, loads=True)
plain_store = partial(PlainAccess, loads=False)


@dataclass(frozen=True, kw_only=True)
class Copy(StepBase):
    """The lanes copy bytes between buffers, in no particular order."""

    action: ClassVar[str] = "copy"

    source: Place
    destination: Place
    size: int  # Bytes
    is_async: bool = False  # A warpgroup only begins it, by cp.async: from global to shared memory
    mbarrier: int | None = None  # That its bytes are counted at: one thread begins it, in bulk

    def __post_init__(self) -> None:
        check_range(self.size, 1, 1 << 24, "size of a copy, in bytes,")
        check(not self.is_async or self.mbarrier is None, "a copy begins by cp.async, or in bulk")

    @property
    def cost(self) -> int:
        return 1 + self.size // _COPIED_AT_ONCE

    @cached_property
    def bytes_read(self) -> tuple[Span, ...]:
        return (Span.block(self.source.buffer, self.source.offset, self.size),)

    @cached_property
    def bytes_written(self) -> tuple[Span, ...]:
        return (Span.block(self.destination.buffer, self.destination.offset, self.size),)

    def __str__(self) -> str:
        ends = f"{self.size} bytes from {self.source} to {self.destination}"
        if self.mbarrier is not None:
            return f"begin to copy {ends} in bulk, at mbarrier {self.mbarrier}"
        return f"{'begin to copy' if self.is_async else 'copy'} {ends}"


@dataclass(frozen=True, kw_only=True)
class Barrier(StepBase):
    """A barrier of all threads: orders the memory accesses before it with those after it."""

    action: ClassVar[str] = "barrier"


def _nesting(steps: tuple[Step, ...]) -> int:
    """Branches and loops around the innermost of some steps."""
    inside = (1 + _nesting(block) for step in steps for block in step.blocks.values())
    return max(inside, default=0)


def _check_nesting(step: Branch | Loop | OneWarp) -> None:
    # Checked as each step is made, so that no step is ever nested deeper.
    nesting = max(1 + _nesting(steps) for steps in step.blocks.values())
    text = f"branches and loops are nested {nesting} deep; at most {MAX_NESTING} are possible"
    check(nesting <= MAX_NESTING, text)


def _check_steered(step: Branch | Loop, value: Uniform, high: int) -> None:
    _check_nesting(step)
    check_range(most_of(value), 0, high, f"what steers a {step.action}, at most,")


@dataclass(frozen=True, kw_only=True)
class Branch(StepBase):
    """A warp-uniform branch."""

    action: ClassVar[str] = "branch"
    steered: ClassVar[str] = "condition"

    condition: Uniform
    then: tuple[Step, ...]
    """Taken if the condition is not zero."""
    otherwise: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        _check_steered(self, self.condition, (1 << 32) - 1)

    @property
    def blocks(self) -> Mapping[str, tuple[Step, ...]]:
        return {"then": self.then, "otherwise": self.otherwise}

    def __str__(self) -> str:
        return f"if {self.condition}"


@dataclass(frozen=True, kw_only=True)
class Loop(StepBase):
    """A warp-uniform loop; the count is read once, before the first iteration."""

    action: ClassVar[str] = "loop"
    steered: ClassVar[str] = "count"

    count: Count
    body: tuple[Step, ...]

    def __post_init__(self) -> None:
        _check_steered(self, self.count, MAX_ITERATIONS)

    @property
    def turns(self) -> int:
        return max(1, most_of(self.count))

    @cached_property
    def repeats(self) -> bool:
        """Whether each turn does again what the first did: none reads what one has written."""
        return is_repeatable(self.body)

    @cached_property
    def by_turn(self) -> bool:
        return False  # what is inside depends on its own turns

    @cached_property
    def counts(self) -> bool:
        """Whether a step inside depends on the turn."""
        return any(step.by_turn for step in self.body)

    @cached_property
    def unrolled(self) -> tuple[Step, ...]:
        """The same without a loop: its turns, one after the other, by how many there are."""
        if isinstance(self.count, int):
            return self._all(self.count, 0)
        return self._all(0, self.count.mask)

    def _all(self, turns: int, mask: int) -> tuple[Step, ...]:
        """Return so many turns, and more if bits of the count under a mask are set."""
        if mask == 0:
            return tuple(step for turn in range(turns) for step in self.turn(turn, turns))
        bit = mask & -mask
        then, otherwise = (self._all(turns + more, mask - bit) for more in (bit, 0))
        condition = replace(self.count, mask=bit)  # type: ignore[type-var]
        return (Branch(condition=condition, then=then, otherwise=otherwise),)

    __getstate__ = fields_alone

    def turn(self, number: int, turns: int) -> tuple[Step, ...]:
        """Return what one of so many turns does."""
        return tuple(step.in_turn(number, turns) for step in self.body)

    @property
    def blocks(self) -> Mapping[str, tuple[Step, ...]]:
        return {"body": self.body}

    def __str__(self) -> str:
        return f"repeat {self.count} times"


@dataclass(frozen=True, kw_only=True)
class OneWarp(StepBase):
    """One warp of a warpgroup takes steps, as those of a program of one warp; the others go on."""

    action: ClassVar[str] = "one_warp"
    warp: int
    body: tuple[Step, ...]  # Their registers no other warp has; no step is of all four warps

    def __post_init__(self) -> None:
        check_range(self.warp, 0, WARPGROUP - 1, "warp that takes steps alone")
        _check_nesting(self)

    @property
    def blocks(self) -> Mapping[str, tuple[Step, ...]]:
        return {"body": self.body}

    def __str__(self) -> str:
        return f"warp {self.warp} alone"


def _is(kind: type) -> Any:
    return lambda step: isinstance(step, kind)


accesses_registers: Callable[[object], TypeGuard[PlainAccess]] = _is(PlainAccess)
"""Whether a step loads or stores registers lane by lane, with no matrix instruction."""
changes_elements: Callable[[object], TypeGuard[Elementwise]] = _is(Elementwise)
copies_bytes: Callable[[object], TypeGuard[Copy]] = _is(Copy)
is_lane_code: Callable[[object], TypeGuard[LaneCode]] = _is(LaneCode)


def is_plain_load(step: Step) -> bool:
    """Whether a step loads an operand as it lies there: a fragment, or each lane's registers."""
    return step.writes is not None and bool(step.bytes_read) and not accesses_rows(step)


Straight = (
    AnyOp | PlainAccess | Elementwise | Scalar | LaneCode | Copy | Barrier | AsyncProduct
    | WarpgroupSync
)  # fmt: skip
"""The steps that hold no other steps."""

Step = Straight | Branch | Loop | OneWarp


def walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Iterate over steps and the steps inside branches and loops, in the order of the text."""
    for step in steps:
        yield step
        for inside in step.blocks.values():
            yield from walk(inside)
