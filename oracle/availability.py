"""Which forms a module may use: what the notes of the pages say of its target and version."""

from __future__ import annotations

from functools import cache

from oracle.forms import Form
from oracle.mnemonics import MNEMONICS
from oracle.notes import Note
from oracle.targets import Module


@cache
def notes_of(form: Form) -> tuple[Note, ...]:
    """Return the notes that apply to a form, in the order of the page."""
    return tuple(note for note in MNEMONICS[form.mnemonic].notes if note.applies(form))


def refusals(form: Form, module: Module) -> tuple[tuple[str, str], ...]:
    """Return (text, section) of every note that a module does not satisfy."""
    found = ((note.refusal(module), note.section) for note in notes_of(form))
    return tuple((text, section) for text, section in found if text is not None)


def is_available(form: Form, module: Module) -> bool:
    """Tell whether a form exists in modules of a PTX ISA version for a target."""
    return not refusals(form, module)


def deprecations(form: Form, module: Module) -> tuple[tuple[str, str], ...]:
    """Return (text, section) of every note that advises against the form in this version."""
    return tuple(
        (note.text, note.section)
        for note in notes_of(form)
        if note.deprecated is not None and module.version >= note.deprecated
    )


def needs_aligned(form: Form, module: Module) -> bool:
    """Tell whether `.aligned` has to be written."""
    since = MNEMONICS[form.mnemonic].aligned_since
    return since is None or module.version >= since
