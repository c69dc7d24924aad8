"""Names for the types of arrays that several packages use."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Indices = NDArray[np.uint32]
Booleans = NDArray[np.bool_]
