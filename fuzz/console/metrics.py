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
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from fuzz import warpfuzz_version
from fuzz.campaign.status import (
    TOLD_APART,
    CampaignStatus,
    HostStatus,
    figures,
    short,
    stage_shares,
)
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
        yield _labelled(
            _COUNTER, "warpfuzz_cases", "Cases of finished rounds, by outcome.", "outcome",
            figures(status, TOLD_APART),
        )  # fmt: skip
        yield _GAUGE(
            "warpfuzz_cases_per_second", "Cases per second, lately.", value=status.recent_rate
        )
        yield _COUNTER("warpfuzz_rounds", "Finished rounds.", value=status.rounds)
        yield _GAUGE(
            "warpfuzz_rounds_skipped", "Rounds that no worker could run.",
            value=len(status.skipped),
        )  # fmt: skip
        yield _labelled(
            _COUNTER, "warpfuzz_counter", "Further counters of the campaign.", "counter",
            {"/".join(words): count for words, count in status.counts.items()},
        )  # fmt: skip
        yield _labelled(
            _GAUGE, "warpfuzz_stage_ratio",
            "Fraction of the workers' time that each stage took.", "stage",
            {stage.value: share for stage, share in stage_shares(status.workers).items()},
        )  # fmt: skip
        yield _labelled(
            _GAUGE, "warpfuzz_findings", "Findings; those with the same cause count once.",
            "verdict known",
            Counter(
                (group.kind.value, "yes" if group.known is not None else "no")
                for group in finding_groups(status.families)
            ),
        )  # fmt: skip
        yield _GAUGE(
            "warpfuzz_findings_waiting", "Findings that are still to be replayed or shrunk.",
            value=status.waiting,
        )  # fmt: skip
        yield _COUNTER(
            "warpfuzz_unconfirmed_cases", "Cases that differed once, but not when replayed.",
            value=status.gone,
        )  # fmt: skip
        yield _GAUGE(
            "warpfuzz_newest_age_seconds", "Time since something new was found or covered.",
            value=status.seconds_since_new,
        )  # fmt: skip
        yield _GAUGE("warpfuzz_run_seconds", "Time since the campaign began.", value=status.seconds)
        yield _workers(status)
        yield from _fleet(status.hosts)
        for name, words, values in (
            ("warpfuzz_reached", "Values of each dimension of coverage that were reached.",
            {line.name: line.reached for line in status.coverage}),
            ("warpfuzz_reachable", "Values of each dimension of coverage that exist.",
            {line.name: line.total for line in status.coverage if line.total is not None}),
        ):  # fmt: skip
            yield _labelled(_GAUGE, name, words, "dimension", values)
        yield from _devices(status.devices)
        screening = status.screening
        yield from _screening(
            {("", ""): (screening.comparisons, screening.wrong)} if screening is not None else {}
        )


def _workers(status: CampaignStatus) -> Metric:
    here = "no place yet" if status.hosts else socket.gethostname()
    states = Counter(
        (one.host or here, "stalled" if one.stalled else one.stage.value) for one in status.workers
    )
    states += Counter({(one.host, "gone"): one.actors_missing for one in status.hosts})
    words = "Workers (with --fleet: actors), by what they do."
    return _labelled(_GAUGE, "warpfuzz_workers", words, "host state", states)


def _fleet(hosts: Sequence[HostStatus]) -> Iterator[Metric]:
    nodes = {
        (one.host, state): count
        for one in hosts
        for state, count in (("there", one.nodes), ("gone", one.nodes_missing))
    }
    words = "Nodes of the fleet, by whether they are there."
    yield _labelled(_GAUGE, "warpfuzz_nodes", words, "host state", nodes)
    went = {
        (one.host, short(node)): datetime.fromisoformat(when).timestamp()
        for one in hosts
        for node, when in one.gone.items()
    }
    words = "When each node that is gone went, in seconds since 1970."
    yield _labelled(_GAUGE, "warpfuzz_node_gone_timestamp_seconds", words, "host node", went)
    for name, words in (
        ("nodes_lost", "Nodes that were lost."), ("nodes_back", "Nodes that came back."),
        ("actors_lost", "Actors that were lost."), ("actors_back", "Actors that came back."),
    ):  # fmt: skip
        counts = {one.host: getattr(one, name) for one in hosts}
        yield _labelled(_COUNTER, f"warpfuzz_{name}", words, "host", counts)


