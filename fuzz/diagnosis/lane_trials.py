"""Small programs of single scalar instructions, and which of them come out wrong.

Each lane is given what an instruction met in other code, or drawn contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fuzz.diagnosis.experiments import ExperimentDevice, Witness
from oracle.errors import UsageError
from oracle.isa.forms import LANES
from oracle.program.lane_code import ZERO, Assign, LaneCode, Statement, Taken, most_of
from oracle.scalar import CLASSES, ScalarInstruction
from strategies.programs.scalar_rows import settled
from strategies.simplification.examples import Example
from strategies.simplification.lane_code import alone

AT_ONCE = 16
"""Trials that are compiled together; what follows a wrong one is compiled in vain."""
_Offer = TypeVar("_Offer")
LETTERS = {"b16": "h", "b32": "r", "b64": "d", "pred": "p"}
"""First letter of a register of each class."""
GIVES = {"r": "mov.b32", "h": "cvt.u16.u32", "d": "mov.b64.pack", "p": "setp.ne.u32"}
"""What makes a register of registers of 32 bits; a predicate is whether one is not 0."""
_MIXED = 0x5A5A_5A5A_5A5A_5A5A
"""Bits of which no half is the sign of another one."""
ODD = np.arange(LANES) % 2 == 1
"""Lanes that have a predicate, where every second one has."""
LANE_NUMBERS = np.arange(LANES, dtype=np.uint32)


class Trial:
    """Statements on what each lane is given, between a load and a store."""

    def __init__(self) -> None:
        self.code: list[Statement] = []
        self._columns: list[NDArray[np.uint32]] = []
        self._results: list[str] = []

    def given(self, values: NDArray[Any], kind: str) -> str:
        """Return a register of a class that holds (32,) patterns at first."""
        number, wide = len(self._columns), values.astype(np.uint64)
        first, name = f"r{number}", f"{LETTERS[kind]}{number}"
        self._columns += [
            (wide >> np.uint64(32 * part)).astype("<u4") for part in range(words_of(name))
        ]
        if kind != "b32":
            other = {"pred": (0,), "b64": (f"r{number + 1}",)}.get(kind, ())
            self.code.append(assign(GIVES[name[0]], name, first, *other))
        return name

    def seen(self, name: str) -> None:
        """Store what a register holds in the end."""
        out = tuple(f"r{60 + len(self._results) + part}" for part in range(words_of(name)))
        self.code += brought_out(name, out)
        self._results += out

    def example(self) -> Example | None:
        """Return the program and the image; None if there can be no such code."""
        columns = self._columns
        try:
            step = LaneCode(
                source="x" if columns else "", count=len(columns), destination="y",
                results=tuple(self._results), code=tuple(self.code),
            )  # fmt: skip
        except UsageError:
            return None
        words = np.stack(columns, axis=-1) if columns else np.zeros((LANES, 0), np.uint32)
        return alone(step, words)


def words_of(name: str) -> int:
    """Return how many registers of 32 bits hold what a register does."""
    return 2 if name.startswith("d") else 1


def brought_out(name: str, into: tuple[str, ...]) -> list[Assign]:
    """Return statements that bring what a register holds into registers of 32 bits."""
    match name[0]:
        case "d":
            return [Assign(opcode="mov.b64.unpack", destinations=into, sources=(name,))]
        case "h":
            return [assign("cvt.u32.u16", *into, name)]
        case "p":
            # Not by selp, which may be what is wrong.
            zero = assign("add.s32", *into, ZERO, 0)
            return [zero, assign("add.s32", *into, *into, 1, guard=name)]
    return [assign("mov.b32", *into, name)]


def assign(opcode: str, destination: str, *sources: str | int, guard: str = "") -> Assign:
    """Return an instruction with one result."""
    return Assign(opcode=opcode, destinations=(destination,), sources=sources, guard=guard)


def wrong_images(device: ExperimentDevice, trials: Sequence[Trial]) -> Witness | None:
    """Run trials that have the same code; return the program and the images that are wrong."""
    return each_wrong(device, [trials])[0]


def each_wrong(device: ExperimentDevice, groups: Sequence[Sequence[Trial]]) -> list[Witness | None]:
    """Run groups of trials; return of each, of one code, the program and the images that are wrong.

    Groups that are compiled together may be wrong for that alone: what is said of one is believed
    where it is tried by itself.
    """
    made = [[one for one in map(Trial.example, trials) if one is not None] for trials in groups]
    some = [(one[0].program, np.stack([each.image for each in one])) for one in made if one]
    found = iter(device.witnesses(some))
    return [next(found) if one else None for one in made]


def first_wrong(
    device: ExperimentDevice, offers: Iterable[tuple[_Offer, Sequence[Trial]]]
) -> tuple[_Offer, Witness] | None:
    """Return the first of what trials stand for that is wrong, by itself as well."""
    rest = iter(offers)
    while some := [*islice(rest, AT_ONCE)]:
        there = each_wrong(device, [trials for _, trials in some])
        for (what, trials), witness in zip(some, there, strict=True):
            if witness is not None and (sure := wrong_images(device, trials)) is not None:
                return what, sure
    return None


def may_be_registers(one: Assign) -> list[bool]:
    """Return of each source whether it may be a register: not a constant that is required."""
    at = one.row.immediates
    return [
        kind != "pred" and not (index in at and at[index].required)
        for index, kind in enumerate(one.row.sources)
    ]


def instruction_alone(
    one: Assign, time: Taken, *, guarded: bool = False, loaded: bool = False
) -> Trial:
    """Return a trial of an instruction.

    With its predicate if `guarded`, in every second lane, and with constants from memory if
    `loaded`.
    """
    trial = Trial()
    may, kinds = may_be_registers(one), one.row.sources
    sources = tuple(
        source
        if isinstance(source, int) and not (loaded and may[index])
        else trial.given(np.broadcast_to(time.sources[index], (1, LANES))[0], kinds[index])
        for index, source in enumerate(one.sources)
    )
    names = [f"{name[0]}{50 + index}" for index, name in enumerate(one.destinations)]
    guard = ""
    if guarded:
        # What it does not write must not look like what it writes, nor like what any conversion of
        # that leaves as it is.
        names = [
            trial.given(
                ~held[0] if kind == "pred" else held[0] ^ held.dtype.type(_MIXED & most_of(kind)),
                kind,
            )
            for held, kind in zip(time.results, one.row.destinations, strict=False)
        ]
        guard = predicate_like(one.guard, trial.given(ODD, "pred"))
    # NaNs whose bits PTX leaves open are no fault.
    trial.code += settled(replace(one, destinations=tuple(names), sources=sources, guard=guard))
    for name in names:
        trial.seen(name)
    return trial


def drawn_alone(row: ScalarInstruction, guard: str = "") -> list[Trial]:
    """Return trials of an instruction on drawn contents, every second of which are small."""
    random = np.random.default_rng(0)
    sources = tuple(
        at.low if (at := row.immediates.get(index)) and at.required else f"{LETTERS[kind]}0"
        for index, kind in enumerate(row.sources)
    )
    names = tuple(f"{LETTERS[kind]}0" for kind in row.destinations)
    one = Assign(opcode=row.opcode, destinations=names, sources=sources, guard=guard)
    trials = []
    for small in (False, True):
        kinds = (*row.sources, *(row.destinations if guard else ()))
        held = [
            each % 2 == 1 if kind == "pred" else each.astype(CLASSES[kind])
            for kind in kinds
            for each in [random.integers(0, 64 if small else 1 << 62, (1, LANES))]
        ]
        count = len(row.sources)
        taken = Taken(one, held[:count], tuple(held[count:]), ODD, ODD)
        trials.append(instruction_alone(one, taken, guarded=bool(guard)))
    return trials


def predicate_like(predicate: str, name: str) -> str:
    """Return a predicate with the sign of another one."""
    return f"!{name}" if predicate.startswith("!") else name
