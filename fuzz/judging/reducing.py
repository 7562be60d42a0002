"""Making a kernel smaller: lines, operands, constants, the launch, and the contents of an image.

Delta debugging (Zeller and Hildebrandt 2002, "Simplifying and isolating failure-inducing input"):
parts are taken away as long as what is left is still assembled, still decided by the ISA and still
wrong, where somebody has it right.
"""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import compress, groupby, islice, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus import ShrinkStatus
from fuzz.findings.launches import Setup, parameters_of
from fuzz.judging.reference import Image
from oracle.errors import UsageError

Holds = Callable[[str, Setup, Image], bool]
"""Whether a text, launched so, on this image still shows what is wrong."""

REDUCE_SECONDS = 120.0
"""Time for one finding: kernels of 60 lines take 10 s to 40 s on one core (2026-11-23)."""

_COMMENT = re.compile(r'("[^"\n]*")|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_SECTION = re.compile(r"^\s*\.section\s+[\w.]+\s*\{[^}]*\}", re.MULTILINE)
_FOR_DEBUGGERS = re.compile(r"\.(?:loc|file|section)\b")
_PIECE = re.compile(
    r"\s*(?:(?P<kept>\.(?:version|target|address_size)\b[^\n]*"
    r"|(?:\.(?:visible|weak|extern)\s+)*\.(?:entry|func)\b[^{;]*|[{}])"
    r"|(?P<part>\.(?:loc|file|section)\b[^\n]*|[A-Za-z_$%][\w$]*\s*:(?!:)|[^;{}]*"
    r"(?:\{[^;{}]*\}[^;{}]*)*;))"
)
_INSTRUCTION = re.compile(
    r"(?P<guard>@!?[\w$%]+\s+)?(?P<opcode>[a-z][\w.:]*)\s+(?P<rest>[^;]*);", re.ASCII
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
_BASE = re.compile(r"(?<=\[)[%A-Za-z_$][\w$]*")
_VECTOR = re.compile(r"\{([^}]*)\}")
_COUNTED = re.compile(r"\.v[248]\b")
_ELEMENT = re.compile(r"\.[bsuf](8|16|32|64)\b")
_SPECIAL = re.compile(r"%(tid|ctaid|laneid)(?:\.([xyz]))?")
_SMALL = 16
"""Constants that are lowered by one; larger ones lose a bit, or a try each would take for ever."""
_FOLDED = {"mul": operator.mul, "add": operator.add}
"""What instructions with two numbers may be replaced by the result of."""
_OTHERS = 3
"""Guards and addresses that are tried in place of another."""
_LANES_TRIED, _WORDS_TRIED = 64, 8
"""Threads, and words of an image, of which one is tried in place of all."""
_ONES = {"f32": ("0f00000000", "0f3F800000"), "f64": ("0d0000000000000000", "0d3FF0000000000000")}
"""Zero and one where an integer is none: constants of floating-point numbers (PTX ISA 4.5.2)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Reduced:
    """What was reached."""

    ptx: str
    setup: Setup
    image: Image
    status: ShrinkStatus
    tries: int


def pieces_of(ptx: str) -> list[tuple[str, bool]]:
    """Return the parts of a module in lines of their own, and whether each may go alone.

    What is for debuggers is left out; what is not understood stays as it is.
    """
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


class _OverError(Exception):
    """The time is over."""


class Reducer:
    """Makes a case smaller.

    Parameters
    ----------
    holds
        What has to stay so.
    """

    def __init__(self, holds: Holds, ptx: str, setup: Setup, image: Image) -> None:
        self._holds, self._setup, self._image = holds, setup, image
        self._original = ptx
        self._pieces = pieces_of(ptx)
        self._end = time.monotonic() + REDUCE_SECONDS
        self._tries = 0
        self._refused: set[tuple[str, tuple[int, ...], bytes]] = set()

    def reduced(self) -> Reduced:
        """Return the smallest case that was reached; the case itself where nothing can go."""
        status = ShrinkStatus.COMPLETE
        try:
            if not self._try(self._pieces):
                # Written in another way, it is not wrong any more.
                return self._result(self._original, ShrinkStatus.RAW)
            before = None
            while before != (self._text, self._setup, self._image.tobytes()):
                before = (self._text, self._setup, self._image.tobytes())
                self._shrink_launch()
                self._drop_functions()
                self._drop_parts()
                self._shrink_image()
                self._simplify()
                self._declare_less()
        except _OverError:
            status = ShrinkStatus.CAPPED
        return self._result(self._text, status)

    def _result(self, ptx: str, status: ShrinkStatus) -> Reduced:
        return Reduced(
            ptx=ptx, setup=self._setup, image=self._image, status=status, tries=self._tries
        )

    @property
    def _text(self) -> str:
        return _joined(self._pieces)

    def _asks(self, ptx: str, setup: Setup, image: Image) -> bool:
        asked = (ptx, (*setup.grid, *setup.block), image.tobytes())
        if asked in self._refused:
            return False
        if time.monotonic() > self._end:
            raise _OverError
        self._tries += 1
        with suppress(UsageError):
            if self._holds(ptx, setup, image):
                return True
        self._refused.add(asked)
        return False

    def _try(self, pieces: Sequence[tuple[str, bool]]) -> bool:
        """Take other pieces, if it still holds with them."""
        if not self._asks(_joined(pieces), self._setup, self._image):
            return False
        self._pieces = list(pieces)
        return True

    def _drop_functions(self) -> None:
        """Take away other entries and functions, each as a whole, and empty blocks."""
        place = 0
        while place < len(self._pieces):
            words = self._pieces[place][0]
            if re.match(r"(?:\.\w+ )*\.(?:entry|func)\b", words):
                end, depth = place + 1, 0
                while end < len(self._pieces):
                    depth += {"{": 1, "}": -1}.get(self._pieces[end][0], 0)
                    end += 1
                    if depth == 0:
                        break
                if self._try(self._pieces[:place] + self._pieces[end:]):
                    continue
                place += 2
            elif [each for each, _ in self._pieces[place : place + 2]] == ["{", "}"] and self._try(
                self._pieces[:place] + self._pieces[place + 2 :]
            ):
                # A block in which nothing is left, of several one in the other.
                place = max(0, place - 2)
            else:
                place += 1

    def _drop_parts(self) -> None:
        """Take away runs of parts, halves first, until no single one can go."""
        size = max(1, sum(free for _, free in self._pieces) // 2)
        while True:
            dropped, last = False, len(self._pieces)
            # From the end: what a part is made for goes before it.
            while last > 0:
                free = [at for at, piece in enumerate(self._pieces[:last]) if piece[1]][-size:]
                if not free:
                    break
                gone = set(free)
                fewer = [piece for at, piece in enumerate(self._pieces) if at not in gone]
                last = free[0]
                dropped |= self._try(fewer)
            if size > 1:
                size = (size + 1) // 2
            elif not dropped:
                return

    def _simplify(self) -> None:
        """Replace instructions by moves, operands by constants, and constants by smaller ones."""
        place = 0
        while place < len(self._pieces):
            words = self._pieces[place][0]
            if _INSTRUCTION.fullmatch(words) and self._pieces[place][1]:
                if self._forward(place) or self._thread(place) or self._guard(place):
                    continue
                for simpler in self._simpler(words):
                    changed = list(self._pieces)
                    changed[place] = (simpler, True)
                    if self._try(changed):
                        # What it became may be simpler still.
                        place -= 1
                        break
            place += 1

    def _forward(self, place: int) -> bool:
        """Take a move away, or a sum for addresses, and name what it is wherever it is named."""
        move, total = (one.fullmatch(self._pieces[place][0]) for one in (_MOVE, _SUM))
        if move is not None:
            named, meant = re.compile(rf"{re.escape(move[1])}(?![\w$.])"), move[2]
        elif total is not None:
            named = re.compile(rf"(?<=\[){re.escape(total[1])}(?![\w$.])")
            meant = f"{total[2]}+{total[3]}"
        else:
            return False
        others = [
            (words if words.startswith(".reg") else named.sub(meant, words), free)
            for at, (words, free) in enumerate(self._pieces)
            if at != place
        ]
        return self._try(others)

    def _declare_less(self) -> None:
        """Take away registers and parameters that nothing names, and join declarations."""
        lines = [words for words, free in self._pieces if free and not words.startswith(".reg")]
        used = set(_WORD.findall("\n".join(lines)))
        used |= {f"{name.rstrip('0123456789')}<" for name in used}
        pieces: list[tuple[str, bool]] = []
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
        self._try(pieces)
        self._drop_parameters(used)

    def _drop_parameters(self, used: Collection[str]) -> None:
        """Take away parameters that are not used, with their buffers."""
        setup = self._setup
        named = [one.name in used for one in setup.parameters]
        head = re.compile(rf"(\.entry {re.escape(setup.entry)} ?\()([^)]*)\)")
        if all(named):
            return
        pieces = [
            (
                head.sub(
                    lambda found: f"{found[1]}{','.join(compress(found[2].split(','), named))})",
                    words,
                ),
                free,
            )
            for words, free in self._pieces
        ]
        arguments = {
            name: value for name, value in setup.arguments.items() if name.partition("+")[0] in used
        }
        text = _joined(pieces)
        fewer = replace(setup, parameters=parameters_of(text, setup.entry), arguments=arguments)
        image = np.zeros(fewer.image_bytes, np.uint8)
        for name, row in fewer.buffers.items():
            to, at = fewer.offsets[name], setup.offsets[name]
            image[to : to + row.bytes] = self._image[at : at + row.bytes]
        if self._asks(text, fewer, image):
            self._pieces, self._setup, self._image = pieces, fewer, image

    def _thread(self, place: int) -> bool:
        """Let branches that lead to a branch lead to where that leads."""
        jump, before = _JUMP.fullmatch(self._pieces[place][0]), self._pieces[place - 1][0]
        if jump is None or jump["when"] or not before.endswith(":"):
            return False
        label = re.compile(rf"(\bbra(?:\.uni)? ){re.escape(before[:-1].strip())};")
        others = [
            (label.sub(rf"\g<1>{jump['goal']};", words), free) for words, free in self._pieces
        ]
        return others != self._pieces and self._try(others)

    def _guard(self, place: int) -> bool:
        """Guard instructions over which a branch leads, and take the branch away."""
        jump = _JUMP.fullmatch(self._pieces[place][0])
        if jump is None or not jump["when"]:
            return False
        guard = f"@!{jump['when']} ".replace("!!", "")
        end = place + 1
        while end < len(self._pieces) and (
            (match := _INSTRUCTION.fullmatch(self._pieces[end][0])) and not match["guard"]
        ):
            end += 1
        if end == len(self._pieces) or self._pieces[end][0].rstrip(" :") != jump["goal"]:
            return False
        inside = [(guard + words, free) for words, free in self._pieces[place + 1 : end]]
        return self._try([*self._pieces[:place], *inside, *self._pieces[end:]])

    def _guards(self) -> Sequence[str]:
        found = (_INSTRUCTION.fullmatch(words) for words, _ in self._pieces)
        return list(dict.fromkeys(one["guard"] for one in found if one and one["guard"]))[:_OTHERS]

    def _bases(self) -> Sequence[str]:
        """Return the first registers of which addresses are made."""
        text = "\n".join(words for words, _ in self._pieces if ".param" not in words)
        return list(dict.fromkeys(_BASE.findall(text)))[:_OTHERS]

    def _types(self) -> dict[str, str]:
        found = {}
        for words, _ in self._pieces:
            for match in _REGISTERS.finditer(words):
                for name in match[2].split(","):
                    found[name.strip().partition("<")[0]] = match[1]
        return found

    def _simpler(self, words: str) -> Iterator[str]:
        match = _INSTRUCTION.fullmatch(words)
        assert match is not None
        guard, opcode, rest = match["guard"] or "", match["opcode"], match["rest"]
        if guard:
            yield f"{opcode} {rest};"
            earlier = takewhile(lambda other: other != guard, self._guards())
            yield from (f"{other}{opcode} {rest};" for other in earlier)
        stem = opcode.partition(".")[0]
        yield from self._single(guard, opcode, rest)
        target, _, sources = rest.partition(",")
        if stem not in ("st", "red", "bra", "bar", "setp") and _REGISTER.fullmatch(target):
            bits = _BITS.search(opcode if stem == "mov" else self._type_of(target))
            if bits is not None and stem != "cvta":
                move = opcode if stem == "mov" else f"mov.b{bits[0]}"
                for value in self._values(stem, sources, int(bits[0])):
                    yield f"{guard}{move} {target}, {value};"
        if not sources or (stem == "mov" and _REGISTER.fullmatch(target)):
            return
        for found in _BASE.finditer(rest if ".param" not in opcode else ""):
            for base in takewhile(found[0].__ne__, self._bases()):
                yield f"{guard}{opcode} {_replaced(rest, found, base)};"
        for found in _REGISTER.finditer(sources):
            before = sources[: found.start()].rstrip()
            type_ = self._type_of(found[0])
            if before.endswith("[") or type_ == "pred" or not (type_ or found[0][0] == "%"):
                continue
            for value in _ONES.get(type_, ("0", "1")):
                yield f"{guard}{opcode} {target},{_replaced(sources, found, value)};"
        if stem in ("st", "red"):
            front, sources = "", rest
        else:
            front = f"{target},"
        if (plain := _ZERO.sub("", sources)) != sources:
            yield f"{guard}{opcode} {front}{plain};"
        for found in _NUMBER.finditer(sources):
            number = int(found[0].rstrip("U"), 0) if _is_plain(found[0]) else 0
            near = number - 1 if number <= _SMALL else number & (number - 1)
            for less in (0, 1, 1 << number.bit_length() - 1 if number else 0, number // 2, near):
                if abs(less) < abs(number) and (less >= 0 or number < 0):
                    yield f"{guard}{opcode} {front}{_replaced(sources, found, str(less))};"

    def _single(self, guard: str, opcode: str, rest: str) -> Iterator[str]:
        """Yield loads and stores of one element in place of a vector."""
        found, many = _VECTOR.search(rest), _COUNTED.search(opcode)
        width = _ELEMENT.search(opcode)
        if found is None or many is None or width is None or "]" not in rest:
            return
        one = opcode.replace(many[0], "", 1)
        address = rest.replace(found[0], "").strip(" ,")
        for index, part in enumerate(found[1].split(",")):
            at = address.replace("]", f"+{index * int(width[1]) // 8}]") if index else address
            pair = f"{at}, {part.strip()}" if rest.startswith("[") else f"{part.strip()}, {at}"
            yield f"{guard}{one} {pair};"

    def _values(self, stem: str, sources: str, bits: int) -> Iterator[str]:
        """Yield what may stand in place of what an instruction computes, the simplest first."""
        known = sources.strip()
        if stem == "mov":
            # Of numbers that threads have, one does it where one thread shows it.
            if special := _SPECIAL.fullmatch(known):
                extents = self._setup.grid if special[1] == "ctaid" else self._setup.block
                most = 32 if special[1] == "laneid" else extents["xyz".index(special[2] or "x")]
                yield from map(str, range(min(most, _LANES_TRIED)))
            elif _is_plain(known) and _NUMBER.fullmatch(known) and int(known.rstrip("U"), 0) > 1:
                number = int(known.rstrip("U"), 0)
                top = 1 << number.bit_length() - 1
                near = number - 1 if number <= _SMALL else number & (number - 1)
                yield from (f"{less}" for less in (0, 1, top, number // 2, near) if less < number)
            elif _REGISTER.fullmatch(known):
                yield from ("0", "1")
            return
        yield from ("0", "1", "-1")
        given = [one.strip() for one in sources.split(",")]
        if stem in _FOLDED and len(given) == 2 and all(map(_is_number, given)):
            yield str(_FOLDED[stem](*(int(one, 0) for one in given)))
        for register in dict.fromkeys(_REGISTER.findall(sources)):
            if _BITS.findall(self._type_of(register)) == [str(bits)]:
                yield register
        yield from (found[0] for found in _NUMBER.finditer(sources) if "[" not in sources)
        if stem == "ld":
            stores = (_STORE.search(words) for words, _ in self._pieces)
            held = dict.fromkeys(one[1] for one in stores if one)
            named = (one for one in held if _BITS.findall(self._type_of(one)) == [str(bits)])
            yield from islice(named, _OTHERS)
        if stem in ("ld", "ldu") and bits in (32, 64):
            words = np.unique(self._image.view(f"<u{bits // 8}"))
            yield from (f"{word}" for word in words[words > 1][:_WORDS_TRIED])

    def _type_of(self, register: str) -> str:
        types = self._types()
        return types.get(register) or types.get(register.rstrip("0123456789"), "")

    def _shrink_launch(self) -> None:
        for name in ("grid", "block"):
            for axis in (2, 1, 0):
                while (extent := getattr(self._setup, name)[axis]) > 1:
                    for less in dict.fromkeys((1, extent // 2)):
                        shape = list(getattr(self._setup, name))
                        shape[axis] = less
                        changes: dict[str, Any] = {name: tuple(shape)}
                        smaller = replace(self._setup, **changes)
                        if self._asks(self._text, smaller, self._image):
                            self._setup = smaller
                            break
                    else:
                        break

    def _shrink_image(self) -> None:
        """Have words of the image zero, halves of them first, and then small."""
        words = self._image.view("<u4")
        size = max(1, words.size)
        while True:
            left = np.flatnonzero(self._image.view("<u4"))
            if not left.size:
                return
            size = min(size, left.size)
            for start in range(0, left.size, size):
                self._try_words(left[start : start + size], 0)
            if size == 1:
                break
            size = (size + 1) // 2
        for place in np.flatnonzero(self._image.view("<u4")):
            value = int(self._image.view("<u4")[place])
            for less in (1, value & 0xFF, value & 0xFFFF, 1 << value.bit_length() - 1):
                if less and less < value and self._try_words(np.array([place]), less):
                    break

    def _try_words(self, places: NDArray[np.intp], value: int) -> bool:
        image = self._image.copy()
        image.view("<u4")[places] = value
        if not self._asks(self._text, self._setup, image):
            return False
        self._image = image
        return True


def _replaced(text: str, found: re.Match[str], value: str) -> str:
    return f"{text[: found.start()]}{value}{text[found.end() :]}"


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and _is_plain(text) and not text.endswith("U")


def _is_plain(text: str) -> bool:
    """Whether it is a number that is not written in octal."""
    digits = text.lstrip("-").rstrip("U")
    return not (len(digits) > 1 and digits.startswith("0") and digits.isdecimal())


def _joined(pieces: Sequence[tuple[str, bool]]) -> str:
    return "\n".join(words for words, _ in pieces) + "\n"
