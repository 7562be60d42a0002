"""The live view: it says what limits and what was found, and it cannot be written into."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from console_statuses import (
    FEW,
    at_its_start,
    counts,
    family,
    known_entry,
    on_a_gpu,
    statuses,
    worker,
)
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed
from rich.cells import cell_len
from rich.console import Console

from corpus import Kind
from fuzz.campaign.status import CampaignStatus
from fuzz.checks.protocol import DeviceStatus, Stage
from fuzz.console.report import campaign_report, dashboard, heartbeat
from fuzz.output import THEME, recording_console

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def shown(status: CampaignStatus, width: int = 100, **options: object) -> str:
    """Return the view with its lines joined, as they are broken anywhere."""
    file = io.StringIO()
    out = Console(
        file=file, width=width, theme=THEME, highlight=False,
        **options,  # type: ignore[arg-type]
    )  # fmt: skip
    out.print(dashboard(status))
    return file.getvalue()


def joined(text: str) -> str:
    return " ".join(text.split())


@FEW
@given(statuses(), st.integers(20, 160))
def test_names_cannot_move_the_cursor_or_change_colours(status: CampaignStatus, width: int) -> None:
    text = shown(status, width, force_terminal=True, color_system="truecolor")
    plain = _ESCAPES.sub("", text)
    assert plain.replace("\n", "").isprintable()
    assert all(cell_len(line) <= width for line in plain.splitlines())


def test_no_color_leaves_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(on_a_gpu(), force_terminal=True)
    codes = {code for found in re.findall(r"\x1b\[([0-9;]*)m", text) for code in found.split(";")}
    assert codes <= {"0", "1", "2", "3"}  # bold, dim and italic are no colours


@pytest.mark.parametrize("width", [80, 120, 200])
def test_what_matters_is_there_at_any_usual_size(width: int) -> None:
    text = shown(on_a_gpu(), width)
    assert len(text.splitlines()) <= 40
    for part in (
        "NVIDIA H200", "sm_90", "PTX ISA 8.0", "seed 1234567890", "1 h 23 min of 2 h 00 min",
        "4,812,345,678", "1,012,345 a second now", "slowest part: oracle", "1,208 1,208",
        "1 stalled", "silent for 1 m", "61 °C", "1,980 MHz", "4 corrected", "3 families, 1 known",
        "as with rows swapped", "known: ptxas-12.4-crash", "nothing new for 20 min 03 s",
        "2 findings to be made smaller",
    ):  # fmt: skip
        assert part in joined(text), part


def test_findings_stand_worst_first_and_known_ones_last() -> None:
    kinds = (Kind.NOTE, Kind.VIOLATION, Kind.FLAKY, Kind.DEVIATION, Kind.HANG, Kind.VIOLATION)
    families = [
        family(kind, f"<{index}>", 1, known=known_entry("k") if index % 3 == 1 else None)
        for index, kind in enumerate(kinds)
    ]
    text = shown(on_a_gpu(families=families), 120)
    order = [families[int(number)] for number in re.findall(r"<(\d+)>", text)]
    assert len(order) == len(families)
    ranks = [(one.known is not None, -one.case.kind.severity) for one in order]
    assert ranks == sorted(ranks)


def test_stalled_workers_are_red_and_named_even_among_many() -> None:
    crowd = [worker(number, Stage.RUN, stalled=number == 77) for number in range(100)]
    text = shown(on_a_gpu(workers=crowd), force_terminal=True, color_system="standard")
    (line,) = [line for line in text.splitlines() if "silent" in line]
    assert "77" in line
    assert "\x1b[1;31m" in line


def test_devices_with_errors_come_first() -> None:
    devices = [
        DeviceStatus(name=f"GPU {number}", errors={"ECC errors": int(number == 7)})
        for number in range(8)
    ]
    assert re.findall(r"GPU \d", shown(on_a_gpu(devices=devices)))[0] == "GPU 7"


def test_a_campaign_at_its_start_says_that_nothing_is_known() -> None:
    text = shown(at_its_start())
    assert "nothing is compared yet" in text
    assert "no worker has done anything yet" in text


def test_while_what_differed_waits_nobody_says_that_all_agree() -> None:
    sound = on_a_gpu(families=[], waiting=0, gone=0)
    suspects = [family(Kind.VIOLATION, what, 1) for what in ("one", "other")]
    assert sound.words.agreement in shown(sound, 160)
    for status, said in (
        (changed(sound, waiting=2, suspects=suspects), "2 suspects to be replayed"),
        (changed(sound, gone=1), "1 case differed once, but not when replayed"),
        (changed(sound, compared=0), "nothing is compared yet"),
    ):
        text = shown(status, 160)
        assert said in text
        assert sound.words.agreement not in text


def test_one_of_anything_is_told_in_the_singular() -> None:
    status = on_a_gpu(
        seconds_limit=None, cases=1, cases_limit=1, compared=1, answered=1, unasked=1,
        counts=counts(1, 1), rounds=1, waiting=1, families=[family(Kind.VIOLATION, "x", 1)],
        workers=[replace(worker(0, Stage.RUN, stalled=True), cases=1)],
    )  # fmt: skip
    out = recording_console()
    campaign_report(changed(status, stopped="1 family found"), Path("corpus")).show(out)
    for text in (shown(status, 120), heartbeat(status), out.export_text()):
        assert re.search(r"\b1 (image|program|round|family|worker|finding|process)\b", text)
        assert not re.search(r"(?<![\d.,])1 (?!is\b|s\b|has\b)[a-z]+(?<!s)s\b", text), text


def test_rounds_that_wait_for_a_slower_one_are_told() -> None:
    """A campaign's figures stood still for 40 s while its workers went on (H100, 2026-11-28)."""
    told = "16 more rounds to be counted when a slower one is done"
    status = on_a_gpu(held=16)
    assert told in heartbeat(status)
    assert told in joined(shown(status, 160))
    # One of each worker may well be done before the one that comes first.
    assert "to be counted" not in heartbeat(changed(status, held=15))
