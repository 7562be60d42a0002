"""Changes of the code, drawn at random, that a test should notice, and those that none does.

A mutant is one comparison, operator, `not`, `and`, `or` or whole number made another. So many are
drawn from each of the five packages, evenly spaced over its code; a copy of the repository carries
them all, asleep. One run of the tests there tells which test executes which mutant. Then each is
woken in turn and its tests are run until one fails, first those that execute few of the others.

    python benchmarks/mutants.py draw FOLDER [--count 40] [--seed 0]
    python benchmarks/mutants.py watch FOLDER [TEST ...]
    python benchmarks/mutants.py run FOLDER [--only N,N] [--seconds S] [TEST ...]
    python benchmarks/mutants.py table FOLDER

`watch` and `run` with names of tests take those of this tree, as they are now: to see whether a new
one notices what is left. About an hour of a core for 200 mutants; the outcomes are in
FOLDER/outcomes.jsonl, where a reason added to a line ("equivalent") is kept and counted.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
from pathlib import Path

ROOMS = ("oracle", "strategies", "runners", "corpus", "fuzz")
HERE = Path(__file__).resolve().parent
WATCHING = -1


# --- In the copy: what a mutant asks, and what tells it which test goes on -----------------------

# Two numbers that every process of the copy shares, whatever its environment and folder: the
# mutant that is awake, and the test that goes on.
_SHARED = HERE / "mutants.shared"
_seen: set[tuple[int, int]] = set()
# Tests of full disks put others into their place.
_open, _write, _close = os.open, os.write, os.close
if _SHARED.exists():
    with _SHARED.open("r+b") as _file:
        _now = memoryview(mmap.mmap(_file.fileno(), 8)).cast("i")


def awake(number: int) -> bool:
    """Tell whether a mutant is awake; note that it was asked where tests are watched."""
    active, test = _now
    if active == WATCHING and (number, test) not in _seen:
        _seen.add((number, test))
        descriptor = _open(HERE / "mutants.seen", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        _write(descriptor, f"{number} {test}\n".encode())
        _close(descriptor)
    return active == number


class Watch:
    """Tells mutants which test goes on, and writes the tests down with what came of them."""

    def __init__(self) -> None:
        path = HERE / "mutants.tests"
        self._number = len(path.read_text().splitlines()) if path.exists() else 0
        self._file = path.open("a", buffering=1)
        self._last = Path()

    def pytest_runtest_logstart(self, nodeid, location):  # noqa: D102
        path = Path(nodeid.partition("::")[0])
        if path != self._last:
            _forget()
        self._last = path
        self._number += 1
        _now[1] = self._number
        self._seconds = 0.0
        self._passed = True

    def pytest_runtest_logreport(self, report):  # noqa: D102
        self._seconds += report.duration
        self._passed &= report.passed

    def pytest_runtest_logfinish(self, nodeid, location):  # noqa: D102
        import json

        row = {"test": nodeid, "number": _now[1]}
        row |= {"seconds": round(self._seconds, 3), "passed": self._passed}
        print(json.dumps(row), file=self._file)


def _forget() -> None:
    """Empty all caches of functions, so that what fills them is executed for each file of tests."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ROOMS:
            for one in list(vars(module).values()):
                members = vars(one).values() if isinstance(one, type) else ()
                for function in (one, *members):
                    if hasattr(function, "cache_clear") and hasattr(function, "__wrapped__"):
                        function.cache_clear()


def pytest_configure(config) -> None:
    """Watch, where pytest was told to load this module; shrink nothing: that takes minutes."""
    from hypothesis import Phase, settings

    parent = settings.get_profile("ci")
    settings.register_profile("mutants", parent, phases=(Phase.explicit, Phase.generate))
    settings.load_profile("mutants")
    if _now[0] == WATCHING:
        config.pluginmanager.register(Watch())


# --- The copy ------------------------------------------------------------------------------------

