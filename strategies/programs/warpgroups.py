"""Programs of a warpgroup: multiplications in flight, beside them what kernels do meanwhile.

What is done is drawn first, with no fences and waits; then `repaired` puts these where the ISA
asks for them, as late as it allows, so that as much as possible is in flight. What compilers have
been wrong about is drawn often: one value under two names, a wait between them; registers of A that
are made in loops, and used with others queued before them; several D in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis.internal.conjecture.data import ConjectureData

from oracle.descriptors import UNIT
from oracle.isa.forms import LANES, ROW_BYTES, WARPGROUP, Form
from oracle.isa.targets import Module
from oracle.program.operands import Buffer, Count, Place, Turn, Uniform, Word, most_of
from oracle.program.operations import set_registers
from oracle.program.program import MAX_WORK, MOST, Program, requirements, work
from oracle.program.steps import (
    Barrier,
    Copy,
    Loop,
    OneWarp,
    Op,
    PlainAccess,
    Step,
    plain_load,
    plain_store,
)
from oracle.program.warpgroup import THREADS, AsyncProduct, SharedTile
from strategies.features import OF_GROUPS, Feature, Focus, Has
from strategies.programs.builder import Builder, Dice, everything, families, operand_of, palette
from strategies.programs.bulk import ended, filled_in_bulk, in_bulk, in_stages
from strategies.programs.group_builder import (
    CONSTANTS,
    LINES,
    OPERATIONS,
    WORDS,
    Expression,
    GroupBuilder,
    added_to,
    expression_of,
    listed,
    made_of,
    placed,
    row_store,
    tile_of,
)
from strategies.programs.repairs import BlockDraft, Draft, begins, branch, repaired, sync

_ACCUMULATORS = (1, 2, 1, 3, 2, 4)
_EVENTS = (3, 5, 7, 11)
_COUNTS = (2, 3, 1, 4)
_MASK = 3  # Of the word that a loop runs to
_PENDING = (0, 1, 2, 1, 3, 4, 5, 6, 7)  # Groups that a wait leaves
_ASKED = (("ne", 0), ("more", 1), ("ne", 0), ("and", 1), ("lt", 1), ("lt", 2), ("ne", 1))
"""What scale-d asks of the turn of a loop: most often, as in kernels' main loops, for the first."""
_MOST_PARTS = 2
_REGISTERS = (96, 136, 96, 220)  # Of all values, the accumulator that a program is about apart
_FULL = 220
_SPARE = (40, 40, 64)
"""Registers beside every D, which may be in flight together, of a thread that is bound to few: at
-O3 36 are enough (240 programs). Of 240 so bound ptxas 13.5.37 refuses two at -O0 and one at -O3,
and spills of 20 there; bound for the largest D alone, two and one of 37 (2026-11-29)."""
_GRANULE = 8  # Registers that a thread is given at once
_OF_F64 = 64  # Those that ptxas 13.5.37 wants for an mma.sync of f64, at -O0 and -O3 (2026-11-30)
_MOST_COLUMNS = 640
"""Columns of D that are computed, all turns and multiplications together. With 1,280 the oracle
takes 1.5 and ptxas 13.0.88 1.15 times as long (128 programs, 2026-11-30)."""


