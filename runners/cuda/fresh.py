"""Images that the device makes by their numbers: made, run, and compared with the reference."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from oracle.isa.forms import LANES
from runners.cuda.modules import GrowingMemory, Launcher, Modules
from runners.kernels import Kernel
from runners.ledger import ROWS
from runners.protocol import Images
from runners.reference.encoding import Encoded
from runners.reference.fresh import FreshRan, FreshWork, fill_bytes, finished_by
from runners.reference.self_check import LISTED, Compared, check, nothing_found
from runners.reference.shipped import shipped

_KEY = "reference"
_COMPARE = "compare", "PPPIIIQIPP"
"""As in the interpreter: code, images, results, sizes, words of the code that each block copies to
shared memory, first, count, memory, found."""
_FILL = "fill", "PQQIPPP"
"""As in the interpreter: contents, first, count, batch, images, copies, memory."""
_LEVEL = 3  # -O level of the driver's compiler; at -O0 the reference would be the slower of the two
_COMPARING, _MAKING = 16, 20
"""Warps of a multiprocessor that its registers have room for, as the bounds of the kernels say
(interpreter.cu); 20 and 16 instead made 7 % fewer and 2 % more images (H100, 2026-11-27)."""
_WAVES = 16  # blocks of a comparison for each that is resident: all are busy until the last ones
_PARTS = 8
"""Warps that make images for each that is resident: those that follow each other make images of
one class of contents, and some classes take longer."""
_TOGETHER = 4
"""Most warps of a block (interpreter.cu): they begin together, and have instructions in common."""
_SHARED_BYTES = 48 << 10
"""Most shared memory of a warp; images that need more are made and compared in global memory."""
_CODE_BYTES = 4 << 10
"""Most bytes of a program that blocks copy to shared memory, where its words are read in 30 cycles
and not in 300 (H100, 2026-11-27); longer programs would leave room for fewer warps."""
_GLOBAL_BYTES = 1 << 28  # most memory for warps whose images are too large for shared memory
_SHARES = 512
"""A device's memory has room for so many of what a worker holds, of dozens: six at most."""
_CHUNK_BYTES = 256 << 20
"""Most bytes of the images of one launch: 3 % more images a second than with a quarter of it, and
2.5 times as many as with 4 MiB (H200, 2026-11-23)."""
_IMAGES = "images", "copies"
_Row = tuple[int, NDArray[np.uint8], NDArray[np.uint8], int]
"""Number of an image, the image before and after, and its multiprocessor."""


