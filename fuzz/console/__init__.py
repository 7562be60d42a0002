"""What a campaign looks like: live, as plain lines, and at its end."""

from fuzz.console.dashboard import dashboard
from fuzz.console.report import print_report, write_report
from fuzz.console.view import Watching, watching

__all__ = ["Watching", "dashboard", "print_report", "watching", "write_report"]
