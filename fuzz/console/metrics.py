"""Figures of a campaign or a screening in Prometheus' format, on a port.

Names and units follow "Metric and label naming" of Prometheus' documentation: base units, and
`_total` behind what only grows. docs/fleet.json is a Grafana dashboard of them.
"""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from fuzz import warpfuzz_version
from fuzz.campaign.status import CampaignStatus, HostStatus, stage_shares, told_apart
from fuzz.checks.protocol import DeviceStatus
from fuzz.console.dashboard import THROTTLING
from fuzz.console.screening import DeviceView
from fuzz.findings.families import finding_groups
from oracle.errors import InfrastructureError, UsageError

_MEGA = 1e6


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
        yield InfoMetricFamily(
            "warpfuzz_campaign", "What the campaign tests, and where it runs.",
            {
                "subject": status.words.subject, "where": status.words.where,
                "seed": str(status.seed), "version": warpfuzz_version(),
            },
        )  # fmt: skip
        yield _counters(
            "warpfuzz_cases", "Cases of finished rounds, by outcome.", "outcome",
            told_apart(status),
        )  # fmt: skip
        yield _gauge("warpfuzz_cases_per_second", "Cases per second, lately.", status.recent_rate)
        yield _counter("warpfuzz_rounds", "Finished rounds.", status.rounds)
        yield _gauge(
            "warpfuzz_rounds_skipped", "Rounds that no worker could run.", len(status.skipped)
        )
        yield _counters(
            "warpfuzz_counter", "Further counters of the campaign.", "counter",
            {"/".join(words): count for words, count in status.counts.items()},
        )  # fmt: skip
        yield _gauges(
            "warpfuzz_stage_ratio", "Fraction of the workers' time that each stage took.", "stage",
            {stage.value: share for stage, share in stage_shares(status.workers).items()},
        )  # fmt: skip
        yield _findings(status)
        yield _gauge(
            "warpfuzz_findings_waiting",
            "Findings that are still to be replayed or shrunk.",
            status.waiting,
        )
        yield _counter(
            "warpfuzz_unconfirmed_cases",
            "Cases that differed once, but not when replayed.",
            status.gone,
        )
        yield _gauge(
            "warpfuzz_newest_age_seconds", "Time since something new was found or covered.",
            status.seconds_since_new,
        )  # fmt: skip
        yield _gauge("warpfuzz_run_seconds", "Time since the campaign began.", status.seconds)
        yield _workers(status)
        yield from _fleet(status.hosts)
        for name, words, values in (
            ("warpfuzz_reached", "Values of each dimension of coverage that were reached.",
             {line.name: line.reached for line in status.coverage}),
            ("warpfuzz_reachable", "Values of each dimension of coverage that exist.",
             {line.name: line.total for line in status.coverage}),
        ):  # fmt: skip
            yield _gauges(name, words, "dimension", values)
        yield from _devices(status.devices)
        screening = status.screening
        yield from _screening(
            [("", "", screening.comparisons, screening.wrong)] if screening is not None else []
        )


def _workers(status: CampaignStatus) -> Metric:
    workers = GaugeMetricFamily(
        "warpfuzz_workers",
        "Workers (with --fleet: actors), by what they do.",
        labels=["host", "state"],
    )
    here = "no place yet" if status.hosts else socket.gethostname()
    states = Counter(
        (one.host or here, "stalled" if one.stalled else one.stage.value) for one in status.workers
    )
    states += Counter({(one.host, "gone"): one.actors_missing for one in status.hosts})
    for labels, count in states.items():
        workers.add_metric(labels, count)
    return workers


def _fleet(hosts: Sequence[HostStatus]) -> Iterator[Metric]:
    nodes = GaugeMetricFamily(
        "warpfuzz_nodes", "Nodes of the fleet, by whether they are there.",
        labels=["host", "state"],
    )  # fmt: skip
    for one in hosts:
        nodes.add_metric([one.host, "there"], one.nodes)
        nodes.add_metric([one.host, "gone"], one.nodes_missing)
    yield nodes
    for name, words in (
        ("nodes_lost", "Nodes that were lost."), ("nodes_back", "Nodes that came back."),
        ("actors_lost", "Actors that were lost."), ("actors_back", "Actors that came back."),
    ):  # fmt: skip
        family = CounterMetricFamily(f"warpfuzz_{name}", words, labels=["host"])
        for one in hosts:
            family.add_metric([one.host], getattr(one, name))
        yield family


