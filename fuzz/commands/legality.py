"""`warpfuzz explain` and `warpfuzz legal`."""

from __future__ import annotations

import errno
import os
import sys
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.text import Text

from fuzz.options.testing import Explain, Legal
from fuzz.output import console, counted, emit, encoded, harmless
from oracle.errors import InfrastructureError, UsageError
from oracle.given_files import GIVEN_BYTES, read_given, reason_of
from oracle.isa.legality import (
    Explanation,
    Reason,
    Verdict,
    directives,
    explain,
    explain_lines,
    matrix_instructions,
    says_something,
    without_comments,
)
from oracle.isa.targets import DEFAULT_TARGET, DEFAULT_VERSION


def explain_one(options: Explain) -> None:
    """Print the verdict on one instruction, with every reason."""
    target, ptx_version = options.target, options.ptx_version
    explanation = explain(options.instruction, target=target, ptx_version=ptx_version)
    if options.json:
        emit(_row(explanation))
        return
    out = console()
    verdict = explanation.verdict
    out.print(Text.assemble((verdict, verdict), f" on {target}, PTX ISA {ptx_version}"))
    for reason in (*explanation.reasons, *explanation.remarks):
        out.print(f"  {reason}", markup=False)
    if explanation.legal and explanation.form is not None:
        form = explanation.form
        out.print(f"  a form of {form.mnemonic}: {form.page_family}", markup=False)


def judge_file(options: Legal) -> None:
    """Print a verdict for each line that says something, or each matrix instruction of a module."""
    text = _read(options.file)
    plain = without_comments(text) if options.file.suffix == ".ptx" else ""
    said = directives(plain)
    is_module = said[1] is not None
    if is_module:
        numbered = list(matrix_instructions(plain))
    else:
        numbered = [pair for pair in enumerate(_lines(text), start=1) if says_something(pair[1])]
        said = (None, None)
    explanations = explain_lines(
        (line for _, line in numbered),
        target=options.target or said[0] or DEFAULT_TARGET,
        ptx_version=options.ptx_version or said[1] or DEFAULT_VERSION,
    )
    counts: Counter[str] = Counter()
    out = console()
    names = _styled_names(out)
    for (number, _), explanation in zip(numbered, explanations, strict=True):
        counts[explanation.verdict] += 1
        if options.json:
            row = _row(explanation)
            # One write a line, without a flush for each: 100,000 lines take seconds.
            sys.stdout.write(encoded({"line": number, **row}))
        else:
            # Not through Rich: it takes half a millisecond for each line.
            text = harmless(explanation.instruction.strip(), one_line=True)
            sys.stdout.write(f"{number:>6}  {names[explanation.verdict]}  {text}\n")
            sys.stdout.writelines(
                f"{'':20}{harmless(str(reason), one_line=True)}\n"
                for reason in (*explanation.reasons, *explanation.remarks)
            )
    if not options.json:
        sys.stdout.flush()
        total = sum(counts.values())
        parts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        what = counted(total, "matrix instruction" if is_module else "line")
        rest = " (the rest is not judged)" if is_module else ""
        out.print(f"{what}{rest}: {parts or 'none'}")


def _styled_names(out: Console) -> dict[Verdict, str]:
    names = {}
    for verdict in Verdict:
        with out.capture() as captured:
            out.print(Text(f"{verdict:<10}", verdict), end="")
        names[verdict] = captured.get()
    return names


def _row(explanation: Explanation) -> dict[str, object]:
    return {
        "instruction": explanation.instruction,
        "verdict": explanation.verdict.value,
        "reasons": [_reason(reason) for reason in explanation.reasons],
        "remarks": [_reason(reason) for reason in explanation.remarks],
    }


def _reason(reason: Reason) -> dict[str, str]:
    return {"text": reason.text, "section": reason.section, "rule": reason.rule.value}


def _read(file: Path) -> str:
    try:
        if str(file) == "-":
            # None where the caller closed it.
            data = sys.stdin.buffer.read(GIVEN_BYTES + 1) if sys.stdin else b""
            if len(data) > GIVEN_BYTES:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        else:
            data = read_given(file)
    except IsADirectoryError:
        raise UsageError(f"{file} is a folder; give a file with an instruction per line") from None
    except FileNotFoundError:
        raise UsageError(
            f"there is no file {file}; give one with an instruction per line"
        ) from None
    except OSError as error:
        raise InfrastructureError(
            f"{file} cannot be read: {reason_of(error)}; make it readable, or give another file"
        ) from None
    # Not a reason to fail: a line that is no text is malformed, and that is its verdict.
    return data.decode("utf-8-sig", errors="replace")


def _lines(text: str) -> list[str]:
    # Not `splitlines`, for which a line ends at a form feed, too.
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
