"""Programs of a warpgroup: multiplications in flight, beside them what kernels do meanwhile.

What is done is drawn first, with no fences and waits; then `_repaired` puts these where the ISA
asks for them, as late as it allows, so that as much as possible is in flight. What compilers have
been wrong about is drawn often: one value under two names, a wait between them; registers of A that
are made in loops, and used with others queued before them; several D in turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from hypothesis.internal.conjecture.data import ConjectureData

from oracle.descriptors import UNIT, byte_addresses
from oracle.isa.forms import Form
from oracle.isa.lookup import is_available, selectors_of
from oracle.isa.targets import Module
from oracle.program.breaches import Breach
from oracle.program.lane_code import Assign, LaneCode
from oracle.program.operands import Buffer, Place, Register, Uniform, Word
from oracle.program.operations import set_registers
from oracle.program.program import Program
from oracle.program.steps import Barrier, Copy, Loop, PlainAccess, Step, plain_load, plain_store
from oracle.program.warpgroup import (
    MAX_PENDING,
    THREADS,
    WAYS,
    AsyncProduct,
    InFlight,
    SharedTile,
    WarpgroupSync,
)
from strategies.features import Focus
from strategies.programs.builder import DIGITS, Dice

_WORDS = 4  # Registers of A, and of every other value
_MOST_REGISTERS = 216  # Of all values, of the 255 that a thread has
_MOST_SHARED = 160 << 10  # Bytes of shared memory
_LINES = 8  # Of a pattern (9.7.15.5.1.2)
_SWIZZLES = (128, 16, 64, 32)
_ACCUMULATORS = (1, 2, 1, 3, 2, 4)
_EVENTS = (4, 7, 10, 14)
_COUNTS = (2, 3, 1, 4)
_MASK = 3  # Of the word that a loop runs to
_CONSTANTS = (0x0101_0101, 0x8000_8000, 0x0001_0001, 0x8080_8080, 0x00FF_00FF)
_OPERATIONS = ("xor.b32", "and.b32", "xor.b32", "prmt.b32")
_SELECTIONS = (0x1032, 0x3210, 0x0123, 0x2301)
_MOST_PASSES = 8
_MOST_COLUMNS = 1280
"""Columns of D that are computed, all turns and multiplications together: an oracle takes a second
for 8 images of so many (2026-11)."""


@dataclass
class _LoopDraft:
    count: Uniform
    body: list[_Draft] = field(default_factory=list)


_Draft: TypeAlias = "Step | _LoopDraft"
_Expression = tuple[str, str, int]
"""A value, and what is done with it."""


@dataclass
class _GroupBuilder:
    """A program of a warpgroup while it is drawn."""

    data: ConjectureData
    forms: Sequence[Form]
    buffers: list[Buffer] = field(default_factory=list)
    before: list[Step] = field(default_factory=list)
    here: list[_Draft] = field(default_factory=list)
    tiles: dict[object, list[SharedTile]] = field(default_factory=dict)
    d: dict[str, Form] = field(default_factory=dict)
    values: list[str] = field(default_factory=list)  # That are loaded, four registers each
    made: list[str] = field(default_factory=list)  # That are made for A's
    metadata: dict[str, str] = field(default_factory=dict)
    expressions: list[_Expression] = field(default_factory=list)
    registers: int = 0
    shared: int = 0
    words: int = 0
    columns: int = 0  # of D's that are computed
    turns: int = 1  # of what is drawn now

    def dice(self) -> Dice:
        """Draw the digits of a group of decisions."""
        return Dice(self.data.draw_integer(0, DIGITS))

    def room(self, registers: int) -> bool:
        """Take registers, if there are so many."""
        fits = self.registers + registers <= _MOST_REGISTERS
        self.registers += registers if fits else 0
        return fits

    def twins(self, name: str, size: int) -> Place:
        """Return memory in a block, filled from a buffer of the image."""
        self.buffers += [
            Buffer(name=f"g{name}", space="global", size=size),
            Buffer(name=f"s{name}", space="shared", size=size, alignment=256),
        ]
        self.shared += -(-size // 1024) * 1024
        self.before.append(
            Copy(source=Place(buffer=f"g{name}"), destination=Place(buffer=f"s{name}"), size=size)
        )
        return Place(buffer=f"s{name}")

    def load(self, name: str, count: int) -> None:
        """Load a value of each thread."""
        size = THREADS * 4 * count
        self.buffers.append(Buffer(name=f"g{name}", space="global", size=size))
        place = Place(buffer=f"g{name}")
        self.before.append(plain_load(registers=name, count=count, place=place, lanes=THREADS))

    def word(self) -> Place:
        """Return a word of the image."""
        self.words += 1
        return Place(buffer="gwords", offset=4 * (self.words - 1))


def group_program(
    data: ConjectureData, focus: Focus, forms: Sequence[Form], module: Module
) -> Program:
    """Draw a program of a warpgroup that the ISA defines, about the form of the focus."""
    known = [one for one in forms if one.warps > 1 and one.is_product and is_available(one, module)]
    builder = _GroupBuilder(data, known)
    dice = builder.dice()
    main = focus.form if focus.form is not None and focus.form.is_product else dice.one_of(known)
    _prepare(builder, main, dice)
    parts: list[_Draft] = []
    for _ in range(1 + dice.once_in(3)):
        dice, builder.here = builder.dice(), []
        kind, number = dice.below(4), dice.one_of(_EVENTS)
        count: Uniform = dice.one_of(_COUNTS)
        if kind == 1:
            count = Word(place=builder.word(), mask=_MASK)
        builder.turns = 1 if kind == 0 else _MASK if isinstance(count, Word) else count
        _events(builder, number, loops=kind > 0)
        parts += builder.here if kind == 0 else [_LoopDraft(count, builder.here)]
    ordered: list[Step] = [_sync("proxy_fence"), Barrier()]
    drafts: list[_Draft] = [
        *builder.before,
        *ordered,
        *parts,
        _sync("commit_group"),
        _sync("wait_group"),
    ]
    for name, form in builder.d.items():
        drafts.append(_stored(builder, name, form.words("d")))
    drafts += [_stored(builder, name, _WORDS) for name in (*builder.values, "y")]
    return _program(builder, drafts)


GROUP_WAYS = ("A in shared memory", "A in registers")
"""How `each_way` multiplies, in words; D of a way is in the buffer gd0, or gd1."""


def each_way(data: ConjectureData, form: Form) -> Program:
    """Draw a multiplication of a form in every way, one after the other, with its descriptors."""
    builder, drafts = _GroupBuilder(data, [form]), list[_Draft]()
    for number, a in enumerate(("", "x")):
        name, builder.before, builder.here = f"d{number}", [], []
        builder.load(name, form.words("d"))
        if a:
            builder.load(a, _WORDS)
        _begin(builder, form, name, a, builder.dice())
        ordered: list[Step] = [_sync("proxy_fence"), Barrier()]
        ended: list[Step] = [_sync("commit_group"), _sync("wait_group")]
        (load,) = (
            step
            for step in builder.before
            if isinstance(step, PlainAccess) and step.registers == name
        )
        drafts += [*builder.before, *ordered, *builder.here, *ended, replace(load, loads=False)]
    return _program(builder, drafts)


def plain_multiplication(form: Form) -> Program:
    """Return a multiplication of A in registers and B in shared memory, by rows of 16 bytes.

    Buffers are "a", "b", "c" (D before it), "d", and "e" of metadata; registers are called alike.
    """
    line = form.matrix("b").rows * form.b_type.bits // 8
    pattern = _LINES * UNIT
    tile = SharedTile(place=Place(buffer="sb"), leading=pattern, stride=pattern * (line // UNIT))
    size = form.shape.n * line
    has_metadata: dict[str, Any] = {"e": "e", "selector": 0} if form.has_metadata else {}
    counts = {"a": _WORDS, "c": form.words("d")} | dict.fromkeys(has_metadata and "e", 1)
    buffers = [Buffer(name=name, space="global", size=THREADS * 4 * count)
               for name, count in (*counts.items(), ("d", counts["c"]))]  # fmt: skip
    buffers += [Buffer(name="b", space="global", size=size)]
    buffers += [Buffer(name="sb", space="shared", size=size)]
    steps: list[Step] = [
        plain_load(registers=name, count=count, place=Place(buffer=name), lanes=THREADS)
        for name, count in counts.items()
    ]
    steps += [
        Copy(source=Place(buffer="b"), destination=Place(buffer="sb"), size=size),
        _sync("proxy_fence"), Barrier(), _sync("fence"),
        AsyncProduct(form=form, d="c", a="a", b_tile=tile, **has_metadata),
        _sync("commit_group"), _sync("wait_group"),
        plain_store(registers="c", count=counts["c"], place=Place(buffer="d"), lanes=THREADS),
    ]  # fmt: skip
    return Program(buffers=tuple(buffers), steps=tuple(steps), warps=4)


def _program(builder: _GroupBuilder, drafts: list[_Draft]) -> Program:
    if builder.words:
        builder.buffers.append(Buffer(name="gwords", space="global", size=4 * builder.words))
    return Program(buffers=tuple(builder.buffers), steps=_repaired(drafts), warps=4)


def _sync(kind: str, pending: int = 0) -> WarpgroupSync:
    return WarpgroupSync(kind=kind, pending=pending)


def _stored(builder: _GroupBuilder, name: str, count: int) -> Step:
    size = THREADS * 4 * count
    builder.buffers.append(Buffer(name=f"o{name}", space="global", size=size))
    place = Place(buffer=f"o{name}")
    return plain_store(registers=name, count=count, place=place, lanes=THREADS)


def _prepare(builder: _GroupBuilder, main: Form, dice: Dice) -> None:
    """Draw accumulators, values for A's, and what is added up beside."""
    builder.room(3 * _WORDS)  # of the sum, and what is added to it
    builder.load("y", _WORDS)
    for index in range(_ACCUMULATORS[dice.below(len(_ACCUMULATORS))]):
        form = main
        if index and dice.below(2):
            alike = [one for one in builder.forms if one.types == main.types]
            form = dice.one_of(alike if dice.below(2) else [*builder.forms])
        if builder.room(form.words("d")) or not index:
            name = f"d{index}"
            builder.d[name] = form
            if dice.below(3):
                builder.load(name, form.words("d"))
            else:
                count, bits = form.words("d"), 0
                builder.before.append(set_registers(destination=name, count=count, constant=bits))
    for index in range(1 + dice.below(3)):
        if builder.room(_WORDS) or not index:
            builder.values.append(f"x{index}")
            builder.load(f"x{index}", _WORDS)


