"""What is wrong where operands of a multiplication share registers: it is right if they do not.

PTX reads the operands of an instruction before it writes its result, so that they may share
registers in any way. A compiler that makes several machine instructions of one has to keep what
the later ones still read. Which operand is to blame is told by an experiment, not by how the
program looks: the one that, in registers of its own, makes it right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.diagnosis.experiments import IN_PLACE, Bench, Culprit, unit_of
from fuzz.diagnosis.lone_steps import wrong_multiplication
from fuzz.diagnosis.multiplication import wrong_alone
from oracle.forms import MmaForm, MmaSyncForm, ProductForm
from oracle.held import Use
from oracle.lane_steps import MultiplyLanes
from oracle.program import Program
from oracle.sharing import way_of
from oracle.steps import Multiply, Product, Step, copied
from runners.protocol import Images
from strategies.programs.bare import alone
from strategies.simplification.examples import Site, edited, visit
from strategies.simplification.registers import fresh_names

C_ELSEWHERE = "c has d's registers in another order"
"""Also where C repeats one of them, or has only some of them."""
C_IN_PLACE = "d in the registers of c"
"""Every register that they share is the same element of both."""
_ORDER = (IN_PLACE, C_ELSEWHERE, C_IN_PLACE)
"""What is believed first of an image that several explain."""
_BYTES = "8-bit floats"
"""Both formats of bytes, in any combination: compilers expand them alike."""


@dataclass(frozen=True, kw_only=True)
class _Suspect:
    """Multiplications of one form whose operands share registers in one way."""

    form: ProductForm
    condition: str

    @property
    def culprit(self) -> Culprit:
        """What is to blame if this is."""
        name = "wmma.mma" if isinstance(self.form, MmaForm) else "mma.sync"
        return Culprit(
            steps=(name,), within=_within(self.form, self.condition), condition=self.condition,
            form=self.form,
        )  # fmt: skip


def _within(form: ProductForm, condition: str) -> str:
    """Return the types that a compiler expands alike: findings of these are of one cause."""
    if isinstance(form, MmaSyncForm) and form.a_type.is_float and form.a_type.bits == 8:
        return _BYTES
    # What is read too late of C does not depend on what was multiplied before.
    return "" if isinstance(form, MmaForm) and condition == C_ELSEWHERE else unit_of(form)


Wrong = NDArray[np.bool_]


def shared_register_culprits(
    bench: Bench, program: Program, images: Images, again: Callable[[], Wrong | None] | None = None
) -> Sequence[Culprit | None]:
    """Return which operands must not share registers, for each image that comes out wrong.

    That is believed of a multiplication whose D shares registers with other operands if the image
    comes out right where they do not, and wrong without that; where several do so in one program,
    with those of all others apart. None where neither shows it.

    Parameters
    ----------
    bench
        Where the program comes out wrong.
    program, images
        What does.
    again
        Runs it once more as it ran, in a module with others, and tells which images come out wrong.
        That is enough where the same is believed of other programs already; else it is compiled by
        itself.
    """
    found: list[Culprit | None] = [None] * len(images)
    suspects = _suspects(program)
    everything = frozenset(suspects)

    @cache
    def wrong(apart: frozenset[_Suspect]) -> Wrong | None:
        known = {(one.form.opcode, one.condition) for one in suspects}
        if not apart and again is not None and known <= bench.remembered.believed:
            return again()
        results = bench.results(_with_operands_apart(program, apart), images)
        return None if results is None else results.wrong

    # What does not come out wrong again may have come out right for no reason.
    before = wrong(frozenset()) if suspects else None
    after = wrong(everything) if before is not None else None
    if before is None or after is None or not (before & ~after).any():
        return found
    for suspect in suspects:
        cured = np.zeros(len(images), bool)
        for others in (frozenset[_Suspect](), everything - {suspect}):
            with_it, without = wrong(others), wrong(others | {suspect})
            if with_it is not None and without is not None:
                cured |= before & with_it & ~without
        # What is wrong in registers of its own as well may be right there by chance.
        if not cured.any() or not _right_alone(bench, suspect.form):
            continue
        bench.remembered.believed.add((suspect.form.opcode, suspect.condition))
        for index in np.flatnonzero(cured).tolist():
            found[index] = found[index] or suspect.culprit
    return found


def _right_alone(bench: Bench, form: ProductForm) -> bool:
    """Whether a multiplication is right by itself, with every operand in its own registers."""
    key, right_alone = (form.opcode, str(bench.module)), bench.remembered.right_alone
    if key not in right_alone:
        if isinstance(form, MmaForm):
            found = wrong_alone(bench, alone(form), ())
        else:
            assert isinstance(form, MmaSyncForm)
            found = wrong_multiplication(bench, form)
        right_alone[key] = found is None
    return right_alone[key]


def _conditions(step: Step) -> Mapping[str, tuple[str, ...]]:
    """Return in which ways D shares registers with operands of a step, and with which."""
    if not isinstance(step, Multiply | MultiplyLanes):
        return {}
    uses = {use.field: use for use in step.uses}
    shared = [name for name in "abc" if way_of(uses["d"], uses[name]) is not None]
    found: dict[str, tuple[str, ...]] = {}
    multiplicands = tuple(name for name in shared if name in "ab")
    if multiplicands:
        found[IN_PLACE] = multiplicands
    if "c" in shared:
        found[C_IN_PLACE if _in_order(uses["d"], uses["c"]) else C_ELSEWHERE] = ("c",)
    return found


def _in_order(d: Use, c: Use) -> bool:
    """Whether every register that two operands share is the same element of both."""
    return all(
        one == other
        for one, register in enumerate(d.registers)
        for other, same in enumerate(c.registers)
        if register == same
    )


def _suspects(program: Program) -> tuple[_Suspect, ...]:
    """Return what may be to blame, what is believed first before the others."""
    found = dict.fromkeys(
        _Suspect(form=step.form, condition=condition)
        for _, step in visit(program.steps)
        for condition in _conditions(step)
        if isinstance(step, Multiply | MultiplyLanes)
    )
    return tuple(sorted(found, key=lambda one: _ORDER.index(one.condition)))


def _with_operands_apart(program: Program, suspects: Collection[_Suspect]) -> Program:
    """Return a program in which operands do not share registers with D.

    D is copied to where it was afterwards; where its sharing with one operand is to stay, the other
    is copied before.

    Parameters
    ----------
    suspects
        Of the multiplications that are changed.
    """
    fresh = fresh_names(program, "own")
    edits: dict[Site, tuple[Step, ...]] = {}
    for site, step in visit(program.steps):
        ways = _conditions(step)
        if not isinstance(step, Multiply | MultiplyLanes) or not ways:
            continue
        apart = [way for way in ways if _Suspect(form=step.form, condition=way) in suspects]
        fields = ("d",) if len(apart) == len(ways) else sum((ways[way] for way in apart), ())
        if fields:
            edits[site] = tuple(_apart(step, fields, fresh))
    return replace(program, steps=edited(program.steps, edits))


def _apart(step: Product, fields: Collection[str], fresh: Iterator[str]) -> Iterator[Step]:
    """Iterate over a step with some operands in registers of their own, and over the copies."""
    uses = [use for use in step.uses if use.field in fields]
    names: dict[str, Any] = {use.field: next(fresh) for use in uses}
    yield from (copied(use, use.name, names[use.field]) for use in uses if not use.written)
    yield replace(step, **names)
    yield from (copied(use, names[use.field], use.name) for use in uses if use.written)