COMPARISONS = {
    "Lt": "<=", "LtE": "<", "Gt": ">=", "GtE": ">", "Eq": "!=", "NotEq": "==",
    "Is": "is not", "IsNot": "is", "In": "not in", "NotIn": "in",
}  # fmt: skip
OPERATORS = {
    "Add": "-", "Sub": "+", "Mult": "//", "FloorDiv": "*", "Div": "*", "Mod": "*", "Pow": "*",
    "LShift": ">>", "RShift": "<<", "BitAnd": "|", "BitXor": "&",
}  # fmt: skip
SIGNS = {"Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Eq": "==", "NotEq": "!=", "Is": "is",
         "IsNot": "is not", "In": "in", "NotIn": "not in"}  # fmt: skip


def mutants_of(source: bytes, draw):
    """Return all mutants of a module: where, what stands there, what would; without annotations."""
    import ast

    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    found = []

    def span(node):
        start = lines[node.lineno - 1] + node.col_offset
        return start, lines[node.end_lineno - 1] + node.end_col_offset

    def text(node):
        start, end = span(node)
        return f"({source[start:end].decode()})"

    def other(node):
        kind = type(getattr(node, "op", None)).__name__
        match node:
            case ast.Compare():
                names = [type(one).__name__ for one in node.ops]
                at = draw.randrange(len(names))
                parts = [text(node.left)]
                for index, name in enumerate(names):
                    sign = COMPARISONS[name] if index == at else SIGNS[name]
                    parts += [sign, text(node.comparators[index])]
                return " ".join(parts)
            case ast.BinOp() if kind in OPERATORS and not any(
                isinstance(one, ast.JoinedStr)
                or (isinstance(one, ast.Constant) and isinstance(one.value, str | bytes))
                for one in (node.left, node.right)
            ):
                return f"{text(node.left)} {OPERATORS[kind]} {text(node.right)}"
            case ast.BoolOp():
                word = " or " if kind == "And" else " and "
                return word.join(map(text, node.values))
            case ast.UnaryOp():
                return text(node.operand)
            case ast.Constant() if type(node.value) is int:
                return str(node.value + draw.choice((-1, 1)))
        return None

    def walk(node) -> None:
        if isinstance(node, ast.JoinedStr | ast.pattern):
            return
        if isinstance(node, ast.expr) and (text_ := other(node)) is not None:
            found.append((*span(node), text_))
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    walk(child)

    walk(ast.parse(source))
    return found


def draw(folder: Path, count: int, seed: int) -> None:
    """Copy the repository and plant mutants in it, `count` in each package, evenly spaced."""
    import json
    import random
    import shutil
    import subprocess
    from collections import defaultdict

    root, tree = HERE.parent, folder / "tree"
    names = subprocess.check_output(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root, text=True
    )
    for name in names.splitlines():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, tree / name)
    shutil.copy2(__file__, tree / "mutants.py")
    (tree / "mutants.shared").write_bytes(bytes(8))

    randomness = random.Random(seed)
    rows = []
    for room in ROOMS:
        every = [
            (path, *mutant)
            for path in sorted((root / room).rglob("*.py"))
            for mutant in mutants_of(path.read_bytes(), randomness)
        ]
        taken: dict[Path, list] = defaultdict(list)
        start = randomness.random()
        for number in range(count):
            index = int((number + start) * len(every) / count)
            while any(
                a < every[index][2] and every[index][1] < b for a, b, _ in taken[every[index][0]]
            ):
                index = (index + 1) % len(every)
            taken[every[index][0]].append(every[index][1:])
        for path, mutants in taken.items():
            source = changed = path.read_bytes()
            for start_, end, mutant in sorted(mutants, reverse=True):
                was, line = source[start_:end].decode(), source[:start_].count(b"\n") + 1
                name = str(path.relative_to(root))
                rows.append(
                    {"mutant": len(rows) + 1, "room": room, "at": f"{name}:{line}"}
                    | {"was": was, "is": mutant, "of": len(every)}
                )
                text = f"(({mutant}) if __import__('mutants').awake({len(rows)}) else ({was}))"
                changed = changed[:start_] + text.encode() + changed[end:]
            (tree / path.relative_to(root)).write_bytes(changed)
    (folder / "mutants.json").write_text(json.dumps(rows, indent=1))
    print(f"{len(rows)} mutants are in {tree}")


