"""The matrix instructions of a module, each with its line, and nothing else of it."""

from __future__ import annotations

import pytest

from oracle.isa.legality import directives, matrix_instructions, without_comments

MODULE = """// wmma.load.a in a comment;
.version 7.8
.target sm_80
.file 1 "wmma.mma;"
.entry k(.param .u64 p)
{
  .reg .b32 %wmma.load<9>; /* mma.sync
  ldmatrix; */
  @%p ldmatrix.sync.aligned.m8n8.x1
     .shared.b16 {%r0}, [%r1]; mov.u32 %r0, 0123; movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1;
  wgmma.mma_async.sync; $L_mma: mma.sync.aligned.m8n8k16 x;
  mma.sync.never.ended
"""


def test_matrix_instructions_are_found_with_their_lines() -> None:
    text = without_comments(MODULE)
    assert list(matrix_instructions(text)) == [
        (9, "ldmatrix.sync.aligned.m8n8.x1 .shared.b16 {%r0}, [%r1];"),
        (10, "movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1;"),
        (11, "wgmma.mma_async.sync;"),
        (11, "mma.sync.aligned.m8n8k16 x;"),
    ]
    assert directives(text) == ("sm_80", "7.8")


@pytest.mark.parametrize("text", ["/*" * 500_000, "wmma." * 500_000, '"' * 500_001, ";" * 10**6])
def test_a_long_module_is_read_in_one_go(text: str) -> None:
    assert list(matrix_instructions(without_comments(text))) == []
