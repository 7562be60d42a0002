"""Assemblers: finding, fetching and identifying them, and judging instructions with them."""
