"""Instructions found and replaced in PTX text, with all that stands between them left alone.

This reads any PTX, not only the simulated device's dialect: what it does not understand it keeps.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

# What is not ended reaches to the end of the text, nothing is tried twice, and operands are far
# shorter than that: a module may come from anybody.
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_PART = r"[^;{}:]{0,2000}+"
_INSTRUCTION = re.compile(
    r"(?P<guard>@!?\s{0,99}+[\w%$]++\s{1,99}+)?(?<![\w.%$])"
    r"(?P<opcode>[a-z][a-z0-9]*+(?:\.\w++(?:::\w++)?+)*+)"
    rf"(?P<gap>\s{{1,999}}+)(?P<operands>{_PART}(?:\{{[^{{}};]{{0,2000}}+\}}{_PART}){{0,99}}+);"
)
_ENTRY_BODY = re.compile(r"\.entry\b[^{]*\{")


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One instruction in a text."""

    start: int
    end: int
    """Span of the whole statement, with guard and semicolon."""
    guard: str
    """With the space behind it; empty if there is none."""
    opcode: str
    operands: tuple[str, ...]

    @property
    def text(self) -> str:
        """The statement on one line."""
        return f"{self.guard}{self.opcode} {', '.join(self.operands)};"

    def with_opcode(self, opcode: str) -> "Statement":
        """Return the statement with another opcode."""
        return replace(self, opcode=opcode)

    def with_operand(self, index: int, operand: str) -> "Statement":
        """Return the statement with one operand replaced."""
        operands = list(self.operands)
        operands[index] = operand
        return replace(self, operands=tuple(operands))

    def vector(self, index: int) -> tuple[str, ...]:
        """Return the registers of an operand, one if it is no vector."""
        inside = self.operands[index].strip().removeprefix("{").removesuffix("}")
        return tuple(part.strip() for part in inside.split(","))

    def with_vector(self, index: int, registers: tuple[str, ...]) -> "Statement":
        """Return the statement with the registers of an operand replaced."""
        return self.with_operand(index, "{" + ", ".join(registers) + "}")


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _split(operands: str) -> tuple[str, ...]:
    parts, depth, current = [], 0, ""
    for character in operands:
        depth += (character in "{[") - (character in "}]")
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return (*parts, current.strip()) if current.strip() else tuple(parts)


def statements(ptx: str, pattern: re.Pattern[str] | None = None) -> Iterator[Statement]:
    """Iterate over the instructions that have operands, in order, comments left out.

    Parameters
    ----------
    pattern
        Is looked for in opcodes: the others are left out.
    """
    for match in _INSTRUCTION.finditer(_COMMENT.sub(_blank, ptx)):
        if pattern is None or pattern.search(match["opcode"]):
            yield Statement(
                start=match.start(),
                end=match.end(),
                guard=match["guard"] or "",
                opcode=match["opcode"],
                operands=_split(match["operands"]),
            )


Edit = Callable[[Statement], str | None]
"""Returns what stands in a statement's place, or None to leave it."""


def edited(ptx: str, pattern: re.Pattern[str], edit: Edit) -> str:
    """Return the text with every statement whose opcode the pattern finds edited."""
    pieces: list[str] = []
    end = 0
    for statement in statements(ptx, pattern):
        text = edit(statement)
        if text is None:
            continue
        pieces += [ptx[end : statement.start], text]
        end = statement.end
    return "".join([*pieces, ptx[end:]])


def declared(ptx: str, declarations: str) -> str:
    """Return the text with declarations at the start of every entry's body."""
    return _ENTRY_BODY.sub(lambda match: f"{match[0]}\n    {declarations}", ptx)


def each_entry(ptx: str, rewrite: Callable[[str], str]) -> str:
    """Return the text with each entry rewritten by itself, as compilers look at one at a time."""
    starts = [match.start() for match in _ENTRY_BODY.finditer(ptx)]
    if not starts:
        return rewrite(ptx)
    ends = [*starts[1:], len(ptx)]
    parts = [rewrite(ptx[start:end]) for start, end in zip(starts, ends, strict=True)]
    return "".join([ptx[: starts[0]], *parts])
