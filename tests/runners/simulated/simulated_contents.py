"""Raw elements that reveal one property or another of a matrix unit, by hand and small."""

import numpy as np
from numpy.typing import NDArray
from simulated_kernels import Multiplication

from oracle.isa import forms
from oracle.isa.forms import Form

FORMATS = {"f16": (5, 10, 0), "bf16": (8, 7, 0), "tf32": (8, 10, 13), "f32": (8, 23, 0)}
FORMATS["f64"] = (11, 52, 0)
"""Exponent bits, fraction bits, unused bits."""

Elements = NDArray[np.unsignedinteger]


def raw(kind: str, values: NDArray[np.float64]) -> Elements:
    """Return the words of numbers, cut or rounded to the format somehow."""
    if kind == "f64":
        return values.astype(np.float64).view(np.uint64)
    if kind == "f16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).view(np.uint16)
    with np.errstate(over="ignore"):
        words = values.astype(np.float32).view(np.uint32)
    return (words >> 16).astype(np.uint16) if kind == "bf16" else words


def number(kind: str, words: Elements) -> NDArray[np.float64]:
    """Return the values of words as float64; exact for all formats."""
    if kind == "f64":
        return words.view(np.float64)
    if kind == "f16":
        return words.view(np.float16).astype(np.float64)
    if kind == "bf16":
        words = words.astype(np.uint32) << np.uint32(16)
    if kind == "tf32":
        words = words & np.uint32(0xFFFF_E000)
    return words.view(np.float32).astype(np.float64)


