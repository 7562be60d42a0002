"""Measuring a device: its probes are run, figures inferred, and confirmed by random images.

`oracle.measuring` has the probes, and how figures follow from what came back. What runs is ordinary
programs of one multiplication each. Images are compared in this process, or in many with a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fuzz.runner import made_here
from oracle.descriptors import read_matrix, write_matrix
from oracle.errors import InfrastructureError, UsageError
from oracle.execution.chosen import Scales, scale_places, scales_of
from oracle.isa.forms import Form, FormatKind
from oracle.isa.lookup import chunks_of, figures_of
from oracle.isa.targets import Module, parse_release
from oracle.layouts import Tile, pack, read, rows_met, unpack, write
from oracle.measuring.inference import (
    Contradiction,
    Fit,
    MeasuredFigure,
    ProbeEvidence,
    fit,
    multiplied,
)
from oracle.measuring.probes import Dots, double_probes, float_probes
from oracle.measuring.scaled_probes import scaled_probes
from oracle.measuring.units import MeasuredUnit
from oracle.models import (
    CompilerRange,
    Confidence,
    DoubleChain,
    ExactSum,
    Figure,
    Model,
    NanRule,
    ScalarDot,
    ScaledDot,
    TruncatedDot,
    Unit,
    figures_in,
    values_in,
)
from oracle.models.figures import KINDS, DotUnit, allowed_of, exact_name
from oracle.program.program import Program
from oracle.program.steps import product_of
from oracle.program.warpgroup import AsyncProduct
from runners.emission import emit_all
from runners.protocol import Compiled, Failure, Images, Runner
from strategies.contents import Recipe, ValueClass, expand
from strategies.draws import derived_seed
from strategies.matrices import single_program
from strategies.programs.warpgroups import plain_multiplication

Array = NDArray[Any]

_BATCH, _BATCH_BYTES = 8192, 32 << 20
"""Images of one launch, and their bytes, at most: they fill a GPU."""
CHUNK = 4096  # Images of 16 x 16 elements at most that are made, run and compared together
_SHOWN, _KEPT = 32, 256  # Differing dot products of a chunk, and of a round, that are explained
_CHOSEN_IMAGES = {ExactSum: 64, ScalarDot: 1024}
"""By kinds of units of which one figure is measured: random images that decide between its values.
"""
_ROUNDS = 3  # How often a unit is fitted again with random images that contradicted its figures


class ProbedDevice:
    """A runner that multiplies matrices, by programs that load A, B and C, multiply and store D.

    Matrices lie in an image plainly, or as the registers of mma.sync, lane by lane. An A that
    metadata place is what is stored of it, and B what this meets; the other rows of B are NaN, or
    -1, and add nothing. Raises InfrastructureError if the runner does not take the module.
    """

    def __init__(self, runner: Runner, module: Module, forms: Sequence[Form]) -> None:
        self.runner = runner
        self._programs: dict[str, tuple[str, Program]] = {}
        for number, form in enumerate(forms):
            if form.warps > 1:
                program = plain_multiplication(form)
            else:
                program = single_program(product_of(form))
            self._programs[form.opcode] = f"unit_{number}", program
        compiled = runner.compile(emit_all(dict(self._programs.values()), module=module))
        if isinstance(compiled, Failure):
            raise InfrastructureError(f"the probes do not compile: {compiled} {compiled.detail}")
        self.compiled: Compiled = compiled

    def multiply(
        self, form: Form, a: Array, b: Array, c: Array, scales: Scales | None = None
    ) -> Array:
        """Return what the device makes of some matrices, (count, m, n)."""
        (entry, program), parts = self._programs[form.opcode], list[Array]()
        together = max(1, min(_BATCH, _BATCH_BYTES // program.image_bytes))
        for start in range(0, len(c), together):
            part = slice(start, start + together)
            images = _images(form, program, a[part], b[part], c[part])
            if scales is not None:
                _write_scales(form, program, images, (scales[0][part], scales[1][part]))
            ran = self.runner.run(self.compiled, images, entry=entry)
            if isinstance(ran, Failure):
                raise InfrastructureError(f"{form.opcode}: {ran} {ran.detail}")
            parts.append(np.array(_matrices(form, program, ran.images, "d")[: len(c[part])]))
        return np.concatenate(parts) if len(parts) != 1 else parts[0]

    def random(
        self, form: Form, count: int, seed: int
    ) -> tuple[Array, Array, Array, Scales | None]:
        """Return A, B and C of so many images of every class of values, (count, rows, columns).

        Behind them are their scales, if there are any.
        """
        _, program = self._programs[form.opcode]
        recipe = Recipe(classes=tuple(ValueClass), seed=derived_seed("measure", seed))
        images = expand(recipe, program, -(-count // form.groups))
        a, b, c = (np.array(_matrices(form, program, images, name)[:count]) for name in "abc")
        # Of a B of which metadata choose, so many rows as are met.
        scales = None
        if form.is_scaled:
            words = [_words(form, program, images, name, 1) for name in ("sa", "sb")]
            scales = scales_of(form, (words[0], words[1], 0), slice(count))
        return a, b[:, : form.stored.shape.k], c, scales

    def dots(self, form: Form, dots: Dots) -> Array:
        """Return what the device makes of dot products, patterns (count,)."""
        # They lie on the diagonals of matrices, each with a row and a column of its own.
        shape, size = form.stored.shape, min(form.shape.m, form.shape.n)
        count = -(-len(dots) // size)
        a = np.zeros((count, shape.m, shape.k), dots.a.dtype)
        b = np.zeros((count, shape.k, shape.n), dots.b.dtype)
        c = np.zeros((count, shape.m, shape.n), dots.c.dtype)
        tile, place = np.divmod(np.arange(len(dots)), size)
        a[tile, place], b[tile, :, place], c[tile, place, place] = dots.a, dots.b, dots.c
        scales = None
        if dots.scales is not None:
            of_a = np.zeros((count, shape.m, form.scales), np.uint8)
            of_b = np.zeros((count, form.scales, shape.n), np.uint8)
            of_a[tile, place], of_b[tile, :, place] = dots.scales
            scales = of_a, of_b
        return np.asarray(self.multiply(form, a, b, c, scales)[tile, place, place])


def _tile(program: Program, operand: str) -> Tile:
    # Metadata lie between C and the product; D is stored last.
    access: Any = program.steps[{"a": 0, "b": 1, "c": 2, "d": -1}[operand]]
    tile: Tile = access.tile
    return tile


def _images(form: Form, program: Program, a: Array, b: Array, c: Array) -> Images:
    """Return the images that hold some matrices, (count, rows, columns) each."""
    images = np.zeros((-(-len(c) // form.groups), program.image_bytes), np.uint8)
    for name, values in (("a", a), ("b", b), ("c", c)):
        offset = program.offset(name)
        if form.opaque:
            write(images, offset, _tile(program, name), values)
            continue
        matrices = np.zeros((form.groups * len(images), *values.shape[1:]), values.dtype)
        matrices[: len(values)] = values
        if form.has_metadata and name == "b":
            matrices = _placed(form, matrices, images, program.offset("e"))
        if form.warps > 1 and name == "b":
            write_matrix(images, form.matrix("b"), _addresses_of_b(program), matrices)
            continue
        words = np.empty((len(images), form.threads, form.words(name)), np.uint32)
        pack(form, matrices, words, name)
        end = offset + words[0].nbytes
        images[:, offset:end] = words.view(np.uint8).reshape(len(images), -1)
    return images


def _write_scales(form: Form, program: Program, images: Images, scales: Scales) -> None:
    """Write scales of A and B into the lanes and bytes that constants of 0 choose."""
    for name, values in (("a", scales[0]), ("b", scales[1].swapaxes(1, 2))):
        lane, first = scale_places(form, name, 0)
        byte = program.offset(f"s{name}") + 4 * lane[:, None] + first + np.arange(form.scales)
        images[: len(values), byte] = values


def _words(form: Form, program: Program, images: Images, operand: str, count: int) -> Array:
    """Return registers of an operand, uint32 (images, threads, count)."""
    offset = program.offset(operand)
    part = images[:, offset : offset + form.threads * 4 * count]
    return np.ascontiguousarray(part).view(np.uint32).reshape(len(images), form.threads, count)


def _placed(form: Form, met: Array, images: Images, offset: int) -> Array:
    """Write metadata into images; return B with these rows where they are met."""
    pairs = np.resize(np.array(chunks_of(form), np.uint32), len(images))
    metadata = np.repeat(pairs[:, None] * np.uint32(0x1111_1111), form.threads, axis=1)
    images[:, offset : offset + 4 * form.threads] = metadata.view(np.uint8)
    signed = form.b_type.kind is FormatKind.SIGNED
    other = -1 if signed else (1 << form.b_type.bits) - 1
    b = np.full((len(met), form.shape.k, form.shape.n), other, met.dtype)
    # The same rows for every row of A.
    np.put_along_axis(b, rows_met(form, metadata, 0)[:, 0, :, None], met, axis=1)
    return b


def _matrices(form: Form, program: Program, images: Images, operand: str) -> Array:
    """Return an operand of some images, (form.groups * count, rows, columns)."""
    offset = program.offset(operand)
    if form.opaque:
        return read(images, offset, _tile(program, operand))
    if form.warps > 1 and operand == "b":
        return read_matrix(images, form.matrix("b"), _addresses_of_b(program))
    return unpack(form, operand, _words(form, program, images, operand, form.words(operand)))


def _addresses_of_b(program: Program) -> NDArray[np.int64]:
    """Return the byte of the image of each byte of B of a warpgroup's multiplication."""
    (product,) = (step for step in program.steps if isinstance(step, AsyncProduct))
    return product.addresses("b") + program.offset("b")


