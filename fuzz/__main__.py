"""The entry point of the command: quiet also when it is interrupted while it starts."""

from __future__ import annotations

import signal

_INTERRUPTED = 128 + signal.SIGINT
"""Status of a command that SIGINT ends, as shells tell it."""


def main() -> None:
    """Import the command and run it; until it can say that it was stopped, a signal just ends."""
    try:
        quiet = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if quiet:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None
    from fuzz.cli import main as run

    try:
        if quiet:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None


if __name__ == "__main__":
    main()
