"""Compares compilers: every version at every level, and the version in which a result changed."""
