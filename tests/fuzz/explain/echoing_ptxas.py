#!/usr/bin/env python3
"""A stand-in for ptxas: its machine code is the PTX behind the first bytes of an ELF file."""

import sys
from pathlib import Path

arch, level, source, dash_o, target = sys.argv[1:]
assert (level, dash_o) == ("-O1", "-o")
if arch != "-arch=sm_90":
    sys.exit(f"ptxas fatal: Value '{arch}' is not defined for option 'gpu-name'")
Path(target).write_bytes(b"\x7fELF" + Path(source).read_bytes())
