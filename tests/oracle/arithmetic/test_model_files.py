"""Models as files: what is written is read back, and what is wrong is said in a sentence."""

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from oracle.errors import UsageError
from oracle.models import Confidence, Model, model_for
from oracle.models.figures import KINDS, allowed_of, values_in
from oracle.models.files import EXPORTS, model_text, parse_model, read_model

BASES = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


@pytest.mark.parametrize("form", ["toml", "json"])
@pytest.mark.parametrize("target", [*BASES, "sm_87", "sm_121"])
def test_a_model_that_is_written_is_read_back(target: str, form: str, tmp_path: Path) -> None:
    model = model_for(target)
    path = tmp_path / f"model.{form}"
    path.write_text(EXPORTS[form](model))
    again = read_model(path)
    assert (again.target, again.units) == (target, model.units)
    assert again.digest == model.digest
    assert again.file == str(path)


@pytest.fixture
def cc() -> str:
    found = shutil.which("cc")
    if found is None:
        pytest.skip("no C compiler is here")
    return found


def test_the_headers_of_all_targets_compile_together(cc: str, tmp_path: Path) -> None:
    text = "".join(EXPORTS["c"](model_for(target)) for target in BASES)
    header = tmp_path / "models.h"
    header.write_text(text)
    flags = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-fsyntax-only")
    checked = [cc, *flags, "-x", "c", str(header)]
    ended = subprocess.run(checked, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_a_header_says_what_the_model_does(cc: str, tmp_path: Path) -> None:
    """A C program prints every figure of every array, as the model has it."""
    model = model_for("sm_90")
    (tmp_path / "model.h").write_text(EXPORTS["c"](model))
    units = {key: model.only(KINDS[key]) for key in ("dot", "scalar", "exact")}
    lines, expected = [], []
    for key, rows in units.items():
        schema = allowed_of(type(rows[0]))
        names = ["instruction", "types", *schema] if key != "exact" else list(schema)
        for number, row in enumerate(rows):
            for name in names:
                what = f"warpfuzz_sm_90_{key}[{number}].{name}"
                allowed = schema.get(name)
                value = values_in(row).get(name, getattr(row, name, None))
                if allowed and not allowed.words:
                    lines.append(f'printf("%lld\\n", (long long){what});')
                else:
                    lines.append(f'puts({what} ? {what} : "None");')
                is_absent = value is None and allowed and not allowed.words
                expected.append(str(0 if is_absent else value))
    double = "warpfuzz_sm_90_double[0]"
    lines.append(f'printf("%s %llx\\n", {double}.nan_order, (long long){double}.nan_invalid);')
    expected.append("bca fff8000000000000")
    program = tmp_path / "program.c"
    program.write_text(
        '#include <stdio.h>\n#include "model.h"\nint main(void) {\n' + "\n".join(lines) + "\n}\n"
    )
    subprocess.run([cc, "-std=c99", "-w", program, "-o", tmp_path / "program"], check=True)
    said = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=False)
    assert said.stdout.split("\n")[:-1] == expected
    assert len(expected) > 700


def test_the_digest_is_of_values_alone() -> None:
    text = model_text(model_for("sm_90"))
    other = text.replace('"H200, 2026-11"', '"another"')
    assert other != text
    assert parse_model(other, "x").digest == model_for("sm_90").digest
    changed = text.replace("fraction_bits = 25", "fraction_bits = 24", 1)
    assert parse_model(changed, "x").digest != model_for("sm_90").digest


def test_a_figure_takes_what_it_does_not_say_from_around_it() -> None:
    text = model_text(model_for("sm_90")).replace(
        "fraction_bits = 25", 'fraction_bits = { value = 25, source = "a paper" }', 1
    )
    figure = parse_model(text, "x").units[0].fraction_bits
    assert (figure.value, figure.confidence, figure.source) == (
        25, Confidence.MEASURED, "a paper",
    )  # fmt: skip


def edited(old: str, new: str) -> str:
    text = model_text(model_for("sm_90"))
    assert old in text
    return text.replace(old, new, 1)


WRONG = [
    ("target = \"sm_90\"", "target = 90", "target is 90"),
    ("target = \"sm_90\"", "target = \"sm_91\"", "no target 'sm_91'; known are"),
    ("target =", "gpu = 1\ntarget =", "there is no gpu; there are target"),
    ("fraction_bits = 25", "fraction_bits = 31", "fraction_bits is 31; give an integer"),
    ("fraction_bits = 25", "fraction_bits = true", "fraction_bits is True; give an integer"),
    ("fraction_bits = 25", "fraction_bits = \"25\"", "fraction_bits is '25'; give an integer"),
    ("fraction_bits = 25\n", "", "fraction_bits is missing; give an integer from 8 to 30"),
    ("fraction_bits = 25", "bits = 25", "there is no bits; there are"),
    ("block = 16", "block = 0", "block is 0; give an integer from 1 to 32"),
    ("rounding = \"rz\"", "rounding = \"up\"", "rounding is 'up'; give one of \"rn\", \"rz\""),
    ("interleaved = 0", "interleaved = 3", "interleaved is 3 and block 16; give 0, or a divisor"),
    ("nan = 0x7fffffff", "nan = -1", "nan is -1; give an integer from 0x0"),
    ("zero = \"+\"", "zero = \"+\"\naddition = \"rn\"", "addition says nothing here; leave it out"),
    ("addend = \"first\"", "addend = \"last\"", "addition is missing, and addend is \"last\""),
    ("[\"f32.f16.f16.f32\"]", "[\"f32.f16\"]", "types is ['f32.f16']; give an array"),
    ("[\"f32.f16.f16.f32\"]", "[]", "types is []"),
    ("[\"f32.f16.f16.f16\"]", "[\"f32.f16.f16.f32\"]", "stands there twice"),
    ("instruction = \"wmma.mma\"", "instruction = \"hmma\"", "instruction is 'hmma'; give one of"),
    ("accumulator = \"f32\"", "accumulator = \"f16\"", "accumulator is \"f16\", and C or D is f32"),
    ("confidence = \"measured\"", "confidence = \"sure\"", "confidence is 'sure'; give one of"),
    ("source = \"H200, 2026-11\"", "source = \"\"", "source is ''; say in a line"),
    ("[exact]", "[integers]", "there is no integers"),
    ('value = ["b", "c"', 'value = ["d", "c"', "nan_order is ['d', 'c', 'a']"),
    ("nan_invalid =", "# nan_invalid =", "nan_invalid is None; give an integer"),
    ("block = 16", "block = ", "is not TOML"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said"), WRONG, ids=lambda text: text[:30])
def test_what_is_wrong_is_said_with_the_file_the_place_and_what_is_allowed(old, new, said) -> None:
    with pytest.raises(UsageError) as raised:
        parse_model(edited(old, new), "mine.toml")
    assert said in str(raised.value)
    assert "mine.toml" in str(raised.value)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_model(tmp_path / "none.toml")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="no text in UTF-8"):
        read_model(tmp_path / "bytes")


def test_any_text_is_a_model_or_refused() -> None:
    model = model_text(model_for("sm_80"))
    for at in range(0, len(model), 97):
        with suppress(UsageError):
            assert isinstance(parse_model(model[:at] + model[at + 13 :], "x"), Model)
