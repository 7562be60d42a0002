"""Writing the folder that reproduces a finding."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from corpus import Entry
from fuzz.repro.cuda_source import cuda_source
from fuzz.repro.instruction_page import instruction_files
from fuzz.repro.value_facts import ValueFacts
from fuzz.repro.value_page import value_page
from fuzz.value_findings import is_value_finding
from oracle.errors import InfrastructureError, UsageError

_EXECUTABLE = (".py", ".sh")


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """A folder that was written."""

    path: Path
    files: tuple[str, ...]
    """Names, in the order of the alphabet."""


def write_reproduction(entry: Entry, output: Path) -> Reproduction:
    """Write the folder of a finding.

    Parameters
    ----------
    output
        The folder; made if it is not there, refused if it holds anything else.

    Raises
    ------
    UsageError
        If the folder holds other files, or the finding nothing to reproduce.
    InfrastructureError
        If a file of the finding is broken, or the folder cannot be written.
    """
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output} is a file; name a folder with --output")
    files = reproduction(entry)
    try:
        output.mkdir(parents=True, exist_ok=True)
        others = sorted({path.name for path in output.iterdir()} - files.keys())
        if others:
            raise UsageError(
                f"{output} holds other files ({', '.join(others[:3])}); choose an empty folder "
                "with --output"
            )
        for name, data in files.items():
            path = output / name
            path.write_bytes(data)
            if path.suffix in _EXECUTABLE:
                path.chmod(0o755)
    except OSError as error:
        what = error.strerror or os.strerror(error.errno or 0)
        raise InfrastructureError(
            f"{output} cannot be written: {what}; choose another folder with --output"
        ) from error
    return Reproduction(path=output, files=tuple(sorted(files)))


def reproduction(entry: Entry) -> Mapping[str, bytes]:
    """Return the files of a finding's folder, by name."""
    if is_value_finding(entry):
        return _of_values(ValueFacts.of(entry))
    return instruction_files(entry)


def _of_values(facts: ValueFacts) -> Mapping[str, bytes]:
    document = facts.document()
    image, expected = facts.subject.image.tobytes(), facts.expected.tobytes()
    about = [
        " ".join(text.replace("\\", "/").split())
        for text in (facts.finding.family.title, f"finding {facts.finding.id}; see README.md")
    ]
    source = cuda_source(document, ptx=facts.kernel, image=image, expected=expected, about=about)
    files = {
        "README.md": value_page(facts).encode(),
        "expected.bin": expected,
        "input.bin": image,
        "kernel.ptx": facts.kernel.encode(),
        "repro.cu": source.encode(),
        "repro.json": msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n",
        "repro.py": Path(__file__).with_name("standalone.py").read_bytes(),
    }
    if facts.actual is not None:
        files["actual.bin"] = facts.actual.tobytes()
    if facts.rewritten is not None:
        files["module.ptx"] = facts.subject.module.ptx.encode()
    return files
