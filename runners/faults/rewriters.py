"""What a planted fault is, and ways to break PTX text: what stands between instructions is kept.

This reads any PTX, not only the simulated device's dialect. An edit takes a statement and returns
what stands in its place.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from oracle.errors import UsageError
from oracle.isa.legality import without_comments
from runners.simulated.silicon import Damage

# What is not ended reaches to the end of the text, nothing is tried twice, and operands are far
# shorter than that: a module may come from anybody.
_PART = r"[^;{}:]{0,2000}+"
_INSTRUCTION = re.compile(
    r"(?P<guard>@!?\s{0,99}+[\w%$]++\s{1,99}+)?(?<![\w.%$])"
    r"(?P<opcode>[a-z][a-z0-9]*+(?:\.\w++(?:::\w++)*+)*+)"
    rf"(?P<gap>\s{{1,999}}+)(?P<operands>{_PART}(?:\{{[^{{}};]{{0,2000}}+\}}{_PART}){{0,99}}+);"
)
ENTRY_BODY = re.compile(r"\.entry\b[^{]*\{")


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One instruction in a text."""

    start: int  # of the whole statement, with guard and semicolon
    end: int
    guard: str  # with the space behind it; empty if there is none
    opcode: str
    operands: tuple[str, ...]

    @property
    def text(self) -> str:
        """The statement on one line."""
        return f"{self.guard}{self.opcode} {', '.join(self.operands)};"

    def put(self, *operands: str, opcode: str = "") -> str:
        """Return the text with other operands, or another opcode."""
        operands = operands or self.operands
        return replace(self, opcode=opcode or self.opcode, operands=operands).text

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

    Of those whose opcode a `pattern` finds, if there is one.
    """
    for match in _INSTRUCTION.finditer(without_comments(ptx)):
        if pattern is None or pattern.search(match["opcode"]):
            yield Statement(
                start=match.start(), end=match.end(), guard=match["guard"] or "",
                opcode=match["opcode"], operands=_split(match["operands"]),
            )  # fmt: skip


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


Rewriter = Callable[[str], str]
# Registers that rewriters add are called so; no other text uses the prefix.
_SCRATCH = (
    ".reg .b32 %planted<8>; .reg .b64 %planted_wide<4>; .reg .f64 %planted_double; "
    ".reg .pred %planted_true<2>;"
)


def rewriter(pattern: str, edit: Edit) -> Rewriter:
    """Return what applies an edit to every statement whose opcode a pattern finds."""
    compiled = re.compile(pattern)

    def rewrite(ptx: str) -> str:
        text = edited(ptx, compiled, edit)
        # Another fault may have declared them; each uses them up within its own statement.
        if "%planted" not in text or _SCRATCH in ptx:
            return text
        return ENTRY_BODY.sub(lambda match: f"{match[0]}\n    {_SCRATCH}", text)

    return rewrite


def _by_entry(rewrite: Rewriter, ptx: str) -> str:
    """Rewrite one entry at a time: registers of others are others."""
    starts = [match.start() for match in ENTRY_BODY.finditer(ptx)] or [0]
    spans = zip(starts, [*starts[1:], len(ptx)], strict=True)
    return "".join([ptx[: starts[0]], *(rewrite(ptx[start:end]) for start, end in spans)])


class FaultPlace(StrEnum):
    """Where a fault sits."""

    PTX = "ptx"
    """In the text, as a compiler or a pass would break it: works on every runner."""
    DEVICE = "device"
    """Inside the simulated device."""


_MNEMONIC = re.compile(
    r"wgmma\\\.mma_async|wmma\\\.(?:\(\?:mma\|load\)|load\\\.[abc]|load|mma|store)|mma\\\.sync|(?:ld|st|mov)matrix"
)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One planted fault: exactly one of `rewriter` and `damage` is given.

    `meaning` is one line: what happens. `opcodes` says which instructions it touches, searched in
    the opcode. `guilty` are words for what is wrong, of which the line of a finding has to have
    one: mnemonics with the matrix that is loaded, or the steps that make what it touches; given
    where the opcodes do not tell. A `rare` one shows in so few images on so few multiprocessors
    that screening has to look for it.
    """

    name: str
    meaning: str
    opcodes: re.Pattern[str]
    guilty: tuple[str, ...] = ()
    rewriter: Rewriter | None = None
    damage: Damage | None = None
    rare: bool = False

    @property
    def place(self) -> FaultPlace:
        """Where it sits."""
        return FaultPlace.DEVICE if self.rewriter is None else FaultPlace.PTX

    def rewrite(self, ptx: str) -> str:
        """Return the text as the fault leaves it; unchanged if it is not in the text.

        Text with instructions that no assembler takes, which lack operands say, may stay as it is.
        """
        try:
            return ptx if self.rewriter is None else self.rewriter(ptx)
        except (LookupError, ValueError):
            return ptx

    def applies(self, ptx: str) -> bool:
        """Return whether a module holds something that the fault touches.

        A fault that applies need not change a result: that may take operands that reveal it.
        """
        if self.rewriter is not None:
            return self.rewrite(ptx) != ptx
        return any(True for _ in statements(ptx, self.opcodes))


