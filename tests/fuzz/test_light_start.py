"""What starts fast: `--help` imports nothing that takes long."""

import json
import subprocess
import sys

from command_line import environment

HEAVY = ("numpy", "hypothesis", "rich", "msgspec", "ml_dtypes", "psutil", "pycuda")
LOADED = """
import contextlib, io, json, sys
from fuzz.cli import main
shown, before = [], None
for arguments in {commands}:
    before = sorted(sys.modules)
    with contextlib.redirect_stdout(io.StringIO()) as told, contextlib.suppress(SystemExit):
        main(arguments)
    shown.append(told.getvalue())
print(json.dumps([shown, before, sorted(sys.modules)]))
"""
COMMANDS = [[], ["run"], ["replay"], ["explain"], ["isa"], ["doctor"], ["corpus"],
            ["compilers", "fetch"]]  # fmt: skip


def test_help_imports_nothing_heavy_and_that_something_is_would_be_noticed(tmp_path):
    commands = [*([*command, "--help"] for command in COMMANDS), ["isa", "--only", "movmatrix"]]
    told = subprocess.run(
        [sys.executable, "-c", LOADED.format(commands=commands)], env=environment(tmp_path),
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    shown, *loaded = json.loads(told.stdout)
    assert len(shown) == len(commands)
    assert all(page.startswith("Usage: ") for page in shown[:-1])
    by_help, by_isa = ({name.partition(".")[0] for name in names} for names in loaded)
    assert not by_help & set(HEAVY)
    assert by_isa & set(HEAVY)
