"""NVRTC as a front end, on a stand-in for the library."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from oracle.errors import InfrastructureError
from oracle.isa.lookup import mma_form
from oracle.isa.targets import Module
from runners.compilers import find_front_end as find
from runners.emission import emit
from runners.protocol import Failure, Trouble
from strategies.draws import simplest
from strategies.features import Focus
from strategies.programs import programs

_LIBRARY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* Compiles for compute_90 alone; refuses what has "ldmatrix", dies of what has "deadly". */
static char ptx[1 << 20], log_[] = "programs.cu(1): error: no rows";
int nvrtcCreateProgram(void **p, const char *text, const char *n, int c, void *h, void *i) {
  *p = strdup(text);
  return 0;
}
int nvrtcDestroyProgram(void **p) { free(*p); return 0; }
int nvrtcCompileProgram(void *p, int count, const char **options) {
  int known = count == 0;
  for (int i = 0; i < count; ++i) known |= !strcmp(options[i], "--gpu-architecture=compute_90");
  if (strstr(p, "deadly")) abort();
  if (!known || strstr(p, "ldmatrix")) return 6;
  snprintf(ptx, sizeof ptx, "// Cuda compilation tools, release 99.1, V99.1.7\n.version 8.4\n"
           ".target sm_90\n// %zu characters\n", strlen(p));
  return 0;
}
int nvrtcGetPTXSize(void *p, size_t *s) { *s = strlen(ptx) + 1; return 0; }
int nvrtcGetPTX(void *p, char *t) { strcpy(t, ptx); return 0; }
int nvrtcGetProgramLogSize(void *p, size_t *s) { *s = sizeof log_; return 0; }
int nvrtcGetProgramLog(void *p, char *t) { strcpy(t, log_); return 0; }
"""


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a toolkit's folder whose libnvrtc is a stand-in."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc is here: no stand-in of a library can be made")
    folder = tmp_path_factory.mktemp("toolkit")
    (folder / "lib").mkdir()
    source = folder / "nvrtc.c"
    source.write_text(_LIBRARY)
    library = folder / "lib" / "libnvrtc.so.99"
    subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-o", library, source], check=True)
    return folder


def test_a_library_is_asked_in_a_process_that_may_die(toolkit: Path) -> None:
    one = find(f"nvrtc:{toolkit}")
    assert (one.version, one.spelled) == ("99.1.7", f"nvrtc:{toolkit}")
    assert one.knows("sm_90", "8.4", "sm_90")
    assert not one.knows("sm_90", "8.5", "sm_90")  # it chooses, and writes no newer one
    assert not one.knows("sm_80", "8.0", "sm_80")
    with find(f"nvrtc:{toolkit}").opened(0) as front_end:
        assert front_end.name == "NVRTC 99.1.7 at -O0"
        died = front_end.compiled("deadly", "sm_90", "8.4")
        assert isinstance(died, Failure)
        assert "SIGABRT" in died.message
        refused = front_end.compiled("ldmatrix", "sm_90", "8.4")
        assert isinstance(refused, Failure)
        assert (refused.trouble, "no rows" in refused.detail) == (Trouble.COMPILE_FAILURE, True)
        assert "// 5 characters" in str(front_end.compiled("empty", "sm_90", "8.4"))


def test_programs_of_a_target_that_it_does_not_know_are_unsupported(toolkit: Path) -> None:
    form = mma_form("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32")
    with find(f"nvrtc:{toolkit}").opened(3) as front_end:
        for target, said in (("sm_80", "does not know sm_80"), ("sm_90", "")):
            module = Module.named(target, "8.0")
            program = simplest(programs(Focus(form=form), module=module, forms=(form,)))
            made = front_end(emit(program, module=module))
            assert isinstance(made, Failure) == bool(said)
            if isinstance(made, Failure):
                assert (made.trouble, said in made.message) == (Trouble.UNSUPPORTED, True)


def test_a_library_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libnvrtc.so").write_text("nothing")
    with pytest.raises(InfrastructureError, match="cannot be run"):
        find(f"nvrtc:{tmp_path}").opened(3)
