"""Writes the native code of fills, which runners/reference/contents.h includes.

`python -m strategies.contents.native_header runners/reference/native.h` does.
"""

from __future__ import annotations

import sys
from pathlib import Path

from strategies.contents.native import header, shapes


def main() -> None:
    """Write the header that is named."""
    Path(sys.argv[1]).write_text(header(shapes()), encoding="utf-8")


if __name__ == "__main__":
    main()