def _events(builder: _GroupBuilder, number: int, *, loops: bool) -> None:
    """Append what a part of a program does."""
    twin = loops and builder.dice().below(2) == 0
    for index in range(number // 4 if twin else number):
        dice = builder.dice()
        kind = dice.below(16)
        if index == 0 or kind < 6:
            _multiply(builder, dice)
        elif kind < 8:
            builder.here.append(_sync("commit_group"))
        elif kind < 11:
            _value(builder, dice)
        elif kind < 12:
            _seen(builder, dice)
        elif kind < 13:
            _changed(builder, dice)
        elif kind < 14:
            _read(builder, dice)
        elif kind < 15:
            builder.here.append(_sync("wait_group", dice.below(4)))
        else:
            _restage(builder, dice)
    if twin:
        _twin(builder, builder.dice())
    builder.here.append(_sync("commit_group"))
    if loops and builder.dice().below(4):
        _changed(builder, builder.dice())


def _code(expression: _Expression, destination: str) -> LaneCode:
    source, opcode, constant = expression
    results = tuple(f"r{_WORDS + index}" for index in range(_WORDS))
    sources: tuple[int, ...] = (0, constant) if opcode == "prmt.b32" else (constant,)
    code = tuple(
        Assign(opcode=opcode, destinations=(results[index],), sources=(f"r{index}", *sources))
        for index in range(_WORDS)
    )
    return LaneCode(
        source=source, count=_WORDS, destination=destination, results=results, code=code
    )


def _added(name: str, registers: Sequence[str], opcode: str = "add.u32") -> LaneCode:
    """Return what adds registers to a value."""
    own = [f"{name}.{index}" for index in range(_WORDS)]
    results = tuple(f"r{2 * _WORDS + index}" for index in range(_WORDS))
    code = tuple(
        Assign(
            opcode=opcode,
            destinations=(results[index],),
            sources=(f"r{index}", f"r{index + _WORDS}"),
        )
        for index in range(_WORDS)
    )
    return LaneCode(
        source=" ".join((*own, *registers)), count=2 * _WORDS, destination=name, results=results,
        code=code,
    )  # fmt: skip


def _listed(name: str, first: int = 0) -> list[str]:
    return [f"{name}.{first + index}" for index in range(_WORDS)]


def _expression(builder: _GroupBuilder, dice: Dice) -> _Expression:
    """Draw what is done with a value: every second time what was done before."""
    if builder.expressions and dice.below(2):
        return dice.one_of(builder.expressions)
    opcode = dice.one_of(_OPERATIONS)
    constant = dice.one_of(_SELECTIONS if opcode == "prmt.b32" else _CONSTANTS)
    constant = 0x7FFF_7FFF if opcode == "and.b32" else constant
    made = dice.one_of(builder.values), opcode, constant
    builder.expressions.append(made)
    return made


def _value(builder: _GroupBuilder, dice: Dice) -> None:
    """Append what makes registers of A; before it, perhaps, the same value for something else."""
    expression = _expression(builder, dice)
    if dice.below(2):
        _seen(builder, dice, expression)
        if dice.below(2):
            _multiply(builder, builder.dice())
    _made(builder, dice, expression)


def _made(builder: _GroupBuilder, dice: Dice, expression: _Expression) -> str:
    """Append what makes registers of A, and return them: new ones, or some that there are."""
    again = builder.made and dice.below(2)
    name = dice.one_of(builder.made) if again else f"a{len(builder.made)}"
    if name not in builder.made:
        if not builder.room(_WORDS):
            return dice.one_of(builder.made or builder.values)
        builder.made.append(name)
        # What no turn of a loop makes, or a later one, is there all the same.
        builder.before.append(_code(expression, name))
    builder.here.append(_code(expression, name))
    return name


def _twin(builder: _GroupBuilder, dice: Dice) -> None:
    """Append a turn of a loop: a value for a sum, then the same for A, behind others in the queue.

    Between the two stands the wait for what the turn before has begun with that A; and each turn
    has another value. Compilers made one register of both (ptxas 12.4 to 13.2, 2026-11-28).
    """
    expression = _expression(builder, dice)
    _seen(builder, dice, expression)
    name = _made(builder, dice, expression)
    for index in range(1 + dice.below(3)):
        _product(builder, builder.dice(), needed=index == 0)
    _product(builder, builder.dice(), name, needed=True)
    builder.here.append(_sync("commit_group"))
    builder.here.append(_code((expression[0], "xor.b32", dice.one_of(_CONSTANTS)), expression[0]))


def _seen(builder: _GroupBuilder, dice: Dice, expression: _Expression | None = None) -> None:
    """Append a value in registers of its own, and what adds it to a sum."""
    builder.here.append(_code(expression or _expression(builder, dice), "t"))
    builder.here.append(_added("y", _listed("t")))


def _changed(builder: _GroupBuilder, dice: Dice) -> None:
    """Append a change of a value, of which others are made."""
    name = dice.one_of(builder.values)
    constant = dice.one_of(_CONSTANTS)
    builder.here.append(_code((name, "xor.b32", constant), name))


def _read(builder: _GroupBuilder, dice: Dice) -> None:
    """Append what reads a part of a D."""
    name = dice.one_of([*builder.d])
    if builder.d[name].words("d") >= _WORDS:
        first = _WORDS * dice.below(builder.d[name].words("d") // _WORDS)
        builder.here.append(_added("y", _listed(name, first), dice.one_of(("add.u32", "xor.b32"))))


def _restage(builder: _GroupBuilder, dice: Dice) -> None:
    """Append what overwrites a matrix in shared memory with what it holds, or another with it."""
    copies = [step for step in builder.before if isinstance(step, Copy)]
    if not copies:
        return
    target = dice.one_of(copies)
    source = dice.one_of([one for one in copies if one.size >= target.size])
    builder.here += [
        _sync("commit_group"), _sync("wait_group"), Barrier(),
        replace(target, source=source.source), _sync("proxy_fence"), Barrier(),
    ]  # fmt: skip


def _multiply(builder: _GroupBuilder, dice: Dice) -> None:
    """Append a multiplication, or several in a row."""
    for _ in range((1, 1, 2, 1, 3, 1, 2, 4)[dice.below(8)]):
        _product(builder, builder.dice())


def _product(builder: _GroupBuilder, dice: Dice, a: str = "", *, needed: bool = False) -> None:
    """Append a multiplication, of registers of A if they are given; if it is short enough."""
    name = dice.one_of([*builder.d])
    form = builder.d[name]
    columns = form.shape.n * builder.turns
    if builder.columns and not needed and builder.columns + columns > _MOST_COLUMNS:
        return
    builder.columns += columns
    if not a and dice.below(2):
        a = _a_registers(builder, name, dice)
    _begin(builder, form, name, a, dice)


def _begin(builder: _GroupBuilder, form: Form, d: str, a: str, dice: Dice) -> None:
    """Append a multiplication; A is in shared memory if it has no registers."""
    a_tile = None if a else _tile(builder, form, "a", builder.dice())
    b_tile = _tile(builder, form, "b", builder.dice())
    scale_d: Uniform = (1, 1, 1, 0, 1, 1, 1, 2)[dice.below(8)]
    if scale_d == 2:
        scale_d = Word(place=builder.word(), mask=1)
    signed = "imm-scale-a" in form.operands
    scales = [-1 if signed and dice.below(8) == 0 else 1 for _ in "ab"]
    builder.here.append(
        AsyncProduct(
            form=form, d=d, a=a, a_tile=a_tile, b_tile=b_tile, scale_d=scale_d,
            scale_a=scales[0], scale_b=scales[1], **_placed(builder, form, dice),
        )
    )  # fmt: skip


def _placed(builder: _GroupBuilder, form: Form, dice: Dice) -> dict[str, Any]:
    """Return metadata and selector of a sparse A, if it is one."""
    if not form.has_metadata:
        return {}
    kind = form.a_type.name
    if kind not in builder.metadata:
        builder.metadata[kind] = f"e{len(builder.metadata)}"
        builder.room(1)
        builder.load(builder.metadata[kind], 1)
    selector = dice.one_of([*selectors_of(form)])
    return {"e": builder.metadata[kind], "selector": selector}


def _a_registers(builder: _GroupBuilder, d: str, dice: Dice) -> str:
    """Choose the registers of an A: a value, some of it twice or in another order, or another D."""
    names = [*builder.made, *builder.values]
    name, kind = dice.one_of(names), dice.below(12)
    if kind == 0:
        return " ".join(_listed(name)[::-1])
    if kind == 1:
        return " ".join([_listed(name)[dice.below(4)] for _ in range(_WORDS)])
    if kind == 2:
        others = [one for one, form in builder.d.items() if one != d and form.words("d") >= _WORDS]
        if others:
            one = dice.one_of(others)
            return " ".join(_listed(one, _WORDS * dice.below(builder.d[one].words("d") // _WORDS)))
    return name


def _tile(builder: _GroupBuilder, form: Form, operand: str, dice: Dice) -> SharedTile:
    """Choose where a multiplicand lies: where one of its kind does, or in memory of its own."""
    matrix = form.matrix(operand)
    lines, depth = matrix.rows, matrix.columns
    if operand == "b":
        lines, depth = depth, lines
    key = operand, lines, depth, matrix.type.name
    known = builder.tiles.setdefault(key, [])
    built = dice.one_of(WAYS)
    if known and (dice.below(2) or builder.shared > _MOST_SHARED // 2):
        return replace(dice.one_of(known), built=built)
    line = depth * matrix.type.bits // 8  # bytes along K
    transposed = "imm-trans-b" in form.operands and dice.below(2) == 1
    swizzle = _SWIZZLES[dice.below(4)]
    pattern = _LINES * swizzle
    near, far = pattern, pattern
    if not transposed:
        near = pattern if swizzle > UNIT else _LINES * UNIT
        far = near * max(1, line // swizzle) if swizzle == UNIT else pattern
        if swizzle > UNIT and line > swizzle:
            near = pattern * -(-lines // _LINES)
    else:
        far = pattern * -(-depth // _LINES)
    # By what the page calls them, strides of bytes along both ways.
    leading, stride = (near, far) if not transposed or swizzle == UNIT else (far, near)
    kind = dice.below(8)
    if kind == 1:
        leading, stride = leading + UNIT * dice.below(8), stride + UNIT * dice.below(8)
    elif kind == 2:
        leading, stride = UNIT * dice.below(32), UNIT * dice.below(32)
    start = (0, 0, 0, 32, 64, 96, 16, 1024)[dice.below(8)] if swizzle > UNIT or kind == 2 else 0
    base = dice.below(8) if dice.below(8) == 0 else 0
    tile = SharedTile(
        place=Place(buffer="s", offset=start), leading=leading, stride=stride, swizzle=swizzle,
        base_offset=base if swizzle > UNIT else 0, transposed=transposed, built=built,
    )  # fmt: skip
    last = int(byte_addresses(matrix, tile.descriptor, transposed).max())
    size = -(-(last + 1) // 256) * 256
    if known and builder.shared + size > _MOST_SHARED:
        return replace(dice.one_of(known), built=built)
    number = sum(map(len, builder.tiles.values()))
    place = builder.twins(f"{operand}{number}", size)
    known.append(replace(tile, place=replace(place, offset=start)))
    return known[-1]


# What the ISA asks for


def _repaired(drafts: list[_Draft]) -> tuple[Step, ...]:
    """Return steps with the fences, commits and waits that they need."""
    for _ in range(_MOST_PASSES):
        changed, _ = _repair(drafts, InFlight.of(0, lambda _: 0))
        if not changed:
            break
    return _steps(drafts)


def _repair(items: list[_Draft], flight: InFlight) -> tuple[bool, InFlight]:
    """Insert what is lacking; return whether anything was, and the state behind the items.

    A commit that is inserted changes what the waits behind it leave pending, so that it takes
    another pass.
    """
    changed, index = False, 0
    while index < len(items):
        item = items[index]
        if isinstance(item, _LoopDraft):
            for _ in range(2):
                before = flight.copy() if isinstance(item.count, Word) else None
                also, flight = _repair(item.body, flight)
                changed |= also
                if before is not None:
                    flight = before.joined(flight)
        elif isinstance(item, WarpgroupSync):
            flight.synchronise(item)
        else:
            registers = {one for use in item.uses for one in use.registers}
            # A multiplication begins where nothing is wrong with it.
            while True:
                begun = flight.touch(registers)
                if isinstance(item, AsyncProduct):
                    begun = flight.begin(item)
                wrong = next(begun, None)
                if wrong is None:
                    break
                fix = _sync("fence")
                if wrong.cause is Breach.IN_FLIGHT:
                    age = _age(flight.ages, registers)
                    fix = _sync("commit_group") if age < 0 else _sync("wait_group", age)
                flight.synchronise(fix)
                items.insert(index, fix)
                changed, index = True, index + 1
        index += 1
    return changed, flight


def _age(ages: dict[AsyncProduct, int], registers: set[Register]) -> int:
    """Return how many groups are newer than the newest that uses some registers."""
    own = (
        age
        for step, age in ages.items()
        if any(not registers.isdisjoint(use.registers) for use in step.uses)
    )
    return min((*own, MAX_PENDING))


def _steps(items: Sequence[_Draft]) -> tuple[Step, ...]:
    return tuple(
        Loop(count=item.count, body=_steps(item.body)) if isinstance(item, _LoopDraft) else item
        for item in items
    )
