"""Logits of drawn pairs as a differentiable function that touches the drawn rows only."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from softhash.kernels import pairs as kernels
from softhash.kernels import score

ELEMENTS_PER_BLOCK = 2**24
REFERENCES_WHEN_FREE = 2
"""To an array that only a Room holds, as sys.getrefcount counts."""


class Room:
    """Memory for a dense gradient, given again once nothing holds the gradient any more.

    The operating system clears new memory before it is filled, which takes longer than filling it.
    """

    def __init__(self) -> None:
        self._kept: np.ndarray | None = None

    def array(self, shape: tuple[int, ...]) -> np.ndarray:
        """float32 of this shape, with anything in it."""
        if self._kept is None or self._kept.shape != shape or sys.getrefcount(self._kept) > REFERENCES_WHEN_FREE:
            self._kept = np.empty(shape, np.float32)
        return self._kept

    def __reduce__(self) -> tuple[type, tuple]:
        """Copies and pickles begin empty."""
        return Room, ()


def pair_logits(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, offsets: Tensor, ids: Tensor,
    *, known: Tensor | None = None, sparse: bool = False, room: Room | None = None,
) -> Tensor:  # fmt: skip
    """θ_i·x_q + b_i for every pair (q, i) of a CSR batch.

    On CPU in float32 compiled kernels read and write each class row once per batch; on other devices and in other types
    the same mathematics runs in PyTorch operations, a bounded block of pairs at a time.

    Args:
        hidden: (Q, d).
        weight: (N, d).
        bias: (N,) or None.
        offsets: int64 (Q + 1,); query q owns the pairs offsets[q]:offsets[q+1].
        ids: int64 (M,), the class of each pair.
        known: (M,) the logits, where they are known already; only gradients are computed then.
        sparse: whether the gradients of weight and bias are sparse tensors.
        room: where the gradient of weight goes; None: new memory.
    """
    return PairLogits.apply(hidden, weight, bias, offsets, ids, known, sparse, room or Room())  # type: ignore[no-any-return]


class PairLogits(Function):
    """The autograd side of `pair_logits`."""

    @staticmethod
    def forward(ctx: Any, hidden, weight, bias, offsets, ids, known, sparse, room) -> Tensor:
        ctx.save_for_backward(hidden, weight, offsets, ids)
        ctx.sparse, ctx.room = sparse, room
        if known is not None:
            return known.clone()
        if compiled(hidden, weight):
            no_bias = np.zeros(1, np.float32)
            biases = no_bias if bias is None else frozen(bias)
            out = score.logits(frozen(weight), biases, frozen(hidden), frozen(offsets), as_int32(ids))
            return torch.from_numpy(out)
        exact = torch.promote_types(hidden.dtype, torch.float32)
        parts = [(hidden[q].to(exact) * weight[i].to(exact)).sum(1) for _, q, i in blocks(offsets, ids, weight)]
        return torch.cat(parts) if bias is None else torch.cat(parts) + bias[ids].to(exact)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor):
        hidden, weight, offsets, ids = ctx.saved_tensors
        wants_hidden, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        gradient = gradient.contiguous()
        if compiled(hidden, weight):
            parts = by_kernel(gradient, hidden, weight, offsets, ids, None if ctx.sparse else ctx.room)
        else:
            parts = by_torch(gradient, hidden, weight, offsets, ids, ctx.sparse)
        for_hidden, classes, rows, biases = parts
        for_hidden = for_hidden if wants_hidden else None
        for_weight = rows if wants_weight else None
        for_bias = biases if wants_bias else None
        if ctx.sparse:
            for_weight = None if for_weight is None else in_place(classes, for_weight, weight.shape)
            for_bias = None if for_bias is None else in_place(classes, for_bias, weight.shape[:1])
        return for_hidden, for_weight, for_bias, None, None, None, None, None


def compiled(hidden: Tensor, weight: Tensor) -> bool:
    """Whether the kernels can work on these."""
    return all(t.device.type == "cpu" and t.dtype == torch.float32 for t in (hidden, weight))


def by_kernel(gradient, hidden, weight, offsets, ids, room):
    """(∂/∂hidden, classes that occur, ∂/∂ their rows and biases) by compiled loops; rows of all in `room`, if given."""
    every = None if room is None else room.array(weight.shape)
    found = kernels.gradients(gradient.numpy(), frozen(hidden), frozen(weight), frozen(offsets), as_int32(ids), every)
    return tuple(map(torch.from_numpy, found))


def by_torch(gradient, hidden, weight, offsets, ids, sparse):
    """The same in PyTorch operations, in float32 at least."""
    exact = torch.promote_types(hidden.dtype, torch.float32)
    found, slot = torch.unique(ids, return_inverse=True) if sparse else (None, ids)
    n_rows = len(weight) if found is None else len(found)
    for_hidden = hidden.new_zeros(hidden.shape, dtype=exact)
    rows = weight.new_zeros((n_rows, weight.shape[1]), dtype=exact)
    for which, q, i in blocks(offsets, ids, weight):
        g = gradient[which, None].to(exact)
        for_hidden.index_add_(0, q, g * weight[i].to(exact))
        rows.index_add_(0, slot[which], g * hidden[q].to(exact))
    biases = weight.new_zeros(n_rows, dtype=exact).index_add_(0, slot, gradient.to(exact))
    return for_hidden.to(hidden.dtype), found, rows.to(weight.dtype), biases.to(weight.dtype)


def in_place(classes: Any, values: Tensor, shape: torch.Size) -> Tensor:
    """A sparse tensor with these rows; classes are distinct and ascending."""
    return torch.sparse_coo_tensor(classes.long()[None], values, shape, is_coalesced=True, check_invariants=False)


def blocks(offsets: Tensor, ids: Tensor, weight: Tensor):
    """(slice of pairs, their queries, their classes), a bounded number at a time."""
    owner = owners(offsets)
    size = max(1, ELEMENTS_PER_BLOCK // weight.shape[1])
    for start in range(0, max(len(ids), 1), size):
        which = slice(start, start + size)
        yield which, owner[which], ids[which]


def owners(offsets: Tensor) -> Tensor:
    """The query of each pair."""
    return torch.repeat_interleave(torch.arange(len(offsets) - 1, device=offsets.device), offsets.diff())


def frozen(tensor: Tensor) -> np.ndarray:
    """A read-only view, as kernels are compiled for."""
    view = tensor.detach().contiguous().numpy()
    view = view.view()
    view.flags.writeable = False
    return view


def as_int32(ids: Tensor) -> np.ndarray:
    """Class numbers as kernels take them."""
    return ids.numpy().astype(np.int32, copy=False)
