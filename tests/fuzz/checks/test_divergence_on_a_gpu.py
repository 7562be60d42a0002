"""Where PTX takes lanes apart, the simulated device names what a GPU makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from value_runs import campaign, entries

from corpus import Kind
from fuzz.checks.examining import ON_A_GPU
from fuzz.runner import OpenRunner, RunnerChoice, opened
from runners.protocol import (
    Collected,
    Compiled,
    Failure,
    ForwardingRunner,
    Images,
    Pending,
    Ran,
    Trouble,
)  # fmt: skip

_APART = (
    r"s/wmma\.mma[^;]*;/{ .reg .pred %half; .reg .b32 %who; mov.u32 %who, %laneid; "
    r"setp.lt.u32 %half, %who, 16; @%half bra INSIDE; & bra BEHIND; INSIDE: & BEHIND: }/"
)


class _Gpu(ForwardingRunner):
    """A device that says nothing of lanes: it hangs."""

    def submit(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Pending:
        return Collected(outcome=self.run(compiled, images, entry=entry))

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        ran = super().run(compiled, images, entry=entry)
        if isinstance(ran, Failure) and ran.trouble is Trouble.DIVERGENCE:
            return Failure(trouble=Trouble.HANG, message="it did not end within 10 s")
        return ran


@pytest.fixture
def gpu(tmp_path: Path) -> Iterator[OpenRunner]:
    script = tmp_path / "apart.sed"
    script.write_text(_APART)
    rewriting = f"sed -f {script}"
    with opened(RunnerChoice(name="sim", ptx_pass=rewriting)) as ready:
        choice = replace(ready.choice, name="cuda")
        yield replace(ready, choice=choice, runner=_Gpu(ready.runner), device="a stand-in")


def test_a_hang_is_a_divergence_with_what_the_gpu_did(gpu: OpenRunner, tmp_path: Path) -> None:
    seen = campaign(
        gpu, tmp_path / "found", cases=2, images=1, only="wmma.mma*m16n16k16*f16*"
    ).run()
    assert [family.bucket.key for family in seen.families] == ["divergence | divergence | wmma.mma"]
    (entry,) = entries(tmp_path / "found")
    assert entry.finding.kind is Kind.DIVERGENCE
    assert entry.finding.details[ON_A_GPU] == "a stand-in: hang: it did not end within 10 s"
    assert "divergent warp" in entry.finding.runners[-1].message
