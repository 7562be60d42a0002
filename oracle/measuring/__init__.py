"""Measures the figures of matrix units: infers a model from what a device returns for probes.

Probes are fixed dot products, each family of which isolates one property. A figure is found by
elimination: of all values that a model can have for it, those stay with which the oracle computes
what the device returned. Random images confirm what was found; what they contradict becomes a
probe, and where no figures fit, the unit is refused with the probe that shows it.
"""
