"""What a round draws: some of everything, the same for the same seed, wherever it is drawn."""

import os
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import strategies as st

from oracle.isa import FORMS, is_available
from oracle.legality import Verdict, verdict_of
from oracle.targets import Module, parse_target, parse_version
from strategies.draws import Selection, draw
from strategies.instructions import round_drafts

ROOT = Path(__file__).parents[2]
TARGET, VERSION = parse_target("sm_90"), parse_version("8.0")

PRINTED = """
import hashlib
from strategies.instructions import round_drafts
from oracle.isa import FORMS
from oracle.targets import parse_target, parse_version
drafts = round_drafts(
    FORMS, parse_target("sm_90"), parse_version("8.0"), seed=5, number=0
)
print(hashlib.sha256("\\n".join(draft.text for draft in drafts).encode()).hexdigest())
"""


def test_a_seed_draws_the_same_beside_any_other_modules(tmp_path):
    # Hypothesis draws integers that stand in modules outside of site-packages.
    constants = ", ".join(map(str, range(1, 700)))
    (tmp_path / "neighbour.py").write_text(f"NUMBERS = [{constants}]\n")
    printed = {
        subprocess.run(
            [sys.executable, "-c", extra + PRINTED],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": f"{ROOT}:{tmp_path}", "PYTHONHASHSEED": number},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for extra, number in (("", "1"), ("import neighbour", "2"))
    }
    assert len(printed) == 1
    # Nor does drawing leave a folder of its own where a person happens to be.
    assert not (tmp_path / ".hypothesis").exists()


def test_integers_are_drawn_uniformly():
    drawn = draw(st.lists(st.integers(0, 599), min_size=500, max_size=500), 7, 7)
    drawn = [number for numbers in drawn[1:] for number in numbers]
    counts = Counter(number // 100 for number in drawn)
    # 500 each; the standard deviation is 20.
    assert all(380 < counts[part] < 620 for part in range(6)), counts
    assert max(Counter(drawn).values()) < 20  # 5 each


@pytest.mark.parametrize("key", [0, 2**64 - 1])
def test_a_round_holds_legal_and_illegal_instructions_and_the_same_for_the_same_key(key):
    drafts = round_drafts(FORMS, TARGET, VERSION, seed=key, number=3)
    round_drafts.cache_clear()
    assert drafts == round_drafts(FORMS, TARGET, VERSION, seed=key, number=3)
    assert len({draft.text for draft in drafts}) == len(drafts)
    verdicts = Counter(
        verdict_of(draft.text, target="sm_90", ptx_version="8.0") for draft in drafts
    )
    assert verdicts[Verdict.LEGAL] > 200  # of about 300 in every round
    assert verdicts[Verdict.ILLEGAL] > len(drafts) // 3
    assert {draft.mnemonic for draft in drafts} >= {
        "wmma.load",
        "wmma.mma",
        "wmma.store",
        "ldmatrix",
    }


def test_every_form_is_dealt_before_any_comes_again():
    ldmatrix = Selection(pattern="ldmatrix").forms()
    drafts = round_drafts(ldmatrix, TARGET, VERSION, seed=1, number=0)
    known = {form.opcode for form in ldmatrix if is_available(form, Module(TARGET, VERSION))}
    assert known <= {draft.opcode for draft in drafts}


@pytest.mark.parametrize(
    "pattern",
    ["*", "wmma.mma*", "*.tf32", "wmma.load.?.sync*", "[wl]*x4*", "ldmatrix", "f64", "zz"],
)
def test_a_selection_holds_the_forms_that_fit_its_pattern(pattern):
    chosen = set(Selection(pattern=pattern).forms())
    for form in FORMS:
        fits = fnmatchcase(form.opcode, pattern) or (pattern.isalnum() and pattern in form.opcode)
        assert (form in chosen) == fits, form.opcode
