"""`warpfuzz explain` and `warpfuzz legal`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.text import Text

from fuzz.output import console, emit, encoded, harmless
from oracle.errors import InfrastructureError, UsageError
from oracle.legality import Explanation, Verdict, explain, explain_lines
from oracle.reasons import Reason


def explain_one(instruction: str, *, target: str, ptx_version: str, json: bool) -> None:
    """Print the verdict on one instruction, with every reason."""
    explanation = explain(instruction, target=target, ptx_version=ptx_version)
    if json:
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


def judge_file(file: Path, *, target: str, ptx_version: str, json: bool) -> None:
    """Print one verdict for each line of a file, in order."""
    lines = _read(file)
    counts: Counter[str] = Counter()
    out = console()
    names = _styled_names(out)
    for number, explanation in enumerate(
        explain_lines(lines, target=target, ptx_version=ptx_version), start=1
    ):
        counts[explanation.verdict] += 1
        if json:
            # One write a line, without a flush for each: 100,000 lines take seconds.
            sys.stdout.write(encoded(_row(explanation)))
        else:
            # Not through Rich: it takes half a millisecond for each line.
            text = harmless(explanation.instruction.strip(), one_line=True)
            sys.stdout.write(f"{number:>6}  {names[explanation.verdict]}  {text}\n")
            sys.stdout.writelines(
                f"{'':19}{harmless(str(reason), one_line=True)}\n" for reason in explanation.reasons
            )
    if not json:
        sys.stdout.flush()
        total = sum(counts.values())
        parts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        out.print(f"{total} lines: {parts or 'none'}")


def _styled_names(out: Console) -> dict[Verdict, str]:
    """Return the name of each verdict as a terminal shows it in colour."""
    names = {}
    for verdict in Verdict:
        with out.capture() as captured:
            out.print(Text(f"{verdict:<9}", verdict), end="")
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


def _read(file: Path) -> list[str]:
    """Return the lines of a file, without their ends."""
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        raise UsageError(
            f"there is no file {file}; give one with an instruction per line"
        ) from None
    except OSError as error:
        raise InfrastructureError(
            f"{file} cannot be read: {error.strerror}; make it readable, or give another file"
        ) from None
    # Not a reason to fail: a line that is no text is malformed, and that is its verdict. And not
    # `splitlines`, for which a line ends at a form feed, too.
    lines = data.decode(errors="replace").split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
