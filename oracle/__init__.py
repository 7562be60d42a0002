"""Executable specification of the warp-level matrix instructions of PTX."""
