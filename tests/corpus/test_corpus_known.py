"""A known discrepancy explains what it describes, as long as it holds, and nothing else."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from corpus_cases import CASE, cases, changed
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corpus import Case, Family, Kind, RunnerVerdict
from corpus.known import Known, load_known, mark_known, parse_known
from oracle.errors import InfrastructureError, UsageError
from oracle.scalar import SCALARS
from oracle.targets import TARGETS

DAY = date(2026, 11, 21)


def entry(match: str, *, kind: str = "accepted although undocumented", more: str = "") -> str:
    return (
        f'[[known]]\nid = "one"\nkind = "{kind}"\nreason = "because"\nevidence = "seen"\n{more}\n'
        f"[known.match]\n{match}\n"
    )


def known(*entries: str) -> Known:
    return parse_known(("schema = 1\n" + "".join(entries)).encode(), "known.toml")


def explained(match: str, case: Case = CASE, **more: Any) -> bool:
    return known(entry(match, **more)).match(case, today=DAY) is not None


def by(*verdicts: tuple[str, str]) -> Case:
    return changed(
        CASE,
        runners=tuple(
            RunnerVerdict(runner=runner, version=version, outcome="accepted")
            for runner, version in verdicts
        ),
    )


@given(
    texts=st.lists(st.text(min_size=1, max_size=20), min_size=3, max_size=3),
    until=st.none() | st.dates(date(2100, 1, 1)),
)
# What TOML 1.0 does not allow in a basic string as it is.
@example(texts=["".join(map(chr, (*range(32), 127))), '"', "\\"], until=None)
@settings(max_examples=30)
def test_what_is_marked_is_known_until_its_day_and_other_entries_stay(
    texts: list[str], until: date | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("marked") / "known.toml"
    family, reason, evidence = texts
    case = changed(CASE, family=Family(key=family, title="t"))
    other = changed(CASE, family=Family(key=f"{family}?", title="t"))
    for number, one in enumerate((other, case)):
        entry = mark_known(
            path, one, name=f"n{number}", reason=reason, evidence=evidence, until=until
        )
        assert entry == load_known(path).entries[-1]
    matched = load_known(path).match(case)
    assert matched is not None
    assert (matched.id, matched.expires) == ("n1", until)
    if until is not None:
        assert load_known(path).match(case, today=until + timedelta(days=1)) is None
    with pytest.raises(UsageError, match="two entries have the id"):
        mark_known(path, case, name="n1", reason=reason, evidence=evidence, until=None)


def test_what_is_marked_is_the_family_whatever_the_kind_of_the_finding(tmp_path: Path) -> None:
    """Of one line of `corpus list`, the deviations were still new when it was marked."""
    path = tmp_path / "known.toml"

    def of(kind: Kind, about: str) -> Case:
        return changed(CASE, kind=kind, family=Family.of(kind, about))

    mark_known(
        path, of(Kind.VIOLATION, "mma.s? [a]"), name="n", reason="r", evidence="e", until=None
    )
    known = load_known(path)
    for kind in Kind:
        matched = known.match(of(kind, "mma.s? [a]"))
        assert (matched is not None) is kind.shares_cause
        assert known.match(of(kind, "mma.sp [a]")) is None
    mark_known(path, of(Kind.CRASH, "x"), name="m", reason="r", evidence="e", until=None)
    assert load_known(path).match(of(Kind.VIOLATION, "x")) is None


def test_all_that_is_marked_at_once_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    names = [f"n{number}" for number in range(8)]

    def mark(name: str) -> None:
        case = changed(CASE, family=Family(key=name, title="t"))
        mark_known(path, case, name=name, reason="r", evidence="e", until=None)

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(mark, names))
    assert sorted(entry.id for entry in load_known(path).entries) == names
    assert list(tmp_path.iterdir()) == [path]


def test_the_packaged_file_is_read() -> None:
    assert load_known().expired(today=date(2000, 1, 1)) == ()


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        ('family = "wmma.load .b8"', True),
        ('family = "wmma.load*"', True),
        ('family = "wmma.load .?8"', True),
        ('family = "wmma.load"', False),
        ('family = "WMMA.load .b8"', False),
        ("family_regex = 'wmma\\.(load|store) \\.b\\d'", True),
        ("family_regex = 'wmma'", False),
        ('instruction = "wmma.load.a.*.b8 {*}, [%addr];"', True),
        ('instruction = "wmma.load.a.*.b8 {*}, [%ddra];"', False),
        ("instruction_regex = '.*\\.(b8|b16) .*'", True),
        ('family = "wmma.load*"\ninstruction = "*.b8 *"', True),
        ('family = "wmma.mma*"\ninstruction = "*.b8 *"', False),
        ('family = "*"\ntargets = ["sm_80", "sm_9*"]', True),
        ('family = "*"\ntargets = ["sm_80", "sm_9?a"]', False),
        ('family = "*"\nptx_versions = ">=7.8,<8.1"', True),
        ('family = "*"\nptx_versions = "<8.0"', False),
        ('family = "*"\nrunner = "made-up assembler"', True),
        ('family = "*"\nrunner = "ptxas"', False),
        ('family = "*"\nversions = ">=1.2,<1.3"', True),
        ('family = "*"\nversions = "<1.2"', False),
    ],
)
def test_all_that_is_given_has_to_fit(match: str, holds: bool) -> None:
    assert explained(match) is holds


def test_another_kind_is_not_explained() -> None:
    assert not explained('family = "*"', kind=Kind.CRASH)


def test_one_instruction_has_to_fit_all_patterns_of_instructions() -> None:
    match = "instruction = 'wmma.*'\ninstruction_regex = '.*b8;'"
    assert explained(match, changed(CASE, instructions=("ldmatrix.b4;", "wmma.b8;")))
    assert not explained(match, changed(CASE, instructions=("ldmatrix.b8;", "wmma.b4;")))


def test_what_one_assembler_is_known_for_does_not_hide_another() -> None:
    match = 'family = "*"\nrunner = "ptxas"\nversions = ">=13"'
    assert explained(match, by(("ptxas", "V13.5.37")))
    assert explained(match, by(("ptxas", "V13.5.37"), ("ptxas", "V13.0.48")))
    assert not explained(match, by(("ptxas", "V13.5.37"), ("ptxas", "V12.8.93")))
    assert not explained(match, by(("ptxas", "V13.5.37"), ("another", "V13.5.37")))
    assert not explained(match, by())


@pytest.mark.parametrize(
    ("who", "known_as"),
    [("", "result-in-the-registers-of-a-multiplicand"), ("/only V13.5.37 -O3", None)],
)
def test_the_bug_that_all_compilers_have_is_known_in_a_matrix_and_that_of_one_is_not(
    who: str, known_as: str | None
) -> None:
    key = f"violation/wmma.mma of f16/d in the registers of a multiplicand{who}"
    found = changed(
        by(("ptxas", "V11.8.89"), ("driver", "driver"), ("cuda", "none")),
        kind=Kind.VIOLATION,
        family=Family(key=key, title="t"),
    )
    entry = load_known().match(found, today=DAY)
    assert (entry and entry.id) == known_as


ANEW = "a branch of lanes on a predicate that a loop in it sets anew"
DRIVER = "the driver's compiler, -O3"
ORDER = "wmma.mma/c has d's registers in another order"
LOST = "mma.sync of 8-bit floats/d in the registers of c"


@pytest.mark.parametrize(
    ("key", "wrong", "right", "compiler", "known_as"),
    [
        (ORDER, ["V12.4.131", "V13.5.37"], [], "ptxas V12.4.131 -O0", "addend-in-another-order"),
        (ORDER, [], [], "the driver's compiler, -O3", "addend-in-another-order"),
        # 13.6 is not there yet: whether it has the same is to be reported.
        (ORDER, ["V12.4.131", "V13.6.1"], [], "ptxas V12.4.131 -O0", None),
        (ORDER, [], [], "llvm:20.1.8 at -O2", None),
        (LOST, ["V12.4.131"], ["V12.5.82"], "ptxas V12.4.131 -O0", "addend-of-bytes-lost"),
        (LOST, ["V12.4.131", "V12.5.82"], [], "ptxas V12.4.131 -O0", None),
        (LOST, [], [], "the driver's compiler, -O3", None),
        *(
            (key, ["V13.5.37"], [], "ptxas V13.5.37 -O3", known_as)
            for key, known_as in (
                ("testp and a predicate", "predicate-of-testp-lost"),
                ("testp.normal.f64 and a predicate", "predicate-of-testp-lost"),
                ("set and a predicate", None),
                ("setp and a predicate", None),
                ("bfe.u64 or bfe.s64", "bit-fields-of-64-bits-not-masked"),
                ("bfi.b64", "bit-fields-of-64-bits-not-masked"),
                ("bfe.s32", None),
                ("min.s32 and bfe.s32", None),
                ("bfi.b32", None),
                ("shl.b64 of a result of f32", "amount-of-a-64-bit-shift-converted"),
                (
                    "shl.b64 or shr.b64 or shr.u64 or shr.s64 of a result of f32",
                    "amount-of-a-64-bit-shift-converted",
                ),
                ("set.*.f32.f32 and shr.b64", "amount-of-a-64-bit-shift-converted"),
                ("selp.f32 and shl.b64", "amount-of-a-64-bit-shift-converted"),
                ("selp.b32 and shl.b64", None),
                ("cnot.b32 and shl.b16", "amount-of-a-16-bit-shift-lost"),
                ("cnot.b32 and shr.u16", "amount-of-a-16-bit-shift-lost"),
                # These are right in the machine code.
                ("cnot.b32 and shl.b32", None),
                ("cnot.b16 and shl.b16", None),
                ("cnot.b32 and shl.b16 and a predicate", None),
                ("selp.f32 and shl.b32", None),
                ("madc.hi.cc.s64", "addend-of-madc-hi-lost"),
                ("madc.hi.u64", "addend-of-madc-hi-lost"),
                ("madc.hi.cc.u32", None),
                ("madc.lo.cc.u64", None),
                ("mul.wide.u32 and shl.b64", "shift-of-a-product-left-out"),
                ("mad.lo.s64 and shl.b64", "shift-of-a-product-left-out"),
                ("mul.lo.u32 and shl.b32", None),
                # These are right in the machine code.
                ("mad.wide.u32 and shl.b64", None),
                ("mad.hi.s64 and shl.b64", None),
                ("add.s64 and shl.b64", None),
                ("cvt.s64.u32 and shl.b64", "sign-in-front-of-a-shift"),
                # These are right in the machine code.
                ("cvt.u64.u32 and shl.b64", None),
                ("cvt.s64.u32 and shr.u64", None),
                ("cvt.s64.u32 and shl.b64 and a predicate", None),
                (
                    "cnot.b32 and cvt.rni.ftz.u64.f32 and cnot.b64",
                    "one-or-zero-converted-as-a-number",
                ),
                ("cnot.b32 and cvt.rmi.s64.f32 and or.b64", "one-or-zero-converted-as-a-number"),
                ("cnot.b32 and cvt.rmi.ftz.s64.f32 and or.b64", None),
                ("cnot.b32 and cvt.rpi.u64.f32 and or.b64", None),
                ("cnot.b32 and cvt.rni.u32.f32 and or.b32", None),
                ("selp.b32 and cvt.rni.s64.f32 and and.b64", None),
                ("cnot.b32 and cvt.rni.s64.f32", None),
                ("neg.ftz.f32 and a branch of lanes", "neg-ftz-taken-for-neg"),
                ("abs.ftz.f32 and a branch of lanes", "neg-ftz-taken-for-neg"),
                ("abs.f32 and abs.ftz.f32 and a branch of lanes", "neg-ftz-taken-for-neg"),
                ("neg.f32 and neg.ftz.f32 and a branch of lanes", "neg-ftz-taken-for-neg"),
                ("abs.f32 and a branch of lanes", "neg-ftz-taken-for-neg"),
                ("neg.f32 and a branch of lanes", "neg-ftz-taken-for-neg"),
                ("abs.f16x2 and a branch of lanes", None),
                ("neg.f32 and abs.ftz.f32 and a branch of lanes", None),
                ("abs.f32 and abs.ftz.f32 and a predicate", None),
                ("cnot.b32 and set.*.u32.f32 and xor.b32", "cnot-negated-behind-xor"),
                ("cnot.b32 and set.*.u32.s64 and xor.b32", "cnot-negated-behind-xor"),
                # These are right in the machine code.
                ("cnot.b32 and set.*.ftz.u32.f32 and xor.b32", None),
                ("cnot.b32 and set.*.u32.u16 and xor.b32", None),
                ("cnot.b32 and set.*.u32.f16x2 and xor.b32", None),
                ("cnot.b64 and set.*.u32.f32 and xor.b32", None),
                ("cnot.b32 and set.*.u32.f32 and or.b32", None),
                ("cnot.b32 and xor.b32", None),
                ("mad24.hi.u32 and add.sat.s32", "constants-of-a-saturating-sum"),
                ("mad.lo.s32 and add.sat.s32", "constants-of-a-saturating-sum"),
                ("add.cc.u32 and add.sat.s32", "constants-of-a-saturating-sum"),
                ("sub.s32 and sub.sat.s32", "constants-of-a-saturating-sum"),
                ("cvt.rni.s64.f32 and cvt.sat.s32.s64", "nan-of-64-bits-saturated"),
                ("cvt.rpi.ftz.s64.f32 and cvt.sat.s32.s64", "nan-of-64-bits-saturated"),
                ("cvt.rzi.u64.bf16 and cvt.sat.u32.u64", "nan-of-64-bits-saturated"),
                # These are right in the machine code.
                ("cvt.rni.s64.f64 and cvt.sat.s32.s64", None),
                ("cvt.rni.s64.f32 and cvt.sat.s16.s64", None),
                ("cvt.rni.s64.f32 and cvt.s32.s64", None),
                ("mad.hi.u32 and add.sat.s32", None),
                ("add.sat.s32", None),
                ("add.sat.s32 and add.s32", None),
                ("add.s32 and add.sat.s32 and a predicate", None),
                ("xor.b32 and add.sat.s32", None),
                ("neg.ftz.f32", None),
                ("set.*.u32.f32 and shr.b64", None),
                ("set.*.f32.f32 and shr.b32", None),
                ("shl.b32 of a result of f32", None),
                ("shl.b64 of a result of f16x2", None),
                ("shl.b64 and shr.u64 and sub.s64", None),
                (
                    "setp.*.ftz.f32 and a predicate and a branch of lanes",
                    "repeated-comparison-without-ftz",
                ),
                ("setp.*.f32 and a predicate and a branch of lanes", None),
                ("abs.bf16x2 of a result of sat.f32", "absolute-values-left-out-behind-sat"),
                (
                    "abs.f16x2 or abs.bf16x2 of a result of ftz.sat.f32",
                    "absolute-values-left-out-behind-sat",
                ),
                ("abs.bf16x2 of a result of f32", None),
                # Together, because a branch overwrites what comes of both.
                (
                    "add.rm.sat.f32 and abs.ftz.f16x2 and a branch of lanes",
                    "absolute-values-left-out-behind-sat",
                ),
                ("fma.rn.ftz.sat.f32 and abs.bf16x2", "absolute-values-left-out-behind-sat"),
                ("mul.sat.f32 and abs.bf16x2", "absolute-values-left-out-behind-sat"),
                ("add.rm.f32 and abs.ftz.f16x2 and a branch of lanes", None),
                ("add.rm.sat.f32 and neg.f16x2 and a branch of lanes", None),
                ("add.rm.sat.f32 and abs.f32 and a branch of lanes", None),
                (
                    "sub.rp.sat.f32 and abs.bf16x2 and a predicate",
                    "absolute-values-left-out-behind-sat",
                ),
                ("add.rm.f32 and abs.ftz.f16x2 and a predicate", None),
                ("add.rn.sat.f16x2 and abs.f16x2", None),
                ("add.rm.sat.f32 and add.f32 and abs.ftz.f16x2 and a branch of lanes", None),
                ("set.*.f16.f16", "other-half-behind-set"),
                ("set.*.u32.f16", None),
                (ANEW, None),
                ("sub.sat.s32", None),
                ("cvt.rp.ftz.sat.f16.f32", "subnormals-not-flushed-by-cvt-to-f16"),
                ("cvt.rn.ftz.f16.f32", None),
                ("cvt.rna.satfinite.tf32.f32", "nan-to-tf32-becomes-infinity"),
                ("cvt.rn.tf32.f32", None),
                ("cvt.rn.tf32.f32 of a result of f16x2", "half-converted-to-tf32"),
                ("cvt.rn.tf32.f32 of a result of f32", None),
                ("cvt.rn.f16.f32 of a result of f16x2", None),
                (
                    "abs.f16x2 or abs.ftz.f16x2 or abs.bf16x2 of a result of sat.f32",
                    "absolute-values-left-out-behind-sat",
                ),
                ("abs.f16x2 or neg.f16x2 of a result of sat.f32", None),
                (
                    "setp.*.ftz.f32 and a comparison of what it does not flush",
                    "repeated-comparison-without-ftz",
                ),
                ("a copy of a predicate that is set anew", "copy-of-a-predicate-set-anew"),
                ("lop3 of one register twice and xor.b32", None),
                ("copysign of one register twice and xor.b32", None),
                ("lop3.b32 and xor.b32", None),
                (
                    "mma of 8-bit floats/a constant multiplicand that scalar code computes",
                    "constant-multiplicand-of-bytes-unpacked-from-another-number",
                ),
                ("mma.sync of 8-bit floats/multiplicands that scalar code computes", None),
                (
                    "a loop of lanes entered within its body that counts to a constant",
                    "counter-shared-by-lanes-that-enter-within-a-loop",
                ),
                ("a loop of lanes entered within its body", None),
                (
                    "a loop of all lanes and a loop of lanes entered within its body",
                    "lanes-left-apart-by-a-loop",
                ),
                ("branch or loop and a loop of lanes entered within its body", None),
                ("a branch of lanes and a loop of lanes entered within its body", None),
                ("branch or loop", None),
                ("or.pred and a predicate and a branch of lanes", None),
            )
        ),
        # What a version mended is to be reported of the next.
        ("bfe.s32", ["V11.8.89", "V13.4.92"], [], DRIVER, "position-of-bfe-folded"),
        ("min.s32 and bfe.s32", ["V13.4.92"], [], DRIVER, "position-of-bfe-folded"),
        ("max.u32 and bfe.s32", ["V13.4.92"], [], DRIVER, "position-of-bfe-folded"),
        # None of these gives a position that is a constant, or is wrong for one.
        ("min.s32 and bfe.u32", ["V13.4.92"], [], DRIVER, None),
        ("min.f32 and bfe.s32", ["V13.4.92"], [], DRIVER, None),
        ("lop3.b32 and bfe.s32", ["V13.4.92"], [], DRIVER, None),
        ("min.s32 and bfe.s32 and a branch of lanes", ["V13.4.92"], [], DRIVER, None),
        ("bfi.b32", ["V11.8.89", "V13.3.73"], [], DRIVER, "length-of-bfi-modulo-32"),
        ("bfi.b32", ["V13.4.92"], [], DRIVER, None),
        ("sub.cc.u32 and bfi.b32", ["V13.3.73"], [], DRIVER, "length-of-bfi-modulo-32"),
        ("min.s32 and bfi.b32", ["V13.3.73"], [], DRIVER, "length-of-bfi-modulo-32"),
        ("sub.cc.u32 and bfi.b32", ["V13.4.92"], [], DRIVER, None),
        ("sub.cc.u32 and bfi.b64", ["V13.3.73"], [], DRIVER, None),
        ("bfe.s32", ["V12.4.131"], ["V13.5.37"], "ptxas V12.4.131", "position-of-bfe-folded"),
        ("bfe.s32", ["V12.4.131", "V13.5.37"], ["V11.7.99"], "ptxas V12.4.131", None),
        (ANEW, ["V13.1.115"], [], DRIVER, "predicate-of-a-branch-believed-in-a-loop"),
        (
            "a loop of lanes entered within its body that counts to a constant",
            ["V11.8.89", "V12.1.105"],
            [],
            DRIVER,
            "counter-shared-by-lanes-that-enter-within-a-loop",
        ),
        ("sub.sat.s32", ["V12.9.86"], [], "ptxas V12.9.86", "least-number-added-by-sub-sat"),
        ("sub.sat.s32", [], [], DRIVER, None),
        (
            "lop3 of one register twice and xor.b32",
            ["V13.3.73"],
            [],
            DRIVER,
            "lop3-of-one-register-merged",
        ),
        *(
            (key, ["V13.3.73"], [], DRIVER, known_as)
            for key, known_as in (
                ("lop3 of one constant thrice and xor.b32", "lop3-of-one-register-merged"),
                ("copysign of one register twice and and.b32", "copysign-of-one-register-merged"),
                ("copysign of one register twice and xor.b64", "copysign-of-one-register-merged"),
                ("sub.u32 and sub.sat.s32", "saturating-sum-that-cancels"),
                ("sub.sat.s32 and sub.u32", None),
                (
                    "halves of a constant that a branch tells",
                    "halves-of-a-constant-that-a-branch-tells",
                ),
                ("cnot.b32 and shr.s16", "amount-of-a-16-bit-shift-lost"),
                (
                    "neg.f16x2 and max.ftz.NaN.xorsign.abs.f16x2",
                    "sign-in-front-of-xorsign-left-out",
                ),
                ("set.*.ftz.u32.f32 and cnot.b32", "mask-compared-without-ftz"),
                # The instructions are asked for, too.
                ("set.*.u32.f32 and setp.*.u32 and set.*.u32.u32", None),
                # These are right in the machine code.
                ("neg.bf16x2 and max.xorsign.abs.bf16x2", None),
                ("set.*.u32.f32 and cnot.b32", None),
                ("cnot.b32 and shr.s32", None),
                ("lop3 of one constant thrice and or.b32", None),
                ("copysign of one register twice and or.b32", None),
                ("copysign.f32 and and.b32", None),
            )
        ),
        ("copysign of one register twice and and.b32", ["V11.8.89"], [], DRIVER, None),
        ("halves of a constant that a branch tells", ["V13.4.92"], [], DRIVER, None),
        ("neg.f16x2 and min.xorsign.abs.f16x2", ["V13.4.92"], [], DRIVER, None),
        (
            "shl.b64 and shr.u64 and sub.s64",
            ["V13.2.86"],
            [],
            DRIVER,
            "difference-of-shifts-rotated",
        ),
    ],
)
def test_a_miscompilation_is_known_of_the_compilers_that_were_seen_to_have_it(
    key: str, wrong: list[str], right: list[str], compiler: str, known_as: str | None
) -> None:
    verdicts = [
        RunnerVerdict(runner="ptxas", version=version, outcome=outcome)
        for outcome, versions in (("violation", wrong), ("match", right))
        for version in versions
    ]
    own = RunnerVerdict(runner="cuda", version="0.1.0", outcome="violation")
    who = "/only V12.4.131 -O0 -O3" if right else ""
    found = changed(
        CASE,
        kind=Kind.VIOLATION,
        family=Family(key=f"violation/{key}{who}", title="t"),
        runners=(*verdicts, own),
        details={"compiler": compiler},
    )
    entry = load_known().match(found, today=DAY)
    assert (entry and entry.id) == known_as


@pytest.mark.parametrize("kind", [Kind.VIOLATION, Kind.DEVIATION])
def test_a_defect_is_known_whether_its_values_are_permitted_or_not(kind: Kind) -> None:
    for key in ("bfe.s32", "setp.*.ftz.f32 and a predicate and a branch of lanes", ORDER):
        found = changed(
            by(("cuda", "0.1.0")),
            kind=kind,
            family=Family(key=f"{kind}/{key}", title="t"),
            details={"compiler": DRIVER},
        )
        assert load_known().match(found, today=DAY) is not None


def test_every_instruction_has_to_fit_where_that_is_asked() -> None:
    match = "instruction = 'set.f*'\nevery_instruction_regex = 'set\\.f.*|(?!set).*'"
    assert explained(match, changed(CASE, instructions=("mov.b32", "set.f32", "set.f16")))
    assert not explained(match, changed(CASE, instructions=("mov.b32", "set.f32", "set.u32")))
    assert not explained(match, changed(CASE, instructions=("mov.b32",)))


@pytest.mark.parametrize(
    ("last", "known_as"),
    [
        ("set.eq.or.u32.u32", "mask-negated-behind-a-predicate"),
        ("set.eq.and.u32.u32", "mask-negated-behind-a-predicate"),
        # Nobody has seen these on a GPU.
        ("set.ne.or.u32.u32", None),
        ("set.eq.xor.u32.u32", None),
        ("set.eq.u32.u32", None),
    ],
)
def test_a_mask_and_a_predicate_are_known_by_what_asks_for_both(
    last: str, known_as: str | None
) -> None:
    key = "violation/set.*.u32.f32 and setp.*.u32 and set.*.u32.u32"
    found = changed(
        by(("cuda", "0.1.0")),
        kind=Kind.VIOLATION,
        family=Family(key=key, title="t"),
        instructions=("setp.ne.u32", "set.le.u32.f32", last),
        details={"compiler": DRIVER},
    )
    entry = load_known().match(found, today=DAY)
    assert (entry and entry.id) == known_as


@pytest.mark.parametrize("name", ["set and a predicate", "set.*.{} and a predicate"])
@pytest.mark.parametrize("beside", [(), ("set.gt.f32.f32",), ("set.gt.u32.u32", "set.gt.f32.f32")])
def test_the_lost_predicate_of_set_is_known_of_what_an_h200_showed_it(
    name: str, beside: tuple[str, ...]
) -> None:
    """ptxas 13.5.37 at -O0, 2026-11-23: 736 of 1,552, by the types that they give and take.

    What others are known for hides none of them.
    """

    def types(opcode: str) -> str:
        return ".".join(opcode.split(".")[-2:])

    opcodes = [one for one in SCALARS if one.startswith("set.")]
    listed, known = load_known(), []
    for opcode in opcodes:
        found = changed(
            by(("cuda", "0.1.0")),
            kind=Kind.VIOLATION,
            family=Family(key=f"violation/{name.format(types(opcode))}", title="t"),
            instructions=(*beside, opcode),
            details={"compiler": "ptxas V13.5.37 -O0"},
        )
        entry = listed.match(found, today=DAY)
        if entry is not None:
            known.append(opcode)
    lost = re.compile(r"f32\..*|f16\.f16|u32\.[a-z]+16")
    expected = [one for one in opcodes if lost.fullmatch(types(one))]
    assert len(expected) == 736
    # A name without the types says nothing where another set is there that is right alone.
    assert known == ([] if "{}" not in name and "set.gt.u32.u32" in beside else expected)


def test_a_compiler_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UsageError, match="names no compiler that is known here"):
        explained('family = "*"\ncompilers = "gcc >=4"')


@given(case=cases())
def test_everything_of_its_kind_fits_the_widest_pattern(case: Case) -> None:
    assert explained('family = "*"', case, kind=case.kind)
    assert explained('instruction = "*"', case, kind=case.kind)


@given(text=st.text(st.characters(codec="utf-8", exclude_characters="*?"), min_size=1, max_size=9))
def test_a_pattern_without_wildcards_fits_its_own_text_alone(text: str) -> None:
    quoted = '"' + "".join(f"\\U{ord(sign):08x}" for sign in text) + '"'
    case = changed(CASE, family=Family(key=text, title="t"), instructions=(text,))
    assert explained(f"family = {quoted}\ninstruction = {quoted}", case)
    assert not explained(
        f"family = {quoted}", changed(case, family=Family(key=text + "x", title="t"))
    )


@given(days=st.integers(-400, 400))
def test_an_entry_holds_through_its_last_day_and_is_reported_after_it(days: int) -> None:
    listed = known(entry('family = "*"', more=f"expires = {DAY + timedelta(days=days)}"))
    holds = listed.match(CASE, today=DAY) is not None
    assert holds is (days >= 0)
    assert [one.id for one in listed.expired(today=DAY)] == ([] if holds else ["one"])


def test_today_is_the_day_where_none_is_given() -> None:
    listed = known(entry('family = "*"', more="expires = 2020-01-01"))
    assert listed.match(CASE) is None
    assert len(listed.expired()) == 1


def test_the_first_entry_that_fits_is_the_answer() -> None:
    first = entry('family = "nothing"').replace('"one"', '"first"')
    second = entry('family = "*"').replace('"one"', '"second"')
    third = entry('family = "*"').replace('"one"', '"third"')
    found = known(first, second, third).match(CASE, today=DAY)
    assert found is not None
    assert (found.id, found.reason, found.evidence) == ("second", "because", "seen")


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_can_be_named(target: str) -> None:
    assert explained(f'family = "*"\ntargets = ["{target}"]', changed(CASE, target=target))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("schema = ", "known.toml is not TOML"),
        ("\x00", "known.toml is not TOML"),
        ("", "its schema is None"),
        ("schema = 2", "its schema is 2, and this warpfuzz reads 1"),
        ("schema = 1\nknwon = 1", "there is no field 'knwon'"),
        ("schema = 1\nknown = 1", "known is no list of tables"),
        ("schema = 1\nknown = [1]", "entry 1: Expected `object`, got `int`"),
        ("schema = 1\n[[known]]\nid = 'x'", r"entry 1 \(x\): .*missing required field `kind`"),
        ("schema = 1\n" + entry(""), r"entry 1 \(one\), field match: it names neither"),
        (
            "schema = 1\n" + entry("targets = ['sm_90']"),
            r"entry 1 \(one\), field match: it names neither",
        ),
        (
            "schema = 1\n" + entry("family = 'a'\nfamly = 'b'"),
            r"entry 1 \(one\): .*unknown field `famly` in field match",
        ),
        (
            "schema = 1\n" + entry("family = 1"),
            "Expected `str \\| null`, got `int` in field match.family",
        ),
        (
            "schema = 1\n" + entry("family_regex = '('"),
            r"field match\.family_regex: '\(' is no regular expression",
        ),
        (
            "schema = 1\n" + entry("family = 'a'\nversions = '12'"),
            r"field match\.versions: '12' is no range of versions",
        ),
        (
            "schema = 1\n" + entry("family = 'a'\ntargets = ['sm90']"),
            r"field match\.targets: 'sm90' fits no target",
        ),
        ("schema = 1\n" + entry("family = ''"), "length >= 1 in field match.family"),
        ("schema = 1\n" + entry("family = 'a'", kind="odd"), "'odd' in field kind"),
        (
            "schema = 1\n" + entry("family = 'a'", more="expires = 'soon'"),
            "in field expires",
        ),
        (
            "schema = 1\n" + entry("family = 'a'") + entry("family = 'b'"),
            "two entries have the id 'one'",
        ),
    ],
)
def test_a_mistake_is_named_with_file_entry_and_field(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        parse_known(text.encode(), "known.toml")
    assert str(caught.value).startswith("known.toml")


def test_bytes_that_are_no_text_are_a_sentence() -> None:
    with pytest.raises(UsageError, match="is not TOML"):
        parse_known(b"\xff", "known.toml")


def test_a_file_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="cannot read"):
        load_known(tmp_path / "none.toml")


def test_a_file_of_the_users_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text("schema = 1\n" + entry('family = "*"'))
    assert load_known(path).match(CASE, today=DAY) is not None
