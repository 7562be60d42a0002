"""`warpfuzz conform`: the suite that judges implementations, a program for each form.

Each program does its form in every way of reaching memory. The state space and the layout of a
wmma.load or wmma.store are part of its form; the strides, and generic addresses of both memories,
are ways. A load of A or B is followed by a multiplication, on contents that any arithmetic
multiplies exactly; a load of C by a store, a store comes after a load.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from corpus import Kind, durable
from corpus.finding import EXPECTED, INPUT, MODULE
from corpus.programs import pack
from fuzz.campaign.status import check_tested, untested_words
from fuzz.findings.case import ACTUAL
from fuzz.findings.verdicts import differences, in_a_line, judge, worst_of
from fuzz.kinds import BY_TROUBLE
from fuzz.options.declared import check_conflicts
from fuzz.options.testing import Conform
from fuzz.output import Report, Test, check_output, counted, emit, say, tap_test
from fuzz.runner import (
    OpenRunner,
    RunnerChoice,
    kind_of_failure,
    made_here,
    make_here,
    opened,
)
from oracle.bounds.permission import allowed_bytes, permitted
from oracle.errors import InfrastructureError, UsageError
from oracle.execution.execution import execute, has_figures
from oracle.given_files import parse_toml, read_named
from oracle.isa.forms import Form
from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module
from oracle.measuring.units import module_of_all
from oracle.program.program import locate
from runners import emission
from runners.compilers import named_assembler
from runners.faults import idle_faults
from runners.kernels import KernelModule
from runners.processes import process_pool
from runners.protocol import Compiled, Failure, Images, Ran, Runner, Trouble
from strategies.conformance import Item, forms_of, item, unjudged
from strategies.draws import Selection
from strategies.rounds import GROUP_TARGETS

MODEL = "bits as the model"
PERMITTED = "inside the permitted enclosure"
WRONG = "wrong"
NOT_IMPLEMENTED = "not implemented"
SLOW = "too slow"
PASSING = (MODEL, PERMITTED)
OUTCOMES = (
    *PASSING, WRONG, NOT_IMPLEMENTED, SLOW, Kind.FLAKY.value,
    *(kind.value for kind in BY_TROUBLE.values()),
)  # fmt: skip
"""Everything that can come of a form, each failure by the name of its kind of finding."""
_TOGETHER_BYTES = 64 << 20
"""Bytes of images that are run together, at most (as of `runners.foreign`)."""
_SAID_CHARACTERS = 300
"""Characters that are kept of a runner's standard error."""
_TABLE = "forms"


class FormAsked(NamedTuple):
    """What came of a form."""

    outcome: str  # one of OUTCOMES
    said: str = ""  # what is wrong, or what the runner says
    files: Mapping[str, bytes] = {}
    """Of what does not pass: the module, and an image with what must come out and what did."""


def asked(runner: Runner, item: Item, module: Module, *, count: int) -> FormAsked:
    """Ask about a form, again where something is wrong."""
    first = _asked(runner, item, module, count)
    if first.outcome in (*PASSING, NOT_IMPLEMENTED, SLOW, Kind.HANG.value):
        return first
    again = _asked(runner, item, module, count)
    if again.outcome == first.outcome:
        return first
    said = f"{again.outcome} the second time, and before: {first.outcome}: {first.said}"
    return FormAsked(Kind.FLAKY.value, said, {**again.files, **first.files})


