"""Writes docs/record.md, and the tables of docs/findings.md, from the record that ships.

Usage:

    python docs/record.py [VERSION-OR-PATH...]

Assemblers that are named are asked first, and their answers are kept in corpus/record.
"""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from corpus import Entry, Kind
from corpus.opening import FOLDER, RECORD, Answers, named_corpus, read_answers, write_answers
from fuzz.findings.families import accused
from fuzz.findings.probes import ask, words_of
from fuzz.kinds import KINDS, compiler_words
from oracle.isa import SHAPES
from runners.assemblers.assembler import Assembler
from runners.compilers import find_assembler

RECORD_PAGE, TROPHIES = (Path(__file__).with_name(name) for name in ("record.md", "findings.md"))
_TITLES = {
    Kind.CRASH: "Crashes",
    Kind.HANG: "Hangs",
    Kind.INTERNAL: "Internal errors",
    Kind.ACCEPTED: "Accepted, down to a cubin, although undocumented",
    Kind.REJECTED: "Rejected, although documented",
}


@dataclass(frozen=True, kw_only=True)
class Bug:
    """A bug that gives wrong results, as a line of the page of trophies."""

    unit: str
    what: str
    section: str
    """What the heading of its details on the page begins with."""
    ids: tuple[str, ...] = ()
    """Beginnings of the ids of its findings in the record; the first says who has it."""
    who: str = ""
    """Who has it, where more is known than the builds that the record's finding was asked of."""
    since: str = "14.0.6 or earlier"
    """Since when, where the record has no finding of it."""
    see: str = ""
    """The command that shows it, where the record has no finding of it."""


