"""What identifies a finding: a hash that does not depend on when, where or how it was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from corpus.finding import Case

ID_DIGITS = 16
"""Hexadecimal digits of an id. By 64 bits, a collision among a million findings has a chance of
about 3e-8 (birthday bound)."""


def finding_id(case: Case, digests: Mapping[str, str]) -> str:
    """Return the id of a case.

    What counts: the kind, the text, target and PTX version, which runners in which versions and
    with which options came to which outcome, and the files. What does not: times, seeds, the
    family (triage may learn), messages (they may name temporary files), the shrink status, the
    version of warpfuzz and of the schema.

    Parameters
    ----------
    case
        The finding's description.
    digests
        SHA-256 of each of its files, in hexadecimal, by name.
    """
    runners = sorted(
        (verdict.runner, verdict.version, verdict.options, verdict.outcome)
        for verdict in case.runners
    )
    parts = (
        str(case.kind),
        case.text,
        case.target,
        case.ptx_version,
        _listed(_listed(runner) for runner in runners),
        _listed(_listed(item) for item in sorted(digests.items())),
    )
    return digest(_listed(parts).encode(errors="surrogatepass"))[:ID_DIGITS]


def digest(data: bytes) -> str:
    """Return the SHA-256 of `data`, in hexadecimal."""
    # Imported late: OpenSSL takes milliseconds that `warpfuzz --help` does not have.
    from hashlib import sha256

    return sha256(data).hexdigest()


def _listed(parts: Iterable[str]) -> str:
    # Each part with its length before it (a netstring), so that no two lists run together to
    # the same text and no library's formatting takes part in an id that has to last.
    return "".join(f"{len(part)}:{part}," for part in parts)
