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
from oracle.isa.forms import Form
from oracle.isa.lookup import MMA_FORMS, is_available
from oracle.program.program import Program
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
_HIDDEN: Mapping[str, Mapping[str, int]] = {
    "all": {},
    "c0": {"c": 0},
    "a1": {"a": 1, "c": 0},
    "b1": {"b": 1, "c": 0},
    "a1b1": {"a": 1, "b": 1, "c": 0},
    "a0b0": {"a": 0, "b": 0},
}
"""Runs by the number that stands in place of operands; the rest is what it is."""
_NEEDS = {
    "wmma.load.a": {"all", "c0", "b1"},
    "wmma.load.b": {"all", "c0", "a1"},
    "wmma.load.c": {"all", "a0b0", "reload"},
    "wmma.load": {"all", "c0", "a1", "b1", "a0b0", "reload"},
    "wmma.mma": {"all", "c0", "a1", "b1", "a1b1", "a0b0"},
}
"""The runs that may come out wrong where a step is."""
_Names = tuple[str, ...]


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
    if len(contents) > _MET:
        images = np.stack([image_of(base.program, some) for some in contents])
        if (results := device.results(base.program, images)) is not None:
            # Those that come out wrong before the others.
            contents = [contents[index] for index in np.argsort(~results.wrong, kind="stable")]
    return _Spectrum(device, base, contents[:_MET]).culprit()


