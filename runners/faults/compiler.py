"""Faults in the PTX text: bugs of a compiler, an assembler or a pass."""

from functools import partial

from runners.faults import group_rewriters as groups
from runners.faults import rewriters as rw
from runners.faults.rewriters import Fault
from runners.faults.rewriters import text as _text
from runners.faults.rewriters import whole as _whole

_ELEMENTWISE = (
    r"^(?:(?:add|sub|mul|fma)(?:\.r[nzmp])?\.(?:f16x2|bf16x2|f32|f64)|neg\.s32|mul\.lo\.s32|add\.s32"
    r"|(?:xor|and|or|not)\.b(?:32|64)|(?:neg|abs)\.(?:f16x2|bf16x2|f32|f64))$"
)
_STORE = r"^wmma\.store\.d"
_MMA = r"^wmma\.mma"
_LAYOUT_OF_MMA = (
    r"^wmma\.mma.*\.(?:f16|f32|f64|s8|u8|bf16|tf32)(?:\.s32|\.f32|\.f64)?(?:\.satfinite)?$"
)
_MMA_SYNC = r"^mma\.sync"


def _load(role: str, *, wide: bool = False) -> str:
    """Return the pattern of wmma.load of a matrix, of elements with 8 bits or more if `wide`."""
    types = r".*\.(?:f16|bf16|tf32|f32|f64|s8|u8|s32)$" if wide else ""
    return rf"^wmma\.load\.{role}\.{types}"


_LAYOUTS = (
    *(_text(f"load-{matrix}-layout-flipped", _load(matrix, wide=True), rw.layout_flipped(),
            f"wmma.load.{matrix} reads a row-major matrix as column-major, and the other way")
      for matrix in "ab"),
    _text("load-c-layout-flipped", _load("c"), rw.layout_flipped(),
          "wmma.load.c reads a row-major matrix as column-major, and the other way"),
    _text("store-layout-flipped", _STORE, rw.layout_flipped(),
          "wmma.store.d writes the transposed matrix"),
    *(_text(f"mma-{matrix}-layout-flipped", _LAYOUT_OF_MMA, rw.layout_flipped(index),
            f"wmma.mma takes {matrix.upper()}'s fragment for one of the other layout")
      for index, matrix in enumerate("ab")),
)  # fmt: skip

_ADDRESSES = (
    _text("load-a-stride-longer", _load("a"), rw.stride_moved(1),
          "wmma.load.a steps too far from row to row, by as little as the hardware takes"),
    _text("load-b-stride-shorter", _load("b"), rw.stride_moved(-1),
          "wmma.load.b steps too little from row to row, by as little as the hardware takes"),
    _text("load-c-stride-longer", _load("c"), rw.stride_moved(1),
          "wmma.load.c steps an element too far from row to row"),
    _text("store-stride-shorter", _STORE, rw.stride_moved(-1),
          "wmma.store.d steps an element too little from row to row"),
    _text("load-stride-ignored", r"^wmma\.load", rw.stride_dropped,
          "wmma.load uses the default stride whatever is given"),
    _text("store-stride-ignored", _STORE, rw.stride_dropped,
          "wmma.store uses the default stride whatever is given"),
    *(_text(f"load-{matrix}-offset", _load(matrix), rw.address_moved(1),
            f"wmma.load.{matrix} starts one word too late")
      for matrix in "abc"),
    _text("store-offset", _STORE, rw.address_moved(0), "wmma.store.d starts one word too late"),
    _text("store-one-row-off", _STORE, rw.stored_one_row_off,
          "wmma.store.d writes every row to the place of the next"),
    _whole("load-b-from-a", _load("b"), rw.second_load_reads_first,
           "wmma.load.b reads where the first wmma.load.a read"),
    _text("copy-vector-end", r"^st\..*\.v[24]\.", rw.vector_end_repeated(1),
          "a vector store repeats its last but one register in the last one's place",
          guilty=("storing registers",)),
    _text("store-missing", _STORE, lambda store: f"// {store.opcode} is missing",
          "wmma.store.d is left out"),
)  # fmt: skip

