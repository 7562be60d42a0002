"""A compiler to PTX in a process of its own, which may crash; run by any Python.

    python compiler_process.py llvm|nvrtc DESCRIPTOR PLACE [HEADERS ...]

PLACE is the folder of an llvmlite, or a libnvrtc. It sends `{"version"}`, and then for each
`{"text", "target", "version", "level"}` a `{"ptx"}` or `{"error"}`. It imports nothing of warpfuzz.
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

_VERSION = re.compile(r"Cuda compilation tools, release [\d.]+, V([\d.]+)")


def llvm_to_ptx(binding: Any, request: dict[str, Any]) -> dict[str, str]:
    """Return the PTX that a module of LLVM IR becomes, or what LLVM said."""
    level, feature = request["level"], f"+ptx{request['version'].replace('.', '')}"
    try:
        module = binding.parse_assembly(request["text"])
        module.verify()
        machine = binding.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(
            cpu=request["target"], features=feature, opt=level
        )
        module.data_layout = str(machine.target_data)
        if level and hasattr(binding, "create_pass_builder"):
            options = binding.create_pipeline_tuning_options(speed_level=level)
            builder = binding.create_pass_builder(machine, options)
            builder.getModulePassManager().run(module, builder)
        elif level:
            builder = binding.create_pass_manager_builder()
            builder.opt_level = level
            passes = binding.create_module_pass_manager()
            machine.add_analysis_passes(passes)
            builder.populate(passes)
            passes.run(module)
        return {"ptx": str(machine.emit_assembly(module))}
    except RuntimeError as error:
        return {"error": str(error)}


def _text(program: ctypes.c_void_p, size: Callable[..., int], get: Callable[..., int]) -> str:
    """Return a text of a program of NVRTC, whose size the library says first."""
    count = ctypes.c_size_t()
    size(program, ctypes.byref(count))
    buffer = ctypes.create_string_buffer(max(1, count.value))
    get(program, buffer)
    return buffer.value.decode(errors="replace")


def _cuda_to_ptx(library: Any, source: str, options: Sequence[str]) -> dict[str, str]:
    """Return the PTX that a translation unit becomes, or what NVRTC said."""
    program = ctypes.c_void_p()
    status = library.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"programs.cu", 0, None, None
    )
    if status:
        return {"error": f"nvrtcCreateProgram returned {status}"}
    try:
        words = (ctypes.c_char_p * len(options))(*(word.encode() for word in options))
        status = library.nvrtcCompileProgram(program, len(options), words)
        if status:
            said = _text(program, library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog)
            return {"error": f"nvrtcCompileProgram returned {status}: {said}"}
        return {"ptx": _text(program, library.nvrtcGetPTXSize, library.nvrtcGetPTX)}
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _llvm(folder: str) -> tuple[str, Callable[[dict[str, Any]], dict[str, str]]]:
    """Return the version of the LLVM of an llvmlite, and what compiles with it."""
    sys.path.insert(0, folder)
    import llvmlite.binding as binding

    version = binding.llvm_version_info
    # From llvmlite 0.45 on, which carries LLVM 20, this is done by the import.
    if version[0] < 20:
        binding.initialize()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return ".".join(map(str, version)), lambda request: llvm_to_ptx(binding, request)


def _nvrtc(path: str, *headers: str) -> tuple[str, Callable[[dict[str, Any]], dict[str, str]]]:
    """Return the version of a libnvrtc, and what compiles with it."""
    # NVRTC opens these by name alone, and 13.0 does not look beside itself.
    for builtins in sorted(Path(path).parent.glob("libnvrtc-builtins.so*")):
        ctypes.CDLL(str(builtins))
    library = ctypes.CDLL(path)
    found = _VERSION.search(_cuda_to_ptx(library, "", ()).get("ptx", ""))

    def compiled(request: dict[str, Any]) -> dict[str, str]:
        options = [f"--include-path={folder}" for folder in headers]
        options += [f"--gpu-architecture={request['target'].replace('sm_', 'compute_')}", "-w"]
        # "if --dopt is not specified, then turns off all optimizations" (--device-debug, NVRTC,
        # Supported Compile Options).
        options += [] if request["level"] else ["-G"]
        return _cuda_to_ptx(library, request["text"], options)

    return found[1] if found else "", compiled


def main(kind: str, descriptor: str, place: str, *headers: str) -> None:
    """Compile module after module, until the connection ends."""
    line: Connection[Any, Any] = Connection(int(descriptor))
    version, compiled = _llvm(place) if kind == "llvm" else _nvrtc(place, *headers)
    line.send({"version": version})
    with contextlib.suppress(EOFError):
        while True:
            line.send(compiled(line.recv()))


if __name__ == "__main__":
    main(*sys.argv[1:])
