"""Options of a ptxas: one name for each variant, and what a ptxas is given for it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.errors import UsageError
from runners.assemblers.disassembly import kernel_digests
from runners.compilers import discover_assemblers, select
from runners.cuda.compilation import PtxasCompiler
from runners.kernels import Kernel, KernelModule
from runners.protocol import Compiled, Failure, Trouble, refused
from runners.variants import NONE, PLAIN, SETTINGS, Variant, parse_variant, split_variant

VALUES = st.from_regex(r"[A-Za-z0-9_.]{1,8}", fullmatch=True)


@st.composite
def variants(draw: st.DrawFn) -> Variant:
    names = draw(st.sets(st.sampled_from(list(SETTINGS))))
    return Variant(
        tuple(
            (one, "last" if one == "process" else draw(VALUES)) for one in SETTINGS if one in names
        )
    )


@given(st.sampled_from(["13.5", "V13.5.37", "./a+b/ptxas", ""]), variants())
def test_a_name_says_which_compiler_and_which_options(name: str, variant: Variant) -> None:
    assert split_variant(f"{name}{variant}") == (name, variant)


@given(st.text() | st.lists(st.sampled_from(["+maxnreg=1", "+process=x", "a", "+"])).map("".join))
def test_a_name_of_a_stranger_is_taken_apart_or_left_as_it_is(name: str) -> None:
    first, variant = split_variant(name)
    assert f"{first}{variant}" == name


@given(variants(), st.randoms(), st.sampled_from(",+"))
def test_a_variant_has_one_name_in_whatever_order_a_person_types_it(
    variant: Variant, random: Random, comma: str
) -> None:
    words = f"{variant}".split("+")[1:] or [NONE]
    random.shuffle(words)
    assert f"{parse_variant(comma.join(words))}" == f"{variant}"


@pytest.mark.parametrize(
    "text",
    ["", "maxrregcount", "maxrregcount=", "output-file=x", "maxnreg=1,maxnreg=2", "process=first",
     "maxnreg=8,", "maxnreg=a/b", "none,maxnreg=8"],
)  # fmt: skip
def test_what_is_no_variant_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_variant(text)


def test_the_page_has_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "compilers.md").read_text()
    assert all(f"`{name}`" in page or f"`{name}=" in page for name in SETTINGS)


KERNEL = """.version 8.0
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 p)
{
.reg .b64 %a;
.reg .b32 %x<41>;
ld.param.u64 %a, [p];
LOADS
STORES
ret;
}
"""


def module() -> KernelModule:
    """Return one that has forty words at once, as one more argument of memory."""
    loads = "\n".join(f"ld.volatile.global.u32 %x{n}, [%a+{4 * n}];" for n in range(40))
    stores = "\n".join(f"st.volatile.global.u32 [%a+{4 * n}], %x{39 - n};" for n in range(40))
    ptx = KERNEL.replace("LOADS", loads).replace("STORES", stores)
    kernels = (Kernel(entry="kernel", image_bytes=160, warps_per_block=1),)
    return KernelModule(ptx=ptx, target="sm_90", version="8.0", kernels=kernels)


def real() -> list[Path]:
    return [one.path for one in discover_assemblers().assemblers if one.order >= (12, 4)]


needs_ptxas = pytest.mark.skipif(not real(), reason="no ptxas of 12.4 or later is here")


def code(path: Path, variant: str) -> str:
    made = PtxasCompiler(path, variant=parse_variant(variant)).compile(module(), "sm_90")
    assert isinstance(made, Compiled), made
    assert made.compiler.endswith(f"{parse_variant(variant)} -O3")
    return kernel_digests(made.code)["kernel"]


@needs_ptxas
def test_a_limit_of_registers_changes_the_code_however_it_is_said() -> None:
    path = real()[0]
    plain = code(path, NONE)
    limited = {code(path, "maxrregcount=24"), code(path, "maxnreg=24")}
    assert plain not in limited


@needs_ptxas
def test_the_last_of_a_process_has_the_code_of_the_first() -> None:
    for path in real()[:: max(1, len(real()) // 2)]:
        assert code(path, "process=last") == code(path, NONE)


@needs_ptxas
def test_a_ptxas_says_itself_what_it_has_against_its_options() -> None:
    ptxas = discover_assemblers().assemblers[0]
    said = {
        name: ptxas.having(parse_variant(name)).refusal("sm_90", "sm_90")
        for name in ("none", "maxrregcount=32", "maxrregcount=999", "maxrregcount=x",
                     "regAllocOptLevel=2", "target=sm_90a", "target=sm_80", "process=last",
                     "maxnreg=32", "maxnreg=8", "Ofast-compile=never")
    }  # fmt: skip
    taken = {name for name, refusal in said.items() if not refusal}
    assert taken == {"none", "maxrregcount=32", "regAllocOptLevel=2", "target=sm_90a",
                     "process=last", "maxnreg=32"}  # fmt: skip
    assert "will be ignored" in said["maxrregcount=999"]
    assert "no sibling of sm_90" in said["target=sm_80"]
    assert ptxas.having(parse_variant("target=sm_90a")).knows("sm_90", "8.0", "sm_90")
    assert not ptxas.having(parse_variant("target=sm_80")).knows("sm_90", "8.0", "sm_90")


PRODUCT = (
    "{.reg .f64 %f<10>;\n"
    "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%f0,%f1,%f2,%f3}, {%f4,%f5,%f6,%f7}, "
    "{%f8,%f9}, {%f0,%f1,%f2,%f3};\nst.global.f64 [%a], %f0;}\nret;"
)


@needs_ptxas
@pytest.mark.parametrize("limit", ["maxrregcount=24", "maxnreg=24"])
def test_what_cannot_be_done_with_so_few_registers_is_no_failure(limit: str) -> None:
    changed = replace(module(), ptx=module().ptx.replace("ret;", PRODUCT))
    for path in (real()[0], real()[-1]):
        made = PtxasCompiler(path, variant=parse_variant(limit)).compile(changed, "sm_90")
        assert isinstance(made, Failure)
        assert made.trouble is Trouble.UNSUPPORTED, made.detail
    assert isinstance(PtxasCompiler(path).compile(changed, "sm_90"), Compiled)


@pytest.mark.parametrize("variant", list(map(parse_variant, ("maxnreg=24", "target=sm_90a"))))
def test_only_a_limit_or_a_warpgroup_excuses_a_compiler(variant: Variant) -> None:
    for said in (
        "ptxas fatal   : (C7600) Register allocation failed with register count of '24'. Compile "
        "the program with a higher register target",
        "(C7602) Insufficient registers (24) to compile instruction at line 957 in function k14. "
        "Try to compile with register target of 26 or higher.",
        "cannot be compiled with specified register target constraints",
    ):
        assert variant.asks_too_much(said, KERNEL) is (variant == parse_variant("maxnreg=24"))
        for few in (KERNEL.replace("{", ".maxnreg 24 {"), f"{KERNEL} wgmma.mma_async.sync"):
            assert variant.asks_too_much(said, few)
            assert refused("the compiler refuses it", said, few).trouble is Trouble.UNSUPPORTED
        assert refused("the compiler refuses it", said, KERNEL).trouble is Trouble.COMPILE_FAILURE
    assert not variant.asks_too_much("ptxas error   : Feature 'mma' not supported", "wgmma.fence")


def test_options_stand_behind_the_compilers_that_have_them(tmp_path: Path) -> None:
    fake = tmp_path / "ptxas"
    fake.write_text("#!/bin/sh\necho 'release 13.5, V13.5.37'\n")
    fake.chmod(0o755)
    copy = tmp_path / "other" / "ptxas"
    copy.parent.mkdir()
    shutil.copy(fake, copy)
    copy.write_text(fake.read_text().replace("13.5", "12.4"))
    selected = select(f"{fake},{copy}+maxnreg=32,{copy}")
    names = ["V12.4.37", "V13.5.37", "V12.4.37+maxnreg=32"]
    assert [one.label for one in selected.toolchains] == names
    more = selected.having(PLAIN, parse_variant("process=last")).toolchains
    assert [one.label for one in more] == [*names, *(f"{one}+process=last" for one in names[:2])]
    assert more[-1].spelled == f"{fake}+process=last"
    with pytest.raises(UsageError, match="name a ptxas instead"):
        select("driver+maxnreg=32")
