"""Experiments on a device: programs that are run there, and what they show to be wrong.

A bare multiplication of fragments (`wrong_alone`) is run on contents that hide one operand after
the other, so that every run needs some of the steps: those of every wrong run are to blame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, starmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus import Kind
from fuzz.runner import kind_of_failure
from oracle.bounds.permission import contradicting
from oracle.errors import UndefinedProgramError, UsageError
from oracle.execution.execution import execute
from oracle.execution.tracing import Event, Trace, maker_of
from oracle.isa.forms import Form, Format, Matrix
from oracle.isa.lookup import INSTRUCTIONS, MMA_FORMS, is_available
from oracle.isa.targets import Module
from oracle.program.operands import Buffer, Place
from oracle.program.program import Program, walk
from oracle.program.steps import (
    Barrier,
    Copy,
    Step,
    copies_bytes,
    loads_fragment,
    multiplies_fragments,
    stores_fragment,
)
from runners.emission import emit, emit_all
from runners.isolation import Isolation, isolate
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Images, Runner, Trouble
from strategies.matrices import (
    Content,
    Image,
    SingleProduct,
    apart,
    exact,
    image_of,
    single_product,
)
from strategies.simplification.examples import Example, of_one_warp

_FAILED_RUNS = 24
"""Failed runs of one batch of at most some 20 images, before the rest counts as wrong."""
IN_PLACE = "d in the registers of a multiplicand"
"""What is said where D shares registers with A or B, which ptxas gets wrong (docs/findings.md)."""
CODE = "scalar code"
"""What a step is called that is code of lanes; `fuzz.diagnosis.scalar` tells more."""
NAMES: Mapping[str, str] = {
    "load_registers": "loading registers",
    "store_registers": "storing registers",
    "": "",
    "pack_registers": "packing",
    "set_registers": "setting registers",
    "move_registers": "moving registers",
    "lane_code": CODE,
}  # names of steps by actions, "" of instructions, in the order in which they are tried
_UNITS = {"f64": "f64", "b1": "single bits"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Witness:
    """A program that comes out wrong, and the images that do."""

    program: Program
    images: Images


@dataclass(frozen=True, kw_only=True)
class Culprit:
    """What experiments show to be wrong, and a program that shows it."""

    instructions: tuple[str, ...]
    """As PTX spells them, or steps in words, most telling first."""
    condition: str = ""  # without which it is right
    which: str = field(default="", compare=False)  # of the program's instructions it is, in words
    form: Form | None = None  # the instruction in which operands share registers
    together: bool = False
    """Whether each step was right by itself: of a smaller program less may be named."""
    witness: Witness | None = field(default=None, compare=False)
    """A program of nothing but what it takes to see it."""


def words_of(culprit: Culprit) -> str:
    """Return the instructions in a line."""
    return " and ".join(culprit.instructions)


def key_of(culprit: Culprit) -> str:
    """Return what findings of one cause have in common."""
    return "/".join(filter(None, (words_of(culprit), culprit.condition)))


@dataclass(kw_only=True)
class Remembered:
    """What experiments on a runner have shown, so that each program need not show it again."""

    right_alone: dict[str, bool] = field(default_factory=dict)
    """By opcode: whether a multiplication is right by itself."""
    believed: set[str] = field(default_factory=set)
    """Keys of culprits that every experiment has shown of some program."""
    alike: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    """By scalar instruction, what stands for its predicate, and what was tried: what is wrong like
    it."""
    copied: set[tuple[int, int, tuple[int, int, int], Module]] = field(default_factory=set)
    """Copies that were right in modules like one."""


class ExperimentDevice:
    """A device on which programs are tried, in so many copies of each image, all of which count.

    What was found out before on this runner is `remembered`, and added to.
    """

    def __init__(
        self,
        runner: Runner,
        module: KernelModule,
        *,
        copies: int = 1,
        remembered: Remembered | None = None,
    ) -> None:
        self._runner, self._copies = runner, copies
        self.remembered = Remembered() if remembered is None else remembered
        self.module = module.header
        self.target = module.target
        """Whose model computes: that of the device, once something ran there."""

    def results(self, program: Program, images: Images) -> Results | None:
        """Run a program; None if it cannot be asked. Raises as the runner."""
        (found,) = self.results_of([(program, images)])
        return found

    def results_of(
        self, tried: Sequence[tuple[Program, Images]], modules: Sequence[KernelModule] = ()
    ) -> list[Results | None]:
        """Run programs, each on images of its own, as `results` does.

        They are kernels of one module, compiled in a sixth of the time of 16 (ptxas 13.0.88); each
        is a module where that fails, or one of `modules`, in which they stand, is another.
        """
        found: list[Results | None] = []
        with suppress(UsageError, UndefinedProgramError):
            named = {f"kernel_{index}": program for index, (program, _) in enumerate(tried)}
            if len(tried) > 1 and all(
                emit(program, module=self.module, entry=module.kernels[0].entry) == module
                for (program, _), module in zip(tried, modules, strict=False)
            ):
                together = self._runner.compile(emit_all(named, module=self.module))
                if isinstance(together, Compiled):
                    for entry, (program, images) in zip(named, tried, strict=True):
                        found.append(None)
                        with suppress(UsageError, UndefinedProgramError):
                            found[-1] = self._results(program, images, together, entry)
                    return found
        for index, (program, images) in enumerate(tried):
            found.append(None)
            with suppress(UsageError, UndefinedProgramError):
                made = modules[index] if modules else emit(program, module=self.module)
                found[-1] = self._results(program, images, self._runner.compile(made))
        return found

    def _results(
        self,
        program: Program,
        images: Images,
        compiled: Compiled | Failure,
        entry: str | None = None,
    ) -> Results | None:
        target = self.target if isinstance(compiled, Failure) else compiled.oracle_target
        expected = execute(program, images, target=target).images
        self.target, count = target, len(images)
        many, many_expected = (np.repeat(x, self._copies, axis=0) for x in (images, expected))
        if isinstance(compiled, Failure):
            came = Isolation.of_nothing(many, compiled)
        else:
            came = isolate(
                self._runner, compiled, many, entry=entry, limit=_FAILED_RUNS, copies=self._copies
            )
        failed: dict[int, Kind] = {}
        if came.last is not None:
            if came.last.trouble is Trouble.UNSUPPORTED:
                return None
            kind = kind_of_failure(came.last)
            failed = {} if came.ran.any() or came.culprits else dict.fromkeys(range(count), kind)
        for culprit in came.culprits:
            failed[culprit.index // self._copies] = kind_of_failure(culprit.failure)
        wrong = ~came.ran
        wrong[contradicting(program, many, came.images, target=target, expected=many_expected)] = (
            True
        )
        differs = wrong.reshape(count, self._copies)
        shown = np.arange(count) * self._copies + differs.argmax(axis=1)
        return Results(
            wrong=np.asarray(differs.any(axis=1)), ran=came.ran[shown], actual=came.images[shown],
            expected=expected, failed=failed, target=target,
        )  # fmt: skip

    def witnesses(self, tried: Sequence[tuple[Program, Images]]) -> list[Witness | None]:
        """Run programs; return each with the images that are wrong, None where none is known."""
        return [
            None
            if found is None or not found.wrong.any()
            else Witness(program=program, images=images[found.wrong])
            for (program, images), found in zip(tried, self.results_of(tried), strict=True)
        ]

    def witness(self, program: Program, images: Images) -> Witness | None:
        """Run a program; return it with the images that are wrong, None where none is known."""
        return self.witnesses([(program, images)])[0]

    def all_right(self, program: Program, images: Images) -> bool:
        """Whether a program comes out right on all images; False if it cannot be asked."""
        results = self.results(program, images)
        return results is not None and not results.wrong.any()


@dataclass(frozen=True, kw_only=True, eq=False)
class Results:
    """What came of some images."""

    wrong: NDArray[np.bool_]  # (count,): which are not what the model says, or have no result
    ran: NDArray[np.bool_]  # (count,): which have one
    actual: Images
    expected: Images
    failed: Mapping[int, Kind]
    """What a failure is called, by the image; none of those that were not found out."""
    target: str  # whose model this is judged by

    def cured(self, ends: bool) -> bool:
        """Whether nothing is wrong, of a program that ends, or whether all ran, of others."""
        return bool(self.ran.all() if not ends else not self.wrong.any())


def wrong_warps(
    device: ExperimentDevice, program: Program, image: Image, traced: Trace
) -> list[Example]:
    """Return what single warps of a warpgroup's program do that comes out wrong by itself."""
    whole = Example(program=program, image=image)
    alone = [*of_one_warp(whole, target=device.target, traced=traced)]
    came = device.results_of([(one.program, one.image[None]) for one in alone])
    return [one for one, each in zip(alone, came, strict=True) if each and each.wrong.any()]


