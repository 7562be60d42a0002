"""What steps read and write: fragments, registers, buffers."""

from __future__ import annotations

from dataclasses import replace

from oracle.program import (
    Branch,
    Copy,
    Elementwise,
    Load,
    LoadRows,
    Loop,
    Multiply,
    Step,
    Store,
    StoreRegisters,
    Word,
)


def read_names(step: Step) -> tuple[str, ...]:
    """Return the fragments and registers that a step itself reads."""
    match step:
        case Multiply():
            return (step.a, step.b, step.c)
        case Store():
            return (step.fragment,)
        case Elementwise():
            return (step.source,)
        case StoreRegisters():
            return (step.registers,)
        case _:
            return ()


def written_name(step: Step) -> str | None:
    """Return the fragment or the registers that a step itself writes."""
    match step:
        case Load():
            return step.fragment
        case Multiply():
            return step.d
        case Elementwise():
            return step.destination
        case LoadRows():
            return step.registers
        case _:
            return None


def reading_instead(step: Step, old: str, new: str) -> Step:
    """Return a step that reads one name where it read another."""
    match step:
        case Multiply():
            a, b, c = (new if name == old else name for name in (step.a, step.b, step.c))
            return replace(step, a=a, b=b, c=c)
        case Store(fragment=name) if name == old:
            return replace(step, fragment=new)
        case Elementwise(source=name) if name == old:
            return replace(step, source=new)
        case StoreRegisters(registers=name) if name == old:
            return replace(step, registers=new)
        case _:
            return step


def read_buffers(step: Step) -> tuple[str, ...]:
    """Return the buffers that a step itself reads."""
    match step:
        case Load():
            return (step.place.buffer,)
        case LoadRows():
            return (step.buffer,)
        case Copy():
            return (step.source.buffer,)
        case Branch(condition=Word() as word) | Loop(count=Word() as word):
            return (word.place.buffer,)
        case _:
            return ()


def written_buffer(step: Step) -> str | None:
    """Return the buffer that a step itself writes."""
    match step:
        case Store() | StoreRegisters():
            return step.place.buffer
        case Copy():
            return step.destination.buffer
        case _:
            return None
