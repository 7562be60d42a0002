"""A compiler that aborts makes one line of each cause, with its own words: a script stands for it.

LLVM 14 warns that it does not know sm_90 before it says what it cannot do; each intrinsic that it
has no instruction for was a line, and what the words began with was a warning.
"""

from pathlib import Path

from command_line import warpfuzz

ABORTS = """
source=$(cat)
case "$source" in *@nothing*) echo .entry nothing; exit;; esac
echo "'sm_90' is not a recognized processor for this target (ignoring processor)" >&2
echo "'+ptx78' is not a recognized feature for this target (ignoring feature)" >&2
case "$source" in
*.ldmatrix.*) echo "Assertion \\`N->use_empty()' failed, value t${#source}" >&2;;
*) echo "LLVM ERROR: Cannot select: intrinsic %llvm.nvvm.x${#source}.wmma" >&2;;
esac
kill -ABRT $$
"""


def test_each_abort_of_a_front_end_is_one_line_with_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "aborts").write_text(ABORTS)
    command = f"llvm:sh {tmp_path}/aborts"
    ended = warpfuzz(
        tmp_path, "run", "--runner", "sim", "--front-end", command, "--cases", "8", "--json",
        "--seed", "3", "--corpus", "found",
    )  # fmt: skip
    titles = sorted(one["title"] for one in ended.findings)
    said = [title.rpartition("SIGABRT ")[2] for title in titles]
    expected = {"Assertion `N->use_empty()' failed, value t#", "LLVM ERROR: Cannot select"}
    assert len(titles) == len({one["family"] for one in ended.findings}) == len(expected), titles
    assert {one.partition(": intrinsic")[0] for one in said} == expected
