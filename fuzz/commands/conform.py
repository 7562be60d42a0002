"""`warpfuzz conform`: the suite for implementations of these instructions."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field

from corpus import durable
from fuzz.conforming import (
    NOT_IMPLEMENTED,
    PASSING,
    Asked,
    asked,
    forms_of,
    item,
    read_expectations,
    unjudged,
    write_expectations,
)
from fuzz.options import Conform
from fuzz.output import Test, check_output, counted, emit, harmless, say, write_junit
from fuzz.runner import OpenRunner, RunnerChoice, opened
from oracle.errors import InfrastructureError, UsageError
from oracle.forms import Form
from oracle.targets import Module
from strategies.draws import Selection


def conform(options: Conform) -> bool:
    """Run the suite; tell whether a form is neither right, nor missing, nor as it is expected."""
    started = time.monotonic()
    expected: dict[str, str] = {}
    path = options.expectations
    if path is None and options.update_expectations:
        raise UsageError("--update-expectations changes the file of --expectations; name one")
    if path is not None and (path.exists() or not options.update_expectations):
        expected = read_expectations(path)
    if options.update_expectations:
        check_output("--expectations", path)
    selected = frozenset(Selection(pattern=options.only).forms())
    choice = RunnerChoice(
        name=options.runner,
        **options.picked("target", "ptx_version", "faults", "ptx_pass", "model", "device"),
        deadline=options.deadline,
    )
    with opened(choice) as ready:
        module = Module.named(ready.target, ready.ptx_version)
        forms = [one for one in forms_of(module) if one in selected]
        if not forms:
            raise UsageError(
                f"--only {options.only!r} selects no form of {ready.target} in PTX ISA "
                f"{ready.ptx_version}; `warpfuzz isa` lists them"
            )
        report = _Report(options, expected, selected)
        report.begin(len(forms))
        try:
            for form in forms:
                begun = time.monotonic()
                came = asked(ready.runner, item(form, module), module, count=options.images)
                report.add(form, came, time.monotonic() - begun)
        except (KeyboardInterrupt, SystemExit):
            report.bail_out(len(forms))
            raise
        report.end(ready, module, time.monotonic() - started)
    return report.failed > 0


@dataclass(kw_only=True)
class _Line:
    passed: bool
    """Whether nobody need look at it."""
    text: str
    """Behind the name of the form."""
    directive: str = ""
    """Of TAP: SKIP or TODO, with its reason."""


def _line(came: Asked, expected: str | None, *, listed: bool) -> _Line:
    """Return the line of a form.

    Parameters
    ----------
    expected
        What the file says; None: nothing, so that it has to pass.
    listed
        Whether there is a file, so that what is missing has to stand there, too.
    """
    outcome = came.outcome
    if outcome == expected and outcome not in (*PASSING, NOT_IMPLEMENTED):
        return _Line(passed=True, text=outcome, directive="TODO as expected")
    if outcome == NOT_IMPLEMENTED and (expected == outcome or not listed):
        return _Line(passed=True, text=outcome, directive=f"SKIP {NOT_IMPLEMENTED}")
    if expected in (None, outcome) and outcome in PASSING:
        return _Line(passed=True, text=outcome)
    if listed:
        return _Line(
            passed=False, text=f"{outcome}, and expected is: {expected or 'that it passes'}"
        )
    return _Line(passed=False, text=outcome)


@dataclass
class _Report:
    options: Conform
    expected: dict[str, str]
    selected: frozenset[Form]
    tap: list[str] = field(default_factory=list)
    tests: list[Test] = field(default_factory=list)
    rows: list[dict[str, object]] = field(default_factory=list)
    outcomes: dict[str, str] = field(default_factory=dict)
    failed: int = 0

    def begin(self, count: int) -> None:
        self._tap("TAP version 14", f"1..{count}")

    def _tap(self, *lines: str) -> None:
        self.tap += lines
        if not self.options.json:
            for line in lines:
                say(line)

    def add(self, form: Form, came: Asked, seconds: float) -> None:
        name, options = form.opcode, self.options
        expected = self.expected.get(name)
        listed = options.expectations is not None and not options.update_expectations
        line = _line(came, expected if listed else None, listed=listed)
        passed = line.passed or options.update_expectations
        self.outcomes[name] = came.outcome
        said = harmless(came.said, one_line=True)
        # An expected failure is "not ok", and TODO says that it does not count.
        word = "not ok" if not line.passed or line.directive.startswith("TODO") else "ok"
        ending = f" # {line.directive}" if line.directive else ""
        self._tap(f"{word} {len(self.outcomes)} - {name}: {line.text}{ending}")
        if said:
            self._tap(
                "  ---", f"  message: {json.dumps(said)}", f"  seconds: {seconds:.3f}", "  ..."
            )
        result = "failure" if not passed else "skipped" if line.directive else "passed"
        group = f"warpfuzz.conform.{form.mnemonic.replace('.', '_')}"
        self.tests.append(Test(group, name, seconds, result, line.text, said))
        row: dict[str, object] = {
            "form": name, "outcome": came.outcome, "expected": expected, "passed": passed,
            "seconds": round(seconds, 3), "message": came.said,
        }  # fmt: skip
        if options.json:
            emit(row)
        if not passed:
            self.failed += 1
            self.rows.append(row)

    def end(self, ready: OpenRunner, module: Module, seconds: float) -> None:
        options = self.options
        about = f"{ready.device}, PTX ISA {ready.ptx_version}"
        counts = Counter(self.outcomes.values())
        told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        self._tap(f"# {counted(len(self.outcomes), 'form')} of {about}, in {seconds:.1f} s: {told}")
        left = [one.opcode for one in unjudged(module) if one in self.selected]
        if left:
            many = counted(len(left), "form")
            self._tap(f"# {many} not asked: what must come out is not known here, as of {left[0]}")
        path = options.expectations
        flips = [one for one, was in self.expected.items() if self._flips(one, was)]
        if path is not None and options.update_expectations:
            kept = {**self.expected, **self.outcomes}
            failing = {name: one for name, one in kept.items() if one not in PASSING}
            write_expectations(path, failing, about=about)
            self._tap(
                f"# {path} has {counted(len(failing), 'form')} now; {len(flips)} that pass are out"
            )
        elif flips:
            many = counted(len(flips), "form that is", "forms that are")
            self._tap(
                f"# {many} expected not to pass: passed now; --update-expectations changes {path}"
            )
        if options.json:
            emit(
                {
                    "summary": {
                        "cases": len(self.outcomes) - counts[NOT_IMPLEMENTED],
                        "seconds": round(seconds, 3),
                        "seed": None,
                        "findings": self.rows,
                        "outcomes": dict(counts),
                        "flipped": flips,
                        "not_asked": left,
                        "runner": options.runner,
                        "device": ready.device,
                        "target": ready.target,
                        "ptx_version": ready.ptx_version,
                    }
                }
            )
        self._write()
        if counts[NOT_IMPLEMENTED] == len(self.outcomes):
            raise InfrastructureError(
                f"nothing was compared: {ready.device} implements none of the forms that are asked"
            )

    def bail_out(self, count: int) -> None:
        """Say that it was stopped before all forms were asked, and keep what was said of those."""
        said = f"stopped after {len(self.outcomes)} of {counted(count, 'form')}"
        self._tap(f"Bail out! {said}")
        if self.options.json:
            emit({"stopped": said})
        self.tests.append(
            Test("warpfuzz.conform", "the suite comes to its end", 0.0, "error", said)
        )
        self._write()

    def _write(self) -> None:
        options = self.options
        if options.tap is not None:
            durable.write_output(options.tap, "".join(f"{one}\n" for one in self.tap).encode())
        if options.junit is not None:
            write_junit(options.junit, self.tests, suite="warpfuzz conform")

    def _flips(self, name: str, was: str) -> bool:
        return was not in PASSING and self.outcomes.get(name) in PASSING
