"""Simplifies failing examples: instructions, programs with an image, and the values in it.

Proposals, the most promising first; which of them fail as well is for others to find out.
"""
