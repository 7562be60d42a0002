"""`warpfuzz explain` and `warpfuzz legal`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from fuzz.output import console, emit
from oracle.errors import InfrastructureError, UsageError
from oracle.legality import Explanation, explain, explain_lines
from oracle.reasons import Reason


def explain_one(instruction: str, *, target: str, ptx_version: str, json: bool) -> None:
    """Print the verdict on one instruction, with every reason."""
    explanation = explain(instruction, target=target, ptx_version=ptx_version)
    if json:
        emit(_row(explanation))
        return
    out = console()
    out.print(f"[{explanation.verdict}]{explanation.verdict}[/] on {target}, PTX ISA {ptx_version}")
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
    for number, explanation in enumerate(
        explain_lines(lines, target=target, ptx_version=ptx_version), start=1
    ):
        counts[explanation.verdict] += 1
        if json:
            # One write a line, without a flush for each: 100,000 lines take seconds.
            sys.stdout.write(_encoded(explanation))
        else:
            out.print(f"{number:>6}  [{explanation.verdict}]{explanation.verdict:<9}[/]", end="  ")
            out.print(explanation.instruction.strip(), markup=False, soft_wrap=True)
            for reason in explanation.reasons:
                out.print(f"{'':19}{reason}", markup=False, soft_wrap=True)
    if not json:
        total = sum(counts.values())
        parts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        out.print(f"{total} lines: {parts or 'none'}")


def _encoded(explanation: Explanation) -> str:
    import msgspec

    return msgspec.json.encode(_row(explanation)).decode() + "\n"


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
    if str(file) == "-":
        return sys.stdin.read().splitlines()
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise UsageError(
            f"there is no file {file}; give one with an instruction per line"
        ) from None
    except OSError as error:
        raise InfrastructureError(f"{file} cannot be read: {error.strerror}") from None
    # Not a reason to fail: a line that is no text is malformed, and that is its verdict.
    text = data.decode(errors="replace")
    return text.split("\n")[:-1] if text.endswith("\n") else text.split("\n") if text else []
