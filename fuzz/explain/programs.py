"""The two programs of a reproduction: `repro.cu` and `repro.py` run one kernel on one image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from runners.kernels import LANES, Kernel, Launch

_HERE = Path(__file__).parent
_MOST_WORDS = 120
"""Runs of words that stand in `repro.cu`, three in a line: it has 120 lines then with a kernel of
20. Where memory has more, it is read from files."""
_IN_LINE = 3
_ONE_POINTER = re.compile(
    r"\.visible \.entry (\w+)\(\.param \.u64 image\)\n\{\n(.*)\n\}\s*", re.DOTALL
)
"""A kernel as `runners.emission.emit_single` writes it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Shown:
    """A kernel, the memory on which it runs, and what has to be there afterwards."""

    ptx: str
    kernel: Kernel
    image: bytes
    expected: bytes
    about: Sequence[str]
    """What a comment says of it, in lines."""
    architecture: str
    """Such as "sm_90"."""
    level: int
    """-O level."""
    flags: tuple[str, ...] = ()
    """Further options of ptxas."""
    copies: int = 1
    """Images that a launch works on, where the kernel works on several."""

    @property
    def launch(self) -> Launch:
        """How the entry is launched; one that takes many images is given `copies` of them."""
        if self.kernel.launch is not None:
            return self.kernel.launch
        # images, sms, count: see `runners.kernels.Kernel`.
        parameters = bytes(16) + self.copies.to_bytes(4, "little")
        return Launch(
            grid=(self.copies, 1, 1),
            block=(LANES, 1, 1),
            shared_bytes=0,
            parameters=parameters,
            pointers=((0, 0),),
            buffers=((0, len(self.image)),),
        )

    @property
    def commands(self) -> Sequence[tuple[str, str]]:
        """Commands that build and run `repro.cu`, each with what it needs or does."""
        if self._inline is None:
            built = f"ptxas -arch={self.architecture} -O{self.level} {' '.join(self.flags)}".strip()
            return (
                ("by the driver's compiler", "nvcc -o repro repro.cu -lcuda && ./repro"),
                ("by a ptxas", f"{built} kernel.ptx -o kernel.cubin && ./repro kernel.cubin"),
            )
        virtual = self.architecture.replace("sm_", "compute_")
        driver = f"nvcc -gencode arch={virtual},code={virtual} -o repro repro.cu && ./repro"
        return (("by the ptxas of nvcc", self._by_nvcc), ("by the driver's compiler", driver))

    @property
    def _by_nvcc(self) -> str:
        flags = "".join(f" -Xptxas {flag}" for flag in self.flags)
        built = f"nvcc -arch={self.architecture} -Xptxas -O{self.level}{flags}"
        return f"{built} -o repro repro.cu && ./repro"

    @cached_property
    def _inline(self) -> tuple[str, Sequence[str]] | None:
        """The kernel as C++ and the memory, where both fit into `repro.cu`."""
        memory = None if self.kernel.launch is None else self._memory()
        kernel = None if memory is None else inline_kernel(self.ptx)
        return None if kernel is None or memory is None else (kernel, memory)

    def files(self, places: Sequence[int] = ()) -> dict[str, bytes]:
        """Return the files of the reproduction by name.

        `places` are the offsets of the entry's parameters; those of the kernels that
        `runners.emission` writes if there are none.
        """
        launch = self.launch
        document = {
            "entry": self.kernel.entry,
            "level": self.level,
            "flags": self.flags,
            "architecture": self.architecture,
            "copies": self.copies,
            "grid": launch.grid,
            "block": launch.block,
            "shared_bytes": launch.shared_bytes,
            "parameters": launch.parameters.hex(),
            "pointers": launch.pointers,
        }
        return {
            "expected.bin": self.expected,
            "input.bin": self.image,
            "kernel.ptx": self.ptx.encode(),
            "repro.cu": self._source(places or (0, 8, 16)).encode(),
            "repro.json": msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n",
            "repro.py": (_HERE / "standalone.py").read_bytes(),
        }

    def _source(self, places: Sequence[int]) -> str:
        """Return `repro.cu`: with kernel and memory in it where both are small."""
        kernel, data = self._inline or ("", [*self._launch(places)])
        text = (_HERE / ("inline.cu" if kernel else "standalone.cu")).read_text()
        about = [" ".join(line.replace("\\", "/").split()) for line in self.about]
        commands = [f"  {command}       {what}" for what, command in self.commands]
        for mark, lines in (
            ("// @ABOUT@", [f"// {line}".rstrip() for line in (*about, "", *commands)]),
            ("//@KERNEL@", [kernel]),
            ("//@DATA@", data),
        ):
            text = text.replace(mark, "\n".join(lines))
        return text

    def _launch(self, places: Sequence[int]) -> Iterator[str]:
        launch = self.launch
        places = [place for place in places if place < len(launch.parameters)]
        grid, block = map(_braced, (launch.grid, launch.block))
        pointers = _braced(f"{{{place}, {offset}}}" for place, offset in launch.pointers)
        yield f"static const char *const kEntry = {_string(self.kernel.entry)};"
        yield f"static const int kLevel = {self.level};"
        yield f"static const size_t kBytes = {len(self.image)}, kPlaces[] = {_braced(places)};"
        yield f"static const unsigned kCopies = {self.copies}, kShared = {launch.shared_bytes};"
        yield f"static const unsigned kGrid[] = {grid}, kBlock[] = {block};"
        yield f"static const unsigned char kParameters[] = {_braced(launch.parameters)};"
        yield f"static const Pointer kPointers[] = {pointers};"

    def _memory(self) -> tuple[str, ...] | None:
        """Return what defines the memory before and after, None where that takes many lines."""
        if len(self.image) % 4:
            return None
        before, after = (np.frombuffer(one, "<u4") for one in (self.image, self.expected))
        given, changed = _words(before, before != 0), _words(after, before != after)
        if len(given) + len(changed) > _MOST_WORDS:
            return None
        return (
            f"static const size_t kBytes = {len(self.image)};",
            f"static const std::vector<Words> kBefore = {_lines(given)};  // all else is 0",
            f"static const std::vector<Words> kChanged = {_lines(changed)};",
        )


