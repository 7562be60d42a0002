"""Which finding is shown in place of which, and what it was shrunk from."""

from __future__ import annotations

from collections.abc import Iterable

from corpus.entry import Entry


class Links:
    """The links among the findings of a corpus, each followed once.

    Parameters
    ----------
    entries
        All that are sound, raw or not.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = {entry.id: entry for entry in entries}
        self._shown: dict[str, Entry] = {}

    def shown(self, entry: Entry) -> Entry:
        """Return the finding that is shown in place of one of these: itself, or a smaller form.

        That is the last one that its links lead to. Where they lead in a ring, which merged
        campaigns may have made, it is the smallest of the ring.
        """
        path: dict[str, Entry] = {}
        while entry.id not in self._shown and entry.id not in path:
            path[entry.id] = entry
            entry = self._entries.get(entry.finding.shrunk_to or "", entry)
        last = self._shown.get(entry.id)
        if last is None:
            ids = list(path)
            ring = ids[ids.index(entry.id) :]
            last = min((path[one] for one in ring), key=lambda one: one.finding.size)
        self._shown |= dict.fromkeys(path, last)
        return last

    def is_replaced(self, entry: Entry) -> bool:
        """Whether another finding is shown in place of this one."""
        return self.shown(entry).id != entry.id

    def origins(self, entries: Iterable[Entry]) -> list[tuple[Entry, Entry]]:
        """Return what some findings were shrunk from, over all steps, each once.

        Returns
        -------
        pairs of a raw finding and the one of `entries` that came from it first
        """
        found: dict[str, tuple[Entry, Entry]] = {}
        for entry in entries:
            origin = entry.finding.shrunk_from
            while origin in self._entries and origin != entry.id and origin not in found:
                raw = self._entries[origin]
                found[origin] = raw, entry
                origin = raw.finding.shrunk_from
        return list(found.values())
