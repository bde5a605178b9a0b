"""Gradient clipping that knows sparse gradients, which PyTorch's own does not."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from softhash import checks


@torch.no_grad()
def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale gradients, dense and sparse, so that their joint 2-norm is at most `max_norm`; returns the norm before.

    For dense gradients alone it is torch.nn.utils.clip_grad_norm_.

    Example:
        >>> import torch
        >>> from softhash.torch import SampledSoftmaxLoss, clip_grad_norm_
        >>> head = SampledSoftmaxLoss(16, 1000, size=50, sparse=True)
        >>> head(torch.randn(8, 16), torch.randint(1000, (8,))).backward()
        >>> norm = clip_grad_norm_(head.parameters(), 0.1)
        >>> bool(torch.isclose(clip_grad_norm_(head.parameters(), 0.1), torch.tensor(0.1), rtol=1e-3))
        True
    """
    checks.number("max_norm", max_norm, least=0)
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    values = [_values(parameter) for parameter in parameters if parameter.grad is not None]
    if not values:
        return torch.tensor(0.0)
    norms = [torch.linalg.vector_norm(value, dtype=torch.float32).to(values[0].device) for value in values]
    total = torch.linalg.vector_norm(torch.stack(norms))
    scale = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for value in values:
        value.mul_(scale.to(value.device, value.dtype))
    return total


def _values(parameter: Tensor) -> Tensor:
    """The numbers of a gradient, each once; those of a sparse one share its memory."""
    assert parameter.grad is not None
    if not parameter.grad.is_sparse:
        return parameter.grad
    if not parameter.grad.is_coalesced():
        parameter.grad = parameter.grad.coalesce()
    return parameter.grad._values()
