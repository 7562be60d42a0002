"""Fresh images a second on a device: the smallest program of f16, and where the time goes.

Load a, b, c, multiply, store d (m16n16k16, C and D f32). Each turn makes new images of all classes
of contents there, twice, runs the program on the copies, and compares these with what the reference
makes of the images. Prints one JSON object: the device, images a second of all three together and
of each alone, images that differed, and the power that NVML reads. With --breakdown also how many
images of each class alone are made, and making, running and comparing of programs of some forms.
Usage:

    python benchmarks/fresh_speed.py [--seconds S] [--images N] [--device N] [--breakdown]
"""

from __future__ import annotations

import argparse
import atexit
import datetime
import json
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec
from cuda_speed import program

from oracle.isa.lookup import FORMS, form_of
from oracle.models import model_for
from oracle.program.program import Program
from oracle.program.steps import product_of
from runners.cuda.fresh import DeviceReference
from runners.cuda.session import Session
from runners.emission import emit
from runners.reference.encoding import encode
from strategies.contents import Recipe, ValueClass
from strategies.contents.device import device_contents
from strategies.matrices import single_program

SHORT = 0.1
"""Seconds of each measurement of a breakdown."""
OPCODES = (
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
    "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16",
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32",
    "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32",
    "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32",
    "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
    "wmma.mma.sync.aligned.row.col.m8n8k4.rn.f64.f64.f64.f64",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
    "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
    "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16",
    "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
    "mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32",
)
"""Forms of a breakdown; those that this release does not name so are left out."""
MIX = Recipe(classes=tuple(ValueClass), seed=1)


class Measured:
    """A program with all that it needs on a device."""

    def __init__(
        self,
        session: Session,
        made: Program,
        images: int,
        both: tuple[int, int],
        stream: Any = None,
    ) -> None:
        self._session, self._images, self._both, self._stream = session, images, both, stream
        driver, facts = session._driver, session.facts()
        module = emit(made)
        name = f"test {next(_NUMBERS)}"
        session.modules.load(name, module.ptx.encode(), None)
        self._kernel = session.modules.function(name, module.kernels[0].entry, "PPI")
        device = f"sm_{facts.compute_capability[0]}{facts.compute_capability[1]}"
        self._driver, self._program = driver, made
        self.reference = reference_of(session)
        self.ready = self.reference.program(encode(made, model_for(device)))
        self._warps = module.kernels[0].warps_per_block
        self.contents = self.contents_of(MIX)

    def contents_of(self, recipe: Recipe) -> Any:
        """Return contents in the device's memory."""
        return self.reference.contents(device_contents(recipe, self._program))

    def fill(self, first: int, contents: Any = None) -> None:
        """Make images."""
        self.reference.fill(
            contents or self.contents, first, self._images, *self._both, self._stream
        )

    def run(self, first: int) -> None:
        """Run the program on copies."""
        self._kernel.prepared_async_call(
            (-(-self._images // self._warps), 1), (32 * self._warps, 1, 1),
            self._stream, self._both[1], 0, self._images,
        )  # fmt: skip

    def compare(self, first: int) -> None:
        """Compare them with what the reference makes of the images."""
        self.reference.add(self.ready, *self._both, first, self._images, self._stream)

    def turn(self, first: int) -> None:
        """Do all three."""
        for function in (self.fill, self.run, self.compare):
            function(first)

    def rate(self, seconds: float, *functions: Callable[[int], None], launches: int = 32) -> float:
        """Return millions of images a second, by functions that take turns."""
        begun, images = time.perf_counter(), 0
        while time.perf_counter() - begun < seconds:
            for number in range(launches):
                functions[number % len(functions)](images)
                images += self._images
            self._driver.Context.synchronize()
        return round(images / (time.perf_counter() - begun) / 1e6, 1)

    def differing(self) -> int:
        """Make, run and compare images; return how many differ."""
        self.fill(0)
        self.run(0)
        self.reference.start(self.ready, *self._both, self._images, self._stream)
        return self.reference.end(self._images).differing


_NUMBERS = count()
"""Of modules: the name of one that is gone would stand for its kernels."""
_REFERENCES: dict[int, DeviceReference] = {}


def reference_of(session: Session) -> DeviceReference:
    """Return the one reference of a session."""
    if id(session) not in _REFERENCES:
        _REFERENCES[id(session)] = DeviceReference(session._driver, session.modules)
    return _REFERENCES[id(session)]


def by_class(small: Measured) -> dict[str, Any]:
    """Return millions of images of each class that are made in a second."""
    found: dict[str, Any] = {}
    for class_ in ValueClass:
        contents = small.contents_of(Recipe(classes=(class_,), seed=1))
        rate = small.rate(SHORT, lambda first, c=contents: small.fill(first, c), launches=8)
        found[class_.value] = rate
    return found


def by_form(session: Session, memory: int) -> dict[str, Any]:
    """Return what programs of some forms do, in millions of images a second."""
    found: dict[str, Any] = {}
    known = {form.opcode for form in FORMS}
    before, after = (session._driver.mem_alloc(memory) for _ in range(2))
    for opcode in OPCODES:
        if opcode not in known:
            found[opcode] = "not known"
            continue
        made = single_program(product_of(form_of(opcode)))
        images = min(1 << 16, memory // made.image_bytes)
        try:
            one = Measured(session, made, images, (int(before), int(after)))
            rates: dict[str, Any] = {"bytes": made.image_bytes, "differing": one.differing()}
            for name in ("fill", "run", "compare"):
                rates[name] = one.rate(SHORT, getattr(one, name), launches=4)
        except Exception as error:
            rates = {"failed": str(error)[:200]}
        found[opcode] = rates
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--images", type=int, default=1 << 16)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--breakdown", action="store_true")
    given = parser.parse_args()
    made, session = program(), Session(given.device)
    # PyCUDA aborts where a context is left at the end.
    atexit.register(session._context.pop)
    driver = session._driver
    memories = [driver.mem_alloc(given.images * made.image_bytes) for _ in range(4)]
    before, after, *others = map(int, memories)
    begun = time.perf_counter()
    reference_of(session)
    compiling = time.perf_counter() - begun
    small = Measured(session, made, given.images, (before, after), driver.Stream())
    # As a campaign has it: one launch goes on where the one before leaves the device room.
    other = Measured(session, made, given.images, (others[0], others[1]), driver.Stream())
    differing = small.differing()
    rates: dict[str, float] = {}
    parts = {
        "all": (small.turn, other.turn),
        "all, one launch after the other": (small.turn,),
        "comparison": (small.compare,), "fill": (small.fill,), "run": (small.run,),
    }  # fmt: skip
    for name, functions in parts.items():
        rates[name] = small.rate(given.seconds, *functions)
        if name.startswith("all"):
            differing += small.reference.end(given.images).differing
    said: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "device": session.facts(),
        "seconds in which the reference was compiled and tried": round(compiling, 1),
        "million images a second": rates,
        "differing": differing,
        "bytes of a warp": small.ready.encoded.work_bytes,
        "health": session.health(),
    }
    if given.breakdown:
        said["million images of a class a second"] = by_class(small)
        said["million images of a form a second"] = by_form(session, 128 << 20)
    print(json.dumps(msgspec.to_builtins(said), indent=1))


if __name__ == "__main__":
    main()