ProbeTask = tuple[Form, Model, int, int]
"""Random images of one form: their model, how many, and the seed."""


class UnitOutcome(NamedTuple):
    """What became of them."""

    images: int
    differing: int  # Images in which the device returned something else than the model
    dots: Dots  # Some that differ
    returned: Array  # Their D, (count,)


def confirm(task: ProbeTask, device: ProbedDevice) -> UnitOutcome:
    """Compare the device with the model on random images."""
    form, model, images, seed = task
    a, b, c, scales = device.random(form, images, seed)
    d = device.multiply(form, a, b, c, scales)
    different = multiplied(form, a, b, c, model, scales) != d
    tile, row, column = (index[:_SHOWN] for index in np.nonzero(different))
    dots = Dots(
        family=("random images",) * len(tile), a=a[tile, row], b=b[tile, :, column],
        c=c[tile, row, column], scale_type=form.texts["stype"] if form.is_scaled else "",
        scales=None if scales is None else (scales[0][tile, row], scales[1][tile, :, column]),
    )  # fmt: skip
    count = int(np.count_nonzero(different.any(axis=(1, 2))))
    return UnitOutcome(len(c), count, dots, d[tile, row, column])


def confirmed_there(task: ProbeTask) -> UnitOutcome:
    """Compare the device of this process of a pool with the model."""
    return confirm(task, made_here())


