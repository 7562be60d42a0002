"""A preflight looks at every kind of instruction, and says in a line and a code what came of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Ended, warpfuzz

from fuzz.commands import screen as command
from fuzz.console.screening import ScreenedDevice, Soundness
from fuzz.options.operating import Screen as Options
from fuzz.runner import RunnerChoice, opened
from fuzz.screening import screen
from fuzz.screening.sets import batches, devices_in, group_of, scope_of
from oracle.errors import DeviceLostError, InfrastructureError, UsageError
from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module
from oracle.program.program import requirements
from runners import simulated_runner
from runners.cuda.libraries import DriverLibrary
from runners.emission import emit
from runners.faults import CATALOGUE
from runners.simulated import device, warps

NEWEST = {"sm_75": "9.5", "sm_80": "9.5", "sm_89": "9.5", "sm_90": "9.5"}
MOVES = {form.mnemonic for form in FORMS if form.is_main and not form.is_product}
HOPPER = {"f16", "bf16", "tf32", "fp8", "f64", "integers", "bits", "sparse", "wgmma", *MOVES}
ROTATED = [one for one in CATALOGUE if one.name.endswith("-rotated-rows")]
"""Rows that are loaded or stored, from or to the address of another lane."""


MULTIPROCESSORS = 4


def small() -> None:
    """Have a small device, and launches of one image (`prepare`)."""
    command._IMAGES_WITHOUT_SET = 1
    screen._SECONDS_OF_A_KIBIBYTE, screen._LAUNCH_SECONDS = 0, (0, 0)
    for module in (simulated_runner, device, warps):
        module.MULTIPROCESSORS = MULTIPROCESSORS


def until_all_is_seen() -> None:
    """Go by what was seen in place of the time (`prepare`)."""
    small()
    command._Job.is_over = lambda job, device: (
        device.standing[0] in (Soundness.SOUND, Soundness.WRONG)
        or device.standing[1] == device.untested != ""
    )


def preflight(home: Path, *words: object) -> Ended:
    words = ("--preflight", "--runner", "sim", *words)
    return warpfuzz(home, "screen", *words, prepare=until_all_is_seen)


def test_a_sound_device_is_one_line_about_every_kind_of_instruction(tmp_path: Path) -> None:
    ended = preflight(tmp_path)
    assert ended.code == 0, ended.err
    (row,) = ended.rows
    assert (row["verdict"], row["reason"], row["wrong"]) == ("sound", "", 0)
    assert row["groups"].keys() == HOPPER
    assert all(one["ran"] and one["images"] for one in row["groups"].values())
    assert row["multiprocessors"] == MULTIPROCESSORS
    assert row["bound"] == pytest.approx(3 / row["images"])
    # One multiprocessor ran a part of the images: what is known of it is less.
    assert row["multiprocessor_bound"] >= MULTIPROCESSORS * row["bound"]


def test_a_wrong_multiprocessor_is_named_and_the_code_is_one(tmp_path: Path) -> None:
    fault = ("--fault", "stuck-bit-on-one-sm", "--junit", "out.xml")
    ended = preflight(tmp_path, *fault)
    assert ended.code == 1, ended.err
    (row,) = ended.rows
    assert row["verdict"] == "wrong"
    assert row["wrong_multiprocessors"] == [1]
    assert "multiprocessor 1" in row["reason"]
    assert Path(tmp_path, row["findings"][0]["path"]).is_dir()
    assert "failures" in (tmp_path / "out.xml").read_text()


def until_wrong() -> None:
    """Go on until something is wrong, for as long as the time says at most (`prepare`)."""
    small()
    command._IMAGES_WITHOUT_SET = 16
    late = command._Job.is_over
    command._Job.is_over = lambda job, one: one.is_wrong or late(job, one)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "fault"),
    [
        ("fp8", "lanes-eight-bit-c-first"),
        ("f64", "f64-not-fused"),
        ("sparse", "sparse-accumulator-ignored"),
        ("integers", "integer-carry-broken"),
        ("ldmatrix", "ldmatrix-halves-exchanged"),
        *((one.guilty[0], one.name) for one in ROTATED),
    ],
)
def test_what_is_wrong_in_one_kind_of_instruction_alone_is_found(
    tmp_path: Path, group: str, fault: str
) -> None:
    words = ("--preflight", "--runner", "sim", "--time", 120, "--fault", fault)
    ended = warpfuzz(tmp_path, "screen", *words, prepare=until_wrong)
    assert ended.code == 1, ended.err
    (row,) = ended.rows
    assert row["groups"][group]["wrong"] > 0


def test_what_was_not_reached_in_the_time_is_no_sound_device(tmp_path: Path) -> None:
    time = ("--runner", "sim", "--time", 0.05)
    ended = warpfuzz(tmp_path, "screen", "--preflight", *time, prepare=small)
    assert ended.code == 3
    (row,) = ended.rows
    assert row["verdict"] == "not screened"
    assert "sparse" in row["reason"]
    assert row["reason"] in ended.err


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="a GPU is here")
def test_without_a_driver_it_is_one_line_and_nothing_is_simulated(tmp_path: Path) -> None:
    ended = warpfuzz(tmp_path, "screen", "--preflight", "--time", 1)
    assert ended.code == 3
    (row,) = ended.rows
    assert row["verdict"] == "not screened"
    assert row["reason"] in ended.err
    assert len(ended.err.splitlines()) == 1
    assert "simulated" not in ended.err


def screened(name: str, error: Exception | None) -> ScreenedDevice:
    return ScreenedDevice(name=name, choice=RunnerChoice(name="cuda"), error=error)  # type: ignore[arg-type]


def test_the_worst_code_is_that_of_all_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    lost, failed = DeviceLostError("gone"), InfrastructureError("no compiler")
    several = [screened("GPU 0", failed), screened("GPU 1", lost)]
    with pytest.raises(DeviceLostError):
        command._is_any_wrong(several, preflight=True)
    with pytest.raises(InfrastructureError, match="no compiler"):
        command._is_any_wrong(several[:1], preflight=True)
    with pytest.raises(UsageError):
        command._is_any_wrong([screened("GPU 0", UsageError("no such fault"))], preflight=True)
    with pytest.raises(InfrastructureError, match="GPU 3: no image was compared"):
        command._is_any_wrong([screened("GPU 3", None)], preflight=True)
    monkeypatch.setattr(ScreenedDevice, "is_wrong", property(lambda one: one.name == "GPU 2"))
    assert command._is_any_wrong([*several, screened("GPU 2", None)], preflight=True)


@pytest.mark.parametrize("target", NEWEST)
def test_programs_are_about_what_the_figures_are_known_of_and_nothing_else(target: str) -> None:
    module = Module.named(target, NEWEST[target])
    scope = scope_of(module, target)
    groups = {name for name, group in scope.items() if group.known}
    assert ("fp8" in groups) == (target in ("sm_89", "sm_90"))
    assert ("fp8" in scope) == (target in ("sm_89", "sm_90"))
    drawn = batches(scope, module, 0)
    first = [batch for _ in range(2 * len(groups)) for batch in next(drawn)]
    assert {group_of(batch.form) for batch in first if batch.form} >= groups
    for batch in first:
        products = {form for form in requirements(batch.program) if form.is_product}
        assert products <= {form for group in scope.values() for form in group.known}
        assert emit(batch.program, module=module).ptx


def test_code_of_a_compiler_that_nobody_measured_is_not_asked_for() -> None:
    module = Module.named("sm_90", "8.4")
    assert scope_of(module, "sm_90@13.0")["fp8"].known
    assert not scope_of(module, "sm_90@12.2")["fp8"].known
    with opened(RunnerChoice(name="sim", target="sm_90")) as ready:
        assert replace(ready, release="12.2").oracle_target == "sm_90@12.2"


# Slices of a GPU

LISTING = """\
GPU 0: NVIDIA H200 (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 1g.18gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 1g.18gb     Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)
GPU 1: NVIDIA H200 (UUID: GPU-e91edf3b-b297-37c1-a2a7-7601c3238fa2)
"""


def test_slices_stand_for_their_gpu_and_each_process_sees_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = devices_in(LISTING)
    names = [name for name, _ in found]
    assert names == ["GPU 0 MIG 1g.18gb device 0", "GPU 0 MIG 1g.18gb device 1", "GPU 1"]
    assert [uuid[:8] for _, uuid in found] == ["MIG-c6d4", "MIG-cba6", "GPU-e91e"]
    assert devices_in("No devices found.\n") == []
    options = Options(preflight=True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(command, "listed_devices", lambda: found)
    monkeypatch.setattr(command, "visible_devices", lambda: 2)
    slices = command._devices(options, None)
    assert [(one.name, one.choice.device, one.choice.visible) for one in slices] == [
        (name, 0, uuid) for name, uuid in found
    ]
    whole = [("GPU 0", 0, ""), ("GPU 1", 1, "")]
    monkeypatch.setattr(command, "listed_devices", lambda: [("GPU 0", "GPU-1")])
    assert command._named_devices(options, "cuda") == whole
    monkeypatch.setattr(command, "listed_devices", lambda: found)
    assert command._named_devices(Options(preflight=True, devices=(0, 1)), "cuda") == whole
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert command._named_devices(options, "cuda") == whole


@pytest.mark.parametrize(
    ("told", "uuid"),
    [
        ({"cuDeviceGetUuid": 1, "cuDeviceGetUuid_v2": 1}, "GPU-01010101-0101-"),
        ({"cuDeviceGetUuid": 1, "cuDeviceGetUuid_v2": 2}, "MIG-02020202-0202-"),
        ({"cuDeviceGetUuid": 1}, "GPU-01010101-0101-"),
        ({}, ""),
    ],
)
def test_a_slice_is_called_by_its_own_uuid(
    monkeypatch: pytest.MonkeyPatch, told: dict[str, int], uuid: str
) -> None:
    def call(library: DriverLibrary, name: str, *arguments: object) -> bool:
        if name in told:
            arguments[0]._obj[:] = [told[name]] * 16  # type: ignore[attr-defined]
        return name in told or name == "cuDeviceGet"

    monkeypatch.setattr(DriverLibrary, "_call", call)
    found = DriverLibrary().uuid(0)
    assert found.startswith(uuid)
    assert len(found) == (40 if uuid else 0)
