"""CUDA C++ to PTX, by a libnvrtc; run by any Python, in a process that may crash.

The descriptor of a connection is the first argument, the library and folders of headers follow.
`{"source", "options"}` comes for each module, `{"ptx"}` or `{"error"}` is answered; the first thing
that is sent is `{"nvrtc": "12.4.131"}`. It imports nothing of warpfuzz.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
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


def main(descriptor: str, path: str, *folders: str) -> None:
    """Compile module after module, until the connection ends."""
    line: Connection[Any, Any] = Connection(int(descriptor))
    # NVRTC opens these by name alone, and 13.0 does not look beside itself.
    for builtins in sorted(Path(path).parent.glob("libnvrtc-builtins.so*")):
        ctypes.CDLL(str(builtins))
    library = ctypes.CDLL(path)
    found = _VERSION.search(compiled(library, "", ()).get("ptx", ""))
    line.send({"nvrtc": found[1] if found else ""})
    includes = [f"--include-path={folder}" for folder in folders]
    with contextlib.suppress(EOFError):
        while True:
            request = line.recv()
            line.send(compiled(library, request["source"], [*includes, *request["options"]]))


if __name__ == "__main__":
    main(*sys.argv[1:])
