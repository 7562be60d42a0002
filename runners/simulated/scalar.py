"""The instructions that each thread executes for itself: a row for each, and what decodes a row.

A row is written as the ISA writes an instruction, `bfe.type d, a, b:u32, c:u32`, with a function of
its operands; `runners.simulated.integers` and `.floating` have those that NumPy has not.
Here an instruction is added. Source: PTX ISA 9.7.1 to 9.7.9, 9.7.13 for the lanes of a warp, 9.7.18
for video.

Qualifiers: what stands for a name, such as `type`, the row says, or `_CLASSES`; all others are what
they are. What is in braces may be left out.

Operands: `d` or `p` is written, and so is what follows a `|`. Behind the colon is the type, where
it is not that of `type`: one of the ISA's, or the name of a qualifier that is one. `+` lets a
register have more bits (9.4.1), `?` lets one be copied that was never written. CC is the carry flag
(9.7.2), which no text names; `imm8` is a constant. The lanes that `m` names wait for each other.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import permutations, product
from typing import Any

import numpy as np

from runners.simulated import floating, integers
from runners.simulated.integers import Qualifiers
from runners.simulated.opcodes import Compute, OperandSlot, ScalarOp, move, video
from runners.simulated.operands import OperandReader, Source
from runners.simulated.syntax import TYPE_BITS
from runners.simulated.warps import Operation

_OPEN = {
    r"fma\.rn\.oob\.\S+": "the ISA does not say which NaN is that of out-of-bounds accesses",
}
"""Patterns of opcodes that no row can have, and why."""
_WORDS = "u16 u32 u64 s16 s32 s64"
_LONG = "u32 u64 s32 s64"
_RAW = "b16 b32 b64"
_LONG_RAW = "b32 b64"
_WORD = "u32 s32"
_ANY = f"{_RAW} {_WORDS} f32 f64"
_HALF, _BHALF = "f16 f16x2", "bf16 bf16x2"
_SM_80 = {"f16": 80, "bf16": 80}
_MIXED: dict[str, Any] = {"type": "f32", "origin": "f16 bf16", "needs": {"f32": 100}}
_COMPARE = " ".join(integers.COMPARE)
_VIDEO: dict[str, Any] = {
    "dtype": _WORD, "second": "add min max", "cmp": _COMPARE, "scale": "shr7 shr15",
}  # fmt: skip
_FLOAT_COMPARISONS = " ".join([*(f"{name} {name}u" for name in integers.COMPARE), "num nan"])
_SECOND = "{|q:pred}"
_RESULTS = "u32 s32 f32 f16 bf16"
_HALF_RESULTS = "u16 s16 u32 s32 f16 bf16"
_COMPARISONS = (
    ("eq ne", "", _RAW, _SECOND, _RESULTS),
    (_COMPARE, "", _WORDS, _SECOND, _RESULTS),
    (" ".join(floating.UNSIGNED), "", "u16 u32 u64", _SECOND, _RESULTS),
    (_FLOAT_COMPARISONS, "", "f64", _SECOND, _RESULTS),
    (_FLOAT_COMPARISONS, "{.ftz}", "f32", _SECOND, _RESULTS),
    (_FLOAT_COMPARISONS, "{.ftz}", "f16", "", _HALF_RESULTS),
    (_FLOAT_COMPARISONS, "", "bf16", "", "u16 s16 u32 s32 bf16"),
    (_FLOAT_COMPARISONS, "{.ftz}", "f16x2", _SECOND, "u32 s32 f16x2"),
    (_FLOAT_COMPARISONS, "", "bf16x2", _SECOND, "u32 s32 bf16x2"),
)
"""Comparisons, whether subnormals may count as zero, of which types (9.3.1), whether there may be a
second predicate, and which types of results set has (9.7.6, 9.7.7)."""
_INTEGERS = f"u8 s8 {_WORDS}"
_FLOATS = ("f16", "bf16", "f32", "f64")
_NARROWER = tuple(
    pair.split()
    for pair in ("f16 f32", "bf16 f32", "f16 f64", "bf16 f64", "f32 f64", "f16 bf16", "bf16 f16")
)
"""Formats, and others of which not all numbers are in them."""


def _rows(syntax: str, computes: Mapping[str, Compute], **options: Any) -> list[ScalarOp]:
    return [ScalarOp(name + syntax, compute, **options) for name, compute in computes.items()]


_SUMS, _FUSED, _QUOTIENTS, _SIGNS, _LEAST = (
    {name: floating.adjusted(compute) for name, compute in computes.items()}
    for computes in (
        {
            "add": floating.add,
            "sub": lambda q, a, b: floating.add(q, a, floating.negate(q, b)),
            # A zero of the product's own sign leaves every product as it is, zeros too.
            "mul": lambda q, a, b: floating.fuse(q, a, b, (a ^ b) & floating.sign_of(q, a)),
        },
        {"fma": floating.fuse, "mad": floating.fuse},
        {
            "rcp": lambda q, a: floating.divide(q, floating.one_of(q, a), a),
            "sqrt": floating.square_root,
        },
        {"neg": floating.negate, "abs": floating.absolute},
        {"min": floating.least_or_most, "max": floating.least_or_most},
    )
)
_DIVISION, _NEAR = floating.adjusted(floating.divide), floating.adjusted(floating.approximate)
_LINEAR: dict[str, np.ufunc] = {"add": np.add, "sub": np.subtract}
_ORDERED: dict[str, np.ufunc] = {"min": np.minimum, "max": np.maximum}
_LOGIC: dict[str, np.ufunc] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def _saturating(compute: np.ufunc) -> Compute:
    return lambda _, a, b: integers.clamped(compute(a.astype(np.int64), b))


def _without_negatives(compute: np.ufunc) -> Compute:
    return lambda _, a, b: np.maximum(compute(a, b), a.dtype.type(0))


ROWS = (
    # Moves and selections (9.7.7, 9.7.9).
    ScalarOp("mov{.v}.type d, a", decode=move, v="v2 v4", type=f"pred b8 u8 s8 {_ANY}"),
    ScalarOp("mov.type d, a", decode=move, type="b128"),
    ScalarOp("selp.type d, a?, b?, c:pred", lambda _, a, b, c: np.where(c, a, b), type=_ANY),
    ScalarOp("slct.type.by d, a, b, c:by", floating.select_by_sign, type=_ANY, by="s32"),
    ScalarOp("slct{.ftz}.type.by d, a, b, c:by", floating.select_by_sign, type=_ANY, by="f32"),
    # Integers (9.7.1, 9.7.2).
    *_rows(".type d, a, b", _LINEAR | _ORDERED, type=_WORDS),
    *_rows(".type d, a, b", {"mul.lo": np.multiply, "mul.hi": integers.high_product}, type=_WORDS),
    ScalarOp("div.type d, a, b", integers.divide, type=_WORDS, otherwise=lambda q, a, b: (
        # By zero: three, as good as any (9.7.1.9 leaves it open).
        np.where(b == 0, a.dtype.type(3), integers.divide(q, a, b).astype(a.dtype)))),
    ScalarOp("rem.type d, a, b", integers.remainder, type=_WORDS, otherwise=lambda q, a, b: (
        np.where(b == 0, ~a, integers.remainder(q, a, b).astype(a.dtype)))),
    ScalarOp("add.type d, a, b", np.add, type="u16x2 s16x2"),
    *_rows(".type d, a, b", _ORDERED, type="u16x2 s16x2"),
    *_rows(".relu.type d, a, b", {n: _without_negatives(f) for n, f in _ORDERED.items()},
           type="s32 s16x2"),
    *_rows(".sat.s32 d, a, b", {n: _saturating(f) for n, f in _LINEAR.items()}),
    ScalarOp("mad.lo.type d, a, b, c", lambda _, a, b, c: a * b + c, type=_WORDS),
    ScalarOp("mad.hi.type d, a, b, c", lambda q, *ab_c: integers.high_product(q,
        *ab_c[:2]) + ab_c[2],
       type=_WORDS),
    ScalarOp("mad.hi.sat.s32 d, a, b, c", lambda q, a, b, c: (
        integers.clamped(integers.high_product(q, a, b).astype(np.int64) + c))),
    *(
        ScalarOp(f"{name}.wide.{sign}{bits} d:{sign}{2 * bits}, a, b{more}", lambda _, a, b, *c: (
            sum(c, a.astype(f"{a.dtype.kind}{2 * a.itemsize}") * b)))
        for sign in "us"
        for bits in (16, 32)
        for name, more in (("mul", ""), ("mad", f", c:{sign}{2 * bits}"))
    ),
    ScalarOp("mul24.part.type d, a, b", integers.by_24_bits, type=_WORD),
    ScalarOp("mad24.part.type d, a, b, c", integers.by_24_bits, type=_WORD),
    ScalarOp("mad24.part{.sat}.s32 d, a, b, c", integers.by_24_bits, part="hi"),
    ScalarOp("sad.type d, a, b, c", lambda _, a, b, c: np.where(a > b, a - b, b - a) + c,
        type=_WORDS),
    *(
        ScalarOp(syntax, integers.with_carry, otherwise=integers.with_carry_otherwise, type=_LONG)
        for syntax in (
            *("add.cc.type d|CC, a, b", "addc.type d, a, b, CC", "addc.cc.type d|CC, a, b, CC"),
            *("sub.cc.type d|CC, a, b", "subc.type d, a, b, CC", "subc.cc.type d|CC, a, b, CC"),
            *("mad.part.cc.type d|CC, a, b, c", "madc.part.type d, a, b, c, CC"),
            "madc.part.cc.type d|CC, a, b, c, CC",
        )
    ),
    ScalarOp("dp4a.atype.btype d:b32, a:b32, b:b32, c:b32", integers.dot),
    ScalarOp("dp2a.part.atype.btype d:b32, a:b32, b:b32, c:b32", integers.dot),
    *_rows(".type d, a", {"neg": np.negative, "abs": np.abs}, type="s16 s32 s64"),
    # Bits (9.7.1, 9.7.8, 9.7.9.7).
    *_rows(".type d, a, b", _LOGIC, type=f"pred {_RAW}"),
    ScalarOp("not.type d, a", np.invert, type=f"pred {_RAW}"),
    ScalarOp("cnot.type d, a", lambda _, a: (a == 0).astype(a.dtype), type=_RAW),
    ScalarOp("shl.type d, a, b:u32", lambda _, a, b: a << integers.amount(a, b), type=_RAW),
    ScalarOp("shr.type d, a, b:u32", lambda _, a, b: a >> integers.amount(a, b),
        type=f"{_RAW} {_WORDS}"),
    ScalarOp("popc.type d:u32, a", lambda _, a: integers.population(a).astype(np.uint32),
        type=_LONG_RAW),
    ScalarOp("clz.type d:u32, a", lambda _, a: (
        (8 * a.itemsize - 1 - integers.highest(a)).astype(np.uint32)), type=_LONG_RAW),
    ScalarOp("bfind{.shiftamt}.type d:u32, a", integers.find_highest, type=_LONG),
    ScalarOp("brev.type d, a", integers.reverse, type=_LONG_RAW),
    ScalarOp("bfe.type d, a, b:u32, c:u32", integers.extract, type=_LONG),
    ScalarOp("bfi.type d, a, b, c:u32, e:u32", integers.insert, type=_LONG_RAW),
    ScalarOp("szext.mode.type d, a, b:u32", lambda q, a, b: (
        a << (up := (np.uint32(32) - integers.length(q, b)).astype(a.dtype)) >> up), type=_WORD),
    ScalarOp("bmsk.mode.b32 d, a, b", lambda q, a, b: (
        integers.ones(integers.length(q, b), 32) << integers.length(q, a))),
    ScalarOp("lop3.b32 d, a, b, c, table:imm8", integers.look_up),
    ScalarOp("lop3.bool.b32 d|p:pred, a, b, c, table:imm8, e:pred", integers.look_up,
       bool="and or"),
    ScalarOp("fns.b32 d, a, b, c:s32", integers.find_nth),
    ScalarOp("shf.side.mode.b32 d, a, b, c", integers.funnel, side="l r"),
    ScalarOp("prmt.b32{.mode} d, a, b, c", integers.permute, mode=integers.PERMUTATIONS),
    # Floating point (9.7.3 to 9.7.5).
    *_rows("{.rnd}{.ftz}{.sat}.f32 d, a, b", _SUMS),
    *_rows("{.rnd}.f64 d, a, b", _SUMS),
    *_rows("{.rnd}{.ftz}.type d, a, b", _SUMS, type="f32x2", needs={"f32": 100}),
    ScalarOp("fma.rnd{.ftz}.type d, a, b, c", _FUSED["fma"], type="f32x2", needs={"f32": 100}),
    *_rows("{.rnd}{.sat}.type.origin d, a:origin, b", {
        name: floating.widening(_SUMS[name]) for name in ("add", "sub")}, **_MIXED),
    ScalarOp("fma.rnd{.sat}.type.origin d, a:origin, b:origin, c", floating.widening(_FUSED["fma"]),
       **_MIXED),
    *_rows("{.rnd}{.ftz}{.sat}.type d, a, b", _SUMS, rnd="rn", type=_HALF),
    *_rows("{.rnd}.type d, a, b", _SUMS, rnd="rn", type=_BHALF, needs={"bf16": 90}),
    *_rows(".rnd{.ftz}{.sat}.f32 d, a, b, c", _FUSED),
    *_rows(".rnd.f64 d, a, b, c", _FUSED),
    ScalarOp("fma.rnd{.ftz}{.sat}{.relu}.type d, a, b, c", _FUSED["fma"], rnd="rn", type=_HALF),
    ScalarOp("fma.rnd{.relu}.type d, a, b, c", _FUSED["fma"], rnd="rn", type=_BHALF, needs=_SM_80),
    ScalarOp("div.rnd{.ftz}.f32 d, a, b", _DIVISION),
    ScalarOp("div.rnd.f64 d, a, b", _DIVISION),
    *_rows(".rnd{.ftz}.f32 d, a", _QUOTIENTS),
    *_rows(".rnd.f64 d, a", _QUOTIENTS),
    # Those whose error alone the ISA bounds: a stand-in (`APPROXIMATE`).
    ScalarOp("div.how{.ftz}.f32 d, a, b", _NEAR, how="approx full"),
    *(ScalarOp(f"{name}.approx{{.ftz}}.f32 d, a", _NEAR)
      for name in ("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2")),
    ScalarOp("rcp.approx.ftz.f64 d, a", _NEAR, ftz="ftz"),
    ScalarOp("rsqrt.approx{.ftz}.f64 d, a", _NEAR),
    ScalarOp("tanh.approx.type d, a", _NEAR, type=f"f32 {_HALF} {_BHALF}",
       needs={"f32": 75, "f16": 75, "bf16": 90}),
    ScalarOp("ex2.approx.type d, a", _NEAR, type=_HALF, needs={"f16": 75}),
    ScalarOp("ex2.approx.ftz.type d, a", _NEAR, type=_BHALF, needs={"bf16": 90}),
    *_rows("{.ftz}.type d, a", _SIGNS, type=f"f32 {_HALF}"),
    *_rows(".type d, a", _SIGNS, type=f"f64 {_BHALF}", needs=_SM_80),
    *_rows("{.ftz}{.NaN}{.xorsign.abs}.f32 d, a, b{, c}", _LEAST),
    *_rows(".f64 d, a, b", _LEAST),
    *_rows("{.ftz}{.NaN}{.xorsign.abs}.type d, a, b", _LEAST, type=_HALF, needs=_SM_80),
    *_rows("{.NaN}{.xorsign.abs}.type d, a, b", _LEAST, type=_BHALF, needs=_SM_80),
    ScalarOp("copysign.type d, a, b", lambda q, a, b: (
        (b & ~floating.sign_of(q, a)) | (a & floating.sign_of(q, a))), type="f32 f64"),
    ScalarOp("testp.kind.type p:pred, a", floating.is_of_kind, type="f32 f64",
       kind=" ".join(floating.KINDS)),
    # Comparisons (9.7.6). Of integers, most are for one predicate and combined with nothing.
    *(
        ScalarOp(f"setp.{name}.type p:pred, a, b", compute, type=types)
        for names, _, types, *_ in _COMPARISONS[:3]
        for name, compute in integers.COMPARE.items()
        if name in names.split()
    ),
    *(
        ScalarOp(f"{opcode}, a, b{more}", compute, cmp=names, type=types, dtype=results)
        for names, ftz, types, second, results in _COMPARISONS
        for boolean, more in (("", ""), (".bool", ", c:pred"))
        for opcode, compute in (
            (f"setp.cmp{boolean}{ftz}.type p:pred{second}", floating.set_predicates),
            (f"set.cmp{boolean}{ftz}.dtype.type d:dtype", floating.set_word),
        )
    ),
    # Conversions (9.7.9.23).
    ScalarOp("cvt.to.origin d:to+, a:origin+", floating.integer_to_integer, to=_INTEGERS,
       origin=_INTEGERS),
    *(
        ScalarOp("cvt{.sat}.to.origin d:to+, a:origin+", floating.integer_to_integer, to=to,
           origin=" ".join(each for each in _INTEGERS.split() if floating.exceeds(each, to)))
        for to in _INTEGERS.split()
    ),
    *(
        ScalarOp(f"cvt{more}{ftz}{sat}.to.origin d:to+, a:origin+", compute, to=to, origin=origin)
        for compute, more, pairs in (
            (floating.integer_to_float, ".rnd", product(_FLOATS, (_INTEGERS,))),
            (floating.float_to_integer, ".irnd", product((_INTEGERS,), _FLOATS)),
            (floating.float_to_float, ".rnd", (*_NARROWER, ("f32", "bf16"), ("f64", "bf16"))),
            (floating.float_to_float, "", (each[::-1] for each in _NARROWER[:-2])),
            (floating.float_to_float, "{.irnd}", zip(_FLOATS, _FLOATS, strict=True)),
        )
        for to, origin in pairs
        # Single precision alone is flushed; bf16 has no .sat.
        for ftz in ("{.ftz}" if "f32" in (to, origin) else "",)
        for sat in ("{.sat}" if "bf16" not in (to, origin) else "",)
    ),
    *(
        ScalarOp(f"cvt.rnd{{.satfinite}}{{.relu}}.to.origin d:to, a:origin{more}", compute, to=to,
           origin="f32", rnd=rounding)
        for to, rounding, compute, more in (
            ("f16 bf16", "rn rz", floating.narrowed, ""),
            ("tf32", "rna rn rz", floating.narrowed, ""),
            ("f16x2 bf16x2", "rn rz", floating.narrowed_pair, ", b:origin"),
        )
    ),
    *(
        ScalarOp(f"cvt.rnd.satfinite{{.relu}}.to.origin d:to, a:origin{more}", compute,
           to="e4m3x2 e5m2x2", origin=origin, rnd="rn", needs=dict.fromkeys((origin, "f16"), 89))
        for origin, compute, more in (
            ("f32", floating.narrowed_pair, ", b:origin"),
            ("f16x2", lambda q, a: (
                floating.narrowed_pair(q, *np.moveaxis(integers.parts(a, "u2"), -1, 0)[::-1])), ""),
        )
    ),
    ScalarOp("cvt.rnd{.relu}.to.origin d:to, a:origin", floating.widened_bytes, to="f16x2",
       origin="e4m3x2 e5m2x2", rnd="rn", needs={"e4m3": 89, "e5m2": 89}),
    ScalarOp("cvt.pack.sat.to.origin d:b32, a:s32, b:s32", integers.pack, to="u16 s16",
        origin="s32"),
    ScalarOp("cvt.pack.sat.to.origin.b32 d:b32, a:s32, b:s32, c:b32", integers.pack,
       to="u2 s2 u4 s4 u8 s8", origin="s32"),
    # Video (9.7.18).
    *(
        ScalarOp(f"{name}.{kinds}{more} d:u32, a:u32, b:u32{c}", decode=video, **_VIDEO)
        for names, kinds, more, c in (
            (integers.VIDEO, "dtype.atype.btype", "{.sat}{.second}", "{, c:u32}"),
            (integers.PACKED_VIDEO, "dtype.atype.btype", "{.sat}", ", c:u32"),
            (integers.PACKED_VIDEO, "dtype.atype.btype", "{.add}", ", c:u32"),
            (("vset",), "atype.btype.cmp", "{.second}", "{, c:u32}"),
            (("vset2", "vset4"), "atype.btype.cmp", "{.add}", ", c:u32"),
            (("vmad",), "dtype.atype.btype", "{.po}{.sat}{.scale}", ", c:u32"),
            (("vshr",), "dtype.atype.u32", "{.sat}.mode{.second}", "{, c:u32}"),
        )
        for name in names
    ),
    # The page does not say how many bits of a left shift are clamped or compared.
    ScalarOp("vshl.dtype.atype.u32.mode{.second} d:u32, a:u32, b:u32{, c:u32}", decode=video,
       **_VIDEO | {"second": "add"}),
    # The lanes of a warp (9.7.9.6, 9.7.13).
    ScalarOp("shfl.sync.mode.b32 d{|p:pred}, a, b, c, m", integers.shuffle, lanes=True,
       mode="up down bfly idx"),
    *(ScalarOp(syntax, compute, lanes=True, until=70, mode=modes) for syntax, compute, modes in (
        ("shfl.mode.b32 d{|p:pred}, a, b, c", integers.shuffle, "up down bfly idx"),
        ("vote.mode.pred p:pred, a:pred", integers.vote, "all any uni"),
        ("vote.ballot.b32 d, a:pred", integers.ballot, ""),
    )),
    ScalarOp("vote.sync.mode.pred p:pred, a:pred, m", integers.vote, lanes=True,
        mode="all any uni"),
    ScalarOp("vote.sync.ballot.b32 d, a:pred, m", integers.ballot, lanes=True),
    ScalarOp("activemask.b32 d", integers.ballot, lanes=True, otherwise=lambda _, part: (
        # Who is active beside a lane is open (9.7.13.9).
        np.broadcast_to(integers.LANE_BITS, part.shape).astype(np.uint32))),
    ScalarOp("elect.sync d:u32|p:pred, m", integers.elect, lanes=True,
       otherwise=partial(integers.elect, highest=True)),
    ScalarOp("elect.sync p:pred, m", lambda q, part: integers.elect(q, part)[1], lanes=True,
       otherwise=lambda q, part: integers.elect(q, part, highest=True)[1]),
    ScalarOp("redux.sync.name.type d, a, m", integers.reduce, lanes=True, name="add min max",
        type=_WORD),
    ScalarOp("redux.sync.name.b32 d, a, m", integers.reduce, lanes=True, name="and or xor"),
    ScalarOp("redux.sync.name{.abs}{.NaN}.type d, a, m", floating.among_lanes, lanes=True,
        name="min max",
       type="f32", needs={"f32": 100}),
    ScalarOp("match.mode.sync.type d:u32, a, m", integers.match, lanes=True, mode="any all",
       type=_LONG_RAW),
    ScalarOp("match.mode.sync.type d:u32|p:pred, a, m", integers.match, lanes=True, mode="all",
       type=_LONG_RAW),
    ScalarOp("bar.warp.sync m", lanes=True),
)  # fmt: skip
"""Every instruction that is known. Where several fit, the first is taken."""
APPROXIMATE = re.compile(r"\w+\.(?:approx|full)\b")
"""Instructions of which the ISA bounds the error, and does not say the bits."""
_BY_STEM: dict[str, list[ScalarOp]] = {}
for _row in ROWS:
    _BY_STEM.setdefault(_row.stem, []).append(_row)


_TYPE = re.compile(r"(?:[busf]|bf|tf)\d+(?:x2)?|e\dm\dx2|pred")
_MOST_WORDS = 6
"""Most words of an opcode whose orders are tried."""


def _orders(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Give qualifiers in every order that leaves types in theirs, the given one first.

    So ptxas reads them, and headers have min.s16x2.relu.
    """
    yield tuple(words)
    types = [word for word in words if _TYPE.fullmatch(word)]
    for order in permutations(words) if len(words) <= _MOST_WORDS else ():
        if [word for word in order if _TYPE.fullmatch(word)] == types:
            yield order


