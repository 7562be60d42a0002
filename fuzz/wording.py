"""Numbers with what they count, in the singular and the plural."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number and its noun: "1 family", "1,200 families".

    Parameters
    ----------
    one
        The noun for 1.
    many
        The noun for all other numbers; with an s at its end unless it is given.
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
