"""Variants of a ptxas: options beside the -O level, with which what it compiles must do the same.

`SETTINGS` has a row for each. Others are refused, because findings name them and are replayed
without a question: an option such as --output-file would write where a stranger's corpus says.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

from oracle.errors import UsageError

NONE = "none"  # in place of a variant: none
SETTINGS = {
    "maxrregcount": "most registers of a thread",
    "maxnreg": "the same as the directive .maxnreg of each entry",
    "regAllocOptLevel": "level of register allocation, not documented; 12.4 to 13.5 take it",
    "register-usage-level": "what optimisations may cost in registers, 0 to 10",
    "Ofast-compile": "min, mid or max: compile faster",
    "allow-expensive-optimizations": "true or false",
    "target": "sibling of the GPU's target: sm_90a for sm_90",
    "process": "last: behind a copy of the module, compiled by the same process",
}
"""What may be set, by its name; options and values as ptxas 13.5 --help has them (2026-11)."""
_NO_OPTIONS = ("maxnreg", "target", "process")  # those that are no options of that name
_ENTRY = re.compile(r"(\.entry\s+)([\w$]+)(\s*\([^)]*\))?")
_TOO_FEW = "register target"
"""In "Compile the program with a higher register target" (ptxas 12.0 and 12.4; C7600 of 12.8 to
13.5 and of the driver 580.159.04), "Try to compile with register target of 26 or higher" (12.6 to
13.5), and "cannot be compiled with specified register target constraints" (12.0 to 13.5, 2026-11).
"""
_FEW = re.compile(r"\.maxnreg\b|\bwgmma\.")
_LAST = ("process", "last")
_ONE = rf"(?:{'|'.join(SETTINGS)})=[\w.]+"
_NAMED = re.compile(rf"(.*?)((?:\+{_ONE})*)", re.DOTALL)


@dataclass(frozen=True)
class Variant:
    """Some settings, each once, in the order of `SETTINGS`."""

    settings: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """As it stands behind the name of a compiler: "+maxrregcount=32+target=sm_90a"."""
        return "".join(f"+{name}={value}" for name, value in self.settings)

    def __bool__(self) -> bool:
        return bool(self.settings)

    def architecture(self, asked: str) -> str:
        """Return the architecture that is compiled for where another one is asked for."""
        return dict(self.settings).get("target", asked)

    def command(self, architecture: str) -> list[str]:
        """Return the options of ptxas, in front of its files."""
        return [f"-arch={self.architecture(architecture)}", *self.flags]

    @property
    def flags(self) -> list[str]:
        """Options of ptxas, but for the architecture."""
        return [f"--{name}={value}" for name, value in self.settings if name not in _NO_OPTIONS]

    def asks_too_much(self, said: str, ptx: str) -> bool:
        """Whether what a compiler says of PTX is that there are too few registers for it.

        That is no fault of a compiler where they are limited, or cannot be spilled: those of D and
        A, while a multiplication of a warpgroup is in flight. It is one in all other code.
        """
        limited = {"maxrregcount", "maxnreg"} & dict(self.settings).keys()
        return _TOO_FEW in said and (bool(limited) or _FEW.search(ptx) is not None)

    def files(self, name: str, ptx: str) -> dict[str, str]:
        """Return the files that one process is given for that of a module, which is the last."""
        if (most := dict(self.settings).get("maxnreg")) is not None:  # (PTX ISA 11.4.1)
            ptx = _ENTRY.sub(lambda found: f"{found[0]} .maxnreg {most}", ptx)
        if _LAST in self.settings:
            return {"before.ptx": _ENTRY.sub(r"\1\2_before\3", ptx), name: ptx}
        return {name: ptx}


PLAIN = Variant()


def split_variant(name: str) -> tuple[str, Variant]:
    """Return what the name of a compiler says: "13.5+maxrregcount=32" is 13.5, and a variant.

    What is none stays in the name, which may be a stranger's.
    """
    found = _NAMED.fullmatch(name)
    with suppress(UsageError):
        if found is not None and found[2]:
            return found[1], parse_variant(found[2])
    return name, PLAIN


def parse_variant(text: str) -> Variant:
    """Return the variant that a person names: "maxrregcount=32,target=sm_90a", or "none".

    Raises UsageError if it names none, or something twice.
    """
    words = re.split(r"[,+]", text.strip().removeprefix("+"))
    if words == [NONE]:
        return PLAIN
    given = dict(word.partition("=")[::2] for word in words)
    if not all(re.fullmatch(_ONE, word) for word in words) or len(given) < len(words):
        raise UsageError(
            f"{text!r:.200} is no variant of a ptxas; give some of {', '.join(SETTINGS)}, each "
            "once, with values, such as maxrregcount=32,target=sm_90a"
        )
    if given.get(*_LAST) != _LAST[1]:
        raise UsageError(f"process={given[_LAST[0]]} is not known; the only value is process=last")
    return Variant(tuple((name, given[name]) for name in SETTINGS if name in given))