# --- Running tests there -------------------------------------------------------------------------


def tested(tree: Path, active: int, tests, seconds: float | None, *options: str):
    """Run tests in the copy with one mutant awake; return the exit code, None after the time."""
    import struct
    import subprocess

    (tree / "mutants.shared").write_bytes(struct.pack("ii", active, 0))
    (tree / "mutants.asked").write_text("".join(f"{test}\n" for test in tests))
    command = [sys.executable, "-m", "pytest", "-p", "mutants", "-p", "no:cacheprovider"]
    command += ["-p", "no:xdist", "--tb=line", *options, "@mutants.asked"]
    process = subprocess.Popen(
        command,
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "HYPOTHESIS_PROFILE": "ci"},
        stdout=(tree / "mutants.log").open("wb"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()


def taken_over(folder: Path, tests: list[str]) -> list[str]:
    """Copy the tests of this tree, as they are now, and return those that were named."""
    import shutil

    if tests:
        shutil.copytree(HERE.parent / "tests", folder / "tree" / "tests", dirs_exist_ok=True)
    return tests


def watch(folder: Path, tests: list[str]) -> None:
    """Run the tests once, with all mutants asleep, and note which executes which."""
    tree = folder / "tree"
    code = tested(tree, WATCHING, taken_over(folder, tests) or ["tests"], None)
    print((tree / "mutants.log").read_text().splitlines()[-1], f"(pytest: {code})")


def chosen(folder: Path):
    """Return, for each mutant, its tests in their order, each with its seconds."""
    import json
    from collections import defaultdict

    tree = folder / "tree"
    tests = {}
    for line in (tree / "mutants.tests").read_text().splitlines():
        row = json.loads(line)
        tests[row["number"]] = row
    executed, mutants = defaultdict(set), defaultdict(set)
    for line in (tree / "mutants.seen").read_text().splitlines():
        mutant, test = map(int, line.split())
        executed[mutant].add(test)
        mutants[test].add(mutant)

    def order(test: int) -> float:
        return (1 + len(mutants[test])) * (0.2 + tests[test]["seconds"])

    answer = {}
    for row in json.loads((folder / "mutants.json").read_text()):
        path = Path(row["at"].partition(":")[0])
        own = {one for one in executed[row["mutant"]] if one in tests and tests[one]["passed"]}
        if 0 in executed[row["mutant"]]:
            # What is executed when it is imported concerns whatever names it, or its folder.
            module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
            own |= {
                number
                for number, test in tests.items()
                if test["passed"] and names(tree / test["test"].partition("::")[0], module)
            }
        answer[row["mutant"]] = [
            (tests[one]["test"], tests[one]["seconds"]) for one in sorted(own, key=order)
        ]
    return answer


_TEXTS: dict[Path, str] = {}


def names(path: Path, module: str) -> bool:
    """Tell whether a file of tests names a module or lies in the tests of its package."""
    if path not in _TEXTS:
        _TEXTS[path] = path.read_text() if path.exists() else ""
    folder = module.rpartition(".")[0]
    named = module in _TEXTS[path] or ("." in folder and folder in _TEXTS[path])
    return named or f"tests/{module.partition('.')[0]}/" in str(path)


def not_found(log: list[str]) -> tuple[str, ...]:
    """Return the beginnings of the names of tests that pytest did not find."""
    import re

    found = (re.match(r"ERROR: not found: .*?/tree/(tests/[^\[]+)", line) for line in log)
    return tuple(one[1] for one in found if one)


def run(folder: Path, only: list[int], seconds: float, tests: list[str]) -> None:
    """Wake one mutant after the other, and run its tests until one fails."""
    import json
    import time

    tree, path = folder / "tree", folder / "outcomes.jsonl"
    rows = {row["mutant"]: row for row in json.loads((folder / "mutants.json").read_text())}
    done = {one["mutant"] for one in outcomes(folder)}
    plans = {} if taken_over(folder, tests) else chosen(folder)
    for number in only or [one for one in rows if one not in done]:
        plan = [(test, seconds / len(tests)) for test in tests] or plans[number]
        begun, outcome, ran, by = time.monotonic(), "alive", 0, ""
        # Most are noticed by one of the first; the rest is collected where that is not so.
        few = min(len(plan), 10)
        left = seconds
        for part in (plan[:few], plan[few:]):
            part = [one for index, one in enumerate(part) if sum(s for _, s in part[:index]) < left]
            left -= sum(s for _, s in part)
            if not part:
                continue
            limit, asked = 30 + 5 * sum(s for _, s in part), [test for test, _ in part]
            code = tested(tree, number, asked, limit, "-x")
            log = (tree / "mutants.log").read_text(errors="replace").splitlines()
            if code == 4 and (gone := not_found(log)):
                # The name of a test may hold what the mutant changes; nothing was run.
                asked = [test for test in asked if not test.startswith(gone)]
                code = tested(tree, number, asked, limit, "-x") if asked else 0
                log = (tree / "mutants.log").read_text(errors="replace").splitlines()
            ran += len(asked)
            if code != 0:
                failed = [one for one in log if one.startswith(("FAILED", "ERROR"))]
                outcome = "too slow" if code is None else "caught"
                by = failed[0] if failed else " ".join(log[-3:])
                break
        row = {"mutant": number, "outcome": outcome, "tests": ran, "chosen": len(plan)}
        row |= {"seconds": round(time.monotonic() - begun, 1), "by": by[:300]}
        with path.open("a") as file:
            print(json.dumps(row), file=file)
        print(number, rows[number]["at"], outcome, f"{ran}/{len(plan)}", by[:150], flush=True)


def outcomes(folder: Path):
    """Return what came of the mutants, the last word on each."""
    import json

    path = folder / "outcomes.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return list({row["mutant"]: row for row in map(json.loads, lines)}.values())


def table(folder: Path) -> None:
    """Print how many were noticed in each package, and each that was not."""
    import json

    rows = {row["mutant"]: row for row in json.loads((folder / "mutants.json").read_text())}
    ended = {row["mutant"]: row for row in outcomes(folder)}
    print("| package | candidates | drawn | caught | alive | equivalent |")
    print("|---|---|---|---|---|---|")
    for room in (*ROOMS, ""):
        own = [row for row in rows.values() if row["room"] == room or not room]
        ends = [ended[row["mutant"]] for row in own if row["mutant"] in ended]
        same = sum("equivalent" in row for row in ends)
        alive = sum(row["outcome"] == "alive" for row in ends) - same
        of = sum({row["room"]: row["of"] for row in own}.values())
        caught = len(ends) - alive - same
        print(f"| {room or 'all'} | {of} | {len(own)} | {caught} | {alive} | {same} |")
    for number, row in sorted(ended.items()):
        if row["outcome"] == "alive":
            mutant = rows[number]
            print(f"\n{number}: {mutant['at']}: `{mutant['was']}` as `{mutant['is']}`")
            print(f"    {row.get('equivalent', f'''{row['tests']} of {row['chosen']} tests''')}")


def main() -> None:
    """Do one of the four."""
    import argparse

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("draw", "watch", "run", "table"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("tests", nargs="*")
    parser.add_argument("--count", type=int, default=40, help="mutants of each package")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="numbers of mutants, separated by commas")
    parser.add_argument("--seconds", type=float, default=200, help="tests for one mutant")
    given = parser.parse_intermixed_args()
    folder = given.folder.resolve()
    if given.what == "draw":
        draw(folder, given.count, given.seed)
    elif given.what == "watch":
        watch(folder, given.tests)
    elif given.what == "run":
        only = [int(one) for one in (given.only or "").split(",") if one]
        run(folder, only, given.seconds, given.tests)
    else:
        table(folder)


if __name__ == "__main__":
    main()
