"""Stub."""
import numpy as np
from oracle import layouts
from oracle.arithmetic.conversions import own_scratch
def multiply_warpgroup(form, a, b, d, *, scale_d=1, scale_a=1, scale_b=1, metadata=None, model):
    def num(x, t):
        return x.view(np.float16).astype(np.float64) if t.name=="f16" else x.astype(np.float64)
    c = layouts.unpack(form, "d", d, own_scratch())
    c = c.view(np.float32) if form.d_type.name=="f32" else c.view(np.float16) if form.d_type.name=="f16" else c
    c = c.astype(np.float64) * np.asarray(scale_d).reshape(-1,1,1)
    r = num(a, form.a_type) @ num(b, form.b_type) *scale_a*scale_b + c
    r = r.astype({"f32":np.float32,"f16":np.float16,"s32":np.int32}[form.d_type.name]).view(form.d_type.raw)
    out = np.empty(d.shape, np.uint32)
    layouts.pack(form, r, out, scratch=own_scratch())
    return out
