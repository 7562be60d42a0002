"""The process of a Python function that is a runner (`runners.foreign`): lines in, lines out.

A line that comes in is a list: the file of a module, the name of its entry, how many images there
are, their file, the file for the results, and that of a launch or null. A line that goes out is a
trouble and half a sentence about it, or null and nothing. What the function prints goes to standard
error.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from runners.foreign import installed
from runners.protocol import Trouble

_SAID_CHARACTERS = 300
"""Characters that are kept of an exception's message; standard error has all of them."""


def main() -> None:
    """Load the function that is named, and answer lines until there are no more."""
    requests, line = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    answer: tuple[Trouble | None, str] = (None, "")
    function = installed()[sys.argv[1]].load()
    while True:
        trouble, what = answer
        print(json.dumps([trouble and trouble.name, what]), file=line, flush=True)
        request = requests.readline()
        if not request:
            return
        answer = _answer(function, *json.loads(request))


def _answer(
    function: Callable[..., Any],
    module: str,
    entry: str,
    count: str,
    images: str,
    results: str,
    launch: str | None,
) -> tuple[Trouble | None, str]:
    given = np.fromfile(images, np.uint8).reshape(int(count), -1)
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
