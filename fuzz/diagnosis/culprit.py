"""Finds the wrong step by experiment: runs each step by itself on right inputs.

A step on registers is given by plain loads what it met, and plain stores show what it makes. Which
operand that shares registers is to blame is told by the one that is right in registers of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, count, islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.diagnosis.experiments import (
    CODE,
    CONTROL,
    COPY,
    IN_PLACE,
    NAMES,
    Culprit,
    ExperimentDevice,
    Witness,
    accumulating,
    arithmetic_of,
    joined,
    key_of,
    name_of,
    name_of_form,
    of_kind,
    unit_of,
    wrong_alone,
    wrong_copy,
    wrong_product,
    wrong_warps,
)
from fuzz.diagnosis.multiplications import (
    ENDED,
    UNSURE,
    name_of_async,
    widened,
    wrong_multiplication,
)
from fuzz.diagnosis.scalar import wrong_code
from oracle.errors import WarpfuzzError
from oracle.execution.tracing import Event, Trace, maker_of, seen_by, trace
from oracle.isa.forms import LANES, SCALES_OF_ONE, Form
from oracle.isa.lookup import chunks_of
from oracle.program.lane_code import Repeat
from oracle.program.operands import (
    Buffer,
    Fragment,
    Operation,
    Place,
    Registers,
    Use,
    listed,
    text_of,
)
from oracle.program.operations import copied
from oracle.program.overlaps import way_of
from oracle.program.program import Program, fresh_bank, position, walk
from oracle.program.steps import (
    Barrier,
    Copy,
    OneWarp,
    Op,
    PlainAccess,
    Step,
    Straight,
    accesses_rows,
    changes_elements,
    is_lane_code,
    is_plain_load,
    loads_fragment,
    multiplies,
    multiplies_fragments,
    multiplies_registers,
    product_of,
    stores_fragment,
)
from oracle.program.warpgroup import THREADS, AsyncProduct
from runners.protocol import Images
from strategies.contents.plans import metadata_bytes
from strategies.matrices import (
    Access,
    Image,
    buffers_of,
    exact_elements,
    plain_access,
    single_product,
    span_of,
)
from strategies.simplification.examples import Site, edited, visit, without

_MOST_STEPS = 512  # steps of a program that is looked into; loops are longer
_ELEMENTWISE = "element-wise operation"


def culprit_of(
    device: ExperimentDevice, program: Program, image: NDArray[np.uint8]
) -> Culprit | None:
    """Find out which step of a wrong program is to blame; None where no experiment tells."""
    try:
        if program.warps > 1:
            return _of_warpgroup(device, program, image)
        (found,) = shared_register_culprits(device, program, image[None])
        traced = trace(program, image, target=device.target)
        found = found or _copies(device, program) or _register_steps(device, program, traced)
        found = found or wrong_product(device, program, traced)
        found = found or _otherwise(device, program, image, traced)
        found = found or _wrong_in_company(device, program, image, traced)
        named = found is not None and found.instructions != (CODE,)
        return found if named else wrong_code(device, traced) or found
    except WarpfuzzError:
        # An experiment cannot be written down, or not be asked of this runner: nothing is known.
        return None


def _of_warpgroup(device: ExperimentDevice, program: Program, image: Image) -> Culprit | None:
    """Blame a step that is wrong in a program of one warp, too, or else a multiplication."""
    traced = trace(program, image, target=device.target)
    seen = [seen_by(warp, traced) for warp in range(program.warps)]
    # Mostly no step is wrong by itself: all warps take the launches of one.
    together = replace(traced, events=[*chain(*zip(*(one.events for one in seen), strict=True))])
    found = wrong_register_step(device, program, together)
    found = found and next(filter(None, (_register_steps(device, program, x) for x in seen)), None)
    alone = () if found else wrong_warps(device, program, image, traced)
    found = found or next((culprit_of(device, one.program, one.image) for one in alone), None)
    found = found or wrong_multiplication(device, program, image)
    unsure = found is None or found.condition in UNSURE
    # What is wrong of right operands, and no multiplication, tells more; and of several defects,
    # which no one thing cures, one may be left of a smaller program.
    other = _wrong_in_company(device, program, image, traced) if unsure else None
    return other if other and (other.condition or not found) else found


def in_company(culprit: Culprit | None) -> bool:
    """Whether steps are known to be wrong beside others alone, or code is to be made smaller."""
    return culprit is not None and (culprit.together or culprit.instructions == (CODE,))


def _register_steps(device: ExperimentDevice, program: Program, traced: Trace) -> Culprit | None:
    """Blame a step on registers, unless the copies that fill its memory are wrong as well."""
    found = wrong_register_step(device, program, traced)
    if found is not None and found.instructions in ((CODE,), (ADDRESSES,)):
        return wrong_code(device, traced) or found
    if found is None or found.witness is None:
        return found
    shown = found.witness
    if (copied := _copies(device, shown.program)) is not None:
        return copied
    # Something else may be wrong with the program as well: apart it was no better there.
    shared = shared_register_culprits(device, shown.program, shown.images)
    return next((replace(one, witness=shown) for one in shared if one is not None), found)


def _otherwise(
    device: ExperimentDevice, program: Program, image: NDArray[np.uint8], traced: Trace
) -> Culprit | None:
    """Blame what the program is right without: element-wise steps, or branches and loops."""

    def right(steps: tuple[Step, ...]) -> bool:
        changed = replace(program, steps=steps)
        return changed != program and device.all_right(changed, image[None])

    plain: dict[Site, tuple[Step, ...]] = {
        site: (replace(step, operation=Operation.COPY, constant=0),)
        for site, step in visit(program.steps)
        if changes_elements(step)
    }
    controlled = any(step.blocks for step in walk(program.steps))
    if not (plain or controlled) or device.all_right(program, image[None]):
        return None
    if right(edited(program.steps, plain)):
        return Culprit(instructions=(_ELEMENTWISE,))
    if not controlled or not right(tuple(event.step for event in traced.events)):
        return None
    once: dict[Site, tuple[Step, ...]] = {
        site: (replace(step, code=without(step.code, Repeat)),)
        for site, step in visit(program.steps)
        if is_lane_code(step)
    }
    # They may be right around lanes that take loops once; and code without them, by chance.
    lanes = "with a loop of lanes in it" if right(edited(program.steps, once)) else ""
    return replace(CONTROL, condition=lanes, together=bool(once))


def _wrong_in_company(
    device: ExperimentDevice, program: Program, image: NDArray[np.uint8], traced: Trace
) -> Culprit | None:
    """Find out which step is the first that is wrong in a program, beside the others alone."""
    if len(traced.events) > _MOST_STEPS:
        return None
    owners = {
        id(one): step
        for step in walk(program.steps) if isinstance(step, OneWarp)
        for one in walk(step.body)
    }  # fmt: skip
    looked_at = list[tuple[Event, Access]]()
    for event in traced.events:
        made = event.step.writes
        # No store takes a multiplicand.
        if made is None or (isinstance(made.holds, Fragment) and made.holds.matrix.operand != "c"):
            continue
        place = Place(buffer=f"seen{event.number}")
        store = plain_access(made, place, store=True)
        if program.warps > 1:
            if event.step.action in ("load_registers", "set_registers"):
                continue  # what four warps load is much
            store = store if id(event.step) in owners else store.changed(lanes=THREADS)
        looked_at.append((event, store))
    stores = [store for _, store in looked_at]
    for form in dict.fromkeys(store.form for store in stores if stores_fragment(store)):
        plain = accumulating(replace(form.matrix(), operand="c"))
        own = Op.of(form=form, fragment="d", place=Place(buffer="d"))
        # What is looked at through a wrong store is wrong, whoever made it.
        if plain is not None and wrong_alone(device, replace(plain, store=own), ()) is not None:
            return None
    seen = {event.number: store for event, store in looked_at}
    taken = list[Step]()
    for event in traced.events:
        step, owner = event.step, owners.get(id(event.step))
        some: tuple[Step, ...] = (step, *([seen[event.number]] if event.number in seen else ()))
        if isinstance(step, AsyncProduct):
            some = (step, *ENDED[:2], *some[1:], ENDED[2])
        taken += some if owner is None else [replace(owner, body=some)]
    tried = Program(
        buffers=(*program.buffers, *buffers_of(stores)), steps=(*taken,), warps=program.warps
    )
    whole = widened(image, tried)
    results = device.results(tried, whole)
    if results is None or not results.ran.all():
        return None
    differs = results.actual[0] != results.expected[0]
    for event, store in looked_at:
        start = tried.offset(span_of(store).buffer)
        if differs[start : start + span_of(store).end].any():
            return _culprit_in_company(traced, event)
    return None


def _culprit_in_company(traced: Trace, event: Event) -> Culprit:
    step, condition = event.step, "beside other steps only"
    if isinstance(step, AsyncProduct):
        names, condition = [f"{name_of_async(step.form)} of {unit_of(step.form)}"], ""
    elif step.changes:
        names = [_ELEMENTWISE]
    elif multiplies_fragments(step):
        names = ["wmma.mma", "wmma.load"]
    elif multiplies_registers(step):
        names = [f"{name_of(step)} of {expanded_alike(step.form)}"]
        factors = [maker_of(traced, event, use.name) for use in step.reads if use.field in "ab"]
        made = (one.step for one in factors if one is not None)
        if any(is_lane_code(one) or one.action == "set_registers" for one in made):
            # It is right with the same multiplicands, loaded.
            condition = "multiplicands that scalar code computes"
    else:
        names = ["wmma.load.c" if loads_fragment(step) else name_of(step)]
    return Culprit(instructions=tuple(names), condition=condition, together=True)


# Steps on registers

ADDRESSES = "addresses of rows that lanes compute"
"""What is named where an instruction is right with the same addresses from elsewhere."""
_AT_ONCE = 16
"""Steps of one module: 6.9 s in place of 7.9 s for 12 findings (ptxas 13.0.88, 2026-11-23)."""
_MET, _DRAWN = 8, 8
"""Contents of a step: some that it met, and drawn ones, half of which show a stuck bit."""
C_ELSEWHERE = "c has d's registers in another order"
"""Also where C repeats one of them, or has only some of them."""
OVER_METADATA = "d in the register of the metadata"
OVER_SCALES = "d in a register of scales"
C_IN_PLACE = "d in the registers of c"
"""Each register which C and D share is the same element of both."""
_ORDER = (IN_PLACE, OVER_METADATA, OVER_SCALES, C_ELSEWHERE, C_IN_PLACE)
"""What is believed first of an image that several explain."""
_Apart = frozenset[str]
_Contents = Iterator[tuple[Place, NDArray[Any]]]  # what lies at some places


def wrong_register_step(
    device: ExperimentDevice, program: Program, traced: Trace
) -> Culprit | None:
    """Find out which step on registers is wrong by itself; None if all are right."""
    met: dict[tuple[Straight, tuple[Buffer, ...]], list[Event]] = {}
    for event in traced.events:
        step, uses = event.step, event.step.uses
        touches = step.bytes_read or step.bytes_written
        if isinstance(step, AsyncProduct) or (program.warps > 1 and touches):
            continue  # four warps take it
        # Of a fragment nobody knows in which lane an element of it stands.
        if uses and not any(use.is_fragment for use in uses):
            met.setdefault(_renamed(event.step, program), []).append(event)

    def order(step: Step) -> tuple[int, ...]:
        """Return a key by which the plainest steps come first, and multiplications last."""
        action = [*NAMES].index("" if step.instruction else step.action)
        accesses = bool(step.bytes_read or step.bytes_written)
        return multiplies(step), action, not accesses, step.stores

    rest, most = iter(sorted(met, key=lambda one: order(one[0]))), _MET * program.warps
    while some := [(_alone(*one), met[one][:most]) for one in islice(rest, _AT_ONCE)]:
        tried = [(alone.program, _images(alone, events)) for alone, events in some]
        for (alone, events), results in zip(some, device.results_of(tried), strict=True):
            # What is wrong in company may be right by itself.
            if results and results.wrong.any() and (found := _blamed(device, alone, *events)):
                return found
    return None


@dataclass(frozen=True, kw_only=True)
class _Alone:
    """One step between plain loads and stores, each in a buffer of its own."""

    step: Straight
    buffers: tuple[Buffer, ...]  # memory that the step itself reads or writes
    loads: Mapping[Use, PlainAccess]  # what fills the registers that it reads
    program: Program  # memory is filled, registers loaded, the step taken, and all of it kept


def _renamed(step: Straight, program: Program) -> tuple[Straight, tuple[Buffer, ...]]:
    """Return a step with operands that share registers as they do, and the memory it touches."""
    names: dict[str, str] = {}
    changes: dict[str, Any] = {use.field: text_of(use.registers) for use in step.uses}
    if not any(listed(use.name) for use in step.uses):
        for use in sorted(step.uses, key=lambda one: one.written):
            names.setdefault(use.name, use.field)
        changes = {use.field: names[use.name] for use in step.uses}
    touched = dict.fromkeys(span.buffer for span in (*step.bytes_read, *step.bytes_written))
    return step.changed(**changes), tuple(map(program.buffer, touched))


def _alone(step: Straight, own: tuple[Buffer, ...] = ()) -> _Alone:
    """Return a step by itself, and the program of it, with memory of its `own`."""
    buffers, before, after = list(own), list[Step](), list[Step]()
    for buffer in own:
        if buffer.space == "shared":
            here, there = Place(buffer=buffer.name), Place(buffer=_home(buffer))
            buffers.append(replace(buffer, name=there.buffer, space="global"))
            before += [Copy(source=there, destination=here, size=buffer.size), Barrier()]
            after += [Barrier(), Copy(source=here, destination=there, size=buffer.size)]
    reads = {use.name: use for use in step.reads}.values()
    # What is a vector by name is loaded whole, if no other operand lists registers of it.
    apart = {one.bank for use in reads if listed(use.name) for one in use.registers}
    whole = [use for use in reads if apart.isdisjoint(one.bank for one in use.registers)]
    single = {
        register: Use(
            field=f"{register.bank}_{register.number}", name=text_of([register]),
            holds=Registers(registers=1, bits=register.bits),
        )
        for use in reads
        for register in use.registers
        if register.bank in apart
    }  # fmt: skip
    loads: dict[Use, PlainAccess] = {use: _access(use) for use in (*whole, *single.values())}
    before += loads.values()
    if step.writes is not None:
        after.append(_access(step.writes))
    buffers += buffers_of((*before, *after))
    program = Program(buffers=tuple(buffers), steps=(*before, step, *after))
    return _Alone(step=step, buffers=own, loads=loads, program=program)


def _images(alone: _Alone, met: Sequence[Event]) -> Images:
    """Return images of the program: with what the step met, and behind them drawn ones."""
    size = len(met) + _DRAWN, alone.program.image_bytes
    images = np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)
    for number, image in enumerate(images):
        contents = _met(alone, met[number]) if number < len(met) else _drawn(alone, number)
        for place, values in contents:
            start = position(alone.program, place)
            data = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
            image[start : start + len(data)] = data
    return images


def _filled(alone: _Alone, use: Use, values: NDArray[Any]) -> _Contents:
    words = values.view(np.uint8).reshape(LANES, use.holds.registers, -1)
    for load, access in alone.loads.items():
        if load.name == use.name:
            yield access.place, values
            return
        for index, register in enumerate(use.registers):
            if load.registers == (register,):
                yield access.place, words[:, index]


def _met(alone: _Alone, event: Event) -> _Contents:
    for use in alone.step.reads:
        yield from _filled(alone, use, np.ascontiguousarray(event.inputs[use.field]))
    # Of a plain load, registers are as they lay.
    rows = event.result if is_plain_load(alone.step) else event.inputs.get("rows")
    if rows is not None:
        spans = alone.step.bytes_read
        for span, row in zip(spans, rows.reshape(len(spans), -1), strict=True):
            (buffer,) = alone.buffers
            yield Place(buffer=_home(buffer), offset=span.start), row


def _drawn(alone: _Alone, number: int) -> _Contents:
    for use in alone.step.reads if multiplies_registers(alone.step) else ():
        form = alone.step.form  # type: ignore[union-attr]
        if use.field == "e":
            noise = np.random.default_rng(number).integers(0, 256, (LANES, 4), np.uint8)
            yield from _filled(alone, use, metadata_bytes(chunks_of(form))[noise])
            continue
        if use.field in ("sa", "sb"):
            one = SCALES_OF_ONE[form.texts["stype"]]
            yield from _filled(alone, use, np.full((LANES, 4), one, np.uint8))
            continue
        type_ = form.type(use.field)
        shape = LANES, use.holds.words * 32 // type_.bits
        random = np.random.default_rng([number, ord(use.field)])
        elements = exact_elements(type_, shape, random, added=use.field == "c")
        yield from _filled(alone, use, joined(type_, elements))


def _blamed(device: ExperimentDevice, alone: _Alone, *met: Event) -> Culprit | None:
    """Blame a step if it is wrong on what it met, or on drawn contents."""
    images, step = _images(alone, met), alone.step
    results = device.results(alone.program, images)
    if results is None or not results.wrong.any():
        return None
    name = name_of(step)
    if accesses_rows(step) and step.memory.computed:
        plain = _alone(step.changed(computed=()), alone.buffers)
        name = ADDRESSES if device.all_right(plain.program, images) else name
    if multiplies_registers(step) and not results.wrong[-_DRAWN:].any():
        # Right where sums are exact.
        name = f"{name} of {arithmetic_of(step.form)}"
    witness = Witness(program=alone.program, images=images[results.wrong])
    return Culprit(instructions=(name,), witness=witness)


def _access(use: Use) -> Any:
    # No vector of registers is aligned one register behind the start: they move one by one.
    name = use.field if listed(use.name) else use.name
    place = Place(buffer=f"{name}_{'out' if use.written else 'in'}", offset=use.holds.bits // 8)
    return plain_access(use, place, store=use.written)


def _home(buffer: Buffer) -> str:
    return f"{buffer.name}_home" if buffer.space == "shared" else buffer.name


def _copies(device: ExperimentDevice, program: Program) -> Culprit | None:
    """Blame copies, or the vectors that they are made of."""
    found = wrong_copy(device, program)
    for loads, registers in product((False, True), (4, 2)) if found is COPY else ():
        place = Place(buffer="vector")
        step = PlainAccess(loads=loads, registers="registers", count=registers, place=place)
        buffer = Buffer(name=place.buffer, space="global", size=4 * LANES * registers)
        if (vector := _blamed(device, _alone(step, (buffer,)))) is not None:
            return vector
    return found


# Operands that share registers


def expanded_alike(form: Form, condition: str = "") -> str:
    """Return the types that a compiler expands alike: findings of these are of one cause."""
    if not (form.opaque or of_kind(form)) and form.a_type.is_float and form.a_type.bits == 8:
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

    That is believed of multiplications whose D shares registers if the image is right where they do
    not, and wrong without that; with several, with those of all others apart. None: nothing shows.
    `again` runs it as it ran, in a module with others, which is enough where the same is believed
    of another program: a campaign runs into what a compiler always gets wrong every second.
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
        if form.opaque:
            found = wrong_alone(device, single_product(form), ())
        else:
            found = _blamed(device, _alone(product_of(form)))
        known[form.opcode] = found is None
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
    if scales := tuple(name for name in shared if name in ("sa", "sb")):
        found[OVER_SCALES] = scales
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
    """Return what may be to blame, by key: one culprit for each form that it is seen in."""
    found = dict.fromkeys(
        _culprit(step.form, condition)
        for _, step in visit(program.steps)
        for condition in _conditions(step, program)
        if multiplies(step)
    )
    by_key: dict[str, tuple[Culprit, ...]] = {}
    for one in sorted(found, key=lambda one: _ORDER.index(one.condition)):
        key = key_of(one)
        by_key[key] = (*by_key.get(key, ()), one)
    return by_key


def _with_operands_apart(program: Program, keys: Collection[str]) -> Program:
    """Return a program in which operands do not share registers with D."""
    fresh = (fresh_bank(program, f"own{number}_") for number in count())
    edits: dict[Site, tuple[Step, ...]] = {}
    for site, step in visit(program.steps):
        ways = _conditions(step, program)
        if not multiplies(step) or not ways:
            continue
        apart = [way for way in ways if key_of(_culprit(step.form, way)) in keys]
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
