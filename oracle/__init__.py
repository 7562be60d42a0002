"""Executable specification of PTX's matrix instructions; `oracle.api` has the names for users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oracle.lazy import lazily

if TYPE_CHECKING:
    from oracle.api import *  # noqa: F403

__getattr__ = lazily(__name__)
