"""Finds the wrong copy or step on registers: runs each by itself on right inputs.

What lies in registers between two such steps is known lane by lane. So a step can be given what it
met, by plain loads, and what it makes be looked at by plain stores; nothing else runs. Registers
in memory are tried first, in accesses of one register each: all other trials are made of those.

Long copies are made of a loop, and of vectors where bytes are aligned. A fault of loops or of
vectors shows in other steps as well, and is named after those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.diagnosis.experiments import (
    CODE,
    Culprit,
    ExperimentDevice,
    Witness,
    arithmetic_of,
    name_of_form,
)
from oracle.execution.tracing import Event, Trace
from oracle.isa.forms import LANES, Form, Format
from oracle.isa.lookup import chunks_of
from oracle.program.operands import Buffer, Place, Registers, Use, listed, text_of
from oracle.program.program import Program, position, walk
from oracle.program.steps import (
    Barrier,
    Copy,
    Loop,
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
from strategies.programs.single_instruction import buffers_of, exact_elements, plain_access

ADDRESSES = "addresses of rows that lanes compute"
"""What is named where an instruction is right with the same addresses from elsewhere."""
_INSTRUCTION = "instruction"
_NAMES: Mapping[str, str] = {
    "load_registers": "loading registers",
    "store_registers": "storing registers",
    _INSTRUCTION: "",
    "pack_registers": "packing",
    "set_registers": "setting registers",
    "move_registers": "moving registers",
    "lane_code": CODE,
}
"""Display names of steps that are no instructions, by their actions, in test order: plain loads and
stores first, because every other test is built from them."""
_VECTORS = 4, 2
"""Registers of 32 bits that are stored or loaded at once (`ld` and `st` with `.v4`, `.v2`)."""
_AT_ONCE = 16
"""Steps that are tried as kernels of one module; what follows a wrong one is compiled in vain. 12
findings of a campaign took 190 compilations and 6.9 s rather than 285 and 7.9 s (ptxas 13.0.88 at
-O3, 2026-11-23)."""
_MET, _DRAWN = 8, 8
"""Contents of one step that are tried: some that it met, and as many that are drawn. One bit that
is stuck in one lane shows in half of them or more."""
CONTROL = Culprit(instructions=("branch or loop",))
"""What decides which steps are taken, and how often."""
_WORD, _LARGEST_ACCESS = 4, 16
"""Bytes of a register, and those that one lane moves at most."""
_PIECE = 256
"""Bytes that are moved without a loop, however they are aligned: 8 rounds of 32 lanes, a byte each
(`runners.emission.steps`)."""


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
    rest = iter(sorted(tried, key=lambda one: _order(one.step)))
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
    if step.instruction:
        return name_of_form(step.instruction)
    return _NAMES[step.action]


def _order(step: Step) -> tuple[int, ...]:
    """Return a key by which the plainest steps come first, and multiplications last."""
    last = 1 if multiplies(step) else 0
    accesses = bool(step.bytes_read or step.bytes_written)
    action = _INSTRUCTION if step.instruction else step.action
    return last, list(_NAMES).index(action), not accesses, step.stores


def wrong_vector(device: ExperimentDevice) -> Culprit | None:
    """Find out whether vectors of registers are stored or loaded wrong; None if they are right."""
    for loads, count in product((False, True), _VECTORS):
        place = Place(buffer="vector")
        step = PlainAccess(loads=loads, registers="registers", count=count, place=place)
        buffer = Buffer(name=place.buffer, space="global", size=4 * LANES * count)
        found = _Alone(step=step, buffers=(buffer,)).culprit(device)
        if found is not None:
            return found
    return None


def wrong_multiplication(device: ExperimentDevice, form: Form) -> Culprit | None:
    """Find out whether a form of mma.sync is wrong with every operand in its own registers."""
    return _Alone(step=product_of(form), buffers=()).culprit(device)


@dataclass(frozen=True, kw_only=True)
class _Alone:
    """One step between plain loads and stores, each in a buffer of its own.

    The registers that the step names are called after its operands, and so are their buffers.
    """

    step: Straight
    buffers: tuple[Buffer, ...]
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
        before: list[Step] = []
        after: list[Step] = []
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

    def _filled(self, use: Use, values: NDArray[Any]) -> Iterator[tuple[Place, NDArray[Any]]]:
        """Iterate over the places from which an operand is loaded, and what is to stand there."""
        words = values.view(np.uint8).reshape(LANES, use.holds.registers, -1)
        for load, access in self._loads.items():
            if load.name == use.name:
                yield access.place, values
                return
            for index, register in enumerate(use.registers):
                if load.registers == (register,):
                    yield access.place, words[:, index]

    def images(self, events: Sequence[Event]) -> Images:
        """Return images of the program: with what the step met, and behind them drawn ones."""
        program = self.program
        met: list[Event | None] = [*events[:_MET], *[None] * _DRAWN]
        images = np.random.default_rng(0).integers(
            0, 256, (len(met), program.image_bytes), dtype=np.uint8
        )
        for number, (image, event) in enumerate(zip(images, met, strict=True)):
            contents = self._drawn(number) if event is None else self._met(event)
            for place, values in contents:
                start = position(program, place)
                values = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
                image[start : start + len(values)] = values
        return images

    def _met(self, event: Event) -> Iterator[tuple[Place, NDArray[Any]]]:
        """Iterate over what a step read, and where that stands in the image."""
        for use in self.step.reads:
            yield from self._filled(use, np.ascontiguousarray(event.inputs[use.field]))
        rows = event.inputs.get("rows")
        if is_plain_load(self.step):
            rows = event.result  # registers are as they lay
        if rows is None:
            return
        for span, row in zip(
            self.step.bytes_read, rows.reshape(len(self.step.bytes_read), -1), strict=True
        ):
            (buffer,) = self.buffers
            yield Place(buffer=_home(buffer), offset=span.start), row

    def _drawn(self, number: int) -> Iterator[tuple[Place, NDArray[Any]]]:
        """Iterate over operands that are multiplied exactly; other steps work on noise."""
        if not multiplies_registers(self.step):
            return
        for use in self.step.reads:
            if use.field == "e":
                noise = np.random.default_rng(number).integers(0, 256, (LANES, 4), np.uint8)
                yield from self._filled(use, metadata_bytes(chunks_of(self.step.form))[noise])
                continue
            type_ = self.step.form.type(use.field)
            shape = LANES, use.holds.words * 32 // type_.bits
            random = np.random.default_rng([number, ord(use.field)])
            elements = exact_elements(type_, shape, random, added=use.field == "c")
            yield from self._filled(use, _joined(type_, elements))

    def culprit(self, device: ExperimentDevice, events: Sequence[Event] = ()) -> Culprit | None:
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
    """Return a load of what a step reads, or a store of what it writes, in a buffer of its own."""
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


def wrong_copy(device: ExperimentDevice, program: Program) -> Culprit | None:
    """Find out what is wrong with the copies of a program; None if all are right.

    Other bytes are copied as the program does, to shared memory and back.
    """
    for step in dict.fromkeys(one for one in walk(program.steps) if copies_bytes(one)):
        for copies in _there_and_back(step):
            whole: list[Step] = []
            pieces: list[Step] = []
            for copy in copies:
                whole += [copy, Barrier()]
                pieces += [*_pieces(copy), Barrier()]
            if not _comes_out_wrong(device, step.size, whole):
                continue
            if not _comes_out_wrong(device, step.size, pieces) and _turns_wrong(device):
                return CONTROL
            return wrong_vector(device) or Culprit(instructions=("copy",))
    return None


def _there_and_back(step: Copy) -> Iterator[tuple[Copy, Copy]]:
    """Iterate over copies to shared memory and back, one of the two as wide as that of a step.

    The other one moves at most a word at once: what exchanges parts of a vector there would put
    them in place again.
    """
    source, middle = step.source.offset % _LARGEST_ACCESS, step.destination.offset % _LARGEST_ACCESS
    narrow = middle + (_WORD if middle % _WORD == 0 else 1)
    for before, after in ((source, narrow), (narrow, source)):
        a, b, c = (
            Place(buffer=name, offset=at)
            for name, at in zip("abc", (before, middle, after), strict=True)
        )
        there = Copy(source=a, destination=b, size=step.size)
        yield there, Copy(source=b, destination=c, size=step.size)


def _pieces(copy: Copy) -> Iterator[Copy]:
    for done in range(0, copy.size, _PIECE):
        source, destination = (
            replace(place, offset=place.offset + done) for place in (copy.source, copy.destination)
        )
        size = min(_PIECE, copy.size - done)
        yield Copy(source=source, destination=destination, size=size)


def _turns_wrong(device: ExperimentDevice) -> bool:
    """Whether a word does not get as far as a loop takes it."""
    one, other, last = (Place(buffer="a", offset=index * _WORD) for index in range(3))
    moves = (
        Copy(source=other, destination=last, size=_WORD), Barrier(),
        Copy(source=one, destination=other, size=_WORD), Barrier(),
    )  # fmt: skip
    return _comes_out_wrong(device, _WORD, (Loop(count=2, body=moves),))


def _comes_out_wrong(device: ExperimentDevice, size: int, steps: Sequence[Step]) -> bool:
    """Whether steps on so many bytes come out wrong: in a and c, global memory, and b, shared."""
    size += 2 * _LARGEST_ACCESS
    spaces = {"a": "global", "b": "shared", "c": "global"}
    buffers = tuple(Buffer(name=name, space=space, size=size) for name, space in spaces.items())
    program = Program(buffers=buffers, steps=tuple(steps))
    noise = np.random.default_rng(0).integers(0, 256, (1, program.image_bytes), dtype=np.uint8)
    return device.witness(program, noise) is not None
