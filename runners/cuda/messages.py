"""Messages between the supervisor and its child, as msgpack.

Requests are answered in order. `MapSlot`, `UnmapSlot`, `Forget`, `ForgetReferences` and `Stop`
have no answer.
"""

from __future__ import annotations

import msgspec

from runners.kernels import Launch


class MapSlot(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Map the memory whose file descriptor travels with this message."""

    slot: int
    size: int
    """Bytes."""


class UnmapSlot(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Give a slot back."""

    slot: int


class LoadModule(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Load machine code, or PTX for the driver's compiler, under a key."""

    key: str
    code: bytes
    optimization: int | None
    """-O level of the driver's compiler; None where the code is a cubin."""
    ahead: bool = False
    """Whether it is not needed at once, and may be compiled beside other requests."""


class Forget(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Unload a module."""

    key: str


class RunBatch(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Run one kernel on images in a slot; images and multiprocessors go to another slot."""

    token: int = 0
    """Random number of the batch, which the answer repeats."""
    key: str
    entry: str
    image_bytes: int
    count: int
    warps_per_block: int
    source: int
    source_offset: int
    """Bytes from the start of the source slot to the first image."""
    destination: int
    sms_offset: int
    """Bytes from the start of the destination slot to the numbers of the multiprocessors."""
    chunk_images: int
    """Images of one copy and launch; chunks overlap on several streams."""
    launch: Launch | None = None
    """Launch of a kernel with parameters of its own: a grid for each image, one after the other."""


class Screen(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Run a screening kernel, on images that the child keeps under a number."""

    token: int = 0
    """Random number of the launch, which the answer repeats."""
    key: str
    entry: str
    references: int
    """Number of the images."""
    upload: int | None = None
    """The slot that holds the images and, behind them, the expected ones; None: the child has
    them."""
    image_bytes: int
    count: int
    limit: int
    """Images that every multiprocessor takes."""
    blocks: int
    warps_per_block: int
    scratch_bytes: int
    examine: bool
    """Whether to read the sensors while the launch runs."""


class ForgetReferences(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Drop the images of a number."""

    references: int


class Fresh(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Run one kernel on images that are made by their numbers, and compare with the reference."""

    token: int = 0
    """Random number of the comparison, which the answer repeats."""
    key: str
    entry: str
    warps_per_block: int
    code: bytes
    """The program for the reference, words of 32 bits (`runners.reference.encoding`)."""
    image_bytes: int
    work_bytes: int
    contents: bytes
    """Words of 64 bits (`strategies.contents.device`)."""
    first: int
    count: int
    sampled: tuple[int, ...]
    """Numbers of images that come back even if they agree."""


class Examine(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Ask for the device's state."""


class Stop(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """End in good order."""


Request = (
    MapSlot
    | UnmapSlot
    | LoadModule
    | Forget
    | RunBatch
    | Screen
    | ForgetReferences
    | Fresh
    | Examine
    | Stop
)


class DeviceFacts(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What is known of a device and its software. Empty or None: not known."""

    name: str
    uuid: str = ""
    """As `nvidia-smi -L` prints it: "GPU-…"."""
    pci_bus_id: str = ""
    compute_capability: tuple[int, int]
    multiprocessors: int
    memory_bytes: int
    driver: str = ""
    """Version of the driver, from NVML: "580.159.04"."""
    cuda: str = ""
    """Highest version of CUDA that the driver supports: "13.0"."""
    pycuda: str = ""
    python: str = ""
    host_memory: str = ""
    """How images reach the device: "registered", or "staged" through pinned buffers."""


class DeviceHealth(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The device's state at one moment, from NVML. None: not known, `note` says why."""

    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    power_mw: int | None = None
    power_limit_mw: int | None = None
    busy_percent: int | None = None
    """Time in which a kernel ran, over the last sample period of NVML (1/6 s to 1 s)."""
    ecc_corrected: int | None = None
    """Volatile count, since the driver was loaded."""
    ecc_uncorrected: int | None = None
    throttle_reasons: int | None = None
    """Bit mask of NVML's clocksEventReasons."""
    note: str = ""


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The device passed its self-check."""

    facts: DeviceFacts


class NotReady(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Answer: there is nothing to run on."""

    missing: bool
    """Whether software is missing, rather than a device."""
    text: str
    detail: str = ""


class Loaded(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The module is there."""

    key: str


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The module could not be loaded."""

    key: str
    text: str


class Done(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The batch's images lie in its destination slot."""

    token: int
    seconds: float


class LaunchEnded(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A screening launch ended."""

    token: int
    seconds: float
    ledger: bytes
    """As `runners.ledger` describes it, up to the last image that it holds."""
    health: DeviceHealth | None


class Compared(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A comparison ended."""

    token: int
    differing: int
    """Images that differ."""
    listed: int
    """How many of these come back, before those of the sample."""
    seconds: float
    finished: bytes
    """uint32 of each multiprocessor (`runners.reference.fresh.FreshRan`)."""
    numbers: tuple[int, ...]
    sms: bytes
    """uint32 of each: the multiprocessor that ran it."""
    before: bytes
    """Images as they were made, one after the other."""
    after: bytes
    """The images after the kernel."""


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The batch, the launch, or the comparison, failed."""

    token: int
    sticky: bool
    """Whether the context is dead; the child ends after this message."""
    text: str
    unusable: bool = False
    """Whether nothing can be compared with the reference on this device."""


class Health(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Answer to Examine."""

    health: DeviceHealth


Reply = Ready | NotReady | Loaded | Refused | Done | LaunchEnded | Compared | Failed | Health

_ENCODER = msgspec.msgpack.Encoder()
_REQUESTS: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_REPLIES: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


def encode(message: Request | Reply) -> bytes:
    """Return the payload of a message."""
    return _ENCODER.encode(message)


def decode_request(payload: bytes) -> Request:
    """Return the request in a payload; raise msgspec.MsgspecError if there is none."""
    return _REQUESTS.decode(payload)


def decode_reply(payload: bytes) -> Reply:
    """Return the reply in a payload; raise msgspec.MsgspecError if there is none."""
    return _REPLIES.decode(payload)
