"""Arrays that can grow at their end, for kernels that read whole vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thali.tools.lanes import LINE, WIDTH


class GrowingArray:
    """An array with spare capacity at its end. ``view`` is the part in use; it starts on a cache line."""

    def __init__(self, size: int, dtype: Any, tail: tuple[int, ...] = ()) -> None:
        self._dtype, self._tail = np.dtype(dtype), tail
        self._all = self._zeros(size + size // 8)
        self.view = self._all[:size]

    def _zeros(self, size: int) -> NDArray[Any]:
        """Return zeros with some padding, because kernels read whole vectors, even past the end of the part in use."""
        each = self._dtype.itemsize * int(np.prod(self._tail, dtype=np.int64))
        whole = np.zeros((size + 64) * each + LINE, dtype=np.uint8)
        skip = -whole.ctypes.data % LINE
        array: NDArray[Any] = whole[skip : skip + (size + 64) * each].view(self._dtype).reshape(-1, *self._tail)
        return array

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a copy of the part in use. (A view and its base would be restored as two separate arrays.)"""
        return _restore, (np.array(self.view),)

    @property
    def nbytes(self) -> int:
        """The number of bytes allocated, including spare capacity."""
        return self._all.nbytes

    def extend(self, count: int) -> NDArray[Any]:
        """Add count entries and return them. If the spare capacity is too small, copy everything to a larger array."""
        start = len(self.view)
        size = start + count
        if size + WIDTH > len(self._all):
            larger = self._zeros(size + size // 2)
            larger[:start] = self.view
            self._all = larger
        self.view = self._all[:size]
        return self.view[start:]


def _restore(array: NDArray[Any]) -> GrowingArray:
    restored = GrowingArray(len(array), array.dtype, array.shape[1:])
    restored.view[:] = array
    return restored
