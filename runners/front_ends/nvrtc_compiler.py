"""CUDA C++ to PTX, by a libnvrtc; run by any Python, in a process that may crash.

The library is the first argument, the folders of headers follow. A line of JSON in for each
module, `{"source", "options"}`, a line out, `{"ptx"}` or `{"error"}`; the first line out is
`{"nvrtc": "12.4.131"}`. It imports nothing of warpfuzz.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_SUCCESS = 0
"""NVRTC_SUCCESS (NVRTC, General Information and Error Handling)."""
_VERSION = re.compile(r"Cuda compilation tools, release [\d.]+, V([\d.]+)")


def _text(program: ctypes.c_void_p, size: Callable[..., int], get: Callable[..., int]) -> str:
    """Return a text of a program, whose size the library says first."""
    count = ctypes.c_size_t()
    size(program, ctypes.byref(count))
    buffer = ctypes.create_string_buffer(max(1, count.value))
    get(program, buffer)
    return buffer.value.decode(errors="replace")


def compiled(library: Any, source: str, options: Sequence[str]) -> dict[str, str]:
    """Return the PTX that a translation unit becomes, or what the compiler said."""
    program = ctypes.c_void_p()
    status = library.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"programs.cu", 0, None, None
    )
    if status != _SUCCESS:
        return {"error": f"nvrtcCreateProgram returned {status}"}
    try:
        words = (ctypes.c_char_p * len(options))(*(word.encode() for word in options))
        status = library.nvrtcCompileProgram(program, len(options), words)
        if status != _SUCCESS:
            said = _text(program, library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog)
            return {"error": f"nvrtcCompileProgram returned {status}: {said}"}
        return {"ptx": _text(program, library.nvrtcGetPTXSize, library.nvrtcGetPTX)}
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def main(path: str, folders: Sequence[str]) -> None:
    """Compile module after module, until standard input ends."""
    # NVRTC opens these by name alone, and 13.0 does not look beside itself.
    for builtins in sorted(Path(path).parent.glob("libnvrtc-builtins.so*")):
        ctypes.CDLL(str(builtins))
    library = ctypes.CDLL(path)
    found = _VERSION.search(compiled(library, "", ()).get("ptx", ""))
    print(json.dumps({"nvrtc": found[1] if found else ""}), flush=True)
    includes = [f"--include-path={folder}" for folder in folders]
    for line in sys.stdin:
        request = json.loads(line)
        answer = compiled(library, request["source"], [*includes, *request["options"]])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
