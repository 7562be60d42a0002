"""PTX ISA notes and target ISA notes of the pages, as rows that say to which forms they apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oracle.forms import (
    LDMATRIX,
    LOAD,
    MMA,
    MMA_SYNC,
    MOVMATRIX,
    STMATRIX,
    STORE,
    Form,
    LdmatrixForm,
    LoadForm,
    MmaForm,
    MmaSyncForm,
    ProductForm,
    StmatrixForm,
    StoreForm,
)
from oracle.targets import Module, PtxVersion

# Formats that the notes call "alternate floating point" (9.7.14.4.3, headings of the syntax).
_ALTERNATE = ("bf16", "tf32")


@dataclass(frozen=True, kw_only=True)
class Note:
    """One note of a page: what it says, and which versions and targets it asks for."""

    section: str
    text: str
    """The page's own words."""
    applies: Callable[[Form], bool]
    since: PtxVersion | None = None
    """First PTX ISA version that has it."""
    until: PtxVersion | None = None
    """First PTX ISA version that has it no more."""
    deprecated: PtxVersion | None = None
    """First PTX ISA version that advises against it."""
    target: int | None = None
    """Smallest target number."""
    specific: bool = False
    """Whether the note asks for one of the architecture- or family-specific targets of
    9.7.14.5.15."""

    def refusal(self, module: Module) -> str | None:
        """Say why the version or the target of a module does not satisfy the note, if so."""
        version, target = module.version, module.target
        if self.since is not None and version < self.since:
            return f"{self.text} The PTX ISA version here is {version}."
        if self.until is not None and version >= self.until:
            return f"{self.text} The PTX ISA version here is {version}."
        if self.target is not None and target.number < self.target:
            return f"{self.text} The target here is {target.name}."
        if self.specific and not _has_specific_shapes(module):
            return f"{self.text} Here: {target.name} and PTX ISA version {version}."
        return None


def _has_specific_shapes(module: Module) -> bool:
    """Tell whether the target has the shapes, types and formats that ldmatrix got in 8.6.

    The page: sm_100a, sm_101a (sm_110a from 9.0) and sm_120a; from 8.8 also sm_100f, sm_101f
    (sm_110f from 9.0) and sm_120f "or higher in the same family", which takes in the "a" targets
    of a family's younger members.
    """
    version, target = module.version, module.target
    if not target.is_specific or target.family is None or not module.exists:
        return False
    oldest = target.number == target.family
    return (oldest and target.suffix == "a") or version >= PtxVersion(8, 8)


def _type_names(form: Form) -> tuple[str, ...]:
    if isinstance(form, LoadForm | StoreForm):
        return (form.type.name,)
    if isinstance(form, ProductForm):
        return (form.a_type.name, form.c_type.name, form.d_type.name)
    return ()


def _shape_name(form: Form) -> str:
    return form.shape.name if isinstance(form, LoadForm | StoreForm | ProductForm) else ""


def _has_type(*names: str) -> Callable[[Form], bool]:
    return lambda form: any(name in names for name in _type_names(form))


def _has_shape(*names: str) -> Callable[[Form], bool]:
    return lambda form: _shape_name(form) in names


def _always(form: Form) -> bool:
    return True


def _explicit_cta(form: Form) -> bool:
    return getattr(form, "space", "") == "shared::cta"


def _is_integer(form: Form) -> bool:
    """Tell whether a form belongs to the integer rows of the first block of the syntax."""
    return _shape_name(form) in ("m16n16k16", "m8n32k16", "m32n8k16") and any(
        name in ("s8", "u8", "s32") for name in _type_names(form)
    )


def _is_sub_byte_or_bit(form: Form) -> bool:
    return _shape_name(form) in ("m8n8k32", "m8n8k128")


def _is_alternate(form: Form) -> bool:
    return _shape_name(form) == "m16n16k8" or any(name in _ALTERNATE for name in _type_names(form))


def _is_float(form: Form) -> bool:
    return any(name in ("f16", "f32", "f64", *_ALTERNATE) for name in _type_names(form))


