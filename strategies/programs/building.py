"""A program in the making, and what is still asked of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from oracle.forms import Form
from oracle.program import Program
from oracle.steps import Barrier, Step
from strategies.features import Feature, Focus
from strategies.programs.choices import Choices, Dice
from strategies.programs.forms import Palette
from strategies.programs.memory import Memory
from strategies.programs.scopes import Scope


class Builder:
    """Grows one program.

    Parameters
    ----------
    choices
        Where decisions come from.
    palette
        The forms that may be used.
    focus
        What is asked for. Whoever makes a choice looks here first, and ticks off what it did.
    """

    def __init__(self, choices: Choices, palette: Palette, focus: Focus) -> None:
        self.choices = choices
        self.palette = palette
        self.memory = Memory()
        self.scope = Scope()
        self.form: Form | None = focus.form
        """The form that is asked for, until it is there."""
        self.wanted = set(focus.features)
        """Features that are asked for, until they are there."""
        self.asked = focus.features
        """All features that were asked for."""
        self.line_bytes = focus.line_bytes
        """As in `Focus`."""
        self.plain_spaces = True
        """Whether matrices lie in global memory unless something else is asked for."""
        self.lanes: int | None = None
        """Lanes that store where not all do, once that is chosen."""
        self._names: dict[str, int] = {}

    def dice(self) -> Dice:
        """Draw the digits of a group of decisions."""
        return self.choices.dice()

    def take(self, feature: Feature) -> bool:
        """Tell whether a feature is still asked for, and tick it off."""
        if feature in self.wanted:
            self.wanted.discard(feature)
            return True
        return False

    def wants(self, features: Iterable[Feature]) -> bool:
        """Tell whether one of some features is still asked for."""
        return not self.wanted.isdisjoint(features)

    def add(self, step: Step) -> None:
        """Append a step."""
        self.scope.steps.append(step)

    def name(self, hint: str) -> str:
        """Return a name that no fragment has yet: the hint, and a number from the second on."""
        number = self._names.get(hint, 0)
        self._names[hint] = number + 1
        return hint + (str(number) if number else "")

    @contextmanager
    def within(self, scope: Scope) -> Iterator[None]:
        """Append to another scope for a while."""
        outer, self.scope = self.scope, scope
        try:
            yield
        finally:
            self.scope = outer

    def finish(self) -> Program:
        """Return the program: shared buffers filled first, and brought back at the end."""
        shared = [arena for arena in self.memory.arenas if arena.shared]
        steps: list[Step] = [arena.fill() for arena in shared]
        if shared:
            steps.append(Barrier())
        steps += self.scope.steps
        back = [arena.empty() for arena in shared if arena.written]
        if back:
            steps += [Barrier(), *back]
        return Program(
            buffers=tuple(b for arena in self.memory.arenas for b in arena.buffers()),
            steps=tuple(steps),
        )
