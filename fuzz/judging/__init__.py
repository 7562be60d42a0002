"""Kernels of other people: guessed launches, compilers compared on them, and made small."""
