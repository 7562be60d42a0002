"""Makes the text of a PTX module smaller while it still shows what it shows.

Runs of statements go first (delta debugging, Zeller and Hildebrandt 2002), then passes that know
the language make what is left simpler (C-Reduce, Regehr and others 2012).
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate, chain, groupby, islice, takewhile

from corpus import ShrinkStatus
from oracle.errors import UsageError
from oracle.isa.legality import Verdict, explain
from runners.ptx_text import KernelLine, header

Piece = tuple[str, bool]
"""A statement, label or head of a module, in one line, and whether it may go alone."""

_COMMENT = re.compile(r'("[^"\n]*")|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_SECTION = re.compile(r"^\s*\.section\s+[\w.]+\s*\{[^}]*\}", re.MULTILINE)
_FOR_DEBUGGERS = re.compile(r"\.(?:loc|file|section)\b")
_PIECE = re.compile(
    r"\s*(?:(?P<kept>\.(?:version|target|address_size)\b[^\n]*"
    r"|(?:\.(?:visible|weak|extern)\s+)*\.(?:entry|func)\b[^{;]*|[{}])"
    r"|(?P<part>\.(?:loc|file|section)\b[^\n]*|[A-Za-z_$%][\w$]*\s*:(?!:)|[^;{}]*"
    r"(?:\{[^;{}]*\}[^;{}]*)*;))"
)
_FUNCTION = re.compile(r"(?:\.\w+ )*\.(?:entry|func)\b")
_ENTRY = re.compile(r"(\.entry [\w$%]+ ?\()([^)]*)\)")
_INSTRUCTION = re.compile(
    r"(?P<guard>@!?[\w$%]+\s+)?(?P<opcode>[a-z][\w.:]*)(?:\s+(?P<rest>[^;]*))?;", re.ASCII
)
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+([^;]*);")
_NUMBER = re.compile(r"(?<![\w.%$])-?(?:0[xX][0-9a-fA-F]+|[0-9]+)U?(?![\w.])")
_REGISTER = re.compile(r"(?<![\w$.%])[%A-Za-z_$][\w$]*(?![\w$.])")
_MOVE = re.compile(r"(?:mov|cvta\.to\.global)\.\w+ ([%A-Za-z_$][\w$]*), ?([\w%$-]+);", re.ASCII)
_SUM = re.compile(
    r"add\.[su](?:32|64) ([%A-Za-z_$][\w$]*), ?([%A-Za-z_$][\w$]*), ?(-?(?:0[xX])?[\da-fA-F]+);",
    re.ASCII,
)
_WORD = re.compile(r"[\w$%]+", re.ASCII)
_BITS = re.compile(r"\d+")
_JUMP = re.compile(r"(?:@(?P<when>!?[\w$%]+) )?bra(?:\.uni)? (?P<goal>[\w$%]+);", re.ASCII)
_ZERO = re.compile(r"\+0(?=[+\]])")
_STORE = re.compile(r"\bst\.[\w.:]+ \[[^\]]*\], ?([%A-Za-z_$][\w$]*);", re.ASCII)
_SMALLER = re.compile(r", (?!0;)-?\d\w*;", re.ASCII)  # a number that is not zero is moved
_BASE = re.compile(r"(?<=\[)[%A-Za-z_$][\w$]*")
_PLAIN = re.compile(r"(?:ld|st|mov|cvta|bra|ret|exit|bar|mul\.wide|add\.[us]64)\b")
"""What every kernel has, and what says nothing of what is wrong."""
MOST_NAMED = 4  # opcodes by which a finding is named
_NOUNROLL: Piece = '.pragma "nounroll";', True
_SMALL = 16
"""Constants that are lowered by one; larger ones lose a bit, or a try each would take for ever."""
_OTHERS = 3  # guards and addresses that are tried in place of another
_ONES = {"f32": ("0f00000000", "0f3F800000"), "f64": ("0d0000000000000000", "0d3FF0000000000000")}
"""Zero and one where an integer is none: constants of floating-point numbers (PTX ISA 4.5.2)."""


def pieces_of(ptx: str) -> list[Piece]:
    """Return the parts of a module, less what is for debuggers, and whether each may go alone."""
    text = _SECTION.sub("", _COMMENT.sub(lambda found: found[1] or " ", ptx))
    found, place = [], 0
    while match := _PIECE.match(text, place):
        place = match.end()
        words = " ".join(match[0].split())
        if words.startswith(".target"):
            # It asks for the sections that are left out.
            words = words.removesuffix("debug").rstrip(", ")
        if not _FOR_DEBUGGERS.match(words):
            found.append((words, match["part"] is not None))
    if rest := text[place:].strip():
        found.append((rest, False))
    return found


def instructions_in(ptx: str) -> list[str]:
    """Return the instructions of a module with their operands, in the order of the text."""
    return [words for words, free in pieces_of(ptx) if free and _INSTRUCTION.fullmatch(words)]


def opcodes_of(instructions: Iterable[str]) -> list[str]:
    """Return the opcodes of instructions, each once."""
    found = map(_INSTRUCTION.fullmatch, instructions)
    return list(dict.fromkeys(one["opcode"] for one in found if one))


def telling(instructions: Iterable[str]) -> list[str]:
    """Return the opcodes of instructions that every kernel does not have, a few of them."""
    opcodes = opcodes_of(instructions)
    return ([one for one in opcodes if not _PLAIN.match(one)] or opcodes)[:MOST_NAMED]


def is_legal(ptx: str) -> bool:
    """Whether the ISA has the matrix instructions of a module, and leaves none undefined."""
    target, version = header(ptx)
    return all(_is_legal(one, target, version) for one in instructions_in(ptx))


@lru_cache(maxsize=4096)
def _is_legal(instruction: str, target: str, version: str) -> bool:
    try:
        verdict = explain(instruction, target=target, ptx_version=version).verdict
    except UsageError:  # of no target or version that is known here
        return True
    return verdict in (Verdict.LEGAL, Verdict.NOT_JUDGED)


def reads_unwritten(ptx: str) -> bool:
    """Whether a module reads a register that none of its instructions writes: its value is open."""
    lines = [KernelLine.of(words) for words in instructions_in(ptx)]
    written = {name for line in lines for name in line.writes}
    read = {name for line in lines for name in line.reads}
    declared = {
        _BITS.sub("", word.strip().partition("<")[0])
        for _, names in _REGISTERS.findall(ptx)
        for word in names.split(",")
    }
    return any(_BITS.sub("", name) in declared for name in read - written)


def indented(ptx: str) -> str:
    """Return a module with one statement in a line, those inside of braces set in."""
    lines, depth = [], 0
    for words, _ in pieces_of(ptx):
        depth -= words == "}"
        lines.append(f"{'' if words.endswith(':') else '    ' * depth}{words}\n")
        depth += words == "{"
    return "".join(lines)


def _forwarded(pieces: Sequence[Piece], places: Collection[int]) -> list[Piece]:
    """Return pieces that name what is copied at some places; each copy there is an empty one.

    A copy is what is moved, or what an equal line before has computed and is there still.
    """
    pieces = [*pieces]
    written = [{*KernelLine.of(words).writes} for words, _ in pieces]
    times = Counter[str]()  # how often each register was written so far
    computed: dict[tuple[object, ...], tuple[str, int]] = {}
    for place in range(len(pieces)):
        line = KernelLine.of(pieces[place][0])
        what = (line.opcode, *line.operands[1:], *(times[name] for name in line.reads))
        copy, other = "", ""
        if moved := _MOVE.fullmatch(line.text):
            copy, other = moved.groups()
        elif len(line.writes) == 1 and not line.guard and {*"[{"}.isdisjoint(line.text):
            (copy,) = line.writes
            other, then = computed.get(what, ("", 0))
            if not other or times[other] != then:
                computed[what], other = (copy, times[copy] + 1), ""
        if other and place in places and sum(copy in names for names in written) <= 1:
            ends = (at for at, names in enumerate(written) if at > place and other in names)
            end, name = next(ends, len(pieces)) + 1, re.compile(rf"{re.escape(copy)}(?![\w$.])")
            outside = (
                one for one, _ in pieces[:place] + pieces[end:] if not one.startswith(".reg")
            )
            if any(other in names for names in written) and not any(map(name.search, outside)):
                inside = [(name.sub(other, one), free) for one, free in pieces[place + 1 : end]]
                pieces[place:end] = [("", True), *inside]
                continue
        times.update(line.writes)
    return pieces


def _folded(pieces: Sequence[Piece], places: Collection[int]) -> list[Piece]:
    """Return pieces in which what is moved or added at some places stands wherever it is named.

    What was there is an empty piece. Of several places, those where that is sure to go: one that
    does not would spoil the others.
    """
    pieces = [*pieces]
    several = len(places) > 1
    times = Counter(name for words, _ in pieces for name in KernelLine.of(words).writes)
    for place in places:
        words, free = pieces[place]
        for copies, front, behind in ((_MOVE, "", ""), (_SUM, r"(?<=\[)", "+")):
            copy = copies.fullmatch(words)
            if not free or not copy or (several and times[copy[1]] > 1):
                continue
            name = rf"{re.escape(copy[1])}(?![\w$.])"
            meant = behind.join(copy.groups()[1:])
            made = [
                (one if one.startswith(".reg") else re.sub(front + name, meant, one), its)
                for one, its in pieces
            ]
            made[place] = ("", True)
            left = (one for one, _ in made if not one.startswith(".reg"))
            if not (several and any(re.search(name, one) for one in left)):
                pieces = made
            break
    return pieces


def _backward(pieces: Sequence[Piece], places: Collection[int]) -> list[Piece]:
    """Return pieces that write at once what is moved at some places, where that is written again.

    What was moved has to be written in one place; each move there is an empty piece.
    """
    pieces = [*pieces]
    times = Counter(name for words, _ in pieces for name in KernelLine.of(words).writes)
    for place in places:
        moved = _MOVE.fullmatch(pieces[place][0])
        if moved and times[moved[1]] > 1 and times[moved[2]] == 1:
            pieces[place] = "", True
            name = re.compile(rf"{re.escape(moved[2])}(?![\w$.])")
            pieces = [
                (one if one.startswith(".reg") else name.sub(moved[1], one), free)
                for one, free in pieces
            ]
    return pieces


def _unread(pieces: Sequence[Piece], places: Collection[int]) -> list[Piece]:
    """Return pieces without the instructions at some places whose results no other one reads."""
    lines = [KernelLine.of(words if free else "") for words, free in pieces]
    while True:
        read = Counter(name for line in lines for name in {*line.reads} - {*line.writes})
        gone = [
            at for at in places if lines[at].writes and not any(map(read.get, lines[at].writes))
        ]
        if not gone:
            break
        for at in gone:
            lines[at] = KernelLine.of("")
    kept = zip(pieces, lines, strict=True)
    return [(line.text, True) if piece[1] else piece for piece, line in kept]


def has_loop(ptx: str) -> bool:
    """Whether a branch of a module leads back."""
    return bool(_heads(pieces_of(ptx)))


def _heads(pieces: Sequence[Piece]) -> set[str]:
    """Return labels that branches lead back to."""
    seen, heads = set[str](), set[str]()
    for words, _ in pieces:
        if (jump := _JUMP.fullmatch(words)) and jump["goal"] in seen:
            heads.add(jump["goal"])
        seen.add(words.rstrip(" :"))
    return heads


def _rolled(pieces: Sequence[Piece]) -> list[Piece]:
    """Return pieces whose loops no compiler unrolls (PTX ISA 12.1); it may unroll smaller ones.

    Of two findings on an H200 the kernels kept 66 lines in place of 71, and 67 after 268 tries in
    place of 280 (in machine code of 13.0.88, 2026-11-30).
    """
    heads = _heads(pieces)
    rolled = [(one, _NOUNROLL) if one[0].rstrip(" :") in heads else (one,) for one in pieces]
    return [*chain.from_iterable(rolled)]


class OutOfTimeError(Exception):
    """The time for making something smaller is over."""


class Reducer:
    """Makes a module smaller while it `holds` (UsageError: no); what is legal stays legal."""

    def __init__(self, holds: Callable[..., bool], ptx: str, *, end: float) -> None:
        self.text = ptx  # the smallest module so far
        self.tries, self.status = 0, ShrinkStatus.RAW
        self.end = end
        """Value of `time.monotonic()` from which on nothing more is tried; it may be changed."""
        self.told: Callable[[int, int], None] = lambda lines, tries: None
        """Is told how many lines are left after how many tries."""
        self._holds = holds
        self._pieces, self._legal = pieces_of(ptx), is_legal(ptx)
        self._refused: set[object] = set()
        self._needed: set[tuple[str, str]] = set()
        """What was tried of which instruction in vain, in this pass as long as lines go."""

    def reduce(self) -> ShrinkStatus:
        """Make it as small as it gets; RAW where it shows nothing, written in another way."""
        try:
            if self._try(self._pieces):
                if (rolled := _rolled(self._pieces)) != self._pieces:
                    self._try(rolled)
                before = None
                while before != (before := self._state):
                    self._pass()
                self.status = ShrinkStatus.COMPLETE
        except OutOfTimeError:
            self.status = ShrinkStatus.CAPPED
        return self.status

    @property
    def _state(self) -> object:
        return self.text

    def _pass(self) -> None:
        # What makes lines fewer comes first: the time may be over before all of them are simpler.
        lines = None
        self._needed.clear()
        while lines != (lines := len(self._pieces)):
            for change in (_forwarded, _backward, _unread, _folded):
                self._by_halves(change)
            self._declare_less()
            self._drop_functions()
            self._drop_parts()
            self._one_by_one(self._without)
        self._one_by_one(self._rewritten)
        self._declare_less()

    def _one_by_one(self, rewritten: Callable[[int], Iterator[Sequence[Piece]]]) -> None:
        place = 0
        while place < len(self._pieces):
            # What something became may be simpler still.
            place += not any(map(self._try, rewritten(place)))

    def _takes(self, text: str) -> bool:
        return self._ask(text, lambda: self._holds(text))

    def _ask(self, asked: object, holds: Callable[[], bool]) -> bool:
        if asked in self._refused:
            return False
        if time.monotonic() > self.end:
            raise OutOfTimeError
        self.told(self.text.count("\n"), self.tries)
        self.tries += 1
        with suppress(UsageError):
            if holds():
                return True
        self._refused.add(asked)
        return False

    def _try(self, pieces: Sequence[Piece]) -> bool:
        text = "\n".join(words for words, _ in pieces) + "\n"
        if (self._legal and not is_legal(text)) or not self._takes(text):
            return False
        self._pieces, self.text = list(pieces), text
        return True

    def _with(self, start: int, end: int, *pieces: Piece) -> Sequence[Piece]:
        return [*self._pieces[:start], *pieces, *self._pieces[end:]]

    def _by_halves(self, change: Callable[[Sequence[Piece], Collection[int]], list[Piece]]) -> None:
        """Change all places at once, or halves of those where that does not hold."""
        pieces, groups = self._pieces, [range(len(self._pieces))]
        while groups:
            places = groups.pop()
            made = change(pieces, places)
            if made == pieces:
                continue
            # Those that are gone stay as empty ones, so that places mean what they meant.
            if self._try([piece for piece in made if piece[0]]):
                pieces = made
            elif len(places) > 1:
                middle = len(places) // 2
                groups += [places[middle:], places[:middle]]

    def _drop_functions(self) -> None:
        """Take away other entries and functions, each as a whole, and empty blocks."""
        place = 0
        while place < len(self._pieces):
            end, step = place, 1
            if _FUNCTION.match(self._pieces[place][0]):
                signs = accumulate({"{": 1, "}": -1}.get(one, 0) for one, _ in self._pieces[place:])
                depths = [*signs, 0][1:]
                end, step = place + 2 + depths.index(0), 2
            elif [words for words, _ in self._pieces[place : place + 2]] == ["{", "}"]:
                end = place + 2
            if end == place or not self._try(self._with(place, end)):
                place += step
            elif step == 1:
                # A block in which nothing is left, of several one in the other.
                place = max(0, place - 2)

    def _drop_parts(self) -> None:
        size = max(1, sum(free for _, free in self._pieces) // 2)
        if self._needed:
            size = 1
        while True:
            dropped, last = False, len(self._pieces)
            # From the end: what a part is made for goes before it.
            while free := [at for at, piece in enumerate(self._pieces[:last]) if piece[1]][-size:]:
                gone, last = set(free), free[0]
                what = "drop", self._pieces[last][0]
                if size == 1 and what in self._needed:
                    continue
                if self._try([p for at, p in enumerate(self._pieces) if at not in gone]):
                    dropped = True
                elif size == 1:
                    self._needed.add(what)
            if size == 1 and not dropped:
                return
            size = (size + 1) // 2

    def _without(self, place: int) -> Iterator[Sequence[Piece]]:
        """Yield pieces in which the instruction at a place is gone, or computes nothing."""
        words, free = self._pieces[place]
        if not free or not (match := _INSTRUCTION.fullmatch(words)):
            return
        if (made := _folded(self._pieces, [place])) != self._pieces:
            yield [piece for piece in made if piece[0]]
        what = "computed", words
        if not match["opcode"].startswith("mov.") and what not in self._needed:
            self._needed.add(what)
            # Of numbers zero alone, and the others when nothing makes lines fewer.
            likely = (one for one in self._moves(match) if not _SMALLER.search(one))
            yield from (self._with(place, place + 1, (one, True)) for one in likely)

    def _rewritten(self, place: int) -> Iterator[Sequence[Piece]]:
        """Yield pieces of which the instruction at a place is gone or simpler."""
        words, free = self._pieces[place]
        if not free or not _INSTRUCTION.fullmatch(words):
            return
        yield from self._without(place)
        if (jump := _JUMP.fullmatch(words)) and jump["when"]:
            yield from self._guarded(place, jump)
        for simpler in self._simpler(words):
            yield self._with(place, place + 1, (simpler, True))

    def _guarded(self, place: int, jump: re.Match[str]) -> Iterator[Sequence[Piece]]:
        """Yield pieces in which guards do what a branch does."""
        end = place + 1
        while end < len(self._pieces) and (
            (match := _INSTRUCTION.fullmatch(self._pieces[end][0])) and not match["guard"]
        ):
            end += 1
        if end < len(self._pieces) and self._pieces[end][0].rstrip(" :") == jump["goal"]:
            guard = f"@!{jump['when']} ".replace("!!", "")
            inside = [(guard + one, its) for one, its in self._pieces[place + 1 : end]]
            yield self._with(place, end, *inside)

    def _simpler(self, words: str) -> Iterator[str]:
        match = _INSTRUCTION.fullmatch(words)
        assert match is not None
        guard, opcode, rest = match["guard"] or "", match["opcode"], match["rest"] or ""
        if guard:
            yield words.removeprefix(guard)
            there = (_INSTRUCTION.fullmatch(other) for other, _ in self._pieces)
            earlier = _before(guard, (one["guard"] for one in there if one and one["guard"]))
            yield from (other + words.removeprefix(guard) for other in earlier)
        yield from self._moves(match)
        stem = opcode.partition(".")[0]
        target, _, sources = rest.partition(",")
        if not sources or (stem == "mov" and _REGISTER.fullmatch(target)):
            return
        for found in _BASE.finditer(rest if ".param" not in opcode else ""):
            others = (words for words, _ in self._pieces if ".param" not in words)
            for base in _before(found[0], (one for text in others for one in _BASE.findall(text))):
                yield f"{guard}{opcode} {_replaced(rest, found, base)};"
        for found in _REGISTER.finditer(sources):
            before = sources[: found.start()].rstrip()
            type_ = self._type_of(found[0])
            if before.endswith("[") or type_ == "pred" or not (type_ or found[0][0] == "%"):
                continue
            for value in _ONES.get(type_, ("0", "1")):
                yield f"{guard}{opcode} {target},{_replaced(sources, found, value)};"
        front = f"{target},"
        if stem in ("st", "red"):
            front, sources = "", rest
        if (plain := _ZERO.sub("", sources)) != sources:
            yield f"{guard}{opcode} {front}{plain};"
        for found in _NUMBER.finditer(sources):
            for less in _less(_number(found[0]) or 0):
                yield f"{guard}{opcode} {front}{_replaced(sources, found, str(less))};"

    def _moves(self, instruction: re.Match[str]) -> Iterator[str]:
        """Yield what moves something into what an instruction writes."""
        guard, opcode = instruction["guard"] or "", instruction["opcode"]
        stem = opcode.partition(".")[0]
        target, _, sources = (instruction["rest"] or "").partition(",")
        if stem not in ("st", "red", "bra", "bar", "setp") and _REGISTER.fullmatch(target):
            bits = _BITS.search(opcode if stem == "mov" else self._type_of(target))
            if bits is not None and stem != "cvta":
                move = opcode if stem == "mov" else f"mov.b{bits[0]}"
                for value in self._values(stem, sources.strip(), int(bits[0])):
                    yield f"{guard}{move} {target}, {value};"

    def _values(self, stem: str, sources: str, bits: int) -> Iterator[str]:
        """Yield what may stand in place of what an instruction computes, the simplest first."""
        if stem == "mov":
            if (number := _number(sources)) is not None:
                yield from map(str, _less(number))
            elif _REGISTER.fullmatch(sources):
                yield from ("0", "1")
            return
        yield from ("0", "1", "-1")
        for register in dict.fromkeys(_REGISTER.findall(sources)):
            if _BITS.findall(self._type_of(register)) == [str(bits)]:
                yield register
        yield from (found[0] for found in _NUMBER.finditer(sources) if "[" not in sources)
        if stem == "ld":
            stores = (_STORE.search(words) for words, _ in self._pieces)
            held = dict.fromkeys(one[1] for one in stores if one)
            named = (one for one in held if _BITS.findall(self._type_of(one)) == [str(bits)])
            yield from islice(named, _OTHERS)

    def _type_of(self, register: str) -> str:
        types = {
            name.strip().partition("<")[0]: match[1]
            for words, _ in self._pieces
            for match in _REGISTERS.finditer(words)
            for name in match[2].split(",")
        }
        return types.get(register) or types.get(register.rstrip("0123456789"), "")

    def _declare_less(self) -> None:
        lines = [words for words, free in self._pieces if free and not words.startswith(".reg")]
        used = set(_WORD.findall("\n".join(lines)))
        used |= {f"{name.rstrip('0123456789')}<" for name in used}
        pieces: list[Piece] = []
        for declares, run in groupby(self._pieces, lambda piece: piece[0].startswith(".reg ")):
            if not declares:
                pieces += run
                continue
            types: dict[str, list[str]] = {}
            for type_, names in _REGISTERS.findall(" ".join(words for words, _ in run)):
                each = (name.strip() for name in names.split(","))
                kept = [one for one in each if one in used or one.partition("<")[0] + "<" in used]
                types.setdefault(type_, []).extend(kept)
            pieces += [
                (f".reg .{one} {', '.join(names)};", True) for one, names in types.items() if names
            ]
        if pieces != self._pieces:
            self._try(pieces)

        def fewer(head: re.Match[str]) -> str:
            named = ((one, _WORD.findall(one.partition("[")[0])[-1:]) for one in head[2].split(","))
            parameters = [one for one, name in named if used.issuperset(name)]
            return f"{head[1]}{','.join(parameters).strip()})"

        pieces = [(_ENTRY.sub(fewer, words), free) for words, free in self._pieces]
        if pieces != self._pieces:
            self._try(pieces)


def _before(name: str, names: Iterable[str]) -> list[str]:
    return list(takewhile(name.__ne__, islice(dict.fromkeys(names), _OTHERS)))


def _less(number: int) -> Iterator[int]:
    """Yield numbers nearer to zero, the smallest first: none, one, a power of two, a bit fewer."""
    near = number - 1 if number <= _SMALL else number & (number - 1)
    for less in (0, 1, 1 << number.bit_length() - 1 if number else 0, number // 2, near):
        if abs(less) < abs(number) and (less >= 0 or number < 0):
            yield less


def _replaced(text: str, found: re.Match[str], value: str) -> str:
    return f"{text[: found.start()]}{value}{text[found.end() :]}"


def _number(text: str) -> int | None:
    """Return a number that is written in full, and not in octal; None of anything else."""
    digits = text.lstrip("-").rstrip("U")
    octal = len(digits) > 1 and digits.startswith("0") and digits.isdecimal()
    return int(text.rstrip("U"), 0) if _NUMBER.fullmatch(text) and not octal else None
