"""Runners of somebody else's: judged right, and what is wrong with one is told as what it is."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from fuzz.campaign.pool import WorkerHeartbeat, pickled, shared_heartbeats, unpickled
from fuzz.checks.programs import Programs
from fuzz.cli import _exit_code
from fuzz.commands.conform import MODEL, PERMITTED, asked
from fuzz.runner import RunnerChoice, opened
from oracle.errors import InfrastructureError, UsageError
from oracle.isa.lookup import FORMS, form_of, is_available, warpgroup_forms
from oracle.isa.targets import Module
from oracle.program.warpgroup import AsyncProduct
from runners import foreign
from runners.emission import emit
from runners.foreign import ForeignRunner, identity_of
from runners.processes import OUTPUT_LIMIT
from runners.simulated_runner import SimulatedRunner
from strategies.conformance import forms_of, item, unjudged

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
MODULE = Module.named("sm_90", "8.0")
LOAD = "wmma.load.a.sync.aligned.row.m16n16k16.global.f16"
PRODUCT = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f16"
SHORT = 0.5
"""Seconds that a batch of a runner may take that hangs."""


def answer(name, opcode):
    with ForeignRunner(name) as runner:
        return asked(runner, item(form_of(opcode), MODULE), MODULE, count=38)


# The suite


@pytest.mark.parametrize(
    ("target", "version"), [("sm_70", "6.5"), ("sm_120a", "9.1"), ("sm_90a", "8.0")]
)
def test_every_form_of_a_target_is_asked_or_named(target, version):
    module = Module.named(target, version)
    asked, left = {*forms_of(module)}, {*unjudged(module)}
    every = (*FORMS, *(form for form in warpgroup_forms() if form.is_product))
    assert asked | left == {form for form in every if is_available(form, module)}
    assert not asked & left
    assert all(form.is_product or form.opaque or form.is_store for form in left)


def test_every_form_is_reached_with_every_stride_in_every_memory():
    for form in [*forms_of(MODULE)][::7]:
        if form.is_access:
            ways = {way.partition(" memory, ")[::2] for way in item(form, MODULE).ways}
            memories = {"": {"global", "shared"}, "global": {"global"}}.get(form.space, {"shared"})
            assert {memory for memory, _ in ways} == memories, form
            assert len(ways) == 5 * len(memories), form


@pytest.mark.parametrize("index", range(0, 765, 85))
def test_the_simulated_device_has_the_bits_of_the_model(index):
    form = [*forms_of(MODULE)][index]
    with SimulatedRunner() as runner:
        assert asked(runner, item(form, MODULE), MODULE, count=19).outcome == MODEL, form


@pytest.mark.slow
def test_the_simulated_device_conforms(capfd):
    assert _exit_code(["conform", "sim"]) == 0
    assert re.search(r"# 765 forms of .*: 765 bits as the model$", capfd.readouterr().out, re.M)


@pytest.mark.parametrize(
    "kind", ["m64n24k32.f32.e4m3.e5m2", "m64n8k16.f16.f16.f16", "m64n16k32.f32.bf16.bf16"]
)
def test_a_warpgroup_is_asked_in_every_way_and_in_parts(kind, monkeypatch):
    module = Module.named("sm_90a")
    sparse = ".sp" if kind.startswith("m64n16k32") else ""  # dense ones of 16 bits have k16
    form = form_of(f"wgmma.mma_async{sparse}.sync.aligned.{kind}")
    one = item(form, module)
    steps = [step for step in one.program.steps if isinstance(step, AsyncProduct)]
    assert [step.a_tile is None for step in steps] == [False, True]
    monkeypatch.setattr("fuzz.commands.conform._TOGETHER_BYTES", 2 * one.program.image_bytes)
    with SimulatedRunner("sm_90a") as runner:
        assert asked(runner, one, module, count=5).outcome == MODEL
        run = runner.run

        def last_wrong(compiled, images):
            ran = run(compiled, images)
            if len(images) > 1:
                return ran
            changed = ran.images.copy()
            changed[0, one.program.offset("gd1")] ^= 64
            return replace(ran, images=changed)

        monkeypatch.setattr(runner, "run", last_wrong)
        came = asked(runner, one, module, count=5)
    assert came.outcome in ("wrong", PERMITTED)
    assert came.said.startswith("1 of 1 image behind 4 others, only with A in registers: ")


# Ways of being broken


def test_a_toy_in_numpy_is_judged(installed):
    installed(toy="numpy_wmma:run")
    with ForeignRunner("toy") as runner:
        for opcode, outcome in {
            LOAD: MODEL,
            "wmma.store.d.sync.aligned.col.m8n32k16.global.f32": MODEL,
            PRODUCT: PERMITTED,
            LOAD.replace("global", "shared"): "not implemented",
            "movmatrix.sync.aligned.m8n8.trans.b16": "not implemented",
        }.items():
            came = asked(runner, item(form_of(opcode), MODULE), MODULE, count=19)
            assert came.outcome == outcome, (opcode, came)


FUNCTIONS = {
    "layout_flipped": ("wrong", "in every way"),
    "stride_ignored": ("wrong", "only with global memory, stride padded, address offset; global"),
    "nan_kept": (
        "inside the permitted enclosure",
        "0x7fffffff, actual 0x7fc00001, which the ISA permits",
    ),
    "writes_behind_d": ("wrong", "19 of 38 images: byte "),
    "prints_noise": (MODEL, ""),
    "too_few": ("unreadable output", "uint8 of shape (37, "),
    "another_size": ("unreadable output", "gave back float32 of shape (38, "),
    "raises": ("launch failure", "raised ValueError: no such register"),
    "not_every_time": ("flaky", "bits as the model the second time"),
    # From here on the process ends.
    "answers_itself": ("unreadable output", "answered garbage"),
    "hangs": ("hang", "did not end within 0.5 s"),
    "dies_in_the_middle": ("crash", "ended its process in the middle"),
    "slow": ("too slow", "did not end within 0.8 s, and one image of 38 takes 0."),
}


def judged(runner, name, outcome, said, *, opcode=LOAD):
    # The runner's own deadline is of the batches of a campaign.
    runner._way._deadline = {"hangs": SHORT, "slow": 0.8}.get(name, 60.0)
    came = asked(runner, item(form_of(opcode), MODULE), MODULE, count=38)
    assert came.outcome == outcome, (name, came)
    assert said in came.said
    assert "Traceback" not in came.said
    assert came.said.count("no such register") <= 1


def test_a_function_that_is_broken_is_told_as_what_it_is(installed, tmp_path, monkeypatch):
    way = tmp_path / "way"
    monkeypatch.setenv("WAY", str(way))
    installed(broken="broken_runners:chosen")
    with ForeignRunner("broken") as runner:
        for name, (outcome, said) in FUNCTIONS.items():
            way.write_text(name)
            opcode = PRODUCT if name in ("nan_kept", "writes_behind_d") else LOAD
            judged(runner, name, outcome, said, opcode=opcode)


COMMANDS = {
    "not-implemented": ("not implemented", "this is not-implemented"),
    "hangs": ("hang", "did not end within 0.5 s"),
    "noise": ("unreadable output", f"wrote {OUTPUT_LIMIT >> 20} MiB and more"),
    "dies": ("crash", "was killed by SIGKILL: this is dies"),
    "too-many": ("unreadable output", "are due: 38 images of"),
    "nothing": ("unreadable output", "gave back 0 bytes"),
    "fails": ("launch failure", "ended with status 3: this is fails"),
    "raises": ("launch failure", "status 1: this is raises AttributeError: 'NoneType'"),
    "unchanged": ("wrong", "38 of 38 images, in every way: d1[0, 0]"),
}


@pytest.mark.parametrize("way", COMMANDS)
def test_a_command_that_is_broken_is_told_as_what_it_is(way):
    with ForeignRunner(f"{HERE}/broken.sh {way}") as runner:
        judged(runner, way, *COMMANDS[way])


def test_after_a_hang_and_a_crash_a_function_is_started_again(installed, tmp_path):
    installed(theirs="theirs:run")
    (tmp_path / "theirs.py").write_text(
        "import os, pathlib, time\nfrom numpy_wmma import run as toy\n"
        "def run(ptx, entry, images):\n"
        "    seen = pathlib.Path(__file__).with_name('seen')\n"
        "    seen.touch()\n    count = seen.stat().st_size\n"
        "    seen.write_bytes(bytes(count + 1))\n"
        "    if count == 0: os.abort()\n    if count == 1: time.sleep(600)\n"
        "    return toy(ptx, entry, images)\n"
    )
    one = item(form_of(LOAD), MODULE)
    with ForeignRunner("theirs", deadline=SHORT) as runner:
        outcomes = [asked(runner, one, MODULE, count=1).outcome for _ in range(2)]
    # The first is asked again, and hangs then.
    assert outcomes == ["flaky", MODEL]


def test_large_batches_go_in_parts_none_does_not_go_and_a_closed_runner_says_so(monkeypatch):
    one = item(form_of(LOAD), MODULE)
    images = one.images(5)
    monkeypatch.setattr(foreign, "OUTPUT_LIMIT", 2 * images.shape[1] + 1)
    with ForeignRunner(f"{HERE}/broken.sh unchanged") as runner:
        compiled = runner.compile(emit(one.program, module=MODULE))
        assert (runner.run(compiled, images).images == images).all()
        assert runner.run(compiled, images[:0]).images.shape == (0, images.shape[1])
        assert not runner.run(compiled, images).images.flags.writeable
    for ask in (lambda: runner.compile(compiled.module), lambda: runner.run(compiled, images)):
        with pytest.raises(UsageError, match="closed"):
            ask()


# Names


def test_an_unknown_name_is_refused_with_what_there_is(installed):
    installed(mine="numpy_wmma:run")
    with (
        pytest.raises(UsageError, match="no runner 'yours'; there are sim, cuda, mine, and comm"),
        opened(RunnerChoice(name="yours")),
    ):
        pass
    with pytest.raises(UsageError, match=r"there is no program \./yours"):
        ForeignRunner("./yours")


def test_a_function_that_cannot_be_loaded_says_why(installed):
    installed(mine="numpy_wmma:gone")
    with (
        pytest.raises(InfrastructureError, match=r"cannot be loaded: AttributeError: .* 'gone'"),
        opened(RunnerChoice(name="mine")),
    ):
        pass


def test_another_runner_of_the_name_is_refused_where_workers_open_it(installed, tmp_path):
    installed(mine="theirs:run")
    script = tmp_path / "theirs.py"
    script.write_text("from numpy_wmma import run\n")
    for name in ("mine", f"{sys.executable} {script}"):
        choice = RunnerChoice(name=name, identity=identity_of(name))
        sent = pickled(Programs(choice=choice, seed=1))
        with unpickled(sent).opened(WorkerHeartbeat(shared_heartbeats(1), 0)):
            pass
        script.write_text(script.read_text() + "\n")
        with (
            pytest.raises(UsageError, match="is not the one with which the campaign began"),
            unpickled(sent).opened(WorkerHeartbeat(shared_heartbeats(1), 0)),
        ):
            pass


def test_what_a_worker_finds_on_a_command_is_found_again(installed, tmp_path, capfd):
    command = f"{HERE}/broken.sh unchanged"
    corpus = str(tmp_path / "corpus")
    options = ("--cases", "8", "--workers", "1", "--seed", "1", "--only", "movmatrix", "--json")
    assert _exit_code(["run", "--runner", command, "--corpus", corpus, *options]) == 1
    summary = json.loads(capfd.readouterr().out.splitlines()[-1])["summary"]
    assert {one["kind"] for one in summary["findings"]} == {"violation"}
    assert _exit_code(["replay", corpus, "--trust"]) == 1
    assert "reproduced" in capfd.readouterr().out
    assert _exit_code(["replay", corpus, "--runner", "sim"]) == 0
    (description,) = Path(corpus, "findings").glob("*/finding.json")
    assert str(HERE) not in json.loads(description.read_text())["runners"][0]["runner"]


# The command and its outputs


def conform(capfd, *arguments):
    code = _exit_code(["conform", *arguments])
    return code, capfd.readouterr().out


def test_expectations_flip(installed, tmp_path, capfd):
    installed(toy="numpy_wmma:run", broken="broken_runners:layout_flipped")
    file, tap, junit = (tmp_path / name for name in ("known.toml", "out.tap", "out.xml"))
    saved = tmp_path / "failing"
    select = ("--only", "wmma.load.a.sync.aligned.row.m16n16k16.global.*f16", "--images", "4")
    with_file = (*select, "--expectations", str(file))
    outputs = ("--tap", str(tap), "--junit", str(junit), "--save-failing", str(saved))
    code, out = conform(capfd, "broken", *select, *outputs)
    assert code == 1
    assert tap.read_text() == out
    assert out.startswith("TAP version 14\n1..2\n")
    assert len(re.findall("^not ok", out, re.M)) == 1
    root = ElementTree.parse(junit).getroot()
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("2", "1", "1")
    # Each result is said once.
    assert out.count("wrong") == 2  # of the form, and in the counts at the end
    assert re.search("^ok .*f16 # SKIP not implemented$", out, re.M)
    (own,) = saved.iterdir()
    before, right, wrong = (np.load(own / f"{one}.npy") for one in ("input", "expected", "actual"))
    assert before.shape == right.shape == wrong.shape
    assert (right != wrong).any()
    assert ".visible .entry kernel" in (own / "module.ptx").read_text()
    assert conform(capfd, "broken", *with_file)[0] == 2
    assert conform(capfd, "broken", *with_file, "--update-expectations")[0] == 0
    assert file.read_text().count('"wrong"') == 1
    code, out = conform(capfd, "broken", *with_file)
    assert code == 0
    assert len(re.findall("^not ok .*: wrong # TODO as expected$", out, re.M)) == 1
    code, out = conform(capfd, "toy", *with_file)
    assert code == 1
    assert re.search("^not ok .*: bits as the model; expected: wrong$", out, re.M)
    code, out = conform(capfd, "toy", *with_file, "--update-expectations", "--json")
    assert code == 0
    assert json.loads(out.splitlines()[-1])["summary"]["flipped"] == [LOAD]
    assert "wrong" not in file.read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[forms]\n'wmma.lode' = 'wrong'", "'wmma.lode' of .* is no form"),
        (f"[forms]\n'{LOAD}' = 'fine'", "is 'fine'; outcomes are bits as the model, inside"),
        ("[[form]]\nopcode = 'x'", "Invalid enum value 'form'.*; write a table"),
    ],
)
def test_expectations_that_mean_nothing_are_refused(tmp_path, capfd, text, words):
    file = tmp_path / "known.toml"
    file.write_text(text)
    assert _exit_code(["conform", "sim", "--expectations", str(file)]) == 2
    assert re.search(words, capfd.readouterr().err)


def test_a_planted_fault_that_applies_to_no_form_is_said_to_be_untested(capfd):
    """All forms were "bits as the model", and nothing said that the fault was not there."""
    faults = ("--fault", "load-a-layout-flipped")
    words = ("sim", "--only", "movmatrix", "--images", "1", *faults)
    said = "applied to 0 of 1 program, so not tested: --fault load-a-layout-flipped"
    code, out = conform(capfd, *words)
    assert code == 3
    assert f"# {said}\n" in out
    _, out = conform(capfd, *words, "--json")
    assert json.loads(out.splitlines()[-1])["summary"]["untested"] == said
    code, out = conform(capfd, "sim", "--only", LOAD, "--images", "1", *faults, "--json")
    assert code == 1
    assert json.loads(out.splitlines()[-1])["summary"]["untested"] is None


def test_where_nothing_is_implemented_nothing_was_compared(capfd):
    code = _exit_code(["conform", f"{HERE}/broken.sh not-implemented", "--only", "movmatrix"])
    assert code == 3
    assert "nothing was compared" in capfd.readouterr().err


# The page


def test_the_examples_of_the_page_are_runners(installed, tmp_path):
    page = (ROOT / "docs" / "runners.md").read_text()
    files = dict(re.findall(r"`(my_\w+\.py)`[^`]*```python\n(.*?)```", page, re.S))
    assert sorted(files) == ["my_command.py", "my_runner.py"]
    assert sum(len(text.splitlines()) for text in files.values()) <= 40
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    installed(mine="my_runner:run")
    assert answer("mine", PRODUCT).outcome == MODEL
    assert answer(f"{sys.executable} {tmp_path}/my_command.py", PRODUCT).outcome == MODEL


def test_a_kernel_of_ones_own_is_launched_as_it_says(installed, tmp_path, capfd):
    page = (ROOT / "docs" / "runners.md").read_text()
    (tmp_path / "my_runner.py").write_text(
        re.search(r"`my_runner\.py`[^`]*```python\n(.*?)```", page, re.S)[1]
    )
    installed(mine="my_runner:run", toy="numpy_wmma:run")
    kernel = tmp_path / "kernel.ptx"
    kernel.write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry twice(.param .u64 x) {\n"
        ".reg .b64 %x, %t;\n.reg .b32 %r, %v;\nld.param.u64 %x, [x];\nmov.u32 %r, %tid.x;\n"
        "mul.wide.u32 %t, %r, 4;\nadd.u64 %x, %x, %t;\nld.global.u32 %v, [%x];\n"
        "add.u32 %v, %v, %v;\nst.global.u32 [%x], %v;\nret;\n}\n"
    )
    options = ("--images", "4", "--corpus", str(tmp_path / "corpus"))
    assert _exit_code(["judge", str(kernel), "--runner", "mine", *options]) == 0
    assert "agreeing: mine" in capfd.readouterr().out
    assert _exit_code(["judge", str(kernel), "--runner", "toy", *options]) == 3
    assert "takes no launch" in capfd.readouterr().err
