"""What starts fast: `--help` imports nothing that takes long."""

import json
import subprocess
import sys

from command_line import environment, warpfuzz

HEAVY = ("numpy", "hypothesis", "rich", "msgspec", "ml_dtypes", "psutil", "pycuda")
LOADED = """
import contextlib, io, json, sys
from fuzz.cli import main
shown = []
for arguments in {commands}:
    with contextlib.redirect_stdout(io.StringIO()) as told, contextlib.suppress(SystemExit):
        main(arguments)
    shown.append(told.getvalue())
print(json.dumps([shown, sorted(sys.modules)]))
"""
COMMANDS = [
    [], ["run"], ["replay"], ["explain"], ["legal"], ["isa"], ["doctor"], ["compilers"], ["corpus"],
    ["compilers", "fetch"], ["corpus", "merge"],
]  # fmt: skip


def loaded(tmp_path, *commands):
    """Run commands in one interpreter; return what each prints, and the packages imported."""
    told = subprocess.run(
        [sys.executable, "-c", LOADED.format(commands=commands)],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    shown, modules = json.loads(told.stdout)
    return shown, {name.partition(".")[0] for name in modules}


def test_help_imports_nothing_heavy(tmp_path):
    shown, modules = loaded(tmp_path, *([*command, "--help"] for command in COMMANDS))
    assert len(shown) == len(COMMANDS)
    assert all(page.startswith("Usage: ") for page in shown)
    assert not modules & set(HEAVY)


def test_that_something_heavy_is_imported_would_be_noticed(tmp_path):
    _, modules = loaded(tmp_path, ["isa"])
    assert modules & set(HEAVY)


def test_help_names_every_exit_code(tmp_path):
    told = warpfuzz(tmp_path, "--help")
    assert told.code == 0
    for words in ("0 clean", "1 findings", "2 usage", "3 the infrastructure", "4 device lost"):
        assert words in " ".join(told.out.split())
