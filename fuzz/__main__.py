"""The entry point of the command, which may be interrupted while it starts."""

from __future__ import annotations

import signal

QUIET = signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_DFL)
"""Whether nobody but Python and the script `warpfuzz` has said what SIGINT does."""
if QUIET:
    # When this is imported, and not when `main` is called: until the command can say that it was
    # stopped, a signal just ends it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import os  # noqa: E402
import sys  # noqa: E402
from importlib.util import find_spec  # noqa: E402
from pathlib import Path  # noqa: E402

_ROOMS = ("oracle", "strategies", "runners", "corpus", "fuzz")
_INTERRUPTED = 128 + signal.SIGINT
"""Status of a command that SIGINT ends, as shells tell it."""
_HOME = Path(__file__).resolve().parent.parent
"""The folder that has the packages."""


def main() -> None:
    """Import the command and run it."""
    _leave_current_folder()
    for name in _ROOMS:
        found = find_spec(name)
        places = found and (found.submodule_search_locations or [found.origin or ""])
        if found and places and all(Path(place).resolve() != _HOME / name for place in places):
            raise _failed(
                f"{found.origin or places[0]} is in the way: Python finds it before the package "
                f"`{name}` of warpfuzz in {_HOME}; take its folder out of PYTHONPATH, or rename it"
            )
    from fuzz.cli import main as run

    try:
        if QUIET:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None


def _leave_current_folder() -> None:
    """Import nothing from the current folder that nobody has asked for; it is there.

    `python -m` puts it first, and so does an empty entry of PYTHONPATH.
    """
    asked = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    unasked = (__name__ == "__main__" and not sys.flags.safe_path) or ("" in asked and any(asked))
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise _failed("the current folder was removed; go to another one") from None
    if unasked and here != _HOME and str(here) not in asked:
        sys.path[:] = [path for path in sys.path if path and Path(path) != here]
        mine = sys.modules.get("fuzz")
        if mine is not None and Path(mine.__file__ or "").resolve().parent == here / "fuzz":
            del sys.modules["fuzz"]


def _failed(said: str) -> SystemExit:
    """Say why nothing can begin; `fuzz.cli.Exit.INFRASTRUCTURE`, which cannot be imported yet."""
    print(f"warpfuzz: {said}", file=sys.stderr)
    return SystemExit(3)


if __name__ == "__main__":
    main()