def _words(values: NDArray[np.uint32], shown: NDArray[np.bool_]) -> list[str]:
    """Return words with where and how often they stand one after the other."""
    found: list[list[int]] = []
    for place in np.flatnonzero(shown).tolist():
        value = int(values[place])
        if found and found[-1][1] == value and found[-1][0] + found[-1][2] == place:
            found[-1][2] += 1
        else:
            found.append([place, value, 1])
    return [f"{{{4 * place}, {value:#x}, {count}}}" for place, value, count in found]


def _lines(texts: Sequence[str]) -> str:
    rows = (", ".join(texts[start : start + _IN_LINE]) for start in range(0, len(texts), _IN_LINE))
    return f"{{{(',' + chr(10) + '    ').join(rows)}}}"


def _braced(values: Any) -> str:
    return f"{{{', '.join(map(str, values))}}}"


def _string(text: str) -> str:
    # JSON's strings of plain names are C's.
    return msgspec.json.encode(text).decode()


_GIVEN = "%%given_image"
"""Register of the operand outside of the kernel's scope: nvcc names its own %rd1, …, and the kernel
declares such names, too (H200, nvcc 13.0, 2026-11-23: an illegal address)."""


def inline_kernel(ptx: str) -> str | None:
    """Return a kernel of CUDA C++ whose body is a module's only kernel, as inline PTX.

    None where the kernel takes anything but one pointer, or declares what inline PTX cannot.
    """
    match = _ONE_POINTER.search(ptx)
    if match is None or any(sign in match[2] for sign in ('"', "\\", "//")):
        return None
    body = match[2].replace("%", "%%").replace("ld.param.u64", "mov.b64").replace("[image]", _GIVEN)
    return "\n".join(
        (
            "__global__ void kernel(unsigned char *image) {",
            f'    asm volatile(".reg .b64 {_GIVEN}; mov.b64 {_GIVEN}, %0; {{\\n"',
            *(f'        "{line.strip()}\\n"' for line in body.splitlines() if line.strip()),
            '        "}" :: "l"(image) : "memory");',
            "}",
        )
    )