@lru_cache(maxsize=4096)
def rows_of(opcode: str) -> tuple[tuple[ScalarOp, Qualifiers, list[OperandSlot]], ...]:
    """Return the rows that an opcode has, its qualifiers and the operands that these ask for."""
    stem, *given = opcode.split(".")
    rows = _BY_STEM.get(stem, [])
    for words in _orders(given) if rows else ():
        opcode, found = ".".join((stem, *words)), []
        last = next((word for word in reversed(words) if word in TYPE_BITS), "")
        for row in rows:
            if match := row.pattern.fullmatch(opcode):
                named = {name: text.lstrip(".") for name, text in match.groupdict("").items()}
                q = Qualifiers({"op": stem, "type": last} | named)
                q["element"] = q["type"].removesuffix("x2")
                found.append((row, q, [slot.of(q) for slot in row.slots]))
        if found:
            return tuple(found)
    return ()


def decode(operands: OperandReader) -> tuple[Operation, Source | None] | None:
    """Return what an instruction does, and the lanes that wait for each other at it.

    None if it is none of these.
    """
    given = operands.instruction.operands
    found = rows_of(operands.instruction.opcode)
    for row, q, slots in found:
        if given and row.fits(given):
            members = operands.source(given[-1], 32) if row.waits else None
            return row.decode(operands, q, slots), members
    if found:
        operands.expect(*sorted({count for row, _, _ in found for count in row.counts}))
        operands.unsupported("p|q is not what it writes, or what it has to write")
    for pattern, why in _OPEN.items():
        if re.fullmatch(pattern, operands.instruction.opcode):
            operands.unsupported(why)
    return None