def planted(name: str, pattern: str, meaning: str, **more: Any) -> Fault:
    """Return a fault; the instruction with which its pattern begins is guilty, if nothing is said.

    Raises `UsageError` if neither tells.
    """
    if "guilty" not in more:
        found = _MNEMONIC.search(pattern)
        if found is None:
            raise UsageError(f"fault {name} needs to say which instructions are guilty")
        more["guilty"] = (found[0].replace("\\", "").replace("(?:mma|load)", "mma"),)
    return Fault(name=name, meaning=meaning, opcodes=re.compile(pattern), **more)


def whole(name: str, pattern: str, rewrite: Rewriter, meaning: str, **more: Any) -> Fault:
    """Return a fault that rewrites each entry, where edits of single statements do not do."""
    return planted(name, pattern, meaning, rewriter=lambda ptx: _by_entry(rewrite, ptx), **more)


def text(name: str, pattern: str, edit: Edit, meaning: str, **more: Any) -> Fault:
    """Return a fault that edits every statement whose opcode a pattern finds."""
    return planted(name, pattern, meaning, rewriter=rewriter(pattern, edit), **more)


# Sizes of matrices, default strides and words: PTX ISA 9.7.14.4.2 (Matrix Storage for WMMA).
_BITS = {"f64": 64, "f32": 32, "s32": 32, "tf32": 32, "f16": 16, "bf16": 16}
_BITS |= {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}


def access_of(opcode: str) -> tuple[int, int]:
    """Return the bits of an element that a wmma.load or wmma.store moves, and its default stride.

    Raises ValueError or KeyError for an opcode without a shape or a type.
    """
    words = opcode.split(".")
    shape = re.search(r"m(\d+)n(\d+)k(\d+)", opcode)
    m, n, k = map(int, shape.groups() if shape else ())
    rows, columns = {"a": (m, k), "b": (k, n)}.get(words[2], (m, n))
    return _BITS[words[-1]], columns if "row" in words else rows


def opcode_changed(old: str, new: str | Callable[[re.Match[str]], str]) -> Edit:
    """Replace parts of the opcode, found by a pattern."""
    return lambda statement: statement.put(opcode=re.sub(old, new, statement.opcode))


def operands_exchanged(first: int, second: int) -> Edit:
    """Exchange two operands."""

    def edit(statement: Statement) -> str:
        operands = list(statement.operands)
        operands[first], operands[second] = operands[second], operands[first]
        return statement.put(*operands)

    return edit


def negation_lost(statement: Statement) -> str | None:
    """Execute under a predicate what is to be executed without it."""
    negated = statement.guard.startswith("@!")
    return replace(statement, guard=statement.guard.replace("!", "")).text if negated else None


def negation_widened(ptx: str) -> str:
    """Compare in 32 bits what was negated as s16 right before: minus the least s16 is positive."""
    last: Statement | None = None

    def edit(statement: Statement) -> str | None:
        nonlocal last
        before, last = last, statement
        if before is None or ptx[before.end : statement.start].strip():
            return None
        negated, text, opcode = before.operands[0], "", statement.opcode
        compares = re.fullmatch(r"neg\.s16 setp?\..*\.s16", f"{before.opcode} {opcode}")
        if compares is None or negated not in statement.operands[1:3]:
            return None
        for place in (1, 2):
            operand, wide = statement.operands[place], f"%planted{place}"
            if operand[0] != "%":
                wide = str((int(operand, 0) ^ 0x8000) - 0x8000)
            else:
                text += f"cvt.s32.s16 {wide}, {operand};\n    "
            if operand == negated:
                text += (
                    f"neg.s32 {wide}, {wide};\n    shl.b32 {wide}, {wide}, 16;\n    "
                    f"shr.s32 {wide}, {wide}, 16;\n    neg.s32 {wide}, {wide};\n    "
                )
            statement = statement.with_operand(place, wide)
        return text + statement.put(opcode=f"{opcode.removesuffix('s16')}s32")

    return rewriter("", edit)(ptx)


