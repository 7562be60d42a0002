"""Does what every command would do first, once for all of them.

The process that commands of the tests are forked from (`command_line`) imports this module: what
was imported and looked up by then takes each of them and of their workers no time, 2 s else.
"""

import gc
import pkgutil
import tempfile
from importlib import import_module
from pathlib import Path

# `np.unique` imports numpy.ma, and a module of tests of which a function prepares a command pytest.
import command_line  # noqa: F401
import numpy.ma  # noqa: F401
import pytest  # noqa: F401
from value_runs import run

import fuzz.checks.compilers
import fuzz.checks.programs
import fuzz.commands
import fuzz.console.report
import fuzz.explain.page
from corpus.known import known_with
from oracle.isa.legality import verdict_of
from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module, parse_target, parse_version, versions_of
from strategies.instructions import round_drafts
from strategies.programs.lane_code import drawn_rows

for _command in pkgutil.iter_modules(fuzz.commands.__path__, "fuzz.commands."):
    import_module(_command.name)
with tempfile.TemporaryDirectory() as _folder:
    run(Path(_folder, "corpus"), cases=1)
for _draft in round_drafts(FORMS, parse_target("sm_90"), parse_version("8.0"), seed=0, number=0):
    verdict_of(_draft.text, target="sm_90", ptx_version="8.0")
round_drafts.cache_clear()
for _version in versions_of(parse_target("sm_90")):
    drawn_rows(Module(parse_target("sm_90"), _version))
known_with(None)
gc.collect()
# Pages with objects that nobody looks at again are not copied.
gc.freeze()
