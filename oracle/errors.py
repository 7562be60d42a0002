"""The project's exceptions: errors that a user can cause, with messages that say what to do."""


class WarpfuzzError(Exception):
    """A request that cannot be carried out: the message has what was given, is allowed, to do."""


class UsageError(WarpfuzzError):
    """The request itself is wrong: an unknown opcode, shape, dtype, target or option value."""


class UndefinedProgramError(WarpfuzzError):
    """The ISA leaves the program's behaviour undefined, so no expectation exists."""


class InfrastructureError(WarpfuzzError):
    """Something outside the request failed: a tool, a file, a full disk, a device."""


class DeviceLostError(InfrastructureError):
    """There is no device any more, so nothing can be run."""
