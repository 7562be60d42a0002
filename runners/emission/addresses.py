"""Operands that address memory: base registers, offsets, strides."""

from __future__ import annotations

from collections.abc import Sequence

from oracle.errors import UsageError
from oracle.places import Place
from oracle.program import Program
from runners.emission.body import Body

# Base registers of the prologue, by the space of the buffer and the spelling of the state space.
_BASES = {
    ("global", "global"): "%image",
    ("global", ""): "%image_generic",
    ("shared", "shared"): "%shared",
    ("shared", "shared::cta"): "%shared",
    ("shared", ""): "%shared_generic",
}


def base_register(body: Body, program: Program, buffer: str, space: str) -> str:
    """Return the register with the start of the image, or of the warp's shared memory.

    Parameters
    ----------
    space
        Spelling of `{.ss}`: "" (generic), "global", "shared" or "shared::cta".

    Raises
    ------
    UsageError
        If the buffer does not lie in that state space.
    """
    lies_in = program.buffer(buffer).space
    try:
        return body.use(_BASES[lies_in, space])
    except KeyError:
        raise UsageError(
            f"buffer {buffer!r} lies in {lies_in} memory and is accessed through .{space}; use "
            f".{lies_in} or generic addressing"
        ) from None


def address(
    body: Body, program: Program, place: Place, space: str, *, immediate: int = 0, lane: str = ""
) -> str:
    """Return the operand, such as "[%rd0+16]", that addresses a place.

    Parameters
    ----------
    immediate
        Bytes of the address that stand in the instruction; a register holds the rest.
    lane
        A 64-bit register to add, which differs from lane to lane; "" for none.
    """
    register = base_register(body, program, place.buffer, space)
    rest = program.offset(place.buffer) + place.offset - immediate
    for addend in (str(rest) if rest else "", lane):
        if addend:
            total = body.scratch("b64")
            body.add(f"add.s64 {total}, {register}, {addend}")
            register = total
    return displaced(register, immediate)


def progression(offsets: Sequence[int]) -> tuple[int, int] | None:
    """Return the first of the lanes' offsets and their pitch; None where there is no one pitch."""
    first, pitch = offsets[0], offsets[1] - offsets[0]
    regular = all(offset == first + lane * pitch for lane, offset in enumerate(offsets))
    return (first, pitch) if regular else None


def displaced(register: str, immediate: int) -> str:
    """Return "[register+immediate]"; PTX writes a negative one as "+-16"."""
    return f"[{register}+{immediate}]" if immediate else f"[{register}]"


def stride_operand(body: Body, stride: int | None, *, in_register: bool) -> str:
    """Return ", stride" as the last operand of wmma.load and wmma.store, or nothing."""
    if stride is None:
        return ""
    if not in_register:
        return f", {stride}"
    # A register that holds a constant would be folded into an immediate.
    register = body.scratch("b32")
    body.add(f"add.u32 {register}, {body.use('%zero')}, {stride}")
    return f", {register}"