_SUM_OF_HALVES = re.compile(
    r"(mov\.b32 (%\w+), \w+;\s*)add\.[su]16x2 (%\w+), (?:(%\w+), \2|\2, (%\w+));"
    r"(\s*mov\.b32 \{(%\w+), (%\w+)\}, \3;)"
)


def half_of_sum_lost(ptx: str) -> str:
    """Add nothing where a constant is added to pairs of which one half is not read afterwards."""

    def edit(match: re.Match[str]) -> str:
        read = [len(re.findall(rf"{match[half]}\b", ptx)) for half in (7, 8)]
        if min(read) > 1:
            return match[0]
        return f"{match[1]}mov.b32 {match[3]}, {match[4] or match[5]};{match[6]}"

    return _SUM_OF_HALVES.sub(edit, ptx)


def turn_lost(ptx: str) -> str:
    """End loops that count up in a register of each lane one turn earlier in lane 5."""
    counters = re.findall(r"add\.s32 (%\w+), \1, 1;", ptx)

    def edit(statement: Statement) -> str | None:
        predicate, counter, count = statement.operands
        if counter not in counters:
            return None
        return (
            "mov.u32 %planted0, %laneid;\n    setp.eq.u32 %planted_true0, %planted0, 5;\n    "
            "selp.b32 %planted0, 1, 0, %planted_true0;\n    "
            f"add.s32 %planted0, %planted0, {counter};\n    "
            + statement.put(predicate, "%planted0", count)
        )

    return rewriter(r"^setp\.ge\.u32$", edit)(ptx)


def layout_flipped(index: int = 0) -> Edit:
    """Turn a layout qualifier round, this one from the left."""

    def edit(statement: Statement) -> str:
        words = statement.opcode.split(".")
        place = [i for i, word in enumerate(words) if word in ("row", "col")][index]
        words[place] = {"row": "col", "col": "row"}[words[place]]
        return statement.put(opcode=".".join(words))

    return edit


def _stride_operand(statement: Statement) -> str:
    given = statement.operands[2:]
    return given[0] if given else str(access_of(statement.opcode)[1])


