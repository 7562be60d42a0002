"""The plainest module of a finding shows it, and nothing plainer that is tried first does."""

from hypothesis import given
from hypothesis import strategies as st

from oracle.targets import TARGETS, VERSIONS, Module
from strategies.simplification.instructions import plainest_module

MODULES = st.sampled_from(
    [
        Module(target, version)
        for target in TARGETS.values()
        for version in VERSIONS
        if target.number >= 70 and target.known_to(version)
    ]
)


@given(MODULES)
def test_what_every_module_shows_is_asked_of_the_oldest(module):
    found = plainest_module(lambda one: True, module)
    assert (found.target.name, str(found.version)) == ("sm_70", "6.0")


@given(MODULES)
def test_what_only_one_module_shows_stays_there(module):
    assert plainest_module(lambda one: one == module, module) == module


@given(MODULES, st.randoms(use_true_random=False))
def test_what_is_returned_shows_it(module, random):
    kept = {}

    def shows(one):
        return one == module or kept.setdefault(
            (one.target.name, one.version), random.random() < 0.3
        )

    asked = []
    found = plainest_module(lambda one: asked.append(one) or shows(one), module)
    assert shows(found)
    assert len(asked) <= 90
    assert found.target.is_specific <= module.target.is_specific


@given(MODULES, st.integers(0, len(VERSIONS) - 1))
def test_the_lowest_version_is_found(module, first):
    least = min(VERSIONS[first], module.version)
    found = plainest_module(
        lambda one: one.version >= least and one.target == module.target, module
    )
    assert found.target == module.target
    assert found.version == max(least, module.target.since)
