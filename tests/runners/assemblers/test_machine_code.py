"""What is read from a cubin, and what a disassembler shows."""

import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.disassembly import find_disassembler, kernel_digests

_HEADER_BYTES = 64
_NO_BITS = 8

# Lines of nvdisasm 13.5 (shortened).


def cubin(sections: dict[str, bytes | int]) -> bytes:
    """Return an ELF file with these sections; a number is the size of one without contents."""
    names = b"\0"
    bodies = b""
    headers = [struct.pack("<IIQQQQIIQQ", *[0] * 10)]
    for name, contents in {**sections, ".names": b""}.items():
        at = len(names)
        names += name.encode() + b"\0"
        if name == ".names":
            contents = names
        size = contents if isinstance(contents, int) else len(contents)
        kind = _NO_BITS if isinstance(contents, int) else 1
        offset = _HEADER_BYTES + len(bodies)
        headers.append(struct.pack("<IIQQQQIIQQ", at, kind, 0, 0, offset, size, 0, 0, 1, 0))
        bodies += b"" if isinstance(contents, int) else contents
    start = bytearray(_HEADER_BYTES)
    start[:5] = b"\x7fELF\x02"
    struct.pack_into("<Q", start, 0x28, _HEADER_BYTES + len(bodies))
    struct.pack_into("<HHH", start, 0x3A, 64, len(headers), len(headers) - 1)
    return bytes(start) + bodies + b"".join(headers)


KERNEL: dict[str, bytes | int] = {
    ".text.k": b"code", ".nv.constant0.k": b"\0" * 8, ".nv.shared.k": 64, ".nv.info.k": b"13.0",
}  # fmt: skip


def test_versions_that_differ_in_what_is_never_executed_are_equal() -> None:
    other = {**KERNEL, ".nv.info.k": b"13.5 and more", ".note.nv.tkinfo": b"V13.5"}
    assert kernel_digests(cubin(KERNEL)) == kernel_digests(cubin(other))


@pytest.mark.parametrize(
    ("section", "contents"),
    [(".text.k", b"cods"), (".nv.constant0.k", b"\0" * 9), (".nv.shared.k", 128)],
)
def test_what_is_executed_or_read_makes_a_difference(section: str, contents: bytes | int) -> None:
    changed = kernel_digests(cubin({**KERNEL, section: contents}))
    assert changed["k"] != kernel_digests(cubin(KERNEL))["k"]


@given(st.binary(max_size=200))
def test_bytes_that_are_no_cubin_are_refused_in_one_way(data: bytes) -> None:
    for code in (data, b"\x7fELF\x02" + data):
        with contextlib.suppress(ValueError):
            assert isinstance(kernel_digests(code), dict)


def _tool(folder: Path, script: str) -> Path:
    folder.mkdir(exist_ok=True)
    tool = folder / "nvdisasm"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    return tool


_VERSION = (
    'if [ "$1" = --version ]; then echo "NVIDIA (R) CUDA disassembler"; '
    'echo "Cuda compilation tools, release 13.5, V13.5.37"; exit 0; fi\n'
)


def test_a_disassembler_on_the_path_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _tool(tmp_path / "broken", "exit 1")
    good = _tool(tmp_path / "good", _VERSION)
    monkeypatch.setenv("PATH", f"{tmp_path / 'broken'}:{tmp_path / 'good'}:/usr/bin:/bin")
    found = find_disassembler()
    assert found is not None
    assert (found.path, found.version) == (good, "V13.5.37")


def test_what_is_given_and_is_no_disassembler_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a disassembler"):
        find_disassembler(_tool(tmp_path, "echo hello"))
    with pytest.raises(UsageError, match="there is no file"):
        find_disassembler(tmp_path / "nothing")


def test_a_disassembler_that_fails_is_said(tmp_path: Path) -> None:
    found = find_disassembler(_tool(tmp_path, _VERSION + "echo 'bad cubin' >&2; exit 3"))
    assert found is not None
    with pytest.raises(InfrastructureError, match="cannot disassemble"):
        found.instructions(b"\x7fELF")