_LLVM = (
    "`warpfuzz run --runner sim --front-end llvm:{} --target sm_80 --ptx-version 7.1 --seed 3 {}`"
)
_BUGS = (
    Bug(
        unit="wmma.mma of f16, bf16, s8, tf32", what="D in registers of A or B: half of D is wrong",
        section="D in the registers of A or B",
        ids=("a42a7e52", "4a55e2d0", "e309fff8", "a330f3ef", "aab1ca38"),
    ),
    Bug(
        unit="wmma.mma of f16, bf16, s8, tf32",
        what="C has D's registers in another order: part of C is overwritten before it is added",
        section="C in another order of D's registers (wmma", ids=("3d765d0f",),
    ),
    Bug(
        unit="mma.sync, mma.sp of e4m3, e5m2",
        what="C has D's registers in another order: later additions read earlier sums",
        section="C in another order of D's registers (mma", ids=("b884f655", "4c2cee8a"),
    ),
    Bug(
        unit="mma.sync, mma.sp of e4m3, e5m2",
        what="D in C's registers: D is twice A x B, C is lost",
        section="C is lost where D has its registers", ids=("49c3d7f4", "98e7ef05"),
    ),
    Bug(
        unit="wmma.mma of f16, f32 sums", what="the sign of a negated A or B is lost on sm_90",
        section="A negation is lost", ids=("691466f5", "69f82e72", "88f1af40"),
    ),
    *(
        Bug(
            unit=unit, what=what, section=section, since="11.7.99 or earlier",
            who="ptxas 11.7.99 to 13.5.37 at -O0 to -O3",
            see=f"`python benchmarks/scalar_agreement.py --runner cuda {options}`, on a GPU",
        )
        for unit, what, section, options in (
            (
                "testp", "under a predicate: lanes whose predicate is false write, too",
                "The predicate in front of testp", "--guarded --only 'testp.*'",
            ),
            (
                "set to f32, f16, and from 16 bits to u32",
                "under a predicate: the old value of lanes whose predicate is false is converted",
                "A set without its predicate", "--guarded --only 'set.*'",
            ),
            (
                "shl, shr of 64 bits",
                "an amount that an f32 instruction wrote is converted to an integer",
                "The amount of a 64-bit shift", "--numbers --only 'sh[lr].*64'",
            ),
            (
                "bfe, bfi of 64 bits", "positions and lengths are not reduced to their 8 low bits",
                "Positions of 64-bit fields", "--only 'bf[ei].*64'",
            ),
            (
                "cvt of f32 to f16 by .rm or .rp", ".ftz does not flush subnormal inputs",
                "cvt.ftz to f16", "--only 'cvt.r[mp].ftz*.f16.f32'",
            ),
            (
                "cvt.rna to tf32", "a NaN with a low payload becomes infinity",
                "A NaN becomes infinity", "--only 'cvt.rna*'",
            ),
        )
    ),
    *(
        Bug(
            unit=unit, what=what, section=section, since="11.8.89 or earlier", ids=(found,),
            who=f"ptxas 11.8.89 to {last} at -O1 to -O3",
        )
        for unit, what, section, last, found in (
            (
                "bfe.s32", "a constant position above 31 gives -1 for everything",
                "bfe.s32 with a constant", "13.4.92", "a8997f2b",
            ),
            (
                "bfi.b32", "a constant length above 31 is taken modulo 32",
                "bfi.b32 takes a constant", "13.3.73", "128a5e25",
            ),
            (
                "shl.b64, shr.u64, sub.s64", "the difference of two shifts becomes a rotation",
                "A difference of two shifts", "13.2.86", "ae98bf0a",
            ),
            (
                "setp with .ftz",
                "a comparison that the compiler repeats does not flush subnormals",
                "A comparison that is repeated", "13.5.37", "2f131bab",
            ),
        )
    ),
    Bug(
        unit="abs of f16x2, bf16x2",
        what="left out after an f32 with .sat: the lower half keeps its sign",
        section="The absolute values of the halves of a saturated f32", ids=("457233a4",),
    ),
    Bug(
        unit="set to f16, bf16", what="the other half of the register is not 0",
        section="set to f16 and bf16", ids=("8f983174",),
    ),
    Bug(
        unit="add, sub, mul, fma with .ftz of f16x2",
        what="a max with 0 after it makes the compiler drop .ftz",
        section="A sum with .ftz in front of a maximum with 0", ids=("dcc58354",),
    ),
    Bug(
        unit="sub.sat.s32", what="subtracting the least number (-2^31) adds it",
        section="sub.sat.s32 of the least number", ids=("0750f349",),
    ),
    Bug(
        unit="a loop in an arm of a branch",
        what="the predicate is taken for constant, although the loop changes it",
        section="What a branch says of a predicate", ids=("3f296c11", "4416ccef"),
    ),
    Bug(
        unit="a loop that lanes enter at two places", what="the lanes share one counter",
        section="A loop that lanes enter at two places", ids=("614ed7e6", "12e24013"),
        who="ptxas 11.8.89 to 12.1.105 at -O1 to -O3; 12.2.140 to 13.5.37, where it counts down "
        "from a constant",
        since="11.8.89 or earlier",
    ),
    Bug(
        unit="stmatrix, vote.sync, bar.warp.sync",
        what="beside a loop that lanes enter at two places: the lanes do not converge",
        section="Lanes that a loop leaves apart", ids=("49dbfe8a",),
        who="ptxas 12.5.82 to 13.5.37 at -O1 to -O3", since="12.5.82",
    ),
    Bug(
        unit="mma.sync, mma.sp of e4m3, e5m2",
        what="a constant multiplicand: half of a register gets another number",
        section="A multiplicand of fp8", ids=("19c7b6f1", "09bdf6a7"),
    ),
    Bug(
        unit="or.pred",
        what="both sources are one predicate: its new value is read, not the old one",
        section="A copy of a predicate", ids=("918f59a7",),
    ),
    Bug(
        unit="cvt of u32 to bf16",
        what="of the result of a set to f32: the integer 0x3f800000 is taken for 1.0",
        section="A set to f32, converted", ids=("b9289b49",),
    ),
    Bug(
        unit="cvt of f32 to s64, u64, f64, and in some loops to others",
        what="of 1 or 0 that a predicate chose: the pattern 1 is taken for the number 1",
        section="1 or 0, converted from f32", since="11.8.89 or earlier",
        who="ptxas 11.8.89 to 13.5.37 at -O1 to -O3",
        see="seed 33 of `docs/same_ptx.py`, on a GPU",
    ),
    Bug(
        unit="cvt.u32.u16",
        what="of a result of cvt.sat.s16, or of cvt.sat.s8 under a predicate: left out, so that "
        "the upper half is the sign or what was there",
        section="A saturated s16", since="13.1.115",
        who="ptxas 13.1.115 to 13.4.92 at -O1 to -O3",
        see="seed 41 of `docs/same_ptx.py`, on a GPU",
    ),
    Bug(
        unit="lop3.b32, xor.b32", what="merged into one instruction that computes another function",
        section="lop3 of one source twice", ids=("bf0d6aa8",),
        who="ptxas 11.8.89 to 13.3.73 at -O1 to -O3", since="11.8.89 or earlier",
    ),
    Bug(
        unit="copysign",
        what="of one register twice, and and or xor behind it: merged into one instruction that "
        "computes another function",
        section="lop3 of one source twice", ids=("4fe92c5a",), since="12.0.140",
        who="ptxas 12.0.140 to 13.3.73 at -O1 to -O3, and the driver's compiler",
    ),
    Bug(
        unit="slct.s32.s32",
        what="by a number that neg made: the least number is not below 0",
        section="slct of a negative number", since="11.7.99 or earlier",
        who="ptxas 11.7.99 to 13.5.37 at -O1 to -O3",
        see="seed 42 of `docs/same_ptx.py`, on a GPU",
    ),
    Bug(
        unit="setp, slct of f32",
        what="with 0, behind a branch or a loop with neg.s32, abs.s32 or cnot.b32: the sign is "
        "changed as that of an f32",
        section="A negative integer of a branch", since="11.7.99 or earlier",
        who="ptxas 11.7.99 to 13.5.37 at -O1 to -O3",
        see="seed 42 of `docs/same_ptx.py`, on a GPU",
    ),
    Bug(
        unit="selp.f32",
        what="by a predicate that a branch says, in a loop that unrolls: it reads one that nothing "
        "sets",
        section="selp.f32 by a predicate that a branch says", since="11.8.89",
        who="ptxas 11.8.89 and 12.0.140 at -O1 to -O3; 12.1.105 and 12.2.140 crash",
        see="seed 42 of `docs/same_ptx.py`, on a GPU",
    ),
    Bug(
        unit="mul.lo.s32, mul.lo.u32",
        what="the product of two odd numbers is even, where its lowest bit alone is asked for",
        section="The product of two odd numbers", since="13.4.92",
        who="ptxas 13.4.92 and 13.5.37 at -O1 to -O3",
        see="seed 42 of `docs/same_ptx.py`, on a GPU",
    ),
    Bug(
        unit="add, mul, max of f16x2, bf16x2",
        what="both sources are a constant of which one half is -0: it is 0 in one of them",
        section="-0 in half of a constant", since="12.5.82",
        who="ptxas 12.5.82 to 12.8.93 at -O1 to -O3",
        see="seed 42 of `docs/same_ptx.py`, on a GPU",
    ),
    Bug(
        unit="add.sat.s32, sub.sat.s32",
        what="of a sum or difference with the same register: that cancels, and nothing saturates",
        section="A saturating sum that cancels", since="11.7.99 or earlier",
        who="ptxas 11.7.99 to 13.3.73 at -O1 to -O3, and the driver's compiler",
        see="the machine code",
    ),
    Bug(
        unit="add.sat.s32, sub.sat.s32",
        what="of a constant and of a sum with another: they are added, and nothing wraps around",
        section="Two constants of a saturating sum", ids=("d1fccb98",),
        since="11.7.99 or earlier",
        who="ptxas 11.7.99 to 13.5.37 at -O1 to -O3, and the driver's compiler",
    ),
    Bug(
        unit="cvt to s64 or u64 from f16, bf16, f32, and cvt.sat to 32 bits",
        what="of a NaN: converted to 32 bits at once, which gives 0",
        section="A NaN that becomes 64 bits and saturates to 32", ids=("4c5a39c9",),
        who="ptxas 12.4.131 to 13.5.37 at -O1 to -O3, and the driver's compiler", since="12.4.131",
    ),
    Bug(
        unit="add, sub, mul, fma, min, max, set of f16x2, bf16x2",
        what="of a register that a branch tells to be a constant: both halves are its lower half",
        section="Halves of a constant that a branch tells", ids=("93b3ccc5",),
        who="ptxas 11.7.99 to 13.3.73 at -O1 to -O3, and the driver's compiler",
        since="11.7.99 or earlier",
    ),
    Bug(
        unit="mad.hi",
        what="left out behind one with another addend, under one predicate or in a loop that "
        "unrolls",
        section="A mad.hi with another addend", ids=("a8aa182b",), since="11.7.99 or earlier",
        who="ptxas 11.7.99 to 13.3.73 at -O1 to -O3, and the driver's compiler",
    ),
    Bug(
        unit="cvt.rn, cvt.rz to tf32",
        what="of a result of f16x2 or bf16x2: the upper half is what a register held before",
        section="Half of a register is converted to tf32", ids=("9168abff",),
        who="ptxas 12.3.107 to 13.5.37 at -O1 to -O3", since="12.3.107",
    ),
    Bug(
        unit="cnot.b32, xor.b32",
        what="of a cnot and a mask that a predicate chooses: negated behind the xor, not before it",
        section="A cnot and the xor with a mask", ids=("79b33306",), since="11.7.99 or earlier",
        who="ptxas 11.7.99 to 13.5.37 at -O1 to -O3",
    ),
    Bug(
        unit="shr.s16", what="by a cnot.b32: the amount is 0xffff8000, not 1",
        section="The amount of a 16-bit shift", ids=("7beaa852",), since="11.8.89 or earlier",
        who="ptxas 11.8.89 to 13.5.37 at -O1 to -O3, and the driver's compiler",
    ),
    Bug(
        unit="set with .ftz, and a comparison of its mask with 0",
        what="made one comparison, which does not flush subnormals",
        section="A mask that is compared with 0 loses .ftz", ids=("c0f7e6b0",),
        who="ptxas 11.7.99 to 13.5.37 at -O1 to -O3, and the driver's compiler",
        since="11.7.99 or earlier",
    ),
    Bug(
        unit="set.eq.and, set.eq.or of a mask and 0",
        what="the predicate is negated with the mask, or nothing has set what is read",
        section="A mask that is compared with 0, and a predicate", ids=("5a55df11",),
        who="ptxas 11.7.99 to 13.5.37 at -O1 to -O3, and the driver's compiler",
        since="11.7.99 or earlier",
    ),
    Bug(
        unit="neg.f16x2, abs.f16x2",
        what="of both sources of min or max with .xorsign: left out of the first",
        section="One of two negations in front of .xorsign", ids=("e3018b80",), since="12.5.82",
        who="ptxas 12.5.82 to 13.3.73 at -O1 to -O3, and the driver's compiler",
    ),
    Bug(
        unit="mad.lo.s64, mad.lo.u64",
        what="taken for another multiple of the same register, if the factors are equal modulo "
        "2^32",
        section="Factors of 64 bits are compared modulo 2^32", ids=("2e6d0137",),
        who="ptxas 11.7.99 to 13.3.73 at -O1 to -O3, and the driver's compiler",
        since="11.7.99 or earlier",
    ),
    Bug(
        unit="shl.b16, shr.u16", what="by a cnot.b32: the amount is what another register holds",
        section="The amount of a 16-bit shift", ids=("af752280",), since="11.7.99 or earlier",
        who="ptxas 11.7.99 to 13.5.37 at -O1 to -O3",
    ),
    *(
        Bug(
            unit=unit, what=what, section=section, ids=ids, since="11.7.99 or earlier",
            who="ptxas 11.7.99 to 13.5.37 at -O1 to -O3, and the driver's compiler",
        )
        for unit, what, section, ids in (
            (
                "madc.hi of 64 bits",
                "with a carry that is known to be 0: the product and the addend are lost",
                "madc.hi of 64 bits adds its second factor", ("eb66768c",),
            ),
            (
                "shl.b64 of a product with a constant, or of one plus a constant",
                "by a constant of 64 or more: not shifted, rather than 0",
                "A product with a constant is not shifted by 64", ("b7c3cc9b",),
            ),
            (
                "neg.ftz.f32, abs.ftz.f32",
                "taken for one without .ftz in a branch before it, or that for it in a branch "
                "behind it: subnormals are not flushed, or are",
                "neg.ftz.f32 is taken for neg.f32", ("3a59b494",),
            ),
        )
    ),
    Bug(
        unit="cvt.s64.u32", what="in front of a shl.b64 by a constant: the sign is extended",
        section="cvt.s64.u32 extends the sign", ids=("b5a3bb47",), since="11.7.99 or earlier",
        who="ptxas 11.7.99 to 13.5.37 at -O1 to -O3, and the driver's compiler",
    ),
    Bug(
        unit="mad.hi", what="an addend that redux.sync computed is lost",
        section="mad.hi loses an addend", since="11.8.89 or earlier",
        who="ptxas 11.8.89 to 12.4.131 at -O1 to -O3",
        see="seed 34 of `docs/same_ptx.py`, on a GPU",
    ),
    Bug(
        unit="match.all, redux.sync", what="lane 0 does not converge with the others before it",
        section="Lanes are not joined before match.all", since="12.6.85",
        who="ptxas 12.6.85 to 12.9.86 at -O1 to -O3",
        see="seed 35 of `docs/same_ptx.py`, on a GPU",
    ),
    Bug(
        unit="min.f32, max.f32", what="min with 1 and max with 0 become .sat: NaN gives 0, not 1",
        section="A minimum with 1 and a maximum with 0", since="11.8.89 or earlier",
        who="ptxas 11.8.89 to 13.5.37 at -O1 to -O3", see="the machine code of the three lines",
    ),
    Bug(
        unit="mma.sync, mma.sp",
        what="moved between two stores of some lanes: reached by those lanes only",
        section="mma.sync under a condition that differs between lanes",
        who="LLVM 14.0.6, 15.0.7 and 22.1.0 at -O1 to -O3, not 20.1.8",
        see=_LLVM.format("22", "--opt 2"),
    ),
    Bug(
        unit="ldmatrix",
        what="copied into both sides of a condition on the lane: each copy is reached "
        "by half of the lanes",
        section="ldmatrix doubled for both ways of a lane's condition",
        who="LLVM 20.1.8 at -O1 to -O3, not 14.0.6, 15.0.7 and 22.1.0",
        since="20.1.8",
        see=_LLVM.format("20", "--opt 2"),
    ),
    Bug(
        unit="wmma.load, wmma.store, wmma.mma",
        what="copied into both sides of a condition on the lane, in the same way",
        section="wmma.store and wmma.mma doubled in the same way",
        who="LLVM 14.0.6, 15.0.7, 20.1.8 and 22.1.0 at -O1 to -O3",
        see=_LLVM.format("22", "--opt 2"),
    ),
    Bug(
        unit="mma.sync, ldmatrix",
        what="moved to where some lanes store the result: reached by those lanes only",
        section="mma.sync and ldmatrix sunk under a lane's condition",
        who="LLVM 14.0.6 and 15.0.7 at -O1 to -O3, right from 20.1.8",
        see=_LLVM.format("14", "--opt 0,1,2,3 --only 'mma.sync*'"),
    ),
    Bug(
        unit="mma.sync of f16", what='the compiler aborts: "Cannot select: v2f16 = bitcast"',
        section="Crash of LLVM 14", who="LLVM 14.0.6 at -O1 to -O3, right from 15.0.7",
        see=_LLVM.format("14", "--opt 0,1,2,3 --only 'mma.sync*'"),
    ),
)  # fmt: skip
"""Bugs that need a person to say what is wrong; who has them is said by the record, where it has a
finding. LLVM's were bisected on 2026-11-22; each command ended with 1 on two cores, 2026-11-23."""
_TABLE = ("| unit | what is wrong | compilers | since | see it |", "|---|---|---|---|---|")
MARKS = ("<!-- written by docs/record.py -->\n", "<!-- end -->\n")
"""What stands around the tables on the page of trophies."""


