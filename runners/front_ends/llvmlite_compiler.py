"""LLVM IR to PTX, by the LLVM of the llvmlite in the folder that is the second argument.

The first is the descriptor of a connection. `{"ir", "cpu", "features", "level"}` comes for each
module, `{"ptx"}` or `{"error"}` is answered; the first thing that is sent is `{"llvm": "15.0.7"}`.
It imports nothing of warpfuzz. LLVM may abort the process over a module; whoever asked sees it end.
"""

from __future__ import annotations

import contextlib
import sys
from multiprocessing.connection import Connection
from typing import Any


def optimise(binding: Any, module: Any, machine: Any, level: int) -> None:
    """Run the passes of -O1 to -O3 over a module, with whichever pass manager there is."""
    if hasattr(binding, "create_pass_builder"):
        options = binding.create_pipeline_tuning_options(speed_level=level)
        builder = binding.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        return
    builder = binding.create_pass_manager_builder()
    builder.opt_level = level
    passes = binding.create_module_pass_manager()
    machine.add_analysis_passes(passes)
    builder.populate(passes)
    passes.run(module)


def compiled(binding: Any, request: dict[str, Any]) -> str:
    """Return the PTX that a module of LLVM IR becomes."""
    module = binding.parse_assembly(request["ir"])
    module.verify()
    target = binding.Target.from_triple("nvptx64-nvidia-cuda")
    level = request["level"]
    machine = target.create_target_machine(
        cpu=request["cpu"], features=request["features"], opt=level
    )
    module.data_layout = str(machine.target_data)
    if level:
        optimise(binding, module, machine, level)
    return str(machine.emit_assembly(module))


def main() -> None:
    """Compile module after module, until the connection ends."""
    line: Connection[Any, Any] = Connection(int(sys.argv[1]))
    sys.path.insert(0, sys.argv[2])
    import llvmlite.binding as binding

    version = binding.llvm_version_info
    # From llvmlite 0.45 on, which carries LLVM 20, this is done by the import.
    if version[0] < 20:
        binding.initialize()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    line.send({"llvm": ".".join(map(str, version))})
    with contextlib.suppress(EOFError):
        while True:
            request = line.recv()
            try:
                line.send({"ptx": compiled(binding, request)})
            except RuntimeError as error:
                line.send({"error": str(error)})


if __name__ == "__main__":
    main()