def random_words(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Elements:
    """Return elements with uniformly random bits, NaN and infinities included."""
    bits = forms.FORMATS[kind].bits
    words = rng.integers(0, 1 << bits, shape, dtype=np.uint64)
    return words.astype(f"u{max(8, bits) // 8}")


def _placed(rng: np.random.Generator, kind: str, words: Elements, share: float) -> Elements:
    """Put special values over a share of the words."""
    exponent, fraction, unused = FORMATS[kind]
    top = ((1 << exponent) - 1) << (fraction + unused)
    sign = 1 << (exponent + fraction + unused)
    one = 1 << unused
    specials = [0, sign, top, top | sign, top | one, top | (3 << (fraction + unused - 2)) | sign]
    chosen = rng.choice(np.array(specials, np.uint64), words.shape).astype(words.dtype)
    return np.where(rng.random(words.shape) < share, chosen, words)


def _floats(rng: np.random.Generator, form: Form, flavour: str, count: int) -> dict[str, Elements]:
    shapes = _shapes(form, count)
    kinds = {role: form.type(role).name for role in "abc"}
    kind = kinds["a"]
    values = {role: rng.standard_normal(shape) for role, shape in shapes.items()}
    exponent = FORMATS[kind][0]
    bottom = 2.0 ** (2 - (1 << (exponent - 1)))
    match flavour:
        case "bits":
            return {role: random_words(rng, kinds[role], shapes[role]) for role in "abc"}
        case "wide":
            for role in "abc":
                values[role] *= 2.0 ** rng.integers(-12, 12, shapes[role])
        case "zeros":
            for role in "abc":
                values[role] *= rng.integers(0, 2, shapes[role])
            values["a"][: count // 2] *= 0
            values["c"][: count // 4] = -0.0
            values["c"][count // 4 : count // 2] *= bottom
        case "integers":
            for role in "ab":
                values[role] = rng.integers(-63, 64, shapes[role]).astype(float)
            values["c"] = rng.integers(0, 64, shapes["c"]) + 2.0 ** (53 if kind == "f64" else 11)
        case "subnormal a" | "subnormal b":
            role = flavour[-1]
            values[role] *= bottom / 4
            values["c"] *= 2.0**-20 * bottom
        case "tiny":
            # The product is near the least numbers of an f32 sum.
            for role in "ab":
                values[role] *= 1e-22 if kind != "f16" else 1e-5
            values["c"] *= 0
        case "subnormal c":
            values["a"] *= 0
            if kind == "f64" or kinds["c"] == "f32":
                c_bottom = 2.0 ** (-1022 if kind == "f64" else -126)
            else:
                c_bottom = 2.0**-14
            values["c"] *= c_bottom / 4
        case "subnormal d":
            values["a"] *= 2.0**-10
            values["b"] *= {"f16": 2.0**-14, "f64": 2.0**-1014}.get(kind, 2.0**-117)
            values["c"] *= 0
        case "huge":
            for role in "abc":
                values[role] *= {"f16": 2.0**7, "f64": 2.0**508}.get(kind, 2.0**62)
            values["c"] *= 2.0**6
        case "wide pairs":
            # Products beyond f32 that cancel.
            signs = np.where(np.arange(shapes["a"][2]) % 2, -1.0, 1.0)
            values["a"] = np.full(shapes["a"], 2.0**127) * signs
            values["b"] = np.full(shapes["b"], 2.0)
            values["c"] = np.full(shapes["c"], 2.0**127)
        case "payloads":
            # Several NaN with payloads of their own in one dot product.
            words = {role: random_words(rng, kinds[role], shapes[role]) for role in "abc"}
            for role in "abc":
                exponent, fraction, unused = FORMATS[kinds[role]]
                one = raw(kinds[role], np.ones(shapes[role]))
                top = one.dtype.type(((1 << exponent) - 1) << (fraction + unused))
                share = 0.1 if role != "c" else 0.5
                nan = rng.random(shapes[role]) < share
                words[role] = np.where(nan, words[role] | top, one)
            return words
        case "tie and dust":
            # A product on a tie of f16's subnormal grid, and dust that only a low exponent of
            # zero lets in (the inputs that facts about e_zero name).
            values = {role: np.zeros(shape) for role, shape in shapes.items()}
            values["a"][:, :, 0] = 2.0**-12 * (2 * rng.integers(0, 8, shapes["a"][:2]) + 1)
            values["b"][:, 0, :] = 2.0**-13
            values["a"][:, :, 1] = rng.choice([-1.0, 1.0], shapes["a"][:2]) * 2.0**-24
            values["b"][:, 1, :] = 2.0 ** rng.integers(-24, -15, (count, shapes["b"][2]))
    words = {role: raw(kinds[role], values[role]) for role in "abc"}
    if flavour == "specials":
        words = {
            role: _placed(rng, kinds[role], words[role], 0.02 if role != "c" else 0.2)
            for role in "abc"
        }
    if flavour == "cancelling":
        product = number(kinds["a"], words["a"]) @ number(kinds["b"], words["b"])
        words["c"] = raw(kinds["c"], -product)
    return words


FLOAT_FLAVOURS = (
    "normal",
    "cancelling",
    "wide",
    "integers",
    "zeros",
    "specials",
    "subnormal a",
    "subnormal b",
    "subnormal c",
    "subnormal d",
    "tiny",
    "huge",
    "wide pairs",
    "tie and dust",
    "payloads",
    "bits",
)
INTEGER_FLAVOURS = ("bits", "high", "low", "least")


_KEPT = 100
"""Sets of elements that are kept: some megabytes."""
_MADE: dict[tuple[object, ...], dict[str, Elements]] = {}


def _shapes(form: Form, count: int) -> dict[str, tuple[int, int, int]]:
    matrices = {role: form.matrix(role) for role in "abc"}
    return {role: (count, matrix.rows, matrix.columns) for role, matrix in matrices.items()}


def flavours(form: Form) -> tuple[str, ...]:
    return FLOAT_FLAVOURS if form.a_type.is_float else INTEGER_FLAVOURS


def elements(form: Form, flavour: str, *, count: int, seed: int) -> dict[str, Elements]:
    """Return (count, rows, columns) raw elements of a, b and c, to be read only.

    Forms that differ in layouts alone have the same, which are made once.
    """
    key = (seed, flavour, count, form.types, form.shape)
    if key not in _MADE:
        if len(_MADE) == _KEPT:
            del _MADE[next(iter(_MADE))]
        _MADE[key] = _elements(form, flavour, count=count, seed=seed)
        for words in _MADE[key].values():
            words.flags.writeable = False
    return _MADE[key]


def _elements(form: Form, flavour: str, *, count: int, seed: int) -> dict[str, Elements]:
    rng = np.random.default_rng([seed, *flavour.encode()])
    if form.a_type.is_float:
        return _floats(rng, form, flavour, count)
    words = {
        role: random_words(rng, form.type(role).name, shape)
        for role, shape in _shapes(form, count).items()
    }
    near = rng.integers(0, 1 << 12, words["c"].shape).astype(np.uint32)
    if flavour == "high":
        words["c"] = np.uint32((1 << 31) - 1) - near
    if flavour == "low":
        words["c"] = np.uint32(1 << 31) + near
    if flavour == "least":
        words["a"][...] = 0
        words["c"][...] = 1 << 31
    return words


def images_of(
    multiplication: Multiplication, flavour: str, *, count: int = 24, seed: int = 0
) -> NDArray[np.uint8]:
    """Return images with the elements of a flavour; the gaps hold random bytes."""
    words = elements(multiplication.form, flavour, count=count, seed=seed)
    rng = np.random.default_rng([seed, 99])
    images = rng.integers(0, 256, (count, multiplication.image_bytes)).astype(np.uint8)
    for role in "abc":
        multiplication.matrices[role].put(images, words[role])
    return images