def anchor(section: str, lines: Iterable[str]) -> str:
    """Return the link to the heading of a page that begins with some words."""
    (heading,) = (one for one in lines if one.startswith(f"### {section}"))
    return "#" + re.sub(r"[^\w\- ]", "", heading[4:].lower()).replace(" ", "-")


def trophies(entries: Sequence[Entry], answers: Answers, details: Sequence[str]) -> Iterator[str]:
    """Yield the tables of the page of trophies, in Markdown.

    Parameters
    ----------
    details
        The other lines of the page; those of the tables lead to its headings.
    """
    told = {one.id: one for one in entries if not answers.of(one.id)}
    yield from ("## Wrong results, and code that some lanes alone reach", "", *_TABLE)
    for bug in _BUGS:
        who, since, see = bug.who, bug.since, bug.see
        for start in reversed(bug.ids):
            (found,) = (told.pop(one) for one in list(told) if one.startswith(start))
            text = str(found.finding.details.get("disagree with the oracle", ""))
            if text and not bug.who:
                who = compiler_words(text).replace("driver", "the driver's compiler")
                since = f"{text.removeprefix('V').partition(' ')[0]} or earlier"
            see = f"`warpfuzz bisect {start} --corpus record`, on a GPU"
        link = anchor(bug.section, details)
        yield f"| {bug.unit} | [{bug.what}]({link}) | {who} | {since} | {see} |"
    assert not told, f"add what is wrong to _BUGS: {', '.join(told)}"
    yield from ("", "## Assemblers: crashes, internal errors, wrong verdicts", "", *_TABLE)
    lines: dict[tuple[Kind, str, str], list[Entry]] = defaultdict(list)
    for entry in sorted(entries, key=lambda one: one.finding.identity.text):
        if spans := answers.spans(entry.id):
            mnemonic = re.match(r"wmma\.\w+|\w+", _instruction(entry))
            lines[entry.finding.kind, mnemonic[0] if mnemonic else "", spans].append(entry)
    for (kind, _, spans), found in sorted(
        lines.items(), key=lambda line: (-line[0][0].severity, *line[0][1:])
    ):
        first = next(one for one in spans.split("; ") if not one.startswith("rejected"))
        since = first.rpartition(" ")[2].partition("–")[0]
        oldest = "" if spans.startswith("rejected") else " or earlier"
        units, see = _shapes_together(map(_instruction, found)), found[0].id[:8]
        yield (
            f"| {units} | {KINDS[kind].shown or kind} | {spans} | {since}{oldest} | "
            f"`warpfuzz bisect {see} --corpus record` |"
        )


