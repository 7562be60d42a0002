"""Record mma.sync, movmatrix and stmatrix on the GPU that is here: `python record.py FOLDER`.

Needs NumPy and PyCUDA alone. Writes results.npz, uint32 arrays of D by opcode, (classes x cases,
32, words), and digests.json, SHA-256 of each class of each form.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import sys

import lane_inputs
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv

MORE_CASES = 400
"""Cases of each class of the forms of f16 m8n8k4, whose rule is derived from them."""
_KINDS = {"f64": ("f64", "d"), "f32": ("f32", "f")}


def kernel(form: lane_inputs.Form) -> str:
    """Return a module with a kernel `k` of pointers a, b, c, d and the number of cases."""
    lines = [
        ".version 8.7", ".target sm_90", ".address_size 64",
        ".visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd,",
        "  .param .u32 n) {",
        ".reg .b32 %r<16>; .reg .b64 %l<8>; .reg .pred %p;",
        "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;",
        "mad.lo.u32 %r3, %r1, %r2, %r0;",
    ]  # fmt: skip
    loads, vectors = [], {}
    for index, operand in enumerate("abcd"):
        type_ = form.type(operand)
        declared, prefix = _KINDS.get(type_, ("b32", "x"))
        size = 8 if type_ == "f64" else 4
        count = form.words(operand) * 4 // size
        names = [f"%{prefix}{operand}{i}" for i in range(count)]
        vectors[operand] = "{" + ", ".join(names) + "}"
        lines.append(f".reg .{declared} %{prefix}{operand}<{count}>;")
        pointer = f"%l{index}"
        lines.append(f"ld.param.u64 {pointer}, [p{operand}];")
        lines.append(f"mul.wide.u32 %l5, %r3, {size * count}; add.u64 {pointer}, {pointer}, %l5;")
        verb = f"b{8 * size}" if declared == "b32" else declared
        for i, name in enumerate(names):
            if operand == "d":
                loads.append(f"st.global.{verb} [{pointer}+{size * i}], {name};")
            else:
                lines.append(f"ld.global.{verb} {name}, [{pointer}+{size * i}];")
    lines.append(f"{form.opcode} {vectors['d']}, {vectors['a']}, {vectors['b']}, {vectors['c']};")
    return "\n".join([*lines, *loads, "ret;", "}", ""])


def moves() -> str:
    """Return a module that records movmatrix and stmatrix on registers of each lane."""
    head = ".version 8.7\n.target sm_90\n.address_size 64\n"
    text = head
    text += """.visible .entry movmatrix(.param .u64 pin, .param .u64 pout) {
.reg .b32 %r<4>; .reg .b64 %l<4>;
ld.param.u64 %l0, [pin]; ld.param.u64 %l1, [pout]; mov.u32 %r0, %tid.x;
mul.wide.u32 %l2, %r0, 4; add.u64 %l0, %l0, %l2; add.u64 %l1, %l1, %l2;
ld.global.b32 %r1, [%l0];
movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;
st.global.b32 [%l1], %r2; ret; }
"""
    for count in (1, 2, 4):
        for trans in ("", ".trans"):
            name = f"stmatrix_{count}{'t' if trans else ''}"
            registers = "{" + ", ".join(f"%v{i}" for i in range(count)) + "}"
            text += f""".visible .entry {name}(
  .param .u64 pin, .param .u64 pat, .param .u64 pout) {{
.reg .b32 %r<8>; .reg .b32 %v<4>; .reg .b64 %l<6>; .shared .align 16 .b8 s[2048];
ld.param.u64 %l0, [pin]; ld.param.u64 %l1, [pat]; ld.param.u64 %l2, [pout];
mov.u32 %r0, %tid.x; mov.u32 %r3, s;
mul.wide.u32 %l3, %r0, {4 * count}; add.u64 %l0, %l0, %l3;
mul.wide.u32 %l3, %r0, 4; add.u64 %l1, %l1, %l3;
mul.wide.u32 %l3, %r0, 64; add.u64 %l2, %l2, %l3;
shl.b32 %r4, %r0, 6; add.u32 %r4, %r4, %r3;
"""
            for i in range(16):
                text += f"st.shared.b32 [%r4+{4 * i}], 0xa5a5a5a5;\n"
            for i in range(count):
                text += f"ld.global.b32 %v{i}, [%l0+{4 * i}];\n"
            text += "bar.sync 0;\nld.global.b32 %r1, [%l1]; add.u32 %r1, %r1, %r3;\n"
            text += f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r1], {registers};\n"
            text += "bar.sync 0;\n"
            for i in range(16):
                text += f"ld.shared.b32 %r5, [%r4+{4 * i}]; st.global.b32 [%l2+{4 * i}], %r5;\n"
            text += "ret; }\n"
    return text


def record(form: lane_inputs.Form, content: str, cases: int) -> np.ndarray:
    """Run a form on its registers; uint32 (cases, 32, words)."""
    module = drv.module_from_buffer(kernel(form).encode())
    given = lane_inputs.registers(form, content, cases)
    result = np.zeros((cases, 32, form.words("d")), np.uint32)
    module.get_function("k")(
        *(drv.In(np.ascontiguousarray(given[name])) for name in "abc"), drv.InOut(result),
        np.uint32(cases), block=(32, 1, 1), grid=(cases, 1),
    )  # fmt: skip
    return result


def main() -> None:
    """Record everything."""
    folder = pathlib.Path(sys.argv[1])
    results, digests, more = {}, {}, {}
    for form in lane_inputs.forms():
        many = form.shape == (8, 8, 4) and form.types[1] == "f16"
        parts = []
        for content in lane_inputs.CLASSES:
            found = record(form, content, lane_inputs.CASES)
            parts.append(found)
            digests[f"{form.opcode} {content}"] = hashlib.sha256(found.tobytes()).hexdigest()
            if many:
                more[f"{form.opcode} {content}"] = record(form, content, MORE_CASES)
        results[form.opcode] = np.concatenate(parts)
    rng = np.random.default_rng(7)
    module = drv.module_from_buffer(moves().encode())
    words = rng.integers(0, 1 << 32, (32, 1), np.uint32)
    out = np.zeros_like(words)
    module.get_function("movmatrix")(drv.In(words), drv.InOut(out), block=(32, 1, 1))
    results["movmatrix in"], results["movmatrix out"] = words, out
    for count in (1, 2, 4):
        for trans in ("", "t"):
            words = rng.integers(0, 1 << 32, (32, count), np.uint32)
            at = (16 * rng.permutation(128)[:32]).astype(np.uint32)
            out = np.zeros((32, 16), np.uint32)
            name = f"stmatrix_{count}{trans}"
            module.get_function(name)(drv.In(words), drv.In(at), drv.InOut(out), block=(32, 1, 1))
            results.update({f"{name} in": words, f"{name} at": at, f"{name} out": out})
    np.savez_compressed(folder / "results.npz", **results)
    np.savez_compressed(folder / "more.npz", **more)
    (folder / "digests.json").write_text(json.dumps(digests, indent=0, sort_keys=True))
    print(len(results), "arrays,", len(digests), "digests")


if __name__ == "__main__":
    main()
