"""The state of a program while it is drawn, the features still wanted, and its random decisions.

A draw costs more than what is decided by it, so that decisions which belong together (all about
one access, all about one multiplication) are the digits of one integer. Every digit 0 stands for
the plainest choice: an integer that shrinks to 0 makes everything about its access plain at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from hypothesis.internal.conjecture.data import ConjectureData

from oracle.forms import Form
from oracle.operands import Held
from oracle.program import Program
from oracle.steps import Barrier, Step
from oracle.targets import Module
from strategies.features import Feature, Focus
from strategies.programs.forms import Palette
from strategies.programs.live_values import LiveValue, Scope
from strategies.programs.memory import Memory

T = TypeVar("T")

_DIGITS = (1 << 60) - 1
"""Most that an integer of digits is: more than the product of the radices of any group, by so much
that digits are uniform."""
_WIDE_DIGITS = (1 << 384) - 1
"""As `_DIGITS`, for a scalar instruction with its constants."""


class Dice:
    """The digits of one drawn integer, each in a base of its own."""

    def __init__(self, value: int) -> None:
        self._rest = value

    def below(self, bound: int) -> int:
        """Return a digit from 0 to `bound`, exclusive."""
        self._rest, digit = divmod(self._rest, bound)
        return digit

    def one_of(self, items: Sequence[T]) -> T:
        """Return an item; the first is the plainest."""
        return items[self.below(len(items))]

    def once_in(self, times: int) -> bool:
        """Return True once in so many times; False is the plainest."""
        return self.below(times) == times - 1


def drawn_dice(data: ConjectureData) -> Dice:
    """Draw the digits of a group of decisions."""
    return Dice(data.draw_integer(0, _DIGITS))


class Builder:
    """Grows one program.

    Parameters
    ----------
    data
        Where decisions come from: integers are drawn without a strategy, a seventh of the time.
    palette
        The forms that may be used.
    everything
        All forms that there are.
    module
        The target and the PTX ISA version.
    focus
        What is asked for. Whoever makes a choice looks here first, and ticks off what it did.
    """

    def __init__(
        self,
        data: ConjectureData,
        palette: Palette,
        everything: Palette,
        focus: Focus,
        module: Module,
    ) -> None:
        self._data = data
        self.module = module
        self.palette = palette
        self.everything = everything
        self.focus = focus
        self.memory = Memory()
        self.scope = Scope()
        self.form: Form | None = focus.form
        """The form that is asked for, until it is there."""
        self.wanted = set(focus.features)
        """Features that are asked for, until they are there."""
        self.asked = focus.features
        """All features that were asked for."""
        self.plain_spaces = True
        """Whether matrices lie in global memory unless something else is asked for."""
        self.lanes: int | None = None
        """Lanes that store where not all do, once that is chosen."""
        self._names: dict[str, int] = {}

    def dice(self) -> Dice:
        """Draw the digits of a group of decisions."""
        return drawn_dice(self._data)

    def wide_dice(self) -> Dice:
        """Draw the digits of a group of decisions that holds numbers of up to 64 bits."""
        return Dice(self._data.draw_integer(0, _WIDE_DIGITS))

    def take(self, *features: Feature) -> bool:
        """Tell whether one of some features is still asked for, and tick them off."""
        found = not self.wanted.isdisjoint(features)
        self.wanted.difference_update(features)
        return found

    def wants(self, features: Iterable[Feature]) -> bool:
        """Tell whether one of some features is still asked for."""
        return not self.wanted.isdisjoint(features)

    def add(self, step: Step) -> None:
        """Append a step; a form that was asked for is there with it."""
        self.scope.steps.append(step)
        if self.form is not None and getattr(step, "form", None) == self.form:
            self.form = None

    def define(self, name: str, holds: Held, **known: Any) -> LiveValue:
        """Note that a step has written registers; what they held is gone."""
        value = LiveValue(name=name, holds=holds, **{"depth": self.scope.depth, **known})
        self.scope.values[name] = value
        return value

    def name(self, hint: str) -> str:
        """Return a name that no value has yet: the hint, and a number from the second on."""
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