def _share(driver: Any, most: int) -> int:
    return min(most, int(driver.Context.get_device().total_memory()) // _SHARES)


@dataclass(eq=False, kw_only=True)
class DeviceCode:
    """A program, or contents, in the device's memory, and how it is launched."""

    code: Any
    blocks: int  # at most, in one launch
    warps: int = 1  # warps of a block
    shared_bytes: int = 0  # shared memory of a block
    memory: Any = None  # global memory for its warps; None: they have shared memory
    resident: int  # warps that run at once
    encoded: Encoded | None = None  # the program
    shared_words: int = 0
    """Words of the program that each block copies to shared memory: all or none."""


class DeviceReference:
    """The interpreter in the present context of PyCUDA.

    Raises LoadError if the driver refuses it, InfrastructureError if what it made of it does not
    compare; its methods pycuda.driver.Error if there is no room, or the device lost.
    """

    def __init__(self, driver: Any, modules: Modules) -> None:
        self._driver = driver
        modules.load_own(_KEY, shipped().encode(), _LEVEL)
        self._function = modules.function(_KEY, *_COMPARE)
        self._fill = modules.function(_KEY, *_FILL)
        device, names = driver.Context.get_device(), driver.device_attribute
        self._multiprocessors = device.get_attribute(names.MULTIPROCESSOR_COUNT)
        self._block_bytes = device.get_attribute(names.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
        for function in (self._function, self._fill):
            asked = driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            function.set_attribute(asked, self._block_bytes)
        self._global_bytes = _share(driver, _GLOBAL_BYTES)
        self._found = driver.mem_alloc(8 * (2 + LISTED))
        check(self.compare)

    def program(self, encoded: Encoded) -> DeviceCode:
        """Put a program into the device's memory."""
        ready = self._ready(encoded.words, encoded.work_bytes, _COMPARING, _WAVES)
        ready.encoded = encoded
        copied = 4 * len(encoded.words)
        room = self._block_bytes - ready.shared_bytes
        if ready.memory is None and copied <= min(_CODE_BYTES, room):
            ready.shared_words, ready.shared_bytes = copied // 4, ready.shared_bytes + copied
        return ready

    def contents(self, words: NDArray[np.uint64]) -> DeviceCode:
        """Put contents (`device_contents`) into the device's memory."""
        return self._ready(words, fill_bytes(words), _MAKING, _PARTS)

    def _ready(self, words: NDArray[Any], size: int, most: int, parts: int) -> DeviceCode:
        """Load words whose warps need so many bytes each.

        `most` warps of a multiprocessor run at once, by their registers; a launch has so many parts
        for each that runs at once.
        """
        code = self._driver.to_device(words)
        if size <= _SHARED_BYTES:
            resident = min(most, self._block_bytes // size) * self._multiprocessors
            warps = min(_TOGETHER, resident // self._multiprocessors)
            return DeviceCode(
                code=code, blocks=parts * resident // warps, warps=warps, shared_bytes=warps * size,
                resident=resident,
            )  # fmt: skip
        resident = max(1, min(most * self._multiprocessors, self._global_bytes // size))
        memory = self._driver.mem_alloc(resident * size)
        return DeviceCode(code=code, blocks=resident, memory=memory, resident=resident)

    def fill(
        self, contents: DeviceCode, first: int, count: int, images: int, copies: int,
        stream: Any = None,
    ) -> None:  # fmt: skip
        """Queue the making of images, numbered from `first` on, at two addresses each."""
        # Fewer at a time where there are few: all warps are to have some, and to end together.
        batch = max(1, count // (_PARTS * contents.resident))
        # Where two are made at once an odd number leaves half of the lanes without one.
        batch += batch % 2
        self._fill.prepared_async_call(
            (min(-(-count // contents.warps), contents.blocks), 1),
            (LANES * contents.warps, 1, 1),
            stream,
            *(int(contents.code), first, count, batch, images, copies),
            int(contents.memory or 0),
            shared_size=contents.shared_bytes,
        )

    def compare(self, encoded: Encoded, before: Images, after: Images) -> Compared:
        """Compare images of the host with what was made of them, and wait for what is found."""
        images, results = map(self._driver.to_device, map(np.ascontiguousarray, (before, after)))
        self.start(self.program(encoded), int(images), int(results), len(before))
        return self.end(len(before))

    def start(
        self, program: DeviceCode, before: int, after: int, count: int, stream: Any = None,
        first: int = 0,
    ) -> None:  # fmt: skip
        """Queue a comparison of images at an address with those at another; as `add`, for `end`."""
        self._driver.memcpy_htod(self._found, nothing_found())
        self.add(program, before, after, first, count, stream)

    def add(
        self, program: DeviceCode, before: int, after: int, first: int, count: int,
        stream: Any = None, found: Any = None,
    ) -> None:  # fmt: skip
        """Queue a comparison of further images, which are numbered from `first` on.

        `before` and `after` are addresses on the device, of images and of what the program under
        test made of them; `found` is where what differs is added there (`nothing_found`).
        """
        encoded = program.encoded
        assert encoded is not None
        self._function.prepared_async_call(
            (min(-(-count // program.warps), program.blocks), 1),
            (LANES * program.warps, 1, 1),
            stream,
            *(int(program.code), before, after, encoded.image_bytes, encoded.work_bytes),
            program.shared_words,
            *(first, count, int(program.memory or 0), int(found or self._found)),
            shared_size=program.shared_bytes,
        )

    def end(self, images: int) -> Compared:
        """Wait for what was started, of so many images, and return what it found."""
        found: NDArray[np.uint64] = np.empty(2 + LISTED, np.uint64)
        self._driver.Context.synchronize()
        self._driver.memcpy_dtoh(found, self._found)
        return Compared.of(images, found)


class _Buffers:
    def __init__(self, driver: Any) -> None:
        self.memory = GrowingMemory(driver.mem_alloc)  # of the device
        self._pinned = GrowingMemory(lambda count: driver.pagelocked_empty(count, np.uint32))
        self.head: NDArray[np.uint64] = driver.pagelocked_empty(2 + LISTED, np.uint64)
        """What was found, once it is here."""
        self.found = driver.mem_alloc(self.head.nbytes)
        self.copied = driver.Event(driver.event_flags.BLOCKING_SYNC)
        self.first = self.count = 0  # numbers of its images

    def units(self, count: int) -> NDArray[np.uint32]:
        """Return where the multiprocessors of images come to."""
        return cast("NDArray[np.uint32]", self._pinned("units", count)[:count])


@dataclass(kw_only=True, eq=False)
class _Comparison:
    """Work on its way: what it needs, and what was found so far."""

    work: FreshWork
    program: DeviceCode
    most: int  # images of a launch
    knows_units: bool  # whether the kernel says which multiprocessor ran an image
    differing: int = 0
    listed: list[_Row] = field(default_factory=list)
    sampled: list[_Row] = field(default_factory=list)
    finished: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(ROWS, np.uint32))
    is_full: bool = False


class FreshImages:
    """Comparisons in the present context of PyCUDA. Raises as `DeviceReference` does."""

    def __init__(self, driver: Any, modules: Modules) -> None:
        self._driver, self._modules = driver, modules
        self._reference = DeviceReference(driver, modules)
        self._stream = driver.Stream()
        self._buffers = _Buffers(driver), _Buffers(driver)
        self._chunk_bytes = _share(driver, _CHUNK_BYTES)

    def compare(self, key: str, kernel: Kernel, work: FreshWork) -> FreshRan:
        """Run a kernel on images, and compare with the reference.

        Raises LaunchError if the kernel's module is not loaded, pycuda.driver.Error if something
        failed.
        """
        size = work.encoded.image_bytes
        queued = self._modules.launcher(key, kernel)
        result = _Comparison(
            work=work,
            program=self._reference.program(work.encoded),
            most=min(work.count, max(1, self._chunk_bytes // size)),
            knows_units=kernel.launch is None,
        )
        contents = self._reference.contents(work.contents)
        for buffers in self._buffers:
            self._driver.memcpy_htod(buffers.found, nothing_found())
            # All that most programs need, once.
            for name in _IMAGES:
                buffers.memory(name, max(self._chunk_bytes, size))
            buffers.memory("sms", 4 * result.most)
            buffers.units(result.most)
        begun = time.perf_counter()
        last = self._launched(queued, contents, result)
        last.copied.synchronize()
        seconds = time.perf_counter() - begun
        self._look_at(last, result)
        rows = [*result.listed, *result.sampled]
        numbers, before, after, sms = zip(*rows, strict=True) if rows else ((), (), (), ())
        return FreshRan(
            images=work.count, differing=result.differing, listed=len(result.listed),
            seconds=seconds, finished=result.finished, numbers=np.array(numbers, np.uint64),
            sms=np.array(sms, np.uint32), before=np.array(before, np.uint8).reshape(-1, size),
            after=np.array(after, np.uint8).reshape(-1, size),
        )  # fmt: skip

    def _launched(
        self,
        queued: Launcher,
        contents: DeviceCode,
        result: _Comparison,
    ) -> _Buffers:
        """Launch after launch, have images made, run and compared; look at all but the last."""
        reference, work, most = self._reference, result.work, result.most
        end, buffers, before = work.first + work.count, self._buffers[0], None
        # One launch is looked at while the device has the next.
        for number, first in enumerate(range(work.first, end, most)):
            buffers, count = self._buffers[number % 2], min(most, end - first)
            images, copies, sms = (int(buffers.memory(name, 0)) for name in (*_IMAGES, "sms"))
            reference.fill(contents, first, count, images, copies, self._stream)
            queued(copies, sms, count, self._stream)
            reference.add(result.program, images, copies, first, count, self._stream, buffers.found)
            self._driver.memcpy_dtoh_async(buffers.head, buffers.found, self._stream)
            buffers.units(count)[:] = ~np.uint32(0)
            if result.knows_units:
                self._driver.memcpy_dtoh_async(buffers.units(count), sms, self._stream)
            buffers.copied.record(self._stream)
            buffers.first, buffers.count = first, count
            if before is not None:
                self._look_at(before, result)
            before = buffers
        return buffers

    def _look_at(self, buffers: _Buffers, result: _Comparison) -> None:
        buffers.copied.synchronize()
        first, count, work = buffers.first, buffers.count, result.work
        images, copies = (int(buffers.memory(name, 0)) for name in _IMAGES)
        found = Compared.of(count, buffers.head)
        if found.differing:
            if found.differing > len(found.numbers):
                some = self._lowest(result.program, images, copies, first, count).numbers
                found = replace(found, numbers=some)
            self._driver.memcpy_htod(buffers.found, nothing_found())
        result.differing += found.differing
        units, size = buffers.units(count), work.encoded.image_bytes
        kept = work.kept(found, first, len(result.listed))
        for rows, numbers in zip((result.listed, result.sampled), kept, strict=True):
            for number in numbers:
                place = number - first
                before, after = (
                    self._fetched(start + place * size, size) for start in (images, copies)
                )
                rows.append((number, before, after, int(units[place])))
        if not result.is_full:
            result.is_full = result.differing > len(result.listed)
            last = count
            if result.is_full and result.listed:
                last = max(0, result.listed[-1][0] + 1 - first)
            result.finished += finished_by(units, last)

    def _lowest(
        self, program: DeviceCode, images: int, copies: int, first: int, count: int
    ) -> Compared:
        """Compare; of more images that differ than are listed, list the first ones."""
        self._reference.start(program, images, copies, count, first=first)
        found = self._reference.end(count)
        assert program.encoded is not None
        half, size = count // 2, program.encoded.image_bytes
        if found.differing > len(found.numbers) and half:
            numbers = self._lowest(program, images, copies, first, half).numbers
            if len(numbers) < LISTED:
                images, copies = images + half * size, copies + half * size
                rest = self._lowest(program, images, copies, first + half, count - half)
                numbers = (*numbers, *rest.numbers)[:LISTED]
            found = replace(found, numbers=numbers)
        return found

    def _fetched(self, address: int, size: int) -> NDArray[np.uint8]:
        data = np.empty(size, np.uint8)
        self._driver.memcpy_dtoh(data, address)
        return data
