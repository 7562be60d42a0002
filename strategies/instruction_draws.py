"""The rounds of a campaign on instructions: pure functions of the seed and the round's number.

A round has about 7,500 instructions for one target and PTX ISA version: a few forms with all their
legal spellings, dealt out so that every form comes once before any comes again, and for the rest
what is near legal. Legal instructions cost an assembler most, for it assembles them to the end.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice

from oracle.forms import Form
from oracle.isa import is_available
from oracle.targets import Module, PtxVersion, Target
from strategies.drafts import Draft
from strategies.draws import derived_seed, draw, draw_several
from strategies.instructions import damaged_drafts, legal_drafts, neighbourhoods, token_soup

GENERATOR_VERSION = 8
"""Goes up when the same seed would draw other instructions; CHANGELOG.md says why."""

_LEGAL_FORMS = 40
"""Forms of a round whose legal instructions are asked: 6 on average."""
_LEGAL, _NEAR, _DAMAGED, _SOUP = 300, 7200, 60, 40
"""Most instructions of each sort: most stand in neighbourhoods, whose instructions cost a tenth of
those that are drawn one by one."""
_NEIGHBOURHOODS = 48
"""Neighbourhoods of a round: they list 160 instructions on average."""
ROUND_CASES = _LEGAL + _NEAR + _DAMAGED + _SOUP
"""Most instructions of a round."""


@lru_cache(maxsize=4)
def round_drafts(
    forms: Sequence[Form], target: Target, version: PtxVersion, *, seed: int, number: int
) -> tuple[Draft, ...]:
    """Draw the different instructions of a round, in an order that mixes them.

    Parameters
    ----------
    forms
        What is selected.
    target, version
        Where they stand.
    seed
        Of the campaign.
    number
        Of the round.
    """
    key = derived_seed(seed, GENERATOR_VERSION, number)
    drafts: list[Draft] = list(islice(_legal(forms, Module(target, version), seed, number), _LEGAL))
    near = draw(neighbourhoods(forms), _NEIGHBOURHOODS, derived_seed(key, "near"))
    drafts += islice((draft for area in near for draft in area.drafts()), _NEAR)
    drafts += draw_several(damaged_drafts(forms), _DAMAGED, derived_seed(key, "damaged"))
    drafts += draw_several(token_soup(), _SOUP, derived_seed(key, "soup"))
    different = list({draft.text: draft for draft in drafts}.values())
    random.Random(derived_seed(key, "order")).shuffle(different)
    return tuple(different)


def _legal(forms: Sequence[Form], module: Module, seed: int, number: int) -> Sequence[Draft]:
    """Return all legal spellings of the forms that are dealt to a round."""
    available = [form for form in forms if is_available(form, module)]
    dealt: list[Form] = []
    for place in range(number * _LEGAL_FORMS, (number + 1) * _LEGAL_FORMS) if available else ():
        turn, at = divmod(place, len(available))
        if not dealt or at == 0:
            order = list(available)
            random.Random(derived_seed(seed, "forms", turn)).shuffle(order)
        dealt.append(order[at])
    return [draft for form in dict.fromkeys(dealt) for draft in legal_drafts(form)]
