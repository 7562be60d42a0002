"""Operands that share registers: what holds what afterwards, and what the ISA leaves open."""

from __future__ import annotations

HALF = "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f16.f16.f32"
LANES = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
