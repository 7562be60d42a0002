"""Ways to break PTX text with multiplications of warpgroups (PTX ISA 9.7.15)."""

import re

from oracle.isa.legality import without_comments
from runners.faults.rewriters import ENTRY_BODY, Edit, Rewriter, Statement, edited


def left_out(instruction: str, *, but_last: bool = False) -> Rewriter:
    """Leave an instruction out of which the operand is a number or none; perhaps not the last."""
    pattern = re.compile(rf"(?<![\w.%$]){re.escape(instruction)}[\w.:]*[ \d]*;")

    def rewrite(ptx: str) -> str:
        found = [match.span() for match in pattern.finditer(without_comments(ptx))]
        for start, end in reversed(found[: len(found) - but_last]):
            ptx = ptx[:start] + ptx[end:]
        return ptx

    return rewrite


def waits_less(statement: Statement) -> str:
    """Leave one more group pending."""
    return statement.put(str(int(statement.operands[0]) + 1))


def bulk_shorter(statement: Statement) -> str:
    """Copy 16 bytes less in bulk, or expect them to come."""
    return statement.with_operand(2, str(int(statement.operands[2]) - 16)).text


def bulk_wait_lost(statement: Statement) -> str:
    """Find a phase complete at once."""
    return f"setp.eq.u32 {statement.operands[0]}, 0, 0;"


def descriptor_changed(operation: str, number: int) -> Edit:
    """Change the matrix descriptor of B."""

    def edit(statement: Statement) -> str:
        made = f"{operation} %planted_wide0, {statement.operands[2]}, {number:#x};\n    "
        return made + statement.with_operand(2, "%planted_wide0").text

    return edit


def _of_scale_d(statement: Statement) -> int:
    """Return the place of scale-d: behind the descriptors, and metadata and selector."""
    return 5 if ".sp." in statement.opcode else 3


def scale_d_lost(statement: Statement) -> str | None:
    """Add D, whatever scale-d says."""
    place = _of_scale_d(statement)
    return None if statement.operands[place] == "1" else statement.with_operand(place, "1").text


def scale_d_late(ptx: str) -> str:
    """Take each predicate for scale-d as it was when its multiplication began the time before."""
    words: list[str] = []

    def late(statement: Statement) -> str | None:
        place = _of_scale_d(statement)
        asked = statement.operands[place]
        if not asked.startswith("%"):
            return None
        word = f"%planted_word{len(words)}"
        words.append(f".reg .b32 {word}; mov.u32 {word}, 0;")
        begun = statement.with_operand(place, "%planted_late").text
        return f"setp.ne.u32 %planted_late, {word}, 0; {begun} selp.u32 {word}, 1, 0, {asked};"

    text = edited(ptx, re.compile(r"^wgmma\.mma_async"), late)
    first = " ".join(["", ".reg .pred %planted_late;", *words])
    return ENTRY_BODY.sub(lambda match: match[0] + first, text) if words else ptx


def scales_lost(statement: Statement) -> str | None:
    """Take A and B as they are, whatever imm-scale says."""
    first = _of_scale_d(statement) + 1
    scales = tuple("1" for one in statement.operands[first : first + 2])
    found = (*statement.operands[:first], *scales, *statement.operands[first + 2 :])
    return None if found == statement.operands else statement.put(*found)
