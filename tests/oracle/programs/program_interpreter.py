"""One register, one run of bits at a time, in plain Python.

It shares no storage or layout code with the oracle.
"""

from __future__ import annotations

from oracle.program.steps import Op


class Memory:
    """Bytes with access to any run of bits."""

    def __init__(self, data: bytes) -> None:
        self.value = int.from_bytes(data, "little")

    def get(self, bit: int, bits: int) -> int:
        return (self.value >> bit) & ((1 << bits) - 1)


def register(step: Op, rows: list[int], lane: int, index: int) -> int:
    """Return one register of ldmatrix in one lane, from the integers at the row addresses."""
    form = step.form
    per_matrix = 2 if form.shape.m == 16 else 1
    matrix, half = divmod(index, per_matrix)
    first = matrix * form.shape.m
    count = 2 if form.element_bits == 16 else 4
    width = 32 // count
    word = 0
    for n in range(count):
        i, j = lane // 4 + 8 * half, count * (lane % 4) + n
        if form.transposed:
            i, j = j, i
        bits = (rows[first + i] >> (form.element_bits * j)) & ((1 << form.element_bits) - 1)
        if form.opcode.endswith(".s8.s4"):
            bits = (bits - 16 if bits > 7 else bits) & 0xFF
        word |= bits << (width * n)
    return word
