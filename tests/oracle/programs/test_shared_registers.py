"""Operands that share registers: what holds what afterwards, and what the ISA leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from corpus.programs import decode_program, encode_program
from oracle.definedness import Cause, undefined
from oracle.errors import UsageError
from oracle.execution import execute
from oracle.isa import mma_sync_form, wmma_form
from oracle.lane_steps import (
    LoadRegisters,
    MoveRegisters,
    MultiplyLanes,
    SetRegisters,
    StoreRegisters,
)
from oracle.permission import permitted_images
from oracle.places import Buffer, Place
from oracle.program import Program
from oracle.steps import Branch, Multiply, Step
from strategies.programs.bare import alone

HALF = "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f16.f16.f32"
LANES = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
