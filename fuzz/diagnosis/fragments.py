"""Finds what is wrong in one multiplication, with contents that hide one operand after the other.

An operand that is the same in every element is right however it was loaded, one that is zero takes
the other out of the product, and without a multiplication only a load and a store are left. So
every run needs some of the steps; those are to blame that every wrong run needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fuzz.diagnosis.experiments import Culprit, ExperimentDevice, Results, Witness, arithmetic_of
from oracle.isa.lookup import is_available
from oracle.program.program import Program
from strategies.matrices import Content, Image, SingleProduct, exact, image_of, one, single_product

_MET, _DRAWN = 4, 2
"""Contents of every run: of those that one multiplication met in a loop, and exact ones."""
_HIDDEN: Mapping[str, Mapping[str, int]] = {
    "all": {},
    "c0": {"c": 0},
    "a1": {"a": 1, "c": 0},
    "b1": {"b": 1, "c": 0},
    "a1b1": {"a": 1, "b": 1, "c": 0},
    "a0b0": {"a": 0, "b": 0},
}
"""Runs by the number that stands in place of operands; the rest is what it is."""
_LOAD_A, _LOAD_B, _LOAD_C = {"all", "c0", "b1"}, {"all", "c0", "a1"}, {"all", "a0b0"}
"""The runs that may come out wrong where one load is."""


def wrong_alone(
    device: ExperimentDevice, base: SingleProduct, contents: Sequence[Mapping[str, Content]]
) -> Culprit | None:
    """Find out which steps of a bare multiplication are to blame.

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
    given, met = [*contents[:_MET], *_exact(base, "abc")], len(contents[:_MET])
    runs = [(number, run) for number in range(len(given)) for run in _HIDDEN]
    held = [{**given[number], **_constants(base, run)} for number, run in runs]

    def images_of(program: Program) -> Image:
        tried = zip(runs, held, strict=True)
        return np.stack([image_of(program, some, noise=at) for (at, _), some in tried])

    images = images_of(base.program)
    results = device.results(base.program, images)
    if results is None:
        return None
    bad = [run for run, is_wrong in zip(runs, results.wrong, strict=True) if is_wrong]
    wrong, exact_wrong = {run for _, run in bad}, {run for at, run in bad if at >= met}
    witness = _reloaded(device, base, given)
    if not wrong and witness is None:
        return None
    alike = _stored_alike(device, base, [run for _, run in runs], images, results)
    plain = replace(single_product(base.form), multiply=base.multiply, store=base.store).program
    if witness is not None and alike:
        names: tuple[str, ...] = ("wmma.store",)
    elif plain != base.program and device.all_right(plain, images_of(plain)):
        names = ("wmma.load",)  # strides, places and state spaces of any operand
    elif witness is not None:
        names = _access(device, base, wrong)
    elif not results.ran.any():
        names = ("wmma.mma", "wmma.load")
    else:
        names = _multiplication(device, base, wrong, exact_wrong)
    if witness is None:
        witness = Witness(program=base.program, images=images[results.wrong])
    return Culprit(instructions=names, witness=witness)


def _exact(base: SingleProduct, operands: str) -> list[dict[str, Content]]:
    return [
        {operand: exact(base.form.matrix(operand), seed) for operand in operands}
        for seed in range(_DRAWN)
    ]


def _constants(base: SingleProduct, run: str) -> dict[str, Content]:
    return {
        operand: one(base.form.matrix(operand).type) if value else 0
        for operand, value in _HIDDEN[run].items()
    }


def _reloaded(
    device: ExperimentDevice, base: SingleProduct, given: Sequence[Mapping[str, Content]]
) -> Witness | None:
    """Return C, or D, if it is wrong when it is loaded and stored without a multiplication."""
    for type_ in dict.fromkeys((base.form.d_type, base.form.c_type)):
        program = base.reload(type_)
        contents = [some["d"] for some in _exact(base, "d")]
        if type_ == base.form.c_type:
            contents = [some["c"] for some in given]
        images = [image_of(program, {"c": each}, noise=n) for n, each in enumerate(contents)]
        if found := device.witness(program, np.stack(images)):
            return found
    return None


def _stored_alike(
    device: ExperimentDevice, base: SingleProduct, runs: Sequence[str], images: Image,
    results: Results,
) -> bool:  # fmt: skip
    """Whether what the multiplication gives comes out wrong alike where it is loaded and stored."""
    chosen = [index for index, run in enumerate(runs) if run in ("c0", "a1", "b1")]
    program = base.reload(base.form.d_type)
    there, here = _bytes_of(base.program, "d"), _bytes_of(program, "d")
    values = base.results(results.expected[chosen])
    again = np.stack([image_of(program, {"c": value}) for value in values])
    again[:, here] = images[chosen, there]
    came = device.results(program, again)
    if came is None or not came.wrong.any():
        return False
    return bool((results.actual[chosen, there] == came.actual[:, here]).all())


def _access(device: ExperimentDevice, base: SingleProduct, wrong: set[str]) -> tuple[str, ...]:
    """Tell the load of C from the store, where the two alone come out wrong."""
    if not wrong <= _LOAD_C:
        return ("wmma.store",) if "a1b1" in wrong else ("wmma.load",)
    # Right where small integers are loaded and stored: what is wrong are values that no
    # multiplication returns, NaN with a payload say, so that D never shows which step it is.
    program = base.reload(base.form.c_type)
    small = np.stack([image_of(program, {"c": some["c"]}) for some in _exact(base, "c")])
    return ("wmma.load.c", "wmma.store") if device.all_right(program, small) else ("wmma.load.c",)


def _multiplication(
    device: ExperimentDevice, base: SingleProduct, wrong: set[str], exact_wrong: set[str]
) -> tuple[str, ...]:
    """Tell loads of A and B from the multiplication, by its arithmetic where exact sums are right.

    No other instruction reads such a fragment: what is wrong with one operand alone is of both.
    """
    by_values = (f"wmma.mma of {arithmetic_of(base.form)}",)
    for operand, needed in (("a", _LOAD_A), ("b", _LOAD_B)):
        if wrong <= needed:
            # It takes special values: of one operand by chance, as likely as not.
            return (f"wmma.load.{operand}", "wmma.mma") if "c0" in exact_wrong else by_values
    loaded = [each for each in "ab" if f"{each}1" in wrong and _wrong_if_loaded(device, base, each)]
    if loaded:
        return ("wmma.load" if len(loaded) == 2 else f"wmma.load.{loaded[0]}",)
    return ("wmma.mma",) if exact_wrong else by_values


def _wrong_if_loaded(device: ExperimentDevice, base: SingleProduct, operand: str) -> bool:
    """Whether an operand of one value comes out right if registers made it, and wrong loaded."""
    drawn = [{**some, "c": 0} for some in _exact(base, "ab")]
    for raw in dict.fromkeys((0, one(base.form.matrix(operand).type))):
        program = base.making(operand, raw)
        if program is None:  # no element-wise operations of its type make it
            return False
        there, other = (
            np.stack([image_of(made, {**some, operand: value}) for some in drawn])
            for made, value in ((base.program, raw), (program, 0))
        )
        # Something else is loaded, and made into the same.
        if device.witness(base.program, there) is not None and device.all_right(program, other):
            return True
    return False


def _bytes_of(program: Program, name: str) -> slice:
    start = program.offset(name)
    return slice(start, start + program.buffer(name).size)
