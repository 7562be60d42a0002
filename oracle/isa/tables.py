"""The warp-level matrix instructions: a row of `instructions.toml` each (CONTRIBUTING.md)."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from oracle.isa.forms import Form, Slot, kind_of
from oracle.isa.targets import Module, PtxVersion

FRAGMENTS, STORAGE = "9.7.14.4.1", "9.7.14.4.2"
"""Sections of PTX ISA 9.0 on the registers of fragments, and on matrices in memory."""


@cache
def slots_of(text: str) -> dict[str, tuple[str, ...]]:
    """Read "shape: m8n8|m16n8; type: b16" as what may stand in slots, by name."""
    parts = (part.partition(":") for part in text.split(";"))
    return {
        name.strip(): tuple(one.strip() for one in texts.split("|")) for name, _, texts in parts
    }


def describes(where: str, form: Form) -> bool:
    """Tell whether something applies to a form.

    `where`: What has to stand in slots, or in some slot of a kind, such as "shape: m8n8|m16n8;
    type: b16". Several of these, parted by "or": one has to be so. "" describes every form.
    """
    return not where or any(
        all(
            any(text in texts for slot, text in form.slots if name in (slot, kind_of(slot)))
            for name, texts in slots_of(some).items()
        )
        for some in where.split(" or ")
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class IsaNote:
    """One note of a page: what it says, and which versions and targets it asks for."""

    text: str
    """The page's own words."""
    where: str = ""
    """To which forms it applies (`describes`)."""
    since: PtxVersion | None = None
    """First PTX ISA version that has it."""
    until: PtxVersion | None = None
    """First PTX ISA version that has it no more."""
    deprecated: PtxVersion | None = None
    """First PTX ISA version that advises against it."""
    target: int | None = None
    specific: bool = False
    """Whether it asks for an architecture- or family-specific target of 9.7.14.5.15."""
    also: str = ""
    """A target that a note of these asks for besides."""

    def refusal(self, module: Module) -> str | None:
        """Say why the version or the target of a module does not satisfy the note, if so."""
        version, target = module.version, module.target
        late, early = self.until, self.since
        if (early is not None and version < early) or (late is not None and version >= late):
            return f"{self.text} The PTX ISA version here is {version}."
        if self.target is not None and target.number < self.target:
            return f"{self.text} The target here is {target.name}."
        if self.specific and target.name != self.also and not _has_specific_shapes(module):
            return f"{self.text} Here: {target.name} and PTX ISA version {version}."
        return None


def _has_specific_shapes(module: Module) -> bool:
    """Tell whether the target has the shapes, types and formats that ldmatrix got in 8.6.

    sm_100a, sm_101a and sm_120a; from 8.8 also their "f" targets and younger members of a family.
    """
    version, target = module.version, module.target
    if not target.is_specific or target.family is None or not module.exists:
        return False
    oldest = target.number == target.family
    return (oldest and target.suffix == "a") or version >= PtxVersion(8, 8)


class Block(NamedTuple):
    """Forms under one heading of the page: every combination of what may stand in the slots."""

    heading: str
    slots: str
    """As in "shape: m8n8|m16n8; type: b16"; the last changes first. Several slots ("atype btype:
    f16") change together: to one text for all of them, or to one for each, parted by spaces."""

    def texts(self) -> Iterator[dict[str, str]]:
        """Iterate over what stands in the slots."""
        known = slots_of(self.slots)
        for chosen in product(*known.values()):
            found: dict[str, str] = {}
            for names, text in zip(known, chosen, strict=True):
                slots, texts = names.split(), text.split(" ")
                found |= zip(slots, texts * len(slots) if len(texts) == 1 else texts, strict=True)
            yield found


