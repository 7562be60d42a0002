"""PTX written by hand for the simulated device's tests, and the variants that it is written for.

The tables are copied from PTX ISA 9.7.14.4.1 and .5, apart from the device's own.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

SHAPES = {
    "m16n16k16": (16, 16, 16),
    "m8n32k16": (8, 32, 16),
    "m32n8k16": (32, 8, 16),
    "m16n16k8": (16, 16, 8),
    "m8n8k4": (8, 8, 4),
    "m8n8k32": (8, 8, 32),
    "m8n8k128": (8, 8, 128),
}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4}
BITS |= {"u4": 4, "b1": 1, "s32": 32}
WIDE = ("m16n16k16", "m8n32k16", "m32n8k16")

# Registers of A, B and C or D fragments by element type and shape.
FRAGMENTS = {
    **{("f16", shape): (8, 8) for shape in WIDE},
    **dict(zip([("bf16", shape) for shape in WIDE], [(4, 4), (2, 8), (8, 2)], strict=True)),
    **dict(zip([("s8", shape) for shape in WIDE], [(2, 2), (1, 4), (4, 1)], strict=True)),
    **dict(zip([("u8", shape) for shape in WIDE], [(2, 2), (1, 4), (4, 1)], strict=True)),
    ("tf32", "m16n16k8"): (4, 4),
    **dict.fromkeys([("f64", "m8n8k4"), ("s4", "m8n8k32"), ("u4", "m8n8k32")], (1, 1)),
    ("b1", "m8n8k128"): (1, 1),
}
ACCUMULATORS = {"f16": 4, "f32": 8, "s32": 8, "f64": 2}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One documented wmma.mma."""

    shape: str
    a: str
    b: str
    kind: str
    d: str
    c: str
    rounding: str = ""
    satfinite: bool = False
    op: str = ""

    @property
    def opcode(self) -> str:
        op = f".{self.op}.popc" if self.op else ""
        rounding = f".{self.rounding}" if self.rounding else ""
        types = (
            f"{self.d}.{self.c}"
            if self.kind == "f16"
            else (f"{self.d}.{self.kind}.{self.kind}.{self.c}")
        )
        saturation = ".satfinite" if self.satfinite else ""
        where = f"{self.a}.{self.b}.{self.shape}"
        return f"wmma.mma{op}.sync.aligned.{where}{rounding}.{types}{saturation}"

    @property
    def target(self) -> str:
        if self.kind in ("bf16", "tf32", "f64") or self.op == "and":
            return "sm_80"
        return {"f16": "sm_70", "s8": "sm_72", "u8": "sm_72"}.get(self.kind, "sm_75")

    def type_of(self, role: str) -> str:
        return {"a": self.kind, "b": self.kind, "c": self.c, "d": self.d}[role]

    def size(self, role: str) -> tuple[int, int]:
        m, n, k = SHAPES[self.shape]
        return {"a": (m, k), "b": (k, n)}.get(role, (m, n))

    def registers(self, role: str) -> int:
        if role in "ab":
            return FRAGMENTS[self.kind, self.shape]["ab".index(role)]
        return 2 if self.shape in ("m8n8k32", "m8n8k128") else ACCUMULATORS[self.type_of(role)]


def _variants() -> list[Variant]:
    orders = [{"a": a, "b": b} for a, b in product(("row", "col"), repeat=2)]
    s32, narrow = {"d": "s32", "c": "s32"}, {"a": "row", "b": "col", "d": "s32", "c": "s32"}
    halves, rounded, both = ("f16", "f32"), ("", "rn", "rz", "rm", "rp"), (False, True)
    f32 = {"d": "f32", "c": "f32"}
    return [
        *(Variant(shape=shape, kind="f16", d=d, c=c, **order)
          for shape, order, d, c in product(WIDE, orders, halves, halves)),
        *(Variant(shape=shape, kind=kind, satfinite=satfinite, **s32, **order)
          for shape, order, kind, satfinite in product(WIDE, orders, ("s8", "u8"), both)),
        *(Variant(shape=shape, kind="bf16", **f32, **order)
          for shape, order in product(WIDE, orders)),
        *(Variant(shape="m16n16k8", kind="tf32", **f32, **order) for order in orders),
        *(Variant(shape="m8n8k4", kind="f64", d="f64", c="f64", rounding=rounding, **order)
          for order, rounding in product(orders, rounded)),
        *(Variant(shape="m8n8k32", kind=kind, satfinite=satfinite, **narrow)
          for kind, satfinite in product(("s4", "u4"), both)),
        *(Variant(shape="m8n8k128", kind="b1", op=op, **narrow) for op in ("xor", "and")),
    ]  # fmt: skip


