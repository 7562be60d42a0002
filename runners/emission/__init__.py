"""Programs to PTX text.

`emit` makes a module of one kernel, `emit_all` a module of many, one per program.
"""

from runners.emission.modules import emit, emit_all

__all__ = ["emit", "emit_all"]
