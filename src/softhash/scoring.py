"""What people want log Z for: log-probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softhash import checks
from softhash.model import LogLinear
from softhash.types import Estimator


def log_prob(
    model: LogLinear, queries: ArrayLike, targets: ArrayLike, estimator: Estimator, *, rng: checks.Seed = None
) -> NDArray[np.float64]:
    """log P(target|x) = logit of the target − log Ẑ(x).

    An estimate below the target's own weight would make a probability above one; the value is returned as it is,
    because clipping would bias sums of it.

    Args:
        model: the model the targets belong to.
        queries: (Q, d).
        targets: int[Q].
        estimator: anything with `log_partition`.
        rng: passed on to the estimator.

    Returns:
        float64[Q].

    Example:
        >>> import numpy as np, softhash as sh
        >>> model = sh.LogLinear(np.zeros((4, 2)))
        >>> bool(np.isclose(sh.log_prob(model, np.ones((1, 2)), [3], sh.Exact(model))[0], -np.log(4)))
        True
    """
    queries = checks.queries(queries, model.dim)
    targets = checks.targets(targets, len(queries), model.n_classes)
    logits = model.logits(queries, targets[:, None])[:, 0].astype(np.float64)
    return logits - estimator.log_partition(queries, rng=rng).log_z