def _asked(runner: Runner, item: Item, module: Module, count: int) -> FormAsked:
    kernel = emission.emit(item.program, module=module)
    compiled = runner.compile(kernel)
    together, deviation = max(1, _TOGETHER_BYTES // item.program.image_bytes), None
    for first in range(0, count, together):
        images = item.images(min(together, count - first), first)
        came = _compared(runner, item, kernel, compiled, images, first)
        if came.outcome not in PASSING:
            return came
        # What the ISA permits does not end it: a later image may be wrong.
        deviation = deviation or (came if came.said else None)
    return deviation or came


def _compared(
    runner: Runner, item: Item, kernel: KernelModule, compiled: Compiled | Failure, images: Images,
    first: int,
) -> FormAsked:  # fmt: skip
    """Run and judge images from the number `first` on."""
    program = item.program
    ran = compiled if isinstance(compiled, Failure) else runner.run(compiled, images)
    if isinstance(ran, Failure):
        if ran.trouble is Trouble.UNSUPPORTED:
            return FormAsked(NOT_IMPLEMENTED, _said(ran))
        if ran.trouble is Trouble.HANG and not isinstance(compiled, Failure):
            alone = runner.run(compiled, images[:1])
            if isinstance(alone, Ran):
                said = f"{ran.message}, and one image of {len(images)} takes {alone.seconds:.1f} s"
                return FormAsked(SLOW, said)
        return FormAsked(kind_of_failure(ran).value, _said(ran), _files(kernel, images[0]))
    assert not isinstance(compiled, Failure)
    target = compiled.oracle_target
    expected = execute(program, images, target=target).images
    kinds = judge(program, images, ran.images, target=target, expected=expected)
    worst = worst_of(kinds)
    if worst is None:
        return FormAsked(MODEL if has_figures(program, target=target) else PERMITTED)
    number = kinds.index(worst)
    found = list(differences(program, expected[number], ran.images[number]))
    many = f"{kinds.count(worst)} of {counted(len(images), 'image')}"
    many += f" behind {first:,} others" if first else ""
    outcome = PERMITTED
    if worst is not Kind.DEVIATION:
        # What the ISA permits is not what is wrong, although it differs from the model, too.
        one = slice(number, number + 1)
        allowed = allowed_bytes(permitted(program, images[one], target=target), ran.images[one])[0]
        found = [
            each for each in found if not allowed[each.byte : each.byte + -(-each.bits // 8)].all()
        ]
        outcome = WRONG
    ways = _ways(item, [one.byte for one in found])
    permits = ", which the ISA permits" if outcome == PERMITTED else ""
    files = _files(kernel, images[number], expected[number], ran.images[number])
    return FormAsked(outcome, f"{many}{ways}: {in_a_line(found[0])}{permits}", files)


def _said(failure: Failure) -> str:
    """Return a failure with the end of what was said, where the errors stand."""
    # Of what Python says of an exception, that is the last line.
    before, _, stack = failure.detail.partition("Traceback (most recent call last):")
    last = stack.rstrip().rpartition("\n")[2]
    words, said = " ".join(f"{before} {last}".split()), failure.message
    return said if words in said else f"{said}: {words[-_SAID_CHARACTERS:]}"


def _files(kernel: KernelModule, *images: NDArray[np.uint8]) -> dict[str, bytes]:
    """Return a module, and an image before it, as it must be after it, and as it is after it."""
    named = zip((INPUT, EXPECTED, ACTUAL), images, strict=False)
    return {MODULE: kernel.ptx.encode()} | {name: pack(image[None]) for name, image in named}


def _ways(item: Item, wrong: Sequence[int]) -> str:
    """Say in which ways of reaching memory bytes of an image are wrong; "" where there is one."""
    buffers = {place.buffer for byte in set(wrong) if (place := locate(item.program, byte))}
    numbers = sorted({int(re.sub(r"^\D+", "", one) or 0) for one in buffers})
    ways = [item.ways[number] for number in numbers if number < len(item.ways)]
    if not ways:
        return ""
    return ", in every way" if len(ways) == len(item.ways) else f", only with {'; '.join(ways)}"


def read_expectations(path: Path) -> dict[str, str]:
    """Return the outcomes that a TOML file expects, by opcode: a table `forms`.

    Raises UsageError if it cannot be read, or names no form or no outcome.
    """
    try:
        document = parse_toml(read_named(path, "list of expectations"), str(path))
        tables = msgspec.convert(document, dict[Literal["forms"], dict[str, str]])
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}; write a table, [{_TABLE}]") from None
    known = {form.opcode for form in FORMS}
    table: dict[str, str] = next(iter(tables.values()), {})
    for opcode, outcome in table.items():
        if opcode not in known:
            raise UsageError(f"{opcode!r:.100} of {path} is no form; `warpfuzz isa` lists them")
        if outcome not in OUTCOMES:
            there = ", ".join(dict.fromkeys(OUTCOMES))
            raise UsageError(f"{opcode} of {path} is {outcome!r:.80}; outcomes are {there}")
    return table


def conform(options: Conform) -> bool:
    """Run the suite; tell whether a form is neither right, nor missing, nor as it is expected."""
    started = time.monotonic()
    expected: dict[str, str] = {}
    path = options.expectations
    check_conflicts(options, "conform")
    if path is not None and (path.exists() or not options.update_expectations):
        expected = read_expectations(path)
    if options.update_expectations:
        check_output("--expectations", path)
    choice = RunnerChoice(
        name=options.runner,
        assembler=None if options.assembler is None else named_assembler(options.assembler),
        **options.picked("target", "ptx_version", "faults", "ptx_pass", "model", "device", "level"),
        deadline=options.deadline,
    )
    with opened(choice) as ready:
        selected = frozenset(Selection(pattern=options.only).forms())
        module = Module.named(ready.target, ready.ptx_version)
        if options.ptx_version is None and selected.isdisjoint(forms_of(module)):
            # What is asked for may be newer than the version that is taken by itself.
            module = module_of_all(ready.target)
        forms = [form for form in forms_of(module) if form in selected]
        if not forms:
            own = GROUP_TARGETS.get(ready.target)
            there = own and not selected.isdisjoint(forms_of(module_of_all(own)))
            raise UsageError(
                f"--only {options.only!r} selects no form of {ready.target} in PTX ISA "
                f"{module.version}{f', but of {own}: add --target {own}' if there else ''}; "
                "`warpfuzz isa` lists them"
            )
        report = _Conformance(options, expected)
        report.tell("TAP version 14", f"1..{len(forms)}")
        timed = _timer(ready.runner, module, options.images)
        workers = min(options.workers, len(forms))
        begin = (make_here, choice, _timer, module, options.images)
        try:
            with process_pool(workers, *begin) if workers > 1 else nullcontext() as pool:
                answers = map(timed, forms) if pool is None else pool.map(_timed_there, forms)
                for form, (came, seconds) in zip(forms, answers, strict=True):
                    report.add(form, came, seconds)
        except (KeyboardInterrupt, SystemExit):
            report.bail_out(len(forms))
            raise
        modules = [emission.emit(item(form, module).program, module=module).ptx
                   for form in forms if options.faults]  # fmt: skip
        untested = untested_words(idle_faults(options.faults, modules), len(modules))
        left = [form.opcode for form in unjudged(module) if form in selected]
        report.end(ready, module, time.monotonic() - started, untested, left)
    return bool(report.failed)


def _timer(runner: Runner, module: Module, count: int) -> Callable[[Form], tuple[FormAsked, float]]:
    def timed(form: Form) -> tuple[FormAsked, float]:
        begun = time.monotonic()
        came = asked(runner, item(form, module), module, count=count)
        return came, time.monotonic() - begun

    return timed


def _timed_there(form: Form) -> tuple[FormAsked, float]:
    return cast(tuple[FormAsked, float], made_here()(form))


@dataclass
class _Conformance:
    """What is told of the forms, one after the other, and of all of them."""

    options: Conform
    expected: Mapping[str, str]
    tap: list[str] = field(default_factory=list)
    tests: list[Test] = field(default_factory=list)
    outcomes: dict[str, str] = field(default_factory=dict)
    failed: list[dict[str, object]] = field(default_factory=list)

    def tell(self, *lines: str) -> None:
        self.tap += lines
        for line in () if self.options.json else lines:
            say(line)

    def add(self, form: Form, came: FormAsked, seconds: float) -> None:
        name, options, outcome = form.opcode, self.options, came.outcome
        update, expected = options.update_expectations, self.expected.get(name)
        # With a file, what is missing has to stand there, too; where it is written anew, nothing.
        listed = options.expectations is not None and not update
        due = expected if listed else None
        result, text = "failure", outcome
        as_expected = outcome == due and outcome not in (*PASSING, NOT_IMPLEMENTED)
        if as_expected or (outcome == NOT_IMPLEMENTED and (due == outcome or not listed)):
            result = "skipped"
        elif outcome in PASSING and due in (None, outcome):
            result = "passed"
        elif listed:
            text = f"{outcome}; expected: {due or 'that it passes'}"
        passed = result != "failure" or update
        self.outcomes[name] = outcome
        group = f"warpfuzz.conform.{form.mnemonic.replace('.', '_')}"
        test = Test(group, name, seconds, result, text, came.said)
        self.tell(*tap_test(len(self.outcomes), test, expected_to_fail=as_expected))
        self.tests.append(replace(test, result="passed") if update and passed else test)
        if result == "failure" and options.save_failing is not None:
            folder = options.save_failing / re.sub(r"[^\w.]+", "-", name)
            folder.mkdir(parents=True, exist_ok=True)
            for file, data in came.files.items():
                durable.write_output(folder / file, data)
        row: dict[str, object] = {
            "form": name, "outcome": outcome, "expected": expected, "passed": passed,
            "seconds": round(seconds, 3), "message": came.said,
        }  # fmt: skip
        if options.json:
            emit(row)
        if not passed:
            self.failed.append(row)

    def end(
        self, ready: OpenRunner, module: Module, seconds: float, untested: str, left: list[str]
    ) -> None:
        options, path = self.options, self.options.expectations
        about = f"{ready.device}, PTX ISA {module.version}"
        counts = Counter(self.outcomes.values())
        told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        all_forms = counted(len(self.outcomes), "form")
        self.tell(f"# {all_forms} of {about}, in {seconds:.1f} s: {told}")
        if left:
            many = f"{counted(len(left), 'form')} not tested, because the model has no figures"
            self.tell(f"# {many} of them, such as {left[0]}")
        if untested:
            self.tell(f"# {untested}")
            self.error("the planted faults", "a planted fault was not tested", untested)
        flips = [name for name, was in self.expected.items()
                 if was not in PASSING and self.outcomes.get(name) in PASSING]  # fmt: skip
        if path is not None and options.update_expectations:
            kept = {**self.expected, **self.outcomes}
            failing = {name: outcome for name, outcome in kept.items() if outcome not in PASSING}
            lines = [f"# Forms of {about} that do not pass.", f"[{_TABLE}]"]
            lines += [f'"{name}" = "{outcome}"' for name, outcome in sorted(failing.items())]
            durable.write_output(path, "".join(f"{line}\n" for line in lines).encode())
            has = f"{path} has {counted(len(failing), 'form')} now"
            self.tell(f"# {has}; {len(flips)} that pass were taken out")
        elif flips:
            many = f"{counted(len(flips), 'form')} passed that {path} expects to fail"
            self.tell(f"# {many}; --update-expectations corrects that")
        self.write({
            "cases": len(self.outcomes) - counts[NOT_IMPLEMENTED],
            "seconds": round(seconds, 3),
            "seed": None,
            "findings": self.failed,
            "outcomes": dict(counts),
            "flipped": flips,
            "not_asked": left,
            "untested": untested or None,
            "runner": options.runner,
            "device": ready.device,
            "target": ready.target,
            "ptx_version": str(module.version),
        })  # fmt: skip
        if counts[NOT_IMPLEMENTED] == len(self.outcomes):
            raise InfrastructureError(
                f"nothing was compared: {ready.device} implements none of the forms that are asked"
            )
        if not self.failed:
            check_tested(untested)

    def bail_out(self, count: int) -> None:
        """Say that it was stopped before all forms were asked, and keep what was said of those."""
        said = f"stopped after {len(self.outcomes)} of {counted(count, 'form')}"
        self.tell(f"Bail out! {said}")
        if self.options.json:
            emit({"stopped": said})
        self.error("the suite comes to its end", said)
        self.write()

    def error(self, name: str, said: str, text: str = "") -> None:
        self.tests.append(Test("warpfuzz.conform", name, 0.0, "error", said, text))

    def write(self, summary: Mapping[str, Any] | None = None) -> None:
        options = self.options
        if options.tap is not None:
            durable.write_output(options.tap, "".join(f"{one}\n" for one in self.tap).encode())
        Report(title="warpfuzz conform", summary=summary, tests=self.tests).write(
            **options.picked("json", "junit")
        )