def _is_and(form: Form) -> bool:
    return isinstance(form, MmaForm) and form.op == "and"


def _is_float_satfinite(form: Form) -> bool:
    return isinstance(form, MmaForm) and form.satfinite and form.a_type.is_float


def _common(section: str) -> tuple[Note, ...]:
    """Return the notes that the three wmma pages share."""
    v = PtxVersion
    return (
        Note(
            section=section,
            text="Introduced in PTX ISA version 6.0.",
            since=v(6, 0),
            applies=_always,
        ),
        Note(
            section=section,
            text=".m8n32k16 and .m32n8k16 introduced in PTX ISA version 6.1.",
            since=v(6, 1),
            applies=_has_shape("m8n32k16", "m32n8k16"),
        ),
        Note(
            section=section,
            text="Integer, sub-byte integer and single-bit wmma introduced in PTX ISA version 6.3.",
            since=v(6, 3),
            applies=lambda form: _is_integer(form) or _is_sub_byte_or_bit(form),
        ),
        Note(
            section=section,
            text="Floating point wmma requires sm_70 or higher.",
            target=70,
            applies=_is_float,
        ),
        Note(
            section=section,
            text="Integer wmma requires sm_72 or higher.",
            target=72,
            applies=_is_integer,
        ),
        Note(
            section=section,
            text="Sub-byte and single-bit wmma requires sm_75 or higher.",
            target=75,
            applies=_is_sub_byte_or_bit,
        ),
    )


def _cta(section: str) -> Note:
    return Note(
        section=section,
        text="Support for ::cta sub-qualifier introduced in PTX ISA version 7.8.",
        since=PtxVersion(7, 8),
        applies=_explicit_cta,
    )


LOAD_NOTES = (
    *_common(LOAD),
    Note(
        section=LOAD,
        text=".m8n8k4 and .m16n16k8 on wmma introduced in PTX ISA version 7.0.",
        since=PtxVersion(7, 0),
        applies=_has_shape("m8n8k4", "m16n16k8"),
    ),
    Note(
        section=LOAD,
        text="Double precision and alternate floating point precision wmma introduced in PTX ISA "
        "version 7.0.",
        since=PtxVersion(7, 0),
        applies=lambda form: _is_alternate(form) or _has_type("f64")(form),
    ),
    _cta(LOAD),
    Note(
        section=LOAD,
        text="Double precision and alternate floating point precision wmma requires sm_80 or "
        "higher.",
        target=80,
        applies=lambda form: _is_alternate(form) or _has_type("f64")(form),
    ),
)

STORE_NOTES = (
    *_common(STORE),
    Note(
        section=STORE,
        text=".m16n16k8 introduced in PTX ISA version 7.0.",
        since=PtxVersion(7, 0),
        applies=_has_shape("m16n16k8"),
    ),
    Note(
        section=STORE,
        text="Double precision wmma introduced in PTX ISA version 7.0.",
        since=PtxVersion(7, 0),
        applies=_has_type("f64"),
    ),
    _cta(STORE),
    Note(
        section=STORE,
        text="Double precision wmma and shape .m16n16k8 requires sm_80 or higher.",
        target=80,
        applies=lambda form: _has_shape("m16n16k8")(form) or _has_type("f64")(form),
    ),
)

MMA_NOTES = (
    *_common(MMA),
    Note(
        section=MMA,
        text="Double precision and alternate floating point precision wmma introduced in PTX ISA "
        "version 7.0.",
        since=PtxVersion(7, 0),
        applies=lambda form: _is_alternate(form) or _has_type("f64")(form),
    ),
    Note(
        section=MMA,
        text="Support for .and operation in single-bit wmma introduced in PTX ISA version 7.1.",
        since=PtxVersion(7, 1),
        applies=_is_and,
    ),
    Note(
        section=MMA,
        text="Support for .satfinite on floating point wmma.mma is deprecated in PTX ISA version "
        "6.4 and is removed from PTX ISA version 6.5.",
        deprecated=PtxVersion(6, 4),
        until=PtxVersion(6, 5),
        applies=_is_float_satfinite,
    ),
    Note(
        section=MMA,
        text="Double precision, alternate floating point precision wmma require sm_80 or higher.",
        target=80,
        applies=lambda form: _is_alternate(form) or _has_type("f64")(form),
    ),
    Note(
        section=MMA,
        text=".and operation in single-bit wmma requires sm_80 or higher.",
        target=80,
        applies=_is_and,
    ),
)