_REGISTERS = (
    *(_text(f"mma-{matrix}-register-slip", _MMA, rw.register_repeated(index),
            f"wmma.mma reads {matrix.upper()}'s first register where the second belongs")
      for index, matrix in enumerate("abc", 1)),
    _text("mma-d-registers-rotated", _MMA, rw.registers_rotated(0),
          "wmma.mma writes D's registers one place on"),
    _text("load-a-registers-rotated", _load("a"), rw.registers_rotated(0),
          "wmma.load.a writes its registers one place on"),
    _text("store-register-slip", _STORE, rw.register_repeated(1),
          "wmma.store.d reads the first register where the second belongs"),
    _text("multiplicands-exchanged", _MMA, rw.multiplicands_exchanged,
          "wmma.mma reads B for A and A for B"),
    _text("accumulator-ignored", _MMA, rw.accumulator_ignored, "wmma.mma reads zero for C"),
    _text("multiplication-lost", _MMA, rw.multiplication_lost, "D is a copy of C"),
    _text("multiplication-doubled", _MMA, rw.multiplication_doubled, "the product is added twice"),
)  # fmt: skip

_SHARED = (
    *(_text(f"{name}-written-before-read", pattern, rw.written_before_read,
            f"{opcode} writes half of D before it has read what its other half needs")
      for name, pattern, opcode in (("mma", _MMA, "wmma.mma"), ("lanes", _MMA_SYNC, "mma.sync"))),
)  # fmt: skip

_QUALIFIERS = (
    _text("satfinite-dropped", r"^wmma\.mma.*\.satfinite$", rw.opcode_changed(r"\.satfinite$", ""),
          "integer wmma.mma wraps where it should clamp"),
    _text("satfinite-added", r"^wmma\.mma.*\.(?:[su][48])\.s32$",
          rw.opcode_changed(r"$", ".satfinite"), "integer wmma.mma clamps where it should wrap"),
    _text("rounding-dropped", r"^wmma\.mma.*\.r[zmp]\.f64",
          rw.opcode_changed(r"\.r[zmp]\.f64\.", ".f64."),
          "f64 wmma.mma rounds to nearest whatever is given"),
    _text("rounding-turned-round", r"^wmma\.mma.*\.r[mp]\.f64",
          rw.opcode_changed(r"(?<=\.r)[mp]\b", lambda found: {"m": "p", "p": "m"}[found[0]]),
          "f64 wmma.mma rounds down for up and up for down"),
    _text("rounding-to-zero", r"^wmma\.mma.*\d(?:\.rn)?\.f64\.f64\.f64\.f64$",
          rw.opcode_changed(r"(?:\.rn)?\.f64\.f64\.f64\.f64$", ".rz.f64.f64.f64.f64"),
          "f64 wmma.mma rounds to zero where it should round to nearest"),
    *(_text(f"{one}-as-{other}", rf"^wmma\.(?:mma|load).*\.{one}\b",
            rw.opcode_changed(rf"\.{one}\b", f".{other}"),
            f"{one} multiplicands are taken for {other}")
      for bits in (8, 4)
      for one, other in ((f"s{bits}", f"u{bits}"), (f"u{bits}", f"s{bits}"))),
    _text("xor-as-and", r"^wmma\.mma\.xor", rw.opcode_changed(r"\.xor\b", ".and"),
          "single-bit wmma.mma counts the bits of AND for XOR"),
    _text("and-as-xor", r"^wmma\.mma\.and", rw.opcode_changed(r"\.and\b", ".xor"),
          "single-bit wmma.mma counts the bits of XOR for AND"),
)  # fmt: skip

_ROWS_OF_SHARED = (
    _text("trans-lost", r"^ldmatrix.*\.m8n8.*\.trans", rw.opcode_changed(r"\.trans", ""),
          "ldmatrix does not transpose"),
    _text("trans-added", r"^ldmatrix.*\.m8n8\.x\d(?!\.trans)",
          rw.opcode_changed(r"(\.x[124])", r"\1.trans"), "ldmatrix transposes where it should not"),
    _text("lane-pointers-exchanged", r"^ldmatrix", rw.lanes_exchanged,
          "ldmatrix takes the row addresses of lanes 2 i and 2 i + 1 for each other's"),
    _text("ldmatrix-registers-rotated", r"^ldmatrix", rw.registers_rotated(0),
          "ldmatrix writes its registers one place on"),
    _text("ldmatrix-offset", r"^ldmatrix", rw.address_moved(1, 16),
          "ldmatrix reads 16 bytes behind every row's address"),
    _text("b6-as-b4", r"^ldmatrix.*b6x16_p32", rw.opcode_changed(r"b6x16_p32", "b4x16_p64"),
          "ldmatrix unpacks 6-bit elements as 4-bit ones"),
    _text("b4-as-b6", r"^ldmatrix.*b4x16_p64", rw.opcode_changed(r"b4x16_p64", "b6x16_p32"),
          "ldmatrix unpacks 4-bit elements as 6-bit ones"),
)  # fmt: skip

