"""Measuring a device: its probes are run, figures inferred, and confirmed by random images.

`oracle.measuring` has the probes, and how figures follow from what came back. What runs is ordinary
programs of one multiplication each. Images are compared in this process, or in many with a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fuzz.runner_pool import made_here
from oracle.errors import InfrastructureError, UsageError
from oracle.formats import Kind
from oracle.forms import Form
from oracle.isa import chunks_of, figures_of
from oracle.lane_fragments import pack, rows_met, unpack
from oracle.matrices import LANES
from oracle.measuring.dots import Dots
from oracle.measuring.doubles import canonical_rule, double_probes, fit_doubles
from oracle.measuring.inference import Contradiction, Evidence, Fit, MeasuredFigure, fit
from oracle.measuring.probes import float_probes
from oracle.measuring.units import (
    OVERFLOWS,
    MeasuredUnit,
    exact_result,
    exact_tiles,
    multiplied,
    random_tiles,
)
from oracle.models import (
    Compilers,
    Confidence,
    DoubleChain,
    ExactSum,
    Figure,
    Model,
    NanRule,
    ScalarDot,
    TruncatedDot,
)
from oracle.models.model import exact_name
from oracle.ops import product_of
from oracle.program import Program
from oracle.storage import Tile, read, write
from oracle.targets import Module, parse_release
from runners.emission import emit_all
from runners.protocol import Compiled, Failure, Images, Runner
from strategies.programs.single_instruction import buffers_of, single_instruction

Array = NDArray[Any]

_BATCH = 8192
"""Images of one launch: enough to fill a GPU, and few enough to bound memory at 32 MiB."""
CHUNK = 4096
"""Images that are made, run and compared together."""
_SHOWN = 32
"""Differing dot products of a chunk that are kept, to be explained."""


@dataclass(frozen=True, kw_only=True)
class ReadyProduct:
    """One multiplication, ready to run: where its operands lie in an image.

    Matrices lie there plainly, or as the registers of mma.sync, lane by lane. An A that metadata
    place is what is stored of it, and B what this meets; the other rows of B are NaN, or -1, and
    add nothing.
    """

    form: Form

    @cached_property
    def program(self) -> Program:
        """Load A, B and C, multiply, store D: each lies in a buffer of its own."""
        steps = single_instruction(product_of(self.form))
        return Program(buffers=buffers_of(steps), steps=steps)

    def _tile(self, operand: str) -> Tile:
        load_a, load_b, load_c, *_, store = self.program.steps
        access: Any = {"a": load_a, "b": load_b, "c": load_c, "d": store}[operand]
        tile: Tile = access.tile
        return tile

    def images(self, a: Array, b: Array, c: Array) -> Images:
        """Return the images that hold some matrices, (count, rows, columns) each."""
        form, groups = self.form, self.form.groups
        images = np.zeros((-(-len(c) // groups), self.program.image_bytes), np.uint8)
        for name, values in (("a", a), ("b", b), ("c", c)):
            offset = self.program.offset(name)
            if form.opaque:
                write(images, offset, self._tile(name), values)
                continue
            matrices = np.zeros((groups * len(images), *values.shape[1:]), values.dtype)
            matrices[: len(values)] = values
            if form.has_metadata and name == "b":
                matrices = self._placed(matrices, images)
            words = np.empty((len(images), LANES, form.words(name)), np.uint32)
            pack(form, matrices, words, name)
            end = offset + words[0].nbytes
            images[:, offset:end] = words.view(np.uint8).reshape(len(images), -1)
        return images

    def _placed(self, met: Array, images: Images) -> Array:
        """Return B of which A meets some rows, and write the metadata that say which."""
        form, offset = self.form, self.program.offset("e")
        pairs = np.resize(np.array(chunks_of(form), np.uint32), len(images))
        metadata = np.repeat(pairs[:, None] * np.uint32(0x1111_1111), LANES, axis=1)
        images[:, offset : offset + 4 * LANES] = metadata.view(np.uint8)
        signed = form.b_type.kind is Kind.SIGNED
        other = -1 if signed else (1 << form.b_type.bits) - 1
        b = np.full((len(met), form.shape.k, form.shape.n), other, met.dtype)
        # The same rows for every row of A.
        np.put_along_axis(b, rows_met(form, metadata, 0)[:, 0, :, None], met, axis=1)
        return b

    def result(self, images: Images) -> Array:
        """Return D of some images, (form.groups * count, m, n)."""
        form, offset = self.form, self.program.offset("d")
        if form.opaque:
            return read(images, offset, self._tile("d"))
        part = images[:, offset : offset + LANES * 4 * form.words("d")]
        words = np.ascontiguousarray(part).view(np.uint32)
        return unpack(form, "d", words.reshape(len(images), LANES, -1))


def diagonal(form: Form) -> int:
    """Return the dot products of one image: those of the diagonal, each with a row and a column."""
    return min(form.shape.m, form.shape.n)


def tiles_of(form: Form, dots: Dots) -> tuple[Array, Array, Array]:
    """Return matrices with dot products on their diagonals, and zeros elsewhere."""
    shape, size = form.stored.shape, diagonal(form)
    count = -(-len(dots) // size)
    a = np.zeros((count, shape.m, shape.k), dots.a.dtype)
    b = np.zeros((count, shape.k, shape.n), dots.b.dtype)
    c = np.zeros((count, shape.m, shape.n), dots.c.dtype)
    tile, place = np.divmod(np.arange(len(dots)), size)
    a[tile, place], b[tile, :, place], c[tile, place, place] = dots.a, dots.b, dots.c
    return a, b, c


class Device:
    """A runner that multiplies matrices.

    Raises InfrastructureError if the runner does not take the module.
    """

    def __init__(self, runner: Runner, module: Module, forms: Sequence[Form]) -> None:
        self.runner = runner
        self._products = {form.opcode: ReadyProduct(form=form) for form in forms}
        self._entries = {opcode: f"unit_{i}" for i, opcode in enumerate(self._products)}
        programs = {self._entries[opcode]: one.program for opcode, one in self._products.items()}
        compiled = runner.compile(emit_all(programs, module=module))
        if isinstance(compiled, Failure):
            raise InfrastructureError(f"the probes do not compile: {compiled} {compiled.detail}")
        self.compiled: Compiled = compiled

    def multiply(self, form: Form, a: Array, b: Array, c: Array) -> Array:
        """Return what the device makes of some matrices, (count, m, n)."""
        parts = list(self._parts(form, a, b, c))
        return np.concatenate(parts) if len(parts) != 1 else parts[0]

    def _parts(self, form: Form, a: Array, b: Array, c: Array) -> Iterator[Array]:
        product, entry = self._products[form.opcode], self._entries[form.opcode]
        for start in range(0, len(c), _BATCH):
            part = slice(start, start + _BATCH)
            ran = self.runner.run(
                self.compiled, product.images(a[part], b[part], c[part]), entry=entry
            )
            if isinstance(ran, Failure):
                raise InfrastructureError(f"{form.opcode}: {ran} {ran.detail}")
            yield np.array(product.result(ran.images)[: len(c[part])])

    def dots(self, form: Form, dots: Dots) -> Array:
        """Return what the device makes of dot products, patterns (count,)."""
        d = self.multiply(form, *tiles_of(form, dots))
        tile, place = np.divmod(np.arange(len(dots)), diagonal(form))
        return np.asarray(d[tile, place, place])


@dataclass(frozen=True, kw_only=True)
class Task:
    """Random images of one form."""

    form: Form
    model: Model
    count: int
    seed: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What became of them."""

    images: int
    differing: int
    """Images in which the device returned something else than the model."""
    a: Array
    """Rows of some dot products that differ, (count, k); likewise the columns, and C and D."""
    b: Array
    c: Array
    d: Array


