"""What a campaign looks like: live, as plain lines, and at its end."""

from fuzz.console.dashboard import dashboard
from fuzz.console.report import print_report, write_report
from fuzz.console.view import Several, Watching, serving, watching

__all__ = [
    "Several",
    "Watching",
    "dashboard",
    "print_report",
    "serving",
    "watching",
    "write_report",
]
