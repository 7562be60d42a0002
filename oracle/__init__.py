"""Executable specification of the warp-level matrix instructions of PTX.

`oracle.api` has every name that users import, and `docs/library.md` examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oracle.lazy import lazily

if TYPE_CHECKING:
    from oracle.api import *  # noqa: F403

__getattr__ = lazily(__name__)
