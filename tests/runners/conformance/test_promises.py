"""What every runner promises besides the right images."""

from __future__ import annotations

import kernels_that_fail as fragile
import numpy as np
import pytest
from outcomes import compiled_of, ran_of
from runners_under_test import make_runner
from single_multiplies import VARIANTS, Access, contents

from oracle.errors import UsageError
from oracle.isa.targets import Module
from runners.cuda.runner import CudaRunner
from runners.emission import emit
from runners.isolation import isolate
from runners.kernels import Kernel, KernelModule, Launch
from runners.protocol import Compiled, Failure, Images, Runner, Trouble

pytestmark = pytest.mark.stand_in


def _multiply(runner: Runner, count: int) -> tuple[Compiled, Images]:
    program, images = contents(VARIANTS[0], Access(), count, seed=1)
    return compiled_of(runner, emit(program, module=Module.named("sm_75", "7.0"))), images


def test_the_same_batch_gives_the_same_images_every_time(runner: Runner) -> None:
    compiled, images = _multiply(runner, 100)
    first = ran_of(runner.run(compiled, images))
    for _ in range(3):
        assert np.array_equal(ran_of(runner.run(compiled, images)).images, first.images)


def test_an_image_gives_the_same_in_any_company(runner: Runner) -> None:
    compiled, images = _multiply(runner, 50)
    together = ran_of(runner.run(compiled, images)).images
    order = np.random.default_rng(2).permutation(50)
    assert np.array_equal(ran_of(runner.run(compiled, images[order])).images, together[order])
    for part in (slice(0, 1), slice(13, 14), slice(7, 40)):
        assert np.array_equal(ran_of(runner.run(compiled, images[part])).images, together[part])


def test_batches_on_their_way_come_back_each_with_its_own_images(runner: Runner) -> None:
    compiled, images = _multiply(runner, 60)
    together = ran_of(runner.run(compiled, images)).images
    parts = [slice(0, 20), slice(20, 21), slice(21, 60)]
    pending = [runner.submit(compiled, images[part]) for part in parts]
    for part, batch in reversed(list(zip(parts, pending, strict=True))):
        outcome = ran_of(batch.collect())
        assert np.array_equal(outcome.images, together[part])
        assert batch.collect() is outcome


def test_what_goes_in_is_left_alone_and_what_comes_out_is_read_only(runner: Runner) -> None:
    compiled, images = _multiply(runner, 4)
    before = images.copy()
    ran = ran_of(runner.run(compiled, images))
    assert np.array_equal(images, before)
    assert not ran.images.flags.writeable
    assert not np.shares_memory(ran.images, images)


def test_an_earlier_result_outlives_later_batches(runner: Runner) -> None:
    compiled, images = _multiply(runner, 8)
    first = ran_of(runner.run(compiled, images))
    kept = first.images.copy()
    for _ in range(5):
        ran_of(runner.run(compiled, images[::-1]))
    assert np.array_equal(first.images, kept)


def test_every_image_names_the_multiprocessor_that_ran_it(runner: Runner) -> None:
    compiled, images = _multiply(runner, 500)
    sms = ran_of(runner.run(compiled, images)).sms
    assert sms.shape == (500,)
    assert sms.dtype == np.uint32
    assert sms.max() < 1024
    assert np.unique(sms).size > 1


def test_a_batch_of_no_images_has_no_images(runner: Runner) -> None:
    compiled, images = _multiply(runner, 2)
    assert ran_of(runner.run(compiled, images[:0])).images.shape == (0, images.shape[1])


def test_images_that_do_not_fit_are_refused_before_anything_runs(runner: Runner) -> None:
    compiled, images = _multiply(runner, 2)
    for wrong in (images[:, :-1], images.view(np.uint32), images[0]):
        with pytest.raises(UsageError, match="must be uint8"):
            runner.run(compiled, wrong)
    with pytest.raises(UsageError, match="whose kernels are"):
        runner.run(compiled, images, entry="other")


def test_a_module_that_is_no_ptx_is_a_compile_failure(runner: Runner) -> None:
    module = KernelModule(
        ptx=fragile.FRAGILE.ptx.replace("setp.ge.u32", "setp.gee.u32"),
        target="sm_75",
        version="7.8",
        kernels=fragile.FRAGILE.kernels,
    )
    outcome = runner.compile(module)
    assert isinstance(outcome, Failure)
    assert outcome.trouble in (Trouble.COMPILE_FAILURE, Trouble.UNSUPPORTED)
    assert outcome.detail


def test_a_target_that_it_cannot_run_is_said_to_be_so(runner: Runner) -> None:
    module = KernelModule(
        ptx=fragile.FRAGILE.ptx.replace("sm_75", "sm_121a").replace("7.8", "8.8"),
        target="sm_121a",
        version="8.8",
        kernels=fragile.FRAGILE.kernels,
    )
    can = runner.capabilities()
    assert not isinstance(can, Failure)
    assert "sm_121a" not in can.targets
    outcome = runner.compile(module)
    assert isinstance(outcome, Failure)
    assert outcome.trouble in (Trouble.UNSUPPORTED, Trouble.COMPILE_FAILURE)