def confirm(task: Task, device: Device) -> Outcome:
    """Compare the device with the model on random images."""
    form = task.form
    a, b, c = random_tiles(form, task.count, task.seed)
    found = device.multiply(form, a, b, c)
    different = multiplied(form, a, b, c, task.model) != found
    tile, row, column = (index[:_SHOWN] for index in np.nonzero(different))
    return Outcome(
        images=len(c),
        differing=int(np.count_nonzero(different.any(axis=(1, 2)))),
        a=a[tile, row], b=b[tile, :, column], c=c[tile, row, column], d=found[tile, row, column],
    )  # fmt: skip


def confirmed_there(task: Task) -> Outcome:
    """Compare the device of this process of a pool with the model."""
    return confirm(task, made_here())


_EXACT_IMAGES = 64
_SCALAR_IMAGES = 1024
SCALAR_ORDERS = ("serial", "pairs")
"""Ways in which a `ScalarDot` may add its products up."""
_ROUNDS = 3
"""How often a unit is fitted again with random images that contradicted its figures."""


class Origin(NamedTuple):
    """Where the figures of a measurement are from."""

    source: str = ""
    confidence: Confidence = Confidence.MEASURED


@dataclass(frozen=True, kw_only=True)
class MeasuredResult(Fit):
    """What was found out of one unit; it has no figures if it is refused."""

    unit: MeasuredUnit
    probes: int
    images: int = 0
    """Random images that agree with the figures."""

    @property
    def values(self) -> dict[str, Any]:
        """The values of the model where nothing tells them from those that were found."""
        return {name: figure.chosen for name, figure in self.figures.items()}


