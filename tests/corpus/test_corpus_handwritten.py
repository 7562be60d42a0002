"""A case that a person wrote comes in with as little as its kind and its module."""

import json
from pathlib import Path

import pytest
from corpus_cases import new_corpus, tree

from corpus import Kind
from corpus.exchange import read_case
from oracle.errors import InfrastructureError, UsageError

MODULE = """// wmma.store.d.sync; is only talked about
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k() {
    .reg .b32 %r<9>; .reg .b64 %addr;
    wmma.load.a.sync.aligned.row.m16n16k16.b8
        {%r0, %r1}, [%addr]; /* ldmatrix.x; */
    @%p ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%addr];
    ret;
}
"""


def written(folder: Path, document: object, **others: str) -> Path:
    (folder / "case").mkdir()
    (folder / "case" / "case.json").write_text(json.dumps(document))
    for name, text in {"module_ptx": MODULE, **others}.items():
        (folder / "case" / name.replace("_", ".")).write_text(text)
    return folder / "case"


def test_a_kind_and_a_module_are_enough(tmp_path: Path) -> None:
    corpus = new_corpus(tmp_path)
    saved = corpus.add(*read_case(written(tmp_path, {"kind": "crash"})))
    finding = corpus.get(saved.id).finding
    assert finding.kind is Kind.CRASH
    assert finding.instructions == (
        "wmma.load.a.sync.aligned.row.m16n16k16.b8 {%r0, %r1}, [%addr];",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%addr];",
    )
    assert (finding.target, finding.ptx_version) == ("sm_100a", "8.7")
    assert finding.identity.instructions == ("wmma.load.a.sync.aligned.row.m16n16k16.b8",)
    assert (finding.origin, list(finding.files)) == (None, ["module.ptx"])
    assert finding.versions.generator == 0, "made by hand"


def test_what_is_written_goes_before_what_the_module_says(tmp_path: Path) -> None:
    corpus = new_corpus(tmp_path)
    document = {
        "kind": "violation",
        "instructions": ["wmma.mma;"],
        "target": "sm_80",
        "identity": {"failure": "wrong result", "instructions": ["mine"]},
        "comment": "seen twice",
    }
    folder = written(tmp_path, document, notes_txt="more")
    (folder / "module.ptx").rename(folder / "mine.ptx")  # what is replayed is module.ptx
    (folder / ".swp").write_text("an editor's")
    finding = corpus.get(corpus.add(*read_case(folder)).id).finding
    assert finding.instructions == ("wmma.mma;",)
    assert finding.identity.instructions == ("mine",)
    assert (finding.target, finding.ptx_version, finding.comment) == ("sm_80", "8.7", "seen twice")
    assert sorted(finding.files) == ["module.ptx", "notes.txt"]


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, "missing required field `kind`"),
        ({"kind": "odd"}, "in field kind"),
        ({"kind": "crash", "colour": 1}, r"unknown field `colour`"),
        ({"kind": "crash", "target": "90"}, "in field target"),
        ([], "JSON object"),
    ],
)
def test_a_case_that_is_none_is_a_sentence(document: object, says: str, tmp_path: Path) -> None:
    corpus = new_corpus(tmp_path)
    with pytest.raises(UsageError, match=rf"case\.json.*: .*{says}"):
        corpus.add(*read_case(written(tmp_path, document)))
    assert tree(corpus) == {}


def test_a_folder_without_its_parts_is_a_sentence(tmp_path: Path) -> None:
    corpus = new_corpus(tmp_path)
    folder = written(tmp_path, {"kind": "crash"})
    (folder / "sub").mkdir()
    with pytest.raises(InfrastructureError, match="no plain file"):
        corpus.add(*read_case(folder))
    (folder / "sub").rmdir()
    (folder / "module.ptx").unlink()
    with pytest.raises(UsageError, match=r"no case\.json or no PTX module; write them"):
        corpus.add(*read_case(folder))


def test_a_module_without_matrix_instructions_needs_them_written(tmp_path: Path) -> None:
    folder = written(tmp_path, {"kind": "crash"}, module_ptx=".version 8.0\n.target sm_90\n")
    with pytest.raises(UsageError, match=r"no matrix instruction.* write instructions there"):
        new_corpus(tmp_path).add(*read_case(folder))
