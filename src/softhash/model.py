"""The log-linear model: N class vectors and, perhaps, N biases."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softhash import checks
from softhash.kernels import score


class LogLinear:
    """P(y|x) = exp(θ_y·x + b_y) / Z(x), with Z(x) = Σ_y exp(θ_y·x + b_y).

    Args:
        weights: (N, d) class vectors. float32 C-contiguous arrays, memory-mapped ones included, are used without
            a copy, so later changes to them are seen; other real dtypes are converted.
        bias: (N,) or None.

    Attributes:
        weights: (N, d) float32.
        bias: (N,) float32 or None.

    Example:
        >>> import numpy as np, softhash as sh
        >>> model = sh.LogLinear(np.eye(3, dtype=np.float32))
        >>> model.n_classes, model.dim
        (3, 3)
        >>> model.logits(np.array([[1.0, 2.0, 3.0]]), ids=[2, 0]).tolist()
        [[3.0, 1.0]]
    """

    def __init__(self, weights: ArrayLike, bias: ArrayLike | None = None):
        self.weights = checks.matrix("weights", weights)
        if len(self.weights) > checks.MAX_CLASSES:
            raise ValueError(
                f"weights has {len(self.weights)} rows; at most {checks.MAX_CLASSES} classes are supported"
            )
        self.bias = None if bias is None else checks.vector("bias", bias, self.n_classes)
        # Kernels read the weights through a read-only view: one compiled version serves memory maps and arrays alike.
        self.rows = self.weights.view()
        self.rows.flags.writeable = False

    @property
    def n_classes(self) -> int:
        """N, the number of classes."""
        return self.weights.shape[0]

    @property
    def dim(self) -> int:
        """d, the dimension of a class vector."""
        return self.weights.shape[1]

    @property
    def bias_or_zeros(self) -> NDArray[np.float32]:
        """The biases kernels add: (N,), or a single zero that broadcasts when there is no bias."""
        return np.zeros(1, dtype=np.float32) if self.bias is None else self.bias

    def logits(self, queries: ArrayLike, ids: ArrayLike | None = None) -> NDArray[np.float32]:
        """Exact scores θ_y·x + b_y.

        Args:
            queries: (Q, d).
            ids: None for every class, giving (Q, N); (m,) for the same classes of every query, giving (Q, m);
                (Q, m) for each query's own, giving (Q, m).
        """
        queries = checks.queries(queries, self.dim)
        if ids is None:
            return queries @ self.weights.T + self.bias_or_zeros
        ids = checks.class_ids("ids", ids, self.n_classes)
        if ids.ndim == 1:
            bias = 0 if self.bias is None else self.bias[ids]
            return queries @ self.weights[ids].T + bias
        if ids.ndim != 2 or len(ids) != len(queries):
            raise ValueError(f"ids has shape {ids.shape}; pass (m,) or ({len(queries)}, m), one row per query")
        offsets = np.arange(len(queries) + 1, dtype=np.int64) * ids.shape[1]
        return score.logits(self.rows, self.bias_or_zeros, queries, offsets, ids.ravel()).reshape(ids.shape)