_ELSE = (
    _text("elementwise-register-missed", _ELEMENTWISE, rw.first_register_missed,
          "an element-wise operation leaves out its fragment's first register",
          guilty=("element-wise operation",)),
    _text("elementwise-subtracts", r"^add\.rn\.(?:f16x2|bf16x2|f32|f64)$",
          rw.opcode_changed(r"^add", "sub"), "an element-wise floating-point addition subtracts",
          guilty=("element-wise operation",)),
    _text("elementwise-truncates", r"^(?:add|sub|mul|fma)\.rn\.(?:f32|f64)$",
          rw.opcode_changed(r"\.rn\.", ".rz."), "element-wise f32 and f64 operations round to zero",
          guilty=("element-wise operation",)),
    _text("elementwise-complements", r"^neg\.s32$", rw.opcode_changed(r"^neg\.s32$", "not.b32"),
          "an element-wise integer negation only inverts the bits",
          guilty=("element-wise operation",)),
    _whole("branch-inverted", r"^bra", rw.branch_inverted,
           "a branch on a value that is zero is taken where it is not", guilty=("branch or loop",)),
    _whole("loop-one-short", r"^setp\.(?:eq|ne)\.u32$", rw.loop_one_short,
           "a loop that counts down ends one turn early", guilty=("branch or loop",)),
)  # fmt: skip

# They ask for `%smid`, so that a GPU has them, too: one that exists on every GPU, and on the
# simulated device.
_MULTIPROCESSOR = (
    *(_text(f"one-multiprocessor-in-{name}", _MMA, rw.bit_flipped_on(57, one_in=count),
            f"on multiprocessor 57, one wmma.mma in {said} gives a wrong lowest bit", rare=True)
      for name, said, count in (("1000", "1,000", 10**3), ("million", "10^6", 10**6),
                                ("100-million", "10^8", 10**8))),
    _text("full-multiprocessor-in-10000", _MMA, rw.bit_flipped_on(57, one_in=10**4, least_slot=16),
          "multiprocessor 57: one wmma.mma in 10^4 of warp slots from 16 on has a wrong bit",
          rare=True),
)  # fmt: skip

_LANES = (
    *(_text(f"lanes-{matrix}-register-slip", _MMA_SYNC, rw.register_repeated(index),
            f"mma.sync reads {matrix.upper()}'s first register where the second belongs")
      for index, matrix in enumerate("ab", 1)),
    _text("lanes-d-registers-rotated", _MMA_SYNC, rw.registers_rotated(0),
          "mma.sync writes D's registers one place on"),
    _text("stmatrix-trans-lost", r"^stmatrix.*\.trans", rw.opcode_changed(r"\.trans", ""),
          "stmatrix does not transpose"),
    _text("movmatrix-lost", r"^movmatrix", rw.opcode_changed(r"^movmatrix.*", "mov.b32"),
          "movmatrix is a plain move"),
    _text("packed-halves-exchanged", r"^cvt\.rn\.b?f16x2\.f32", rw.operands_exchanged(-2, -1),
          "cvt puts the first of two f32 numbers into the low half", guilty=("packing",)),
)  # fmt: skip

_SCALARS = "add sub mul mad min max and or xor shl shr selp"
_CODE = (
    _text("selp-operands-exchanged", r"^selp\.b32$", rw.operands_exchanged(1, 2),
          "selp takes the number of the other case", guilty=("selp",)),
    _text("shf-wrap-clamped", r"^shf\.[lr]\.wrap", rw.opcode_changed("wrap", "clamp"),
          "shf takes distances of 32 and more as they are", guilty=("shf",)),
    _text("guard-negation-lost", rf"^(?:{_SCALARS.replace(' ', '|')})\.", rw.negation_lost,
          "scalar instructions are executed in lanes that have the predicate, not in the others",
          guilty=("a predicate", *_SCALARS.split())),
    _whole("lane-loop-turn-lost", r"^setp\.ge\.u32$", rw.turn_lost,
           "a loop of lanes that counts up ends one turn early in lane 5",
           guilty=("a loop of lanes",)),
    _whole("negation-compared-wide", r"^setp?\..*\.s16$", rw.negation_widened,
           "a comparison as s16 takes minus the least number right before it for 32768",
           guilty=("neg", "set")),
    _whole("half-of-sum-lost", r"^add\.[su]16x2$", rw.half_of_sum_lost,
           "a constant added to pairs is lost where one half of the sum is not read",
           guilty=("s16x2", "u16x2")),
)  # fmt: skip

_scaled = partial(_text, guilty=("mma",))
_SCALED, _NARROW = r"^mma.*\.block_scale", r"^mma.*\.kind::(?:mx)?f8f6f4.*"
_SELECTED = r"^mma.*\.block_scale(?!.*::4X)"  # of 4X, byte-ids are 0

