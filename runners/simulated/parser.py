"""PTX text to `KernelText`, refusing by line whatever is no PTX, or PTX that is not read.

Source: PTX ISA 4 (Syntax), 5 (State Spaces, Types, and Variables), 6 (Instruction Operands), 7
(Abstracting the ABI), 11 (Directives). What describes the program for debuggers and tuners is
passed over.
"""

import re
from contextlib import suppress
from functools import lru_cache

from runners.simulated.reader import IDENTIFIER, KEPT, Reader, Refusal, integer, operands_of
from runners.simulated.syntax import (
    CALLS,
    TYPE_BITS,
    Function,
    ImmediateText,
    InstructionText,
    KernelText,
    Name,
    TextScope,
    Variable,
    VectorText,
)
from runners.simulated.traps import TrapKind, refuse

# How many parsed modules are kept. A campaign runs one module on many batches of images, and
# shrinking goes back and forth between a few.
_KEPT_MODULES = 32
_MOST_SCOPES = 100
"""Braces of a body inside each other."""
_LARGEST_FAMILY = 1 << 24
"""Registers that one declaration may make."""

_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?(?:\*/|\Z)|^[ \t]*#[^\n]*', re.S | re.M)
_WORD = re.compile(r"\w+")
_TO_SEMICOLON = re.compile(r"[^;{}]*;")
_TO_LINE_END = re.compile(r"[^\n]*")
_NAME = re.compile(IDENTIFIER)
_LABEL = re.compile(rf"({IDENTIFIER})\s*:(?!:)\s*(\.(?:branch|call)targets|\.callprototype)?")
_INSTRUCTION = re.compile(
    rf"(?:@\s*(!?)\s*({IDENTIFIER})\s*)?"
    r"([a-zA-Z]\w*+(?:(?:\.|::)[a-zA-Z0-9_]++)*+)(?![\w$%])\s*+([^;]*+);"
)
_DIRECTIVE = re.compile(r"\.[a-zA-Z_]\w*")
_DOTTED = re.compile(r"\s*([0-9]+)\.([0-9]+)(?![\w.])")
_SECTION = re.compile(r"\.?[\w.$]+\s*\{[^}]*\}")
_TYPE = re.compile(r"\.(v[248]\s*\.)?\s*([a-z]+[0-9a-z]*)\s")
_COUNT = re.compile(r"<\s*(\w+)\s*>")
_ALIGN = re.compile(r"\.align\s+(\w+)\s*")
_ATTRIBUTE = re.compile(r"\.attribute\s*\([^)]*\)\s*")
# What is said of a pointer is a promise to optimisers (PTX ISA 7.1.1, .ptr).
_POINTER = re.compile(
    r"\.ptr\b\s*(?:\.(?:global|shared|local|const|param)\b\s*)?(?:\.align\s+\w+)?"
)
# Directives in front of a body that bound the launch or help an optimiser (PTX ISA 11.4, 11.7).
_PERFORMANCE = re.compile(
    r"\.pragma\b[^;{]*;\s*"
    r"|\.(?:maxntid|reqntid|minnctapersm|maxnctapersm|maxnreg|noreturn|reqnctapercluster"
    r"|explicitcluster|maxclusterrank|blocksareclusters|abi_preserve(?:_control)?)\b[^.{;]*"
)


def _instruction(match: re.Match[str]) -> InstructionText:
    negated, register, opcode, rest = match.groups()
    operands = operands_of(rest.strip(), calls=opcode in CALLS)
    guard = None if register is None else Name(register, 0, bool(negated))
    text = match.string[match.start(3) : match.end()]
    return InstructionText(match[0], text, guard, opcode, operands)


@lru_cache(maxsize=KEPT)
def statement_of(text: str) -> InstructionText | None:
    """Return the instruction that a text is, up to its semicolon; None if it is none."""
    if not (":" in text and _LABEL.match(text)) and (match := _INSTRUCTION.match(text)):
        with suppress(Refusal):
            return _instruction(match)
    return None


