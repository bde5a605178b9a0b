"""L hash tables of class numbers: CSR over all 2^K buckets while that is small, else over sorted codes."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from softhash import blas
from softhash.kernels import tables as kernels

ALWAYS_DIRECT_BITS = 12


class Tables(NamedTuple):
    """L tables over N classes.

    Attributes:
        ids: int32[L, N], classes by bucket, ascending within one.
        starts: int32[L, 2^K + 1], where each bucket starts; empty columns when codes are long.
        sorted_codes: uint32[L, N], the code of each entry of `ids`; empty columns when codes are short.
    """

    ids: NDArray[np.int32]
    starts: NDArray[np.int32]
    sorted_codes: NDArray[np.uint32]

    @classmethod
    def build(cls, codes: NDArray[np.uint32], bits: int) -> Self:
        """Tables from codes (L, N). Reading 2^K bucket starts beats searching N codes until they cost more memory."""
        n_tables, n_classes = codes.shape
        if bits <= ALWAYS_DIRECT_BITS or 2**bits <= 4 * n_classes:
            starts, ids = kernels.counting_sort(codes, 2**bits)
            return cls(ids, starts, np.empty((n_tables, 0), np.uint32))
        order = blas.map_blocks(lambda t: np.argsort(codes[t], axis=1, kind="stable").astype(np.int32), n_tables, 1)
        ids = np.concatenate(order)
        return cls(ids, np.empty((n_tables, 0), np.int32), np.take_along_axis(codes, ids, axis=1))

    def buckets(self, codes: NDArray[np.uint32]) -> tuple[NDArray, NDArray]:
        """(first, last), each (Q, L): the slots of `ids` that share the query codes (L, Q)."""
        if self.starts.shape[1]:
            table = np.arange(len(codes))[:, None]
            return self.starts[table, codes].T, self.starts[table, codes + np.uint32(1)].T
        sides = [
            [np.searchsorted(row, wanted, side) for row, wanted in zip(self.sorted_codes, codes, strict=True)]
            for side in ("left", "right")
        ]
        return np.stack(sides[0], axis=1), np.stack(sides[1], axis=1)

    def codes(self) -> NDArray[np.uint32]:
        """The codes (L, N) the tables were built from."""
        if self.starts.shape[1]:
            return kernels.codes_of_buckets(self.starts, self.ids)
        codes = np.empty_like(self.sorted_codes)
        np.put_along_axis(codes, self.ids, self.sorted_codes, axis=1)
        return codes

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return sum(array.nbytes for array in self)