def group_program(
    data: ConjectureData, focus: Focus, forms: tuple[Form, ...], module: Module,
    alone: Callable[[Builder], Program],
) -> Program:  # fmt: skip
    """Draw a program of a warpgroup that the ISA defines, about the form of the focus.

    `alone` draws a program of one warp, which one of the four takes, or all of them do.
    """
    known = palette(forms, module).group_products
    builder = GroupBuilder(data, known, alone=alone, focus=focus, module=module)
    dice = builder.dice()
    main = focus.form if focus.form is not None and focus.form.is_product else dice.one_of(known)
    builder.forms = known or [main]
    builder.most = max(_REGISTERS[dice.below(4)], main.words("d") + 10 * WORDS)
    _prepare(builder, main, dice)
    own = OF_GROUPS & focus.features
    builder.asked = [_part] if focus.features - own or Has.ONE_WARP in own else []
    builder.asked += [event for feature, event in _ASKED_FOR.items() if feature in own]
    parts: list[Draft] = []
    for _ in range(1 + dice.once_in(3)):
        dice, builder.here = builder.dice(), []
        kind, number = dice.below(6), dice.one_of(_EVENTS)
        count: Count = dice.one_of(_COUNTS)
        if not parts and own - {Has.ONE_WARP}:
            kind, count = 2, 2 + dice.below(2)
        by_word = kind in (1, 4)
        if by_word:
            count = Word(place=builder.word(), mask=_MASK if kind == 1 else 1)
        loops = 0 < kind < 4
        builder.turns = most_of(count) if loops else 1
        _events(builder, number, loops=loops)
        if loops:
            first, last = in_stages(builder, builder.here, builder.dice())
            loop = BlockDraft(Loop(count=count, body=()), {"body": builder.here})
            parts += [*first, loop, *last]
        elif kind:
            arms, builder.here = [builder.here], []
            _events(builder, dice.below(4), loops=False)
            parts.append(branch(count if by_word else dice.below(2), arms[0], builder.here))
        else:
            parts += builder.here
    ordered: list[Step] = [sync("proxy_fence"), Barrier()]
    before = _needed(builder, parts)
    filled = dice.below(12)
    if filled == 1:
        before, ordered = filled_in_bulk(builder, before, builder.dice())
    elif filled % 3 == 0:
        ordered = [sync("copy_commit"), sync("copy_wait"), *ordered]
        before = [
            replace(step, is_async=True) if isinstance(step, Copy) else step for step in before
        ]
    drafts: list[Draft] = [
        *before,
        *ordered,
        *parts,
        sync("wait_group"),
    ]
    for name, form in builder.d.items():
        drafts.append(_stored(builder, name, form.words("d")))
    drafts += [_stored(builder, name, WORDS) for name in (*builder.values, "y")]
    return _program(builder, drafts, _bound(builder))


def _needed(builder: GroupBuilder, parts: Sequence[Draft]) -> list[Step]:
    """Return what is before all parts, without what gives a D values that nothing reads.

    Compilers have nothing but scale-d that says where such a D begins.
    """
    needed = builder.before
    for name in builder.d:
        others = [step for step in needed if step.writes is None or step.writes.name != name]
        if name in builder.unset and begins(name, (*others, *parts)):
            needed = others
            builder.buffers = [one for one in builder.buffers if one.name != f"g{name}"]
    return needed


