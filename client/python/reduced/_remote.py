"""Elements outside this process's memory."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ._client import Client
from ._sources import Source

Array = np.ndarray[Any, Any]


class Remote:
    """Elements on the GPU or with the daemon. Subclasses give a source, and a copy for what the daemon
    cannot reduce in place."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    fixed = False    # what is planned for these elements depends on shape, strides and type alone
    readable = True  # the elements can be copied into memory
    masks = False    # they can be reduced with a mask
    client: Client | None = None  # the one that holds them

    def source(self) -> Source:
        raise NotImplementedError

    def copy(self, why: str) -> Array:
        """The elements in memory."""
        raise NotImplementedError

    def rearranged(self, order: Sequence[int]) -> Remote | None:
        """A copy that is outside this process's memory, too, with its axes in this order, the slowest first. None: no copy can be made."""
        return None

    def pairs(self, view: str) -> Remote:
        """Complex numbers as a last axis of two floats."""
        raise NotImplementedError

    def part(self, first: int, n: int) -> Source:
        """The source of n consecutive elements."""
        raise NotImplementedError

    def masked(self, keep: Any) -> Source:
        """The source of the elements that count, for classes with `masks`. `keep` has bools in memory order, here or on the GPU."""
        raise NotImplementedError