class _Spectrum:
    def __init__(
        self,
        device: ExperimentDevice,
        base: SingleProduct,
        contents: Sequence[Mapping[str, Content]] = (),
    ) -> None:
        self._device, self._base, self._form = device, base, base.form
        drawn = [
            {operand: exact(base.form.matrix(operand), seed) for operand in "abc"}
            for seed in range(_DRAWN)
        ]
        self._contents, self._met = [*contents, *drawn], len(contents)
        """The first of them were met, the rest drawn."""
        self._runs = [(number, run) for number in range(len(self._contents)) for run in _HIDDEN]
        images = []
        for number, run in self._runs:
            constants: dict[str, Content] = {
                operand: one(base.form.matrix(operand).type) if value else 0
                for operand, value in _HIDDEN[run].items()
            }
            held = {**self._contents[number], **constants}
            images.append(image_of(base.program, held, noise=number))
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

    def culprit(self) -> Culprit | None:
        if self._results is None or not (self.wrong or self._reloads):
            return None
        names, witness = self._names(), self._reloads
        if witness is None or any("wmma.mma" in name for name in names):
            witness = Witness(program=self._base.program, images=self._images[self._results.wrong])
        return Culprit(instructions=names, witness=witness)

    def _names(self) -> _Names:
        assert self._results is not None
        if not self._results.ran.any() and self._reloads is None:
            return self._failing()
        runs = self._wrong_runs() | ({"reload"} if self._reloads else set())
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
            return ("wmma.load",)
        return self._multiplication()

    @cached_property
    def _reloads(self) -> Witness | None:
        """C, or D, if it is wrong when it is loaded and stored without a multiplication."""
        form = self._form
        for type_ in dict.fromkeys((form.d_type, form.c_type)):
            program = self._base.reload(type_)
            contents = self._exact("d")
            if type_ == form.c_type:
                contents = [operands["c"] for operands in self._contents]
            images = [image_of(program, {"c": each}, noise=n) for n, each in enumerate(contents)]
            if found := self._device.witness(program, np.stack(images)):
                return found
        return None

    def _exact(self, operand: str) -> list[Content]:
        return [exact(self._form.matrix(operand), seed) for seed in range(_DRAWN)]

    def _failing(self) -> _Names:
        for operand in "ab":
            program = self._base.reload(self._form.c_type, beside=operand)
            if not self._device.right(program, image_of(program, self._contents[0])):
                return (f"wmma.load.{operand}",)
        return ("wmma.mma",)

    def _access(self, able: Sequence[str]) -> _Names:
        if self._stored_alike():
            return ("wmma.store",)
        if "wmma.load.c" not in able:
            return ("wmma.load",) if "wmma.load" in able else ("wmma.store",)
        # Right where small integers are loaded and stored: what is wrong are values that no
        # multiplication returns, NaN with a payload say, so that D never shows which step it is.
        program = self._base.reload(self._form.c_type)
        small = (image_of(program, {"c": each}) for each in self._exact("c"))
        if all(self._device.right(program, image) for image in small):
            return ("wmma.load.c", "wmma.store")
        return self._loads("c")

    def _stored_alike(self) -> bool:
        assert self._results is not None
        base = self._base
        chosen = [index for index, (_, run) in enumerate(self._runs) if run in ("c0", "a1", "b1")]
        program = base.reload(self._form.d_type)
        there, here = _of_operand(base.program, "d"), _of_operand(program, "d")
        values = base.results(self._results.expected[chosen])
        images = np.stack([image_of(program, {"c": value}) for value in values])
        images[:, here] = self._images[chosen, there]
        again = self._device.results(program, images)
        if again is None or not again.wrong.any():
            return False
        return bool((self._results.actual[chosen, there] == again.actual[:, here]).all())

    def _load_or_multiplication(self, operand: str) -> _Names:
        """Tell the load of a multiplicand from the multiplication that reads it."""
        if "c0" not in self._wrong_runs(drawn=True):
            # It takes special values: of one operand by chance, as likely as not.
            return self._multiplication()
        if self.reads_elsewhere(operand):
            return self._loads(operand)
        if self._wrong_if_loaded(operand):
            return self._loaded(operand)
        device, base = self._device, self._base
        for form in (self._form, *self._siblings(operand, same=False)):
            # Of lines without gaps, or as many as elements in one, another order is all the same.
            other = _Spectrum(device, base.spread(form, operand))
            if other.wrong and other.reads_elsewhere(operand):
                return self._loads(operand)
        for form in self._siblings(operand):
            if not _Spectrum(device, base.with_form(form, operand)).wrong:
                return self._multiplication()
        return (f"wmma.load.{operand}", "wmma.mma")

    def _loads(self, operand: str) -> _Names:
        form = self._form
        # Lines of A and B that are both along k may change places together, and nothing shows.
        across = [each for each in MMA_FORMS if each == form.varied(alayout="row", blayout="col")]
        for other in dict.fromkeys((form, *across)):
            alike = _Spectrum(self._device, self._base.alike(operand, other))
            if alike.wrong and {"a1", "b1"} <= alike._wrong_runs():
                return ("wmma.load",)
        return (f"wmma.load.{operand}",)

    def reads_elsewhere(self, operand: str) -> bool:
        """Whether the result depends on bytes that the load of an operand should not read."""
        program = self._base.program
        images = np.stack(
            [image_of(program, self._contents[-1], noise=noise) for noise in range(4)]
        )
        own = images[:, _of_operand(program, operand)].copy()
        images[:] = images[0]
        images[:, _of_operand(program, operand)] = own
        results = self._device.results(program, images)
        if results is None:
            return False
        found = results.actual[:, _of_operand(program, "d")]
        return bool((found[1:] != found[:1]).any())

    def _loaded(self, operand: str) -> _Names:
        """Blame a load that gets one value wrong; or all of them, if the other does, too."""
        (other,) = {"a", "b"} - {operand}
        return ("wmma.load" if self._wrong_if_loaded(other) else f"wmma.load.{operand}",)

    def _wrong_if_loaded(self, operand: str) -> bool:
        """Whether an operand of one value comes out right if registers made it, and wrong loaded.

        Of a type whose registers cannot be computed with, f16 is asked: lines as long are loaded
        in one way.
        """
        base, form = self._base, self._form
        if base.making(operand, 0) is None:
            halves = (
                other
                for other in MMA_FORMS
                if other.a_type.name == "f16"
                and (other.shape.m, other.shape.n) == (form.shape.m, form.shape.n)
                and (other.a_layout, other.b_layout) == (form.a_layout, form.b_layout)
            )  # fmt: skip
            base = single_product(next(halves))
        drawn: list[Mapping[str, Content]] = [
            {name: exact(base.form.matrix(name), seed) for name in "ab"} | {"c": 0}
            for seed in range(_DRAWN)
        ]
        for raw in dict.fromkeys((0, one(base.form.matrix(operand).type))):
            program = base.making(operand, raw)
            assert program is not None

            def images(there: int, program: Program = program) -> np.ndarray:
                return np.stack([image_of(program, {**some, operand: there}) for some in drawn])

            # Something else is loaded, and made into the same.
            if self._device.witness(base.program, images(raw)):
                made = self._device.results(program, images(0))
                if made is not None and not made.wrong.any():
                    return True
        return False

    def _siblings(self, operand: str, *, same: bool = True) -> list[Form]:
        layout, mine = f"{operand}_layout", self._form.matrix(operand)
        found: dict[object, Form] = {}
        for other in MMA_FORMS:
            its = other.matrix(operand)
            if (
                other != self._form
                and its.type == mine.type
                and (its == mine) == same
                and getattr(other, layout) == getattr(self._form, layout)
                and is_available(other, self._device.module)
            ):
                found.setdefault(other if same else its, other)
        return list(found.values())[:_SIBLINGS]

    def _multiplication(self) -> _Names:
        """Blame the multiplication: its arithmetic, if it is right where sums are exact."""
        exact_wrong = self._wrong_runs(drawn=True)
        return ("wmma.mma" if exact_wrong else f"wmma.mma of {arithmetic_of(self._form)}",)


def _of_operand(program: Program, name: str) -> slice:
    start = program.offset(name)
    return slice(start, start + program.buffer(name).size)
