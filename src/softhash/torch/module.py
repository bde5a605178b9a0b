"""An output layer and its loss in one module: what replaces nn.Linear and nn.CrossEntropyLoss."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from softhash import checks
from softhash.torch import evaluation
from softhash.torch.index import ADAPTIVE, TrainingIndex
from softhash.torch.loss import REDUCTIONS, Loss, sampled_softmax_loss
from softhash.torch.pairs import Room
from softhash.torch.samplers import Factory, factory

SMOOTHED_OVER = 1024


class SampledSoftmaxLoss(nn.Module):
    """Softmax cross-entropy over very many classes, from a few of them at each training step.

        loss(x, y) = log Ẑ(x) − θ_y·x − b_y,    Ẑ(x) = exp(θ_y·x + b_y) + Σ_{i drawn, i ≠ y} exp(θ_i·x + b_i) / p_i.

    In `eval()` mode the loss is exact. Forward and backward touch only rows that were drawn; the target always is.

    Args:
        in_features: d.
        n_classes: N.
        bias: whether there is a bias for each class.
        sampler: "sketch", "lsh", "uniform", "prior" (in proportion to targets seen) or "topk"; or a function
            (model, seen) -> Sampler, with `seen` a `Seen`.
        size: classes drawn per query; "lsh" draws half of them in proportion to targets seen, and all in its buckets.
        refresh_every: steps between refreshes of the index; or "adaptive", when the sampler's own error has grown.
        reduction: "none", "mean" or "sum".
        ignore_index: targets with this value count for nothing.
        sparse: whether gradients of weight and bias are sparse tensors, for torch.optim.SparseAdam or Adagrad.
        class_weight: (N,) weight of each class as a target.
        label_smoothing: share of the target's probability spread over all classes; with `sparse`, over 1024
            classes drawn uniformly at each step, which is unbiased.
        largest_weight: cap on 1/p, see `sampled_softmax_loss`; None: none.
        seed: of the index and of all draws.
        device: of the parameters.
        dtype: of the parameters.
        settings: further arguments of the sampler, such as bits=10, tables=16 for "lsh" (whose own `size` is `cut`).

    Attributes:
        weight: (N, d), initialised as in nn.Linear.
        bias: (N,) likewise, or None.

    Shapes:
        hidden (…, d), targets int64 (…); the loss is a scalar, or (…) where reduction is "none".

    Example:
        >>> import torch
        >>> from softhash.torch import SampledSoftmaxLoss
        >>> head = SampledSoftmaxLoss(16, 1000, size=50)
        >>> hidden, targets = torch.randn(8, 16), torch.randint(1000, (8,))
        >>> head(hidden, targets).backward()
        >>> head.eval().log_prob(hidden).shape
        torch.Size([8, 1000])

    Reference: docs/theory.md; Spring & Shrivastava (2017), section 6.1.
    """

    weight: nn.Parameter
    bias: nn.Parameter | None
    class_weight: Tensor | None

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        bias: bool = True,
        sampler: str | Factory = "sketch",
        size: int = 200,
        refresh_every: int | str = 50,
        reduction: str = "mean",
        ignore_index: int = -100,
        sparse: bool = False,
        *,
        class_weight: Tensor | None = None,
        label_smoothing: float = 0.0,
        largest_weight: float | None = None,
        seed: int = 0,
        device: Any = None,
        dtype: torch.dtype | None = None,
        **settings: Any,
    ):
        super().__init__()
        self.in_features = checks.positive_int("in_features", in_features)
        self.n_classes = checks.positive_int("n_classes", n_classes, most=checks.MAX_CLASSES)
        self.size = checks.positive_int("size", size)
        self.reduction = checks.choice("reduction", reduction, REDUCTIONS)
        self.ignore_index, self.sparse = int(ignore_index), bool(sparse)
        self.label_smoothing = checks.number("label_smoothing", label_smoothing, least=0, most=1)
        self.largest_weight = largest_weight
        self.seed = checks.positive_int("seed", seed, least=0)
        self.weight = nn.Parameter(torch.empty(n_classes, in_features, device=device, dtype=dtype))
        self.register_parameter(
            "bias", nn.Parameter(torch.empty(n_classes, device=device, dtype=dtype)) if bias else None
        )
        if class_weight is not None and class_weight.shape != (n_classes,):
            raise ValueError(f"class_weight has shape {tuple(class_weight.shape)}; pass ({n_classes},)")
        self.register_buffer("class_weight", None if class_weight is None else class_weight.detach().clone())
        self.settings = {"sampler": sampler, "refresh_every": refresh_every, **settings}
        self.index = self._new_index()
        self._room = Room()
        self.reset_parameters()

    def _new_index(self) -> TrainingIndex:
        settings = dict(self.settings)
        sampler, refresh_every = settings.pop("sampler"), settings.pop("refresh_every")
        return TrainingIndex(factory(sampler, self.size, self.seed, settings), self.n_classes, self.seed, refresh_every)

    def reset_parameters(self) -> None:
        """Uniform in ± 1/√d, as nn.Linear does."""
        bound = 1 / math.sqrt(self.in_features)
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    @torch.compiler.disable
    def forward(self, hidden: Tensor, targets: Tensor, return_log_z: bool = False) -> Tensor | Loss:
        """The loss of hidden (…, d) against targets (…).

        Args:
            return_log_z: whether to return a Loss, (loss, log Ẑ of shape (…)), both differentiable; log Ẑ is 0 where
                targets are ignored.
        """
        evaluation.check_hidden(hidden, self.in_features)
        flat, wanted = hidden.reshape(-1, self.in_features), targets.reshape(-1)
        evaluation.check_targets(targets, hidden.shape[:-1], self.n_classes, self.ignore_index)
        kept = wanted != self.ignore_index
        everything = bool(kept.all())
        losses, log_z, scale = self._losses(*((flat, wanted) if everything else (flat[kept], wanted[kept])))
        if not everything:
            losses, log_z = (part.new_zeros(len(flat)).masked_scatter(kept, part) for part in (losses, log_z))
        loss = losses.view(targets.shape) if self.reduction == "none" else losses.sum()
        if self.reduction == "mean":
            loss = loss / scale.sum()
        return Loss(loss, log_z.view(targets.shape)) if return_log_z else loss

    def _losses(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(loss, log Ẑ, class weight) of each query."""
        exact = torch.promote_types(self.weight.dtype, torch.float32)
        hidden = hidden.to(exact)
        scale = hidden.new_ones(len(targets)) if self.class_weight is None else self.class_weight[targets].to(exact)
        if not len(targets):
            return hidden.sum(1), hidden.sum(1), scale
        with torch.autocast(hidden.device.type, enabled=False):
            if self.training:
                parts = self._sampled(hidden, targets)
            else:
                parts = evaluation.exact_losses(
                    hidden, self.weight, self.bias, targets, self.class_weight, self.label_smoothing
                )
        return parts.loss, parts.log_z, scale

    def _sampled(self, hidden: Tensor, targets: Tensor) -> Loss:
        queries = hidden.detach().to("cpu", torch.float32).contiguous().numpy()
        smoothed_over = None
        if self.label_smoothing and self.sparse and self.n_classes > SMOOTHED_OVER:
            rng = np.random.default_rng([self.seed, self.index.step, 1])
            chosen = rng.choice(self.n_classes, SMOOTHED_OVER, replace=False)
            smoothed_over = torch.from_numpy(np.sort(chosen)).to(hidden.device)
        elif self.label_smoothing and self.sparse:
            smoothed_over = torch.arange(self.n_classes, device=hidden.device)
        sample, current = self.index.sample(self.weight, self.bias, queries, targets.cpu().numpy())
        return sampled_softmax_loss(
            hidden, self.weight, self.bias, targets, sample, reduction="none", class_weight=self.class_weight,
            label_smoothing=self.label_smoothing, smoothed_over=smoothed_over, sparse=self.sparse,
            largest_weight=self.largest_weight, current=current, room=self._room,
        )  # fmt: skip

    @torch.no_grad()
    def log_prob(self, hidden: Tensor) -> Tensor:
        """Exact log P of every class: (…, N) for hidden (…, d)."""
        evaluation.check_hidden(hidden, self.in_features)
        return evaluation.logits(hidden, self.weight, self.bias).log_softmax(-1)

    @torch.no_grad()
    def predict(self, hidden: Tensor) -> Tensor:
        """The most probable class, int64 (…), exactly and in blocks of classes."""
        return self.top_k(hidden, 1)[1][..., 0]

    @torch.no_grad()
    def top_k(self, hidden: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Log-probabilities and classes (…, k) of the k most probable, exactly and in blocks of classes."""
        evaluation.check_hidden(hidden, self.in_features)
        checks.positive_int("k", k, most=self.n_classes)
        flat = hidden.reshape(-1, self.in_features)
        values, classes = evaluation.top_k(flat, self.weight, self.bias, k)
        return values.view(*hidden.shape[:-1], k), classes.view(*hidden.shape[:-1], k)

    def refresh(self) -> None:
        """Index the weights anew at the next step, whatever the schedule says: call it after changing them by hand."""
        self.index.rebuild_after = 0

    def get_extra_state(self) -> dict[str, Any]:
        """The index and its place in the schedule, so that training resumes with the same draws."""
        return self.index.state()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take on what `get_extra_state` gave."""
        self.index.hold(state)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and deepcopy: the index as its state, because its sampler sees these very weights."""
        state = self.__dict__.copy()
        state["index"] = self.index.state()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        held = state.pop("index")
        super().__setstate__(state)
        self.index = self._new_index()
        self.index.hold(held)

    def extra_repr(self) -> str:
        """What print shows."""
        parts = {name: value for name, value in self.settings.items() if not (name == "refresh_every" and value == 50)}
        shown = ", ".join(f"{name}={value!r}" for name, value in parts.items())
        return f"{self.in_features}, {self.n_classes}, bias={self.bias is not None}, size={self.size}, {shown}"


__all__ = ["ADAPTIVE", "SampledSoftmaxLoss"]
