"""`repro.cu`: one file for nvcc that holds the PTX, the image and the expected bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

_TEMPLATE = Path(__file__).with_name("standalone.cu")
_MARK = "//@DATA@\n"
_BYTES_IN_LINE = 16
_PART_CHARACTERS = 8000
"""Of one string literal; compilers take at least 65,536 (C++17, annex B), and some 16,380."""


def cuda_source(
    case: dict[str, Any], *, ptx: str, image: bytes, expected: bytes, about: Sequence[str]
) -> str:
    """Return the text of `repro.cu`.

    Parameters
    ----------
    case
        Contents of `repro.json`.
    about
        Lines of comment for the top.
    """
    results = [
        f"    {{{_string(one['name'])}, {_string(one['type'])}, {one['bits'] // 8}, "
        f"{one['start']}, {one['rows']}, {one['columns']}, {one['row_bytes']}, "
        f"{one['column_bytes']}}},"
        for one in case["results"]
    ]
    buffers = [
        f"    {{{_string(one['name'])}, {one['offset']}, {one['size']}}},"
        for one in case["buffers"]
    ]
    data = [
        f"const char *const kEntry = {_string(case['entry'])};",
        f"const size_t kImageBytes = {len(image)};",
        f"const unsigned kWarpsPerBlock = {case['warps_per_block']};",
        f"const long kCopies = {case['copies']};",
        f"const long kLevel = {case['opt']};",
        "",
        "const std::vector<Result> kResults = {",
        *results,
        "};",
        "const std::vector<Buffer> kBuffers = {",
        *buffers,
        "};",
        "",
        "// What was run; in parts, because some compilers limit the length of a literal.",
        "const std::vector<const char *> kPtx = {",
        *(f"{_raw(part)}," for part in _parts(ptx)),
        "};",
        "",
        "// Memory before the kernel",
        *_array("kInput", image),
        "",
        "// Memory after it, as it should be",
        *_array("kExpected", expected),
        "",
    ]
    comment = "".join(f"// {line}\n" for line in about)
    return comment + "//\n" + _TEMPLATE.read_text().replace(_MARK, "\n".join(data))


def _string(text: str) -> str:
    # JSON's strings of plain names are C's.
    return msgspec.json.encode(text).decode()


def _parts(ptx: str) -> Iterator[str]:
    """Cut a text between lines; what one line makes too long is left so."""
    part = ""
    for line in ptx.splitlines(keepends=True):
        if part and len(part) + len(line) > _PART_CHARACTERS:
            yield part
            part = ""
        part += line
    yield part


def _raw(text: str) -> str:
    """Return a raw string literal, with a delimiter that is not in the text."""
    delimiter = "PTX"
    while f"){delimiter}" in text:
        delimiter += "_"
    return f'R"{delimiter}({text}){delimiter}"'


def _array(name: str, data: bytes) -> Iterator[str]:
    yield f"const unsigned char {name}[kImageBytes] = {{"
    for start in range(0, len(data), _BYTES_IN_LINE):
        yield "    " + " ".join(f"{byte}," for byte in data[start : start + _BYTES_IN_LINE])
    yield "};"
