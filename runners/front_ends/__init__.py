"""Compilers that write PTX: programs in their languages, and the PTX that comes out."""