def _instruction(entry: Entry) -> str:
    """Return what an assembler was given, as the family says it: "wmma.load.a .f64 m16n16k8"."""
    return ", ".join(entry.finding.identity.instructions)


def _shapes_together(names: Iterable[str]) -> str:
    """Name instructions, those that differ in the shape alone together."""
    shapes: dict[str, list[str]] = defaultdict(list)
    for name in names:
        words = name.replace(",", " ,").split()
        shape = [word for word in words if word in SHAPES]
        rest = " ".join(word for word in words if word not in SHAPES).replace(" ,", ",")
        shapes[rest.replace(",,", ",")] += shape
    return "; ".join(" ".join((rest, *of)) for rest, of in shapes.items())


def record_page(entries: Iterable[Entry], answers: Answers) -> Iterator[str]:
    """Yield the lines of the page, in Markdown."""
    asked: dict[Kind, list[Entry]] = defaultdict(list)
    ran: list[Entry] = []
    for entry in entries:
        (asked[entry.finding.kind] if answers.of(entry.id) else ran).append(entry)
    modules = sum(map(len, asked.values()))
    yield from (
        "# Record of what campaigns found in ptxas",
        "",
        f"{modules} findings of assemblers and {len(ran)} of programs on a GPU, in "
        "[corpus/record](../corpus/record), installed with the package.",
        f"Tried were ptxas {', '.join(answers.asked)}.",
        "`warpfuzz replay record --compiler ./new/ptxas` says which of them a new ptxas mends,",
        "keeps or changes; `warpfuzz corpus show ID --corpus record` shows one finding.",
        "`python docs/record.py` writes this page; it first tries the assemblers that are named,",
        "and records their answers. Every module is assembled at -O3 as it is, but for two lines:",
        "if an assembler does not know `.version`, its highest stands there; sm_80 stands for a",
        "`.target` that it does not know.",
    )
    for kind, title in _TITLES.items():
        if asked[kind]:
            yield from (
                "",
                f"## {title}",
                "",
                "| instruction | target | answers | finding |",
                "|---|---|---|---|",
            )
        for entry in sorted(asked[kind], key=lambda one: one.finding.identity.text):
            yield _row(entry, entry.finding.instructions[0], answers.spans(entry.id))
    if ran:
        yield from (
            "",
            "## Wrong results",
            "",
            "Programs on an H200 or an H100, and the compilers and levels whose binaries give a "
            "wrong result.",
            "",
            "| instruction | target | wrong with | finding |",
            "|---|---|---|---|",
        )
    for entry in sorted(ran, key=lambda one: one.finding.identity.text):
        opcodes = [
            text for text in entry.finding.instructions if text.startswith(("wmma.mma", "mma."))
        ]
        details = entry.finding.details
        asked = compiler_words(str(details["compiler"]).removeprefix("ptxas "))
        told = details.get("disagree with the oracle", asked)
        yield _row(entry, (*opcodes, accused(entry.finding))[0], str(told))


