"""A place in PTX text: what stands there, and in which line."""

import re
from dataclasses import dataclass
from typing import NoReturn

from runners.simulated.literals import BadConstant, integer
from runners.simulated.traps import TrapKind, refuse

IDENTIFIER = r"[a-zA-Z_$%][\w$]*"
"""Pattern of a name (PTX ISA 4.4)."""
NAME = re.compile(IDENTIFIER)
DIRECTIVE = re.compile(r"\.[a-zA-Z_]\w*")
_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?(?:\*/|\Z)|^[ \t]*#[^\n]*', re.S | re.M)
_SPACE = re.compile(r"\s*")
_ANYTHING = re.compile(r"[\w$%.]+|.", re.S)


def _blank(match: re.Match[str]) -> str:
    text = match[0]
    if text.startswith('"'):
        return text
    return "\n" * text.count("\n") or " "


def without_comments(text: str) -> str:
    """Return PTX with comments and lines of a preprocessor blanked, and lines as they were."""
    return _COMMENT.sub(_blank, text)


@dataclass(eq=False)
class Reader:
    """A place in the text."""

    text: str
    place: int = 0
    line: int = 1
    """Of `counted`."""
    counted: int = 0

    def skip(self) -> None:
        """Go on to what is not blank."""
        match = _SPACE.match(self.text, self.place)
        if match is not None:
            self.place = match.end()

    def here(self) -> int:
        """Return the line of the place."""
        self.line += self.text.count("\n", self.counted, self.place)
        self.counted = self.place
        return self.line

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Go behind a match at the place, and behind the blanks that follow it."""
        match = pattern.match(self.text, self.place)
        if match is not None:
            self.place = match.end()
            self.skip()
        return match

    def accept(self, token: str) -> bool:
        """Go behind a token, if it stands here."""
        if not self.text.startswith(token, self.place):
            return False
        self.place += len(token)
        self.skip()
        return True

    def expect(self, token: str) -> None:
        """Go behind a token, or refuse."""
        if not self.accept(token):
            self.unexpected()

    def need(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Go behind a match, or refuse."""
        return self.take(pattern) or self.unexpected()

    def unexpected(self) -> NoReturn:
        """Refuse what stands here."""
        if self.place >= len(self.text):
            self.refuse("the text ends in the middle of something")
        found = _ANYTHING.match(self.text, self.place)
        self.refuse(f"unexpected {found[0][:40] if found else ''!r}")

    def refuse(self, message: str, kind: TrapKind = TrapKind.PARSE) -> NoReturn:
        """Refuse the module at this line."""
        refuse(kind, self.here(), message)

    def integer(self, text: str) -> int:
        """Return the value of a constant."""
        try:
            return integer(text.strip())
        except BadConstant as error:
            self.refuse(str(error), error.kind)
