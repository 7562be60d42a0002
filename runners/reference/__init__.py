"""A reference for whole programs beside the program under test, where it runs: in integers alone.

It shares no arithmetic with the oracle and none with the simulated device; the oracle stays the
judge, and tries a built interpreter on a fixed set (`self_check`) before it is believed.
"""
