"""One result at each width and in each format: nothing is broken, and each fact is there."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fuzz.output import (
    Report,
    ReportColumn,
    ReportRow,
    recording_console,
    shown_table,
    tap_test,
)
from fuzz.output import Test as JUnitTest

PLACE = "gate-12.8-13.5/findings/0123"
OPCODE = "ldmatrix.sync.aligned.m8n16.x1.pred.b8x16.b6x16_p32"
WHAT = "accepted although the PTX ISA has no such instruction, by one compiler alone"
ROWS = [
    ReportRow(
        data={"opcode": OPCODE, "what": WHAT, "count": 1234, "path": PLACE},
        test=JUnitTest("group", OPCODE, 0.5, "failure", "wrong", "all <that> is known"),
    ),
    ReportRow(data={"opcode": "wmma", "what": "", "count": 0, "path": ""}, listed=False,
              test=JUnitTest("group", "wmma", 0.5)),
]  # fmt: skip
COLUMNS = (
    ReportColumn("instruction", "opcode"),
    ReportColumn("what"),
    ReportColumn("count", number=True),
    ReportColumn("where", "path"),
)
REPORT = Report(
    title="warpfuzz test", verdict="REJECT", reason="1 regression", columns=COLUMNS, rows=ROWS,
    sentences=["Seed 5."], summary={"seed": 5},
)  # fmt: skip


@pytest.mark.parametrize("width", [80, 120, 200])
def test_no_word_is_broken_at_any_width(width: int) -> None:
    out = recording_console(columns=width)
    out.print(shown_table(REPORT.sections[0]))
    lines = out.export_text().splitlines()
    assert all(len(line) <= width for line in lines)
    words = " ".join(lines).split()
    for word in (OPCODE, PLACE, "1,234", *WHAT.split()):
        assert word in words
    assert "wmma" not in words


def test_every_format_has_the_same_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit, page = (tmp_path / f"out.{one}" for one in ("xml", "html"))
    REPORT.write(json=True, junit=junit, report=page)
    *rows, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert rows == [row.data for row in ROWS]
    assert last == {"summary": {"verdict": "REJECT", "reason": "1 regression", "seed": 5}}
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == (
        "warpfuzz test", "2", "1",
    )  # fmt: skip
    tests = [row.test for row in ROWS if row.test is not None]
    lines = [line for number, test in enumerate(tests, 1) for line in tap_test(number, test)]
    assert lines[:2] == [f"not ok 1 - {OPCODE}: wrong", "  ---"]
    assert lines[-1] == "ok 2 - wmma"
    text = page.read_text()
    assert "<p>REJECT: 1 regression</p>" in text
    assert f">{OPCODE}</td>" in text
    assert "#800000" not in text
    REPORT.write(json=False)
    assert capsys.readouterr().out.startswith("REJECT: 1 regression\n")
