"""PTX written by hand for the simulated device's tests."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.isa.forms import Form
from oracle.isa.lookup import LOAD_FORMS, MMA_FORMS
from oracle.layouts import Tile, read, write

RECORDED = json.loads(Path(__file__).with_name("data").joinpath("h200_digests.json").read_text())
"""What an H200 gave: test_simulated_recordings.py."""
_FORMS = {form.opcode: form for form in MMA_FORMS}
VARIANTS = [_FORMS[opcode] for opcode in RECORDED if opcode.startswith("wmma.mma")]
"""Documented wmma.mma, in the order in which they were recorded."""
assert len(VARIANTS) == 138


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


class Placed(NamedTuple):
    """A matrix in the image."""

    offset: int
    tile: Tile

    def put(self, images: NDArray[np.uint8], elements: NDArray[np.generic]) -> None:
        """Write (count, rows, columns) raw elements into (count, bytes) images."""
        write(images, self.offset, self.tile, elements)

    def get(self, images: NDArray[np.uint8]) -> NDArray[np.generic]:
        """Read (count, rows, columns) elements, as `oracle.mma` has them."""
        return read(images, self.offset, self.tile)


@dataclass(frozen=True, kw_only=True)
class Multiplication:
    """A kernel of load a, b, c, mma, store d, and where its matrices lie."""

    form: Form
    ptx: str
    matrices: dict[str, Placed]
    image_bytes: int


def names(prefix: str, count: int) -> str:
    return "{" + ", ".join(f"%{prefix}{i}" for i in range(count)) + "}"


def multiplication(
    form: Form,
    *,
    c_order: str = "row",
    d_order: str = "row",
    padding: int = 0,
    space: str = "global",
    stride_register: bool = False,
    target: str = "sm_80",
    slack: int = 0,
) -> Multiplication:
    """Return a kernel of one multiplication.

    `padding` is added to every default stride, in units of 32 bytes; `space` may also be `generic`
    or `shared`; `slack` bytes follow the last matrix.
    """
    matrices: dict[str, Placed] = {}
    end = 64
    orders = {"a": form.a_layout, "b": form.b_layout, "c": c_order, "d": d_order}
    for role, order in orders.items():
        matrix = form.matrix(role)
        stride = matrix.default_stride(order) + padding * 256 // matrix.type.bits
        tile = Tile(matrix=matrix, layout=order, stride=stride)
        matrices[role] = Placed(end, tile)
        end = (end + tile.lines * tile.pitch + 64 + 31) // 32 * 32
    end += slack
    vectors = {role: names(role, form.matrix(role).registers) for role in "abcd"}
    registers = [
        f"    .reg .{'f64' if form.type(role).bits == 64 else 'b32'} "
        f"%{role}<{form.matrix(role).registers}>;"
        for role in "abcd"
    ]
    lines: list[str] = []
    base, suffix = "%rd2", ".global"
    if space == "generic":
        suffix = ""
    if space == "shared":
        # The image is copied in words by all lanes, to the warp's slice and back.
        registers.append(f"    .shared .align 128 .b8 arena[{4 * end}];")
        lines += [_copy(end, "IN", "%rd2", "%rd11")]
        base, suffix = "%rd11", ".shared"
    strides = {role: str(tile.stride) for role, (_, tile) in matrices.items()}
    if stride_register:
        for i, role in enumerate("abcd"):
            lines.append(f"    mov.u32 %r{20 + i}, {strides[role]};")
            strides[role] = f"%r{20 + i}"
    for role in "abc":
        lines.append(
            f"    wmma.load.{role}.sync.aligned.{orders[role]}.{form.shape.name}{suffix}"
            f".{form.type(role).name} {vectors[role]}, "
            f"[{base}+{matrices[role].offset}], {strides[role]};"
        )
    lines.append(f"    {form.opcode} {', '.join(vectors[role] for role in 'dabc')};")
    lines.append(
        f"    wmma.store.d.sync.aligned.{d_order}.{form.shape.name}{suffix}.{form.d_type.name} "
        f"[{base}+{matrices['d'].offset}], {vectors['d']}, {strides['d']};"
    )
    if space == "shared":
        lines.append(_copy(end, "OUT", "%rd11", "%rd2"))
    text, declared = "\n".join(lines), "\n".join(registers)
    ptx = kernel(text, image_bytes=end, registers=declared, target=target)
    return Multiplication(form=form, ptx=ptx, matrices=matrices, image_bytes=end)


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
    opcode = f"wmma.load.c.sync.aligned.{order}.{shape}.global.{kind}"
    (matrix,) = [form.matrix() for form in LOAD_FORMS if form.opcode == opcode]
    vector = names("c", matrix.registers)
    return kernel(
        f"    {opcode} {vector}, [%rd2];\n"
        f"    wmma.store.d.sync.aligned.{order}.{shape}.global.{kind} [%rd2+4096], {vector};",
        image_bytes=8192,
        registers=f"    .reg .{'f64' if kind == 'f64' else 'b32'} %c<{matrix.registers}>;",
    )
