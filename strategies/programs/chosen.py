"""What a multiplication takes besides its matrices: metadata and scales."""

from __future__ import annotations

from oracle.isa.forms import Form
from oracle.isa.lookup import chunks_of
from oracle.program.operations import set_registers
from strategies.features import Has
from strategies.programs import accesses
from strategies.programs.builder import Builder, Dice, LiveValue, operand_of


def metadata(builder: Builder, form: Form, dice: Dice) -> LiveValue:
    """Load or choose metadata, or set them to a number of which the ISA allows all."""
    holds = operand_of(form, "e")
    again = [value for value in builder.scope.like(holds) if "e" in value.used]
    asked = builder.take(Has.METADATA_SET)
    if (dice.once_in(4) or asked) and builder.only_ptx:
        name, pairs = builder.name("m"), chunks_of(form)
        alike = [dice.one_of(pairs)] * 8
        chosen = alike if dice.once_in(2) else [dice.one_of(pairs) for _ in alike]
        constant = sum(pair << 4 * place for place, pair in enumerate(chosen))
        builder.add(set_registers(destination=name, count=1, constant=constant))
        # Another form may not allow it, so that it is offered to none.
        return LiveValue(name=name, holds=holds, depth=builder.scope.depth)
    if again and dice.once_in(2):
        return again[-1]
    return accesses.load_registers(builder, holds, "e", dice)


def scales(builder: Builder, form: Form, operand: str, dice: Dice) -> LiveValue:
    """Load or choose scales, or set them to a number: all alike, or a byte for each selector."""
    holds = operand_of(form, operand)
    again = [value for value in builder.scope.like(holds) if operand in value.used]
    if dice.once_in(4) and builder.only_ptx:
        name, one = builder.name("s"), 0x38 if form.texts["stype"] == "ue4m3" else 0x7F
        chosen = [one] * 4 if dice.once_in(2) else [one + dice.below(8) - 4 for _ in range(4)]
        constant = int.from_bytes(bytes(chosen), "little")
        builder.add(set_registers(destination=name, count=1, constant=constant))
        # Another form may read it as another format, so that it is offered to none.
        return LiveValue(name=name, holds=holds, depth=builder.scope.depth)
    if again and dice.once_in(2):
        return again[-1]
    return accesses.load_registers(builder, holds, operand, dice)