def _devices(devices: Sequence[DeviceStatus]) -> Iterator[Metric]:
    where = "host gpu device"
    own = {(one.host or socket.gethostname(), one.uuid, one.name): one for one in devices}
    for name, words, values in (
        ("temperature_celsius", "Temperature of the GPU.",
        {at: one.temperature for at, one in own.items()}),
        ("power_watts", "Power draw of the GPU.", {at: one.power for at, one in own.items()}),
        ("busy_ratio", "Fraction of the last sampling period in which a kernel ran.",
        {at: None if one.busy is None else one.busy / 100 for at, one in own.items()}),
    ):  # fmt: skip
        known = {at: value for at, value in values.items() if value is not None}
        yield _labelled(_GAUGE, f"warpfuzz_device_{name}", words, where, known)
    clocks = {
        (*at, clock): megahertz * _MEGA
        for at, one in own.items()
        for clock, megahertz in (("sm", one.sm_clock), ("memory", one.memory_clock))
        if megahertz is not None
    }
    yield _labelled(
        _GAUGE, "warpfuzz_device_clock_hertz", "Clocks of the GPU.", f"{where} clock", clocks
    )
    yield _labelled(
        _COUNTER, "warpfuzz_device_errors", "Errors that the device counts, such as ECC.",
        f"{where} error",
        {(*at, error): count for at, one in own.items() for error, count in one.errors.items()},
    )  # fmt: skip
    yield _labelled(
        _GAUGE, "warpfuzz_device_throttled", "1 where the clocks are held back for this reason.",
        f"{where} reason",
        {
            (*at, reason): float(bool(one.throttle_reasons & bit))
            for at, one in own.items()
            if one.throttle_reasons is not None
            for bit, reason in THROTTLING.items()
        },
    )  # fmt: skip


def _screening(rows: Mapping[tuple[str, str], tuple[int, int]]) -> Iterator[Metric]:
    """Iterate over what was screened: comparisons, and wrong ones, by UUID and name."""
    for place, (name, words) in enumerate((
        ("comparisons", "Images that the GPUs compared while screening."),
        ("wrong", "Screened images that were wrong."),
    )):  # fmt: skip
        counts = {at: row[place] for at, row in rows.items()}
        yield _labelled(_COUNTER, f"warpfuzz_screening_{name}", words, "gpu device", counts)


class ScreeningMetrics(Collector):
    """What a screening is like when somebody asks."""

    def __init__(self, views: Callable[[], Sequence[DeviceView]]) -> None:
        self._views = views

    def collect(self) -> Iterator[Metric]:
        """Iterate over the figures."""
        views = {(one.device.uuid, one.device.name): one for one in self._views()}
        totals = {at: view.screen.tally.total for at, view in views.items()}
        yield from _screening({at: (one.cases, one.wrong) for at, one in totals.items()})
        yield _labelled(
            _GAUGE, "warpfuzz_screening_comparisons_per_second",
            "Screened images per second, on average.", "gpu device",
            {at: view.per_second for at, view in views.items()},
        )  # fmt: skip
        yield from _devices([view.device for view in views.values()])


_GAUGE, _COUNTER = GaugeMetricFamily, CounterMetricFamily


def _labelled(
    kind: type[GaugeMetricFamily] | type[CounterMetricFamily],
    name: str,
    words: str,
    labels: str,
    values: Mapping[Any, float],
) -> Metric:
    """Return values by their labels: a text, or a tuple of as many as there are."""
    family = kind(name, words, labels=labels.split())
    for own, value in values.items():
        family.add_metric((own,) if isinstance(own, str) else own, value)
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
