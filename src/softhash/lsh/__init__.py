"""The paper's sampler: SimHash tables whose bucket unions are samples of known inclusion probability."""

from softhash.lsh.sampler import LSH

__all__ = ["LSH"]
