"""Screening: every image of a set on every multiprocessor, compared on the device."""
