"""Experiments on programs of a warpgroup: what has to stand beside a multiplication to be wrong.

A program is written anew without one thing at a time. That without which it is right names it, so
that the shapes and types of multiplications, of which compilers know little, do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from corpus import Kind
from fuzz.diagnosis.experiments import Culprit, ExperimentDevice, Results, name_of_form
from oracle.errors import UsageError
from oracle.isa.forms import Form
from oracle.program.lane_code import ZERO, Assign, LaneCode
from oracle.program.operands import Buffer, Place, Register, Word, text_of
from oracle.program.program import Program
from oracle.program.steps import (
    Barrier,
    Branch,
    Loop,
    OneWarp,
    Step,
    is_lane_code,
    plain_load,
    plain_store,
)
from oracle.program.warpgroup import MAX_PENDING, THREADS, WAYS, AsyncProduct, WarpgroupSync
from runners.protocol import Images
from strategies.simplification.examples import Edits, Site, edited, visit

IN_FLIGHT = "in flight beside other steps"
"""Where a program is right with a wait behind each multiplication, and wrong if that waits for
nothing, or no experiment but waits tells more: of two programs whose A is overwritten in flight
both cured it (ptxas 13.0.88 and the driver's compiler on an H200, 2026-11-30)."""
LIMITED = "under .maxnreg"
"""Where it is right without that: compilers put the D that is added partly in the registers of the
one that is written (ptxas 12.4 to 13.5 at -O0). Of 13 findings with it of other causes one was, by
chance: what nothing wrote was 0 (machine code followed with the image, 2026-11-30)."""
UNREAD_D = "in flight with a d that nothing reads"
"""Where a wait behind each cures it, and if each adds its D and each D is stored: compilers gave
others the registers of a D that was still written (ptxas 12.4 to 13.5, 2026-11-29)."""
OF_REGISTERS = "in flight with a in registers"
"""Where, of these, it is right with a wait behind each of those whose A is in registers: compilers
wrote these before the wait, also where they made one register of two equal values (ptxas 12.4 to
13.2, 2026-11-29)."""
SAME_OF_D = "with a d of which the same is computed before and behind it"
"""Where it is right if what reads a D reads a copy that is made there: compilers took what they had
computed of it before, though it was written since (ptxas 12.4 to 13.5, 2026-11-29)."""
SAME_OF_A = "with a in registers of which the same is computed before and behind it"
"""Where it is right if the multiplications have a copy of such an A: compilers took the same for
it, where a fence, a wait or a barrier stands between (ptxas 13.3 to 13.5, 2026-11-29)."""
GIVEN_D = "with a d that other code writes"
"""Where it is right if such code writes it through memory: of the registers of a D that got one
value compilers wrote one alone (ptxas 12.4 to 13.1, 2026-11-29)."""
REPEATED = "more than once with the same operands"
"""Where it is right with a fence and a wait for nothing behind each such: compilers did one of
several that nothing stands between (ptxas 12.0 to 13.5, 2026-11-29)."""
PREDICATED = "with a predicate for scale-d"
"""Where nothing of these cures it, and it is right with constants, in branches or in the turns of
loops one after the other."""
BEHIND_CODE = "behind scalar code"
_WAITED_FOR = (UNREAD_D, OF_REGISTERS, IN_FLIGHT)  # conditions that a wait behind one cures
UNSURE = (PREDICATED, BEHIND_CODE)
"""What is right without these may be so because much else is changed, too."""
_RESULT = 8  # register of code, of those that copy at most so many, from which on copies are
_ZEROS = plain_load(registers="zeros", count=1, place=Place(buffer="zeros"), lanes=THREADS)
ENDED = tuple(WarpgroupSync(kind=kind) for kind in ("commit_group", "wait_group", "fence"))
_NOT_ENDED = (ENDED[0], replace(ENDED[1], pending=MAX_PENDING), ENDED[2])
"""The same for compilers, which forget values at each of them; what is in flight stays so."""


@dataclass(frozen=True, kw_only=True)
class _Trials:
    """A program that is wrong, without one thing or another."""

    device: ExperimentDevice
    program: Program
    image: NDArray[np.uint8]  # (image_bytes,)

    @cached_property
    def products(self) -> Mapping[Site, AsyncProduct]:
        """Multiplications by where they stand."""
        steps = visit(self.program.steps)
        return {site: step for site, step in steps if isinstance(step, AsyncProduct)}

    @cached_property
    def joint(self) -> Mapping[Site, Step]:
        """The steps that all four warps take, by where they stand."""
        steps = dict(visit(self.program.steps))
        alone = {site for site, step in steps.items() if isinstance(step, OneWarp)}
        return {
            site: step
            for site, step in steps.items()
            if alone.isdisjoint(site[:end] for end in range(len(site) + 1))
        }

    @cached_property
    def code(self) -> Mapping[Site, LaneCode]:
        """Scalar code among them."""
        return {site: step for site, step in self.joint.items() if is_lane_code(step)}

    def without(
        self, edits: Edits, kept: Sequence[LaneCode] = (), more: Sequence[Buffer] = ()
    ) -> Program:
        """Return the program with other steps, and what some code makes stored where it stands."""
        buffers, edits = [*self.program.buffers, *more], dict(edits)
        for site, step in self.code.items():
            if step in kept and site not in edits:
                name, count = f"kept{len(buffers)}", len(step.results)
                buffers.append(Buffer(name=name, space="global", size=4 * THREADS * count))
                place = Place(buffer=name)
                store = plain_store(
                    registers=step.destination, count=count, place=place, lanes=THREADS
                )
                edits[site] = (Barrier(), step, store)  # in a loop it is stored again
        return replace(
            self.program, buffers=tuple(buffers), steps=edited(self.program.steps, edits)
        )

    def ended(
        self,
        which: Callable[[AsyncProduct], bool] = lambda _: True,
        end: tuple[WarpgroupSync, ...] = ENDED,
    ) -> Edits:
        """Return what puts a wait, for all of it if none other is given, behind some."""
        return {site: (one, *end) for site, one in self.products.items() if which(one)}

    def apart(self) -> Program:
        """Return the program with other registers for each A that scalar code reads as well."""
        read = {
            one.bank for code in self.code.values() for use in code.reads for one in use.registers
        }
        shared = (read & _banks(self, "a")) - _banks(self, "d")
        edits = dict[Site, tuple[Step, ...]]()
        for site, step in visit(self.program.steps):
            for use in step.uses:
                if isinstance(step, AsyncProduct) and use.field == "a" and use.bank in shared:
                    others = text_of(one._replace(bank=f"{one.bank}copy") for one in use.registers)
                    edits[site] = (replace(step, a=others),)
                elif use.written and use.bank in shared:
                    edits[site] = (step, *_copied(use.registers))
        return self.without(edits)

    def renewed(self) -> Program:
        """Return the program with copies of D, made at each step that makes something of it."""
        banks, edits = _banks(self, "d"), dict[Site, tuple[Step, ...]]()
        for site, step in self.joint.items():
            uses = [] if isinstance(step, AsyncProduct) or step.writes is None else step.reads
            uses = [use for use in uses if not banks.isdisjoint(one.bank for one in use.registers)]
            read = [one for use in uses for one in use.registers]
            if uses:
                other = step.changed(**{use.field: _copies_of(use.registers, read) for use in uses})
                # What is loaded behind a barrier may be another value each time.
                copied = _copied(read, f"{_ZEROS.registers}.0")
                edits[site] = (Barrier(), _ZEROS, *copied, other)
        zeros = Buffer(name=_ZEROS.place.buffer, space="global", size=_ZEROS.size)
        return self.without(edits, more=[zeros] if edits else ())

    def given(self) -> Program:
        """Return the program with each D stored and loaded where something else has written it."""
        banks, begun = _banks(self, "d"), min(int(site[0]) for site in self.products)
        edits, buffers = dict[Site, tuple[Step, ...]](), list[Buffer]()
        for site, step in self.joint.items():
            use = None if isinstance(step, AsyncProduct) or int(site[0]) < begun else step.writes
            if use is None or banks.isdisjoint(one.bank for one in use.registers):
                continue
            count, place = len(use.registers), Place(buffer=f"given{len(buffers)}")
            buffers.append(Buffer(name=place.buffer, space="global", size=4 * THREADS * count))
            store = plain_store(registers=use.name, count=count, place=place, lanes=THREADS)
            edits[site] = (Barrier(), step, store, Barrier(), replace(store, loads=True))
        return self.without(edits, more=buffers)

    def constant(self) -> Program:
        """Return the program with constants for each scale-d."""
        edits = dict[Site, tuple[Step, ...]]()
        for site, one in self.products.items():
            if isinstance(one.scale_d, Word):
                then, otherwise = one.arms
                edits[site] = (Branch(condition=one.scale_d, then=then, otherwise=otherwise),)
        program = self.without(edits)
        loops = [(site, one) for site, one in visit(program.steps) if isinstance(one, Loop)]
        unrolled = {site: one.unrolled for site, one in loops if one.counts}
        return replace(program, steps=edited(program.steps, unrolled))

    def alive(self) -> Program:
        """Return the program with multiplications that all add their D, and each D stored."""
        edits: Edits = {site: (replace(one, scale_d=1),) for site, one in self.products.items()}
        buffers, stores = list[Buffer](), list[Step]()
        for name, form in {one.d: one.form for one in self.products.values()}.items():
            count, place = form.words("d"), Place(buffer=f"whole{len(buffers)}")
            buffers.append(Buffer(name=place.buffer, space="global", size=4 * THREADS * count))
            stores.append(plain_store(registers=name, count=count, place=place, lanes=THREADS))
        program = self.without(edits, more=buffers)
        # A D that nothing has written is none to add.
        loads = [step.changed(loads=True) for step in stores]
        return replace(program, steps=(*loads, *program.steps, *ENDED[:2], *stores))

    def came(self, *programs: Program) -> Sequence[Results | None]:
        """Run programs, which begin with the buffers of this one; None: it cannot be asked."""
        return self.device.results_of([(one, widened(self.image, one)) for one in programs])

    def named(self, condition: str, *, which: str = "", together: bool = False) -> Culprit:
        """Return the multiplications as what is wrong under a condition."""
        names = (name_of_async(next(iter(self.products.values())).form),)
        return Culprit(instructions=names, condition=condition, which=which, together=together)


def _own(registers: Sequence[Register], bank: str) -> list[Register]:
    return [one for one in dict.fromkeys(registers) if one.bank == bank]


def _copies_of(registers: Sequence[Register], among: Sequence[Register]) -> str:
    """Name the copies of registers, of those that `_copied` makes `among` others."""
    return text_of(
        one._replace(bank=f"{one.bank}copy", number=_own(among, one.bank).index(one))
        for one in registers
    )


def _copied(registers: Sequence[Register], zero: str = "") -> Iterator[LaneCode]:
    """Yield what copies registers, exclusive or zero: no compiler sees that it is a copy."""
    for bank in dict.fromkeys(one.bank for one in registers):
        own = _own(registers, bank)
        made = [f"r{_RESULT + at}" for at in range(len(own))]
        other = f"r{len(own)}" if zero else ZERO
        code = tuple(
            Assign(opcode="xor.b32", destinations=(one,), sources=(f"r{at}", other))
            for at, one in enumerate(made)
        )
        yield LaneCode(
            source=f"{text_of(own)} {zero}".strip(), count=len(own) + bool(zero), code=code,
            destination=f"{bank}copy", results=tuple(made),
        )  # fmt: skip


def widened(image: NDArray[np.uint8], program: Program) -> Images:
    """Return the image of a program that has more buffers behind, uint8 (1, image_bytes)."""
    whole = np.zeros((1, program.image_bytes), np.uint8)
    whole[0, : len(image)] = image
    return whole


def wrong_multiplication(
    device: ExperimentDevice, program: Program, image: NDArray[np.uint8]
) -> Culprit | None:
    """Return what is wrong with a program of a warpgroup; None where no experiment tells.

    Of one that does not run to its end, as where an address is in a register of a D in flight, it
    is only asked what runs to its end.
    """
    trials = _Trials(device=device, program=program, image=image)
    if not trials.products:
        return None
    if program.registers:
        # Experiments may take more registers than that, and are then not compiled.
        unlimited = replace(program, registers=0)
        with_limit, without = trials.came(program, unlimited)
        ends = with_limit is None or bool(with_limit.ran.all())
        if without is not None and without.cured(ends):
            right = with_limit is not None and with_limit.cured(ends=True)
            return None if right else trials.named(LIMITED)
        return wrong_multiplication(device, unlimited, image)
    found = _cured(trials)
    if found is not None and found.condition not in UNSURE:
        return found
    # Of two defects either is named without the other.
    for without_one in (trials.renewed, trials.apart, trials.given):
        with suppress(UsageError):  # it cannot be written down
            rest = without_one()
            left = None if rest == program else _cured(replace(trials, program=rest))
            if left is not None and left.condition not in UNSURE:
                return replace(left, together=True)
    return found


def _cured(trials: _Trials) -> Culprit | None:
    """Return what a program is right without; None where it is right, or no experiment tells."""
    program = trials.program
    every, in_registers = trials.ended(), trials.ended(lambda one: bool(one.a))
    alike = Counter(map(_operands, trials.products.values()))
    repeated = trials.ended(lambda one: alike[_operands(one)] > 1, _NOT_ENDED)
    tried: Mapping[str, Callable[[], Program]] = {
        UNREAD_D: trials.alive,
        OF_REGISTERS: lambda: trials.without(in_registers),
        IN_FLIGHT: lambda: trials.without(every),
        SAME_OF_D: trials.renewed,
        SAME_OF_A: trials.apart,
        GIVEN_D: trials.given,
        REPEATED: lambda: trials.without(repeated),
        PREDICATED: trials.constant,
        BEHIND_CODE: lambda: trials.without(every, [*trials.code.values()]),
    }
    ways = dict[str, Program]()
    for name, made in tried.items():
        with suppress(UsageError):  # it cannot be written down
            ways |= {name: one} if (one := made()) != program else {}
    unwaited = trials.without(trials.ended(end=_NOT_ENDED))
    before, *came = trials.came(program, unwaited, *ways.values())
    ends = before is None or bool(before.ran.all())
    unwaited_right, *cured = (one is not None and one.cured(ends) for one in came)
    if before is not None and before.cured(ends=True):
        return None
    # Of what is not compiled nobody knows, so nor what is to be named behind it.
    unasked = {name for name, one in zip(ways, came[1:], strict=True) if _is_unasked(one)}
    told = [name for name, cure in zip(ways, cured, strict=True) if cure or name in unasked]
    if IN_FLIGHT not in told:
        told = [name for name in told if name not in _WAITED_FOR]
    elif unwaited_right and ends:
        # What waits for nothing takes time as well, and ends what compilers remember of values.
        told.sort(key=(*_WAITED_FOR, *UNSURE).__contains__)
    if told and told[0] not in unasked:
        condition = told[0]
        which = _which(trials, every, ends) if condition in _WAITED_FOR else ""
        together = condition == BEHIND_CODE or (unwaited_right and condition in _WAITED_FOR)
        return trials.named(condition, which=which, together=together)
    return None


def hanging_multiplication(
    ends: Callable[[Callable[[], Program]], bool],
    device: ExperimentDevice,
    program: Program,
    image: NDArray[np.uint8],
) -> Culprit | None:
    """Return what is wrong with a program of a warpgroup that `ends` with waits alone, or None."""
    trials = _Trials(device=device, program=program, image=image)
    if not trials.products or not ends(lambda: trials.without(trials.ended())):
        return None
    return trials.named(UNREAD_D if ends(trials.alive) else IN_FLIGHT)


def _is_unasked(results: Results | None) -> bool:
    return results is None or Kind.COMPILE_FAILURE in results.failed.values()


def _operands(step: AsyncProduct) -> AsyncProduct:
    """Return a multiplication as compilers see it: however its descriptors are built."""
    tiles = (one and replace(one, built=WAYS[0]) for one in (step.a_tile, step.b_tile))
    return step.changed(**dict(zip(("a_tile", "b_tile"), tiles, strict=True)))


def name_of_async(form: Form) -> str:
    """Name a multiplication of a warpgroup; of sparse and dense ones compilers make the same."""
    return name_of_form(form).removesuffix(".sp")


def _banks(trials: _Trials, field: str) -> set[str]:
    """Return the banks of registers of an operand of the multiplications."""
    uses = (use for step in trials.products.values() for use in step.uses if use.field == field)
    return {register.bank for use in uses for register in use.registers}


def _which(trials: _Trials, which: Edits, ends: bool) -> str:
    """Say which multiplication has to be in flight; "" if it takes several.

    In a loop a wait behind one of the next turn cures it, too: so does one in front of that.
    """
    products, numbers = trials.products, [*trials.products]

    def cures(edits: Edits) -> list[Site]:
        alone = [trials.without({site: edits[site]}) for site in edits]
        came = zip(edits, trials.came(*alone), strict=True)
        return [site for site, one in came if one is not None and one.cured(ends)]

    behind = cures(which)
    in_front = cures({site: (*ENDED, products[site]) for site in behind})
    site = next((one for one in behind if one not in in_front), next(iter(behind), None))
    if site is None:
        return ""
    number = f"multiplication {numbers.index(site) + 1} of {len(numbers)}"
    return f"{products[site].form.opcode}, {number}"
