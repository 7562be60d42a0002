"""`warpfuzz legal`, `explain` and `isa`: text in, verdicts out."""

import random

import pytest
from command_line import warpfuzz

from oracle.isa.legality import explain, explain_lines, says_something
from oracle.isa.lookup import FORMS, is_available, warpgroup_forms
from oracle.isa.targets import TARGETS, VERSIONS, Module
from strategies.instructions import canonical

LOAD = "wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%addr]"
LINES = [
    LOAD + ";", LOAD + ", 8;", LOAD.replace("m16n16k16", "m16n16k17") + ";", "", "   ",
    "what is this?", "ldmatrix.sync.aligned.m8n8.x1.b16 {%r0}, [tile];", "\t// a comment",
    "wmma.mma" * 50, "𝕎mma ☃", "\x1b[31mred",
]  # fmt: skip


def judged(rows):
    return [(row["instruction"], row["verdict"]) for row in rows]


@pytest.mark.parametrize(("end", "last"), [("\n", "an end"), ("\r\n", "")])
def test_each_line_of_a_file_has_one_verdict_in_order(tmp_path, end, last):
    data = (end.join(LINES) + (end if last else "")).encode()
    (tmp_path / "file").write_bytes(data)
    told = warpfuzz(tmp_path, "legal", "file", "--json")
    assert (told.code, told.err) == (0, "")
    lines = {number: line for number, line in enumerate(LINES, 1) if says_something(line)}
    assert len(lines) < len(LINES)
    assert [row["line"] for row in told.rows] == list(lines)
    for row, line in zip(told.rows, lines.values(), strict=True):
        said = explain(line)
        assert (row["instruction"], row["verdict"]) == (line, said.verdict.value)
        assert [reason["text"] for reason in row["reasons"]] == [one.text for one in said.reasons]
        assert bool(row["reasons"]) == (row["verdict"] != "legal")
    assert warpfuzz(tmp_path, "legal", "-", "--json", stdin=data).out == told.out


def test_bytes_that_are_no_text_are_verdicts(tmp_path):
    noise = random.Random(4).randbytes(20_000)
    lines = noise.count(b"\n") + (not noise.endswith(b"\n"))
    told = warpfuzz(tmp_path, "legal", "-", "--json", stdin=noise)
    assert [row["verdict"] for row in told.rows] == ["illegal"] * lines
    told = warpfuzz(tmp_path, "legal", "-", stdin=noise)
    assert told.code == 0
    assert told.out.endswith(f"\n{lines} lines: {lines} illegal\n")
    # Nothing that a terminal would obey is passed on.
    assert all(sign == "\n" or sign.isprintable() for sign in told.out)


def test_of_a_module_the_matrix_instructions_are_judged_and_nothing_else(tmp_path):
    module = f".version 7.8\n.target sm_70\n.entry k()\n{{\n  {LOAD};\n  mov.u32 x, 0123;\n}}\n"
    (tmp_path / "module.ptx").write_text(module)
    told = warpfuzz(tmp_path, "legal", "module.ptx", "--json")
    (row,) = told.rows
    assert (row["line"], row["instruction"], row["verdict"]) == (5, f"{LOAD};", "legal")
    # Without a suffix that says so it is a list of lines.
    (tmp_path / "list").write_text(module)
    assert len(warpfuzz(tmp_path, "legal", "list", "--json").rows) == 7


def test_a_mark_of_the_byte_order_is_no_part_of_a_line_and_an_empty_file_has_none(tmp_path):
    """A legal first line of a file from Windows was called illegal (2026-11-24)."""
    (tmp_path / "file").write_text(f"{LOAD};\r\n{LOAD};\r\n", encoding="utf-8-sig")
    rows = warpfuzz(tmp_path, "legal", "file", "--json").rows
    assert judged(rows) == [(f"{LOAD};", "legal")] * 2
    assert warpfuzz(tmp_path, "legal", "-").out == "0 lines: none\n"


@pytest.mark.parametrize(
    ("count", "json"),
    [(3_000, True), (3_000, False), pytest.param(100_000, True, marks=pytest.mark.slow)],
)
def test_many_lines_are_judged(tmp_path, count, json):
    some = [canonical(form).text for form in FORMS] + ["", "no", LOAD]
    lines = [some[index % len(some)] for index in range(count)]
    (tmp_path / "file").write_text("\n".join(lines))
    told = warpfuzz(tmp_path, "legal", "file", *(["--json"] if json else []))
    assert told.code == 0
    verdicts = {text: str(one.verdict) for text, one in zip(some, explain_lines(some), strict=True)}
    expected = [(number, verdicts[text]) for number, text in enumerate(lines, 1) if text]
    if json:
        assert [(row["line"], row["verdict"]) for row in told.rows] == expected
    else:
        numbered = [line.split() for line in told.out.splitlines() if line[:6].strip().isdigit()]
        assert [(int(line[0]), line[1]) for line in numbered] == expected


