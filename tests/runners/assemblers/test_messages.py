"""Messages as real assemblers print them, recorded in 2026-11, and what they mean."""

import pytest

from runners.assemblers.judgements import (
    Message,
    Response,
    minimal_module,
    normalised,
    parse,
    verdict_of,
)
from runners.processes import Finished

LOAD = "wmma.load.c.sync.aligned.row.m16n16k8.f16 {%r0, %r1, %r2, %r3}, [%addr];"
MMA = "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s32 {%r0}, {%r1}, {%r2}, {%r3};"
TRAILER = "ptxas fatal   : Ptx assembly aborted due to errors"


def finished(output, status=255, **fields):
    return Finished(status=status, output=output.encode(), **fields)


def verdict(tmp_path, instruction, *lines, **fields):
    module = minimal_module(instruction, target="sm_90", version="9.0")
    at = module.splitlines().index(instruction) + 1
    output = "\n".join(line.format(at=at) for line in lines)
    return verdict_of(finished(output, **fields), tmp_path / "a.cubin", module)


def test_messages_are_read_with_their_place():
    messages, strange = parse(
        f"ptxas a b.ptx, line 6; error   : Unknown modifier '.x'\n{TRAILER}\n\nwhat?\n"
    )
    assert messages == [
        Message(severity="error", file="a b.ptx", line=6, text="Unknown modifier '.x'"),
    ]
    assert strange == ["what?"]


@pytest.mark.parametrize(
    ("instruction", "line"),
    [
        (LOAD, "ptxas a.ptx, line {at}; error   : Illegal type for wmma.load.c"),
        (LOAD, "ptxas a.ptx, line {at}; fatal   : Parsing error near '.m16n16k8': syntax error"),
        (MMA, "ptxas a.ptx, line {at}; error   : Instruction ''wmma.mma' with floating point type' "
              "with '.satfinite' is not supported starting from PTX ISA version 6.5"),
        (MMA, "ptxas a.ptx, line {at}; error   : Unexpected instruction types specified for "
              "'wmma.mma'"),
        # An instruction that is not closed is found out on the line behind it, or at the end.
        ("ret", "ptxas a.ptx, line 8; fatal   : Parsing error near 'ret': syntax error"),
        ("{{", "ptxas a.ptx, line 10; fatal   : Parsing error near '': syntax error"),
    ],
)  # fmt: skip
def test_messages_about_the_instruction_are_ordinary_rejections(tmp_path, instruction, line):
    assert verdict(tmp_path, instruction, line, TRAILER).outcome is Response.REJECTED


@pytest.mark.parametrize(
    ("instruction", "line"),
    [
        (LOAD, "ptxas <builtin>, line 25; fatal   : Parsing error near ')': syntax error"),
        (LOAD, "ptxas <fermi macros>, line 1122; fatal   : Parsing error near ',': syntax error"),
        (LOAD, "ptxas a.ptx, line {at}; error   : Call to "
               "'__cuda_sm7x_wmma_m16n16k8_acc_f16_row_update_ptr' requires call prototype"),
        (MMA, "ptxas a.ptx, line {at}; error   : Unexpected instruction types specified for 'mma'"),
        (LOAD, "ptxas a.ptx, line {at}; fatal   : Parsing error near '_B': syntax error"),
        (LOAD, "ptxas a.ptx, line 99; error   : Illegal type for wmma.load.c"),
        (LOAD, "ptxas fatal   : Unresolved extern function '__cuda_sm70_wmma'"),
        (LOAD, "ptxas error   : Something is wrong"),
        (LOAD, "ptxas a.ptx, line {at}; error   : Internal error"),
    ],
)  # fmt: skip
def test_messages_from_inside_the_assembler_are_a_kind_of_their_own(tmp_path, instruction, line):
    ordinary = "ptxas a.ptx, line {at}; error   : Illegal modifier '.x'"
    assert verdict(tmp_path, instruction, line, TRAILER).outcome is Response.INTERNAL
    assert verdict(tmp_path, instruction, ordinary, line).outcome is Response.INTERNAL


@pytest.mark.parametrize(
    ("lines", "fields", "outcome"),
    [
        ([], {"status": -11}, Response.CRASHED),
        (["Segmentation fault (core dumped)"], {"status": 1}, Response.CRASHED),
        (["terminate called after throwing an instance of 'x'"], {}, Response.CRASHED),
        ([], {"status": None}, Response.HUNG),
        ([], {"status": 0}, Response.UNREADABLE),
        ([], {"status": 255}, Response.UNREADABLE),
        ([TRAILER], {}, Response.UNREADABLE),
        ([], {"overflowed": True, "status": -9}, Response.UNREADABLE),
    ],
)
def test_other_endings_are_told_apart(tmp_path, lines, fields, outcome):
    assert verdict(tmp_path, LOAD, *lines, **fields).outcome is outcome


def test_a_cubin_beside_an_error_is_not_accepted(tmp_path):
    cubin = tmp_path / "a.cubin"
    cubin.write_bytes(b"\x7fELF" + bytes(14) + b"\xbe\x00" + bytes(60))
    assert verdict(tmp_path, LOAD, status=0).outcome is Response.ACCEPTED
    error = "ptxas a.ptx, line {at}; error   : Illegal modifier '.x'"
    assert verdict(tmp_path, LOAD, error, status=0).outcome is Response.UNREADABLE


def test_normalised_messages_are_free_of_names_numbers_and_order():
    first = ["Illegal alayout '.col' for instruction 'wmma.mma'", "Illegal vector size: 8"]
    second = ["Illegal vector size: 16", "Illegal alayout '.row' for instruction 'wmma.mma'"]
    assert normalised(first) == normalised(second)
    assert "wmma" not in normalised(first)
    assert normalised(first) != normalised(first[:1])
    nested = ["Instruction ''wmma.mma' with floating point type' with '.satfinite' is bad"]
    assert normalised(nested) == "Instruction '*' with '*' is bad"
