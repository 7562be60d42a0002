"""Element formats of the matrix instructions (PTX ISA 9.7.14.4.1, 9.7.14.5.14 and .15), as data."""

from dataclasses import dataclass
from enum import StrEnum

from oracle.errors import UsageError


class FormatKind(StrEnum):
    """What the bits of an element mean."""

    FLOAT = "float"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    BITS = "bits"


@dataclass(frozen=True, kw_only=True)
class Format:
    """One element format; floats are IEEE 754-like.

    e4m3 has no infinity, and one NaN of each sign (S.1111.111).
    """

    name: str
    """Spelling of the type qualifier, without the dot."""
    kind: FormatKind
    bits: int
    """Of one element in memory (tf32 occupies a 32-bit word)."""
    exponent_bits: int = 0
    fraction_bits: int = 0
    """Width of the stored fraction that takes part in arithmetic; 0 unless a float."""
    raw: str
    """NumPy dtype that holds one element's raw bit pattern at the Python interface."""

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def is_float(self) -> bool:
        """Whether the format is a floating-point format."""
        return self.kind is FormatKind.FLOAT

    @property
    def bias(self) -> int:
        """Exponent bias of a float: 2^(exponent_bits - 1) - 1 (IEEE 754-2019, 3.3)."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def has_infinity(self) -> bool:
        """Whether a float has infinities; else its largest exponent has numbers and one NaN."""
        return self.name != "e4m3"

    @property
    def infinity(self) -> int:
        """Pattern of an exponent field of ones: of infinity, where there is one."""
        return ((1 << self.exponent_bits) - 1) << (self.bits - 1 - self.exponent_bits)

    @property
    def magnitude(self) -> int:
        """Pattern of all bits but the sign."""
        return (1 << (self.bits - 1)) - 1

    @property
    def largest(self) -> float:
        """Greatest finite number of a float (of 8 bits: OCP 8-bit Floating Point 1.0, table 1)."""
        if self.has_infinity:
            return (2.0 - 2.0**-self.fraction_bits) * 2.0**self.bias
        return (2.0 - 2.0 ** (1 - self.fraction_bits)) * 2.0 ** (self.bias + 1)

    @property
    def ignored_bits(self) -> int:
        """Low-order bits of the word that the arithmetic ignores: 13 for tf32, else 0."""
        if not self.is_float:
            return 0
        return self.bits - 1 - self.exponent_bits - self.fraction_bits


# The interface dtypes are the contract of design.md; s4 and u4 travel one value per byte.
_ROWS = (
    Format(
        name="f16", kind=FormatKind.FLOAT, bits=16, exponent_bits=5, fraction_bits=10, raw="uint16"
    ),
    Format(
        name="bf16", kind=FormatKind.FLOAT, bits=16, exponent_bits=8, fraction_bits=7, raw="uint16"
    ),
    Format(
        name="tf32", kind=FormatKind.FLOAT, bits=32, exponent_bits=8, fraction_bits=10, raw="uint32"
    ),
    Format(
        name="f32", kind=FormatKind.FLOAT, bits=32, exponent_bits=8, fraction_bits=23, raw="uint32"
    ),
    Format(
        name="f64", kind=FormatKind.FLOAT, bits=64, exponent_bits=11, fraction_bits=52, raw="uint64"
    ),
    Format(
        name="e4m3", kind=FormatKind.FLOAT, bits=8, exponent_bits=4, fraction_bits=3, raw="uint8"
    ),
    Format(
        name="e5m2", kind=FormatKind.FLOAT, bits=8, exponent_bits=5, fraction_bits=2, raw="uint8"
    ),
    Format(name="s8", kind=FormatKind.SIGNED, bits=8, raw="int8"),
    Format(name="u8", kind=FormatKind.UNSIGNED, bits=8, raw="uint8"),
    Format(name="s4", kind=FormatKind.SIGNED, bits=4, raw="int8"),
    Format(name="u4", kind=FormatKind.UNSIGNED, bits=4, raw="uint8"),
    Format(name="b1", kind=FormatKind.BITS, bits=1, raw="uint8"),
    Format(name="s32", kind=FormatKind.SIGNED, bits=32, raw="int32"),
)

FORMATS: dict[str, Format] = {row.name: row for row in _ROWS}


def format_named(name: str) -> Format:
    """Return the format with this name; UsageError lists those that exist."""
    try:
        return FORMATS[name]
    except KeyError:
        raise UsageError(
            f"no element format is called {name!r}; there are {', '.join(FORMATS)}"
        ) from None
