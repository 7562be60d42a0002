"""Silicon made of any figures, and the oracle's figures for the same."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from oracle.models import Confidence, Figure, TruncatedDot, model_for, values_in
from runners.simulated.fused import NAMED, Rounding
from runners.simulated.silicon import FloatUnit, UnitMatrix, chip_of

ROUNDINGS = {
    "rn": Rounding.NEAREST_EVEN, "rz": Rounding.ZERO, "rm": Rounding.DOWN, "rp": Rounding.UP,
    "rna": Rounding.NEAREST_AWAY,
}  # fmt: skip
NANS = {"f16": 0x7FFF, "f32": 0x7FFF_FFFF}
ROWS = {
    row.types: row for row in model_for("sm_90").only(TruncatedDot) if row.instruction == "wmma.mma"
}


@dataclass(frozen=True)
class Silicon:
    """One unit in two descriptions."""

    types: str
    unit: FloatUnit
    rule: TruncatedDot


def random_silicon(seed: int, types: str | None = None, *, odd: bool = True) -> Silicon:
    """Draw one unit; `odd` draws every figure, else those that the issue of `measure` names."""
    draw = random.Random(seed)
    types = types or draw.choice(list(ROWS))
    row = ROWS[types]
    block = draw.choice([1, 2, 3, 4, 5, 7, 8, 12, 16, 32]) if odd else draw.randint(2, 32)
    runs = [run for run in range(1, min(block, 16) + 1) if block % run == 0]
    last = draw.random() < 0.4
    apart = odd and block < 8 and draw.random() < 0.3
    accumulator = str(row.accumulator.value)
    if odd and row.c_type == row.d_type == "f16" and draw.random() < 0.4:
        accumulator = "f32"
    rounding = draw.choice(list(ROUNDINGS))
    values: dict[str, Any] = {
        "accumulator": accumulator,
        "block": block,
        "interleaved": draw.choice([0, *runs]) if odd else 0,
        "order": draw.choice(["rising", "falling"]),
        "addend": "last" if last else "first",
        "sums": "separate" if apart else None,
        "addition": (draw.choice(list(ROUNDINGS)) if odd else rounding) if last or apart else None,
        "fraction_bits": draw.randint(8, 30),
        "zero_exponent": draw.randint(-160, 5 if odd else -10),
        "rounding": rounding,
        "narrowing": draw.choice(list(ROUNDINGS)) if odd else "rn",
        "nan": NANS[row.d_type],
    }
    if accumulator == row.d_type:
        values["narrowing"] = None
    if odd:
        values |= {
            "product_exponent": draw.choice(["sum", "normalised"]),
            "product_range": draw.choice(["unlimited", "unlimited", "f32"]),
            "overflow": draw.choice(["infinity", "largest"]),
            "zero": draw.choice("+-"),
            **{f"{m}_subnormals": draw.choice(["kept", "kept", "flushed"]) for m in "abcd"},
        }
        if row.multiplicand == "tf32":
            values["low_bits"] = draw.choice(["cut", "rounded"])
    rule = replace(
        row,
        **{
            name: None
            if value is None
            else Figure(value=value, confidence=Confidence.MEASURED, source="drawn")
            for name, value in values.items()
        },
    )
    return Silicon(types, unit_of(rule), rule)


def unit_of(rule: TruncatedDot) -> FloatUnit:
    """Describe silicon that has a rule's figures."""
    values = values_in(rule)
    return replace(
        chip_of("sm_90").floats[rule.types],
        accumulator=NAMED[values["accumulator"]],
        fraction=values["fraction_bits"],
        block=values["block"],
        run=values["interleaved"] or None,
        descending=values["order"] == "falling",
        accumulator_last=values["addend"] == "last",
        blocks_apart="sums" in values,
        addition=ROUNDINGS[values["addition"]] if "addition" in values else None,
        zero_exponent=values["zero_exponent"],
        rounding=ROUNDINGS[values["rounding"]],
        narrowing=ROUNDINGS[values.get("narrowing", "rn")],
        normalised_products=values["product_exponent"] == "normalised",
        wide_products=values["product_range"] == "unlimited",
        saturating=values["overflow"] == "largest",
        zero_sign=values["zero"] == "-",
        flushed=frozenset(m for m in UnitMatrix if values[f"{m}_subnormals"] == "flushed"),
        rounded_multiplicands=values.get("low_bits") == "rounded",
        nan=NANS[values["accumulator"]],
    )
