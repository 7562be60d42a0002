"""A toy emulator: wmma of f16 in global memory, in NumPy."""

import re

import numpy as np

TYPES = {"f16": np.dtype("<f2"), "f32": np.dtype("<f4")}


def run(ptx, entry, images):
    body = ptx[ptx.index(f".entry {entry}(") :]
    body = re.sub("//.*", "", body[body.index("// 0: ") : body.index("END:")])
    after, held = images.copy(), {"%image": 0, "%zero": 0}
    for line in body.split(";")[:-1]:
        # A fragment is known by its first register.
        opcode, *words = re.sub(r"{(%\w+)[^}]*}", r"\1", line).replace(",", " ").split()
        parts = opcode.split(".")
        if opcode in ("add.s64", "add.u32") and words[1] in held:
            held[words[0]] = held[words[1]] + int(words[2])
        elif parts[:2] == ["wmma", "mma"] and len(parts) == 9 and {*parts[7:]} <= {*TYPES}:
            a, b, c = (held[word].astype("f4") for word in words[1:])
            held[words[0]] = (a @ b + c).astype(TYPES[parts[7]])
        elif parts[0] == "wmma" and parts[-2] == "global" and parts[-1] in TYPES:
            m, n, k = map(int, re.findall(r"\d+", parts[6]))
            row_major = parts[5] == "row"
            shape = {"a": (m, k), "b": (k, n)}.get(parts[2], (m, n))
            lines, length = shape if row_major else shape[::-1]
            register, _, offset = next(one for one in words if one[0] == "[")[1:-1].partition("+")
            stride = words[2] if words[2:] else length
            stride = held[stride] if stride in held else int(stride)
            size = TYPES[parts[-1]].itemsize
            at = stride * np.arange(lines)[:, None, None] + np.arange(length)[:, None]
            at = held[register] + int(offset or 0) + size * at + np.arange(size)
            turn = (0, 1, 2) if row_major else (0, 2, 1)
            if parts[1] == "load":
                raw = np.ascontiguousarray(after[:, at]).view(TYPES[parts[-1]])[..., 0]
                held[words[0]] = raw.transpose(turn)
            else:
                values = np.ascontiguousarray(held[words[1]].transpose(turn))
                after[:, at] = values[..., None].view(np.uint8)
        else:
            raise NotImplementedError(opcode)
    return after
