"""The stand-in of tests/runners/cuda/fakes/working, with a device that breaks on some images.

FAKE_TROUBLE names what happens where one image of a launch is chosen by its bytes; without it,
programs run as the simulated device runs them.
"""

import os
import zlib
from pathlib import Path

_WORKING = Path(__file__).parents[4] / "runners" / "cuda" / "fakes" / "working" / "pycuda"
exec(compile((_WORKING / "driver.py").read_text(), str(_WORKING / "driver.py"), "exec"))

_BEHAVIOURS = {"misaligned": 0xF1, "hang": 0xF2, "kill": 0xF3, "refuse": 0xF4, "garble": 0xF5}
_simulated_well = _simulated  # noqa: F821


def _simulated(module, name, memory, threads):
    behaviour = _BEHAVIOURS.get(os.environ.get("FAKE_TROUBLE", ""))
    if behaviour and name != "self_check":
        for image in memory:
            if zlib.crc32(image.tobytes()) % 37 == 0:
                _increment(np.full((1, 1), behaviour, np.uint8), np.zeros(1, np.uint32))  # noqa: F821
    return _simulated_well(module, name, memory, threads)