def _row(entry: Entry, instruction: str, told: str) -> str:
    text = instruction.replace("|", "\\|")
    return f"| `{text}` | {entry.finding.target} | {told} | {entry.id} |"


def with_answers_of(
    assembler: Assembler, answers: Answers, entries: Sequence[Entry], *, jobs: int
) -> Answers:
    """Return the answers of a record with those of one more assembler, `jobs` asked at a time."""
    name = assembler.version.removeprefix("V")
    entries = [entry for entry in entries if answers.of(entry.id)]
    with ThreadPoolExecutor(jobs) as pool:
        said = list(pool.map(lambda entry: words_of(ask(assembler, entry)), entries))
    told = {
        entry.id: dict(zip(answers.asked, answers.of(entry.id), strict=True)) | {name: one}
        for entry, one in zip(entries, said, strict=True)
    }
    order = sorted({*answers.asked, name}, key=lambda one: [int(part) for part in one.split(".")])
    return Answers(
        asked=tuple(order),
        answers={id_: tuple(row[one] for one in order) for id_, row in told.items()},
    )


def main() -> None:
    """Write both pages."""
    entries = list(named_corpus(Path(RECORD)).entries(lambda problem: sys.exit(problem.sentence)))
    answers = read_answers()
    for name in sys.argv[1:]:
        answers = with_answers_of(find_assembler(name), answers, entries, jobs=os.cpu_count() or 1)
        write_answers(answers, FOLDER)
    RECORD_PAGE.write_text("\n".join(record_page(entries, answers)) + "\n")
    head, _, rest = TROPHIES.read_text().partition(MARKS[0])
    tail = rest.partition(MARKS[1])[2]
    tables = "\n".join(trophies(entries, answers, tail.splitlines()))
    TROPHIES.write_text(f"{head}{MARKS[0]}\n{tables}\n\n{MARKS[1]}{tail}")


if __name__ == "__main__":
    main()
