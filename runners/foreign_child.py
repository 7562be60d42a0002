"""The process of a Python function that is a runner (`runners.foreign`).

`python -m runners.foreign_child DESCRIPTOR NAME`: a request has the file of a module, the name of
its entry, how many images there are, their file, the file for the results, and that of a launch or
None. An answer is a trouble and half a sentence about it, or None and nothing. What the function
prints goes to the log.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from inspect import signature
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from runners.foreign import installed
from runners.protocol import Trouble

_SAID_CHARACTERS = 300
"""Characters that are kept of an exception's message; the log has all of them."""


def main() -> None:
    """Load the function that is named, and answer until there are no more requests."""
    line: Connection[Any, Any] = Connection(int(sys.argv[1]))
    function = installed()[sys.argv[2]].load()
    line.send((None, ""))
    with suppress(EOFError):
        while True:
            line.send(_answer(function, *line.recv()))


def _answer(
    function: Callable[..., Any], module: str, entry: str, count: int, images: str, results: str,
    launch: str | None,
) -> tuple[Trouble | None, str]:  # fmt: skip
    given = np.fromfile(images, np.uint8).reshape(count, -1)
    shape, more = given.shape, {}
    if launch is not None:
        if "launch" not in signature(function).parameters:
            return Trouble.UNSUPPORTED, "takes no launch: it has no parameter of that name"
        more["launch"] = json.loads(Path(launch).read_text(encoding="utf-8"))
    try:
        found = function(Path(module).read_text(encoding="utf-8"), entry, given, **more)
    except NotImplementedError as error:
        return Trouble.UNSUPPORTED, f"does not implement it: {error}".removesuffix(": ")
    except Exception as error:
        traceback.print_exc()
        words = f"{type(error).__name__}: {error}"
        return Trouble.LAUNCH_FAILURE, f"raised {words[:_SAID_CHARACTERS]}"
    finally:
        sys.stdout.flush()
    if found is NotImplemented:
        return Trouble.UNSUPPORTED, "does not implement it"
    if not isinstance(found, np.ndarray) or found.dtype != np.uint8 or found.shape != shape:
        what = type(found).__name__
        if isinstance(found, np.ndarray):
            what = f"{found.dtype} of shape {found.shape}"
        return Trouble.CORRUPTED_REPLY, f"gave back {what}, and uint8 of shape {shape} is due"
    found.tofile(results)
    return None, ""


if __name__ == "__main__":
    main()