def test_explain_gives_the_verdict_and_every_reason_with_its_section(tmp_path):
    wrong = LOAD.replace("m16n16k16", "m16n16k17") + ";"
    told = warpfuzz(tmp_path, "explain", wrong, "--json", "--target", "sm_80")
    (row,) = told.rows
    reasons = explain(wrong, target="sm_80").reasons
    assert row["verdict"] == "illegal"
    assert [(one["text"], one["section"]) for one in row["reasons"]] == [
        (reason.text, reason.section) for reason in reasons
    ]
    shown = warpfuzz(tmp_path, "explain", wrong, "--target", "sm_80", COLUMNS="1000")
    assert all(str(reason) in shown.out for reason in reasons)
    assert (told.code, shown.code) == (0, 0)


def test_the_first_version_with_the_target_counts_where_none_is_given(tmp_path):
    fenced = "wgmma.fence.sync.aligned;"
    scaled = (
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 "
        "{%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3}, "
        "%r6, {0, 1}, %r7, {2, 3};"
    )
    for text, target, version in ((fenced, "sm_90a", "8.0"), (scaled, "sm_120a", "8.7")):
        said = warpfuzz(tmp_path, "explain", text, "--target", target).out
        assert said.startswith(f"legal on {target}, PTX ISA {version}\n")
        (tmp_path / "file").write_text(f"{text}\n")
        (row,) = warpfuzz(tmp_path, "legal", "file", "--target", target, "--json").rows
        assert row["verdict"] == "legal"


@pytest.mark.parametrize("argument", [b"\xff\xfe wmma", b"", b"\x1b[31m"])
def test_explain_takes_any_argument(tmp_path, argument):
    assert warpfuzz(tmp_path, "explain", argument).code == 0
    (row,) = warpfuzz(tmp_path, "explain", argument, "--json").rows
    assert row["verdict"] == "illegal"


def test_an_instruction_that_is_not_known_is_not_called_illegal(tmp_path):
    text = "tcgen05.fence::after_thread_sync;"
    shown = warpfuzz(tmp_path, "explain", text)
    assert (shown.code, shown.out.split(" on ")[0]) == (0, "not judged")
    (tmp_path / "file").write_text(f"add.s32 a, b, c;\n{text}\n{LOAD}\n")
    rows = warpfuzz(tmp_path, "legal", "file", "--json").rows
    assert [row["verdict"] for row in rows] == ["not judged", "not judged", "legal"]
    listed = warpfuzz(tmp_path, "legal", "file").out
    assert listed.endswith("3 lines: 2 not judged, 1 legal\n")


def test_isa_lists_every_form_with_a_text_that_is_legal_where_it_is_available(tmp_path):
    rows = warpfuzz(tmp_path, "isa", "--json").rows
    every = (*FORMS, *warpgroup_forms())
    assert [row["opcode"] for row in rows] == [form.opcode for form in every]
    # One pair for each form: the newest version and the last target that have it.
    for row, form in zip(rows, every, strict=True):
        version, target = next(
            (version, target)
            for version in reversed(VERSIONS)
            for target in reversed(TARGETS.values())
            if (module := Module(target, version)).exists and is_available(form, module)
        )
        verdict = explain(row["text"], target=target.name, ptx_version=str(version))
        assert verdict.legal, (row["text"], verdict.reasons)


@pytest.mark.parametrize(
    ("target", "version"), [("sm_75", "6.3"), ("sm_90a", "8.2"), ("sm_100a", "8.6")]
)
def test_isa_lists_what_a_target_and_a_version_have(tmp_path, target, version):
    told = warpfuzz(tmp_path, "isa", "--json", "--target", target, "--ptx-version", version)
    assert [row["opcode"] for row in told.rows] == [
        form.opcode
        for form in (*FORMS, *warpgroup_forms())
        if is_available(form, Module.named(target, version))
    ]
    for row in told.rows:
        assert explain(row["text"], target=target, ptx_version=version).legal


def test_isa_in_a_pipe_has_a_whole_form_on_each_line(tmp_path):
    told = warpfuzz(tmp_path, "isa", "--only", "wmma.mma")
    lines = told.out.splitlines()
    opcodes = [form.opcode for form in FORMS if form.mnemonic == "wmma.mma"]
    assert [line.split()[0] for line in lines[1:-1]] == opcodes
    assert lines[-1] == f"{len(opcodes)} forms: {len(opcodes)} wmma.mma"
