"""Declarations of registers, variables and parameters.

Source: PTX ISA 5.4 (Variables), 7.1 (Function Declarations and Definitions), 11.6 (Linking).
"""

import re

from runners.simulated.literals import BadConstant, initial_of, operands_of
from runners.simulated.reader import DIRECTIVE, IDENTIFIER, NAME, Reader
from runners.simulated.syntax import TYPE_BITS, Initial, Register, Scope, Variable
from runners.simulated.traps import TrapKind, refuse

_TYPE = re.compile(r"\.(v[248]\s*\.)?\s*([a-z]+[0-9a-z]*)\s")
_DECLARATOR = re.compile(rf"\s*({IDENTIFIER})\s*(?:<([^>]*)>)?((?:\s*\[[^\]]*\])*)\s*")
_ALIGN = re.compile(r"\.align\s+(\w+)\s*")
_ATTRIBUTE = re.compile(r"\.attribute\s*\([^)]*\)\s*")
_POINTER = re.compile(r"\.ptr\b\s*(?:\.(?:global|shared|local|const|param)\b\s*)?")
_MARK = re.compile(r"\{[\s0-9,]*+\}|[{},;]")
"""What may end an initialiser, or is around what does not; a flat table is passed as a whole."""
_LARGEST_FAMILY = 1 << 24
"""Registers that one declaration may make."""


class Declarations:
    """Reads declarations at the place of a reader."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def _type(self) -> tuple[str, int]:
        """Take a type; return it and the elements of a vector."""
        reader = self.reader
        match = reader.take(_TYPE)
        if match is None:
            reader.unexpected()
        if match[2] not in TYPE_BITS:
            reader.refuse(f"type .{match[2]} is not known", TrapKind.UNSUPPORTED)
        return match[2], int(match[1][1]) if match[1] else 1

    def variables(self, space: str, linking: str) -> list[Variable]:
        """Take the variables of a declaration behind its state space."""
        reader = self.reader
        alignment, kind, parts = self._attributes()
        found = []
        while True:
            found.append(self._variable(space, alignment, kind, parts, linking))
            if not reader.accept(","):
                break
        reader.expect(";")
        return found

    def _attributes(self) -> tuple[int | None, str, int]:
        """Take alignment, type and elements of a vector."""
        reader = self.reader
        alignment = None
        while True:
            match = reader.take(_ALIGN)
            if match is not None:
                alignment = reader.integer(match[1])
            elif not reader.take(_ATTRIBUTE):
                break
        kind, parts = self._type()
        return alignment, kind, parts

    def _variable(
        self, space: str, alignment: int | None, kind: str, parts: int, linking: str = ""
    ) -> Variable:
        reader = self.reader
        line = reader.here()
        match = reader.need(_DECLARATOR)
        if match[2] is not None or kind == "pred":
            reader.refuse(f"{match[1]} is no variable of memory")
        element = TYPE_BITS[kind] // 8 * parts
        alignment = element if alignment is None else alignment
        if alignment < 1 or alignment & (alignment - 1):
            reader.refuse(f"alignment {alignment} is no power of two")
        initial = self._initial()
        size = element
        open_ended = False
        for extent in re.findall(r"\[([^\]]*)\]", match[3]):
            if extent.strip():
                size *= self._extent(extent)
            else:
                open_ended = True
        if open_ended:
            # Without an initialiser the launch says how large it is (PTX ISA 5.1.7, extern).
            if not initial and linking != ".extern":
                reader.refuse(f"{match[1]} has no size")
            size *= -(-len(initial) * (element // parts) // size)
        elif linking == ".extern" and space == "shared":
            size = 0
        return Variable(
            line=line, name=match[1], space=space, type=kind, alignment=alignment, size=size,
            initial=initial,
        )  # fmt: skip

    def _extent(self, text: str) -> int:
        try:
            (value,) = operands_of(text.strip())
        except (BadConstant, ValueError) as error:
            self.reader.refuse(f"no size of an array: {error}")
        count = getattr(value, "value", -1)
        if count < 0:
            self.reader.refuse(f"{text} is no size of an array")
        return int(count)

    def _initial(self) -> tuple[Initial, ...]:
        reader = self.reader
        if not reader.accept("="):
            return ()
        start = reader.place
        depth = 0
        reader.place = len(reader.text)
        for mark in _MARK.finditer(reader.text, start):
            if mark[0] == "{":
                depth += 1
            elif mark[0] == "}":
                depth -= 1
            elif mark[0] == ";" or (mark[0] == "," and depth == 0):
                reader.place = mark.start()
                break
        try:
            return initial_of(reader.text[start : reader.place])
        except BadConstant as error:
            reader.refuse(str(error), error.kind)

    def parameters(self) -> tuple[Variable, ...]:
        """Take formal parameters up to the closing parenthesis."""
        reader = self.reader
        found: list[Variable] = []
        if reader.accept(")"):
            return ()
        while True:
            space = reader.need(DIRECTIVE)[0][1:]
            if space not in ("param", "reg"):
                reader.refuse(f".{space} is no space of a parameter")
            found.append(self._parameter(space))
            if not reader.accept(","):
                break
        reader.expect(")")
        return tuple(found)

    def _parameter(self, space: str) -> Variable:
        reader = self.reader
        alignment = None
        if (match := reader.take(_ALIGN)) is not None:
            alignment = reader.integer(match[1])
        kind, parts = self._type()
        if reader.take(_POINTER):
            # What is said of a pointer is a promise to optimisers (PTX ISA 7.1.1, .ptr).
            reader.take(_ALIGN)
        if space == "reg":
            line = reader.here()
            return Variable(
                line=line, name=reader.need(NAME)[0], space="reg", type=kind, alignment=1,
                size=0,
            )  # fmt: skip
        return self._variable(space, alignment, kind, parts)

    def registers(self, scope: Scope, line: int) -> None:
        """Take registers behind `.reg`, in the line of the declaration, into a scope."""
        reader = self.reader
        kind, parts = self._type()
        while True:
            match = reader.need(_DECLARATOR)
            name = match[1]
            if scope.declares(name) or name in scope.families:
                refuse(TrapKind.PARSE, line, f"register {name} is declared twice")
            if match[2] is not None:
                count = reader.integer(match[2])
                if count > _LARGEST_FAMILY or parts > 1:
                    refuse(
                        TrapKind.UNSUPPORTED,
                        line,
                        f"{count} registers of .v{parts} are declared at once; up to "
                        f"{_LARGEST_FAMILY} scalar ones are read",
                    )
                scope.families[name] = (count, kind)
            else:
                scope.registers[name] = Register(scope.key(name), kind, parts)
                for letter, color in zip("xyzw"[:parts], "rgba", strict=False) if parts > 1 else ():
                    part = Register(f"{scope.key(name)}.{letter}", kind)
                    scope.registers[f"{name}.{letter}"] = part
                    scope.registers[f"{name}.{color}"] = part
            if not reader.accept(","):
                break
        reader.expect(";")
