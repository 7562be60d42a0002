"""The compilers above PTX: programs in languages that they read, and the PTX that they make."""


def line_bytes(spelled: str | None) -> int:
    """Return of how many bytes addresses of wmma are multiples, where a language can say more then.

    `nvcuda::wmma` takes "256-bit aligned" pointers alone (CUDA C++ Programming Guide,
    load_matrix_sync); programs with others are inline PTX.

    Parameters
    ----------
    spelled
        The name of a front end; None: there is none.
    """
    return 32 if spelled is not None and spelled.startswith(("nvcc", "nvrtc")) else 1
