"""What the pages for contributors name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_rooms import ROOT

from runners.toolchains import WHEELS
from strategies import instructions
from strategies.programs import GENERATOR_VERSION

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
GUIDES = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"]
_ROOMS = "oracle|strategies|runners|corpus|fuzz|tests|docs|benchmarks"


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_every_file_that_a_guide_names_is_there(page: Path) -> None:
    named = re.findall(rf"`((?:{_ROOMS})/[\w./]*)`", page.read_text())
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def anchors(page: Path) -> set[str]:
    """Return what the headings of a page are called in links, as GitHub does it."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = (re.sub(r"\]\([^)]*\)|[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_heading_leads_to_one(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]*\.md|)#([^)]+)\)", page.read_text())
    assert [
        (to, name) for to, name in links if name not in anchors(page.parent / to if to else page)
    ] == []


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert [name for name in sorted(pages) if f"({name})" not in index] == []


def test_the_changes_name_the_versions_of_the_generators() -> None:
    rows = re.findall(r"^\| (\d+) \|", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    newest = [int(one) for one in rows]
    assert newest[0] == GENERATOR_VERSION
    assert instructions.GENERATOR_VERSION in newest


@pytest.mark.parametrize("name", WHEELS)
def test_the_page_of_compilers_lists_the_releases_that_can_be_fetched(name: str) -> None:
    page = (ROOT / "docs" / "compilers.md").read_text()
    row = re.search(rf"^\| `?{name}`?(?!\w)[^|]*\|([^|]*)\|", page, re.MULTILINE)
    assert row is not None
    assert tuple(row[1].split()) == WHEELS[name].releases


SCRIPT = re.compile(r"python3? (?:-m )?((?:docs|benchmarks|tests|runners)[/.][\w/.]+)([^`\n|']*)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_script_that_a_page_calls_is_there_and_has_its_options(page: Path) -> None:
    text = page.read_text().replace("\\\n", " ")
    for name, words in SCRIPT.findall(text):
        script = ROOT / (name if name.endswith(".py") else f"{name.replace('.', '/')}.py")
        source = script.read_text()
        options = re.findall(r"(?<!\S)(--[a-z][\w-]*)", words)
        assert [one for one in options if one not in source] == [], name
    called = " ".join(re.findall(r"pytest[^`\n|]*", text))
    named = re.findall(r"tests/[\w/.]+", called)
    assert [one for one in named if not (ROOT / one.rstrip(".")).exists()] == []