VARIANTS = _variants()
assert len(VARIANTS) == 138


def variant(text: str) -> Variant:
    """Return the variant whose opcode has all the words of a text."""
    (found,) = [each for each in VARIANTS if set(text.split()) <= set(each.opcode.split("."))][:1]
    return found


PROLOGUE = """
.version {version}
.target {target}
.address_size 64

.visible .entry kernel(
    .param .u64 images,
    .param .u64 sms,
    .param .u32 count
)
{{
    .reg .pred %p<16>;
    .reg .b32 %r<64>;
    .reg .b64 %rd<64>;
{registers}
    // One warp for each image.
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %ctaid.x;
    shr.u32 %r3, %r0, 5;
    shr.u32 %r4, %r1, 5;
    mad.lo.u32 %r5, %r2, %r4, %r3;
    ld.param.u32 %r6, [count];
    setp.ge.u32 %p0, %r5, %r6;
    @%p0 bra DONE;
    ld.param.u64 %rd0, [images];
    cvta.to.global.u64 %rd0, %rd0;
    mul.wide.u32 %rd1, %r5, {image_bytes};
    add.s64 %rd2, %rd0, %rd1;
    mov.u32 %r7, %laneid;
    ld.param.u64 %rd3, [sms];
    setp.eq.u64 %p1, %rd3, 0;
    @%p1 bra GO;
    setp.eq.u32 %p2, %r7, 0;
    mul.wide.u32 %rd4, %r5, 4;
    add.s64 %rd5, %rd3, %rd4;
    mov.u32 %r8, %smid;
    @%p2 st.global.u32 [%rd5], %r8;
GO:
{body}
DONE:
    ret;
}}
"""


