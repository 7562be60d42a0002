"""The stand-in of tests/runners/cuda/fakes/working, with a device that breaks on some images.

FAKE_TROUBLE names what happens in every launch of one image, the first that any process was given;
the file FAKE_CHOSEN remembers it. Without them programs run as the simulated device runs them.
"""

import os
from pathlib import Path

_WORKING = Path(__file__).parents[4] / "runners" / "cuda" / "fakes" / "working" / "pycuda"
exec(compile((_WORKING / "driver.py").read_text(), str(_WORKING / "driver.py"), "exec"))

_BEHAVIOURS = {"misaligned": 0xF1, "hang": 0xF2, "kill": 0xF3, "refuse": 0xF4, "garble": 0xF5}
_simulated_well = _simulated  # noqa: F821


def _simulated(module, name, memory, threads):
    behaviour = _BEHAVIOURS.get(os.environ.get("FAKE_TROUBLE", ""))
    if behaviour and name != "self_check":
        chosen = Path(os.environ["FAKE_CHOSEN"])
        if not chosen.exists():
            chosen.write_bytes(memory[0].tobytes())
        if any(image.tobytes() == chosen.read_bytes() for image in memory):
            _increment(np.full((1, 1), behaviour, np.uint8), np.zeros(1, np.uint32))  # noqa: F821
    return _simulated_well(module, name, memory, threads)
