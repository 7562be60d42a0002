"""Forms of mma.sp, kernels of one each, and who holds what, as it was measured on an H200.

Apart from the device's own tables: lane = 4 g + t, and all of it in lists of lanes.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from simulated_kernels import kernel, names

from runners.simulated import SimulatedDevice

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "f32": 32, "s32": 32}
BITS |= {"s8": 8, "u8": 8, "s4": 4, "u4": 4}
FRACTIONS = {"f16": (5, 10, 0), "bf16": (8, 7, 0), "tf32": (8, 10, 13), "f32": (8, 23, 0)}
FRACTIONS |= {"e4m3": (4, 3, 0), "e5m2": (5, 2, 0)}
"""Bits of exponent and fraction, and those below that nobody looks at."""
Words = NDArray[np.uint32]


@dataclass(frozen=True, kw_only=True)
class Sparse:
    """One documented mma.sp."""

    k: int
    d: str
    a: str
    b: str
    selectors: int
    satfinite: bool = False
    ordered: bool = False

    @property
    def opcode(self) -> str:
        ordered = "::ordered_metadata" if self.ordered else ""
        clamp = ".satfinite" if self.satfinite else ""
        types = f"{self.d}.{self.a}.{self.b}.{self.d}"
        return f"mma.sp{ordered}.sync.aligned.m16n8k{self.k}.row.col{clamp}.{types}"

    @property
    def depth(self) -> int:
        """Stored elements in a row of A."""
        return self.k // 2

    def bits(self, role: str) -> int:
        return BITS[{"a": self.a, "b": self.b}.get(role, self.d)]

    def registers(self, role: str) -> int:
        rows = {"a": 16 * self.depth, "b": 8 * self.k}.get(role, 128)
        return rows * self.bits(role) // 1024

    def size(self, role: str) -> tuple[int, int]:
        return {"a": (16, self.depth), "b": (self.k, 8)}.get(role, (16, 8))

    def place(self, role: str, lane: int, register: int, part: int) -> tuple[int, int]:
        """Row and column of what a part of a lane's register holds."""
        g, t, p = lane // 4, lane % 4, 32 // self.bits(role)
        if role == "a":
            return g + 8 * (register % 2), 4 * p * (register // 2) + p * t + part
        if role == "b":
            return 4 * p * register + p * t + part, g
        element = p * register + part
        return g + 8 * (element // 2), 2 * t + element % 2

    def packed(self, role: str, matrix: Words) -> Words:
        """Return the registers of matrices."""
        words = np.zeros((len(matrix), 32, self.registers(role)), np.uint32)
        bits = self.bits(role)
        for lane, register, part in np.ndindex(32, self.registers(role), 32 // bits):
            row, column = self.place(role, lane, register, part)
            words[:, lane, register] |= matrix[:, row, column].astype(np.uint32) << bits * part
        return words

    def ptx(self, selector: int) -> str:
        """Return a kernel: of each lane the words of A, B, C, metadata and, behind them, of D."""
        counts = {role: self.registers(role) for role in "abcd"}
        total = sum(counts.values()) + 1
        lines = [f"mad.wide.u32 %rd5, %r7, {4 * total}, %rd2;"]
        where = 0
        for role in "abc":
            for register in range(counts[role]):
                lines.append(f"ld.global.b32 %{role}{register}, [%rd5+{4 * where}];")
                where += 1
        lines.append(f"ld.global.b32 %e, [%rd5+{4 * where}];")
        vectors = ", ".join(names(role, counts[role]) for role in "dabc")
        lines.append(f"{self.opcode} {vectors}, %e, {selector};")
        for register in range(counts["d"]):
            where += 1
            lines.append(f"st.global.b32 [%rd5+{4 * where}], %d{register};")
        declared = " ".join(f".reg .b32 %{role}<{counts[role]}>;" for role in "abcd")
        return kernel(
            "\n    ".join(lines), image_bytes=128 * total, registers=f"    {declared} .reg .b32 %e;"
        )

    def images(self, count: int, wide: int) -> NDArray[np.uint8]:
        """Return images of any bits, or of numbers about one, their exponents that far apart."""
        rng = np.random.default_rng(wide)
        parts = [random_words(rng, count, 32, self.registers(role)) for role in "abc"]
        if wide and self.d != "s32":
            kinds = {"a": self.a, "b": self.b, "c": self.d}
            parts = [
                self.packed(role, finite(rng, kind, (count, *self.size(role)), wide))
                for role, kind in kinds.items()
            ]
        rest = random_words(rng, count, 32, 1 + self.registers("d"))
        return np.concatenate([*parts, rest], axis=2).reshape(count, -1).view(np.uint8)

    def run(
        self, device: SimulatedDevice, selector: int, a: Words, b: Words, c: Words, e: Words
    ) -> Words:
        """Return D; registers are (count, 32, registers), metadata (count, 32)."""
        d = np.zeros((len(a), 32, self.registers("d")), np.uint32)
        images = np.ascontiguousarray(np.concatenate([a, b, c, e[..., None], d], axis=2))
        flat = images.reshape(len(a), -1).view(np.uint8)
        found, _ = device.load(self.ptx(selector)).launch("kernel", flat)
        return found.view(np.uint32).reshape(images.shape)[..., -d.shape[2] :]


def _forms() -> list[Sparse]:
    rows = [
        Sparse(k=k, d=d, a=a, b=a, selectors=selectors)
        for a, results, shapes in (
            ("f16", ("f16", "f32"), {16: 4, 32: 2}),
            ("bf16", ("f32",), {16: 4, 32: 2}),
            ("tf32", ("f32",), {8: 4, 16: 2}),
        )
        for d in results
        for k, selectors in shapes.items()
    ]
    eight = ("e4m3", "e5m2")
    rows += [Sparse(k=64, d="f32", a=a, b=b, selectors=1) for a in eight for b in eight]
    rows += [
        Sparse(k=k, d="s32", a=a, b=b, selectors=selectors, satfinite=satfinite)
        for kinds, shapes in ((("s8", "u8"), {32: 2, 64: 1}), (("s4", "u4"), {64: 2, 128: 1}))
        for a in kinds
        for b in kinds
        for k, selectors in shapes.items()
        for satfinite in (False, True)
    ]
    return rows


PLAIN = _forms()
FORMS = [*PLAIN, *(replace(form, ordered=True) for form in PLAIN)]
PAIRS = [(form, selector) for form in FORMS for selector in range(form.selectors)]
"""Every form with every selector that it has."""


def random_words(rng: np.random.Generator, *shape: int) -> Words:
    return rng.integers(0, 1 << 32, shape, np.uint32)


def finite(rng: np.random.Generator, kind: str, shape: tuple[int, ...], wide: int) -> Words:
    """Return finite numbers, their exponents that far apart, about one; some are zero."""
    exponent_bits, fraction, unused = FRACTIONS[kind]
    bias = (1 << exponent_bits - 1) - 1
    wide = min(wide, bias - 2)
    field = rng.integers(bias - wide, bias + wide + 1, shape)
    bits = rng.integers(0, 1 << fraction, shape) | field << fraction
    bits |= rng.integers(0, 2, shape) << (exponent_bits + fraction)
    bits[rng.random(shape) < 0.1] = 0
    return (bits << unused).astype(np.uint32)
