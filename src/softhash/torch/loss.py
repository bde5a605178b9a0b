"""The softmax loss over a sample of classes, as a plain function."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from softhash import checks
from softhash.kernels import ragged
from softhash.torch.pairs import Room, owners, pair_logits
from softhash.types import Sample

REDUCTIONS = ("none", "mean", "sum")


class Loss(NamedTuple):
    """A loss and, differentiable too, the log Ẑ of each query."""

    loss: Tensor
    log_z: Tensor


def sampled_softmax_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, sample: Sample, *, reduction: str = "mean",
    class_weight: Tensor | None = None, label_smoothing: float = 0.0, smoothed_over: Tensor | None = None,
    sparse: bool = False, largest_weight: float | None = None, current: bool = False,
    room: Room | None = None,
) -> Loss:  # fmt: skip
    """log Ẑ(x) − logit of the target, with Ẑ = Σ_{i drawn} exp(logit_i) / p_i and the target drawn with certainty.

    Its gradient is that of the softmax cross-entropy with P(i|x) replaced by exp(logit_i) / (p_i Ẑ) on the classes
    drawn; rows of other classes are not touched. With every class drawn at p = 1 it is F.cross_entropy.

    Args:
        hidden: (Q, d).
        weight: (N, d).
        bias: (N,), or None.
        targets: int64 (Q,), in [0, N).
        sample: classes drawn for `hidden` by any sampler; targets are added, and counted once.
        reduction: "none", "mean" or "sum".
        class_weight: (N,) weight of each class as a target, as in F.cross_entropy.
        label_smoothing: share of the target's probability that is spread over all classes.
        smoothed_over: int64 (m,), classes drawn uniformly that stand for all classes in the smoothed part, so that its
            gradient touches their rows only; None: all classes.
        sparse: whether gradients of weight and bias are sparse.
        largest_weight: cap on 1/p. It makes Ẑ too small, by the mass of the classes with a smaller p that
            were not drawn; None: no cap, no bias.
        current: whether sample.logits were computed with these very weights, which saves computing them again.
        room: where the dense gradient of weight goes, so that each step need not ask for new memory; None: new memory.

    Returns:
        The loss, and log Ẑ (Q,) for terms of one's own, such as a z-loss.

    Example:
        >>> import softhash as sh, torch
        >>> from softhash.torch import sampled_softmax_loss
        >>> x, w, y = torch.ones(1, 2), torch.eye(3, 2), torch.tensor([1])
        >>> everything = sh.Uniform(sh.LogLinear(w.numpy()), size=3).sample(x.numpy())
        >>> loss = sampled_softmax_loss(x, w, None, y, everything).loss
        >>> bool(torch.isclose(loss, torch.nn.functional.cross_entropy(x @ w.T, y)))
        True

    Reference: Spring & Shrivastava (2017), section 6.1; Jean et al. (2015) for training on sampled classes.
    """
    checks.choice("reduction", reduction, REDUCTIONS)
    offsets, ids, log_count, known = with_targets(sample, hidden, weight, bias, targets)
    if largest_weight is not None:
        log_count = log_count.clamp(min=-math.log(checks.number("largest_weight", largest_weight, least=1)))
    logits = pair_logits(hidden, weight, bias, offsets, ids, known=known if current else None, sparse=sparse, room=room)
    log_z = segment_logsumexp(logits - log_count.to(logits.dtype), offsets)
    losses = log_z - logits[offsets[1:] - 1]
    scale = torch.ones_like(losses) if class_weight is None else class_weight.to(losses.dtype)[targets]
    losses = scale * losses
    if label_smoothing:
        even = smoothed_part(hidden, weight, bias, log_z, class_weight, smoothed_over, sparse)
        losses = (1 - label_smoothing) * losses + label_smoothing * even
    if reduction == "none":
        return Loss(losses, log_z)
    total = losses.sum()
    return Loss(total / scale.sum() if reduction == "mean" else total, log_z)


def with_targets(sample: Sample, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor):
    """(offsets, ids, log expected counts, logits) on the device of `hidden`, each query's target in its last slot."""
    checks.same_length("targets", len(targets), "hidden", len(hidden))
    checks.same_length("sample", len(sample.offsets) - 1, "hidden", len(hidden))
    with torch.no_grad():
        logits = (hidden * weight[targets]).sum(1)
        logits = (logits if bias is None else logits + bias[targets]).float().cpu().numpy()
    chosen = targets.cpu().numpy().astype(np.int32)
    offsets, ids, logits, log_count = map(torch.from_numpy, ragged.with_targets(*sample[:4], chosen, logits))
    device = hidden.device
    return offsets.to(device), ids.long().to(device), log_count.to(device), logits.to(device)


def smoothed_part(hidden, weight, bias, log_z, class_weight, smoothed_over, sparse) -> Tensor:
    """(1/N) Σ_i c_i (log Ẑ − logit_i), c the class weights; where `smoothed_over` is given, the mean over those."""
    if smoothed_over is None:
        share = (weight.new_ones(len(weight)) if class_weight is None else class_weight.to(weight.dtype)) / len(weight)
        mean_logit = hidden @ (share @ weight)
        if bias is not None:
            mean_logit = mean_logit + share @ bias
        return share.sum().to(log_z.dtype) * log_z - mean_logit.to(log_z.dtype)
    count, n_queries = len(smoothed_over), len(hidden)
    offsets = torch.arange(n_queries + 1, device=hidden.device) * count
    logits = pair_logits(hidden, weight, bias, offsets, smoothed_over.repeat(n_queries), sparse=sparse)
    share = logits.new_ones(count) if class_weight is None else class_weight.to(logits.dtype)[smoothed_over]
    return (share * (log_z[:, None] - logits.view(n_queries, count))).mean(1)


def segment_logsumexp(values: Tensor, offsets: Tensor) -> Tensor:
    """log Σ exp of each CSR segment, none of them empty, through its maximum."""
    top = torch.segment_reduce(values.detach(), "max", offsets=offsets)
    owner = owners(offsets)
    return top + torch.zeros_like(top).index_add(0, owner, (values - top[owner]).exp()).log()
