"""Which forms a module may use: what the notes of the pages say of its target and version."""

from __future__ import annotations

from functools import cache

from oracle.forms import Form
from oracle.instructions import INSTRUCTIONS
from oracle.instructions.row import Note
from oracle.targets import Module


@cache
def notes_of(form: Form) -> tuple[Note, ...]:
    """Return the notes that apply to a form, in the order of the page."""
    return INSTRUCTIONS[form.mnemonic].notes_of(form)


def refusals(form: Form, module: Module) -> tuple[tuple[str, str], ...]:
    """Return (text, section) of every note that a module does not satisfy."""
    found = (note.refusal(module) for note in notes_of(form))
    return tuple((text, form.section) for text in found if text is not None)


def is_available(form: Form, module: Module) -> bool:
    """Tell whether a form exists in modules of a PTX ISA version for a target."""
    return not refusals(form, module)


def deprecations(form: Form, module: Module) -> tuple[tuple[str, str], ...]:
    """Return (text, section) of every note that advises against the form in this version."""
    return tuple(
        (note.text, form.section)
        for note in notes_of(form)
        if note.deprecated is not None and module.version >= note.deprecated
    )


def needs_aligned(form: Form, module: Module) -> bool:
    """Tell whether `.aligned` has to be written."""
    since = INSTRUCTIONS[form.mnemonic].aligned_since
    return since is None or module.version >= since
