"""Assemblers: found or fetched, asked what they are, and judging instructions."""