LDMATRIX_NOTES = (
    Note(
        section=LDMATRIX,
        text="Introduced in PTX ISA version 6.5.",
        since=PtxVersion(6, 5),
        applies=_always,
    ),
    _cta(LDMATRIX),
    Note(
        section=LDMATRIX,
        text="Support for .m16n16, .m8n16 shapes introduced in PTX ISA version 8.6.",
        since=PtxVersion(8, 6),
        applies=lambda form: isinstance(form, LdmatrixForm) and form.columns == 16,
    ),
    Note(
        section=LDMATRIX,
        text="Support for .b8 type with ldmatrix is introduced in PTX ISA version 8.6.",
        since=PtxVersion(8, 6),
        applies=lambda form: isinstance(form, LdmatrixForm) and form.type == "b8",
    ),
    Note(
        section=LDMATRIX,
        text="Support for .src_fmt, .dst_fmt qualifiers introduced in PTX ISA version 8.6.",
        since=PtxVersion(8, 6),
        applies=lambda form: isinstance(form, LdmatrixForm) and form.source_format != "",
    ),
    Note(
        section=LDMATRIX,
        text="Requires sm_75 or higher.",
        target=75,
        applies=_always,
    ),
    # Three lists of the page, word for word the same, one for the shapes, one for .b8 and one
    # for the formats; each of those forms has one of the shapes.
    Note(
        section=LDMATRIX,
        text="Shapes .m16n16, .m8n16 are supported on sm_100a, sm_101a (renamed to sm_110a from "
        "PTX ISA version 9.0), sm_120a and, from PTX ISA version 8.8, on sm_100f, sm_101f "
        "(renamed to sm_110f from 9.0), sm_120f or higher in the same family.",
        specific=True,
        applies=lambda form: isinstance(form, LdmatrixForm) and form.columns == 16,
    ),
)


def _multiplies(types: tuple[str, ...], *shapes: str) -> Callable[[Form], bool]:
    """Apply to the forms of mma with A of these types, in these shapes (none: in all)."""
    return lambda form: (
        isinstance(form, MmaSyncForm)
        and form.a_type.name in types
        and (not shapes or form.shape.name in shapes)
    )


def _introduced(
    what: str, version: str, target: int, types: tuple[str, ...], *shapes: str
) -> tuple[Note, Note]:
    """Return the two notes of the page of mma on some multiplicands in some shapes."""
    listed = ", ".join(f".{shape}" for shape in shapes)
    where = f" with {listed}" if listed else ""
    major, minor = version.split(".")
    applies = _multiplies(types, *shapes)
    return (
        Note(
            section=MMA_SYNC,
            text=f"{what} type mma operation{where} introduced in PTX ISA version {version}.",
            since=PtxVersion(int(major), int(minor)),
            applies=applies,
        ),
        Note(
            section=MMA_SYNC,
            text=f"{what} type mma operation{where} requires sm_{target} or higher.",
            target=target,
            applies=applies,
        ),
    )


def _is_small_eight(form: Form) -> bool:
    """Tell whether a form of 8-bit floats has a shape or an accumulator of PTX ISA 8.7."""
    return _multiplies(("e4m3", "e5m2"))(form) and (
        _shape_name(form) == "m16n8k16" or _has_type("f16")(form)
    )


