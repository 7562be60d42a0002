"""A screening as it runs, and at its end: a map of the multiprocessors of each device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from fuzz.output import counted, duration, plain
from fuzz.screening.screen import Tally
from runners.cuda.messages import DeviceHealth

_COLUMNS = 44
"""Multiprocessors in a row of the map: three rows for an H200."""
# NVML's clocksEventReasons (nvml.h), but the ones that are no reason to worry: idle (1), clocks
# that somebody has set (2), sync boost (0x10), display (0x100).
_THROTTLING = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x20: "temperature",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}


@dataclass(frozen=True, kw_only=True)
class DeviceView:
    """One device at one moment."""

    name: str
    tally: Tally
    health: DeviceHealth | None
    programs: int
    launches: int
    left_out: int
    per_second: float
    """Images times multiprocessors in a second, over all of the time."""


def throttling(health: DeviceHealth) -> str:
    """Say why the clocks are lower than they could be; empty if nothing says so."""
    reasons = health.throttle_reasons or 0
    return ", ".join(name for bit, name in _THROTTLING.items() if reasons & bit)


def screening_view(devices: Sequence[DeviceView], seconds: float) -> RenderableType:
    """Return the view of all devices."""
    return Group(
        plain(f"warpfuzz screen, {duration(seconds)}", style="quiet"),
        *(line for device in devices for line in _device(device)),
    )


def _device(device: DeviceView) -> list[Text]:
    total = device.tally.total
    head = plain(device.name, style="bold")
    head.append(f"  {device.per_second / 1e6:,.1f} million images a second", style="count")
    lines = [head]
    if device.health is not None:
        lines.append(plain(f"  {sensors(device.health)}"))
    counts = (
        f"  {counted(device.programs, 'program')}, {counted(device.launches, 'launch', 'launches')}"
    )
    if device.left_out:
        counts += f", {device.left_out} left out"
    lines.append(plain(counts, style="quiet"))
    lines += _map(device.tally)
    style = "worst" if total.wrong else "legal" if total.cases else "quiet"
    lines.append(plain(f"  wrong: {total}", style=style))
    if device.tally.pattern:
        lines.append(plain(f"  {device.tally.pattern}", style="worst"))
    return lines


def sensors(health: DeviceHealth) -> str:
    """Return the readings of a device in one line."""
    parts = []
    if health.power_mw is not None:
        limit = f" of {health.power_limit_mw / 1000:.0f}" if health.power_limit_mw else ""
        parts.append(f"{health.power_mw / 1000:.0f}{limit} W")
    if health.temperature_c is not None:
        parts.append(f"{health.temperature_c} °C")
    if health.sm_clock_mhz is not None:
        parts.append(f"{health.sm_clock_mhz:,} MHz")
    if health.busy_percent is not None:
        parts.append(f"{health.busy_percent} % busy")
    if throttling(health):
        parts.append(f"held back by {throttling(health)}")
    if health.ecc_corrected is not None or health.ecc_uncorrected is not None:
        errors = (health.ecc_corrected or 0, health.ecc_uncorrected or 0)
        parts.append(f"ECC errors {errors[0]:,} corrected, {errors[1]:,} not")
    return ", ".join(parts) or health.note


def _map(tally: Tally) -> list[Text]:
    """Return rows with a sign for each multiprocessor: "." it runs, "X" it was wrong."""
    numbers = tally.multiprocessors
    if not numbers.size:
        return []
    highest = int(numbers[-1]) + 1
    rows = []
    for first in range(0, highest, _COLUMNS):
        row = plain(f"  {first:>4} ", style="quiet")
        for number in range(first, min(first + _COLUMNS, highest)):
            if tally.wrong[number]:
                row.append("X", style="worst")
            else:
                row.append("." if tally.cases[number] else " ", style="legal")
        rows.append(row)
    return rows
