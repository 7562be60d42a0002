"""What starts fast: `--help` imports nothing that takes long."""

import json
import subprocess
import sys

import pytest
from command_line import environment, warpfuzz

HEAVY = ("numpy", "hypothesis", "rich", "msgspec", "ml_dtypes", "psutil", "pycuda")
LOADED = """
import contextlib, io, json, sys
from fuzz.cli import main
with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):
    main({arguments})
print(json.dumps([shown.getvalue(), sorted(sys.modules)]))
"""
COMMANDS = [
    [], ["run"], ["replay"], ["explain"], ["legal"], ["isa"], ["doctor"], ["compilers"], ["corpus"],
    ["compilers", "fetch"], ["corpus", "merge"],
]  # fmt: skip


def loaded(tmp_path, arguments):
    told = subprocess.run(
        [sys.executable, "-c", LOADED.format(arguments=arguments)],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    shown, modules = json.loads(told.stdout)
    return shown, {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_imports_nothing_heavy(tmp_path, command):
    shown, modules = loaded(tmp_path, [*command, "--help"])
    assert shown.startswith("Usage: ")
    assert not modules & set(HEAVY)


def test_that_something_heavy_is_imported_would_be_noticed(tmp_path):
    _, modules = loaded(tmp_path, ["isa"])
    assert modules & set(HEAVY)


def test_help_names_every_exit_code(tmp_path):
    told = warpfuzz(tmp_path, "--help")
    assert told.code == 0
    for words in ("0 clean", "1 findings", "2 usage", "3 the infrastructure", "4 device lost"):
        assert words in " ".join(told.out.split())
