"""Finds what is wrong in one multiplication, with contents that hide one operand after the other.

An operand that is the same in every element is right however it was loaded, one that is zero takes
the other out of the product, and without a multiplication only a load and a store are left. So
every run needs some of the steps; the one is to blame that every wrong run needed and no right run
did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from fuzz.diagnosis.experiments import Culprit, ExperimentDevice, Witness, arithmetic_of
from oracle.forms import Form
from oracle.isa import MMA_FORMS, is_available
from strategies.programs.single_instruction import (
    Content,
    SingleProduct,
    exact,
    image_of,
    one,
    single_product,
)

_SIBLINGS = 3
"""Other multiplications of one fragment that are tried."""
_MET = 4
"""Contents that were met, of those that one multiplication met in a loop, of every run."""
_DRAWN = 2
"""Exact contents of every run."""


def wrong_alone(
    device: ExperimentDevice, base: SingleProduct, contents: Sequence[Mapping[str, Content]]
) -> Culprit | None:
    """Find out which step of a bare multiplication is to blame.

    `contents` are operands that it met; some that are exact in any arithmetic are tried beside
    them. None where it comes out right.
    """
    if base.form.op == "xor":
        # Zero takes the other operand out of a product with .and alone.
        form = base.form.varied(op="and")
        if is_available(form, device.module):
            multiply = replace(base.multiply, form=form)
            found = wrong_alone(device, replace(base, multiply=multiply), contents)
            if found is not None:
                return found
    spectrum = _Spectrum(device, base, _wrong_first(device, base, contents)[:_MET])
    return spectrum.culprit() if spectrum.wrong or spectrum.reloads_wrong else None


def _wrong_first(
    device: ExperimentDevice, base: SingleProduct, contents: Sequence[Mapping[str, Content]]
) -> Sequence[Mapping[str, Content]]:
    """Return operands in another order: those that come out wrong before the others."""
    if len(contents) <= _MET:
        return contents
    found = device.results(base.program, np.stack([image_of(base.program, c) for c in contents]))
    order = range(len(contents)) if found is None else np.argsort(~found.wrong, kind="stable")
    return [contents[index] for index in order]


_HIDDEN: Mapping[str, Mapping[str, str]] = {
    "all": {},
    "c0": {"c": "zero"},
    "a1": {"a": "one", "c": "zero"},
    "b1": {"b": "one", "c": "zero"},
    "a1b1": {"a": "one", "b": "one", "c": "zero"},
    "a0b0": {"a": "zero", "b": "zero"},
}
"""Runs by what takes the place of operands; the rest is what it is."""
_NEEDS = {
    "wmma.load.a": {"all", "c0", "b1"},
    "wmma.load.b": {"all", "c0", "a1"},
    "wmma.load.c": {"all", "a0b0", "reload"},
    "wmma.load": {"all", "c0", "a1", "b1", "a0b0", "reload"},
    "wmma.mma": {"all", "c0", "a1", "b1", "a1b1", "a0b0"},
}
"""The runs that may come out wrong where a step is."""


class _Spectrum:
    def __init__(
        self,
        device: ExperimentDevice,
        base: SingleProduct,
        contents: Sequence[Mapping[str, Content]],
    ) -> None:
        self._device, self._base = device, base
        form = base.form
        drawn = [
            {operand: exact(form.matrix(operand), seed) for operand in "abc"}
            for seed in range(_DRAWN)
        ]
        self._contents = [*contents, *drawn]
        self._met = len(contents)
        """The first of them were met, the rest drawn."""
        images, self._runs = [], []
        for number, operands in enumerate(self._contents):
            for run, hidden in _HIDDEN.items():
                changed = {
                    operand: 0 if how == "zero" else one(form.matrix(operand).type)
                    for operand, how in hidden.items()
                }
                images.append(image_of(base.program, {**operands, **changed}, noise=number))
                self._runs.append((number, run))
        self._images = np.stack(images)
        self._results = device.results(base.program, self._images)
        self.wrong = self._results is not None and bool(self._results.wrong.any())

    def _wrong_runs(self, *, drawn: bool = False) -> set[str]:
        """Return what comes out wrong; of the contents that were drawn alone, on demand."""
        assert self._results is not None
        return {
            run
            for (number, run), wrong in zip(self._runs, self._results.wrong, strict=True)
            if wrong and (number >= self._met or not drawn)
        }

    @property
    def reloads_wrong(self) -> bool:
        return self._reloads is not None

    def culprit(self) -> Culprit:
        found = self._culprit()
        witness = self._reloads
        if witness is None or any("wmma.mma" in one for one in found.instructions):
            assert self._results is not None
            witness = Witness(program=self._base.program, images=self._images[self._results.wrong])
        return replace(found, witness=witness)

    def _culprit(self) -> Culprit:
        assert self._results is not None
        if not self._results.ran.any() and not self.reloads_wrong:
            return self._failing()
        runs = self._wrong_runs()
        if self.reloads_wrong:
            runs.add("reload")
        able = [name for name, needed in _NEEDS.items() if runs <= needed]
        if "reload" in runs:
            return self._access(able)
        for operand in "ab":
            if f"wmma.load.{operand}" in able:
                return self._load_or_multiplication(operand)
        for operand in "ab":
            if f"{operand}1" in runs and self._wrong_if_loaded(operand):
                return self._loaded(operand)
        # C is right where it is loaded and stored: a sum of C alone is the multiplication's.
        elsewhere = {"a1", "b1"} <= runs <= _NEEDS["wmma.load"] - {"a0b0"}
        if elsewhere and any(map(self.reads_elsewhere, "ab")):
            return Culprit(instructions=("wmma.load",))
        return self._multiplication()

    @cached_property
    def _reloads(self) -> Witness | None:
        """C, or D, if it is wrong when it is loaded and stored without a multiplication."""
        base, form = self._base, self._base.form
        for type_ in dict.fromkeys((form.d_type, form.c_type)):
            program = base.reload(type_)
            if type_ == form.c_type:
                contents = [operands["c"] for operands in self._contents]
            else:
                contents = [exact(form.matrix("d"), seed) for seed in range(_DRAWN)]
            images = np.stack(
                [image_of(program, {"c": content}, noise=n) for n, content in enumerate(contents)]
            )
            found = self._device.results(program, images)
            if found is not None and found.wrong.any():
                return Witness(program=program, images=images[found.wrong])
        return None

    def _failing(self) -> Culprit:
        """Blame a load with which nothing runs, whatever is loaded; else the multiplication."""
        for operand in "ab":
            program = self._base.reload(self._base.form.c_type, beside=operand)
            if not self._device.right(program, image_of(program, self._contents[0])):
                return Culprit(instructions=(f"wmma.load.{operand}",))
        return Culprit(instructions=("wmma.mma",))

    def _access(self, able: Sequence[str]) -> Culprit:
        """Tell loads from the store, where an accumulator that is loaded and stored is another."""
        if self._stored_alike():
            return Culprit(instructions=("wmma.store",))
        if "wmma.load.c" in able:
            if self._only_special_values_move():
                return Culprit(instructions=("wmma.load.c", "wmma.store"))
            return self._loads("c")
        return Culprit(instructions=("wmma.load",) if "wmma.load" in able else ("wmma.store",))

    def _only_special_values_move(self) -> bool:
        """Whether C is right when small integers are loaded and stored.

        What is wrong then are values that no multiplication returns, NaN with a payload say, so
        that D never shows which of the two steps it is.
        """
        form = self._base.form
        program = self._base.reload(form.c_type)
        contents = [exact(form.matrix("c"), seed) for seed in range(_DRAWN)]
        return all(self._device.right(program, image_of(program, {"c": c})) for c in contents)

    def _stored_alike(self) -> bool:
        assert self._results is not None
        base, form = self._base, self._base.form
        chosen = [index for index, (_, run) in enumerate(self._runs) if run in ("c0", "a1", "b1")]
        program = base.reload(form.d_type)
        start, size = base.program.offset("d"), base.program.buffer("d").size
        begin = program.offset("d")
        values = base.results(self._results.expected[chosen])
        images = []
        for index, value in zip(chosen, values, strict=True):
            image = image_of(program, {"c": value})
            image[begin : begin + size] = self._images[index][start : start + size]
            images.append(image)
        again = self._device.results(program, np.stack(images))
        if again is None:
            return False
        before = self._results.actual[chosen][:, start : start + size]
        after = again.actual[:, begin : begin + size]
        return bool((before == after).all()) and bool(again.wrong.any())

    def _load_or_multiplication(self, operand: str) -> Culprit:
        """Tell the load of a multiplicand from the multiplication that reads it."""
        load = f"wmma.load.{operand}"
        drawn = self._wrong_runs(drawn=True)
        if "c0" not in drawn:
            # It takes special values: of one operand by chance, as likely as not.
            return self._multiplication()
        if self.reads_elsewhere(operand):
            return self._loads(operand)
        if self._wrong_if_loaded(operand):
            return self._loaded(operand)
        for form in (self._base.form, *self._siblings(operand, same=False)):
            # Of lines without gaps, or as many as elements in one, another order is all the same.
            other = _Spectrum(self._device, self._base.spread(form, operand), ())
            if other.wrong and other.reads_elsewhere(operand):
                return self._loads(operand)
        if any(self._is_right(form, operand) for form in self._siblings(operand)):
            return self._multiplication()
        return Culprit(instructions=(load, "wmma.mma"))

    def _loads(self, operand: str) -> Culprit:
        form = self._base.form
        # Lines of A and B that are both along k may change places together, and nothing shows.
        across = [one for one in MMA_FORMS if one == form.varied(alayout="row", blayout="col")]
        for other in dict.fromkeys((form, *across)):
            alike = _Spectrum(self._device, self._base.alike(operand, other), ())
            if alike.wrong and not {"a1", "b1"} - alike._wrong_runs():
                return Culprit(instructions=("wmma.load",))
        return Culprit(instructions=(f"wmma.load.{operand}",))

    def reads_elsewhere(self, operand: str) -> bool:
        """Whether the result depends on bytes that the load of an operand should not read."""
        program, operands = self._base.program, self._contents[-1]
        images = np.stack([image_of(program, operands, noise=noise) for noise in range(4)])
        start, size = program.offset(operand), program.buffer(operand).size
        fixed = images[0].copy()
        for image in images[1:]:
            own = image[start : start + size].copy()
            image[:] = fixed
            image[start : start + size] = own
        results = self._device.results(program, images)
        if results is None:
            return False
        begin, end = program.offset("d"), program.offset("d") + program.buffer("d").size
        return bool((results.actual[1:, begin:end] != results.actual[:1, begin:end]).any())

    def _loaded(self, operand: str) -> Culprit:
        """Blame a load that gets one value wrong; or all of them, if the other does, too."""
        (other,) = {"a", "b"} - {operand}
        each = "" if self._wrong_if_loaded(other) else f".{operand}"
        return Culprit(instructions=(f"wmma.load{each}",))

    def _wrong_if_loaded(self, operand: str) -> bool:
        """Whether an operand of one value comes out right if registers made it, and wrong loaded.

        Of a type whose registers cannot be computed with, f16 is asked: lines as long are loaded
        in one way.
        """
        base = self._base
        if base.making(operand, 0) is None:
            form = base.form
            halves = (
                other
                for other in MMA_FORMS
                if other.a_type.name == "f16"
                and (other.shape.m, other.shape.n) == (form.shape.m, form.shape.n)
                and (other.a_layout, other.b_layout) == (form.a_layout, form.b_layout)
            )  # fmt: skip
            base = single_product(next(halves))
        type_ = base.form.matrix(operand).type
        for raw in dict.fromkeys((0, one(type_))):
            program = base.making(operand, raw)
            assert program is not None
            drawn = [
                {name: exact(base.form.matrix(name), seed) for name in "ab"} | {"c": 0}
                for seed in range(_DRAWN)
            ]
            images = np.stack([image_of(program, {**some, operand: raw}) for some in drawn])
            loaded = self._device.results(base.program, images)
            if loaded is None or not loaded.wrong.any():
                continue
            # Something else is loaded, and made into the same.
            images = np.stack([image_of(program, {**some, operand: 0}) for some in drawn])
            made = self._device.results(program, images)
            if made is not None and not made.wrong.any():
                return True
        return False

    def _siblings(self, operand: str, *, same: bool = True) -> list[Form]:
        """Return other multiplications that take the same fragment; or one of another shape."""
        form, layout = self._base.form, f"{operand}_layout"
        mine = form.matrix(operand)
        found: dict[object, Form] = {}
        for other in MMA_FORMS:
            its = other.matrix(operand)
            if (
                other != form
                and its.type == mine.type
                and (its == mine) == same
                and getattr(other, layout) == getattr(form, layout)
                and is_available(other, self._device.module)
            ):
                found.setdefault(other if same else its, other)
        return list(found.values())[:_SIBLINGS]

    def _is_right(self, form: Form, operand: str) -> bool:
        other = _Spectrum(self._device, self._base.with_form(form, operand), ())
        return not other.wrong

    def _multiplication(self) -> Culprit:
        """Blame the multiplication: its arithmetic, if it is right where sums are exact."""
        if self._wrong_runs(drawn=True):
            return Culprit(instructions=("wmma.mma",))
        return Culprit(instructions=(f"wmma.mma of {arithmetic_of(self._base.form)}",))