# The page of mma is not among the stored ones: these are its notes (PTX ISA 9.0, 9.7.14.5.14) in
# a uniform wording. Their versions and targets were asked of ptxas 11.7 to 13.5.
MMA_SYNC_NOTES = (
    Note(
        section=MMA_SYNC,
        text="Introduced in PTX ISA version 6.4.",
        since=PtxVersion(6, 4),
        applies=_always,
    ),
    Note(section=MMA_SYNC, text="Requires sm_70 or higher.", target=70, applies=_always),
    *_introduced(".f16 floating point", "6.5", 75, ("f16",), "m16n8k8"),
    *_introduced(".f16 floating point", "7.0", 80, ("f16",), "m16n8k16"),
    *_introduced(".bf16 alternate floating point", "7.0", 80, ("bf16",)),
    *_introduced(".tf32 alternate floating point", "7.0", 80, ("tf32",)),
    *_introduced(".e4m3/.e5m2 alternate floating point", "8.4", 89, ("e4m3", "e5m2")),
    Note(
        section=MMA_SYNC,
        text="Support for shape .m16n8k16 and .f16 dtype/ctype with .e4m3/.e5m2 alternate "
        "floating point type mma operation introduced in PTX ISA version 8.7.",
        since=PtxVersion(8, 7),
        applies=_is_small_eight,
    ),
    *_introduced(".f64 floating point", "7.0", 80, ("f64",), "m8n8k4"),
    *_introduced(".f64 floating point", "7.8", 90, ("f64",), "m16n8k4", "m16n8k8", "m16n8k16"),
    *_introduced(".u8/.s8 integer", "6.5", 75, ("u8", "s8"), "m8n8k16"),
    *_introduced(".u8/.s8 integer", "7.0", 80, ("u8", "s8"), "m16n8k16", "m16n8k32"),
    *_introduced(".u4/.s4 integer", "6.5", 75, ("u4", "s4"), "m8n8k32"),
    *_introduced(".u4/.s4 integer", "7.0", 80, ("u4", "s4"), "m16n8k32", "m16n8k64"),
    *_introduced(".b1 single-bit integer", "7.0", 75, ("b1",), "m8n8k128"),
    *_introduced(".b1 single-bit integer", "7.0", 80, ("b1",), "m16n8k128", "m16n8k256"),
    Note(
        section=MMA_SYNC,
        text="Support for .and operation in single-bit mma introduced in PTX ISA version 7.1.",
        since=PtxVersion(7, 1),
        applies=lambda form: isinstance(form, MmaSyncForm) and form.op == "and",
    ),
    Note(
        section=MMA_SYNC,
        text=".and operation in single-bit mma requires sm_80 or higher.",
        target=80,
        applies=lambda form: isinstance(form, MmaSyncForm) and form.op == "and",
    ),
)


def _is_b8_store(form: Form) -> bool:
    return isinstance(form, StmatrixForm) and form.type == "b8"


STMATRIX_NOTES = (
    Note(
        section=STMATRIX,
        text="Introduced in PTX ISA version 7.8.",
        since=PtxVersion(7, 8),
        applies=_always,
    ),
    Note(
        section=STMATRIX,
        text="Support for .m16n8 shape and .b8 type introduced in PTX ISA version 8.6.",
        since=PtxVersion(8, 6),
        applies=_is_b8_store,
    ),
    Note(section=STMATRIX, text="Requires sm_90 or higher.", target=90, applies=_always),
    Note(
        section=STMATRIX,
        text="Shape .m16n8 and type .b8 are supported on sm_100a, sm_101a (renamed to sm_110a from "
        "PTX ISA version 9.0), sm_120a and, from PTX ISA version 8.8, on sm_100f, sm_101f "
        "(renamed to sm_110f from 9.0), sm_120f or higher in the same family.",
        specific=True,
        applies=_is_b8_store,
    ),
)

MOVMATRIX_NOTES = (
    Note(
        section=MOVMATRIX,
        text="Introduced in PTX ISA version 7.8.",
        since=PtxVersion(7, 8),
        applies=_always,
    ),
    Note(section=MOVMATRIX, text="Requires sm_75 or higher.", target=75, applies=_always),
)
