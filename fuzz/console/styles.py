"""How kinds of findings, durations and shares are shown everywhere."""

from __future__ import annotations

from rich.text import Text

from corpus import Kind
from fuzz.output import harmless

KIND_STYLES = {
    Kind.CRASH: "worst",
    Kind.HANG: "worst",
    Kind.DEVICE_LOST: "worst",
    Kind.VIOLATION: "worst",
    Kind.FLAKY: "bad",
    Kind.LAUNCH_FAILURE: "bad",
    Kind.COMPILE_FAILURE: "bad",
    Kind.DEVIATION: "odd",
    Kind.UNREADABLE: "bad",
    Kind.INTERNAL: "bad",
    Kind.REJECTED: "bad",
    Kind.DIFFER: "odd",
    Kind.ACCEPTED: "odd",
}
"""Style of each kind, by what it does to somebody who relies on the thing."""
SHORT_KINDS = {
    Kind.ACCEPTED: "accepted",
    Kind.REJECTED: "rejected",
    Kind.INTERNAL: "internal error",
}
"""What fits a column; the full name says "although undocumented" and "although documented"."""
_EIGHTHS = " ▏▎▍▌▋▊▉"
"""Block Elements of Unicode: a bar grows by an eighth of a column."""


def kind_style(kind: Kind, *, known: bool) -> str:
    """Return the style of a finding."""
    return "known" if known else KIND_STYLES.get(kind, "odd")


def kind_name(kind: Kind) -> str:
    """Return the name of a kind as a column shows it."""
    return SHORT_KINDS.get(kind, kind.value)


def duration(seconds: float) -> str:
    """Return seconds in words, of which the two largest units are kept."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours:02} h"
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def bar(share: float, width: int, style: str, *, ascii_only: bool = False) -> Text:
    """Return a bar of text, so that it stays in reports and without colours.

    Parameters
    ----------
    share
        What is filled, 0 to 1; more and less are cut.
    width
        Columns of the whole.
    style
        Of the filled part.
    ascii_only
        Whether the output takes no other signs.
    """
    share = min(1.0, max(0.0, share)) if share == share else 0.0
    if ascii_only:
        filled = round(share * width)
        return (
            Text().append("#" * filled, style=style).append("." * (width - filled), style="quiet")
        )
    whole, part = divmod(round(share * width * 8), 8)
    text = "█" * whole + (_EIGHTHS[part] if part else "")
    if share and not text:
        text = _EIGHTHS[1]
    return Text().append(text, style=style).append("·" * (width - len(text)), style="quiet")


def plain(text: str, style: str = "") -> Text:
    """Return a name from elsewhere as text that cannot move the cursor."""
    return Text(harmless(text, one_line=True), style=style)