@dataclass(frozen=True, kw_only=True, eq=False)
class Instruction:
    """One instruction of the PTX ISA: all that its forms have in common, and which they are."""

    mnemonic: str
    alias: str = ""
    """As people call it, if not by its mnemonic: "mma.sync" for `mma`."""
    section: str
    lengths: str = ""
    """Section that says how many registers its vectors have, if another does."""
    operands: tuple[str, ...]
    """Kinds in the order of the syntax: "p" an address, "stride" optional, "to", "from", "e" a
    register, "selector" a constant; every other is a vector of registers. The first is written."""
    function: str = ""
    """Name of the function of the package `oracle` that computes it; "" if none does."""
    figures: str = ""
    """Mnemonic of the instruction whose figures a model has for it, if not its own."""
    opaque: bool = False
    """Whether it is left open which lane holds which element of its vectors."""
    syntax: str
    """Slots in the order of the page's syntax; one that may be left out ends in "?"."""
    aligned_since: PtxVersion | None = None
    """First PTX ISA version in which `.aligned` has to be written; None: it always has to be."""
    blocks: tuple[Block, ...]
    notes: tuple[IsaNote, ...]
    fertile: tuple[tuple[str, ...], ...]
    """Sets of slots whose combinations are tried: shapes and types, where a compiler's tables have
    most room for holes. Several slots in one text ("atype btype") get the same qualifier."""

    @property
    def name(self) -> str:
        """As people call it."""
        return self.alias or self.mnemonic

    @property
    def fragments(self) -> str:
        """Section that says how many registers its vectors have."""
        return self.lengths or self.section

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """Names of the slots in the order of the page's syntax."""
        return tuple(self.syntax.replace("?", "").split())

    @property
    def implicit_types(self) -> bool:
        """Whether the types of A and B may be left out, which are .f16 then."""
        return "atype?" in self.syntax

    @cached_property
    def most(self) -> dict[str, int]:
        """How many qualifiers of each kind there are at most."""
        return _counted(self.slots)

    @cached_property
    def required(self) -> dict[str, int]:
        """How many qualifiers of a kind every form has; `.aligned` was once left out."""
        found = _counted(name for name in self.syntax.split() if not name.endswith("?"))
        found.pop("aligned")
        return found

    def form(self, texts: Mapping[str, str], heading: str = "") -> Form:
        """Return the form with these texts in its slots, documented or not."""
        given = {"sync": "sync", "aligned": "aligned", **texts}
        return Form(
            mnemonic=self.mnemonic, section=self.section, operands=self.operands,
            opaque=self.opaque, page_family=heading,
            slots=tuple(Slot(name, given.get(name, "")) for name in self.slots),
        )  # fmt: skip

    @cached_property
    def forms(self) -> tuple[Form, ...]:
        """Every documented form."""
        return tuple(
            self.form(texts, block.heading) for block in self.blocks for texts in block.texts()
        )

    def quotes_of(self, form: Form) -> tuple[tuple[str, str], ...]:
        """Return (section, text) of what the ISA says that a form does."""
        return tuple(
            (quote.get("section", self.section), quote["text"])
            for quote in sentences()["matrix"].get(self.mnemonic, ())
            if describes(quote.get("where", ""), form)
        )


def _counted(slots: Iterable[str]) -> dict[str, int]:
    return {**Counter(map(kind_of, slots))}


@cache
def sentences() -> dict[str, Any]:
    """Return `sentences.toml`; it is read when a page asks for the first of them."""
    return _read("sentences.toml")


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


def _typed(row: dict[str, Any]) -> dict[str, Any]:
    versions = {"since", "until", "deprecated", "aligned_since"}
    lists = {name: tuple(value) for name, value in row.items() if isinstance(value, list)}
    return row | lists | {name: PtxVersion(*row[name]) for name in versions & row.keys()}


def _instruction(row: dict[str, Any]) -> Instruction:
    nested: dict[str, Any] = {
        "blocks": tuple(Block(*block) for block in row["blocks"]),
        "notes": tuple(IsaNote(**_typed(note)) for note in row["notes"]),
        "fertile": tuple(map(tuple, row["fertile"])),
    }
    return Instruction(**_typed(row) | nested)


_DATA = _read("instructions.toml")
OTHERS, DIRECTIVES = frozenset(_DATA["others"].split()), tuple(_DATA["directives"].split())
"""First words of the other instructions of the PTX ISA, and its directives."""
INSTRUCTIONS: dict[str, Instruction] = {
    row.mnemonic: row for row in map(_instruction, _DATA["instructions"])
}
"""Rows by mnemonic, in the order in which they are listed to a user."""
