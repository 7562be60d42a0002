"""A stand-in for PyCUDA with a device of its own: see `pycuda.driver` beside it."""

VERSION_TEXT = "0.fake"
