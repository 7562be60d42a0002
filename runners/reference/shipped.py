"""The interpreter as PTX, as the package has it: a user of a driver has no compiler of CUDA C++.

    python -m runners.reference.shipped /usr/local/cuda/bin/nvcc

writes it anew. It is nvcc's, for the oldest target that this nvcc has, and given to the driver as
PTX of a version and a target that all drivers read which know sm_70. So another front end than that
of the programs under test wrote it, which are written as PTX; whether a driver compiles it rightly
is tried on images whose results are known (`runners.cuda.reference`).
"""

from __future__ import annotations

import gzip
import hashlib
import re
import sys
from pathlib import Path

from oracle.errors import InfrastructureError
from runners.folders import temporary_folder
from runners.processes import run_tool

SOURCE = Path(__file__).with_name("interpreter.cu")
"""Text of the interpreter, CUDA C++ and C++."""
INCLUDED = SOURCE.with_name("contents.h")
"""Text of the contents, which it includes."""
_SHIPPED = Path(__file__).with_name("interpreter.ptx.gz")
_HEADER = ".version 7.0\n.target sm_70\n"
"""Nothing in the text needs more: ptxas 11.7 assembles it so for sm_70 (2026-11-23)."""
_DEADLINE = 300.0
"""Seconds that nvcc may take; 13.0 takes 4 (2026-11)."""


def shipped() -> str:
    """Return the PTX of the interpreter; its entries are `fill` and `compare`."""
    return gzip.decompress(_SHIPPED.read_bytes()).decode()


def source_digest() -> str:
    """Return the SHA-256 of the interpreter's text, as the first line of its PTX has it."""
    texts = b"".join(one.read_bytes() for one in (SOURCE, INCLUDED))
    return hashlib.sha256(texts).hexdigest()


def generated(nvcc: Path) -> str:
    """Return what an nvcc makes of the interpreter.

    Raises
    ------
    InfrastructureError
        If it refuses the text.
    """
    with temporary_folder() as folder:
        made = folder / "interpreter.ptx"
        options = ["-arch=compute_75", "-O3", "-ptx", str(SOURCE), "-o", str(made)]
        finished = run_tool([str(nvcc), *options], deadline=_DEADLINE)
        if finished.status != 0:
            raise InfrastructureError(f"{nvcc} {finished.ending}: {finished.errors}")
        text = made.read_text(encoding="utf-8")
    # Names of functions have a hash of the folder.
    text = re.sub(r"_INTERNAL_[0-9a-f]{8}_", "_INTERNAL_00000000_", text)
    text = re.sub(r"^\.version .*\n\.target .*\n", _HEADER, text, count=1, flags=re.MULTILINE)
    # A remark for ptxas since PTX 8.3, which changes no meaning.
    text = re.sub(r"^\s*\.pragma \"used_bytes_mask .*\n", "", text, flags=re.MULTILINE)
    return f"// of interpreter.cu {source_digest()}\n{text}"


def main() -> None:
    """Write the PTX anew with the nvcc that is named."""
    text = generated(Path(sys.argv[1]))
    _SHIPPED.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
