"""What a multiplication takes besides its matrices: metadata and scales."""

from __future__ import annotations

from oracle.isa.forms import SCALES_OF_ONE, Form
from oracle.isa.lookup import chunks_of
from oracle.program.operations import set_registers
from strategies.features import Has
from strategies.programs import accesses
from strategies.programs.builder import Builder, Dice, LiveValue, operand_of


def metadata(builder: Builder, form: Form, dice: Dice) -> LiveValue:
    """Load or choose metadata, or set them to a number of which the ISA allows all."""
    asked = builder.take(Has.METADATA_SET)
    if (dice.once_in(4) or asked) and builder.only_ptx:
        pairs = chunks_of(form)
        alike = [dice.one_of(pairs)] * 8
        chosen = alike if dice.once_in(2) else [dice.one_of(pairs) for _ in alike]
        return _set(builder, form, "e", "m", sum(pair << 4 * at for at, pair in enumerate(chosen)))
    return _loaded(builder, form, "e", dice)


def scales(builder: Builder, form: Form, operand: str, dice: Dice) -> LiveValue:
    """Load or choose scales, or set them to a number: all alike, or a byte for each selector."""
    if dice.once_in(4) and builder.only_ptx:
        one = SCALES_OF_ONE[form.texts["stype"]]
        chosen = [one] * 4 if dice.once_in(2) else [one + dice.below(8) - 4 for _ in range(4)]
        return _set(builder, form, operand, "s", int.from_bytes(bytes(chosen), "little"))
    return _loaded(builder, form, operand, dice)


def _set(builder: Builder, form: Form, operand: str, prefix: str, constant: int) -> LiveValue:
    name = builder.name(prefix)
    builder.add(set_registers(destination=name, count=1, constant=constant))
    # Another form may not allow it, or read it as another format, so that it is offered to none.
    return LiveValue(name=name, holds=operand_of(form, operand), depth=builder.scope.depth)


def _loaded(builder: Builder, form: Form, operand: str, dice: Dice) -> LiveValue:
    holds = operand_of(form, operand)
    again = [value for value in builder.scope.like(holds) if operand in value.used]
    if again and dice.once_in(2):
        return again[-1]
    return accesses.load_registers(builder, holds, operand, dice)
