"""Programs to PTX text.

`emit` makes a module of one kernel, `emit_all` a module of many, one per program;
`emit_screening` one of kernels that run every image on every multiprocessor and compare;
`emit_single` one of the smallest kernel, which one warp runs on one image.
"""

from runners.emission.modules import emit, emit_all, emit_single
from runners.emission.screening import emit_screening

__all__ = ["emit", "emit_all", "emit_screening", "emit_single"]
