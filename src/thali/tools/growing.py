"""Arrays that can grow at their end, for kernels that read whole vectors."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thali.tools.lanes import WIDTH

# A cache line, in bytes.
LINE = 64


class GrowingArray:
    """An array with spare capacity at its end. ``view`` is the part in use; it starts on a cache line.

    Added entries do not appear in earlier views. To keep an earlier view from changing at all, call :meth:`share` when
    you take it, and :meth:`own` before you change an entry.
    """

    def __init__(self, size: int, dtype: Any, tail: tuple[int, ...] = ()) -> None:
        self._dtype, self._tail = np.dtype(dtype), tail
        self._all = self._zeros(size + size // 8)
        self.view = self._all[:size]
        self._shared = False

    @classmethod
    def of(cls, values: NDArray[Any], dtype: Any) -> Self:
        """Return a copy of values (n,)."""
        array = cls(len(values), dtype)
        array.view[:] = values
        return array

    def _zeros(self, size: int) -> NDArray[Any]:
        """Return zeros with some padding, because kernels read whole vectors, even past the end of the part in use."""
        each = self._dtype.itemsize * int(np.prod(self._tail, dtype=np.int64))
        whole = np.zeros((size + 64) * each + LINE, dtype=np.uint8)
        skip = -whole.ctypes.data % LINE
        array: NDArray[Any] = whole[skip : skip + (size + 64) * each].view(self._dtype).reshape(-1, *self._tail)
        return array

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
            self._all, self._shared = larger, False
        self.view = self._all[:size]
        return self.view[start:]

    def share(self) -> NDArray[Any]:
        """Return the part in use, which must not change from now on."""
        self._shared = True
        return self.view

    def own(self) -> NDArray[Any]:
        """Return the part in use, in order to change it. If it is shared, copy it first."""
        if self._shared:
            copy, size = self._zeros(len(self._all)), len(self.view)
            copy[:size] = self.view
            self._all, self.view, self._shared = copy, copy[:size], False
        return self.view