def _findings(status: CampaignStatus) -> Metric:
    found = GaugeMetricFamily(
        "warpfuzz_findings",
        "Findings; those with the same cause count once.",
        labels=["verdict", "known"],
    )
    counts = Counter(
        (group.kind.value, "yes" if group.known is not None else "no")
        for group in finding_groups(status.families)
    )
    for labels, count in counts.items():
        found.add_metric(labels, count)
    return found


def _devices(devices: Sequence[DeviceStatus]) -> Iterator[Metric]:
    where = ["host", "gpu", "device"]
    names = {
        "warpfuzz_device_temperature_celsius": "Temperature of the GPU.",
        "warpfuzz_device_power_watts": "Power draw of the GPU.",
        "warpfuzz_device_busy_ratio": "Fraction of the last sampling period in which a kernel ran.",
    }
    plain = {
        name: GaugeMetricFamily(name, words, labels=where) for name, words in names.items()
    }  # fmt: skip
    clocks = GaugeMetricFamily(
        "warpfuzz_device_clock_hertz", "Clocks of the GPU.", labels=[*where, "clock"]
    )
    errors = CounterMetricFamily(
        "warpfuzz_device_errors",
        "Errors that the device counts, such as ECC.",
        labels=[*where, "error"],
    )
    throttled = GaugeMetricFamily(
        "warpfuzz_device_throttled", "1 where the clocks are held back for this reason.",
        labels=[*where, "reason"],
    )  # fmt: skip
    for device in devices:
        own = [device.host or socket.gethostname(), device.uuid, device.name]
        busy = None if device.busy is None else device.busy / 100
        for name, value in zip(names, (device.temperature, device.power, busy), strict=True):
            if value is not None:
                plain[name].add_metric(own, value)
        for clock, megahertz in (("sm", device.sm_clock), ("memory", device.memory_clock)):
            if megahertz is not None:
                clocks.add_metric([*own, clock], megahertz * _MEGA)
        for error, count in device.errors.items():
            errors.add_metric([*own, error], count)
        if device.throttle_reasons is not None:
            for bit, reason in THROTTLING.items():
                throttled.add_metric([*own, reason], float(bool(device.throttle_reasons & bit)))
    yield from (*plain.values(), clocks, errors, throttled)


def _screening(rows: Sequence[tuple[str, str, int, int]]) -> Iterator[Metric]:
    """Iterate over what was screened: (UUID, name, comparisons, wrong ones) of each device."""
    images = CounterMetricFamily(
        "warpfuzz_screening_comparisons", "Images that the GPUs compared while screening.",
        labels=["gpu", "device"],
    )  # fmt: skip
    wrong = CounterMetricFamily(
        "warpfuzz_screening_wrong", "Screened images that were wrong.", labels=["gpu", "device"]
    )
    for uuid, name, compared, differed in rows:
        images.add_metric([uuid, name], compared)
        wrong.add_metric([uuid, name], differed)
    yield from (images, wrong)


class ScreeningMetrics(Collector):
    """What a screening is like when somebody asks."""

    def __init__(self, views: Callable[[], Sequence[DeviceView]]) -> None:
        self._views = views

    def collect(self) -> Iterator[Metric]:
        """Iterate over the figures."""
        views = self._views()
        totals = [(view.device, view.screen.tally.total) for view in views]
        yield from _screening(
            [(device.uuid, device.name, rate.cases, rate.wrong) for device, rate in totals]
        )
        rate = GaugeMetricFamily(
            "warpfuzz_screening_comparisons_per_second", "Screened images per second, on average.",
            labels=["gpu", "device"],
        )  # fmt: skip
        for view in views:
            rate.add_metric([view.device.uuid, view.device.name], view.per_second)
        yield rate
        yield from _devices([view.device for view in views])


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value=value)


def _counter(name: str, words: str, value: float) -> Metric:
    return CounterMetricFamily(name, words, value=value)


def _gauges(name: str, words: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _counters(name: str, words: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, words, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


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
