"""A program while it is drawn: its memory, its live values, what is still asked for, and its dice.

Decisions that belong together are the digits of one integer, because a draw costs more than they
do; digit 0 is the plainest choice. Programs are defined by construction: a barrier stands wherever
two accesses would race, and a value is offered only where every path has written it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeVar

from hypothesis.internal.conjecture.data import ConjectureData

from oracle.isa.forms import LANES, Form, Format, Matrix
from oracle.isa.lookup import FORMS, MMA_FORMS, is_available
from oracle.isa.targets import Module, PtxVersion
from oracle.layouts import Tile
from oracle.models import model_for
from oracle.program.operands import (
    Buffer,
    Fragment,
    Held,
    Operation,
    Place,
    Registers,
    Span,
    operations,
)
from oracle.program.program import Program
from oracle.program.steps import Barrier, Copy, Step, operands_of
from strategies.features import (
    LIVE,
    OF_LANES,
    OF_OPERANDS,
    OF_OPERATION,
    Feature,
    Focus,
    Has,
    of_form,
)

VALUED_FORMS: tuple[Form, ...] = tuple(
    form for form in MMA_FORMS if not (form.satfinite and form.d_type.is_float)
)
"""The 138 forms whose results are documented; `.satfinite` of floats went with PTX ISA 6.5."""
_VALUED = frozenset(VALUED_FORMS)
_PACKING_SINCE, _PACKING_TARGET = PtxVersion(7, 0), 80
"""First version and target with cvt.rn.{f16x2,bf16x2}.f32 (PTX ISA 9.7.9.23)."""


@cache
def operand_of(form: Form, operand: str = "registers") -> Held:
    """Return what an operand of a step holds."""
    return next(holds for field, holds, _ in operands_of(form) if field == operand)


@dataclass(frozen=True, kw_only=True)
class Palette:
    """The forms from which programs for a target are put together."""

    fragment_products: tuple[Form, ...]
    """Multiplications of fragments that were asked for; if none was, all that the target has."""
    register_products: tuple[Form, ...]  # Multiplications of registers with a known layout
    row_loads: tuple[Form, ...]
    plain_row_loads: tuple[Form, ...]  # Those of 16-bit elements
    row_stores: tuple[Form, ...]
    transpositions: tuple[Form, ...]
    group_products: tuple[Form, ...]  # Multiplications of a warpgroup
    spaces: tuple[str, ...]  # State spaces of wmma.load and wmma.store that the version has
    packs: bool  # Whether pairs of f32 can be converted into one register
    taking_as_c: Mapping[Held, Sequence[Form]]  # Multiplications by what they take as C


@cache
def families(forms: tuple[Form, ...]) -> tuple[tuple[Form, ...], ...]:
    """Group forms by what they compute, whatever their shapes and layouts."""
    # Else those of f16 would be most of what is drawn.
    groups: dict[tuple[object, ...], list[Form]] = {}
    for form in forms:
        types: tuple[object, ...] = (form.a_type, form.b_type, form.c_type, form.d_type)
        if form.kind:  # of 25 pairs of narrow types
            types = form.kind, form.d_type
        key = (*types, form.satfinite, form.op, form.rounding, form.operands)
        groups.setdefault(key, []).append(form)
    return tuple(map(tuple, groups.values()))


def is_valued(form: Form, module: Module) -> bool:
    """Tell whether a module has a form that a program can be about, and its values are known."""
    # Not cached: a model, of few forms perhaps, may be put into the place of another one.
    return _has_program(form, module) and (
        not form.is_product or model_for(module.target.name).judges(form)
    )


@cache
def _has_program(form: Form, module: Module) -> bool:
    if not form.is_main or not is_available(form, module):
        return False
    if form.warps > 1:
        return True
    if form.opaque:
        return form in _VALUED
    return not form.is_store or form.texts["type"] == "b16"


def everything(module: Module) -> Palette:
    """Return what programs may be made of where nobody asks for forms."""
    return _everything(module, model_for(module.target.name).digest)


@cache
def _everything(module: Module, model: str) -> Palette:
    return palette(tuple(form for form in FORMS if is_valued(form, module)), module)


_PALETTES = 64
_palettes: dict[tuple[int, Module], tuple[tuple[Form, ...], Palette]] = {}
"""The last ones, by the identity of their forms: to hash 1,447 took a tenth of drawing."""


def palette(forms: tuple[Form, ...], module: Module) -> Palette:
    """Return what programs about some forms may be made of."""
    key = id(forms), module
    if key not in _palettes:
        if len(_palettes) >= _PALETTES:
            del _palettes[next(iter(_palettes))]
        _palettes[key] = forms, _palette(forms, module)
    return _palettes[key][1]


@cache
def _palette(forms: tuple[Form, ...], module: Module) -> Palette:
    there = [form for form in forms if form.warps == 1 and is_available(form, module)]
    products = tuple(form for form in there if form in _VALUED)
    if not products and any(form.is_access for form in there):
        products = everything(module).fragment_products
    lanes = [form for form in there if not form.opaque and is_valued(form, module)]
    of_registers = tuple(form for form in lanes if form.is_product)
    taking_as_c: dict[Held, list[Form]] = {}
    for form in (*products, *of_registers):
        taking_as_c.setdefault(operand_of(form, "c"), []).append(form)
    rows = tuple(form for form in lanes if form.is_load)
    # Loads that exist wherever their state space does.
    loads = {f.space: f for f in reversed(FORMS) if f.is_access and f.type().name == "f16"}
    spaces = ("global", "", "shared", "shared::cta")
    return Palette(
        fragment_products=products,
        register_products=of_registers,
        row_loads=rows,
        plain_row_loads=tuple(form for form in rows if form.texts["type"] == "b16"),
        row_stores=tuple(form for form in lanes if form.is_store),
        transpositions=tuple(f for f in lanes if not (f.is_product or f.is_load or f.is_store)),
        group_products=tuple(
            f for f in forms if f.warps > 1 and f.is_product and is_available(f, module)
        ),
        spaces=tuple(space for space in spaces if is_available(loads[space], module)),
        packs=module.target.number >= _PACKING_TARGET and module.version >= _PACKING_SINCE,
        taking_as_c=taking_as_c,
    )


T = TypeVar("T")

DIGITS = (1 << 60) - 1  # Most that an integer of digits is: far above the product of any radices
_WIDE_DIGITS = (1 << 384) - 1  # As `DIGITS`, for a scalar instruction with its constants
GUARD_BYTES = 32
"""Bytes behind a matrix and its next line, and behind rows and registers, which nothing may touch:
a store that is a line or an element off stays in its own image."""


class Dice:
    """The digits of one drawn integer, each in a base of its own."""

    def __init__(self, value: int) -> None:
        self._rest = value

    def below(self, bound: int) -> int:
        """Return a digit from 0 to `bound`, exclusive."""
        self._rest, digit = divmod(self._rest, bound)
        return digit

    def one_of(self, items: Sequence[T]) -> T:
        """Return an item; the first is the plainest."""
        return items[self.below(len(items))]

    def once_in(self, times: int) -> bool:
        """Return True once in so many times; False is the plainest."""
        return self.below(times) == times - 1


@dataclass(kw_only=True)
class Region:
    """Bytes that an access touches; type, layout and stride are those of a matrix."""

    arena: Arena
    span: Span
    written: bool
    type: Format | None = None
    layout: str = ""
    stride: int | None = None
    registers: bool = False  # Whether they are registers of ldmatrix
    columns: int = 1  # Matrices side by side, where the stride leaves room for several


@dataclass(kw_only=True)
class Arena:
    """A buffer in the making. A shared one has a global twin from which it is filled."""

    name: str  # Without the letter of the space
    buffer: str
    shared: bool
    used: int = 0  # Bytes up to the end of the last matrix
    size: int = 0  # Bytes of the buffer: with the guards, unless it is closed
    closed: bool = False  # Whether it ends with its only matrix, without a guard
    written: bool = False
    regions: list[Region] = field(default_factory=list)


@dataclass(kw_only=True)
class LiveValue:
    """Registers that later steps may use."""

    name: str
    holds: Held  # A fragment of wmma, whose layout is opaque, or registers of a known layout
    depth: int  # Depth of the scope that first wrote the name
    pending: bool = False  # Whether it was computed, and nothing has used or stored it
    computed: bool = False  # Whether a multiplication made it
    type: str = ""  # Name of the format of the elements of a D
    used: frozenset[str] = frozenset()  # Operands as which a multiplication has used it
    pins: int = 0  # Multiplications that are planned to use a fragment
    region: Region | None = None  # Where it was loaded, or the C of which it was made


def matrix_of(value: LiveValue) -> Matrix:
    """Return the matrix of a fragment; accumulators are operand "c"."""
    assert isinstance(value.holds, Fragment)
    return value.holds.matrix


@dataclass(kw_only=True)
class NameScope:
    """The steps of a program, an arm or a body, and what is known behind the last."""

    depth: int = 0
    steps: list[Step] = field(default_factory=list)
    values: dict[str, LiveValue] = field(default_factory=dict)
    reads: list[Span] = field(default_factory=list)  # Since the last barrier; so are `writes`
    writes: list[Span] = field(default_factory=list)
    has_written: bool = False  # Whether any step of the scope writes memory

    def child(self) -> NameScope:
        """Return a scope that begins here."""
        return NameScope(
            depth=self.depth + 1,
            values={name: replace(value) for name, value in self.values.items()},
            reads=list(self.reads),
            writes=list(self.writes),
        )

    def access(self, *, reads: tuple[Span, ...] = (), writes: tuple[Span, ...] = ()) -> None:
        """Note what the next step accesses, behind a barrier if it would race."""
        if any(span.meets(other) for span in reads for other in self.writes) or any(
            span.meets(other) for span in writes for other in (*self.reads, *self.writes)
        ):
            self.barrier()
        self.reads += reads
        self.writes += writes
        self.has_written |= bool(writes)

    def barrier(self) -> None:
        """Append a barrier."""
        self.steps.append(Barrier())
        self.reads.clear()
        self.writes.clear()

    def like(self, holds: Held) -> list[LiveValue]:
        """Return the values that can stand for an operand, the latest last."""
        return [value for value in self.values.values() if value.holds == holds]

    def pending(self) -> list[LiveValue]:
        """Return what would be lost at the end of the scope."""
        return [one for one in self.values.values() if one.pending and one.depth >= self.depth]

    def join(self, *ends: NameScope) -> None:
        """Go on where one of some scopes has ended."""
        kept = {}
        for name, value in self.values.items():
            alike = [end.values[name] for end in ends if name in end.values]
            if len(alike) == len(ends) and all(one.holds == value.holds for one in alike):
                kept[name] = replace(
                    value,
                    pending=any(one.pending for one in alike),
                    region=value.region if all(o.region is value.region for o in alike) else None,
                )
        self.values = kept
        self.reads = [span for end in ends for span in end.reads]
        self.writes = [span for end in ends for span in end.writes]
        self.has_written |= any(end.has_written for end in ends)


class Builder:
    """Grows one program: of the forms of `palette`, or of `everything` where nobody asks for forms.

    Integers are drawn from `data` without a strategy, in a seventh of the time. Whoever makes a
    choice looks first at what is asked for, and ticks off what it did. A part of a program of a
    warpgroup is drawn like a program of one warp, for one of the four or for all.
    """

    def __init__(
        self,
        data: ConjectureData,
        palette: Palette,
        everything: Palette,
        focus: Focus,
        module: Module,
        *,
        prefix: str = "",
        threads: int = LANES,
    ) -> None:
        self.threads = threads  # That take each step: those of a warp, or of a warpgroup
        self._prefix = prefix  # Of all names
        self._data, self.palette, self.everything = data, palette, everything
        self.focus, self.module = focus, module
        self.scope = NameScope()
        self.arenas: list[Arena] = []
        self.form: Form | None = focus.form  # The form that is asked for, until it is there
        self.wanted = set(focus.features)  # Features that are asked for, until they are there
        self.asked = focus.features  # All features that were asked for
        self.single = False  # Whether the program is to have one multiplication
        self.plain_spaces = True  # Matrices lie in global memory unless it is asked otherwise
        self.words: Arena | None = None  # Where words lie on which branches and loops depend
        self.lanes: int | None = None  # Lanes that store where not all do, once that is chosen
        self._names, self._arena_names = Counter[str](), Counter[str]()
        self.only_ptx = focus.shares_registers is not False  # Whether what only PTX says may stand

    def dice(self) -> Dice:
        """Draw the digits of a group of decisions."""
        return Dice(self._data.draw_integer(0, DIGITS))

    def wide_dice(self) -> Dice:
        """Draw the digits of a group of decisions that holds numbers of up to 64 bits."""
        return Dice(self._data.draw_integer(0, _WIDE_DIGITS))

    def take(self, *features: Feature) -> bool:
        """Tell whether one of some features is still asked for, and tick them off."""
        found = not self.wanted.isdisjoint(features)
        self.wanted.difference_update(features)
        return found

    def wants(self, features: Iterable[Feature]) -> bool:
        """Tell whether one of some features is still asked for."""
        return not self.wanted.isdisjoint(features)

    def add(self, step: Step) -> None:
        """Append a step; a form that was asked for is there with it."""
        self.scope.steps.append(step)
        if self.form is not None and getattr(step, "form", None) == self.form:
            self.form = None

    def define(self, name: str, holds: Held, **known: Any) -> LiveValue:
        """Note that a step has written registers; what they held is gone."""
        value = LiveValue(name=name, holds=holds, **{"depth": self.scope.depth, **known})
        self.scope.values[name] = value
        return value

    def name(self, hint: str) -> str:
        """Return a name that no value has yet: the hint, and a number from the second on."""
        self._names[hint] += 1
        return f"{self._prefix}{hint}{self._names[hint] - 1 or ''}"

    def inside(self, scope: NameScope, part: Callable[[], None]) -> None:
        """Append a part to another scope."""
        outer, self.scope = self.scope, scope
        part()
        self.scope = outer

    def image_bytes(self, *, shared: bool = False) -> int:
        """Bytes of the image, or of shared memory, so far."""
        sizes = (arena.size for arena in self.arenas if arena.shared or not shared)
        return sum(-(-size // 256) * 256 for size in sizes)

    def arena(self, hint: str, *, shared: bool = False) -> Arena:
        """Return a new buffer, named after what it is for."""
        self._arena_names[hint] += 1
        name = f"{self._prefix}{hint}{self._arena_names[hint] - 1 or ''}"
        buffer = ("s" if shared else "g") + name
        self.arenas.append(Arena(name=name, buffer=buffer, shared=shared))
        return self.arenas[-1]

    def regions(self, *, shared: bool | None = None) -> list[Region]:
        """Return the regions of a space, or of both, in buffers that may still grow."""
        open_ = [one for one in self.arenas if shared in (None, one.shared) and not one.closed]
        return [region for arena in open_ for region in arena.regions]

    def matrix(self, arena: Arena, start: int, tile: Tile, *, written: bool) -> Region:
        """Give a matrix a place in a buffer."""
        span = Span(
            buffer=arena.buffer, start=start, run=tile.line_bytes, pitch=tile.pitch, runs=tile.lines
        )
        region = Region(
            arena=arena, span=span, type=tile.matrix.type, layout=tile.layout, stride=tile.stride,
            written=written,
        )  # fmt: skip
        return self._placed(region, tile.pitch)

    def block(
        self, arena: Arena, start: int, size: int, *, written: bool = False, registers: bool = False
    ) -> Region:
        """Give bytes that are no matrix a place in a buffer."""
        span = Span.block(arena.buffer, start, size)
        region = Region(arena=arena, span=span, written=written, registers=registers)
        return self._placed(region, behind=0)

    def _placed(self, region: Region, behind: int) -> Region:
        """Note bytes that are accessed, and so many behind them that nothing else may be in."""
        arena, end = region.arena, region.span.end
        arena.regions.append(region)
        arena.written |= region.written
        arena.used = max(arena.used, end)
        arena.size = max(arena.size, end + (0 if arena.closed else behind + GUARD_BYTES))
        return region

    def finish(self) -> Program:
        """Return the program: shared buffers filled first, and brought back at the end."""
        buffers: list[Buffer] = []
        filled: list[Step] = []
        back: list[Step] = []
        for arena in self.arenas:
            twin, size = "g" + arena.name, arena.size
            buffers.append(Buffer(name=twin, space="global", size=size))
            if arena.shared:
                buffers.append(Buffer(name=arena.buffer, space="shared", size=size))
                far, near = Place(buffer=twin), Place(buffer=arena.buffer)
                filled.append(Copy(source=far, destination=near, size=size))
                if arena.written:
                    back.append(Copy(source=near, destination=far, size=size))
        before = [*filled, Barrier()] if filled else []
        behind = [Barrier(), *back] if back else []
        steps, warps = (*before, *self.scope.steps, *behind), self.threads // LANES
        return Program(buffers=tuple(buffers), steps=steps, warps=warps)


Need = Callable[[Form], bool]  # Tells whether a form gives what another does not

ACCUMULATED = (Has.D_AS_C, Has.CHAIN)
_OF_ONE_FORM = (Has.A_REUSED, Has.B_REUSED, Has.TILES, *LIVE)


def chosen_form(builder: Builder, form: Form | None, dice: Dice, *, rows: bool) -> Form:
    """Choose what a program is about; if nothing is asked for, `rows` may be moved, too."""
    known = builder.palette
    if form is not None and form.is_main:
        return form
    if form is not None:
        users = _users(known, form) or _users(builder.everything, form)
        return dice.one_of(_suited(users, builder))
    lanes: list[tuple[Form, ...]] = list(families(known.register_products))
    if not builder.wants((Has.LANES_BEFORE, Has.LANES_BEHIND)):
        lanes += [(form,) for form in known.row_stores + known.transpositions]
    needed = {one.operand for one in OF_OPERANDS & builder.wanted}
    lanes = [some for some in lanes if needed.issubset(some[0].operands)] or lanes
    asked = tuple(form for form in known.register_products if of_form(form)[0] in builder.wanted)
    if asked:
        lanes = [asked]
    if lanes and builder.wants(OF_LANES):
        return dice.one_of(dice.one_of(lanes))
    groups: list[Sequence[Form]] = []
    if known.fragment_products:
        groups += families(_suited(known.fragment_products, builder))
    if rows or not groups:
        loads: dict[str, list[Form]] = {}
        for load in known.row_loads:
            loads.setdefault(load.texts["type"] or load.texts["src_fmt"], []).append(load)
        groups += [*loads.values(), *lanes]
    return dice.one_of(dice.one_of(groups))


def multiplication(builder: Builder, dice: Dice) -> Form:
    """Choose any multiplication of fragments that fits what is asked for."""
    known = builder.palette.fragment_products or builder.everything.fragment_products
    return dice.one_of(dice.one_of(families(_suited(known, builder))))


def unmet(builder: Builder, form: Form) -> list[Need]:
    """Return what is asked for and a multiplication of a form alone cannot have."""
    return [need for need in _needs(builder) if not need(form)]


def beside(builder: Builder, main: Form, number: int) -> list[Form]:
    """Choose so many multiplications, of which the first is given."""
    # Others have the same form, can take the D of the one before as C, A or B, or are any.
    opaque, palette = main.opaque, builder.palette
    if opaque and not palette.fragment_products:
        palette = builder.everything
    known = palette.fragment_products if opaque else palette.register_products
    forms = [main]
    needs = unmet(builder, main) if opaque else []
    while len(forms) < number:
        dice, last = builder.dice(), forms[-1]
        kind = dice.one_of(("same", "kin", "same" if opaque else "next", "any"))
        if builder.wants(ACCUMULATED):
            kind = "kin"
        elif builder.wants(_OF_ONE_FORM):
            kind = "same"
        elif not opaque and Has.D_AS_MULTIPLICAND in builder.wanted:
            kind = "next"
        others: Sequence[Form]
        if builder.take(Has.SEVERAL_SHAPES):
            others = [form for form in known if form.shape != main.shape]
        elif builder.take(Has.SEVERAL_TYPES):
            others = [form for form in known if form.a_type != main.a_type]
        elif needs:
            others = list(filter(needs.pop(), known))
        elif Has.IN_PLACE_MEMORY in builder.wanted:
            others = [form for form in (last, *known) if _accumulates(form)]
        elif Has.OVER_PART in builder.wanted:
            others = [f for f in known if operand_of(f, "d").words < operand_of(f, "a").words]
        elif kind == "kin":
            others = palette.taking_as_c.get(operand_of(last, "d"), ())
        elif kind == "next":
            others = [form for form in known if _takes(form, last)]
        elif kind == "any":
            others = dice.one_of(families(known)) if known else ()
        else:
            others = [last]
        forms.append(dice.one_of(others or [last]))
    return forms


def _takes(form: Form, last: Form) -> bool:
    d = operand_of(last, "d")
    found = [d]
    if last.d_type.name == "f32" and d.registers > 1:
        found.append(Registers(registers=d.registers // 2))
    return any(operand_of(form, operand) in found for operand in "ab")


def asked_operations(builder: Builder) -> list[Operation]:
    """Return the operations that are still asked for."""
    return [operation for operation, it in OF_OPERATION.items() if it in builder.wanted]


def _needs(builder: Builder) -> list[Need]:
    def taking(operation: Operation) -> Need:
        return lambda form: any(
            operation in operations(type_) for type_ in (form.a_type, form.c_type, form.d_type)
        )

    needs = [taking(operation) for operation in asked_operations(builder)]
    return [*needs, _accumulates] if Has.IN_PLACE_MEMORY in builder.wanted else needs


def _accumulates(form: Form) -> bool:
    return form.c_type == form.d_type


def _suited(forms: tuple[Form, ...], builder: Builder) -> tuple[Form, ...]:
    needs = [*_needs(builder), *([_accumulates] if builder.wants(ACCUMULATED) else [])]
    return tuple(form for form in forms if all(need(form) for need in needs)) or forms


def _users(known: Palette, form: Form) -> tuple[Form, ...]:
    if not form.is_access:
        return ()
    matrix, layout = form.matrix(), form.layout
    return tuple(
        f
        for f in known.fragment_products
        if f.matrix(matrix.operand) == matrix
        and {"a": f.a_layout, "b": f.b_layout}.get(matrix.operand, layout) == layout
    )


def fitting(builder: Builder, forms: Sequence[Form], dice: Dice) -> Form:
    """Choose a form, of the state space that is asked for if one is."""
    return dice.one_of([form for form in forms if of_form(form)[-1] in builder.wanted] or forms)
