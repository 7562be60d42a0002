"""Runners that are broken on purpose, each in one way; what they are given is otherwise done."""

import contextlib
import itertools
import os
import re
import time
from pathlib import Path

import numpy as np
from numpy_wmma import run as toy


def chosen(ptx, entry, images):
    """Be broken in the way that a file of the environment names."""
    return globals()[Path(os.environ["WAY"]).read_text()](ptx, entry, images)


def layout_flipped(ptx, entry, images):
    return toy(ptx.replace("load.a.sync.aligned.row", "load.a.sync.aligned.col"), entry, images)


def stride_ignored(ptx, entry, images):
    return toy(re.sub(r"\], *[%r\d]+;", "];", ptx), entry, images)


def nan_kept(ptx, entry, images):
    from runners.simulated import SimulatedDevice

    after = SimulatedDevice("sm_90").load(ptx).launch(entry, images)[0]
    words = after.view("<u4")
    words[words == 0x7FFF_FFFF] = 0x7FC0_0001
    return after


def writes_behind_d(ptx, entry, images):
    after = nan_kept(ptx, entry, images)
    after[::2, -1] ^= 1
    return after


def hangs(ptx, entry, images):
    time.sleep(600)


def prints_noise(ptx, entry, images):
    os.write(1, bytes(range(256)) * 4096)
    print("[null, 'noise']" * 1000, flush=True)
    return toy(ptx, entry, images)


def answers_itself(ptx, entry, images):
    for descriptor in {int(one.name) for one in Path("/proc/self/fd").iterdir()} - {0, 1, 2}:
        with contextlib.suppress(OSError):
            os.write(descriptor, b"[1, 2, 3]\n")
    return toy(ptx, entry, images)


def dies_in_the_middle(ptx, entry, images):
    toy(ptx, entry, images[: len(images) // 2])
    os._exit(0)


def too_few(ptx, entry, images):
    return toy(ptx, entry, images)[:-1]


def another_size(ptx, entry, images):
    return toy(ptx, entry, images).astype(np.float32)


def slow(ptx, entry, images):
    time.sleep(0.1 * len(images))
    return toy(ptx, entry, images)


def raises(ptx, entry, images):
    raise ValueError("no such register")


def not_every_time(ptx, entry, images):
    after = toy(ptx, entry, images)
    after[0, -1] ^= next(changes)
    return after


changes = itertools.chain([1], itertools.repeat(0))
