"""Finds the wrong step on registers, or the wrong copy: each by itself on right inputs.

What lies in registers between two such steps is known lane by lane, so a step is given by plain
loads what it met, and plain stores show what it makes. Registers in memory are tried first: all
other trials are made of those. Which operand that shares registers is to blame is told by an
experiment: the one that, in registers of its own, makes the step right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import count, islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.diagnosis.experiments import (
    CODE,
    IN_PLACE,
    Culprit,
    ExperimentDevice,
    Witness,
    arithmetic_of,
    name_of_form,
    unit_of,
)
from fuzz.diagnosis.fragments import wrong_alone
from oracle.execution.tracing import Event, Trace
from oracle.isa.forms import LANES, Form, Format
from oracle.isa.lookup import chunks_of
from oracle.program.operands import Buffer, Place, Registers, Use, listed, text_of, way_of
from oracle.program.operations import copied
from oracle.program.program import Program, fresh_bank, position, walk
from oracle.program.steps import (
    Barrier,
    Copy,
    PlainAccess,
    Step,
    Straight,
    accesses_rows,
    copies_bytes,
    is_plain_load,
    multiplies,
    multiplies_registers,
    product_of,
)
from runners.protocol import Images
from strategies.contents.plans import metadata_bytes
from strategies.matrices import buffers_of, exact_elements, plain_access, single_product
from strategies.simplification.examples import Site, edited, visit

ADDRESSES = "addresses of rows that lanes compute"
"""What is named where an instruction is right with the same addresses from elsewhere."""
_NAMES: Mapping[str, str] = {
    "load_registers": "loading registers",
    "store_registers": "storing registers",
    "": "",
    "pack_registers": "packing",
    "set_registers": "setting registers",
    "move_registers": "moving registers",
    "lane_code": CODE,
}
"""Display names of steps by their actions, "" of instructions, in test order: plain loads and
stores first, because every other test is built from them."""
_AT_ONCE = 16
"""Steps that are tried as kernels of one module; what follows a wrong one is compiled in vain. 12
findings of a campaign took 190 compilations and 6.9 s rather than 285 and 7.9 s (ptxas 13.0.88 at
-O3, 2026-11-23)."""
_MET, _DRAWN = 8, 8
"""Contents of one step that are tried: some that it met, and as many that are drawn. One bit that
is stuck in one lane shows in half of them or more."""
CONTROL = Culprit(instructions=("branch or loop",))
"""What decides which steps are taken, and how often."""
_WORD, _LARGEST_ACCESS, _PIECE = 4, 16, 256
"""Bytes of a register, those that one lane moves at most, and those that are moved without a loop,
however they are aligned: 8 rounds of 32 lanes, a byte each (`runners.emission.body`)."""
C_ELSEWHERE = "c has d's registers in another order"
"""Also where C repeats one of them, or has only some of them."""
OVER_METADATA = "d in the register of the metadata"
C_IN_PLACE = "d in the registers of c"
"""Name of the condition that each register which C and D share is the same element of both."""
_ORDER = (IN_PLACE, OVER_METADATA, C_ELSEWHERE, C_IN_PLACE)
"""What is believed first of an image that several explain."""
_Apart = frozenset[str]


def wrong_register_step(
    device: ExperimentDevice, program: Program, traced: Trace
) -> Culprit | None:
    """Find out which step on registers is wrong by itself; None if all are right."""
    tried: dict[_Alone, list[Event]] = {}
    for event in traced.events:
        uses = event.step.uses
        # Of a fragment nobody knows in which lane an element of it stands.
        if uses and not any(use.is_fragment for use in uses):
            tried.setdefault(_Alone.of(event.step, program), []).append(event)

    def order(step: Step) -> tuple[int, ...]:
        """Return a key by which the plainest steps come first, and multiplications last."""
        action = [*_NAMES].index("" if step.instruction else step.action)
        accesses = bool(step.bytes_read or step.bytes_written)
        return multiplies(step), action, not accesses, step.stores

    rest = iter(sorted(tried, key=lambda alone: order(alone.step)))
    while some := [*islice(rest, _AT_ONCE)]:
        there = device.results_of([(one.program, one.images(tried[one])) for one in some])
        for alone, results in zip(some, there, strict=True):
            if results is not None and results.wrong.any():
                # What is wrong in company may be right by itself.
                found = alone.culprit(device, tried[alone])
                if found is not None:
                    return found
    return None


def name_of(step: Step) -> str:
    """Return what a step on registers is called."""
    return name_of_form(step.instruction) if step.instruction else _NAMES[step.action]


@dataclass(frozen=True, kw_only=True)
class _Alone:
    """One step between plain loads and stores, each in a buffer of its own.

    The registers that the step names are called after its operands, and so are their buffers.
    """

    step: Straight
    buffers: tuple[Buffer, ...] = ()
    """Memory that the step itself reads or writes."""

    @staticmethod
    def of(step: Straight, program: Program) -> _Alone:
        """Return a step of a program alone, with operands that share registers as they do."""
        names: dict[str, str] = {}
        changes: dict[str, Any] = {use.field: text_of(use.registers) for use in step.uses}
        if not any(listed(use.name) for use in step.uses):
            for use in sorted(step.uses, key=lambda one: one.written):
                names.setdefault(use.name, use.field)
            changes = {use.field: names[use.name] for use in step.uses}
        touched = dict.fromkeys(span.buffer for span in (*step.bytes_read, *step.bytes_written))
        return _Alone(step=step.changed(**changes), buffers=tuple(map(program.buffer, touched)))

    @property
    def program(self) -> Program:
        """The program: memory is filled, registers loaded, the step taken, and all of it kept."""
        before, after = list[Step](), list[Step]()
        buffers = list(self.buffers)
        for buffer in self.buffers:
            if buffer.space == "shared":
                here, there = Place(buffer=buffer.name), Place(buffer=_home(buffer))
                buffers.append(replace(buffer, name=there.buffer, space="global"))
                before += [Copy(source=there, destination=here, size=buffer.size), Barrier()]
                after += [Barrier(), Copy(source=here, destination=there, size=buffer.size)]
        before += self._loads.values()
        if self.step.writes is not None:
            after.append(_access(self.step.writes))
        buffers += buffers_of((*before, *after))
        return Program(buffers=tuple(buffers), steps=(*before, self.step, *after))

    @cached_property
    def _loads(self) -> dict[Use, PlainAccess]:
        reads = {use.name: use for use in self.step.reads}.values()
        # What is a vector by name is loaded whole, if no other operand lists registers of it.
        apart = {one.bank for use in reads if listed(use.name) for one in use.registers}
        whole = [use for use in reads if apart.isdisjoint(one.bank for one in use.registers)]
        single = {
            register: Use(
                field=f"{register.bank}_{register.number}", name=f"{register}",
                holds=Registers(registers=1, bits=register.bits),
            )
            for use in reads
            for register in use.registers
            if register.bank in apart
        }  # fmt: skip
        return {use: _access(use) for use in (*whole, *single.values())}

    def images(self, events: Sequence[Event]) -> Images:
        """Return images of the program: with what the step met, and behind them drawn ones."""
        program, met = self.program, events[:_MET]
        size = len(met) + _DRAWN, program.image_bytes
        images = np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)
        for number, image in enumerate(images):
            contents = self._met(met[number]) if number < len(met) else self._drawn(number)
            for place, values in contents:
                start = position(program, place)
                data = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
                image[start : start + len(data)] = data
        return images

    def _filled(self, use: Use, values: NDArray[Any]) -> Iterator[tuple[Place, NDArray[Any]]]:
        words = values.view(np.uint8).reshape(LANES, use.holds.registers, -1)
        for load, access in self._loads.items():
            if load.name == use.name:
                yield access.place, values
                return
            for index, register in enumerate(use.registers):
                if load.registers == (register,):
                    yield access.place, words[:, index]

    def _met(self, event: Event) -> Iterator[tuple[Place, NDArray[Any]]]:
        for use in self.step.reads:
            yield from self._filled(use, np.ascontiguousarray(event.inputs[use.field]))
        # Of a plain load, registers are as they lay.
        rows = event.result if is_plain_load(self.step) else event.inputs.get("rows")
        if rows is not None:
            spans = self.step.bytes_read
            for span, row in zip(spans, rows.reshape(len(spans), -1), strict=True):
                (buffer,) = self.buffers
                yield Place(buffer=_home(buffer), offset=span.start), row

    def _drawn(self, number: int) -> Iterator[tuple[Place, NDArray[Any]]]:
        for use in self.step.reads if multiplies_registers(self.step) else ():
            form = self.step.form  # type: ignore[union-attr]
            if use.field == "e":
                noise = np.random.default_rng(number).integers(0, 256, (LANES, 4), np.uint8)
                yield from self._filled(use, metadata_bytes(chunks_of(form))[noise])
                continue
            type_ = form.type(use.field)
            shape = LANES, use.holds.words * 32 // type_.bits
            random = np.random.default_rng([number, ord(use.field)])
            elements = exact_elements(type_, shape, random, added=use.field == "c")
            yield from self._filled(use, _joined(type_, elements))

    def culprit(self, device: ExperimentDevice, events: Sequence[Event] = ()) -> Culprit | None:
        """Blame the step if it is wrong on what it met, or on drawn contents."""
        images, step = self.images(events), self.step
        results = device.results(self.program, images)
        if results is None or not results.wrong.any():
            return None
        name = name_of(step)
        if accesses_rows(step) and step.memory.computed:
            plain = replace(self, step=step.changed(computed=()))
            right = device.results(plain.program, images)
            name = ADDRESSES if right is not None and not right.wrong.any() else name
        if multiplies_registers(step) and not results.wrong[-_DRAWN:].any():
            # Right where sums are exact.
            name = f"{name} of {arithmetic_of(step.form)}"
        witness = Witness(program=self.program, images=images[results.wrong])
        return Culprit(instructions=(name,), witness=witness)


def _access(use: Use) -> Any:
    # No vector of registers is aligned one register behind the start: they move one by one.
    name = use.field if listed(use.name) else use.name
    place = Place(buffer=f"{name}_{'out' if use.written else 'in'}", offset=use.holds.bits // 8)
    return plain_access(use, place, store=use.written)


def _home(buffer: Buffer) -> str:
    return f"{buffer.name}_home" if buffer.space == "shared" else buffer.name


def _joined(type_: Format, elements: NDArray[Any]) -> NDArray[np.uint8]:
    """Return elements as they stand in registers, several of the short ones in a byte."""
    if type_.bits >= 8:
        return elements.view(np.uint8)
    parts = elements.view(np.uint8).reshape(-1, 8 // type_.bits) & ((1 << type_.bits) - 1)
    shifts = np.arange(0, 8, type_.bits, dtype=np.uint8)
    joined: NDArray[np.uint8] = np.bitwise_or.reduce(parts << shifts, axis=1)
    return joined


# Copies


def wrong_copy(device: ExperimentDevice, program: Program) -> Culprit | None:
    """Find out what is wrong with the copies of a program; None if all are right.

    Other bytes are copied as the program does, to shared memory and back, one of the two as wide
    as that of the step. The other one moves at most a word at once: what exchanges parts of a
    vector there would put them in place again.
    """
    for step in dict.fromkeys(one for one in walk(program.steps) if copies_bytes(one)):
        at, middle = (place.offset % _LARGEST_ACCESS for place in (step.source, step.destination))
        narrow = middle + (_WORD if middle % _WORD == 0 else 1)
        for offsets in ((at, middle, narrow), (narrow, middle, at)):
            if _copies_wrong(device, step.size, step.size, offsets):
                if step.size > _PIECE and not _copies_wrong(device, step.size, _PIECE, offsets):
                    return CONTROL  # a loop: right without
                return _wrong_vector(device) or Culprit(instructions=("copy",))
    return None


def _copies_wrong(
    device: ExperimentDevice, size: int, piece: int, offsets: tuple[int, int, int]
) -> bool:
    steps: list[Step] = []
    for names, before, behind in (("ab", *offsets[:2]), ("bc", *offsets[1:])):
        for done in range(0, size, piece):
            source, destination = (
                Place(buffer=name, offset=offset + done)
                for name, offset in zip(names, (before, behind), strict=True)
            )
            few = min(piece, size - done)
            steps.append(Copy(source=source, destination=destination, size=few))
        steps.append(Barrier())
    spaces = {"a": "global", "b": "shared", "c": "global"}
    room = size + 2 * _LARGEST_ACCESS
    buffers = tuple(Buffer(name=name, space=space, size=room) for name, space in spaces.items())
    program = Program(buffers=buffers, steps=tuple(steps))
    noise = np.random.default_rng(0).integers(0, 256, (1, program.image_bytes), dtype=np.uint8)
    return device.witness(program, noise) is not None


def _wrong_vector(device: ExperimentDevice) -> Culprit | None:
    for loads, registers in product((False, True), (4, 2)):
        place = Place(buffer="vector")
        step = PlainAccess(loads=loads, registers="registers", count=registers, place=place)
        buffer = Buffer(name=place.buffer, space="global", size=4 * LANES * registers)
        if (found := _Alone(step=step, buffers=(buffer,)).culprit(device)) is not None:
            return found
    return None


# Operands that share registers


def expanded_alike(form: Form, condition: str = "") -> str:
    """Return the types that a compiler expands alike: findings of these are of one cause."""
    if not form.opaque and form.a_type.is_float and form.a_type.bits == 8:
        return "8-bit floats"  # both formats, in any combination
    # What is read too late of C does not depend on what was multiplied before.
    return "" if form.opaque and condition == C_ELSEWHERE else unit_of(form)


def _culprit(form: Form, condition: str) -> Culprit:
    """Return what is to blame if multiplications of a form are, where operands share registers."""
    names = filter(None, (name_of_form(form), expanded_alike(form, condition)))
    return Culprit(instructions=(" of ".join(names),), condition=condition, form=form)


def shared_register_culprits(
    device: ExperimentDevice,
    program: Program,
    images: Images,
    again: Callable[[], NDArray[np.bool_] | None] | None = None,
) -> Sequence[Culprit | None]:
    """Return which operands must not share registers, for each image that comes out wrong.

    That is believed of multiplications whose D shares registers with other operands if the image
    comes out right where they do not, and wrong without that; where several do so in one program,
    with those of all others apart. None where neither shows it.

    `again` runs it once more as it ran, in a module with others, and tells which images come out
    wrong. That is enough where the same is believed of another program already; else it is compiled
    by itself. A campaign runs into what a compiler always gets wrong every second: compiling more
    for each such program would cost it its rate.
    """
    suspects, believed = _suspects(program), device.remembered.believed

    @cache
    def wrong(apart: _Apart) -> NDArray[np.bool_] | None:
        """Tell which images come out wrong where some do not share registers; None: not known."""
        results = device.results(_with_operands_apart(program, apart), images)
        return None if results is None else results.wrong

    for key in suspects if again is not None else ():
        after = wrong(_Apart({key})) if key in believed else None
        if again is not None and after is not None and not after.any():
            before = again()
            if before is not None:
                return [suspects[key][0] if one else None for one in before.tolist()]
    everything, found = _Apart(suspects), list[Culprit | None]([None] * len(images))
    after = wrong(everything) if everything else None
    # What does not come out wrong again may have come out right for no reason.
    if after is None or after.all() or (before := wrong(_Apart())) is None:
        return found
    for key, suspect in suspects.items():
        cured = np.zeros(len(images), bool)
        for others in (_Apart(), everything - {key}):
            with_it, without = wrong(others), wrong(others | {key})
            if with_it is not None and without is not None:
                cured |= before & with_it & ~without
        # What is wrong in registers of its own as well may be right there by chance.
        if cured.any() and all(_right_alone(device, one.form) for one in suspect):
            believed.add(key)
            found = [
                one or (suspect[0] if cure else None)
                for one, cure in zip(found, cured.tolist(), strict=True)
            ]
        if all(one or not bad for one, bad in zip(found, before.tolist(), strict=True)):
            break
    return found


def _right_alone(device: ExperimentDevice, form: Form | None) -> bool:
    assert form is not None
    known = device.remembered.right_alone
    if form.opcode not in known:
        step = product_of(form)
        known[form.opcode] = (
            wrong_alone(device, single_product(form), ())
            if form.opaque
            else _Alone(step=step).culprit(device)
        ) is None
    return known[form.opcode]


def _conditions(step: Step, program: Program) -> Mapping[str, tuple[str, ...]]:
    """Return in which ways D shares registers with operands of a step, and with which."""
    if not multiplies(step):
        return {}
    uses = {use.field: use for use in step.uses}
    d = uses.pop("d")
    shared = [name for name, use in uses.items() if way_of(d, use, program.shared_banks)]
    found: dict[str, tuple[str, ...]] = {}
    if multiplicands := tuple(name for name in shared if name in "ab"):
        found[IN_PLACE] = multiplicands
    if "e" in shared:
        found[OVER_METADATA] = ("e",)
    if "c" in shared:
        in_order = all(
            one == other
            for one, register in enumerate(d.registers)
            for other, same in enumerate(uses["c"].registers)
            if register == same
        )
        found[C_IN_PLACE if in_order else C_ELSEWHERE] = ("c",)
    return found


def _suspects(program: Program) -> Mapping[str, tuple[Culprit, ...]]:
    """Return what may be to blame, by key: one culprit for each form that it is seen in.

    What is believed first stands before the others.
    """
    found = dict.fromkeys(
        _culprit(step.form, condition)
        for _, step in visit(program.steps)
        for condition in _conditions(step, program)
        if multiplies(step)
    )
    by_key: dict[str, tuple[Culprit, ...]] = {}
    for one in sorted(found, key=lambda one: _ORDER.index(one.condition)):
        by_key[one.key] = (*by_key.get(one.key, ()), one)
    return by_key


def _with_operands_apart(program: Program, keys: Collection[str]) -> Program:
    """Return a program in which operands do not share registers with D.

    D is copied to where it was afterwards; where its sharing with one operand is to stay, the other
    is copied before. `keys` are those of the culprits that the multiplications could be that are
    changed.
    """
    fresh = (fresh_bank(program, f"own{number}_") for number in count())
    edits: dict[Site, tuple[Step, ...]] = {}
    for site, step in visit(program.steps):
        ways = _conditions(step, program)
        if not multiplies(step) or not ways:
            continue
        apart = [way for way in ways if _culprit(step.form, way).key in keys]
        fields = ("d",) if len(apart) == len(ways) else sum((ways[way] for way in apart), ())
        if fields:
            uses = [use for use in step.uses if use.field in fields]
            names: dict[str, Any] = {use.field: next(fresh) for use in uses}
            edits[site] = (
                *(copied(use, use.name, names[use.field]) for use in uses if not use.written),
                step.changed(**names),
                *(copied(use, names[use.field], use.name) for use in uses if use.written),
            )
    return replace(program, steps=edited(program.steps, edits))
