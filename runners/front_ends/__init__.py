"""The compilers above PTX: programs in languages that they read, and the PTX that they make."""

from oracle.forms import LdmatrixForm, MmaForm

WRITTEN_AS_LLVM_IR = (MmaForm, LdmatrixForm)
"""Kinds of forms that `llvm_ir` can write programs about; the steps around mma.sync it refuses."""
