"""The array types that signatures speak of, each defined here and nowhere else."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["AnyArray", "BoolArray", "FloatArray", "Index", "IntArray", "RowData"]

AnyArray: TypeAlias = NDArray[Any]
BoolArray: TypeAlias = NDArray[np.bool_]
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
#: Row numbers, or a slice of consecutive rows.
Index: TypeAlias = slice | IntArray
#: A 2-D ndarray, a CSR matrix or a 1-D object array: the three forms have no common static type.
RowData: TypeAlias = Any