def stride_moved(sign: int) -> Edit:
    """Make the stride longer or shorter by as little as the hardware takes.

    That is what fills whole 32-bit words, or one element: it runs odd strides of 16-bit elements.
    """

    def edit(statement: Statement) -> str:
        bits, _ = access_of(statement.opcode)
        nudge = sign * (1 if bits >= 16 else 32 // bits)
        stride, operands = _stride_operand(statement), statement.operands[:2]
        if stride.isdigit():
            return statement.put(*operands, str(int(stride) + nudge))
        moved = statement.put(*operands, "%planted0")
        return f"add.s32 %planted0, {stride}, {nudge};\n    {moved}"

    return edit


_GOLDEN = 0x9E37_79B1
"""A prime near 2^32 over the golden ratio: multiples of it spread over all words (Knuth, The Art
of Computer Programming 3, 6.4)."""


def bit_flipped_on(sm: int, *, one_in: int, least_slot: int = 0) -> Edit:
    """Flip the lowest bit of the first result register on one multiprocessor (`%smid`).

    Once in so many warps, as its clock decides; only in those whose slot on it (`%warpid`) is
    `least_slot` or a higher one, which are used when it is busy.
    """
    both = "and.pred %planted_true0, %planted_true0, %planted_true1;"
    conditions = [
        "mov.u32 %planted0, %smid;", f"setp.eq.u32 %planted_true0, %planted0, {sm};",
        "mov.u32 %planted1, %clock;", f"mul.lo.u32 %planted1, %planted1, {_GOLDEN};",
        f"setp.lt.u32 %planted_true1, %planted1, {(1 << 32) // one_in};", both,
    ]  # fmt: skip
    if least_slot:
        ask = f"setp.ge.u32 %planted_true1, %planted0, {least_slot};"
        conditions += ["mov.u32 %planted0, %warpid;", ask, both]

    def edit(statement: Statement) -> str:
        register = statement.vector(0)[0]
        bits = "b64" if ".f64" in statement.opcode else "b32"
        flip = f"@%planted_true0 xor.{bits} {register}, {register}, 1;"
        return "\n    ".join([statement.text, *conditions, flip])

    return edit


def stride_dropped(statement: Statement) -> str | None:
    """Leave the stride out, so that the default is used."""
    if statement.operands[2:] in ((), (str(access_of(statement.opcode)[1]),)):
        return None
    return statement.put(*statement.operands[:2])


def _place(address: str) -> tuple[str, str]:
    base, _, offset = address.strip("[] ").partition("+")
    return base.strip(), offset or "0"


def _moved(address: str, distance: int) -> str:
    base, offset = _place(address)
    return f"[{base}+{int(offset, 0) + distance}]"


def address_moved(index: int, distance: int | None = None) -> Edit:
    """Move a bracketed operand by bytes; by itself by the least that the hardware takes."""

    def edit(statement: Statement) -> str:
        step = max(4, access_of(statement.opcode)[0] // 8) if distance is None else distance
        return statement.with_operand(index, _moved(statement.operands[index], step)).text

    return edit


def stored_one_row_off(statement: Statement) -> str:
    """Store one instance of the leading dimension further on."""
    element = access_of(statement.opcode)[0] // 8
    stride, address = _stride_operand(statement), statement.operands[0]
    if stride.isdigit():
        return statement.with_operand(0, _moved(address, int(stride) * element)).text
    base, offset = _place(address)
    return (
        f"mul.wide.u32 %planted_wide0, {stride}, {element};\n    "
        f"add.s64 %planted_wide0, %planted_wide0, {base};\n    "
        + statement.with_operand(0, f"[%planted_wide0+{offset}]").text
    )


def _registers_changed(index: int, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> Edit:
    def edit(statement: Statement) -> str | None:
        given = statement.vector(index)
        return statement.with_vector(index, change(given)).text if len(given) > 1 else None

    return edit


def register_repeated(index: int) -> Edit:
    """Read the first register of a fragment where the second should be read."""
    return _registers_changed(index, lambda given: (given[0], given[0], *given[2:]))


def registers_rotated(index: int) -> Edit:
    """Write the registers of a fragment one place on."""
    return _registers_changed(index, lambda given: (*given[1:], given[0]))


def number_moved(index: int, place: int, bound: int) -> Edit:
    """Take the next number, modulo a bound, in a vector of constants: byte-ids go by scales."""

    def edit(statement: Statement) -> str | None:
        given = [*statement.vector(index)]
        if not given[place].isdigit():
            return None
        step = 2 if place == 0 and "mxf4" in statement.opcode else 1
        given[place] = str((int(given[place]) + step) % bound)
        return statement.with_vector(index, tuple(given)).text

    return edit


def vector_end_repeated(index: int) -> Edit:
    """Store the last but one register of a vector in the last one's place."""
    return _registers_changed(index, lambda given: (*given[:-1], given[-2]))


def multiplicands_exchanged(statement: Statement) -> str | None:
    """Exchange A and B where their fragments have as many registers."""
    d, a, b, c = statement.operands
    alike = len(statement.vector(1)) == len(statement.vector(2))
    return statement.put(d, b, a, c) if alike else None


def accumulator_ignored(statement: Statement) -> str:
    """Read zero where C should be read."""
    count = len(statement.vector(3))
    double = statement.opcode.endswith(".f64")
    register = "%planted_double" if double else "%planted0"
    zero = f"mov.f64 {register}, 0d0000000000000000;" if double else f"mov.b32 {register}, 0;"
    return f"{zero}\n    {statement.with_vector(3, (register,) * count).text}"


def written_before_read(statement: Statement) -> str | None:
    """Write the first half of D before the second half is computed, where D shares registers."""
    d, a, b, c = (statement.vector(index) for index in range(4))
    half = len(d) // 2
    early = set(d[:half])
    # Each register of D needs its own of C, and all of A and B.
    others = {*a, *b, *c[min(half, len(c)) :]} if len(c) == len(d) else {*a, *b, *c}
    if early.isdisjoint(others):
        return None
    double = ".f64" in statement.opcode
    made = tuple(f"%planted{'_wide' if double else ''}{index}" for index in range(len(d)))
    computed = statement.with_vector(0, made).text
    bits = 64 if double else 32
    moves = [f"mov.b{bits} {to}, {name};" for to, name in zip(d, made, strict=True)]
    return "\n    ".join([computed, *moves[:half], computed, *moves[half:]])


def _same_accumulators(statement: Statement) -> bool:
    words = statement.opcode.removesuffix(".satfinite").split(".")
    types = [word for word in words if word in ("f16", "f32", "s32", "f64")]
    return types[0] == types[-1]


def multiplication_lost(statement: Statement) -> str | None:
    """Copy C to D, and do nothing else."""
    if not _same_accumulators(statement):
        return None
    kind = "f64" if statement.opcode.endswith(".f64") else "b32"
    pairs = zip(statement.vector(0), statement.vector(3), strict=True)
    return "\n    ".join(f"mov.{kind} {d}, {c};" for d, c in pairs if d != c)


def multiplication_doubled(statement: Statement) -> str | None:
    """Add the product twice."""
    if not _same_accumulators(statement):
        return None
    return f"{statement.text}\n    {statement.with_operand(3, statement.operands[0]).text}"


def lanes_exchanged(statement: Statement) -> str:
    """Give each lane the address of its neighbour (lanes 2 i and 2 i + 1 exchange theirs)."""
    base, offset = _place(statement.operands[1])
    exchange = "shfl.sync.bfly.b32 %planted{}, {}, 1, 0x1f, 0xffffffff;\n    "
    if re.match(r"%r\d", base):  # an address in shared memory may have 32 bits
        return exchange.format(0, base) + statement.with_operand(1, f"[%planted0+{offset}]").text
    return (
        f"mov.b64 {{%planted0, %planted1}}, {base};\n    "
        + exchange.format(2, "%planted0")
        + exchange.format(3, "%planted1")
        + "mov.b64 %planted_wide0, {%planted2, %planted3};\n    "
        + statement.with_operand(1, f"[%planted_wide0+{offset}]").text
    )


def first_register_missed(statement: Statement) -> str | None:
    """Leave an element-wise operation out for the first register of its fragment."""
    target, origin = statement.operands[:2]
    if not target.endswith("0") or target[-2:-1].isdigit() or target == "%r0":
        return None  # %r0 is of no fragment: the count of a loop is masked in it
    words = statement.opcode.split(".")
    bits = "b64" if words[-1].endswith("64") else "b32"
    return f"{statement.guard}mov.{bits} {target}, {origin};" if target != origin else " "


def second_load_reads_first(ptx: str) -> str:
    """Load B from where A was loaded: a base register that was not reloaded."""
    first = next(statements(ptx, re.compile(r"^wmma\.load\.a")), None)
    if first is None:
        return ptx
    address = first.operands[1]
    return rewriter(r"^wmma\.load\.b", lambda load: load.with_operand(1, address).text)(ptx)


def branch_inverted(ptx: str) -> str:
    """Turn round every branch on a register that was last compared with zero for equality."""
    compared: dict[str, bool] = {}

    def edit(statement: Statement) -> str | None:
        name, opcode = statement.guard.strip("@! "), statement.opcode
        if opcode.startswith("setp."):
            zero = opcode == "setp.eq.u32" and statement.operands[-1] == "0"
            compared[statement.operands[0]] = zero
        elif compared.get(name):
            guard = f"@{name} " if statement.guard.startswith("@!") else f"@!{name} "
            return replace(statement, guard=guard).text
        return None

    return rewriter(r"^(?:setp\.|bra)", edit)(ptx)


def loop_one_short(ptx: str) -> str:
    """End every loop that counts down to zero one turn early."""
    counters = re.findall(r"sub\.u32 (%\w+), \1, 1;", ptx)
    turned = {"setp.eq.u32": "setp.le.u32", "setp.ne.u32": "setp.gt.u32"}

    def edit(statement: Statement) -> str | None:
        if statement.operands[1] not in counters or statement.operands[2] != "0":
            return None
        return statement.put(*statement.operands[:2], "1", opcode=turned[statement.opcode])

    return rewriter(r"^setp\.(?:eq|ne)\.u32$", edit)(ptx)
