"""Stands for PyCUDA on a machine without an NVIDIA driver."""
