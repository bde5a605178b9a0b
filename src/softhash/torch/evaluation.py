"""Exact softmax in PyTorch, a block of classes at a time: for evaluation, and as what sampling is compared with."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from softhash.torch.loss import Loss

LOGITS_PER_BLOCK = 2**24


def logits(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """hidden·weightᵀ + bias, in float32 at least."""
    exact = torch.promote_types(weight.dtype, torch.float32)
    out = hidden.to(exact) @ weight.to(exact).T
    return out if bias is None else out + bias.to(exact)


def exact_losses(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, class_weight: Tensor | None,
    label_smoothing: float,
) -> Loss:  # fmt: skip
    """F.cross_entropy without reduction, and log Z; blocks of classes, recomputed in the backward pass."""
    log_z = torch.full((len(hidden),), -torch.inf, dtype=hidden.dtype, device=hidden.device)
    mean_logit = torch.zeros_like(log_z)
    total = 0.0
    for block in blocks(len(hidden), len(weight)):
        parts = (
            weight[block],
            None if bias is None else bias[block],
            None if class_weight is None else class_weight[block],
        )
        top, weighted, mass = checkpoint(_block_sums, hidden, *parts, use_reentrant=False)
        log_z = torch.logaddexp(log_z, top)
        mean_logit, total = mean_logit + weighted, total + mass
    own = (hidden * weight[targets]).sum(1)
    own = own if bias is None else own + bias[targets]
    scale = 1.0 if class_weight is None else class_weight.to(hidden.dtype)[targets]
    losses = scale * (log_z - own)
    if label_smoothing:
        even = (total * log_z - mean_logit) / len(weight)
        losses = (1 - label_smoothing) * losses + label_smoothing * even
    return Loss(losses, log_z)


def _block_sums(hidden: Tensor, weight: Tensor, bias: Tensor | None, class_weight: Tensor | None):
    """(log Σ exp, Σ c·logit, Σ c) over one block of classes."""
    values = logits(hidden, weight, bias)
    scale = values.new_ones(values.shape[1]) if class_weight is None else class_weight.to(values.dtype)
    return values.logsumexp(1), values @ scale, scale.sum()


def top_k(hidden: Tensor, weight: Tensor, bias: Tensor | None, k: int) -> tuple[Tensor, Tensor]:
    """(log P, classes), each (Q, k), best first."""
    log_z = hidden.new_full((len(hidden),), -torch.inf, dtype=torch.promote_types(weight.dtype, torch.float32))
    values, classes = log_z.new_zeros((len(hidden), 0)), torch.zeros((len(hidden), 0), dtype=torch.int64)
    classes = classes.to(hidden.device)
    for block in blocks(len(hidden), len(weight)):
        scores = logits(hidden, weight[block], None if bias is None else bias[block])
        log_z = torch.logaddexp(log_z, scores.logsumexp(1))
        best, found = scores.topk(min(k, scores.shape[1]), dim=1)
        best, found = torch.cat([values, best], 1), torch.cat([classes, found + block.start], 1)
        values, order = best.topk(min(k, best.shape[1]), dim=1)
        classes = found.gather(1, order)
    return values - log_z[:, None], classes


def blocks(n_queries: int, n_classes: int) -> list[slice]:
    """Slices of the classes, so that a block of logits is bounded."""
    size = max(256, LOGITS_PER_BLOCK // max(n_queries, 1))
    return [slice(start, min(start + size, n_classes)) for start in range(0, n_classes, size)]


def check_hidden(hidden: Tensor, in_features: int) -> None:
    """Refuse what cannot be a batch of queries."""
    if not hidden.is_floating_point():
        raise TypeError(f"hidden has dtype {hidden.dtype}; pass floating-point activations")
    if hidden.ndim == 0 or hidden.shape[-1] != in_features:
        raise ValueError(f"hidden has shape {tuple(hidden.shape)}; pass (…, {in_features}), as in_features says")
    if not bool(torch.isfinite(hidden.detach().sum(dtype=torch.float64))) and not bool(torch.isfinite(hidden).all()):
        raise ValueError("hidden has NaN or infinity; training has diverged, or an input was not finite")


def check_targets(targets: Tensor, shape: torch.Size, n_classes: int, ignore_index: int) -> None:
    """Refuse targets that are not one class for each query."""
    if targets.dtype != torch.int64:
        raise TypeError(f"targets has dtype {targets.dtype}; pass int64 class numbers (targets.long())")
    if targets.shape != shape:
        raise ValueError(f"targets has shape {tuple(targets.shape)}; pass {tuple(shape)}, one class for each query")
    bad = targets[(targets != ignore_index) & ((targets < 0) | (targets >= n_classes))]
    if len(bad):
        raise IndexError(
            f"targets contains {int(bad[0])}; classes run from 0 to {n_classes - 1}, and {ignore_index} is ignored"
        )
