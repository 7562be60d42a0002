"""What an implementation makes of a form, and what a file says that it must make of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpus import Kind, durable
from fuzz.conforming.suite import Item
from fuzz.findings.verdicts import differences, judge, worst_of
from fuzz.kinds import BY_TROUBLE
from fuzz.output import counted
from fuzz.runner import kind_of_failure
from oracle.errors import UsageError
from oracle.execution import execute, has_figures
from oracle.given_files import TOML_BYTES, parse_toml, read_given, reason_of
from oracle.image import locate
from oracle.isa import FORMS
from oracle.targets import Module
from runners.emission import emit
from runners.protocol import Failure, Images, Ran, Runner, Trouble

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
_SAID_CHARACTERS = 300
"""Of what a runner says on standard error."""
_TABLE = "forms"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What came of a form."""

    outcome: str
    """One of OUTCOMES."""
    said: str = ""
    """What is wrong, or what the runner says."""


def asked(runner: Runner, item: Item, module: Module, *, count: int) -> Asked:
    """Ask about a form, again where something is wrong.

    Parameters
    ----------
    count
        How many images are run.

    Raises
    ------
    DeviceLostError, InfrastructureError
        If nothing can be run any more.
    """
    images = item.images(count)
    first = _asked(runner, item, module, images)
    if first.outcome in (*PASSING, NOT_IMPLEMENTED, SLOW, Kind.HANG.value):
        return first
    again = _asked(runner, item, module, images)
    if again.outcome == first.outcome:
        return first
    return Asked(
        outcome=Kind.FLAKY.value, said=f"{again.outcome} the second time, and before: {first.said}"
    )


def _asked(runner: Runner, item: Item, module: Module, images: Images) -> Asked:
    program = item.program
    compiled = runner.compile(emit(program, module=module))
    ran = compiled if isinstance(compiled, Failure) else runner.run(compiled, images)
    if isinstance(ran, Failure):
        if ran.trouble is Trouble.UNSUPPORTED:
            return Asked(outcome=NOT_IMPLEMENTED, said=_said(ran))
        if ran.trouble is Trouble.HANG and not isinstance(compiled, Failure):
            alone = runner.run(compiled, images[:1])
            if isinstance(alone, Ran):
                said = f"{ran.message}, and one image of {len(images)} takes {alone.seconds:.1f} s"
                return Asked(outcome=SLOW, said=said)
        return Asked(outcome=kind_of_failure(ran).value, said=_said(ran))
    assert not isinstance(compiled, Failure)
    target = compiled.oracle_target
    expected = execute(program, images, target=target).images
    kinds = judge(program, images, ran.images, target=target, expected=expected)
    worst = worst_of(kinds)
    if worst is None:
        return Asked(outcome=MODEL if has_figures(program, target=target) else PERMITTED)
    number = kinds.index(worst)
    found = differences(program, expected[number], ran.images[number])
    ways = _ways(item, [one.byte for one in found])
    said = f"{sum(map(bool, kinds))} of {counted(len(images), 'image')}{ways}: {found[0]}"
    return Asked(outcome=PERMITTED if worst is Kind.DEVIATION else WRONG, said=said)


def _said(failure: Failure) -> str:
    """Return a failure with the end of what was said, where the errors stand.

    Of what Python says of an exception, that is the last line.
    """
    before, _, stack = failure.detail.partition("Traceback (most recent call last):")
    last = stack.rstrip().rpartition("\n")[2]
    words, said = " ".join(f"{before} {last}".split()), f"{failure}"
    return said if words in said else f"{said} {words[-_SAID_CHARACTERS:]}"


def _ways(item: Item, wrong: Sequence[int]) -> str:
    """Say in which ways of reaching memory bytes of an image are wrong; "" where there is one."""
    buffers = {place.buffer for byte in set(wrong) if (place := locate(item.program, byte))}
    numbers = sorted({int(re.sub(r"^\D+", "", one) or 0) for one in buffers})
    if not item.ways or not numbers:
        return ""
    if len(numbers) == len(item.ways):
        return ", in every way"
    return f", only with {'; '.join(item.ways[number] for number in numbers)}"


def read_expectations(path: Path) -> dict[str, str]:
    """Return the outcomes that a TOML file expects, by opcode: a table `forms`.

    Raises
    ------
    UsageError
        If it cannot be read, or names no form or no outcome.
    """
    try:
        table = parse_toml(read_given(path, most=TOML_BYTES), str(path)).get(_TABLE, {})
    except OSError as error:
        raise UsageError(f"the expectations {path} cannot be read: {reason_of(error)}") from None
    known = {form.opcode for form in FORMS}
    if not isinstance(table, dict):
        raise UsageError(f"{_TABLE} of {path} is a value; write a table, [{_TABLE}]")
    for opcode, outcome in table.items():
        if opcode not in known:
            raise UsageError(f"{opcode!r:.100} of {path} is no form; `warpfuzz isa` lists them")
        if outcome not in OUTCOMES:
            there = ", ".join(dict.fromkeys(OUTCOMES))
            raise UsageError(f"{opcode} of {path} is {outcome!r:.80}; outcomes are {there}")
    return table


def write_expectations(path: Path, outcomes: Mapping[str, str], *, about: str) -> None:
    """Write a file of expectations: every outcome but those that pass."""
    lines = [f'"{opcode}" = "{one}"' for opcode, one in sorted(outcomes.items())]
    text = f"# Forms of {about} that do not pass.\n[{_TABLE}]\n"
    durable.write_output(path, (text + "".join(f"{line}\n" for line in lines)).encode())