class Measurer:
    """Measures one device."""

    def __init__(
        self,
        device: Device,
        known: Model,
        confirmer: Callable[[Sequence[Task]], Iterator[Outcome]],
        *,
        images: int,
        seed: int = 0,
        map_fits: Callable[..., Iterator[Fit]] = map,
    ) -> None:
        self.device, self.known, self.confirmer = device, known, confirmer
        self.images, self.seed, self.map_fits = images, seed, map_fits

    def measure(self, units: Sequence[MeasuredUnit]) -> Iterator[MeasuredResult]:
        """Return what is found out of each unit, as it is confirmed."""
        dots = [unit for unit in units if unit.kind == "dot"]
        evidence = [self._evidence(unit) for unit in dots]
        fits = self.map_fits(fit, evidence, [unit.first.stored.shape.k for unit in dots])
        for unit, found, seen in zip(dots, fits, evidence, strict=True):
            yield self._confirmed_dot(unit, seen, found)
        doubles = [unit for unit in units if unit.kind == "double"]
        if doubles:
            yield from self._doubles(doubles)
        for unit in units:
            if unit.kind == "scalar":
                yield self._scalar(unit)
            if unit.kind == "exact":
                yield self._exact(unit)

    def _evidence(self, unit: MeasuredUnit) -> Evidence:
        dots = float_probes(unit.types, unit.first.stored.shape.k)
        return Evidence(unit.types, dots, self.device.dots(unit.first, dots))

    def _confirmed_dot(self, unit: MeasuredUnit, evidence: Evidence, found: Fit) -> MeasuredResult:
        row = self.known.find_dot(unit.first)
        known = {} if row is None else row.values
        for _ in range(_ROUNDS):
            result = self._result(unit, len(evidence.dots), found, known)
            if found.contradiction is not None:
                return result
            rule = measured_dot(result, Origin())
            model = replace(self.known, dots=(rule,))
            wrong = [one for one in self._outcomes(unit, model) if one.differing]
            if not wrong:
                return replace(result, images=self.images)
            evidence = _with(evidence, wrong)
            found = fit(evidence, unit.first.stored.shape.k)
        contradiction = found.contradiction or _first(wrong, unit.first)
        result = self._result(unit, len(evidence.dots), found, known)
        return replace(result, figures={}, contradiction=contradiction)

    @staticmethod
    def _result(
        unit: MeasuredUnit, probes: int, found: Fit, known: Mapping[str, Any]
    ) -> MeasuredResult:
        figures = {
            name: replace(figure, known=known.get(name)) for name, figure in found.figures.items()
        }
        return MeasuredResult(
            unit=unit, probes=probes, figures=figures, contradiction=found.contradiction
        )

    def _outcomes(self, unit: MeasuredUnit, model: Model) -> Iterator[Outcome]:
        chunks = -(-self.images // CHUNK)
        tasks = [
            Task(
                form=unit.forms[number % len(unit.forms)],
                model=model,
                count=min(CHUNK, self.images - number * CHUNK),
                seed=(self.seed << 32) + number,
            )
            for number in range(chunks)
        ]
        return self.confirmer(tasks)

    def _doubles(self, units: list[MeasuredUnit]) -> Iterator[MeasuredResult]:
        """Return what is found out of f64: one set of figures for all of its roundings."""
        dots = double_probes(units[0].first.shape.k)
        returned = {
            unit.first.rounding or "rn": self.device.dots(unit.first, dots) for unit in units
        }
        found = fit_doubles(dots, returned)
        known = {} if self.known.doubles is None else dict(self.known.doubles.values)
        if known:
            known["nan"] = canonical_rule(known["nan"])
        figures = {name: _canonical(one) for name, one in found.figures.items()}
        whole = MeasuredUnit(
            name=units[0].types, types=units[0].types,
            forms=tuple(form for unit in units for form in unit.forms),
        )  # fmt: skip
        found = replace(found, figures=figures)
        result = self._result(whole, len(dots) * len(units), found, known)
        if found.contradiction is None:
            model = replace(self.known, doubles=measured_doubles(result, Origin()))
            result = self._confirmed(result, model)
        yield result

    def _scalar(self, unit: MeasuredUnit) -> MeasuredResult:
        """Return in which order four products are added up in scalar arithmetic, if they are."""
        form = unit.first
        tiles = random_tiles(form, _SCALAR_IMAGES, self.seed)
        models = {
            order: replace(self.known, scalars=(scalar_of(unit, _figure(order, Origin())),))
            for order in SCALAR_ORDERS
        }
        made = {order: multiplied(form, *tiles, model) for order, model in models.items()}
        row = self.known.scalar_for(form)
        known = None if row is None else row.order.value
        result = self._chosen(unit, "order", known, made, self.device.multiply(form, *tiles))
        return self._confirmed(result, models[result.values["order"]])

    def _exact(self, unit: MeasuredUnit) -> MeasuredResult:
        form, name = unit.first, exact_name(unit.first)
        tiles = exact_tiles(form, _EXACT_IMAGES)
        made = {overflow: exact_result(form, overflow, *tiles) for overflow in OVERFLOWS}
        known = self.known.exact.values.get(name)
        result = self._chosen(unit, name, known, made, self.device.multiply(form, *tiles))
        exact = replace(self.known.exact, **{name: _figure(result.values[name], Origin())})
        return self._confirmed(result, replace(self.known, exact=exact))

    @staticmethod
    def _chosen(
        unit: MeasuredUnit, name: str, known: Any, made: Mapping[str, Array], returned: Array
    ) -> MeasuredResult:
        """Return the figure whose value makes what a device returned."""
        counts = {value: int(np.count_nonzero(one != returned)) for value, one in made.items()}
        best = min(counts, key=lambda one: counts[one])
        others = tuple(one for one in counts if one != best and counts[one] == counts[best])
        figure = MeasuredFigure(
            value=best, others=others, refuting=max(counts.values()), known=known
        )
        return MeasuredResult(
            unit=unit, probes=returned.size, figures={name: figure}, contradiction=None
        )

    def _confirmed(self, result: MeasuredResult, model: Model) -> MeasuredResult:
        """Return a result with its random images, or refused with the first that contradicts."""
        wrong = [one for one in self._outcomes(result.unit, model) if one.differing]
        if wrong:
            return replace(result, figures={}, contradiction=_first(wrong, result.unit.first))
        return replace(result, images=self.images)


def _figure(value: Any, origin: Origin) -> Figure[Any]:
    return Figure(value=value, confidence=origin.confidence, source=origin.source)


def scalar_of(unit: MeasuredUnit, order: Figure[str]) -> ScalarDot:
    """Return the unit of a model that adds four products up in scalar arithmetic."""
    return ScalarDot(
        instruction=figures_of(unit.first), types=unit.types, shapes=unit.shapes, order=order
    )


def _canonical(figure: MeasuredFigure) -> MeasuredFigure:
    def plain(value: Any) -> Any:
        return canonical_rule(value) if isinstance(value, NanRule) else value

    return replace(figure, value=plain(figure.value), others=tuple(map(plain, figure.others)))


def _with(evidence: Evidence, wrong: Sequence[Outcome]) -> Evidence:
    """Return evidence with what random images showed."""
    a, b, c, d = (np.concatenate([getattr(one, name) for one in wrong])[:256] for name in "abcd")
    more = Dots(family=("random images",) * len(c), a=a, b=b, c=c)
    return Evidence(
        evidence.types, evidence.dots.plus(more), np.concatenate([evidence.returned, d])
    )


def _first(wrong: Sequence[Outcome], form: Form) -> Contradiction:
    one = wrong[0]
    return Contradiction(
        family=f"random images of {form.opcode}", a=tuple(one.a[0].tolist()),
        b=tuple(one.b[0].tolist()), c=int(one.c[0]), returned=int(one.d[0]), nearest=None,
        differing=sum(each.differing for each in wrong), among=sum(each.images for each in wrong),
    )  # fmt: skip


def measured_dot(result: MeasuredResult, origin: Origin) -> TruncatedDot:
    """Return the unit of a model that has the figures of a result."""
    figures: dict[str, Any] = _figures(result, origin)
    unit = result.unit
    return TruncatedDot(
        instruction=figures_of(unit.first), types=unit.types, shapes=unit.shapes, **figures
    )


def measured_doubles(result: MeasuredResult, origin: Origin) -> DoubleChain:
    """Return the f64 unit of a model that has the figures of a result."""
    return DoubleChain(**_figures(result, origin))


def _figures(result: MeasuredResult, origin: Origin) -> dict[str, Figure[Any]]:
    made = {}
    for name, figure in result.figures.items():
        if figure.chosen is None:
            continue
        others = len(figure.others)
        said = f"; {others} other values give the same for every probe" if others else ""
        made[name] = _figure(figure.chosen, origin._replace(source=f"{origin.source}{said}"))
    return made


def measured_model(target: str, results: Sequence[MeasuredResult], origin: Origin) -> Model:
    """Return the model that a measurement found; what was refused or not asked is not in it."""
    exact: dict[str, Figure[str]] = {}
    for result in results:
        if result.unit.kind != "exact":
            continue
        for name, figure in _figures(result, origin).items():
            if exact.setdefault(name, figure).value != figure.value:
                raise UsageError(
                    f"{result.unit.name} overflows differently from the other integer units, which "
                    "a file of figures cannot say; please report the device and what it printed"
                )
    doubles = [result for result in results if result.unit.kind == "double" and result.figures]
    return Model(
        target=target, base=target,
        dots=tuple(
            measured_dot(result, origin)
            for result in results
            if result.unit.kind == "dot" and result.figures
        ),
        scalars=tuple(
            scalar_of(result.unit, _figures(result, origin)["order"])
            for result in results
            if result.unit.kind == "scalar" and result.figures
        ),
        doubles=measured_doubles(doubles[0], origin) if doubles else None,
        exact=ExactSum(**exact),
    )  # fmt: skip


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
    doubles = [model.doubles for _, model in known if model.doubles is not None]
    return replace(
        last,
        dots=_ranged([(release, row) for release, model in known for row in model.dots], known),
        scalars=_ranged(
            [(release, row) for release, model in known for row in model.scalars], known
        ),
        doubles=doubles[-1] if doubles else None,
    )


AnyDot = TypeVar("AnyDot", TruncatedDot, ScalarDot)


def _ranged(
    rows: Sequence[tuple[str, AnyDot]], known: Sequence[tuple[str, Model]]
) -> tuple[AnyDot, ...]:
    """Return each row once for every range of compilers that agree about it."""
    by_unit: dict[tuple[str, str, tuple[str, ...]], dict[str, AnyDot]] = {}
    for release, row in rows:
        by_unit.setdefault((row.instruction, row.types, row.shapes), {})[release] = row
    made: list[AnyDot] = []
    for unit in by_unit.values():
        # One after the other; what was refused, or is not there, leaves open what lies between.
        rows_here = ((release, unit.get(release)) for release, _ in known)
        groups = groupby(rows_here, key=lambda one: None if one[1] is None else one[1].values)
        filled = [[release for release, _ in some] for values, some in groups if values is not None]
        for group in filled:
            row = unit[group[-1]]
            if len(filled) == 1 and not _is_expansion(row):
                made.append(row)
            else:
                first, last = (parse_release(group[index]) for index in (0, -1))
                made.append(replace(row, compilers=Compilers(first=first, last=last)))
    return tuple(made)


def _is_expansion(row: TruncatedDot | ScalarDot) -> bool:
    """Whether several instructions compute it, which a compiler chose."""
    return isinstance(row, ScalarDot) or row.sums is not None or row.addend.value == "last"
