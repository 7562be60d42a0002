"""Hypothesis strategies for instructions, programs and contents.

Nothing here knows how a case is run or judged.
"""