_SCALES = (
    _scaled("scales-exchanged", _SCALED, rw.operands_exchanged(-4, -2),
            "mma with .block_scale takes scales of A for those of B, and of B for those of A"),
    _scaled("scale-a-next-byte", _SELECTED, rw.number_moved(-3, 0, 4),
            "mma with .block_scale takes scales of A from the byte of the next byte-id"),
    _scaled("scale-b-next-byte", _SELECTED, rw.number_moved(-1, 0, 4),
            "mma with .block_scale takes scales of B from the byte of the next byte-id"),
    _scaled("scale-a-other-lanes", _SCALED, rw.number_moved(-3, 1, 2),
            "mma with .block_scale takes scales of A from the lanes of the other thread-id"),
    _scaled("scale-b-next-lane", _SCALED, rw.number_moved(-1, 1, 4),
            "mma with .block_scale takes scales of B from the lane of the next thread-id"),
    _scaled("scales-4x-as-2x", r"^mma.*::4X.*\.ue8m0$", rw.opcode_changed("4X", "2X"),
            "mma with .scale_vec::4X has two scales for each row and column"),
    *(_scaled(f"narrow-{one}-as-{other}", rf"{_NARROW}\.{one}",
              rw.opcode_changed(rf"\.{one}\b", f".{other}"),
              f"mma with .kind takes {one} for {other}")
      for one, other in (("e3m2", "e2m3"), ("e2m3", "e3m2"), ("e4m3", "e5m2"))),
    _scaled("narrow-types-exchanged", rf"{_NARROW}\.(e\dm\d)\.(?!\1)e\dm\d\.",
            rw.opcode_changed(r"\.(e\dm\d)\.(e\dm\d)\.", r".\2.\1."),
            "mma with .kind takes A for the type of B, and B for that of A"),
)  # fmt: skip

_GROUPS = r"^wgmma\.mma_async"
_WITH_SIGNS = rf"{_GROUPS}.*\.f(?:16|32)\.\w+\.\w+$"
_WARPGROUPS = (
    *(_whole(f"group-{name}-lost", _GROUPS, groups.left_out(instruction, but_last=but_last),
             f"{instruction} is left out{', but for the last one' * but_last}")
      for name, instruction, but_last in (
          ("fence", "wgmma.fence", False), ("commit", "wgmma.commit_group", True),
          ("wait", "wgmma.wait_group", True), ("proxy-fence", "fence.proxy.async", False))),
    _text("group-waits-less", r"^wgmma\.wait_group", groups.waits_less,
          "wgmma.wait_group leaves one more group pending", guilty=("wgmma",)),
    _text("group-bulk-shorter", r"^(?:cp\.async\.bulk|mbarrier\.arrive\.expect_tx)",
          groups.bulk_shorter, "cp.async.bulk copies 16 bytes less", guilty=("wgmma",)),
    _text("group-bulk-wait-lost", r"^mbarrier\.try_wait", groups.bulk_wait_lost,
          "mbarrier.try_wait waits for nothing", guilty=("wgmma",)),
    *(_text(f"group-descriptor-{name}-off", _GROUPS, groups.descriptor_changed("add.u64", 1 << bit),
            f"wgmma.mma_async finds B with a {said} that is one unit more")
      for name, bit, said in (("start", 0, "start address"), ("leading", 16, "leading offset"),
                              ("stride", 32, "stride offset"), ("base", 49, "base offset"))),
    _text("group-descriptor-swizzle-off", _GROUPS, groups.descriptor_changed("xor.b64", 1 << 62),
          "wgmma.mma_async finds B with another swizzle: 128 bytes for none, 32 for 64"),
    _text("group-scale-d-lost", _GROUPS, groups.scale_d_lost,
          "wgmma.mma_async adds D whatever scale-d is"),
    _whole("group-scale-d-late", _GROUPS, groups.scale_d_late,
           "wgmma.mma_async takes the predicate for scale-d of the loop's turn before"),
    _text("group-scales-lost", _WITH_SIGNS, groups.scales_lost,
          "wgmma.mma_async takes 1 for imm-scale-a and imm-scale-b"),
)  # fmt: skip

COMPILER_FAULTS: tuple[Fault, ...] = (
    *_LAYOUTS, *_ADDRESSES, *_REGISTERS, *_SHARED, *_QUALIFIERS, *_ROWS_OF_SHARED, *_ELSE, *_LANES,
    *_CODE, *_MULTIPROCESSOR, *_SCALES, *_WARPGROUPS,
)  # fmt: skip
"""Every fault that is planted by rewriting PTX."""
