"""Cases that a person wrote: a module, what memory holds before, and what it has to hold after.

A folder for `warpfuzz corpus import` with `case.json`, `module.ptx`, `input.npy` and
`expected.npy`, both uint8 of shape (1, bytes). The module's first entry keeps the convention of
`runners.kernels`; one warp runs.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from corpus import Entry, Kind
from corpus.images import unpack
from fuzz.findings.case import EXPECTED, INPUT, MODULE, PROGRAM
from fuzz.findings.replay import Outcome
from fuzz.findings.verdicts import kind_of_failure
from oracle.errors import InfrastructureError, UsageError
from runners.kernels import Kernel, KernelModule
from runners.protocol import Failure, Ran, Runner

_ENTRY = re.compile(r"\.entry\s+([a-zA-Z][a-zA-Z0-9_$]*)")


def is_by_hand(entry: Entry) -> bool:
    """Whether a finding has images and no program: its expected image is what a person says."""
    files = entry.finding.files
    return {MODULE, INPUT, EXPECTED} <= files.keys() and PROGRAM not in files


def replay_by_hand(entry: Entry, runner: Runner, *, times: int) -> Outcome:
    """Run a case and compare with the image that it expects.

    A difference is of the case's own kind: what the ISA says of it, the person knows.

    Raises
    ------
    UsageError
        If the module has no entry.
    InfrastructureError
        If the images are none.
    """
    module, image, expected = _read(entry)
    counts: Counter[str] = Counter()
    results = set()
    kinds: list[Kind | None] = []
    message = ""
    for _ in range(times):
        compiled = runner.compile(module)
        ran = compiled if isinstance(compiled, Failure) else runner.run(compiled, image)
        if isinstance(ran, Ran):
            different = np.flatnonzero(ran.images[0] != expected[0])
            kinds.append(entry.finding.kind if len(different) else None)
            results.add(ran.images.tobytes())
            if len(different):
                message = _described(different, expected[0], ran.images[0])
        else:
            kinds.append(kind_of_failure(ran))
            message = str(ran)
        counts["match" if kinds[-1] is None else kinds[-1].value] += 1
    return Outcome(
        kind=kinds[0] if len(set(kinds)) == 1 else Kind.FLAKY,
        counts=counts,
        results=frozenset(results),
        message=message,
    )


def _read(entry: Entry) -> tuple[KernelModule, NDArray[np.uint8], NDArray[np.uint8]]:
    ptx = entry.read(MODULE).decode(errors="replace")
    name = _ENTRY.search(ptx)
    if name is None:
        raise UsageError(f"{entry.path / MODULE} has no .entry; write the kernel that is to run")
    image, expected = (unpack(entry, file) for file in (INPUT, EXPECTED))
    for file, array in ((INPUT, image), (EXPECTED, expected)):
        if array.dtype != np.uint8 or array.ndim != 2 or array.shape != (1, image.shape[-1]):
            raise InfrastructureError(
                f"{entry.path / file} holds {array.dtype} of shape {array.shape}; both images are "
                "uint8 of shape (1, bytes)"
            )
    kernel = Kernel(entry=name[1], image_bytes=image.shape[1], warps_per_block=1)
    finding = entry.finding
    module = KernelModule(
        ptx=ptx, target=finding.target, version=finding.ptx_version, kernels=(kernel,)
    )
    return module, image, expected


def _described(
    different: NDArray[np.intp], expected: NDArray[np.uint8], actual: NDArray[np.uint8]
) -> str:
    first = int(different[0])
    return (
        f"{len(different)} bytes differ; byte {first}: expected 0x{expected[first]:02x}, actual "
        f"0x{actual[first]:02x}"
    )
