"""What goes wrong in the child, as exceptions."""

from __future__ import annotations


class NotReadyError(Exception):
    """There is nothing to run on."""

    def __init__(self, text: str, *, missing: bool, detail: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.missing = missing
        self.detail = detail


class LoadError(Exception):
    """The driver refused a module."""


class LaunchError(Exception):
    """A batch failed."""

    def __init__(self, text: str, *, sticky: bool) -> None:
        super().__init__(text)
        self.text = text
        self.sticky = sticky
