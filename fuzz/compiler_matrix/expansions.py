"""Which machine instructions each compiler makes of a form, and where that changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fuzz.compiler_matrix.members import Member
from fuzz.instruction_rounds import derived_seed, draw
from oracle.isa import LdmatrixForm, MmaForm
from oracle.notes import is_available
from oracle.program import Program, requirements
from oracle.targets import parse_target, parse_version
from strategies.features import Focus
from strategies.programs import programs

FORMS_AT_ONCE = 32
"""Forms of one module: it takes a compiler about as long as a module of drawn programs."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """A form whose expansion is another one from some version on."""

    form: str
    """Its opcode."""
    before_version: str
    after_version: str
    levels: tuple[int, ...]
    """-O levels at which it changed so."""
    before: str
    """Matrix instructions with their counts, such as "HMMA.1684 x4"."""
    after: str
    program: Program
    """The program that shows it."""

    @property
    def row(self) -> dict[str, object]:
        """The note as a JSON object says it."""
        return {
            "note": "expansion",
            "form": self.form,
            "from_version": self.before_version,
            "to_version": self.after_version,
            "levels": list(self.levels),
            "before": self.before,
            "after": self.after,
        }


def survey_programs(
    forms: Sequence[MmaForm | LdmatrixForm], *, target: str, version: str, seed: int
) -> Iterator[tuple[MmaForm | LdmatrixForm, Program]]:
    """Iterate over forms and the simplest program of each; those that need more are left out."""
    row, number = parse_target(target), parse_version(version)
    for form in forms:
        focus = Focus(form=form, features=frozenset())
        strategy = programs(focus, target=target, version=version, forms=(form,))
        # The first example that Hypothesis makes is the simplest one there is.
        for program in draw(strategy, 1, derived_seed(seed, "survey", form.opcode)):
            if all(is_available(one, number, row) for one in requirements(program)):
                yield form, program


def notes_of(
    form: MmaForm | LdmatrixForm, program: Program, seen: Mapping[Member, Counter[str]]
) -> list[Note]:
    """Return the changes of a form's expansion from version to version.

    Parameters
    ----------
    seen
        The matrix instructions in each member's binary; members oldest first.
    """
    changes: dict[tuple[str, str, str, str], list[int]] = {}
    for level in sorted({member.level for member in seen}):
        column = [(one.version, words(count)) for one, count in seen.items() if one.level == level]
        for (old, before), (new, after) in pairwise(column):
            if before != after:
                changes.setdefault((old, new, before, after), []).append(level)
    return [
        Note(
            form=form.opcode,
            before_version=old,
            after_version=new,
            levels=tuple(levels),
            before=before,
            after=after,
            program=program,
        )
        for (old, new, before, after), levels in changes.items()
    ]


def words(instructions: Counter[str]) -> str:
    """Return matrix instructions with their counts, sorted."""
    if not instructions:
        return "none"
    return ", ".join(
        name if count == 1 else f"{name} x{count}" for name, count in sorted(instructions.items())
    )