class _Module(Reader):
    """A place in the text of a module, and what was found up to there."""

    end = "the text ends in the middle of something"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._line, self._counted = 1, 0  # the line of a place that was looked at
        self.scope = TextScope()
        self.entries: dict[str, Function] = {}
        self.functions: dict[str, Function] = {}
        self.version: tuple[int, int] | None = None
        self.target = ""

    def here(self) -> int:
        self._line += self.text.count("\n", self._counted, self.place)
        self._counted = self.place
        return self._line

    def listing(self) -> KernelText:
        while self.place < len(self.text):
            self._directive(self.scope)
        if self.version is None or not self.target:
            refuse(
                TrapKind.PARSE, 1, f"the module has no .{'target' if self.version else 'version'}"
            )
        return KernelText(self.version, self.target, self.entries, self.functions, self.scope)

    def _directive(self, scope: TextScope) -> None:
        """Take what a directive of a module or a body declares, or pass over it."""
        line, outside = self.here(), scope is self.scope
        directive = linking = self.need(_DIRECTIVE)[0]
        if directive == ".extern" or (outside and directive in (".visible", ".weak", ".common")):
            directive = self.need(_DIRECTIVE)[0]
        match directive:
            case ".version" if outside:
                dotted = self.need(_DOTTED)
                if len(dotted[0]) > 20:
                    raise Refusal(f"there is no PTX ISA {dotted[0][:20]}…")
                self.version = int(dotted[1]), int(dotted[2])
            case ".target" if outside:
                self.target = self.need(_NAME)[0]
                while self.accept(","):
                    self.need(_NAME)
            case ".address_size" if outside:
                # Without one, ptxas 13.0 and 13.5 have addresses of 64 bits on sm_90, and refuse a
                # text that needs the 32 which are the ISA's default (11.1.3).
                if (size := integer(self.need(_WORD)[0])) != 64:
                    raise Refusal(f"address size {size}; only 64 is run", TrapKind.UNSUPPORTED)
            case ".entry" | ".func" if outside:
                self._function(directive == ".entry")
            case ".section" if outside:
                self.need(_SECTION)
            case ".reg" if not outside:
                kind, parts = self._type()
                if kind == "b128":
                    # It is moved as two of 64 bits, and nothing computes with it (5.2.1).
                    kind, parts = "b64", 2
                self.sequence(lambda: self._register(scope, line, kind, parts), ";")
            case ".shared" | ".local" | ".param" | ".global" | ".const":
                alignment = None
                while (found := self.take(_ALIGN)) or self.take(_ATTRIBUTE):
                    alignment = integer(found[1]) if found else alignment
                space, (kind, parts) = directive[1:], self._type()
                for variable in self.sequence(
                    lambda: self._variable(space, alignment, kind, parts, linking), ";"
                ):
                    old = scope.variables.get(variable.name)
                    # What is declared as `.extern` may be defined afterwards.
                    again = old is not None and outside and not old.size
                    if not again and (old is not None or scope.declares(variable.name)):
                        refuse(TrapKind.PARSE, variable.line, f"{variable.name} is declared twice")
                    scope.variables[variable.name] = variable
            case ".pragma":
                self.need(_TO_SEMICOLON)
            case ".loc" | ".file":  # say nothing about what a program does (11.5, 11.4)
                self.take(_TO_LINE_END)
            case _:
                raise Refusal(f"{directive} is not known here", TrapKind.UNSUPPORTED)

    def _type(self) -> tuple[str, int]:
        match = self.need(_TYPE)
        if match[2] not in TYPE_BITS:
            raise Refusal(f"type .{match[2]} is not known", TrapKind.UNSUPPORTED)
        return match[2], int(match[1][1]) if match[1] else 1

    def _register(self, scope: TextScope, line: int, kind: str, parts: int) -> None:
        name = self.need(_NAME)[0]
        count = integer(self.need(_COUNT)[1]) if self.stands("<") else None
        if scope.declares(name) or name in scope.families:
            refuse(TrapKind.PARSE, line, f"register {name} is declared twice")
        if count is None:
            scope.declare(name, kind, parts)
            return
        if count > _LARGEST_FAMILY:
            said = f"{count} registers are declared at once; up to {_LARGEST_FAMILY} are read"
            refuse(TrapKind.UNSUPPORTED, line, said)
        scope.families[name] = (count, kind, parts)

    def _variable(
        self, space: str, alignment: int | None, kind: str, parts: int, linking: str = ""
    ) -> Variable:
        """Take a variable behind its state space and type."""
        line, name = self.here(), self.need(_NAME)[0]
        if space == "reg":
            return Variable(line, name, space, kind, 1, 0)
        element = size = TYPE_BITS[kind] // 8 * parts
        open_ended = False
        while self.accept("["):
            open_ended |= self.stands("]")
            if not self.stands("]"):
                start, extent = self.place, self.value()
                if not isinstance(extent, ImmediateText) or extent.float_bits or extent.value < 0:
                    said = self.text[start : self.place].strip()
                    raise Refusal(f"{said} is no size of an array")
                size *= extent.value
            self.expect("]")
        if kind == "pred" or self.stands("<"):
            raise Refusal(f"{name} is no variable of memory")
        alignment = element if alignment is None else alignment
        if alignment < 1 or alignment & (alignment - 1):
            raise Refusal(f"alignment {alignment} is no power of two")
        initial = self.initials() if self.accept("=") else ()
        if open_ended:
            # Without an initialiser the launch says how large it is (PTX ISA 5.1.7, extern).
            if not initial and linking != ".extern":
                raise Refusal(f"{name} has no size")
            size *= -(-len(initial) * (element // parts) // size)
        elif linking == ".extern" and space == "shared":
            size = 0
        return Variable(line, name, space, kind, alignment, size, initial)

    def _parameters(self) -> tuple[Variable, ...]:
        """Take formal parameters, if there are any, in parentheses."""
        if not self.accept("(") or self.accept(")"):
            return ()
        return self.sequence(self._parameter, ")")

    def _parameter(self) -> Variable:
        space = self.need(_DIRECTIVE)[0][1:]
        if space == "hidden":
            # Descriptors of tensors that a host passes (nvcc 13.1; no page has it).
            space = self.need(_DIRECTIVE)[0][1:]
        if space not in ("param", "reg"):
            raise Refusal(f".{space} is no space of a parameter")
        match = self.take(_ALIGN)
        alignment = None if match is None else integer(match[1])
        kind, parts = self._type()
        self.take(_POINTER)
        return self._variable(space, alignment, kind, parts)

    def _function(self, is_entry: bool) -> None:
        results = () if is_entry else self._parameters()
        line, name = self.here(), self.need(_NAME)[0]
        parameters = self._parameters()
        while self.take(_PERFORMANCE):
            pass
        body: tuple[InstructionText, ...] | None = None
        scopes: list[TextScope] = []
        if not self.accept(";"):
            self.expect("{")
            body = tuple(self._body((*results, *parameters), scopes))
        known = self.entries if is_entry else self.functions
        old = known.get(name)
        if old is not None and old.body is not None and body is not None:
            refuse(TrapKind.PARSE, line, f"{name} is defined twice")
        if (old is None or old.body is None) and not (is_entry and body is None):
            known[name] = Function(name, is_entry, results, parameters, body, tuple(scopes))

    def _body(
        self, formals: tuple[Variable, ...], scopes: list[TextScope]
    ) -> list[InstructionText]:
        """Take a body behind its brace; its scopes are added, the outermost first."""
        scope = TextScope(self.scope)
        scopes.append(scope)
        for formal in formals:
            if scope.declares(formal.name):
                refuse(TrapKind.PARSE, formal.line, f"{formal.name} is declared twice")
            if formal.space == "reg":
                scope.declare(formal.name, formal.type)
            else:
                scope.variables[formal.name] = formal
        around = [scope]
        body: list[InstructionText] = []
        while around:
            scope = around[-1]
            if not self.stands("{}"):
                self._statement(scope, body)
            elif self.accept("}"):
                around.pop()
            else:
                self.expect("{")
                if len(around) >= _MOST_SCOPES:
                    raise Refusal("braces are too deep", TrapKind.UNSUPPORTED)
                labels, targets = scope.labels.new_child(), scope.targets.new_child()
                around.append(TextScope(scope, len(scopes), labels=labels, targets=targets))
                scopes.append(around[-1])
        return body

    def _statement(self, scope: TextScope, body: list[InstructionText]) -> None:
        text = self.text
        if text.startswith(".", self.place):
            self._directive(scope)
            return
        # Most instructions stand in other programs, too.
        found = statement_of(text[self.place : text.find(";", self.place) + 1])
        if found is None:
            if label := self.take(_LABEL):
                self._label(scope, label, len(body))
                return
            match = _INSTRUCTION.match(text, self.place) or self.unexpected()
            try:
                found = _instruction(match)
            except Refusal:
                self.place = match.start(3)
                raise
        end = self.place + len(found.whole)
        # A guard may stand in the line before its instruction, and lines are those of opcodes.
        self.place = end - len(found.text)
        body.append(InstructionText(*found[:5], self.here(), scope))
        self.place = end
        self.skip()

    def _label(self, scope: TextScope, match: re.Match[str], index: int) -> None:
        name = match[1]
        if match[2] in (".branchtargets", ".calltargets"):
            given = () if self.accept(";") else self.sequence(self.operand, ";")
            parts = given[0].parts if given and isinstance(given[0], VectorText) else given
            scope.targets[name] = tuple(part.text for part in parts if isinstance(part, Name))
        elif match[2] is not None:
            self.need(_TO_SEMICOLON)
        elif name in scope.labels.maps[0]:
            raise Refusal(f"label {name} stands twice")
        else:
            scope.labels[name] = index


def _without(comment: re.Match[str]) -> str:
    """Return what stands in place of a comment: as many lines; strings stay."""
    text = comment[0]
    return text if text.startswith('"') else "\n" * text.count("\n") or " "


@lru_cache(maxsize=_KEPT_MODULES)
def parse(text: str) -> KernelText:
    """Parse a PTX module; the last ones are kept, so that the same text is parsed once.

    Raises `SimulatedTrap` with the line: of kind `PARSE` where the text is no PTX, `UNSUPPORTED`
    where it is PTX of a kind that is not read.
    """
    module = _Module(_COMMENT.sub(_without, text))
    try:
        return module.listing()
    except Refusal as error:
        refuse(error.kind, module.here(), str(error))
