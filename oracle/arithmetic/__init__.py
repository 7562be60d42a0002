"""Arithmetic of wmma.mma on arrays of raw bit patterns, one module per kind of arithmetic."""
