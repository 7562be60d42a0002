"""The faults that sit in the text: what a compiler, an assembler or a pass gets wrong."""

import re
from dataclasses import dataclass

from runners.faults import rewriters as rw
from runners.faults.fault import Fault
from runners.faults.rewriters import Rewriter, rewriter, with_scratch
from runners.faults.statements import Edit

_ELEMENTWISE = (
    r"^(?:(?:add|sub|mul|fma)(?:\.r[nzmp])?\.(?:f16x2|bf16x2|f32|f64)|neg\.s32|mul\.lo\.s32|add\.s32"
    r"|(?:xor|and|or|not)\.b(?:32|64)|(?:neg|abs)\.(?:f16x2|bf16x2|f32|f64))$"
)
_STORE = r"^wmma\.store\.d"
_MMA = r"^wmma\.mma"
_MMA_SYNC = r"^mma\.sync"


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A fault of the text, before its rewriter is put together."""

    name: str
    meaning: str
    stands_for: str
    pattern: str
    edit: Edit | None = None
    """Applied to every statement whose opcode the pattern finds."""
    scratch: bool = False
    """Whether the edit uses registers of its own."""
    guilty: tuple[str, ...] = ()
    """As in Fault."""
    whole: Rewriter | None = None
    """Applied to the whole text where an edit of single statements does not do."""
    rare: bool = False

    def fault(self) -> Fault:
        rewrite = self.whole
        if self.edit is not None:
            rewrite = (with_scratch if self.scratch else rewriter)(self.pattern, self.edit)
        return Fault(
            name=self.name,
            meaning=self.meaning,
            stands_for=self.stands_for,
            opcodes=re.compile(self.pattern),
            guilty=self.guilty,
            rewriter=rewrite,
            rare=self.rare,
        )


def _load(role: str, *, wide: bool = False) -> str:
    """Return the pattern of wmma.load of a matrix, of elements with 8 bits or more if `wide`."""
    types = r".*\.(?:f16|bf16|tf32|f32|f64|s8|u8|s32)$" if wide else ""
    return rf"^wmma\.load\.{role}\.{types}"


_LAYOUTS = (
    _Row(
        name="load-a-layout-flipped",
        meaning="wmma.load.a reads a row-major matrix as column-major, and the other way",
        stands_for="a layout lost between front end and instruction selection",
        pattern=_load("a", wide=True),
        edit=rw.layout_flipped(),
    ),
    _Row(
        name="load-b-layout-flipped",
        meaning="wmma.load.b reads a row-major matrix as column-major, and the other way",
        stands_for="A's and B's notions of transposed confused",
        pattern=_load("b", wide=True),
        edit=rw.layout_flipped(),
    ),
    _Row(
        name="load-c-layout-flipped",
        meaning="wmma.load.c reads a row-major matrix as column-major, and the other way",
        stands_for="a default layout where the qualifier should count",
        pattern=_load("c"),
        edit=rw.layout_flipped(),
    ),
    _Row(
        name="store-layout-flipped",
        meaning="wmma.store.d writes the transposed matrix",
        stands_for="a default layout where the qualifier should count",
        pattern=_STORE,
        edit=rw.layout_flipped(),
    ),
    _Row(
        name="mma-a-layout-flipped",
        meaning="wmma.mma takes A's fragment for one of the other layout",
        stands_for="a wrong expansion chosen for a layout combination",
        pattern=r"^wmma\.mma.*\.(?:f16|f32|f64|s8|u8|bf16|tf32)(?:\.s32|\.f32|\.f64)?(?:\.satfinite)?$",
        edit=rw.layout_flipped(0),
    ),
    _Row(
        name="mma-b-layout-flipped",
        meaning="wmma.mma takes B's fragment for one of the other layout",
        stands_for="a wrong expansion chosen for a layout combination",
        pattern=r"^wmma\.mma.*\.(?:f16|f32|f64|s8|u8|bf16|tf32)(?:\.s32|\.f32|\.f64)?(?:\.satfinite)?$",
        edit=rw.layout_flipped(1),
    ),
)

_ADDRESSES = (
    _Row(
        name="load-a-stride-longer",
        meaning="wmma.load.a steps too far from row to row, by as little as the hardware takes",
        stands_for="an off-by-one in stride scaling",
        pattern=_load("a"),
        edit=rw.stride_moved(1),
        scratch=True,
    ),
    _Row(
        name="load-b-stride-shorter",
        meaning="wmma.load.b steps too little from row to row, by as little as the hardware takes",
        stands_for="an off-by-one in stride scaling",
        pattern=_load("b"),
        edit=rw.stride_moved(-1),
        scratch=True,
    ),
    _Row(
        name="load-c-stride-longer",
        meaning="wmma.load.c steps an element too far from row to row",
        stands_for="an off-by-one in stride scaling",
        pattern=_load("c"),
        edit=rw.stride_moved(1),
        scratch=True,
    ),
    _Row(
        name="store-stride-shorter",
        meaning="wmma.store.d steps an element too little from row to row",
        stands_for="an off-by-one in stride scaling",
        pattern=_STORE,
        edit=rw.stride_moved(-1),
        scratch=True,
    ),
    _Row(
        name="load-stride-ignored",
        meaning="wmma.load uses the default stride whatever is given",
        stands_for="an operand dropped where it looks like a default",
        pattern=r"^wmma\.load",
        edit=rw.stride_dropped,
    ),
    _Row(
        name="store-stride-ignored",
        meaning="wmma.store uses the default stride whatever is given",
        stands_for="an operand dropped where it looks like a default",
        pattern=_STORE,
        edit=rw.stride_dropped,
    ),
    _Row(
        name="load-a-offset",
        meaning="wmma.load.a starts one word too late",
        stands_for="an immediate offset folded wrongly",
        pattern=_load("a"),
        edit=rw.address_moved(1),
    ),
    _Row(
        name="load-b-offset",
        meaning="wmma.load.b starts one word too late",
        stands_for="an immediate offset folded wrongly",
        pattern=_load("b"),
        edit=rw.address_moved(1),
    ),
    _Row(
        name="load-c-offset",
        meaning="wmma.load.c starts one word too late",
        stands_for="an immediate offset folded wrongly",
        pattern=_load("c"),
        edit=rw.address_moved(1),
    ),
    _Row(
        name="store-offset",
        meaning="wmma.store.d starts one word too late",
        stands_for="an immediate offset folded wrongly",
        pattern=_STORE,
        edit=rw.address_moved(0),
    ),
    _Row(
        name="store-one-row-off",
        meaning="wmma.store.d writes every row to the place of the next",
        stands_for="a loop over rows that starts at 1",
        pattern=_STORE,
        edit=rw.stored_one_row_off,
        scratch=True,
    ),
    _Row(
        name="load-b-from-a",
        meaning="wmma.load.b reads where the first wmma.load.a read",
        stands_for="a base register that was not reloaded",
        pattern=_load("b"),
        whole=rw.by_entry(rw.second_load_reads_first),
    ),
    _Row(
        name="copy-vector-end",
        meaning="a vector store repeats its last but one register in the last one's place",
        stands_for="a register tuple allotted one too short",
        guilty=("storing registers",),
        pattern=r"^st\..*\.v[24]\.",
        edit=rw.vector_end_repeated,
    ),
    _Row(
        name="store-missing",
        meaning="wmma.store.d is left out",
        stands_for="a store taken for dead",
        pattern=_STORE,
        edit=rw.removed,
    ),
)

_REGISTERS = (
    _Row(
        name="mma-a-register-slip",
        meaning="wmma.mma reads A's first register where the second belongs",
        stands_for="an operand register allotted wrongly",
        pattern=_MMA,
        edit=rw.register_repeated(1),
    ),
    _Row(
        name="mma-b-register-slip",
        meaning="wmma.mma reads B's first register where the second belongs",
        stands_for="an operand register allotted wrongly",
        pattern=_MMA,
        edit=rw.register_repeated(2),
    ),
    _Row(
        name="mma-c-register-slip",
        meaning="wmma.mma reads C's first register where the second belongs",
        stands_for="an operand register allotted wrongly",
        pattern=_MMA,
        edit=rw.register_repeated(3),
    ),
    _Row(
        name="mma-d-registers-rotated",
        meaning="wmma.mma writes D's registers one place on",
        stands_for="a register tuple with the wrong base",
        pattern=_MMA,
        edit=rw.registers_rotated(0),
    ),
    _Row(
        name="load-a-registers-rotated",
        meaning="wmma.load.a writes its registers one place on",
        stands_for="a register tuple with the wrong base",
        pattern=_load("a"),
        edit=rw.registers_rotated(0),
    ),
    _Row(
        name="store-register-slip",
        meaning="wmma.store.d reads the first register where the second belongs",
        stands_for="a spilled register restored from the wrong slot",
        pattern=_STORE,
        edit=rw.register_repeated(1),
    ),
    _Row(
        name="multiplicands-exchanged",
        meaning="wmma.mma reads B for A and A for B",
        stands_for="roles exchanged for a shape that is computed transposed, and not back",
        pattern=_MMA,
        edit=rw.multiplicands_exchanged,
    ),
    _Row(
        name="accumulator-ignored",
        meaning="wmma.mma reads zero for C",
        stands_for="a zero register where the accumulator belongs",
        pattern=_MMA,
        edit=rw.accumulator_ignored,
        scratch=True,
    ),
    _Row(
        name="multiplication-lost",
        meaning="D is a copy of C",
        stands_for="an instruction taken for dead or hoisted out of reach",
        pattern=_MMA,
        edit=rw.multiplication_lost,
    ),
    _Row(
        name="multiplication-doubled",
        meaning="the product is added twice",
        stands_for="an unrolled step that is executed once more",
        pattern=_MMA,
        edit=rw.multiplication_doubled,
    ),
)

_SHARED = (
    _Row(
        name="mma-written-before-read",
        meaning="wmma.mma writes half of D before it has read what its other half needs",
        stands_for="an expansion into two instructions that overlooks shared registers",
        pattern=_MMA,
        edit=rw.written_before_read,
        scratch=True,
    ),
    _Row(
        name="lanes-written-before-read",
        meaning="mma.sync writes half of D before it has read what its other half needs",
        stands_for="an expansion into two instructions that overlooks shared registers",
        pattern=_MMA_SYNC,
        edit=rw.written_before_read,
        scratch=True,
    ),
)

_QUALIFIERS = (
    _Row(
        name="satfinite-dropped",
        meaning="integer wmma.mma wraps where it should clamp",
        stands_for="a modifier lost in an emulated expansion",
        pattern=r"^wmma\.mma.*\.satfinite$",
        edit=rw.opcode_changed(r"\.satfinite$", ""),
    ),
    _Row(
        name="satfinite-added",
        meaning="integer wmma.mma clamps where it should wrap",
        stands_for="a modifier that is always set",
        pattern=r"^wmma\.mma.*\.(?:[su][48])\.s32$",
        edit=rw.opcode_changed(r"$", ".satfinite"),
    ),
    _Row(
        name="rounding-dropped",
        meaning="f64 wmma.mma rounds to nearest whatever is given",
        stands_for="a rounding modifier lost",
        pattern=r"^wmma\.mma.*\.r[zmp]\.f64",
        edit=rw.opcode_changed(r"\.r[zmp]\.f64\.", ".f64."),
    ),
    _Row(
        name="rounding-turned-round",
        meaning="f64 wmma.mma rounds down for up and up for down",
        stands_for="rounding modes encoded in the wrong order",
        pattern=r"^wmma\.mma.*\.r[mp]\.f64",
        edit=rw.rounding_turned_round,
    ),
    _Row(
        name="rounding-to-zero",
        meaning="f64 wmma.mma rounds to zero where it should round to nearest",
        stands_for="a wrong default for a rounding mode",
        pattern=r"^wmma\.mma.*\d(?:\.rn)?\.f64\.f64\.f64\.f64$",
        edit=rw.opcode_changed(r"(?:\.rn)?\.f64\.f64\.f64\.f64$", ".rz.f64.f64.f64.f64"),
    ),
    _Row(
        name="s8-as-u8",
        meaning="s8 multiplicands are taken for u8",
        stands_for="signedness lost in an operand's type",
        pattern=r"^wmma\.(?:mma|load).*\.s8\b",
        edit=rw.opcode_changed(r"\.s8\b", ".u8"),
    ),
    _Row(
        name="u8-as-s8",
        meaning="u8 multiplicands are taken for s8",
        stands_for="signedness lost in an operand's type",
        pattern=r"^wmma\.(?:mma|load).*\.u8\b",
        edit=rw.opcode_changed(r"\.u8\b", ".s8"),
    ),
    _Row(
        name="s4-as-u4",
        meaning="s4 multiplicands are taken for u4",
        stands_for="signedness lost in an emulated type",
        pattern=r"^wmma\.(?:mma|load).*\.s4\b",
        edit=rw.opcode_changed(r"\.s4\b", ".u4"),
    ),
    _Row(
        name="u4-as-s4",
        meaning="u4 multiplicands are taken for s4",
        stands_for="signedness lost in an emulated type",
        pattern=r"^wmma\.(?:mma|load).*\.u4\b",
        edit=rw.opcode_changed(r"\.u4\b", ".s4"),
    ),
    _Row(
        name="xor-as-and",
        meaning="single-bit wmma.mma counts the bits of AND for XOR",
        stands_for="a logical operation encoded wrongly",
        pattern=r"^wmma\.mma\.xor",
        edit=rw.opcode_changed(r"\.xor\b", ".and"),
    ),
    _Row(
        name="and-as-xor",
        meaning="single-bit wmma.mma counts the bits of XOR for AND",
        stands_for="a logical operation encoded wrongly",
        pattern=r"^wmma\.mma\.and",
        edit=rw.opcode_changed(r"\.and\b", ".xor"),
    ),
)

_ROWS_OF_SHARED = (
    _Row(
        name="trans-lost",
        meaning="ldmatrix does not transpose",
        stands_for="a modifier lost",
        pattern=r"^ldmatrix.*\.m8n8.*\.trans",
        edit=rw.opcode_changed(r"\.trans", ""),
    ),
    _Row(
        name="trans-added",
        meaning="ldmatrix transposes where it should not",
        stands_for="a modifier that is always set",
        pattern=r"^ldmatrix.*\.m8n8\.x\d(?!\.trans)",
        edit=rw.opcode_changed(r"(\.x[124])", r"\1.trans"),
    ),
    _Row(
        name="lane-pointers-exchanged",
        meaning="ldmatrix takes the row addresses of lanes 2 i and 2 i + 1 for each other's",
        stands_for="addresses shuffled between lanes wrongly",
        pattern=r"^ldmatrix",
        edit=rw.lanes_exchanged,
        scratch=True,
    ),
    _Row(
        name="ldmatrix-registers-rotated",
        meaning="ldmatrix writes its registers one place on",
        stands_for="a register tuple with the wrong base",
        pattern=r"^ldmatrix",
        edit=rw.registers_rotated(0),
    ),
    _Row(
        name="ldmatrix-offset",
        meaning="ldmatrix reads 16 bytes behind every row's address",
        stands_for="an immediate offset folded wrongly",
        pattern=r"^ldmatrix",
        edit=rw.address_moved(1, 16),
    ),
    _Row(
        name="b6-as-b4",
        meaning="ldmatrix unpacks 6-bit elements as 4-bit ones",
        stands_for="a source format encoded wrongly",
        pattern=r"^ldmatrix.*b6x16_p32",
        edit=rw.opcode_changed(r"b6x16_p32", "b4x16_p64"),
    ),
    _Row(
        name="b4-as-b6",
        meaning="ldmatrix unpacks 4-bit elements as 6-bit ones",
        stands_for="a source format encoded wrongly",
        pattern=r"^ldmatrix.*b4x16_p64",
        edit=rw.opcode_changed(r"b4x16_p64", "b6x16_p32"),
    ),
)

_ELSE = (
    _Row(
        name="elementwise-register-missed",
        meaning="an element-wise operation leaves out its fragment's first register",
        stands_for="a vectorised loop that starts at 1",
        guilty=("element-wise operation",),
        pattern=_ELEMENTWISE,
        edit=rw.first_register_missed,
    ),
    _Row(
        name="elementwise-subtracts",
        meaning="an element-wise floating-point addition subtracts",
        stands_for="a sign folded into the wrong operand",
        guilty=("element-wise operation",),
        pattern=r"^add\.rn\.(?:f16x2|bf16x2|f32|f64)$",
        edit=rw.opcode_changed(r"^add", "sub"),
    ),
    _Row(
        name="elementwise-truncates",
        meaning="element-wise f32 and f64 operations round to zero",
        stands_for="a rounding mode left over from another instruction",
        guilty=("element-wise operation",),
        pattern=r"^(?:add|sub|mul|fma)\.rn\.(?:f32|f64)$",
        edit=rw.opcode_changed(r"\.rn\.", ".rz."),
    ),
    _Row(
        name="elementwise-complements",
        meaning="an element-wise integer negation only inverts the bits",
        stands_for="the carry of a negation lost",
        guilty=("element-wise operation",),
        pattern=r"^neg\.s32$",
        edit=rw.opcode_changed(r"^neg\.s32$", "not.b32"),
    ),
    _Row(
        name="branch-inverted",
        meaning="a branch on a value that is zero is taken where it is not",
        stands_for="a condition inverted once too often",
        guilty=("branch or loop",),
        pattern=r"^bra",
        whole=rw.by_entry(rw.branch_inverted),
    ),
    _Row(
        name="loop-one-short",
        meaning="a loop that counts down ends one turn early",
        stands_for="a trip count computed wrongly by an unroller",
        guilty=("branch or loop",),
        pattern=r"^setp\.(?:eq|ne)\.u32$",
        whole=rw.by_entry(rw.loop_one_short),
    ),
)

# They ask for `%smid`, so that a GPU has them, too: one that exists on every GPU, and on the
# simulated device.
_MULTIPROCESSOR = (
    _Row(
        name="one-multiprocessor-in-1000",
        meaning="on multiprocessor 57, one wmma.mma in 1,000 gives a wrong lowest bit",
        stands_for="one bad multiprocessor, often wrong",
        pattern=_MMA,
        edit=rw.bit_flipped_on(57, one_in=1_000),
        scratch=True,
        rare=True,
    ),
    _Row(
        name="one-multiprocessor-in-million",
        meaning="on multiprocessor 57, one wmma.mma in 10^6 gives a wrong lowest bit",
        stands_for="one bad multiprocessor, rarely wrong",
        pattern=_MMA,
        edit=rw.bit_flipped_on(57, one_in=10**6),
        scratch=True,
        rare=True,
    ),
    _Row(
        name="one-multiprocessor-in-100-million",
        meaning="on multiprocessor 57, one wmma.mma in 10^8 gives a wrong lowest bit",
        stands_for="silent data corruption that only a long screening finds",
        pattern=_MMA,
        edit=rw.bit_flipped_on(57, one_in=10**8),
        scratch=True,
        rare=True,
    ),
    _Row(
        name="full-multiprocessor-in-10000",
        meaning="multiprocessor 57: one wmma.mma in 10^4 of warp slots from 16 on has a wrong bit",
        stands_for="a fault that needs load: those slots are used when it is busy",
        pattern=_MMA,
        edit=rw.bit_flipped_on(57, one_in=10**4, least_slot=16),
        scratch=True,
        rare=True,
    ),
)

_LANES = (
    _Row(
        name="lanes-a-register-slip",
        meaning="mma.sync reads A's first register where the second belongs",
        stands_for="an operand register allotted wrongly",
        pattern=_MMA_SYNC,
        edit=rw.register_repeated(1),
    ),
    _Row(
        name="lanes-b-register-slip",
        meaning="mma.sync reads B's first register where the second belongs",
        stands_for="an operand register allotted wrongly",
        pattern=_MMA_SYNC,
        edit=rw.register_repeated(2),
    ),
    _Row(
        name="lanes-d-registers-rotated",
        meaning="mma.sync writes D's registers one place on",
        stands_for="a register tuple with the wrong base",
        pattern=_MMA_SYNC,
        edit=rw.registers_rotated(0),
    ),
    _Row(
        name="stmatrix-trans-lost",
        meaning="stmatrix does not transpose",
        stands_for="a modifier lost",
        pattern=r"^stmatrix.*\.trans",
        edit=rw.opcode_changed(r"\.trans", ""),
    ),
    _Row(
        name="movmatrix-lost",
        meaning="movmatrix is a plain move",
        stands_for="a shuffle taken for a copy",
        pattern=r"^movmatrix",
        edit=rw.opcode_changed(r"^movmatrix.*", "mov.b32"),
    ),
    _Row(
        name="packed-halves-exchanged",
        meaning="cvt puts the first of two f32 numbers into the low half",
        stands_for="two operands in the order of another instruction",
        guilty=("packing",),
        pattern=r"^cvt\.rn\.b?f16x2\.f32",
        edit=rw.sources_exchanged,
    ),
)

COMPILER_FAULTS: tuple[Fault, ...] = tuple(
    row.fault()
    for row in (
        *_LAYOUTS, *_ADDRESSES, *_REGISTERS, *_SHARED, *_QUALIFIERS, *_ROWS_OF_SHARED, *_ELSE,
        *_LANES, *_MULTIPROCESSOR,
    )
)  # fmt: skip
"""Every fault that is planted by rewriting PTX."""
