"""Measuring a device: its probes are run, figures inferred, and confirmed by random images.

`oracle.measuring` has the probes, and how figures follow from what came back.
"""
