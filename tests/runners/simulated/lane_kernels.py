"""Random kernels of integer code, and what each lane does in them, one number at a time.

A lane has eight words, of the image's first 1 KiB, and leaves them in its second. Lanes go through
branches and loops by themselves, and meet for exchanges, all of them, in the outermost block.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from packing_descriptions import video_cases
from scalar_descriptions import integer_cases, read
from selecting_descriptions import COMBINED, ORDERED
from simulated_kernels import kernel

WORDS, PREDICATES, LANES = 8, 4, 32
IMAGE_BYTES = 2 * LANES * WORDS * 4
MOST_STATEMENTS = 40
DEEPEST = 3

Describe = Callable[..., int | None]
SIMPLE: dict[str, dict[str, tuple[tuple[int, ...], int, Describe]]] = {}
"""Instructions by their stems: those that are defined for all operands."""
for _line, _case in (integer_cases() | video_cases()).items():
    _stem = re.search(r"addc|subc|\w+", _line.partition("; ")[2] or _line)[0]  # type: ignore[index]
    _open = _stem in ("div", "rem") or (_line[0] == "v" and ("min " in _line or "max " in _line))
    if not _open and (_line[0] != "v" or "%o." not in _line):
        SIMPLE.setdefault("video" if _line[0] == "v" else _stem, {})[_line] = _case
KINDS = ("u16", "s16", "u32", "s32", "u64", "s64")
CONSTANTS = (0, 1, 2, 3, 7, 8, 24, 31, 32, 33, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


@dataclass
class Lane:
    """What a lane holds."""

    given: list[int]
    words: list[int] = field(default_factory=list)
    holds: list[bool] = field(default_factory=lambda: [False] * PREDICATES)

    def value(self, place: int, bits: int) -> int:
        """Return an operand: a constant from 2^32 on, else a word and, with 64 bits, the next."""
        if place >= WORDS:
            return (place - WORDS) % (1 << bits)
        pair = self.words[place] | self.words[(place + 1) % WORDS] << 32
        return pair % (1 << bits)

    def put(self, place: int, bits: int, value: int) -> None:
        self.words[place] = value % (1 << min(bits, 32))
        if bits == 64:
            self.words[(place + 1) % WORDS] = value >> 32 & 0xFFFFFFFF


@dataclass
class Text:
    """Lines, and how many labels they have."""

    lines: list[str] = field(default_factory=list)
    labels: int = 0

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def operand(self, place: int, bits: int, name: str, guard: str) -> str:
        """Return an operand as an instruction can take it."""
        if place >= WORDS:
            return hex(place - WORDS)
        if bits == 32:
            return f"%w{place}"
        if bits == 16:
            self.lines.append(f"{guard}cvt.u16.u32 %h{name}, %w{place};")
            return f"%h{name}"
        self.lines.append(f"{guard}mov.b64 %d{name}, {{%w{place}, %w{(place + 1) % WORDS}}};")
        return f"%d{name}"


Guard = tuple[int, bool] | None
"""A predicate, and whether it is negated."""


def holding(lane: Lane, guard: Guard) -> bool:
    return guard is None or lane.holds[guard[0]] != guard[1]


def guarding(guard: Guard) -> str:
    return "" if guard is None else f"@{'!' * guard[1]}%q{guard[0]} "


@dataclass
class Compute:
    line: str
    case: tuple[tuple[int, ...], int, Describe]
    target: int
    places: list[int]
    guard: Guard

    def run(self, lane: Lane) -> None:
        if holding(lane, self.guard):
            widths, bits, describe = self.case
            values = map(lane.value, self.places, widths)
            found = describe(*values)
            assert found is not None, self.line
            lane.put(self.target, bits, found)

    def emit(self, text: Text) -> None:
        widths, bits, _ = self.case
        guard = guarding(self.guard)
        target, after = self.target, (self.target + 1) % WORDS
        names = {"o": {16: "%ho", 32: f"%w{target}", 64: "%do"}[bits]}
        for name, place, width in zip("abcd", self.places, widths, strict=False):
            names[name] = text.operand(place, width, name, guard)
        text.lines.append(guard + re.sub(r"%([abcdo])\b", lambda m: names[m[1]], self.line))
        if bits == 16:
            text.lines.append(f"{guard}cvt.u32.u16 %w{target}, %ho;")
        if bits == 64:
            text.lines.append(f"{guard}mov.b64 {{%w{target}, %w{after}}}, %do;")


@dataclass
class Ask:
    """A comparison into a predicate, combined with another one."""

    name: str
    kind: str
    places: list[int]
    target: int
    how: str
    other: Guard
    guard: Guard

    def run(self, lane: Lane) -> None:
        if holding(lane, self.guard):
            bits = int(self.kind[1:])
            a, b = (read(self.kind, lane.value(place, bits)) for place in self.places)
            found = ORDERED[self.name](a, b)
            if self.other is not None:
                found = COMBINED[self.how](found, holding(lane, self.other))
            lane.holds[self.target] = found

    def emit(self, text: Text) -> None:
        guard, bits = guarding(self.guard), int(self.kind[1:])
        a, b = (text.operand(p, bits, n, guard) for p, n in zip(self.places, "ab", strict=True))
        how = other = ""
        if self.other is not None:
            how, other = f".{self.how}", f", {'!' * self.other[1]}%q{self.other[0]}"
        text.lines.append(
            f"{guard}setp.{self.name}{how}.{self.kind} %q{self.target}, {a}, {b}{other};"
        )


@dataclass
class Choose:
    """One of two words by a predicate."""

    target: int
    places: list[int]
    predicate: int

    def run(self, lane: Lane) -> None:
        place = self.places[not lane.holds[self.predicate]]
        lane.put(self.target, 32, lane.value(place, 32))

    def emit(self, text: Text) -> None:
        a, b = (text.operand(place, 32, "", "") for place in self.places)
        text.lines.append(f"selp.b32 %w{self.target}, {a}, {b}, %q{self.predicate};")


@dataclass
class Fetch:
    """A word that the lane was given, at an address of its own making."""

    target: int
    place: int

    def run(self, lane: Lane) -> None:
        index = abs(read("s32", lane.words[self.place])) & 7
        lane.words[self.target] = lane.given[index]

    def emit(self, text: Text) -> None:
        text.lines += [
            f"abs.s32 %t, %w{self.place};", "and.b32 %t, %t, 7;", "mul.wide.u32 %da, %t, 4;",
            "add.s64 %da, %rd10, %da;", f"ld.global.b32 %w{self.target}, [%da];",
        ]  # fmt: skip


@dataclass
class If:
    guard: Guard
    then: list["Statement"]
    otherwise: list["Statement"]

    def run(self, lane: Lane) -> None:
        run_all(self.then if holding(lane, self.guard) else self.otherwise, lane)

    def emit(self, text: Text) -> None:
        assert self.guard is not None
        otherwise, end = text.label(), text.label()
        text.lines.append(f"{guarding((self.guard[0], not self.guard[1]))}bra {otherwise};")
        emit_all(self.then, text)
        if self.otherwise:
            text.lines.append(f"bra {end};")
        text.lines.append(f"{otherwise}:")
        emit_all(self.otherwise, text)
        text.lines.append(f"{end}:")


@dataclass
class Loop:
    """A body that runs 1 to 4 times: as often as a word says, or a constant."""

    count: int
    body: list["Statement"]
    after: list["Statement"]
    leaving: Guard
    """Leaves between body and after."""
    skipping: Guard
    """Enters between body and after."""
    depth: int

    def run(self, lane: Lane) -> None:
        rounds = (lane.value(self.count, 32) & 3) + 1
        skips = self.skipping is not None and holding(lane, self.skipping)
        for turn in range(rounds):
            if turn or not skips:
                run_all(self.body, lane)
            if self.leaving is not None and holding(lane, self.leaving):
                return
            run_all(self.after, lane)

    def emit(self, text: Text) -> None:
        head, middle, end = text.label(), text.label(), text.label()
        counter = f"%n{self.depth}"
        text.lines.append(f"and.b32 {counter}, {text.operand(self.count, 32, '', '')}, 3;")
        if self.skipping is not None:
            text.lines.append(f"{guarding(self.skipping)}bra {middle};")
        text.lines.append(f"{head}:")
        emit_all(self.body, text)
        text.lines.append(f"{middle}:")
        if self.leaving is not None:
            text.lines.append(f"{guarding(self.leaving)}bra {end};")
        emit_all(self.after, text)
        text.lines += [
            f"setp.eq.u32 %p9, {counter}, 0;", f"sub.u32 {counter}, {counter}, 1;",
            f"@!%p9 bra {head};", f"{end}:",
        ]  # fmt: skip


@dataclass
class Exchange:
    """A word of another lane, or who all hold a predicate: for all lanes at once."""

    target: int
    place: int
    by: int
    """32 is for a ballot."""

    def run_warp(self, lanes: Sequence[Lane]) -> None:
        if self.by == 32:
            held = sum(lane.holds[self.place % PREDICATES] << i for i, lane in enumerate(lanes))
            found = [held] * LANES
        else:
            found = [lanes[i ^ self.by].words[self.place] for i in range(LANES)]
        for lane, value in zip(lanes, found, strict=True):
            lane.words[self.target] = value

    def emit(self, text: Text) -> None:
        text.lines.append(
            f"vote.sync.ballot.b32 %w{self.target}, %q{self.place % PREDICATES}, -1;"
            if self.by == 32
            else f"shfl.sync.bfly.b32 %w{self.target}, %w{self.place}, {self.by}, 31, -1;"
        )


Statement = Compute | Ask | Choose | Fetch | If | Loop


def run_all(statements: Sequence[Statement], lane: Lane) -> None:
    for statement in statements:
        statement.run(lane)


def emit_all(statements: Sequence[Statement | Exchange], text: Text) -> None:
    for statement in statements:
        statement.emit(text)


class Drawing:
    def __init__(self, seed: int | str) -> None:
        self.random = random.Random(seed)
        self.left = self.random.randint(8, MOST_STATEMENTS)

    def guard(self, chance: float) -> Guard:
        if self.random.random() >= chance:
            return None
        return self.random.randrange(PREDICATES), self.random.random() < 0.5

    def place(self, constants: bool) -> int:
        if constants and self.random.random() < 0.2:
            return WORDS + self.random.choice([*CONSTANTS, self.random.getrandbits(32)])
        return self.random.randrange(WORDS)

    def compute(self) -> Compute:
        lines = SIMPLE[self.random.choice(sorted(SIMPLE))]
        line = self.random.choice(sorted(lines))
        widths = lines[line][0]
        # Assemblers refuse constants that are no places of fields.
        free = not line.startswith(("v", "{", "bfe", "bfi."))
        places = [self.place(bits == 32 and free and i > 0)
                  for i, bits in enumerate(widths)]  # fmt: skip
        guard = self.guard(0.25) if line[0] != "{" else None
        return Compute(line, lines[line], self.random.randrange(WORDS), places, guard)

    def ask(self, guard: Guard = None) -> Ask:
        kind = self.random.choice(KINDS)
        places = [self.place(False), self.place(kind[1:] == "32")]
        return Ask(
            self.random.choice(sorted(ORDERED)), kind, places, self.random.randrange(PREDICATES),
            self.random.choice(sorted(COMBINED)), self.guard(0.4), guard,
        )  # fmt: skip

    def block(self, depth: int, most: int) -> list[Statement]:
        found: list[Statement] = []
        for _ in range(self.random.randint(1, most)):
            self.left -= 1
            way = self.random.random() if self.left > 0 else 0.0
            if way < 0.6:
                found.append(self.compute())
            elif way < 0.72:
                found.append(self.ask(self.guard(0.2)))
            elif way < 0.77:
                places = [self.place(True), self.place(True)]
                found.append(
                    Choose(self.random.randrange(WORDS), places, self.random.randrange(PREDICATES))
                )
            elif way < 0.8:
                found.append(Fetch(self.random.randrange(WORDS), self.random.randrange(WORDS)))
            elif depth == DEEPEST:
                found.append(self.compute())
            elif way < 0.92:
                found.append(self.ask())
                guard = (found[-1].target, self.random.random() < 0.5)  # type: ignore[union-attr]
                then = self.block(depth + 1, 5)
                found.append(If(guard, then, self.block(depth + 1, 4) if way < 0.88 else []))
            else:
                body, after = self.block(depth + 1, 4), self.block(depth + 1, 3)
                loop = Loop(self.place(True), body, after, self.guard(0.3), self.guard(0.2), depth)
                found.append(loop)
        return found


@dataclass
class LaneProgram:
    statements: list[Statement | Exchange]

    @property
    def ptx(self) -> str:
        text = Text()
        text.lines += ["mul.wide.u32 %rd10, %r7, 32;", "add.s64 %rd10, %rd2, %rd10;"]
        for half in (0, 4):
            words = ", ".join(f"%w{half + i}" for i in range(4))
            text.lines.append(f"ld.global.v4.b32 {{{words}}}, [%rd10+{4 * half}];")
        text.lines += [f"setp.ne.u32 %q{i}, %w{i}, %w{i};" for i in range(PREDICATES)]
        emit_all(self.statements, text)
        text.lines += [f"st.global.b32 [%rd10+{1024 + 4 * i}], %w{i};" for i in range(WORDS)]
        registers = (
            f"    .reg .b32 %w<{WORDS}>, %n<{DEEPEST + 1}>, %t; .reg .pred %q<{PREDICATES}>;\n"
            "    .reg .b16 %ha, %hb, %hc, %ho; .reg .b64 %da, %db, %dc, %do;"
        )
        body = "\n".join(f"    {line}" for line in text.lines)
        return kernel(body, image_bytes=IMAGE_BYTES, registers=registers)

    def run(self, given: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the words that the lanes of a warp end with, by those that they begin with."""
        lanes = [Lane(list(words), list(words)) for words in given]
        for statement in self.statements:
            if isinstance(statement, Exchange):
                statement.run_warp(lanes)
            else:
                for lane in lanes:
                    statement.run(lane)
        return [lane.words for lane in lanes]


def lane_program(seed: int | str) -> LaneProgram:
    """Return the program of a seed."""
    drawing = Drawing(seed)
    statements: list[Statement | Exchange] = []
    while drawing.left > 0:
        statements += drawing.block(0, 6)
        if drawing.random.random() < 0.5:
            target, place = drawing.random.randrange(WORDS), drawing.random.randrange(WORDS)
            statements.append(Exchange(target, place, drawing.random.choice([1, 2, 4, 8, 16, 32])))
    return LaneProgram(statements)


def lane_contents(seed: int | str, warps: int) -> list[list[list[int]]]:
    """Return the words of the lanes of so many warps: few values in some, all in others."""
    draw = random.Random(f"contents {seed}")

    def word(way: int) -> int:
        if way == 0:
            return draw.getrandbits(32)
        if way == 1:
            return draw.randrange(8)
        return draw.choice(CONSTANTS) ^ (draw.random() < 0.2) * draw.getrandbits(32)

    return [[[word((warp + i) % 3) for i in range(WORDS)] for _ in range(LANES)]
            for warp in range(warps)]  # fmt: skip