@pytest.mark.parametrize(
    ("word", "trouble"),
    [(fragile.MISALIGNED, Trouble.STICKY_ERROR), (fragile.ENDLESS, Trouble.HANG)],
)
def test_an_image_that_brings_the_device_down_costs_its_batch_and_no_other(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, word: int, trouble: Trouble
) -> None:
    compiled = compiled_of(runner, fragile.FRAGILE)
    good, bad = fragile.images(20), fragile.images(20, image_7=word)
    pending = []
    for batch in (good, bad, good):
        if isinstance(runner, CudaRunner):
            monkeypatch.setattr(runner, "deadline", 0.5 if batch is bad else 60.0)
        pending.append(runner.submit(compiled, batch))
    outcomes = [batch.collect() for batch in pending]
    assert isinstance(outcomes[1], Failure)
    assert outcomes[1].trouble is trouble
    for outcome in (outcomes[0], outcomes[2]):
        assert np.array_equal(ran_of(outcome).images, fragile.expected(good))


def test_isolation_finds_the_images_that_bring_the_device_down(runner: Runner) -> None:
    compiled = compiled_of(runner, fragile.FRAGILE)
    images = fragile.images(6, image_1=fragile.MISALIGNED, image_4=fragile.MISALIGNED)
    found = isolate(runner, compiled, images)
    assert [culprit.index for culprit in found.culprits] == [1, 4]
    assert {culprit.failure.trouble for culprit in found.culprits} == {Trouble.STICKY_ERROR}
    assert found.complete
    assert np.array_equal(np.flatnonzero(~found.ran), [1, 4])
    assert np.array_equal(found.images[found.ran], fragile.expected(images)[found.ran])


def test_kernels_of_one_module_are_told_apart_by_name(runner: Runner) -> None:
    other = fragile.FRAGILE.ptx.split(".visible")[1].replace("fragile", "other")
    other = other.replace("add.u32 %word, %word, 1", "add.u32 %word, %word, 2")
    module = KernelModule(
        ptx=f"{fragile.FRAGILE.ptx}\n.visible{other}",
        target="sm_75",
        version="7.8",
        kernels=(
            *fragile.FRAGILE.kernels,
            Kernel(entry="other", image_bytes=fragile.IMAGE_BYTES),
        ),
    )
    compiled = compiled_of(runner, module)
    images = fragile.images(3)
    once = fragile.expected(images)
    assert np.array_equal(ran_of(runner.run(compiled, images, entry="fragile")).images, once)
    twice = ran_of(runner.run(compiled, images, entry="other")).images
    assert np.array_equal(twice, fragile.expected(once))


@pytest.mark.parametrize("name", ["simulated", "cuda over a stand-in driver"])
def test_a_closed_runner_says_so(name: str) -> None:
    with make_runner(name) as runner:
        compiled = compiled_of(runner, fragile.FRAGILE)
    with pytest.raises(UsageError, match="closed"):
        runner.compile(fragile.FRAGILE)
    with pytest.raises(UsageError, match="closed"):
        runner.run(compiled, fragile.images(1))


PTX = """\
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 4 .b32 tile[];
.visible .entry turned(.param .u64 out, .param .u32 added, .param .u64 in)
{
    .reg .b32 %r<12>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [out];
    ld.param.u64 %rd2, [in];
    ld.param.u32 %r1, [added];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.y;
    mad.lo.u32 %r2, %r4, %r3, %r2;
    mov.u32 %r4, %ntid.y;
    mul.lo.u32 %r3, %r3, %r4;
    mov.u32 %r4, %ctaid.y;
    mad.lo.u32 %r5, %r4, %r3, %r2;
    mul.wide.u32 %rd3, %r5, 4;
    add.u64 %rd2, %rd2, %rd3;
    add.u64 %rd1, %rd1, %rd3;
    ld.global.u32 %r6, [%rd2];
    mov.u32 %r7, tile;
    mad.lo.u32 %r8, %r2, 4, %r7;
    st.shared.u32 [%r8], %r6;
    bar.sync 0;
    sub.u32 %r9, %r3, 1;
    sub.u32 %r9, %r9, %r2;
    mad.lo.u32 %r8, %r9, 4, %r7;
    ld.shared.u32 %r6, [%r8];
    add.u32 %r6, %r6, %r1;
    st.global.u32 [%rd1], %r6;
    ret;
}
"""
BLOCKS, THREADS = 3, 45
OUT, IN, BYTES = 256, 1024, 2048
LAUNCH = Launch(
    grid=(1, BLOCKS, 1), block=(15, 3, 1), shared_bytes=4 * THREADS,
    parameters=bytes(8) + (7).to_bytes(8, "little") + bytes(8), pointers=((0, OUT), (16, IN)),
    buffers=((OUT, 4 * BLOCKS * THREADS), (IN, 4 * BLOCKS * THREADS)),
)  # fmt: skip
MODULE = KernelModule(
    ptx=PTX, target="sm_80", version="8.0",
    kernels=(Kernel(entry="turned", image_bytes=BYTES, launch=LAUNCH),),
)  # fmt: skip


@pytest.mark.parametrize("count", [1, 5])
def test_every_image_has_a_grid_of_its_own(runner: Runner, count: int) -> None:
    before = np.random.default_rng(count).integers(0, 256, (count, BYTES), np.uint8)
    expected = before.copy().view(np.uint32)
    size = BLOCKS * THREADS
    given = expected[:, IN // 4 : IN // 4 + size].reshape(count, BLOCKS, THREADS)
    turned = given[:, :, ::-1].reshape(count, size) + np.uint32(7)
    expected[:, OUT // 4 : OUT // 4 + size] = turned
    ran = ran_of(runner.run(compiled_of(runner, MODULE), before.copy()))
    assert np.array_equal(ran.images, expected.view(np.uint8))
    assert (ran.sms == 0xFFFFFFFF).all()
