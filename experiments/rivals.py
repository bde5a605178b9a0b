"""Exact log Z by PyTorch, at its best: the fastest of several block sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import softhash as sh
from experiments import timing

BLOCKS = (512, 2048, 8192, 32_768)


def torch_exact(model: sh.LogLinear, dtype: torch.dtype) -> Callable[[NDArray], NDArray[np.float64]]:
    """log Z of a batch: matrix products in `dtype`, exponentials in float32, classes in blocks.

    The block size is the fastest of several on the first batch of each size.
    """
    weights = torch.from_numpy(np.asarray(model.weights)).to(dtype)
    bias = None if model.bias is None else torch.from_numpy(model.bias)
    chosen: dict[int, int] = {}

    @torch.no_grad()
    def log_z(queries: NDArray) -> NDArray[np.float64]:
        batch = torch.from_numpy(queries).to(dtype)
        if len(batch) not in chosen:
            sizes = [size for size in BLOCKS if size * len(batch) <= 2**26] + [len(weights)] * (len(batch) <= 8)
            work = {str(size): lambda size=size: by_blocks(batch, weights, bias, size) for size in sizes}
            chosen[len(batch)] = int(timing.fastest(work))
        return by_blocks(batch, weights, bias, chosen[len(batch)]).numpy().astype(np.float64)

    return log_z


def by_blocks(queries: Tensor, weights: Tensor, bias: Tensor | None, size: int) -> Tensor:
    """log Σ exp(queries·weightsᵀ + bias), `size` classes at a time."""
    parts = []
    for start in range(0, len(weights), size):
        logits = (queries @ weights[start : start + size].T).float()
        if bias is not None:
            logits += bias[start : start + size]
        top = logits.amax(1, keepdim=True)
        parts.append(top[:, 0] + logits.sub_(top).exp_().sum(1).log())
    return torch.logsumexp(torch.stack(parts), 0)
