"""What devices tell, in words; figures of a campaign or a screening for Prometheus, on a port.

Names and units follow "Metric and label naming" of Prometheus' documentation: base units, and
`_total` behind what only grows. docs/fleet.json is a Grafana dashboard of them.
"""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from rich.text import Text

from fuzz import warpfuzz_version
from fuzz.campaign.status import NODE_DIGITS, TOLD_APART, CampaignStatus, figures, stage_shares
from fuzz.checks.protocol import DeviceStatus
from fuzz.findings.families import finding_groups
from fuzz.output import plain
from oracle.errors import InfrastructureError, UsageError

Row = tuple[str, str, str, Any]
"""Name, help, labels, and values by what the labels are, a text or a tuple of as many as there are;
or one value without labels. A name that ends in `_total` is a counter's; None is not known."""

# NVML's clocksEventReasons (nvml.h), but the ones that are no reason to worry: idle (1), clocks
# that somebody has set (2), sync boost (0x10), display (0x100).
THROTTLING = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x20: "temperature",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}


def throttling(reasons: int | None) -> str:
    """Say why the clocks are lower than they could be; empty if nothing says so."""
    return ", ".join(name for bit, name in THROTTLING.items() if (reasons or 0) & bit)


def device_text(device: DeviceStatus) -> Text:
    """Return a device in one line: host, name, UUID, and what its management library tells."""
    line = plain(f"{device.host} {device.name}" if device.host else device.name)
    return line.append_text(plain(f" {device.uuid[:12]}", "quiet")).append_text(readings(device))


def readings(device: DeviceStatus) -> Text:
    """Return what the management library tells of a device, each reading behind two blanks."""
    limit = f" of {device.power_limit}" if device.power_limit is not None else ""
    held = throttling(device.throttle_reasons)
    errors = ", ".join(f"{count:,} {name}" for name, count in device.errors.items() if count)
    line = Text()
    for said, text, style in (
        (device.note, device.note, "quiet"),
        (device.temperature is not None, f"{device.temperature} °C", ""),
        (device.sm_clock is not None, f"{device.sm_clock or 0:,} MHz", ""),
        (device.busy is not None, f"{device.busy} % busy", ""),
        (device.power is not None, f"{device.power}{limit} W", ""),
        (held, f"held back by {held}", "bad"),
        (errors, errors, "worst"),
        (device.errors and not errors, "no errors", "quiet"),
    ):
        if said:
            line.append_text(plain(f"  {text}", style))
    return line


def campaign_figures(status: CampaignStatus | None) -> Iterator[Row]:
    """Yield what a campaign is like; nothing before it is known."""
    if status is None:
        return
    about = (status.words.subject, status.words.where, str(status.seed), warpfuzz_version())
    hosts, here = status.hosts, "no place yet" if status.hosts else socket.gethostname()
    states = Counter(
        (one.host or here, "stalled" if one.stalled else one.stage.value) for one in status.workers
    )
    states += Counter({(one.host, "gone"): one.actors_missing for one in hosts})
    counters = {"/".join(words): count for words, count in status.counts.items()}
    stages = {stage.value: share for stage, share in stage_shares(status.workers).items()}
    found = Counter(
        (group.shown.case.kind.value, "no" if group.shown.known is None else "yes")
        for group in finding_groups(status.families)
    )
    reached = {line.name: line.reached for line in status.coverage}
    there = {line.name: line.total for line in status.coverage}
    nodes = {(one.host, "there"): one.nodes for one in hosts}
    nodes |= {(one.host, "gone"): one.nodes_missing for one in hosts}
    gone = {
        (one.host, node[:NODE_DIGITS]): datetime.fromisoformat(when).timestamp()
        for one in hosts
        for node, when in one.gone.items()
    }
    yield from (
        ("campaign_info", "What the campaign tests, and where it runs.",
         "subject where seed version", {about: 1}),
        ("cases_per_second", "Cases per second, lately.", "", status.recent_rate),
        ("rounds_total", "Finished rounds.", "", status.rounds),
        ("rounds_skipped", "Rounds that no worker could run.", "", len(status.skipped)),
        ("findings_waiting", "Findings to be replayed or shrunk.", "", status.waiting),
        ("unconfirmed_cases_total", "Cases that differed once, but not when replayed.", "",
         status.gone),
        ("newest_age_seconds", "Time since something new was found or covered.", "",
         status.seconds_since_new),
        ("run_seconds", "Time since the campaign began.", "", status.seconds),
        ("cases_total", "Cases of finished rounds, by outcome.", "outcome",
         figures(status, TOLD_APART)),
        ("counter_total", "Further counters of the campaign.", "counter", counters),
        ("stage_ratio", "Fraction of the workers' time that each stage took.", "stage", stages),
        ("findings", "Findings; those with one cause count once.", "verdict known", found),
        ("workers", "Workers (with --fleet: actors), by what they do.", "host state", states),
        ("reached", "Values of each dimension that were reached.", "dimension", reached),
        ("reachable", "Values of each dimension that exist.", "dimension", there),
        ("nodes", "Nodes of the fleet, by whether they are there.", "host state", nodes),
        ("node_gone_timestamp_seconds", "When each node that is gone went, since 1970.",
         "host node", gone),
        *((f"{part}_{how}_total", f"{part.title()} that {words}.", "host",
           {one.host: getattr(one, f"{part}_{how}") for one in hosts})
          for part in ("nodes", "actors")
          for how, words in (("lost", "were lost"), ("back", "came back"))),
    )  # fmt: skip
    yield from _devices(status.devices)


