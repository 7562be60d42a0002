"""Names failures of multiplications that are right if their operands share no registers.

PTX reads the operands of an instruction before it writes its result, so that they may share
registers in any way. A compiler that makes several machine instructions of one has to keep what
the later ones still read. Which operand is to blame is told by an experiment, not by how the
program looks: the one that, in registers of its own, makes it right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.diagnosis.experiments import IN_PLACE, Culprit, ExperimentDevice, name_of_form, unit_of
from fuzz.diagnosis.multiplication import wrong_alone
from fuzz.diagnosis.single_step import wrong_multiplication
from oracle.isa.forms import Form
from oracle.program.operations import copied
from oracle.program.program import Program, fresh_bank, way_of
from oracle.program.steps import Step, multiplies
from runners.protocol import Images
from strategies.programs.single_instruction import single_product
from strategies.simplification.examples import Site, edited, visit

C_ELSEWHERE = "c has d's registers in another order"
"""Also where C repeats one of them, or has only some of them."""
OVER_METADATA = "d in the register of the metadata"
C_IN_PLACE = "d in the registers of c"
"""Name of the condition that each register which C and D share is the same element of both."""
_ORDER = (IN_PLACE, OVER_METADATA, C_ELSEWHERE, C_IN_PLACE)
"""What is believed first of an image that several explain."""
BYTES = "8-bit floats"
"""Both formats of bytes, in any combination: compilers expand them alike."""


def expanded_alike(form: Form, condition: str = "") -> str:
    """Return the types that a compiler expands alike: findings of these are of one cause."""
    if not form.opaque and form.a_type.is_float and form.a_type.bits == 8:
        return BYTES
    # What is read too late of C does not depend on what was multiplied before.
    return "" if form.opaque and condition == C_ELSEWHERE else unit_of(form)


def _culprit(form: Form, condition: str) -> Culprit:
    """Return what is to blame if multiplications of a form are, where operands share registers."""
    names = filter(None, (name_of_form(form), expanded_alike(form, condition)))
    return Culprit(instructions=(" of ".join(names),), condition=condition, form=form)


Wrong = NDArray[np.bool_]


def shared_register_culprits(
    device: ExperimentDevice,
    program: Program,
    images: Images,
    again: Callable[[], Wrong | None] | None = None,
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
    everything = frozenset(suspects)

    @cache
    def wrong(apart: frozenset[str]) -> Wrong | None:
        """Tell which images come out wrong where some do not share registers; None: not known."""
        results = device.results(_with_operands_apart(program, apart), images)
        return None if results is None else results.wrong

    for key in suspects if again is not None else ():
        after = wrong(frozenset({key})) if key in believed else None
        if again is not None and after is not None and not after.any():
            before = again()
            if before is not None:
                return [suspects[key][0] if one else None for one in before.tolist()]
    found: list[Culprit | None] = [None] * len(images)
    after = wrong(everything) if everything else None
    # What does not come out wrong again may have come out right for no reason.
    if after is None or after.all() or (before := wrong(frozenset())) is None:
        return found
    for key, suspect in suspects.items():
        cured = np.zeros(len(images), bool)
        for others in (frozenset[str](), everything - {key}):
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
        if all(one or not is_wrong for one, is_wrong in zip(found, before.tolist(), strict=True)):
            break
    return found


def _right_alone(device: ExperimentDevice, form: Form | None) -> bool:
    assert form is not None
    right_alone = device.remembered.right_alone
    if form.opcode not in right_alone:
        if form.opaque:
            found = wrong_alone(device, single_product(form), ())
        else:
            found = wrong_multiplication(device, form)
        right_alone[form.opcode] = found is None
    return right_alone[form.opcode]


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
