"""A CUDA device, driven through PyCUDA by a disposable child process.

PyCUDA is imported by the child alone (`runners.cuda.child`), so that whatever a program does to
the device's context, or to the process that holds it, costs one batch.
"""
