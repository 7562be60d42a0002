"""A CUDA device, driven through PyCUDA by a disposable child process."""
