"""How long a device takes for an image of a program: about, and the same on every machine.

A campaign gives each program about as much time of a GPU. How many images that are has to follow
from the program alone, since a seed has the same images everywhere: so the instructions of the
interpreter are counted here, and weighted with what they took on one GPU.
"""

from __future__ import annotations

from collections import defaultdict

from oracle.isa.forms import LANES
from runners.reference.encoding import Encoded
from runners.reference.memory import Code

NANOSECONDS = {
    "image": 13.0,
    "byte": 0.0041,
    "output": 0.13,
    "quick product": 0.1,
    "product": 0.05,
    "fused": 0.91,
    "integers": 0.033,
    "move": 0.22,
    "lane": 0.066,
    "together": 0.61,
}
"""What an image takes on an H100, by what is done for it: fitted to 241 programs of a campaign
(benchmarks/program_costs.py, 2026-11-27). Nine in ten are foretold within 0.53 and 1.64 times what
they took. "product" was in none, and is guessed."""
_QUICK, _ELEMENT_BITS = 33, 7
"""Places among the words of a DOT and of INTEGERS."""
_UNIT = 10.0
"""Nanoseconds that count as one image. The smallest program takes so long where 65,536 of its
images are launched at once (benchmarks/fresh_speed.py); the weights above say 40."""
_LEAST = 16
"""Images that a program has in any case: of a simulated device there are few."""
_TURNS = 4.0
"""Of a loop whose count an image has, taken as a mean."""


def nanoseconds(encoded: Encoded) -> float:
    """Return how long an H100 takes to make an image of a program, to run and to compare it.

    About: of one program in ten it is less than half as long, or more than 1.6 times.
    """
    return sum(NANOSECONDS[what] * count for what, count in counted(encoded).items())


def images_of(most: int, encoded: Encoded) -> int:
    """Return how many images of a program, at most `most`, take about `most` times 10 ns."""
    share = min(1.0, _UNIT / nanoseconds(encoded))
    return max(min(most, _LEAST), int(most * share))


def counted(encoded: Encoded) -> dict[str, float]:
    """Count what the interpreter does for an image: of a branch both sides."""
    found: dict[str, float] = defaultdict(float)
    found.update(image=1.0, byte=encoded.image_bytes)
    words, at, turns = encoded.words.astype(int).tolist(), 0, [1.0]
    while words[at] != Code.END:
        code, own = Code(words[at]), words[at + 2 : at + words[at + 1]]
        at += words[at + 1]
        if code is Code.LOOP:
            turns.append(turns[-1] * (_TURNS if own[2] else own[1]))
        elif code is Code.NEXT:
            turns.pop()
        else:
            for what, count in _step(code, own).items():
                found[what] += turns[-1] * count
    return found


def _step(code: Code, words: list[int]) -> dict[str, float]:
    """Return what a lane does for an instruction, and how often."""
    match code:
        case Code.DOT:
            m, n, log_k, *_ = words
            what, products = "quick product" if words[_QUICK] else "product", m * n << log_k
        case Code.SCALAR_DOT | Code.DOUBLES:
            m, n, k, *_ = words
            what, products = "fused", m * n * k
        case Code.INTEGERS:  # by words of elements
            m, n, k, *_ = words
            what, products = "integers", m * n * k * words[_ELEMENT_BITS] // 32
        case Code.ELEMENTWISE:
            _, _, format_, _, _, count, *_ = words
            return {"fused" if format_ else "move": count / LANES}
        case Code.MOVE | Code.WIDEN:
            return {"move": 1 + words[1] / LANES}
        case Code.COPY:
            return {"move": 1 + words[2] / 16 / LANES}
        case Code.CHOOSE:
            _, units, m, n, *_ = words
            return {"move": m * n * units / LANES}
        case Code.LANES_ALONE:
            return {"lane": len(words)}
        case Code.LANES_TOGETHER:
            return {"together": 1}
        case _:
            return {"move": 1}
    return {"output": m * n / LANES, what: products / LANES}
