"""Arrays as files of a finding: the same bytes for the same array, on any machine."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from corpus.entry import Entry
from oracle.errors import InfrastructureError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def pack(array: NDArray[Any]) -> bytes:
    """Return an array as the contents of a `.npy` file.

    A `.npy` file holds shape, dtype and the bare bytes in row-major order, and no time and no
    compressor's choices as a `.npz` file does.

    Parameters
    ----------
    array
        Of any shape, and a dtype of numbers; memory images are uint8 (images, bytes).

    Raises
    ------
    UsageError
        If its elements are Python objects.
    """
    import numpy as np

    if array.dtype.hasobject:
        raise UsageError(
            f"an array of dtype {array.dtype} cannot be stored; allowed are numbers, such as uint8"
        )
    little = array.astype(array.dtype.newbyteorder("<"), order="C").reshape(array.shape)
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, little, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def unpack(entry: Entry, name: str) -> NDArray[Any]:
    """Return the array in one of a finding's `.npy` files.

    Raises
    ------
    UsageError
        If the finding has no file of this name.
    InfrastructureError
        If it is missing, was changed, or holds no array.
    """
    import numpy as np

    data = io.BytesIO(entry.read(name))
    try:
        array: NDArray[Any] = np.lib.format.read_array(data, allow_pickle=False)
    except (ValueError, EOFError, SyntaxError) as error:
        raise InfrastructureError(
            f"{entry.path / name} holds no array ({error}); read it as bytes, or store arrays "
            "with corpus.images.pack"
        ) from error
    return array
