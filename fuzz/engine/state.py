"""What a campaign has to remember to go on after it was ended, or killed."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from corpus import Kind, ShrinkStatus

SCHEMA = 1
"""Version of `state.json` that this module writes."""
Count = Annotated[int, Meta(ge=0)]


class FamilyRecord(Struct, kw_only=True, forbid_unknown_fields=True):
    """A family of findings."""

    kind: Kind
    key: str
    title: str
    text: str
    verdict: str
    message: str
    cases: Count
    id: str | None
    """Of the finding that stands for it; None if it could not be stored."""
    shrink: ShrinkStatus
    new: bool = True
    """Whether this campaign put the finding into the corpus."""
    confirmed: bool = False
    finished: bool = False
    """Whether there is nothing more to be done with it."""


class State(Struct, kw_only=True, forbid_unknown_fields=True):
    """A campaign at a moment at which everything that it found is stored."""

    schema: int = SCHEMA
    options: dict[str, Any]
    """What decides which cases there are."""
    started: str
    """When the campaign began, UTC."""
    seconds: Annotated[float, Meta(ge=0)] = 0.0
    """How long it ran, over all resumptions."""
    ended: str = ""
    """Why it ended; empty while it goes on, and if it was killed."""
    rounds: Count = 0
    """Rounds before this one are committed."""
    parts: dict[int, int] = field(default_factory=dict)
    """Rounds from there on that were begun: cases of them that are committed."""
    whole: list[int] = field(default_factory=list)
    """Rounds from there on that are committed."""
    skipped: dict[int, str] = field(default_factory=dict)
    """Rounds that nobody could run, and why."""
    cases: Count = 0
    judged: Count = 0
    missing: Count = 0
    compiled: Count = 0
    uncompiled: Count = 0
    by_kind: dict[Kind, int] = field(default_factory=dict)
    undefined: dict[str, dict[str, Count]] = field(default_factory=dict)
    """Undefined programs, by reason, then by outcome."""
    reached: list[str] = field(default_factory=list)
    coverage: dict[str, Any] = field(default_factory=dict)
    families: list[FamilyRecord] = field(default_factory=list)
    tries: dict[str, int] = field(default_factory=dict)
    """By the key of a family: how often it was to be confirmed."""
    turned: dict[str, str] = field(default_factory=dict)
    """By the key of a family that was not confirmed: the key of what it turned out to be."""


def encode(state: State) -> bytes:
    """Return a state as JSON."""
    return msgspec.json.encode(state) + b"\n"


def decode(data: bytes) -> State:
    """Return the state that JSON describes.

    Raises
    ------
    ValueError
        If it is cut off, something else, or of another schema.
    """
    try:
        head = msgspec.json.decode(data)
        if not isinstance(head, dict) or head.get("schema") != SCHEMA:
            found = head.get("schema") if isinstance(head, dict) else None
            raise ValueError(f"its schema is {found!r}, and this warpfuzz knows {SCHEMA}")
        return msgspec.json.decode(data, type=State)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is not whole: {error}") from error
