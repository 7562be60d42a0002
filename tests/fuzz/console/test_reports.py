"""The report of a campaign as a page: the dashboard at its end, and the findings."""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path

import pytest
from console_statuses import family, on_a_gpu
from msgspec.structs import replace
from repro_cases import HALF, half, multiplication, stored

from corpus import Kind, Saved, create_corpus
from fuzz.campaign.status import CampaignStatus, read_figures, statistics, summary, uncompared_words
from fuzz.campaign.store import CampaignStore
from fuzz.checks.protocol import REFERENCE, Counts
from fuzz.commands.run import _check_compared
from fuzz.console.report import campaign_report
from fuzz.findings.families import FamilyState
from fuzz.output import recording_console
from oracle.errors import InfrastructureError


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[FamilyState]]:
    """A corpus, and families of which each has a finding there."""
    folder, families = tmp_path_factory.mktemp("reports") / "corpus", []
    for index, fault in enumerate(("accumulator-ignored", "load-a-layout-flipped")):
        entry = stored(folder, multiplication(half()), faults=(fault,))
        one = family((Kind.VIOLATION, Kind.DEVIATION)[index], f"family {index}", 7)
        one.saved = Saved(id=entry.id, path=entry.path, new=True)
        families.append(one)
    return folder, families


def _write(status: CampaignStatus, corpus: Path, path: Path) -> None:
    campaign_report(status, corpus, details=True).write(json=True, report=path)


def _text(path: Path) -> str:
    """Return what a reader of the page sees."""
    plain = html.unescape(re.sub(r"<[^>]*>", "", path.read_text()))
    return plain.replace("\xa0", " ")


@pytest.mark.parametrize("suffix", [".html", ".svg"])
def test_a_report_has_the_dashboard_and_the_findings(
    suffix: str, tmp_path: Path, kept: tuple[Path, list[FamilyState]]
) -> None:
    path, (corpus, families) = tmp_path / f"report{suffix}", kept
    _write(on_a_gpu(stopped="budget spent", families=families), corpus, path)
    text = _text(path)
    assert "slowest part" in text
    assert "ended: budget spent" in text
    assert text.count("How it was found") == 2
    assert HALF in text


def test_a_report_names_what_was_judged_and_how_many_of_the_selected_forms(tmp_path: Path) -> None:
    """Every page had the same title, and "42 of 922 forms" ignored --only (2026-11-23)."""
    path = tmp_path / "report.html"
    status = on_a_gpu(families=(), forms=40, forms_reached=38)
    _write(status, tmp_path, path)
    text = _text(path)
    assert f"warpfuzz against {status.words.subject}, seed 1234567890" in text
    assert "selected forms: 38 of 40" in text
    _write(on_a_gpu(families=()), tmp_path, path)
    assert "selected forms" not in _text(path)


def test_a_suspect_of_two_kinds_is_one_suspect() -> None:
    """It was listed once as a violation and once as a deviation (2026-11-26)."""
    kinds = ((Kind.DEVIATION, 5), (Kind.VIOLATION, 7))
    both = [family(kind, "ldmatrix: other result", cases) for kind, cases in kinds]
    status = on_a_gpu(stopped="budget spent", families=(), suspects=both, unreplayed=1)
    recorder = recording_console(columns=200)
    campaign_report(status, Path("corpus")).show(recorder)
    text = recorder.export_text()
    assert ": no findings, and 1 suspect not replayed yet." in text
    assert "warpfuzz run --resume --corpus corpus" in text
    looks = "looks like violation: ldmatrix: other result (violation 7, deviation 5)"
    assert text.count("Suspect, not") == text.count(looks) == 1
    said = summary(status)
    (suspect,) = said["suspects"]
    assert said["unreplayed"] == 1
    assert (suspect["cases"], suspect["kinds"]) == (12, {"violation": 7, "deviation": 5})
    assert suspect["id"] in suspect["ids"]


def test_a_finding_that_is_gone_does_not_cost_the_report(
    tmp_path: Path, kept: tuple[Path, list[FamilyState]]
) -> None:
    corpus, families = kept
    shutil.copytree(corpus, tmp_path / "corpus")
    assert families[0].saved is not None
    (tmp_path / "corpus" / "findings" / families[0].saved.id / "actual.npy").unlink()
    path = tmp_path / "report.html"
    _write(on_a_gpu(families=families), tmp_path / "corpus", path)
    assert "cannot be shown" in _text(path)
    assert _text(path).count("How it was found") == 1


def test_a_campaign_that_ends_within_its_first_round_says_so() -> None:
    nothing = replace(on_a_gpu(), compared=0, cases=0, rounds=0, families=(), said="")
    assert "no round was finished in the time" in uncompared_words(nothing)
    early = replace(nothing, stopped="stopped on request")
    assert "it was stopped before a round was finished" in uncompared_words(early)
    with pytest.raises(InfrastructureError, match="it was stopped before"):
        _check_compared(early, None)
    failed = replace(nothing, stopped="cannot write state.json: the disk is full")
    assert uncompared_words(failed) == f"nothing was compared: {failed.stopped}"
    assert "no program ran" in uncompared_words(replace(nothing, rounds=1))


def test_a_page_leads_from_each_line_to_its_finding_and_holds_no_markup_of_others(
    tmp_path: Path, kept: tuple[Path, list[FamilyState]]
) -> None:
    path, (corpus, families) = tmp_path / "report.html", kept
    status = on_a_gpu(families=families, said="<script>alert(1)</script>")
    nothing = replace(status, compared=0, families=(), remarks=("<b>bold</b>",))
    _write(status, corpus, path)
    text = path.read_text()
    for one in families:
        assert one.saved is not None
        assert f'<a href="#{one.saved.id}">' in text
        assert f'<h2 id="{one.saved.id}">' in text
    assert "viewport" in text
    # On a telephone, where the headings of a table are not shown, each cell has its own.
    headings = re.findall(r"<th>(.*?)</th>", text)
    assert re.findall(r'<td data-heading="(.*?)"', text)[: len(headings)] == headings
    _write(nothing, corpus, path)
    assert "<script" not in path.read_text()
    assert "<b>" not in path.read_text()


def test_a_page_shows_how_the_campaign_went(tmp_path: Path) -> None:
    folder = tmp_path / "corpus" / "campaign"
    folder.mkdir(parents=True)
    lines = ('{"seconds":0,"cases":0,"rate":0}', '{"seconds":10,"cases":500,"rate":50}', "")
    (folder / "statistics.jsonl").write_text("\n".join(lines))
    path = tmp_path / "report.html"
    _write(on_a_gpu(families=()), tmp_path / "corpus", path)
    text = path.read_text()
    assert "cases: up to 500, over 10 s" in text
    assert 'points="0.00,100.00 100.00,4.00"' in text


def test_what_is_written_of_a_campaign_is_read_again_as_its_status(tmp_path: Path) -> None:
    status = on_a_gpu(counts=Counts({(REFERENCE, "images"): 7}), skipped={3: "it died"})
    create_corpus(tmp_path, generator="a test")
    with CampaignStore(tmp_path) as store:
        store.record(statistics(status))
        store.summarise({"summary": summary(status)})
    found = read_figures(tmp_path).status
    names = ("cases", "compared", "answered", "failed", "unasked", "rounds", "seconds", "seed")
    names += ("skipped", "carrying_out", "stalled", "waiting", "recent_rate", "counts", "gone")
    for name in names:
        assert getattr(found, name) == getattr(status, name), name
    assert [one.title for one in found.rows] == [
        one["title"] for one in summary(status)["findings"]
    ]
