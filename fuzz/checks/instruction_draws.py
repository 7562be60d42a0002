"""What the rounds of a campaign on instructions ask: pure functions of the seed and the round.

A round has about 7,500 instructions for one target and PTX ISA version: a few forms with all their
legal spellings, dealt out so that every form comes once before any comes again, and for the rest
what is near legal. Legal instructions cost an assembler most, for it assembles them to the end.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice

from fuzz.campaign.draws import derived_seed, draw, draw_several
from oracle.availability import is_available
from oracle.errors import UsageError
from oracle.forms import Form
from oracle.targets import (
    TARGETS,
    VERSIONS,
    Module,
    PtxVersion,
    Target,
    parse_target,
    parse_version,
)
from runners.assemblers.assembler import Assembler
from strategies.drafts import Draft
from strategies.instructions import (
    damaged_drafts,
    legal_drafts,
    neighbourhoods,
    token_soup,
)

GENERATOR_VERSION = 5
"""Goes up when the same seed would draw other instructions. 5: rounds of twice the size, with as
many legal instructions as before, so that a round costs fewer processes for each instruction."""

_LEGAL_FORMS = 40
"""Forms of a round whose legal instructions are asked: 6 on average."""
_LEGAL, _NEAR, _DAMAGED, _SOUP = 300, 7200, 60, 40
"""Most instructions of each sort: most stand in neighbourhoods, whose instructions cost a tenth of
those that are drawn one by one."""
_NEIGHBOURHOODS = 48
"""Neighbourhoods of a round: they list 160 instructions on average."""
ROUND_CASES = _LEGAL + _NEAR + _DAMAGED + _SOUP
"""Most instructions of a round."""
_ROUNDS_OF_A_PAIR = 3
"""Rounds that stay with one target and version: an assembler is asked once what it does with a
text for them."""


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


_MAIN_TARGET = "sm_90"
"""Target of every second block of rounds where none is asked for: what most is known of."""
_FIRST = 70
"""First target with matrix instructions: "Floating point wmma requires sm_70" (9.7.14.4)."""


def pairs_of(
    assembler: Assembler, target: str | None, version: str | None
) -> tuple[tuple[Target, PtxVersion], ...]:
    """Return the pairs of target and version that rounds are about, the main one first.

    Raises
    ------
    UsageError
        If the assembler does not have what is asked for.
    """
    wanted = (
        [parse_target(target)]
        if target
        else [TARGETS[name] for name in assembler.targets if name in TARGETS]
    )
    highest = assembler.highest_version
    versions = [parse_version(version)] if version else [v for v in VERSIONS if v <= highest]
    pairs = [(t, v) for t in wanted for v in versions if t.known_to(v) and t.number >= _FIRST]
    if not pairs:
        raise UsageError(
            f"no PTX ISA version up to {highest} knows {target or 'a target of ' + str(assembler)}"
            f"{' in version ' + version if version else ''}; `warpfuzz compilers list` shows what "
            "each assembler has"
        )
    newest = max(v for _, v in pairs)
    main = next(
        (pair for pair in pairs if pair[0].name == _MAIN_TARGET and pair[1] == newest), pairs[-1]
    )
    if (target or version) and not any(assembler.accepts(v, t.name) for t, v in pairs):
        raise UsageError(
            f"{assembler} takes no module with .target {target or main[0].name} and .version "
            f"{version or main[1]}; `warpfuzz compilers list` shows what each assembler has"
        )
    return (main, *(pair for pair in pairs if pair != main))


def pair_of_round(
    assembler: Assembler, pairs: Sequence[tuple[Target, PtxVersion]], *, seed: int, number: int
) -> tuple[Target, PtxVersion]:
    """Return the target and version of a round: every second block of rounds has the main pair."""
    block = number // _ROUNDS_OF_A_PAIR
    if block % 2 == 0 or len(pairs) == 1:
        return pairs[0]
    for attempt in range(len(pairs)):
        at = derived_seed(seed, "pair", block, attempt) % len(pairs)
        target, version = pairs[at]
        if assembler.accepts(version, target.name):
            return target, version
    return pairs[0]
