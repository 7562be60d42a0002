import pytest
from dots import rule_of

from oracle.errors import UsageError
from oracle.isa import lookup as isa
from oracle.isa.targets import TARGETS
from oracle.models import Confidence, TruncatedDot, figures_in, model_for
from oracle.models.figures import DotUnit

# MMA-Sim 2.1.1, nv_ptx/sim.py: F, L in 16-bit elements, e_zero of f32 and of f16.
PUBLISHED = {
    "sm_70": (23, 4, -131, -19), "sm_75": (24, 8, -132, -20), "sm_80": (24, 8, -132, -20),
    "sm_89": (24, 8, -132, -20), "sm_90": (25, 16, -133, -21), "sm_100": (25, 16, -133, -21),
    "sm_120": (25, 16, -133, -21),
}  # fmt: skip
MODELLED = [name for name, row in TARGETS.items() if row.number >= 70]


@pytest.mark.parametrize("target", PUBLISHED)
def test_figures_are_those_that_were_published(target):
    wide, narrow = rule_of(target, "f16", "f32"), rule_of(target, "f16", "f16")
    assert wide.block.value == narrow.block.value
    assert wide.fraction_bits.value == narrow.fraction_bits.value
    figures = (
        wide.fraction_bits.value,
        wide.block.value,
        wide.zero_exponent.value,
        narrow.zero_exponent.value,
    )
    assert figures == PUBLISHED[target]


@pytest.mark.parametrize("target", PUBLISHED)
def test_mma_sync_has_the_published_figures_too(target):
    """MMA-Sim's are for mma; m8n8k4 of Turing has Volta's, and the length is a number of bytes."""
    fraction, length, zero_f32, zero_f16 = PUBLISHED[target]
    for dot in model_for(target).only(TruncatedDot):
        if dot.instruction == "mma" and not dot.types.split(".")[1].startswith("e"):
            volta = dot.shapes == ("m8n8k4",)
            f, block, *zeros = (
                PUBLISHED["sm_70"] if volta else (fraction, length, zero_f32, zero_f16)
            )
            narrow = dot.accumulator.value == "f16"
            assert dot.fraction_bits.value == f
            assert dot.block.value == (block // 2 if "tf32" in dot.types else block)
            assert dot.zero_exponent.value == zeros[narrow]


@pytest.mark.parametrize("target", PUBLISHED)
def test_mma_sync_lacks_figures_where_it_is_emulated_and_nobody_measured_it(target):
    """Those of m8n8k4, and of eight bits on sm_100, are only known of sm_90."""
    model, number = model_for(target), TARGETS[target].number
    lacking = set()
    for form in isa.FORMS:
        if form.mnemonic == "mma":
            try:
                model.figures_for(form)
            except UsageError as error:
                if "no figures" in str(error):
                    lacking.add(form.a_type.name if form.a_type.bits == 8 else form.shape.name)
    emulated = {"m8n8k4"} if number >= 80 else set()
    eight = {"e4m3", "e5m2"} if number == 100 else set()
    assert lacking == (set() if number == 90 else emulated | eight)


@pytest.mark.parametrize("target", MODELLED)
def test_every_figure_says_where_it_comes_from(target):
    model = model_for(target)
    assert all(figure.source for unit in model.units for figure in figures_in(unit).values())


@pytest.mark.parametrize("target", MODELLED)
def test_only_sm_90_is_measured_and_relatives_are_inferred(target):
    model = model_for(target)
    own = model.base == f"sm_{TARGETS[target].number}"
    dots = {figure.confidence for dot in model.only(DotUnit) for figure in figures_in(dot).values()}
    if model.base == "sm_90":
        assert model.confidence is Confidence.MEASURED
    elif not own:
        assert dots == {Confidence.INFERRED}
    else:
        assert Confidence.MEASURED not in dots
        assert model.confidence is Confidence.INFERRED
