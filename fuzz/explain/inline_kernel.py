"""A kernel of PTX as one of CUDA C++, so that nvcc's ptxas compiles it: for `repro.cu`."""

from __future__ import annotations

import re

_HEADER = re.compile(r"\.(?:version|target|address_size)\b[^\n]*")
_ENTRY = re.compile(
    r"\s*\.visible\s+\.entry\s+(\w+)\s*\(\s*\.param\s+\.u64\s+(\w+)\s*,\s*\.param\s+\.u64\s+(\w+)"
    r"\s*,\s*\.param\s+\.u32\s+(\w+)\s*\)\s*\{(.*)\}\s*",
    re.DOTALL,
)
_GIVEN = ("%%given_images", "%%given_sms", "%%given_count")
"""Registers of the operands outside of the kernel's scope: nvcc names its own %r1, %rd1, …, and the
kernel declares such names, too (H200, nvcc 13.0, 2026-11-23: an illegal address)."""
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def inline_kernel(ptx: str, name: str) -> str | None:
    """Return a kernel of CUDA C++ whose body is that of a module's only kernel, as inline PTX.

    Returns
    -------
    None where the module has more than that: variables, functions, kernels of other parameters.
    """
    match = _ENTRY.fullmatch(_HEADER.sub("", _COMMENT.sub("", ptx)))
    if match is None:
        return None
    _, *parameters, body = match.groups()
    body = body.replace("%", "%%")
    for number, parameter in enumerate(parameters):
        kind = "u32" if number == 2 else "u64"
        body = re.sub(
            rf"\bld\.param\.{kind}\s+([%\w]+)\s*,\s*\[{parameter}\]\s*;",
            rf"mov.{kind} \1, {_GIVEN[number]};",
            body,
        )
    if any(sign in body for sign in (".param", ".entry", ".func", '"', "\\")):
        return None
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    return "\n".join(
        (
            f"__global__ void {name}(unsigned char *images, unsigned *sms, unsigned count) {{",
            "    asm volatile(",
            f'        ".reg .b64 {_GIVEN[0]}, {_GIVEN[1]};\\n\\t"',
            f'        ".reg .b32 {_GIVEN[2]};\\n\\t"',
            *(
                f'        "mov.b{bits} {given}, %{number};\\n\\t"'
                for number, (given, bits) in enumerate(zip(_GIVEN, (64, 64, 32), strict=True))
            ),
            '        "{\\n\\t"',
            *(f'        "{line}\\n\\t"' for line in lines),
            '        "}"',
            '        :: "l"(images), "l"(sms), "r"(count) : "memory");',
            "}",
        )
    )
