"""Fails as the real one does where libcuda is not there."""

raise ImportError(
    "libcuda.so.1: cannot open shared object file: No such file or directory", name="pycuda._driver"
)