def name_of_form(form: Form) -> str:
    """Name an instruction; of plain and ordered metadata ptxas makes the same code (2026-11-23)."""
    return INSTRUCTIONS[form.mnemonic].name.partition("::")[0]


def name_of(step: Step) -> str:
    """Return what a step on registers is called."""
    return name_of_form(step.instruction) if step.instruction else NAMES[step.action]


def unit_of(form: Form) -> str:
    """Name what multiplies: types that one unit takes."""
    if kind := of_kind(form):
        return kind
    name = form.a_type.name
    return _UNITS.get(name, name if form.a_type.is_float else f"{form.a_type.bits}-bit integers")


def arithmetic_of(form: Form) -> str:
    """Name the arithmetic of a multiplication: types that are computed with in one way."""
    others = "floats" if form.a_type.is_float else "integers"
    return of_kind(form) or _UNITS.get(form.a_type.name, others)


def of_kind(form: Form) -> str:
    """Name what a multiplication with `.kind` multiplies; "" of others."""
    return ("scaled blocks" if form.is_scaled else "narrow floats") if form.kind else ""


def joined(type_: Format, elements: NDArray[Any]) -> NDArray[np.uint8]:
    """Return elements as they stand in registers, several of the short ones in a byte."""
    if type_.bits >= 8:
        return elements.view(np.uint8)
    parts = elements.view(np.uint8).reshape(-1, 8 // type_.bits) & ((1 << type_.bits) - 1)
    shifts = np.arange(0, 8, type_.bits, dtype=np.uint8)
    joined: NDArray[np.uint8] = np.bitwise_or.reduce(parts << shifts, axis=1)
    return joined


# A multiplication of fragments

_MULTIPLICATIONS = 512  # most that are tried by themselves, of a program with loops
_MET, _DRAWN = 4, 2
"""Contents of every run: of those that one multiplication met in a loop, and exact ones."""
_HIDDEN: Mapping[str, Mapping[str, int]] = {
    "all": {},
    "c0": {"c": 0},
    "a1": {"a": 1, "c": 0},
    "b1": {"b": 1, "c": 0},
    "a1b1": {"a": 1, "b": 1, "c": 0},
    "a0b0": {"a": 0, "b": 0},
}  # runs by the number that stands in place of operands; the rest is what it is
_LOAD_A, _LOAD_B, _LOAD_C = {"all", "c0", "b1"}, {"all", "c0", "a1"}, {"all", "a0b0"}
"""The runs that may come out wrong where one load is."""


def wrong_alone(
    device: ExperimentDevice, base: SingleProduct, contents: Sequence[Mapping[str, Content]]
) -> Culprit | None:
    """Find out which steps of a bare multiplication are to blame; None where it comes out right.

    `contents` are operands that it met; some that are exact in any arithmetic are tried, too.
    """
    if base.form.op == "xor":
        # Zero takes the other operand out of a product with .and alone.
        form = base.form.varied(op="and")
        if is_available(form, device.module):
            anded = replace(base, multiply=replace(base.multiply, form=form))
            if (found := wrong_alone(device, anded, contents)) is not None:
                return found
    if len(contents) > _MET:
        images = np.stack([image_of(base.program, some) for some in contents])
        if (results := device.results(base.program, images)) is not None:
            # Those that come out wrong before the others.
            contents = [contents[index] for index in np.argsort(~results.wrong, kind="stable")]
    given, met = [*map(dict, contents[:_MET]), *_exact(base, "abc")], len(contents[:_MET])
    runs = [(number, run) for number in range(len(given)) for run in _HIDDEN]
    held: list[dict[str, Content]] = [
        given[number]
        | {
            operand: base.form.matrix(operand).type.one if value else 0
            for operand, value in _HIDDEN[run].items()
        }
        for number, run in runs
    ]

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
        names = ("wmma.mma",)
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
    for raw in dict.fromkeys((0, base.form.matrix(operand).type.one)):
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


def wrong_product(device: ExperimentDevice, program: Program, traced: Trace) -> Culprit | None:
    """Find out which multiplication of fragments, or which load and store, is wrong by itself."""
    tried: dict[SingleProduct, list[Mapping[str, Content]]] = {}
    for found, contents in islice(_bare(program, traced), _MULTIPLICATIONS):
        tried.setdefault(found, []).append(contents)
    culprits = (wrong_alone(device, found, some) for found, some in tried.items())
    return next(filter(None, culprits), None)


def accumulating(matrix: Matrix) -> SingleProduct | None:
    """Return a multiplication whose C and D are such matrices."""
    for form in MMA_FORMS:
        if form.shape == matrix.shape and form.c_type == form.d_type == matrix.type:
            return single_product(form)
    return None


def _bare(program: Program, traced: Trace) -> Iterator[tuple[SingleProduct, Mapping[str, Content]]]:
    """Iterate over the multiplications of a program, and over what is only loaded and stored."""
    for event in traced.events:
        step = event.step
        if multiplies_fragments(step):
            base = single_product(step.form)
            loads = {}
            for operand in base.loads:
                maker = _maker(traced, event, step.names[operand])
                if maker is not None and loads_fragment(maker.step):
                    loads[operand] = apart(program, maker.step, operand)
            loaded = base.loading(loads)
            # What one store of a result hides, another may show; a store that the program has not
            # is no part of what is wrong with it.
            alike = [
                (apart(program, other.step, "d"), _maker(traced, other, *other.step.operands))
                for other in traced.events
                if stores_fragment(other.step)
                and other.step.form.matrix() == base.store.form.matrix()
            ]
            own = [store for store, maker in alike if maker is event]
            stores = own or [store for store, _ in alike[:1]]
            for store in dict.fromkeys(stores or [base.store]):
                yield replace(loaded, store=store), event.inputs
        elif stores_fragment(step):
            maker = _maker(traced, event, *step.operands)
            plain = accumulating(replace(step.form.matrix(), operand="c"))
            if maker is not None and loads_fragment(maker.step) and plain is not None:
                a, b = (exact(plain.form.matrix(operand), 0) for operand in "ab")
                load, store = apart(program, maker.step, "c"), apart(program, step, "d")
                contents = {"a": a, "b": b, "c": event.inputs["fragment"]}
                yield replace(plain, c=load, store=store), contents


def _maker(traced: Trace, event: Event, name: str) -> Event | None:
    """Return what made what an event read, apart from element-wise steps on the way."""
    made = maker_of(traced, event, name)
    while made is not None and made.step.changes:
        made = maker_of(traced, made, made.step.carried)
    return made


# Copies

CONTROL = Culprit(instructions=("branch or loop",))
"""What decides which steps are taken, and how often."""
COPY = Culprit(instructions=("copy",))
_WORD, _LARGEST_ACCESS, _PIECE = 4, 16, 256
"""Bytes of a register, of an access, and copied without a loop (`runners.emission.body`)."""


def wrong_copy(device: ExperimentDevice, program: Program) -> Culprit | None:
    """Find out what is wrong with the copies of a program; None if all are right.

    Other bytes are copied to shared memory and back; one of the two moves at most a word at once.
    """
    tried = list[_Copied]()
    for step in dict.fromkeys(filter(copies_bytes, walk(program.steps))):
        at, middle = (place.offset % _LARGEST_ACCESS for place in (step.source, step.destination))
        narrow = middle + (_WORD if middle % _WORD == 0 else 1)
        for offsets in ((at, middle, narrow), (narrow, middle, at)):
            tried.append((step.size, step.size, offsets))
    right = device.remembered.copied
    asked = [one for one in dict.fromkeys(tried) if (*one, device.module) not in right]
    for copied, wrong in zip(asked, _copies_wrong(device, asked), strict=True):
        # What is wrong in company may be right by itself.
        if wrong and _copies_wrong(device, [copied])[0]:
            size, _, offsets = copied
            if size > _PIECE and not _copies_wrong(device, [(size, _PIECE, offsets)])[0]:
                return CONTROL  # a loop: right without
            return COPY
        right.add((*copied, device.module))
    return None


_Copied = tuple[int, int, tuple[int, int, int]]
"""Bytes that are copied, those of one copy, and where they begin in each of three buffers."""


def _copies_wrong(device: ExperimentDevice, tried: Sequence[_Copied]) -> list[bool]:
    programs = [*starmap(_copying, tried)]
    images = [
        np.random.default_rng(0).integers(0, 256, (1, one.image_bytes), dtype=np.uint8)
        for one in programs
    ]
    found = device.witnesses([*zip(programs, images, strict=True)])
    return [one is not None for one in found]


def _copying(size: int, piece: int, offsets: tuple[int, int, int]) -> Program:
    steps: list[Step] = []
    for names, before, behind in (("ab", *offsets[:2]), ("bc", *offsets[1:])):
        for done in range(0, size, piece):
            source, destination = (
                Place(buffer=name, offset=offset + done)
                for name, offset in zip(names, (before, behind), strict=True)
            )
            few = min(piece, size - done)
            steps.append(Copy(source=source, destination=destination, size=few))
        steps.append(Barrier())
    spaces = {"a": "global", "b": "shared", "c": "global"}
    room = size + 2 * _LARGEST_ACCESS
    buffers = tuple(Buffer(name=name, space=space, size=room) for name, space in spaces.items())
    return Program(buffers=buffers, steps=tuple(steps))
