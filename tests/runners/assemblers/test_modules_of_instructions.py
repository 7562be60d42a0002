import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.errors import UsageError
from runners.assemblers.judgements import (
    MARKER,
    assembly_module,
    declarations,
    instruction_line,
    is_contained,
    minimal_module,
    rejection_module,
)

LOAD = "wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r3, %r1, %r3}, [%addr], %stride;"

registers = st.builds("%{}{}".format, st.sampled_from("rfdhp"), st.integers(0, 40))
operands = st.lists(
    st.one_of(registers, st.sampled_from(["%addr", "%stride", "[tile]", "{", "}", "16", "%q"]))
)
instructions = st.builds(lambda parts: f"wmma.x {' '.join(parts)};", operands)


@given(texts=st.lists(instructions))
def test_every_register_that_is_named_is_declared_once(texts):
    declared = {}
    for line in declarations(texts):
        if match := re.match(r"\.reg \.\w+ %(\w+?)(?:<(\d+)>)?;", line):
            assert match[1] not in declared
            declared[match[1]] = int(match[2] or 0)
    for prefix, number in re.findall(r"%([rfdhp])(\d+)", " ".join(texts)):
        assert declared[prefix] > int(number)


@pytest.mark.parametrize(
    "text",
    ["ret", "ret;;", "{ret;", "ret;}", "a: ret;", ".reg .b32 %x;", "ret; // no", "/* ret;", "#1;",
     'a "b;', "a {b {c}};", "a {b;", "a \\;"],
)  # fmt: skip
def test_what_could_reach_beyond_its_line_is_not_contained(text):
    assert not is_contained(text)


@given(
    place=st.integers(0, len(LOAD)),
    mark=st.sampled_from(['"', "'", "\\", "#", "//", "/*", "*/", "{", "}", " : ", ";"]),
)
def test_a_mark_anywhere_makes_a_statement_one_that_is_not_contained(place, mark):
    assert not is_contained(LOAD[:place] + mark + LOAD[place:])


@given(text=instructions, stored=st.booleans())
def test_a_minimal_module_holds_the_instruction_on_the_line_it_marks(text, stored):
    module = minimal_module(text, target="sm_90", version="8.0", results_stored=stored)
    at = instruction_line(module)
    assert module.splitlines()[at - 1] == text


@pytest.mark.parametrize(
    ("vector", "stores"),
    [
        ("{%r0}", ["st.global.b32 [%results+0], %r0;"]),
        ("{%r0, %r1}", ["st.global.v2.b32 [%results+0], {%r0, %r1};"]),
        (
            "{%f0, %f1, %f2}",
            ["st.global.v2.f32 [%results+0], {%f0, %f1};", "st.global.f32 [%results+16], %f2;"],
        ),
        ("{%d0, %d1}", ["st.global.v2.f64 [%results+0], {%d0, %d1};"]),
        ("{%h1}", ["st.global.b16 [%results+0], %h1;"]),
        ("{%p0, 3, _}", []),
        ("%r0", ["st.global.b32 [%results+0], %r9;"]),
    ],
)
def test_stored_results_are_those_of_the_first_vector(vector, stores):
    module = minimal_module(
        f"x {vector}, {{%r9}};", target="sm_90", version="8.0", results_stored=True
    )
    assert [line for line in module.splitlines() if line.startswith("st.")] == stores


@given(texts=st.lists(instructions, min_size=1, max_size=40), per_entry=st.integers(1, 9))
def test_listings_say_where_each_instruction_stands(texts, per_entry):
    place = {"target": "sm_90", "version": "8.0"}
    for module, lines in (
        assembly_module(texts, per_entry=per_entry, **place),
        rejection_module(texts, entry="k7", **place),
    ):
        standing = module.splitlines()
        assert [standing[line - 1] for line in lines] == texts
    assert standing[lines[-1] + 1] == MARKER


def test_what_transfers_control_or_is_not_contained_has_an_entry_of_its_own():
    texts = ["a;", "b;", "ret;", "c;", "@%p0 bra x;", "d; // e", "f;", "g;"]
    module, _ = assembly_module(texts, per_entry=8, target="sm_90", version="8.0")
    entries = module.split(".visible .entry")[1:]
    together = [[text for text in texts[:2] + texts[3:] if text in entry.splitlines()]
                for entry in entries]  # fmt: skip
    assert together == [["a;", "b;"], [], ["c;"], ["@%p0 bra x;"], ["d; // e"], ["f;", "g;"]]


@pytest.mark.parametrize("text", ["", "a\nb", "a\u2028b", "a\0"])
def test_what_is_not_one_line_is_refused(text):
    with pytest.raises(UsageError, match="not one line"):
        minimal_module(text, target="sm_90", version="8.0")