def _devices(devices: Sequence[DeviceStatus]) -> Iterator[Row]:
    where = "host gpu device"
    own = [((one.host or socket.gethostname(), one.uuid, one.name), one) for one in devices]
    for name, words, attribute, unit in (
        ("temperature_celsius", "Temperature of the GPU.", "temperature", 1),
        ("power_watts", "Power draw of the GPU.", "power", 1),
        ("busy_ratio", "Fraction of the last period in which a kernel ran.", "busy", 100),
    ):
        told = [(at, getattr(one, attribute)) for at, one in own]
        values = {at: None if value is None else value / unit for at, value in told}
        yield f"device_{name}", words, where, values
    yield from (
        ("device_clock_hertz", "Clocks of the GPU.", f"{where} clock",
         {(*at, clock): None if mega is None else mega * 1e6 for at, one in own
          for clock, mega in (("sm", one.sm_clock), ("memory", one.memory_clock))}),
        ("device_errors_total", "Errors that the device counts, such as ECC.", f"{where} error",
         {(*at, error): count for at, one in own for error, count in one.errors.items()}),
        ("device_throttled", "1 where the clocks are held back for this reason.",
         f"{where} reason",
         {(*at, reason): float(bool(one.throttle_reasons & bit)) for at, one in own
          if one.throttle_reasons is not None for bit, reason in THROTTLING.items()}),
    )  # fmt: skip


def screening_figures(
    devices: Iterable[tuple[DeviceStatus, int, int, float]],
) -> Iterator[Row]:
    """Yield what a screening is like: of each GPU comparisons, wrong ones, and those a second."""
    rows = {(row[0].uuid, row[0].name): row for row in devices}
    for place, name, words in (
        (1, "comparisons_total", "Images that the GPUs compared while screening."),
        (2, "wrong_total", "Screened images that were wrong."),
        (3, "comparisons_per_second", "Screened images per second, on average."),
    ):
        values = {at: row[place] for at, row in rows.items()}
        yield f"screening_{name}", words, "gpu device", values
    yield from _devices([status for status, *_ in rows.values()])


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of "9400" or "127.0.0.1:9400"; without a host, of all interfaces."""
    match = re.fullmatch(r"(?:(.+):)?([0-9]{1,5})", text.strip())
    if match is None or not 1 <= int(match[2]) <= 65535:
        raise UsageError(
            f"--metrics {text!r} is no port; write one from 1 to 65535, such as 9400, with the "
            "address of one interface before it if you like: 127.0.0.1:9400"
        )
    return (match[1] or "0.0.0.0").strip("[]"), int(match[2])


@contextmanager
def serving(address: str | None, rows: Callable[[], Iterable[Row]]) -> Iterator[None]:
    """Serve figures as long as this is open, anew for each who asks; None: nobody wants them."""
    if address is None:
        yield
        return
    host, port = parse_address(address)
    try:
        from prometheus_client import CollectorRegistry, start_http_server
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
        from prometheus_client.registry import Collector
    except ModuleNotFoundError:
        raise UsageError(
            f"--metrics {address} needs prometheus_client, which is not installed: pip install "
            "'.[metrics]' in the clone of warpfuzz"
        ) from None

    class StatusCollector(Collector):
        def collect(self) -> Iterator[Metric]:
            for name, words, labels, values in rows():
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                family = kind(f"warpfuzz_{name}", words, labels=labels.split())
                several = values if isinstance(values, Mapping) else {(): values}
                for own, value in several.items():
                    if value is not None:
                        family.add_metric((own,) if isinstance(own, str) else own, value)
                yield family

    registry = CollectorRegistry()
    registry.register(StatusCollector())
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise InfrastructureError(
            f"--metrics {address} cannot be served ({error.strerror or error}); choose another port"
        ) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