def kernel(
    body: str, *, image_bytes: int, registers: str = "", target: str = "sm_90", version: str = "8.6"
) -> str:
    """Return a module with one entry, `kernel`, that has %rd2 at its image and %r7 = %laneid."""
    return PROLOGUE.format(
        version=version, target=target, registers=registers, body=body, image_bytes=image_bytes
    )


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Where one matrix lies in the image."""

    offset: int
    """Bytes."""
    order: str
    stride: int
    """Elements."""
    bits: int
    rows: int
    columns: int

    @property
    def bytes(self) -> int:
        count = self.rows if self.order == "row" else self.columns
        return count * self.stride * self.bits // 8

    def index(self) -> NDArray[np.int64]:
        """Bit offset in the image of each element, (rows, columns)."""
        i, j = np.meshgrid(np.arange(self.rows), np.arange(self.columns), indexing="ij")
        major, minor = (i, j) if self.order == "row" else (j, i)
        return 8 * self.offset + (major * self.stride + minor) * self.bits

    def put(self, images: NDArray[np.uint8], elements: NDArray[np.unsignedinteger]) -> None:
        """Write (count, rows, columns) raw elements into (count, bytes) images."""
        self._move(images, elements, write=True)

    def get(self, images: NDArray[np.uint8]) -> NDArray[np.uint64]:
        """Read (count, rows, columns) raw elements from (count, bytes) images."""
        elements = np.zeros((len(images), self.rows, self.columns), np.uint64)
        self._move(images, elements, write=False)
        return elements

    def _move(self, images, elements, *, write: bool) -> None:
        bits = self.index()
        if self.bits < 8:
            per_byte = 8 // self.bits
            for part in range(per_byte):
                chosen = bits % 8 == part * self.bits
                at = bits[chosen] // 8
                shift = np.uint8(part * self.bits)
                mask = np.uint8((1 << self.bits) - 1)
                if write:
                    value = elements[:, chosen].astype(np.uint8) & mask
                    images[:, at] = images[:, at] & ~(mask << shift) | (value << shift)
                else:
                    elements[:, chosen] = (images[:, at] >> shift) & mask
            return
        for byte in range(self.bits // 8):
            at = bits // 8 + byte
            if write:
                images[:, at] = (elements >> elements.dtype.type(8 * byte)).astype(np.uint8)
            else:
                elements |= images[:, at].astype(np.uint64) << np.uint64(8 * byte)


@dataclass(frozen=True, kw_only=True)
class Multiplication:
    """A kernel of load a, b, c, mma, store d, and where its matrices lie."""

    variant: Variant
    ptx: str
    tiles: dict[str, Tile]
    image_bytes: int

    def images(self, a, b, c, *, poison: int = 0xCC) -> NDArray[np.uint8]:
        """Return images with these raw elements and a known byte elsewhere."""
        images = np.full((len(a), self.image_bytes), poison, np.uint8)
        for role, elements in (("a", a), ("b", b), ("c", c)):
            self.tiles[role].put(images, elements)
        return images


def names(prefix: str, count: int) -> str:
    return "{" + ", ".join(f"%{prefix}{i}" for i in range(count)) + "}"


def multiplication(
    variant: Variant,
    *,
    c_order: str = "row",
    d_order: str = "row",
    padding: int = 0,
    space: str = "global",
    stride_register: bool = False,
    target: str | None = None,
    between: str = "",
    slack: int = 0,
) -> Multiplication:
    """Return a kernel of one multiplication.

    `padding` is added to every default stride, in units of 32 bytes; `space` may also be `generic`
    or `shared`; `between` is text between the mma and the store; `slack` bytes follow the last
    matrix.
    """
    tiles: dict[str, Tile] = {}
    end = 64
    for role, order in (("a", variant.a), ("b", variant.b), ("c", c_order), ("d", d_order)):
        rows, columns = variant.size(role)
        bits = BITS[variant.type_of(role)]
        stride = (columns if order == "row" else rows) + padding * 256 // bits
        tile = Tile(offset=end, order=order, stride=stride, bits=bits, rows=rows, columns=columns)
        tiles[role] = tile
        end = (tile.offset + tile.bytes + 64 + 31) // 32 * 32
    end += slack
    lines: list[str] = []
    registers = [
        f"    .reg .{'f64' if BITS[variant.type_of(role)] == 64 else 'b32'} "
        f"%{role}<{variant.registers(role)}>;"
        for role in "abcd"
    ]
    base, suffix = "%rd2", ".global"
    if space == "generic":
        suffix = ""
    if space == "shared":
        # The image is copied in words by all lanes, to the warp's slice and back.
        registers.append(f"    .shared .align 128 .b8 arena[{4 * end}];")
        lines += [_copy(end, "IN", "%rd2", "%rd11")]
        base, suffix = "%rd11", ".shared"
    for i, role in enumerate("abcd"):
        if stride_register:
            lines.append(f"    mov.u32 %r{20 + i}, {tiles[role].stride};")
    for role in "abc":
        tile = tiles[role]
        stride = f"%r{20 + 'abcd'.index(role)}" if stride_register else str(tile.stride)
        lines.append(
            f"    wmma.load.{role}.sync.aligned.{tile.order}.{variant.shape}{suffix}"
            f".{variant.type_of(role)} {names(role, variant.registers(role))}, "
            f"[{base}+{tile.offset}], {stride};"
        )
    fragments = ", ".join(names(role, variant.registers(role)) for role in "dabc")
    lines.append(f"    {variant.opcode} {fragments};")
    lines.append(between)
    tile = tiles["d"]
    stride = "%r23" if stride_register else str(tile.stride)
    lines.append(
        f"    wmma.store.d.sync.aligned.{tile.order}.{variant.shape}{suffix}.{variant.d} "
        f"[{base}+{tile.offset}], {names('d', variant.registers('d'))}, {stride};"
    )
    if space == "shared":
        lines.append(_copy(end, "OUT", "%rd11", "%rd2"))
    ptx = kernel(
        "\n".join(lines),
        image_bytes=end,
        registers="\n".join(registers),
        target=target or variant.target,
    )
    return Multiplication(variant=variant, ptx=ptx, tiles=tiles, image_bytes=end)


def _copy(size: int, label: str, origin: str, target: str) -> str:
    """Return a loop over words of 128 bytes a turn between %rd2 (global) and %rd11 (shared)."""
    load, store = ("global", "shared") if origin == "%rd2" else ("shared", "global")
    setup = (
        ""
        if label == "OUT"
        else f"""
    mov.u64 %rd10, arena;
    mul.wide.u32 %rd12, %r3, {size};
    add.s64 %rd11, %rd10, %rd12;
