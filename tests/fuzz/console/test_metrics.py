"""What Prometheus scrapes is what the campaign says, and the dashboard asks for what there is."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest
from console_statuses import on_a_gpu
from msgspec.structs import replace as changed
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from fuzz.campaign.status import HostStatus
from fuzz.checks.protocol import DeviceStatus, device_status
from fuzz.console.metrics import (
    Row,
    campaign_figures,
    parse_address,
    readings,
    screening_figures,
    serving,
)
from oracle.errors import InfrastructureError, UsageError
from runners.cuda.libraries import DeviceHealth

DASHBOARD = Path(__file__).parents[3] / "docs" / "fleet.json"
GPU = DeviceStatus(
    name="NVIDIA H200", uuid="GPU-1", host="node7", temperature=61, power=640, sm_clock=1980,
    memory_clock=3201, busy=93, throttle_reasons=0x4, errors={"ECC corrected": 2},
)  # fmt: skip
HOST = HostStatus(
    host="node7", nodes=1, nodes_missing=1, actors_missing=2, nodes_lost=3, nodes_back=2,
    actors_lost=5, actors_back=3, gone={"616d854d" + 48 * "0": "2026-11-27T06:23:41+00:00"},
)  # fmt: skip
STATUS = changed(
    on_a_gpu(), devices=[GPU], hosts=[HOST]
)  # fmt: skip


def scraped(port: int) -> dict[str, Metric]:
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def values(family: Metric) -> dict[tuple[str, ...], float]:
    return {tuple(sorted(sample.labels.values())): sample.value for sample in family.samples}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_client_of_prometheus_reads_what_the_campaign_says() -> None:
    told, port = [None], free_port()
    with serving(f"127.0.0.1:{port}", lambda: campaign_figures(told[0])):
        assert not scraped(port)
        told[0] = STATUS
        found = scraped(port)
    assert values(found["warpfuzz_cases"])[("compared",)] == STATUS.compared
    assert values(found["warpfuzz_rounds"])[()] == STATUS.rounds
    workers = values(found["warpfuzz_workers"])
    assert workers.pop(("gone", "node7")) == HOST.actors_missing
    assert sum(workers.values()) == len(STATUS.workers)
    assert not [labels for labels in workers if "" in labels]
    gone = values(found["warpfuzz_node_gone_timestamp_seconds"])
    assert gone == {("616d854d", "node7"): 1795760621}
    assert sum(values(found["warpfuzz_findings"]).values()) > 0
    own = ("GPU-1", "NVIDIA H200", "node7")
    assert values(found["warpfuzz_device_temperature_celsius"]) == {own: 61}
    assert values(found["warpfuzz_device_power_watts"]) == {own: 640}
    assert values(found["warpfuzz_device_clock_hertz"])[(*own, "sm")] == 1.98e9
    assert values(found["warpfuzz_device_busy_ratio"]) == {own: 0.93}
    (errors,) = found["warpfuzz_device_errors"].samples
    assert (errors.labels["error"], errors.value) == ("ECC corrected", 2)
    throttled = {
        sample.labels["reason"] for sample in found["warpfuzz_device_throttled"].samples
        if sample.value
    }  # fmt: skip
    assert throttled == {"power limit"}


def screening() -> Iterator[Row]:
    return screening_figures([(GPU, 7, 0, 1.5)])


def test_without_a_fleet_everything_is_on_this_host() -> None:
    local = changed(STATUS, hosts=[], devices=[replace(GPU, host="")])
    own = [value for _, _, labels, values in campaign_figures(local) if labels[:4] == "host"
           for value in values]  # fmt: skip
    assert own
    assert {value[0] for value in own if isinstance(value, tuple)} == {socket.gethostname()}


def test_the_dashboard_asks_for_what_there_is() -> None:
    there = {f"warpfuzz_{row[0]}" for row in (*campaign_figures(STATUS), *screening())}
    asked = {
        name
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel["targets"]
        for name in re.findall(r"warpfuzz_\w+", target["expr"])
    }
    assert len(asked) > 12
    assert asked <= there
    # What is served is also shown, but what another figure says already.
    assert there - asked <= {
        "warpfuzz_campaign_info", "warpfuzz_cases_per_second", "warpfuzz_counter_total",
        "warpfuzz_run_seconds", "warpfuzz_screening_comparisons_per_second",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "0", "65536", "host:", "９４００"])
def test_what_is_no_port_gets_a_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="--metrics"):
        parse_address(text)
    assert parse_address("[::1]:9400") == ("::1", 9400)
    assert parse_address("9400")[1] == 9400


def test_a_port_in_use_gets_a_sentence() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        port = one.getsockname()[1]
        with (
            pytest.raises(InfrastructureError, match="cannot be served"),
            serving(f"127.0.0.1:{port}", lambda: ()),
        ):
            pass


def test_without_prometheus_client_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    missing = pytest.raises(UsageError, match=r"\.\[metrics\]. in the clone")
    with missing, serving("9400", lambda: ()):
        pass


def test_a_device_says_what_it_draws_and_what_holds_it_back() -> None:
    health = DeviceHealth(power_mw=640_400, power_limit_mw=700_000, throttle_reasons=0x5)
    said = readings(device_status("a GPU", "GPU-1", health)).plain
    assert said == "  640 of 700 W  held back by power limit"
    assert readings(device_status("a GPU", "", DeviceHealth(note="no NVML"))).plain == "  no NVML"
