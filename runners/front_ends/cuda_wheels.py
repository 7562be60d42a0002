"""Compilers of CUDA C++ out of wheels: nvcc of CUDA 13, and the NVRTC of CUDA 11, 12 and 13.

The wheels of CUDA 11 and 12 hold no nvcc. Each compiler is unpacked as a toolkit's folder: `bin`,
`nvvm`, `lib` and `include`.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.answers import cache_folder
from runners.folders import temporary_folder, writing
from runners.wheels import Progress, downloaded, unpack_member

OLDEST_NVCC = "13.0"
_RELEASES = (
    "11.7", "11.8", "12.0", "12.1", "12.2", "12.3", "12.4", "12.5", "12.6", "12.8", "12.9",
    "13.0", "13.1", "13.2", "13.3", "13.4", "13.5",
)  # fmt: skip
"""Releases of CUDA that have wheels (2026-11)."""
RELEASES = {
    "nvcc": tuple(one for one in _RELEASES if one.startswith("13.")),
    "nvrtc": _RELEASES,
}
"""Versions that can be fetched, oldest first, by the name of the compiler."""
_WHEEL = re.compile(r"[^-]+-(\d+(?:\.\d+)+)-")
_MEMBERS = {
    "nvcc": r"bin/nvcc(?:\.profile)?|nvvm/bin/cicc|nvvm/libdevice/.*|include/.*",
    "nvrtc": r"lib/libnvrtc(?:-builtins)?\.so[.\d]*|include/.*",
}
"""What is unpacked, below the folder of a distribution."""
_TOP = r"nvidia/(?:cu\d+|cuda_\w+|nvvm)/"
_PROGRAMS = re.compile(r"bin/nvcc|nvvm/bin/cicc")


def _folder() -> Path:
    return cache_folder() / "front-ends"


def fetched_folders(name: str) -> Iterator[Path]:
    """Iterate over the folders of the compilers of this name that were fetched."""
    yield from sorted(_folder().glob(f"{name}-[0-9]*"))


def _distributions(name: str, version: str) -> list[str]:
    """Return the distributions of a compiler and of its headers, as pip reads them."""
    major, minor = version.split(".")[:2]
    same, exact = f"=={major}.{minor}.*", version.count(".") > 1
    first = f"=={version}" if exact else same
    if major != "13":
        return [f"nvidia-cuda-{part}-cu{major}{same}" for part in ("runtime", "nvcc")] + [
            f"nvidia-cuda-nvrtc-cu{major}{first}"
        ]
    # Nothing of cccl 13.4 is there (2026-11); cuda_fp16.h takes one header of it, nv/target.
    headers = [
        f"nvidia-cuda-runtime{same}",
        f"nvidia-cuda-crt{same}",
        f"nvidia-cuda-cccl>=13.0,<13.{int(minor) + 1}",
    ]
    if name == "nvrtc":
        return [*headers, f"nvidia-cuda-nvrtc{first}"]
    return [*headers, f"nvidia-nvvm{first}", f"nvidia-cuda-nvcc{first}"]


def fetched(name: str, version: str, progress: Progress | None) -> Path:
    """Download a compiler and unpack it into the user's cache folder; return its folder.

    Parameters
    ----------
    name
        "nvcc" or "nvrtc".
    version
        "13.4", or a full version.

    Raises
    ------
    UsageError
        If there is no wheel of it.
    InfrastructureError
        If it cannot be downloaded or unpacked.
    """
    if ".".join(version.split(".")[:2]) not in RELEASES[name]:
        other = "; nvrtc:VERSION is the same compiler as a library" if name == "nvcc" else ""
        raise UsageError(
            f"there is no wheel of {name} {version or 'without a version'}; there are "
            f"{', '.join(RELEASES[name])}{other}"
        )
    target = _folder()
    with writing(target):
        target.mkdir(parents=True, exist_ok=True)
    with temporary_folder(target) as room:
        wheels = []
        for number, wanted in enumerate(_distributions(name, version)):
            own = room / str(number)
            own.mkdir()
            wheels.append(downloaded(wanted, own, what=f"{name} {version}", progress=progress))
        return _unpacked(name, wheels, target)


def _unpacked(name: str, wheels: list[Path], target: Path) -> Path:
    """Unpack wheels under another name and rename it, so that all is there or nothing."""
    with writing(target):
        fresh = Path(tempfile.mkdtemp(prefix="fresh-", dir=target))
    try:
        for wheel in wheels:
            with writing(fresh):
                _extract(wheel, name, fresh)
        note = {"wheels": [wheel.name for wheel in wheels]}
        (fresh / "origin.json").write_text(json.dumps(note, indent=2) + "\n")
        found = _WHEEL.match(wheels[-1].name)
        if found is None:
            raise InfrastructureError(f"the name of {wheels[-1].name} tells no version")
        final = target / f"{name}-{found[1]}"
        with writing(target):
            shutil.rmtree(final, ignore_errors=True)
            fresh.chmod(0o755)
            fresh.rename(final)
        return final
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _extract(wheel: Path, name: str, folder: Path) -> None:
    wanted = re.compile(
        rf"(?:{_TOP})({_MEMBERS[name]})|[^/]+\.dist-info/(?:licenses/)?(licen[cs]e[^/]*)",
        re.IGNORECASE,
    )
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                found = wanted.fullmatch(member)
                if found is None or member.endswith("/") or ".." in Path(member).parts:
                    continue
                path = folder / (found[1] or found[2])
                path.parent.mkdir(parents=True, exist_ok=True)
                unpack_member(archive, member, path)
                if found[1] and _PROGRAMS.fullmatch(found[1]):
                    path.chmod(0o755)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise InfrastructureError(f"{wheel.name} is not a wheel: {error}; fetch it again") from None
