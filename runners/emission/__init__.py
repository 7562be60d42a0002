"""Programs to PTX text: a module of one kernel, of many, of kernels that screen, of a smallest."""

from runners.emission.modules import emit, emit_all, emit_single
from runners.emission.screening import emit_screening

__all__ = ["emit", "emit_all", "emit_screening", "emit_single"]
