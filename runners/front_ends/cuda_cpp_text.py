"""The text of one kernel of CUDA C++ while it grows: variables, pointers, inline PTX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from oracle.program.operands import Fragment, Use
from oracle.program.operations import Operation
from oracle.program.places import Place, Uniform, Word
from oracle.program.program import Program, walk
from runners.front_ends import cuda_cpp_api as api
from runners.kernels import Kernel

REGISTERS = {
    "b32": "unsigned",
    "s32": "int",
    "f32": "float",
    "f64": "double",
    "b64": "unsigned long long",
}
"""C++ types of registers, by their PTX types."""
_CONSTRAINTS = {
    "unsigned": "r",
    "int": "r",
    "float": "f",
    "double": "d",
    "unsigned long long": "l",
}
"""Letters of inline PTX (Inline PTX Assembly in CUDA, Constraints)."""


@dataclass(kw_only=True)
class CudaCppText:
    """What is there of a kernel.

    Parameters
    ----------
    program
        What the kernel does to one image.
    kernel
        Its name, and the sizes of its image and of its shared memory.
    """

    program: Program
    kernel: Kernel
    lines: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    indent: int = 1
    count: int = 0

    def __post_init__(self) -> None:
        said = api.is_said(self.program)
        self.layouts = api.layouts_of(self.program) if said else None
        steps = list(walk(self.program.steps))
        # Never merged into one operation: __fmul_rn, __fadd_rn (CUDA Math API, intrinsics).
        arithmetic = {step.changes for step in steps}
        self.fused = {Operation.MULTIPLY, Operation.ADD} <= arithmetic
        self._groups: dict[tuple[str, int], dict[str, None]] = {}
        """Names of the variables of each type (and number of registers), in order."""
        most: dict[tuple[str, str], int] = {}
        for step in steps:
            for use in step.uses:
                key = (use.name, self.type_of(use))
                most[key] = max(self._cells(use), most.get(key, 0))
        self._variables: dict[tuple[str, str], str] = {}
        for (name, type_), cells in most.items():
            group = self._groups.setdefault((type_, cells), {})
            variable = f"{name}_{chr(ord('A') + len(self._of_name(name)))}"
            self._variables[name, type_] = variable
            group[variable] = None

    def _of_name(self, name: str) -> list[str]:
        return [variable for (other, _), variable in self._variables.items() if other == name]

    # Variables

    def is_fragment(self, use: Use) -> bool:
        """Tell whether a variable is a fragment of the API."""
        return isinstance(use.holds, Fragment) and self.layouts is not None

    def type_of(self, use: Use) -> str:
        """Return the C++ type of a variable, of an array of registers that of one."""
        if isinstance(use.holds, Fragment) and self.layouts is not None:
            matrix = use.holds.matrix
            layout = use.holds.layout
            if use.holds.any_layout:
                layout = self.layouts[use.name, matrix]
            return api.fragment_type(matrix, layout)
        return REGISTERS[use.holds.register_type]

    def _cells(self, use: Use) -> int:
        """Return the registers of an array, 0 of a fragment."""
        return 0 if self.is_fragment(use) else use.holds.registers

    def variable(self, use: Use) -> str:
        """Return the name of the variable that a name is where a step uses it."""
        return self._variables[use.name, self.type_of(use)]

    def declarations(self) -> list[str]:
        """Return an array for the variables of each type, and a reference to each of them."""
        lines = []
        for number, ((type_, cells), variables) in enumerate(self._groups.items()):
            array = f"v{number}"
            each = f"[{cells}]" if cells else ""
            lines.append(f"  {type_} {array}[{len(variables)}]{each};")
            for index, variable in enumerate(variables):
                reference = f"(&{variable}){each}" if cells else f"& {variable}"
                lines.append(f"  {type_} {reference} = {array}[{index}];")
        return lines

    # Pieces of text

    def add(self, text: str) -> None:
        """Append a line."""
        self.lines.append("  " * self.indent + text)

    def pointer(self, place: Place, lane: str = "") -> str:
        """Return a pointer to a place, `lane` bytes on."""
        offset = f" + {place.offset}" if place.offset > 0 else ""
        offset = f" - {-place.offset}" if place.offset < 0 else offset
        return f"m_{place.buffer}{offset}{f' + {lane}' if lane else ''}"

    def address(self, place: Place, space: str, immediate: int, lane: str = "") -> tuple[str, str]:
        """Return the operand of an address and its constraint, for inline PTX in a state space."""
        pointer = self.pointer(place, lane)
        rest = f" - ({immediate})" if immediate else ""
        if space == "global":
            return f"global({pointer}){rest}", "l"
        if space:
            return f"shared({pointer}){rest}", "r"
        return f"reinterpret_cast<size_t>({pointer}){rest}", "l"

    def asm(
        self,
        opcode: str,
        operands: Sequence[Use | tuple[str, str] | int],
        *,
        immediate: int = 0,
        memory: bool = False,
    ) -> None:
        """Append an instruction of inline PTX.

        Parameters
        ----------
        operands
            In the order of the instruction: uses of names, which stand in braces where there are
            several registers; (expression, constraint) of inputs, of which the first is the
            address; numbers.
        immediate
            Bytes behind the address's register.
        memory
            Whether it reads or writes memory.
        """
        texts, outputs, inputs = [], list[str](), list[str]()
        written = [use for use in operands if isinstance(use, Use) and use.written]
        number = {True: 0, False: sum(use.holds.registers for use in written)}
        addressed = False
        for operand in operands:
            match operand:
                case Use():
                    letter = _CONSTRAINTS[REGISTERS[operand.holds.register_type]]
                    name, size = self.variable(operand), operand.holds.registers
                    first = number[operand.written]
                    number[operand.written] += size
                    list_ = ", ".join(f"%{first + index}" for index in range(size))
                    # Metadata are one register, and no vector.
                    texts.append(list_ if operand.field == "e" else f"{{{list_}}}")
                    part = outputs if operand.written else inputs
                    equals = "=" if operand.written else ""
                    part += [f'"{equals}{letter}"({name}[{i}])' for i in range(size)]
                case int():
                    texts.append(str(operand))
                case expression, letter:
                    text = f"%{number[False]}"
                    number[False] += 1
                    inputs.append(f'"{letter}"({expression})')
                    if not addressed:
                        text = f"[{text}+{immediate}]" if immediate else f"[{text}]"
                        addressed = True
                    texts.append(text)
        clobbered = ' : "memory"' if memory else ""
        self.add(
            f'asm volatile("{opcode} {", ".join(texts)};" : {", ".join(outputs)} : '
            f"{', '.join(inputs)}{clobbered});"
        )

    def uniform(self, value: Uniform) -> str:
        """Return an expression that is the same in every lane."""
        if not isinstance(value, Word):
            return f"{value}u"
        pointer = self.pointer(value.place)
        return f"(*reinterpret_cast<const word*>({pointer}) & {value.mask:#x}u)"
