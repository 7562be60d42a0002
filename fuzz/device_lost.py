"""The error with an exit code of its own."""

from oracle.errors import InfrastructureError


class DeviceLostError(InfrastructureError):
    """There is no device any more, so nothing can be run."""