"""
    )
    return f"""{setup}
    shl.b32 %r10, %r7, 2;
{label}:
    setp.lt.u32 %p4, %r10, {size};
    cvt.u64.u32 %rd13, %r10;
    add.s64 %rd14, {origin}, %rd13;
    add.s64 %rd15, {target}, %rd13;
    @%p4 ld.{load}.b32 %r11, [%rd14];
    @%p4 st.{store}.b32 [%rd15], %r11;
    add.u32 %r10, %r10, 128;
    bar.warp.sync 0xffffffff;
    shl.b32 %r13, %r7, 2;
    sub.u32 %r13, %r10, %r13;
    setp.lt.u32 %p5, %r13, {-(-size // 128) * 128};
    @%p5 bra {label};
    bar.sync 0;
"""


def ldmatrix(
    qualifiers: str,
    registers: int,
    *,
    addresses: str = "    mul.lo.u32 %r20, %r7, 16;",
    target: str = "sm_90",
    suffix: str = ".shared",
    rows: int = 64,
) -> str:
    """Return a kernel that copies `rows` times 16 bytes to shared memory, loads, and stores.

    The image is that memory, then 32 times `registers` words. `addresses` leaves each lane's byte
    offset in %r20.
    """
    size = 16 * rows
    lines = [
        f"    .shared .align 128 .b8 rows[{4 * size}];",
        "    mov.u64 %rd10, rows;",
        f"    mul.wide.u32 %rd12, %r3, {size};",
        "    add.s64 %rd11, %rd10, %rd12;",
        "    mul.wide.u32 %rd13, %r7, 16;",
        "    add.s64 %rd14, %rd2, %rd13;",
        "    add.s64 %rd15, %rd11, %rd13;",
    ]
    for turn in range(rows // 32):
        lines += [
            f"    ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%rd14+{512 * turn}];",
            f"    st.shared.v4.b32 [%rd15+{512 * turn}], {{%r10, %r11, %r12, %r13}};",
        ]
    generic = "    cvta.shared.u64 %rd16, %rd16;" if not suffix else ""
    lines += [
        "    bar.warp.sync 0xffffffff;",
        addresses,
        "    cvt.u64.u32 %rd17, %r20;",
        "    add.s64 %rd16, %rd11, %rd17;",
        generic,
        f"    ldmatrix.sync.aligned.{qualifiers.replace('@', suffix)} "
        f"{names('m', registers)}, [%rd16];",
        f"    mul.wide.u32 %rd18, %r7, {4 * registers};",
        "    add.s64 %rd19, %rd2, %rd18;",
    ]
    vector = "%m0" if registers == 1 else names("m", registers)
    width = "" if registers == 1 else f".v{registers}"
    lines.append(f"    st.global{width}.b32 [%rd19+{size}], {vector};")
    return kernel(
        "\n".join(lines),
        image_bytes=size + 128 * registers,
        registers=f"    .reg .b32 %m<{registers}>;",
        target=target,
    )


def transfer(kind: str, shape: str, order: str = "row") -> str:
    """Return a kernel that loads a C matrix at 0 and stores it, unchanged, at 4096."""
    bits = BITS[kind]
    count = 2 if shape in ("m8n8k32", "m8n8k128") else ACCUMULATORS[kind]
    register = "f64" if bits == 64 else "b32"
    return kernel(
        f"    wmma.load.c.sync.aligned.{order}.{shape}.global.{kind} {names('c', count)}, [%rd2];\n"
        f"    wmma.store.d.sync.aligned.{order}.{shape}.global.{kind} [%rd2+4096], "
        f"{names('c', count)};",
        image_bytes=8192,
        registers=f"    .reg .{register} %c<{count}>;",
    )
