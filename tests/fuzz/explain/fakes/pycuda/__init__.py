"""A stand-in for PyCUDA whose device is the simulated one."""
