"""Each GPU of a machine has processors of its own, near it where that is no smaller a share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import dictionaries, frozensets, integers, lists

from fuzz.fleet.processors import divided, processors_of

PROCESSORS = integers(0, 15)


@given(lists(frozensets(PROCESSORS)), dictionaries(PROCESSORS, PROCESSORS))
def test_shares_are_disjoint_and_none_is_less_than_an_equal_one(
    near: list[frozenset[int]], cores: dict[int, int]
) -> None:
    places = {str(number): place & cores.keys() for number, place in enumerate(near)}
    shares = divided(places, cores)
    assert shares.keys() == (places.keys() if len(cores) >= len(near) else set())
    taken = [processor for share in shares.values() for processor in share]
    assert len(taken) == len(set(taken))
    assert set(taken) <= cores.keys()
    assert all(len(share) >= len(cores) // len(near) for share in shares.values())


def test_gpus_of_two_sockets_have_whole_cores_of_their_own_socket() -> None:
    # 16 cores with two threads each, as Linux numbers them: first one of each core, then the other.
    cores = {processor: processor % 16 for processor in range(32)}
    sockets = [frozenset(p for p in cores if cores[p] // 8 == socket) for socket in (0, 1)]
    shares = divided({str(gpu): sockets[gpu // 2] for gpu in range(4)}, cores)
    for gpu in range(4):
        share = shares[str(gpu)]
        assert share <= sockets[gpu // 2]
        assert len(share) == 8
        assert share == {p for p in cores if cores[p] in {cores[q] for q in share}}


def test_gpus_that_are_all_near_one_socket_have_the_others_processors_too() -> None:
    cores = {processor: processor for processor in range(8)}
    near = frozenset({0, 1, 2, 3})
    assert {len(share) for share in divided({"0": near, "1": near}, cores).values()} == {4}


def test_what_is_near_is_read_where_the_kernel_tells_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr("os.sched_setaffinity", lambda pid, mask: None, raising=False)
    for name, near in (("0000:18:00.0", "2-3"), ("0000:2a:00.0", "0,1")):
        (tmp_path / "proc/driver/nvidia/gpus" / name).mkdir(parents=True)
        (tmp_path / "sys/bus/pci/devices" / name).mkdir(parents=True)
        (tmp_path / "sys/bus/pci/devices" / name / "local_cpulist").write_text(f"{near}\n")
    upper, lower = frozenset({2, 3}), frozenset({0, 1})
    assert processors_of(["0", "1"], root=tmp_path) == {"0": upper, "1": lower}
    assert processors_of(["1", "0"], root=tmp_path) == {"0": upper, "1": lower}
    # Nothing is known of these, but they have processors of their own all the same.
    assert processors_of(["GPU-a", "GPU-b"], root=tmp_path) == {"GPU-a": lower, "GPU-b": upper}
    assert processors_of(["0", "1"], root=tmp_path / "none") == {"0": lower, "1": upper}
    assert processors_of([], root=tmp_path) == {}
