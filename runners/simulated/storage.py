"""Where variables lie, and what they hold when a launch begins."""

from collections.abc import Iterable, Mapping

from runners.simulated.memory import LARGEST_SHARED, VARIABLES_BASE, WINDOWS, Space, Static
from runners.simulated.operands import Location, float_bits
from runners.simulated.syntax import TYPE_BITS, Function, Immediate, Scope, Variable
from runners.simulated.traps import TrapKind, refuse

# Constant memory of a module (CUDA C++ Programming Guide, Technical Specifications).
_LARGEST_CONSTANTS = 0x1_0000
# What the simulated device has of the others: it keeps 32 times as much local memory for each
# image. A device has 512 KiB of it for a thread, and gigabytes of global memory.
LARGEST_LOCAL = 1 << 14
_LARGEST_GLOBAL = 1 << 26


class _Space:
    """Bytes of one space that are given out from the lowest up."""

    def __init__(self, name: str, largest: int, kind: TrapKind) -> None:
        self._name, self._largest, self._kind = name, largest, kind
        self.end = 0

    def place(self, variable: Variable) -> int:
        offset = -(-self.end // variable.alignment) * variable.alignment
        self.end = offset + variable.size
        if self.end > self._largest:
            said = f"{variable.name} makes {self.end} bytes of {self._name} memory; there are "
            refuse(self._kind, variable.line, f"{said}{self._largest}")
        return offset


class Frame(dict[Variable, Location]):
    """Where the variables lie that one expansion of a function sees.

    Its own local variables and call parameters lie in local memory from `base` up.
    """

    def __init__(
        self,
        statics: "Statics",
        function: Function,
        base: int,
        bound: Mapping[Variable, Location],
    ) -> None:
        super().__init__(bound)
        self._statics = statics
        space = _Space("local", LARGEST_LOCAL, TrapKind.UNSUPPORTED)
        space.end = base
        inside = [each for scope in function.scopes for each in scope.variables.values()]
        local = [each for each in inside if each.space == "local"]
        self._place(space, (*function.results, *function.parameters, *local))
        most, ends = space.end, dict[Scope | None, int]()
        for scope in function.scopes:
            # Behind the closing brace nobody has the parameters of a call any more.
            space.end = ends.get(scope.parent, space.end)
            self._place(space, scope.variables.values())
            ends[scope] = space.end
            most = max(most, space.end)
        self.end = -(-most // 16) * 16
        """Bytes of local memory in use."""

    def _place(self, space: _Space, variables: Iterable[Variable]) -> None:
        for variable in variables:
            if variable.space in ("local", "param") and variable not in self:
                self[variable] = Location(Space.LOCAL, self._statics.base + space.place(variable))

    def __missing__(self, variable: Variable) -> Location:
        """Return where a variable lies that exists once."""
        return self._statics.location(variable)


class Statics:
    """The variables of one kernel that exist once for a block or a module.

    What is not used has no place.
    """

    def __init__(self, module: Scope, base: int, functions: Mapping[str, int]) -> None:
        self._module, self.base, self._functions = module, base, functions
        self._locations: dict[Variable, Location] = {}
        self._spaces = {
            Space.SHARED: _Space("static shared", LARGEST_SHARED, TrapKind.ILLEGAL),
            Space.CONST: _Space("constant", _LARGEST_CONSTANTS, TrapKind.ILLEGAL),
            Space.GLOBAL: _Space("global", _LARGEST_GLOBAL, TrapKind.UNSUPPORTED),
        }

    def location(self, variable: Variable) -> Location:
        """Return where a variable lies."""
        found = self._locations.get(variable)
        if found is None:
            space = Space(variable.space)
            if space not in self._spaces:
                said = f"{variable.name} is declared outside functions"
                refuse(TrapKind.PARSE, variable.line, said)
            if space is Space.SHARED and not variable.size:
                # Dynamic shared memory lies behind all static one.
                found = Location(space, LARGEST_SHARED)
            else:
                base = self._base_of(space)
                found = Location(space, base + self._spaces[space].place(variable))
            self._locations[variable] = found
            for initial in variable.initial:
                value = initial.value
                if not isinstance(value, Immediate) and value.text not in self._functions:
                    self._target(variable, value.text)
        return found

    def _base_of(self, space: Space) -> int:
        return self.base + (VARIABLES_BASE if space is Space.GLOBAL else 0)

    def _target(self, variable: Variable, name: str) -> Location:
        found = self._module.find(name)
        if not isinstance(found, Variable):
            refuse(TrapKind.UNSUPPORTED, variable.line, f"the address of {name} as a value")
        return self.location(found)

    def static(self, local_bytes: int) -> Static:
        """Return what a launch needs."""
        content = {
            space: bytearray(self._spaces[space].end) for space in (Space.GLOBAL, Space.CONST)
        }
        for variable, location in tuple(self._locations.items()):
            if location.space in content:
                held = self._content(variable)
                start = location.offset - self._base_of(location.space)
                content[location.space][start : start + len(held)] = held
        return Static(
            shared_bytes=self._spaces[Space.SHARED].end,
            base=self.base,
            local_bytes=local_bytes,
            variables=bytes(content[Space.GLOBAL]),
            constants=bytes(content[Space.CONST]),
        )

    def _content(self, variable: Variable) -> bytes:
        width = TYPE_BITS[variable.type] // 8
        if len(variable.initial) * width > variable.size:
            said = f"{variable.name} has more initial values than elements"
            refuse(TrapKind.PARSE, variable.line, said)
        held = bytearray()
        for initial in variable.initial:
            value = initial.value
            if isinstance(value, Immediate):
                number = value.value
                if value.float_bits and value.float_bits != 8 * width:
                    if variable.type != "f32":
                        said = f"{variable.name} cannot hold its initial value"
                        refuse(TrapKind.PARSE, variable.line, said)
                    number = float_bits(value, 32)
            elif value.text in self._functions:
                number = self._functions[value.text]
            else:
                location = self._target(variable, value.text)
                number = location.offset + value.offset
                number += WINDOWS[location.space] if initial.generic else 0
            held += (number & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        return bytes(held)
