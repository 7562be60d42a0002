"""Two descriptions of one finding: which of them to keep."""

from __future__ import annotations

import msgspec

from corpus.finding import Finding
from corpus.schema import encode


def preferred(one: Finding, other: Finding) -> Finding:
    """Return the description that was shrunk furthest, or else was made first.

    A link to a smaller form is kept from either. All of it is a minimum under a total order, so
    that neither order nor grouping nor repetition counts.

    Parameters
    ----------
    one, other
        Descriptions with the same id.
    """
    links = [link for link in (one.shrunk_to, other.shrunk_to) if link is not None]
    return msgspec.structs.replace(min(one, other, key=_rank), shrunk_to=min(links, default=None))


def _rank(finding: Finding) -> tuple[int, float, bytes]:
    unlinked = msgspec.structs.replace(finding, shrunk_to=None)
    return -finding.shrink.progress, finding.created.timestamp(), encode(unlinked)
