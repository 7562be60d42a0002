"""What a campaign looks like: live, as plain lines, and at its end; and what a finding looks like.

Campaigns on instructions show a `Progress` (`view`, `print_report`, `write_report`); those of many
workers a `CampaignStatus` (`watching`, `dashboard`, `write_status_report`).
"""

from fuzz.console.dashboard import dashboard
from fuzz.console.report import print_report, summary, write_report
from fuzz.console.tables import by_severity, families_table, finding_row
from fuzz.console.view import Watching, watching
from fuzz.console.view_instructions import JsonView, LiveView, PlainView, view

__all__ = [
    "JsonView",
    "LiveView",
    "PlainView",
    "Watching",
    "by_severity",
    "dashboard",
    "families_table",
    "finding_row",
    "print_report",
    "summary",
    "view",
    "watching",
    "write_report",
]