def _bound(builder: GroupBuilder) -> int:
    """Draw how many registers a thread has: of one program in four hardly more than it needs."""
    dice = builder.dice()
    if dice.below(4):
        return 0
    needed = sum(form.words("d") for form in builder.d.values()) + dice.one_of(_SPARE)
    needed = max(needed + len(builder.mbarriers), builder.fewest)
    return min(MOST, -(-needed // _GRANULE) * _GRANULE)


GROUP_WAYS = ("A in shared memory", "A in registers")
"""How `each_way` multiplies, in words; D of a way is in the buffer gd0, or gd1."""


def each_way(data: ConjectureData, form: Form) -> Program:
    """Draw a multiplication of a form in every way, one after the other, with its descriptors."""
    builder, drafts = GroupBuilder(data, [form]), list[Draft]()
    for number, a in enumerate(("", "x")):
        name, builder.before, builder.here = f"d{number}", [], []
        builder.load(name, form.words("d"))
        if a:
            builder.load(a, WORDS)
        _begin(builder, form, name, a, builder.dice())
        ordered: list[Step] = [sync("proxy_fence"), Barrier()]
        ended: list[Step] = [sync("commit_group"), sync("wait_group")]
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
    pattern = LINES * UNIT
    tile = SharedTile(place=Place(buffer="sb"), leading=pattern, stride=pattern * (line // UNIT))
    size = form.shape.n * line
    has_metadata: dict[str, Any] = {"e": "e", "selector": 0} if form.has_metadata else {}
    counts = {"a": WORDS, "c": form.words("d")} | dict.fromkeys(has_metadata and "e", 1)
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
        sync("proxy_fence"), Barrier(), sync("fence"),
        AsyncProduct(form=form, d="c", a="a", b_tile=tile, **has_metadata),
        sync("commit_group"), sync("wait_group"),
        plain_store(registers="c", count=counts["c"], place=Place(buffer="d"), lanes=THREADS),
    ]  # fmt: skip
    return Program(buffers=tuple(buffers), steps=tuple(steps), warps=4)


def _program(builder: GroupBuilder, drafts: list[Draft], registers: int = 0) -> Program:
    if builder.words:
        builder.buffers.append(Buffer(name="gwords", space="global", size=4 * builder.words))
    return Program(
        buffers=tuple(builder.buffers), steps=repaired(drafts), warps=4, registers=registers
    )


def _stored(builder: GroupBuilder, name: str, count: int) -> Step:
    size = THREADS * 4 * count
    builder.buffers.append(Buffer(name=f"o{name}", space="global", size=size))
    place = Place(buffer=f"o{name}")
    return plain_store(registers=name, count=count, place=place, lanes=THREADS)


def _prepare(builder: GroupBuilder, main: Form, dice: Dice) -> None:
    """Draw accumulators, values for A's, and what is added up beside."""
    builder.room(3 * WORDS)  # of the sum, and what is added to it
    builder.load("y", WORDS)
    number = _ACCUMULATORS[dice.below(len(_ACCUMULATORS))]
    if builder.most >= _FULL and dice.once_in(16):
        number = _FULL  # As many as there is room for
    for index in range(number):
        form = main
        if index and dice.below(2):
            left = builder.most - builder.registers - 2 * WORDS
            fitting = [one for one in builder.forms if one.words("d") <= left] or [main]
            alike = [one for one in fitting if one.types == main.types]
            form = dice.one_of(alike if alike and dice.below(2) else fitting)
        if builder.room(form.words("d")) or not index:
            name = f"d{index}"
            builder.d[name] = form
            if dice.below(3) == 0 or Has.UNSET in builder.focus.features:
                builder.fresh.add(name)
                builder.unset.add(name)
            if dice.below(3):
                builder.load(name, form.words("d"))
            else:
                count, bits = form.words("d"), 0
                builder.before.append(set_registers(destination=name, count=count, constant=bits))
    for index in range(1 + dice.below(3)):
        if builder.room(WORDS) or not index:
            builder.values.append(f"x{index}")
            builder.load(f"x{index}", WORDS)


def _events(builder: GroupBuilder, number: int, *, loops: bool) -> None:
    """Append what a part of a program does."""
    twin = loops and builder.dice().below(2) == 0
    for index in range(max(number // 4 if twin else number, 1 + len(builder.asked))):
        dice = builder.dice()
        event = _DONE[dice.below(len(_DONE))]
        if index and builder.asked:
            event = builder.asked.pop()
        (event if index else _multiply)(builder, dice)
    if twin:
        _twin(builder, builder.dice())
    builder.here.append(sync("commit_group"))
    if loops and builder.dice().below(4):
        _changed(builder, builder.dice())


def _value(builder: GroupBuilder, dice: Dice) -> None:
    """Append what makes registers of A; before it, perhaps, the same value for something else."""
    expression = expression_of(builder, dice)
    if dice.below(2):
        _seen(builder, dice, expression)
        if dice.below(2):
            _multiply(builder, builder.dice())
    _made(builder, dice, expression)


def _made(builder: GroupBuilder, dice: Dice, expression: Expression) -> str:
    """Append what makes registers of A, and return them: new ones, or some that there are."""
    again = builder.made and dice.below(2)
    name = dice.one_of(builder.made) if again else f"a{len(builder.made)}"
    if name not in builder.made:
        if not builder.room(WORDS):
            return dice.one_of(builder.made or builder.values)
        builder.made.append(name)
        # What no turn of a loop makes, or a later one, is there all the same.
        builder.before.append(made_of(expression, name))
    builder.here.append(made_of(expression, name))
    return name


def _twin(builder: GroupBuilder, dice: Dice) -> None:
    """Append a turn of a loop: a value for a sum, then the same for A, behind others in the queue.

    Between the two stands the wait for what the turn before has begun with that A; and each turn
    has another value. Compilers made one register of both (ptxas 12.4 to 13.2, 2026-11-28).
    """
    expression = expression_of(builder, dice)
    _seen(builder, dice, expression)
    name = _made(builder, dice, expression)
    for index in range(1 + dice.below(3)):
        _product(builder, builder.dice(), needed=index == 0)
    _product(builder, builder.dice(), name, needed=True)
    builder.here.append(sync("commit_group"))
    builder.here.append(made_of((expression[0], "xor.b32", dice.one_of(CONSTANTS)), expression[0]))


def _seen(builder: GroupBuilder, dice: Dice, expression: Expression | None = None) -> None:
    """Append a value in registers of its own, and what adds it to a sum."""
    builder.here.append(made_of(expression or expression_of(builder, dice), "t"))
    builder.here.append(added_to("y", listed("t")))


def _changed(builder: GroupBuilder, dice: Dice) -> None:
    """Append a change of a value, of which others are made."""
    name, constant = dice.one_of(builder.values), dice.one_of(CONSTANTS)
    builder.here.append(made_of((name, "xor.b32", constant), name))


def _read(builder: GroupBuilder, dice: Dice) -> None:
    """Append what reads a part of a D; or the same of it before and behind a multiplication."""
    name, kind = dice.one_of([*builder.d]), dice.below(4)
    if builder.d[name].words("d") < WORDS:
        return
    part = listed(name, WORDS * dice.below(builder.d[name].words("d") // WORDS))
    if kind:
        builder.here.append(added_to("y", part, dice.one_of(("add.u32", "xor.b32"))))
        return
    # Compilers took the value of before (ptxas 12.4 to 13.5, 2026-11-29).
    expression = " ".join(part), dice.one_of(OPERATIONS[:2]), dice.one_of(CONSTANTS)
    _seen(builder, dice, expression)
    _product(builder, builder.dice(), needed=True, d=name)
    _seen(builder, dice, expression)


def _given(builder: GroupBuilder, dice: Dice) -> None:
    """Append what gives registers of a D other values: all of it 0, or some of them the same value.

    Before the latter a multiplication does not add that D. Compilers gave such registers nothing,
    where a fence, a wait or a barrier came next (ptxas 12.4 to 13.1, 2026-11-29).
    """
    name, kind = dice.one_of([*builder.d]), dice.below(3)
    count = builder.d[name].words("d")
    if kind == 0 or count < WORDS:
        builder.here.append(set_registers(destination=name, count=count, constant=0))
        return
    _product(builder, builder.dice(), needed=True, d=name)
    product, part = builder.here.pop(), listed(name, WORDS * dice.below(count // WORDS))
    assert isinstance(product, AsyncProduct)
    code = made_of(expression_of(builder, dice), " ".join(part))
    same = replace(code, results=code.results[:1] * WORDS)
    builder.here += [replace(product, scale_d=0), same]


def _restage(builder: GroupBuilder, dice: Dice) -> None:
    """Append what overwrites a matrix in shared memory: copies, or what registers hold.

    What still multiplies it is waited for when the rest is known. Others are begun meanwhile.
    """
    copies = [step for step in builder.before if isinstance(step, Copy)]
    if not copies:
        return
    target, kind = dice.one_of(copies), dice.below(7)
    source = dice.one_of([one for one in copies if one.size >= target.size])
    name = target.destination.buffer
    builder.here.append(Barrier())  # Behind what else reads it
    ends: list[Step] = [sync("proxy_fence"), Barrier()]
    if kind == 6 or Has.BULK in builder.focus.features:
        builder.here += in_bulk(builder, target, source.source)
        ends = [ended(builder, target)]
    elif kind < 2:
        builder.here.append(replace(target, source=source.source))
    elif kind < 4:
        builder.here += [replace(target, source=source.source, is_async=True), sync("copy_commit")]
        ends.insert(0, sync("copy_wait"))
    elif kind == 4 and target.size >= THREADS * 4 * WORDS:
        value = dice.one_of([*builder.made, *builder.values, *builder.d])
        registers = value if value not in builder.d else " ".join(listed(value))
        if value not in builder.d or builder.d[value].words("d") >= WORDS:
            place = Place(buffer=name)
            builder.here.append(
                plain_store(registers=registers, count=WORDS, place=place, lanes=THREADS)
            )
    else:
        builder.here.append(row_store(builder, target, dice))
    # Between beginning and end nobody reads what is written.
    for _ in range(dice.below(3)):
        _product(builder, builder.dice(), but=name)
    builder.here += ends


def _fenced(builder: GroupBuilder, dice: Dice) -> None:
    """Append a fence, which need not be where one is asked for."""
    builder.here.append(sync(dice.one_of(("fence", "fence", "proxy_fence"))))


def _committed(builder: GroupBuilder, dice: Dice) -> None:
    """Append the end of a group: often of an empty one."""
    builder.here.append(sync("commit_group"))


def _waited(builder: GroupBuilder, dice: Dice) -> None:
    """Append a wait for all but some groups."""
    builder.here.append(sync("wait_group", _PENDING[dice.below(len(_PENDING))]))


def _queued(builder: GroupBuilder, dice: Dice) -> None:
    """Append up to eight groups, of which some are empty, and a wait for the oldest of them."""
    for _ in range(1 + dice.below(8)):
        if dice.below(4):
            _product(builder, builder.dice())
        builder.here.append(sync("commit_group"))
    _waited(builder, dice)


def _by_turn(builder: GroupBuilder, dice: Dice) -> None:
    """Append what is done in some turns of a loop, perhaps something else in the others."""
    if builder.turns == 1:
        return
    asks, number = dice.one_of(_ASKED)
    condition: Uniform = Turn(asks=asks, number=number)
    if dice.below(4) == 0 and Has.BY_TURN not in builder.focus.features:
        condition = Word(place=builder.word(), mask=1)
    outer, then, otherwise = builder.here, list[Draft](), list[Draft]()
    for builder.here, least in ((then, 1), (otherwise, 0)):
        for _ in range(least + dice.below(2)):
            inner = builder.dice()
            _IN_SOME[inner.below(len(_IN_SOME))](builder, inner)
    builder.here = outer
    outer.append(branch(condition, then, otherwise))


def _part(builder: GroupBuilder, dice: Dice) -> None:
    """Append what a program of one warp does, for one of the four, or for all that can."""
    if builder.alone is None or builder.parts == _MOST_PARTS:
        return
    prefix, kind, warp = f"w{builder.parts}", dice.below(8), dice.below(WARPGROUP)
    kind = kind // 2 if Has.ONE_WARP in builder.focus.features else kind
    builder.parts += 1
    known, features = everything(builder.module), set[Feature]()
    together = kind >= 4
    if kind == 0:
        features = {Has.ONE_MULTIPLICATION}
    else:
        stores = () if together else known.row_stores  # else all would store the same rows
        known = replace(known, fragment_products=(), row_stores=stores)
        features = {*builder.focus.features} - OF_GROUPS
        features = {Has.LANES_ALONE} if kind in (1, 4) else features
    threads, focus = THREADS if together else LANES, Focus(features=frozenset(features))
    drawn = Builder(
        builder.data, known, known, focus, builder.module, prefix=prefix, threads=threads
    )  # fmt: skip
    program = builder.alone(drawn)
    if builder.turns * work(program.steps) > MAX_WORK // 3:  # two of them leave a third
        return
    if any(form.is_product and form.a_type.name == "f64" for form in requirements(program)):
        builder.fewest = _OF_F64
    builder.buffers += program.buffers
    builder.shared += program.shared_bytes
    if builder.turns > 1:  # else it could race with itself in the turn before
        builder.here.append(Barrier())
    steps = program.steps
    builder.here += steps if together else [OneWarp(warp=warp, body=steps)]


def _mixed(builder: GroupBuilder, dice: Dice) -> None:
    """Append an mma.sync of all four warps, of registers that others multiply, and add its D."""
    known = [
        form
        for form in everything(builder.module).register_products
        if not (form.has_metadata or form.is_scaled or form.a_type.name == "f64")
    ]
    form = dice.one_of(dice.one_of(families(tuple(known))))
    names = [*builder.values, *builder.made]
    names += [name for name, one in builder.d.items() if one.words("d") >= WORDS]
    given = {}
    for operand in "abc":
        held = operand_of(form, operand)
        name = dice.one_of(names)
        given[operand] = " ".join((listed(name) * 4)[: held.registers])
    made = operand_of(form, "d").registers
    if builder.room(made):
        builder.here.append(Op.of(form, d=f"m{made}", **given))
        builder.here.append(added_to("y", [f"m{made}.{index % made}" for index in range(WORDS)]))


def _rows(builder: GroupBuilder, dice: Dice) -> None:
    """Append an ldmatrix of a matrix in shared memory, and add what it loads."""
    forms = [
        form for form in everything(builder.module).plain_row_loads
        if operand_of(form).registers == WORDS
    ]  # fmt: skip
    tiles = [buffer for buffer in builder.buffers if buffer.name in builder.staged]
    if not tiles:
        return
    buffer, first, step = dice.one_of(tiles), dice.below(64), dice.below(64)
    rows = buffer.size // ROW_BYTES
    addresses = tuple(ROW_BYTES * ((first + lane * step) % rows) for lane in range(LANES))
    form = dice.one_of(forms)
    builder.here.append(Op.of(form, registers="t", buffer=buffer.name, addresses=addresses))
    builder.here.append(added_to("y", listed("t")))


def _turned(builder: GroupBuilder, dice: Dice) -> None:
    """Append a movmatrix of a value, and add what it gives."""
    (form,) = everything(builder.module).transpositions
    name = dice.one_of([*builder.made, *builder.values])
    builder.here.append(Op.of(form, source=name, destination="t", count=WORDS))
    builder.here.append(added_to("y", listed("t")))


def _multiply(builder: GroupBuilder, dice: Dice) -> None:
    """Append a multiplication, or several in a row."""
    for _ in range((1, 1, 2, 1, 3, 1, 2, 4)[dice.below(8)]):
        _product(builder, builder.dice())


def _product(
    builder: GroupBuilder,
    dice: Dice,
    a: str = "",
    *,
    needed: bool = False,
    but: str = "",
    d: str = "",
) -> None:
    """Append a multiplication, of registers of A or D if they are given; if it is short enough.

    `but` is a buffer that it may not read.
    """
    name = dice.one_of([d] if d else [*builder.d])
    form = builder.d[name]
    columns = form.shape.n * builder.turns
    if builder.columns and not needed and builder.columns + columns > _MOST_COLUMNS:
        return
    builder.columns += columns
    if not a and dice.below(2):
        a = _a_registers(builder, name, dice)
    _begin(builder, form, name, a, dice, but)


def _begin(builder: GroupBuilder, form: Form, d: str, a: str, dice: Dice, but: str = "") -> None:
    """Append a multiplication; A is in shared memory if it has no registers."""
    a_tile = None if a else tile_of(builder, form, "a", builder.dice(), but)
    b_tile = tile_of(builder, form, "b", builder.dice(), but)
    scale_d: Uniform = (1, 3, 1, 0, 1, 3, 1, 2)[dice.below(8)]
    if d in builder.fresh:
        builder.fresh.remove(d)
        scale_d = Turn(asks="ne", number=0) if builder.turns > 1 else 0
    elif scale_d == 2:
        scale_d = Word(place=builder.word(), mask=1)
    signed = "imm-scale-a" in form.operands
    scales = [-1 if signed and dice.below(8) == 0 else 1 for _ in "ab"]
    chosen = placed(builder, form, dice)
    if scale_d == 3:
        asks, number = dice.one_of(_ASKED)
        scale_d = Turn(asks=asks, number=number) if builder.turns > 1 else 1
    builder.here.append(
        AsyncProduct(
            form=form, d=d, a=a, a_tile=a_tile, b_tile=b_tile, scale_d=scale_d,
            scale_a=scales[0], scale_b=scales[1], **chosen,
        )
    )  # fmt: skip


def _a_registers(builder: GroupBuilder, d: str, dice: Dice) -> str:
    """Choose the registers of an A: a value, some of it twice or in another order, or another D."""
    names = [*builder.made, *builder.values]
    name, kind = dice.one_of(names), dice.below(12)
    if kind == 0:
        return " ".join(listed(name)[::-1])
    if kind == 1:
        return " ".join([listed(name)[dice.below(4)] for _ in range(WORDS)])
    if kind == 2:
        others = [one for one, form in builder.d.items() if one != d and form.words("d") >= WORDS]
        if others:
            one = dice.one_of(others)
            return " ".join(listed(one, WORDS * dice.below(builder.d[one].words("d") // WORDS)))
    return name


_Event = Callable[[GroupBuilder, Dice], None]
_DONE: tuple[_Event, ...] = (
    *(_multiply,) * 6, *(_committed,) * 2, *(_value,) * 3, *(_queued,) * 2, *(_part,) * 2,
    _seen, _changed, _read, _given, _waited, _restage, _mixed, _rows, _turned, _fenced,
    *(_by_turn,) * 2,
)  # fmt: skip
"""What a program does in no particular order; all are equally likely."""
_IN_SOME = (*_DONE[:-2], *(_waited,) * 3, *(_restage,) * 2)
_ASKED_FOR = {Has.BY_TURN: _by_turn, Has.STAGES: _restage, Has.BULK: _restage}
