"""How long a campaign may go on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fuzz.output import counted
from oracle.errors import UsageError

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits of a campaign; whichever is reached first ends it."""

    seconds: float | None = None
    cases: int | None = None
    findings: int | None = None
    """Families that nobody has explained yet."""
    quiet: float | None = None
    """Seconds without anything new: a family, or something reached for the first time."""

    def spent(self, seconds: float, cases: int) -> bool:
        """Tell whether a limit is reached."""
        return (self.seconds is not None and seconds >= self.seconds) or (
            self.cases is not None and cases >= self.cases
        )

    def reason(self, seconds: float, cases: int, *, found: int, quiet: float) -> str:
        """Return which limit is reached, in words; empty if none is.

        Parameters
        ----------
        seconds, cases
            Of the campaign so far.
        found
            Families that nobody has explained yet.
        quiet
            Seconds since something new.
        """
        if self.spent(seconds, cases):
            return "budget spent"
        if self.findings is not None and found >= self.findings:
            return f"{counted(found, 'family', 'families')} found"
        if self.quiet is not None and quiet >= self.quiet:
            return f"nothing new for {self.quiet:g} s"
        return ""


def parse_duration(text: str) -> float:
    """Return the seconds that a text such as "90", "10m", "1.5h" or "2w" means.

    Raises
    ------
    UsageError
        If it means no duration above zero.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", text.strip())
    if match is None or float(match[1]) == 0:
        raise UsageError(
            f"{text!r} is not a duration; write seconds, or a number with s, m, h, d or w, "
            'such as "60", "10m" or "2w"'
        )
    return float(match[1]) * _SECONDS[match[2]]
