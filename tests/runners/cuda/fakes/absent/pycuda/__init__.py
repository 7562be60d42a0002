"""Stands for a machine without PyCUDA."""

raise ModuleNotFoundError("No module named 'pycuda'", name="pycuda")
