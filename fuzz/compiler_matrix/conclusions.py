"""What a bisection says in the end: one sentence, and the first version and level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fuzz.compiler_matrix.bisection import Cell, Column, Course


@dataclass(frozen=True, kw_only=True)
class First:
    """Where a result first is what the finding says."""

    version: str
    level: int
    before: str | None
    """The version before it, with another result; None if the oldest that was asked is it."""


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """What several columns say together."""

    names: Sequence[str]
    """Versions, oldest first."""
    columns: Sequence[Column]
    """One for each level, lowest first."""
    driver: Mapping[int, Cell] = field(default_factory=dict)
    """What the driver's compiler does, by level; empty where it was not asked."""

    @property
    def course(self) -> Course:
        """The course that says most: of the levels that have one, the most eventful."""
        order = [
            Course.NOT_MONOTONIC, Course.CHANGED, Course.ALWAYS, Course.NEVER, Course.UNKNOWN,
        ]  # fmt: skip
        courses = (column.course for column in self.columns)
        return min(courses, key=order.index, default=Course.UNKNOWN)

    @property
    def flaky(self) -> bool:
        """Whether some version was not the same every time."""
        return any(column.flaky for column in self.columns) or any(
            cell.flaky for cell in self.driver.values()
        )

    @property
    def bad(self) -> bool:
        """Whether anything disagreed with the ISA."""
        return any(cell.bad for cell in self.driver.values()) or any(
            cell.bad for column in self.columns for cell in column.cells.values()
        )

    @property
    def first(self) -> First | None:
        """The first version and level that disagrees, where there is one and another does not.

        Where nothing disagrees with the ISA (assemblers differ, and both may), the first change.
        """
        agrees = any(
            cell.known and not cell.bad for column in self.columns for cell in column.cells.values()
        )
        found = []
        for column in self.columns:
            for index, cell in column.cells.items():
                if cell.bad and agrees:
                    found.append((index, column.level, self._before(column, index)))
                    break
        if not self.bad:
            found = [
                (change.after, column.level, change.before)
                for column in self.columns
                for change in column.changes[:1]
            ]
        if not found:
            return None
        index, level, before = min(found)
        return First(
            version=self.names[index],
            level=level,
            before=None if before is None else self.names[before],
        )

    @staticmethod
    def _before(column: Column, index: int) -> int | None:
        known = [at for at, cell in column.cells.items() if cell.known and at < index]
        return known[-1] if known else None

    @property
    def sentence(self) -> str:
        """Everything in one sentence."""
        said: dict[str, list[int]] = {}
        for column in self.columns:
            said.setdefault(self._course_of(column), []).append(column.level)
        parts = [
            f"{'at all levels' if len(levels) == len(self.columns) else _levels(levels)}: {words}"
            for words, levels in said.items()
        ]
        first = self.first
        start = ""
        if first is not None and len(said) > 1:
            start = f"first {first.version} at -O{first.level}; "
        if self.driver:
            parts.append(f"the driver's compiler: {self._of_driver}")
        end = "; flaky: not the same in every run" if self.flaky else ""
        return f"{start}{'; '.join(parts)}{end}"

    @property
    def _of_driver(self) -> str:
        """What the driver's compiler does at its levels."""
        said: dict[str, list[int]] = {}
        for level, cell in self.driver.items():
            said.setdefault(cell.label, []).append(level)
        if len(said) == 1:
            return next(iter(said))
        return ", ".join(f"{words} {_levels(levels)}" for words, levels in said.items())

    def _course_of(self, column: Column) -> str:
        names, cells = self.names, column.cells
        match column.course:
            case Course.UNKNOWN:
                return "no version knows the module's target and PTX ISA version"
            case Course.ALWAYS | Course.NEVER:
                known = [index for index, cell in cells.items() if cell.known]
                ends = dict.fromkeys((names[known[0]], names[known[-1]]))
                span = " to ".join(ends)
                return f"{column.course.value} ({cells[known[0]].label}), {span}"
            case _:
                changes = [
                    f"{cells[one.before].label} up to {names[one.before]}, "
                    f"{cells[one.after].label} from {names[one.after]} on"
                    for one in column.changes
                ]
                prefix = "not monotonic: " if len(changes) > 1 else ""
                return prefix + ", then ".join(changes)


def _levels(levels: Sequence[int]) -> str:
    return "at " + " and ".join(f"-O{level}" for level in levels)