@dataclass(frozen=True, kw_only=True)
class MeasuredResult(Fit):
    """What was found out of one unit; it has no figures if it is refused."""

    unit: MeasuredUnit
    probes: int
    images: int = 0  # Random images that agree with the figures


class Measurer:
    """Measures one device."""

    def __init__(
        self,
        device: ProbedDevice,
        known: Model,
        confirmer: Callable[[Sequence[ProbeTask]], Iterator[UnitOutcome]],
        *,
        images: int,
        seed: int = 0,
        map_fits: Callable[..., Iterator[Fit]] = map,
    ) -> None:
        self.device, self.known, self.confirmer = device, known, confirmer
        self.images, self.seed, self.map_fits = images, seed, map_fits

    def measure(self, units: Sequence[MeasuredUnit]) -> Iterator[MeasuredResult]:
        """Return what is found out of each unit, as it is confirmed."""
        # Of f64 there is one set of figures for all roundings.
        doubles = [unit for unit in units if unit.kind is DoubleChain]
        fitted = [[unit] for unit in units if unit.kind in (TruncatedDot, ScaledDot)]
        fitted += [doubles] * bool(doubles)
        evidence = list(map(self._evidence, fitted))
        for some, seen, found in zip(fitted, evidence, self.map_fits(fit, evidence), strict=True):
            yield self._fitted(some, seen, found)
        yield from (self._chosen(unit) for unit in units if unit.kind in _CHOSEN_IMAGES)

    def _evidence(self, units: Sequence[MeasuredUnit]) -> ProbeEvidence:
        types, form, depth = units[0].types, units[0].first, units[0].first.stored.shape.k
        if form.is_scaled:
            dots = scaled_probes(types, depth, form.scales, form.texts["stype"])
        elif units[0].kind is DoubleChain:
            dots = double_probes(depth)
        else:
            dots = float_probes(types, depth)
        returned = np.concatenate([self.device.dots(unit.first, dots) for unit in units])
        roundings = tuple(unit.first.rounding or "rn" for unit in units)
        return ProbeEvidence(types, dots, returned, roundings)

    def _fitted(
        self, units: Sequence[MeasuredUnit], evidence: ProbeEvidence, found: Fit
    ) -> MeasuredResult:
        unit, forms = units[0], tuple(form for unit in units for form in unit.forms)
        if unit.kind is DoubleChain:
            unit = MeasuredUnit(name=unit.types, types=unit.types, forms=forms)
        known = self._known(unit)
        if isinstance(known.get("nan"), NanRule) and known["nan"].order:
            # Where payloads are kept, the word without one does not matter.
            known["nan"] = replace(known["nan"], canonical=NanRule.canonical)

        def result() -> MeasuredResult:
            figures = {name: replace(one, known=known.get(name)) for name, one in its.items()}
            return MeasuredResult(
                unit=unit, probes=len(evidence.returned), figures=figures,
                contradiction=found.contradiction,
            )  # fmt: skip

        for _ in range(_ROUNDS):
            its = found.figures
            if found.contradiction is not None:
                return result()
            images, wrong = self._confirmed(result())
            if not wrong:
                return replace(result(), images=images)
            alike = [one for one in wrong if _are_alike(one.dots, evidence.dots)]
            if unit.kind is DoubleChain or not alike:
                break
            # What random images showed is evidence, too.
            alike = alike[: _KEPT // _SHOWN]
            evidence = replace(
                evidence, dots=evidence.dots.plus(*(one.dots for one in alike)),
                returned=np.concatenate([evidence.returned, *(one.returned for one in alike)]),
            )  # fmt: skip
            found = fit(evidence)
        refusal = found.contradiction or _first(wrong, unit.first)
        return replace(result(), figures={}, contradiction=refusal)

    def _known(self, unit: MeasuredUnit) -> dict[str, Any]:
        """Return the values that the model has of a unit."""
        row = self.known.find(unit.first)
        return values_in(row) if isinstance(row, unit.kind) else {}

    def _chosen(self, unit: MeasuredUnit) -> MeasuredResult:
        """Return the one figure of a unit that most random images agree with."""
        # In which order four products are added up in scalar arithmetic, or how sums overflow.
        name = exact_name(unit.first) if unit.kind is ExactSum else "order"
        values, known = allowed_of(unit.kind)[name].words, self._known(unit).get(name)
        tiles = self.device.random(unit.first, _CHOSEN_IMAGES[unit.kind], self.seed)[:3]
        returned = self.device.multiply(unit.first, *tiles)

        def result(figure: MeasuredFigure) -> MeasuredResult:
            return MeasuredResult(unit=unit, probes=returned.size, figures={name: figure})

        models = {one: self._by(result(MeasuredFigure(value=one))) for one in values}
        counts = {
            one: int(np.count_nonzero(multiplied(unit.first, *tiles, model) != returned))
            for one, model in models.items()
        }
        best = min(values, key=counts.__getitem__)
        others = tuple(one for one in values if one != best and counts[one] == counts[best])
        found = result(
            MeasuredFigure(value=best, others=others, refuting=max(counts.values()), known=known)
        )
        images, wrong = self._confirmed(found)
        if wrong:
            return replace(found, figures={}, contradiction=_first(wrong, unit.first))
        return replace(found, images=images)

    def _by(self, result: MeasuredResult) -> Model:
        return replace(self.known, units=(unit_of_model(result),))

    def _confirmed(self, result: MeasuredResult) -> tuple[int, list[UnitOutcome]]:
        """Compare with random images; return how many agree, and what differs."""
        forms, model = result.unit.forms, self._by(result)
        tasks = list[ProbeTask]()
        for number, at in enumerate(range(0, self.images, CHUNK)):
            form, most = forms[number % len(forms)], min(CHUNK, self.images - at)
            count = max(1, most * 256 // max(256, form.shape.m * form.shape.n))
            tasks.append((form, model, count, (self.seed << 32) + number))
        came = list(self.confirmer(tasks))
        agree = sum(one.images - one.differing for one in came)
        return agree, [one for one in came if one.differing]


def _are_alike(one: Dots, other: Dots) -> bool:
    """Whether dot products have as many scales, of one format: those of a unit may have others."""
    counts = [0 if dots.scales is None else dots.scales[0].shape[1] for dots in (one, other)]
    return counts[0] == counts[1] and one.scale_type == other.scale_type


def _first(wrong: Sequence[UnitOutcome], form: Form) -> Contradiction:
    dots = wrong[0].dots
    return Contradiction(
        family=f"random images of {form.opcode}", a=tuple(dots.a[0].tolist()),
        b=tuple(dots.b[0].tolist()), c=int(dots.c[0]), returned=int(wrong[0].returned[0]),
        scales=tuple(tuple(one[0].tolist()) for one in dots.scales or ()),
        nearest=None, differing=sum(each.differing for each in wrong),
        among=sum(each.images for each in wrong),
    )  # fmt: skip


def unit_of_model(
    result: MeasuredResult, source: str = "", confidence: Confidence = Confidence.MEASURED
) -> Unit:
    """Return the unit of a model that has the figures of a result."""
    figures: dict[str, Any] = {}
    for name, one in result.figures.items():
        if one.chosen is not None:
            others = len(one.others)
            said = f"; {others} other values give the same for every probe" if others else ""
            figures[name] = Figure(one.chosen, confidence, f"{source}{said}")
    unit, own = result.unit, dict[str, Any]()
    if issubclass(unit.kind, DotUnit):
        own = {"instruction": figures_of(unit.first), "types": unit.types, "shapes": unit.shapes}
    return unit.kind(**own, **figures)


def measured_model(
    target: str, results: Sequence[MeasuredResult], source: str, confidence: Confidence
) -> Model:
    """Return the model that a measurement found; what was refused or not asked is not in it."""
    exact, units = dict[str, Any](), list[Unit]()
    for result in results:
        unit = unit_of_model(result, source, confidence) if result.figures else ExactSum()
        if not isinstance(unit, ExactSum):
            units.append(unit)
            continue
        for name, figure in figures_in(unit).items():
            if exact.setdefault(name, figure).value != figure.value:
                raise UsageError(
                    f"{result.unit.name} overflows differently from the other integer units, which "
                    "a file of figures cannot say; please report the device and what it printed"
                )
    units.sort(key=lambda unit: [*KINDS.values()].index(type(unit)))
    return Model(target=target, base=target, units=(*units, ExactSum(**exact)))


def joined_model(measured: Sequence[tuple[str, Model]]) -> Model:
    """Return one model of the measurements of a device with several compilers.

    What one instruction of the unit computes holds for all compilers, if those that were asked
    agree. A chain that starts at zero and meets C in an addition of its own, sums that are added
    up, and scalar arithmetic are several instructions that a compiler chose: such figures are those
    of the compilers that were asked, and of releases between two that agree. `measured` is the
    release of each compiler ("12.4", "unknown", or empty where the device has none) and what was
    measured of its code, older compilers first.
    """
    _, last = measured[-1]
    known = [(release, model) for release, model in measured if release]
    if not known:
        return last
    releases, models = zip(*known, strict=True)
    by_unit: dict[tuple[object, ...], dict[str, DotUnit]] = {}
    for release, model in known:
        for row in model.only(DotUnit):
            of = type(row), row.instruction, row.types, row.shapes
            by_unit.setdefault(of, {})[release] = row
    dots = (row for unit in by_unit.values() for row in _ranged(releases, unit))
    doubles = [unit for model in models for unit in model.only(DoubleChain)]
    return replace(last, units=(*dots, *doubles[-1:], *last.only(ExactSum)))


def _ranged(releases: Sequence[str], unit: Mapping[str, DotUnit]) -> Iterator[DotUnit]:
    """Yield what compilers of some releases make of a unit, by releases that agree."""
    # One after the other; what was refused, or is not there, leaves open what lies between.
    rows_here = ((release, unit.get(release)) for release in releases)
    groups = groupby(rows_here, key=lambda one: None if one[1] is None else values_in(one[1]))
    filled = [[release for release, _ in some] for values, some in groups if values is not None]
    for group in filled:
        row = unit[group[-1]]
        # Several instructions compute these, which a compiler chose.
        is_expansion = isinstance(row, ScalarDot) or (
            isinstance(row, TruncatedDot) and (row.sums or row.addend.value == "last")
        )
        if len(filled) > 1 or is_expansion:
            first, last = (parse_release(group[index]) for index in (0, -1))
            row = replace(row, compilers=CompilerRange(first=first, last=last))
        yield row
