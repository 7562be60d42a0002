"""PTX that compilers write: ptxas takes every probe, and so does the simulated device."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from runners.simulated import SimulatedDevice

VERSION, TARGET = "8.6", "sm_90"


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A piece of PTX."""

    name: str
    module: str
    body: str

    def ptx(self) -> str:
        """Return a module with one kernel, under the convention of runners."""
        return f"""
.version {VERSION}
.target {TARGET}
.address_size 64
{self.module}
.visible .entry kernel(
    .param .u64 .ptr .global .align 16 images, .param .u64 sms, .param .u32 count
)
.maxntid 1024, 1, 1
{{
    .reg .pred %p<8>;
    .reg .b16 %h<8>;
    .reg .b32 %r<16>;
    .reg .b64 %d<8>;
    .reg .f32 %f<8>;
    .reg .f64 %g<4>;
    .reg .b64 %base, %place, %most;
    .reg .b32 %warp, %count;
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r0, %r0, %r1, %r2;
    shr.u32 %warp, %r0, 5;
    ld.param.u32 %count, [count];
    setp.ge.u32 %p0, %warp, %count;
    @%p0 bra LAST;
    ld.param.u64 %base, [images];
    cvta.to.global.u64 %base, %base;
    mul.wide.u32 %place, %warp, 1024;
    add.u64 %d0, %base, %place;
    mov.u32 %r1, %laneid;
    ld.global.u32 %r0, [%d0];
    ld.global.u32 %r2, [%d0+4];
    ld.global.u64 %d1, [%d0];
    mov.u64 %d2, %d1;
    ld.global.u16 %h0, [%d0];
    ld.global.u16 %h1, [%d0+2];
    mov.b16 %h2, %h1;
    mov.b16 %h3, %h1;
    ld.global.f32 %f0, [%d0+8];
    ld.global.f32 %f1, [%d0+12];
    ld.global.f64 %g0, [%d0+16];
    ld.global.f64 %g1, [%d0+24];
    setp.lt.s32 %p0, %r0, 0;
    setp.lt.s32 %p1, %r2, 0;
    setp.eq.u32 %p2, %r1, 3;
{self.body}
LAST:
    ret;
}}
"""


def probes() -> list[Probe]:
    text = (Path(__file__).parent / "data" / "probes.txt").read_text(encoding="utf-8")
    found = []
    for block in re.split(r"^== ", text, flags=re.M)[1:]:
        name, _, rest = block.partition("\n")
        module, body = "", rest
        if rest.startswith("-- module"):
            module, body = rest.removeprefix("-- module").split("-- body")
        found.append(Probe(name=name, module=module, body=body))
    return found


PROBES = probes()


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_the_simulated_device_runs_the_probe(probe: Probe) -> None:
    module = SimulatedDevice(TARGET).load(probe.ptx())
    images = np.random.default_rng(1).integers(0, 256, (3, 1024), dtype=np.uint8)
    module.launch("kernel", images)
