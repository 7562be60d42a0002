"""Compilers against each other: every version at every optimisation level, and where one began."""
