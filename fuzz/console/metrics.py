"""Figures of a campaign or a screening in Prometheus' format, on a port.

Names and units follow "Metric and label naming" of Prometheus' documentation: base units, and
`_total` behind what only grows. docs/fleet.json is a Grafana dashboard of them.
"""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from fuzz import warpfuzz_version
from fuzz.campaign.status import (
    TOLD_APART,
    CampaignStatus,
    figures,
    short,
    stage_shares,
)
from fuzz.checks.protocol import DeviceStatus
from fuzz.console.dashboard import THROTTLING
from fuzz.console.screening import ScreenedDevice
from fuzz.findings.families import finding_groups
from oracle.errors import InfrastructureError, UsageError

_MEGA = 1e6
Row = tuple[str, str, str, Mapping[Any, float | None]]
"""Name, help, labels, and values by what the labels are: a text, or a tuple of as many as there
are. A name that ends in `_total` is a counter's; a value that is None is not known."""


def _metrics(rows: Iterable[Row]) -> Iterator[Metric]:
    for name, words, labels, values in rows:
        kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        family = kind(f"warpfuzz_{name}", words, labels=labels.split())
        for own, value in values.items():
            if value is not None:
                family.add_metric((own,) if isinstance(own, str) else own, value)
        yield family


class CampaignMetrics(Collector):
    """What a campaign is like when somebody asks; it is told now and then, as any observer."""

    def __init__(self) -> None:
        self._status: CampaignStatus | None = None

    def update(self, status: CampaignStatus) -> None:
        """Take the campaign's present status."""
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Iterate over the figures."""
        status = self._status
        if status is None:
            return
        about = {"subject": status.words.subject, "where": status.words.where}
        about |= {"seed": str(status.seed), "version": warpfuzz_version()}
        words = "What the campaign tests, and where it runs."
        yield InfoMetricFamily("warpfuzz_campaign", words, about)
        yield from _metrics(_campaign(status))
        yield from _metrics(_fleet(status))
        yield from _metrics(_devices(status.devices))
        told = status.screening
        yield from _metrics(_screening({("", ""): (told.comparisons, told.wrong)} if told else {}))


def _campaign(status: CampaignStatus) -> Iterator[Row]:
    for name, words, value in (
        ("cases_per_second", "Cases per second, lately.", status.recent_rate),
        ("rounds_total", "Finished rounds.", status.rounds),
        ("rounds_skipped", "Rounds that no worker could run.", len(status.skipped)),
        ("findings_waiting", "Findings that are still to be replayed or shrunk.", status.waiting),
        (
            "unconfirmed_cases_total", "Cases that differed once, but not when replayed.",
            status.gone,
        ),
        (
            "newest_age_seconds", "Time since something new was found or covered.",
            status.seconds_since_new,
        ),
        ("run_seconds", "Time since the campaign began.", status.seconds),
    ):  # fmt: skip
        yield name, words, "", {(): value}
    groups = (
        (group.kind.value, "yes" if group.known is not None else "no")
        for group in finding_groups(status.families)
    )
    here = "no place yet" if status.hosts else socket.gethostname()
    states = Counter(
        (one.host or here, "stalled" if one.stalled else one.stage.value) for one in status.workers
    )
    states += Counter({(one.host, "gone"): one.actors_missing for one in status.hosts})
    for name, words, labels, values in (
        (
            "cases_total", "Cases of finished rounds, by outcome.", "outcome",
            figures(status, TOLD_APART),
        ),
        (
            "counter_total", "Further counters of the campaign.", "counter",
            {"/".join(words): count for words, count in status.counts.items()},
        ),
        (
            "stage_ratio", "Fraction of the workers' time that each stage took.", "stage",
            {stage.value: share for stage, share in stage_shares(status.workers).items()},
        ),
        (
            "findings", "Findings; those with the same cause count once.", "verdict known",
            Counter(groups),
        ),
        ("workers", "Workers (with --fleet: actors), by what they do.", "host state", states),
        (
            "reached", "Values of each dimension of coverage that were reached.", "dimension",
            {line.name: line.reached for line in status.coverage},
        ),
        (
            "reachable", "Values of each dimension of coverage that exist.", "dimension",
            {line.name: line.total for line in status.coverage},
        ),
    ):  # fmt: skip
        yield name, words, labels, values


def _fleet(status: CampaignStatus) -> Iterator[Row]:
    hosts = status.hosts
    nodes = {(one.host, "there"): one.nodes for one in hosts}
    nodes |= {(one.host, "gone"): one.nodes_missing for one in hosts}
    yield "nodes", "Nodes of the fleet, by whether they are there.", "host state", nodes
    words = "When each node that is gone went, in seconds since 1970."
    yield "node_gone_timestamp_seconds", words, "host node", {
        (one.host, short(node)): datetime.fromisoformat(when).timestamp()
        for one in hosts
        for node, when in one.gone.items()
    }  # fmt: skip
    for part in ("nodes", "actors"):
        for how, words in (("lost", "were lost"), ("back", "came back")):
            counts = {one.host: getattr(one, f"{part}_{how}") for one in hosts}
            yield f"{part}_{how}_total", f"{part.title()} that {words}.", "host", counts


def _devices(devices: Sequence[DeviceStatus]) -> Iterator[Row]:
    where = "host gpu device"
    own = {(one.host or socket.gethostname(), one.uuid, one.name): one for one in devices}
    for name, words, attribute, unit in (
        ("temperature_celsius", "Temperature of the GPU.", "temperature", 1),
        ("power_watts", "Power draw of the GPU.", "power", 1),
        (
            "busy_ratio", "Fraction of the last sampling period in which a kernel ran.", "busy",
            100,
        ),
    ):  # fmt: skip
        told = {at: getattr(one, attribute) for at, one in own.items()}
        yield f"device_{name}", words, where, {
            at: value if value is None else value / unit for at, value in told.items()
        }  # fmt: skip
    yield "device_clock_hertz", "Clocks of the GPU.", f"{where} clock", {
        (*at, clock): None if megahertz is None else megahertz * _MEGA
        for at, one in own.items()
        for clock, megahertz in (("sm", one.sm_clock), ("memory", one.memory_clock))
    }  # fmt: skip
    words = "Errors that the device counts, such as ECC."
    yield "device_errors_total", words, f"{where} error", {
        (*at, error): count for at, one in own.items() for error, count in one.errors.items()
    }  # fmt: skip
    words = "1 where the clocks are held back for this reason."
    yield "device_throttled", words, f"{where} reason", {
        (*at, reason): float(bool(one.throttle_reasons & bit))
        for at, one in own.items()
        if one.throttle_reasons is not None
        for bit, reason in THROTTLING.items()
    }  # fmt: skip


def _screening(rows: Mapping[tuple[str, str], tuple[int, int]]) -> Iterator[Row]:
    """Iterate over what was screened: comparisons, and wrong ones, by UUID and name."""
    for place, (name, words) in enumerate((
        ("comparisons", "Images that the GPUs compared while screening."),
        ("wrong", "Screened images that were wrong."),
    )):  # fmt: skip
        counts = {at: row[place] for at, row in rows.items()}
        yield f"screening_{name}_total", words, "gpu device", counts


class ScreeningMetrics(Collector):
    """What a screening is like when somebody asks."""

    def __init__(self, devices: Sequence[ScreenedDevice]) -> None:
        self._devices = devices

    def collect(self) -> Iterator[Metric]:
        """Iterate over the figures."""
        there = {
            (one.status.uuid, one.status.name): (one, one.screen.tally.total)
            for one in self._devices
            if one.screen is not None
        }
        yield from _metrics(
            _screening({at: (all_.cases, all_.wrong) for at, (_, all_) in there.items()})
        )
        rates = {at: one.per_second for at, (one, _) in there.items()}
        words = "Screened images per second, on average."
        yield from _metrics([("screening_comparisons_per_second", words, "gpu device", rates)])
        yield from _metrics(_devices([one.status for one, _ in there.values()]))


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
def served(collector: Collector, address: str) -> Iterator[None]:
    """Serve figures at an address as long as this is open."""
    host, port = parse_address(address)
    registry = CollectorRegistry()
    registry.register(collector)
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
