"""A device in one line: its name, its readings, and what holds it back."""

from __future__ import annotations

from rich.text import Text

from fuzz.checks.protocol import DeviceStatus
from fuzz.output import plain

# NVML's clocksEventReasons (nvml.h), but the ones that are no reason to worry: idle (1), clocks
# that somebody has set (2), sync boost (0x10), display (0x100).
THROTTLING = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x20: "temperature",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}


def device_text(device: DeviceStatus) -> Text:
    """Return a device in one line: host, name, UUID, and what its management library tells."""
    line = plain(f"{device.host} {device.name}" if device.host else device.name)
    if device.uuid:
        line.append_text(plain(f" {device.uuid[:12]}", style="quiet"))
    return line.append_text(readings(device))


def readings(device: DeviceStatus) -> Text:
    """Return what the management library tells of a device, each reading behind two blanks."""
    line = Text()
    if device.note:
        line.append_text(plain(f"  {device.note}", style="quiet"))
    if device.temperature is not None:
        line.append(f"  {device.temperature} °C")
    if device.sm_clock is not None:
        line.append(f"  {device.sm_clock:,} MHz")
    if device.busy is not None:
        line.append(f"  {device.busy} % busy")
    if device.power is not None:
        limit = f" of {device.power_limit}" if device.power_limit is not None else ""
        line.append(f"  {device.power}{limit} W")
    if held := throttling(device.throttle_reasons):
        line.append(f"  held back by {held}", style="bad")
    errors = {name: count for name, count in device.errors.items() if count}
    if errors:
        text = ", ".join(f"{count:,} {name}" for name, count in errors.items())
        line.append("  ").append_text(plain(text, style="worst"))
    elif device.errors:
        line.append("  no errors", style="quiet")
    return line


def throttling(reasons: int | None) -> str:
    """Say why the clocks are lower than they could be; empty if nothing says so."""
    return ", ".join(name for bit, name in THROTTLING.items() if (reasons or 0) & bit)
