"""The compilers above PTX: programs in languages that they read, and the PTX that they make."""
