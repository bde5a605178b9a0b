"""Output layers that train on log Ẑ from maxima of perturbed logits, over every class or over what hash tables return.

    loss = log Ẑ − logit of the target,    1/Ẑ = mean over draws j of exp(−H_j),    H_j = max_y (logit_y + G_yj).

The gradient flows through the classes that won: their logits are computed again as drawn pairs.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from softhash import checks
from softhash.kernels import draws as random
from softhash.kernels import gumbel
from softhash.kernels import tables as codes
from softhash.kernels._jit import inline, kernel, threads_for
from softhash.lsh import simhash
from softhash.lsh.tables import Tables
from softhash.torch.pairs import frozen, pair_logits

BITS, TABLES = 5, 16
STEPS_BETWEEN_HASHES = 50


class GumbelLoss(nn.Module):
    """The softmax loss with log Z estimated as the paper's two Gumbel methods do.

    Args:
        units, vocabulary: d and N.
        draws: maxima for each context.
        bank: fixed columns of noise they are chosen from.
        hashed: whether maxima are over what K=5, L=16 tables return (MIPS Gumbel), hashed anew every 50 steps.
        seed: of noise, planes and choices.
    """

    def __init__(
        self, units: int, vocabulary: int, draws: int = 50, bank: int = 1000, hashed: bool = False, seed: int = 0
    ):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.zeros(vocabulary, units)), nn.Parameter(torch.zeros(vocabulary))
        self.draws, self.bank, self.hashed, self.seed, self.step = draws, bank, hashed, seed, 0
        by_class = np.empty((vocabulary, bank), np.float32)
        gumbel.fill(checks.seeds(np.random.default_rng(seed), bank), 0, by_class)
        self._noise = np.ascontiguousarray(by_class.T)
        planes = simhash.planes(units + 1 + bank, BITS, TABLES, np.random.default_rng(seed))
        self._planes, self._bias_plane, self._column_planes = np.split(planes, [units, units + 1])

    def forward(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Mean over the contexts of the batch."""
        seeds = checks.seeds(np.random.default_rng([self.seed, self.step]), len(hidden))
        columns = random.without_replacement(seeds, self.draws, self.bank)
        with torch.no_grad():
            logits = nn.functional.linear(hidden, self.weight, self.bias).numpy()
        find = self._among_retrieved if self.hashed else self._among_all
        best = find(hidden.detach().numpy(), logits, columns)
        self.step += 1
        return self._loss(hidden, targets, columns, best)

    def _loss(self, hidden: Tensor, targets: Tensor, columns: NDArray, best: NDArray) -> Tensor:
        """log Ẑ from the classes that won, −1 where none was retrieved, less the logit of the target."""
        n_queries = len(hidden)
        found = torch.from_numpy(best >= 0)
        ids = torch.from_numpy(np.concatenate([np.maximum(best, 0), targets.numpy()[:, None]], axis=1)).long()
        offsets = torch.arange(n_queries + 1) * ids.shape[1]
        logits = pair_logits(hidden, self.weight, self.bias, offsets, ids.flatten()).view(n_queries, -1)
        perturbed = logits[:, :-1] + torch.from_numpy(self._noise[columns, np.maximum(best, 0)])
        log_inverse = torch.where(found, -perturbed, -torch.inf).logsumexp(1) - found.sum(1).clamp(min=1).log()
        return (-log_inverse - logits[:, -1])[found.any(1)].mean()

    def _among_all(self, hidden: NDArray, logits: NDArray, columns: NDArray) -> NDArray[np.int32]:
        """Winners among all classes."""
        return winners(logits, self._noise, columns)

    def _among_retrieved(self, hidden: NDArray, logits: NDArray, columns: NDArray) -> NDArray[np.int32]:
        """Winners among the classes in the buckets of (x, 1, e_j)."""
        if self.step % STEPS_BETWEEN_HASHES == 0:
            of_classes = frozen(self.weight) @ self._planes + np.outer(frozen(self.bias), self._bias_plane)
            self._tables = Tables.build(_packed(of_classes + self._noise.T @ self._column_planes), BITS)
        of_queries = hidden @ self._planes + self._bias_plane
        projections = of_queries[:, None] + self._column_planes[columns]
        first, last = self._tables.buckets(_packed(projections.reshape(columns.size, -1)))
        return retrieved_winners(logits, self._noise, columns, first, last, self._tables.ids)

    def get_extra_state(self) -> dict[str, Any]:
        """The step, from which choices follow, and the tables, which are older."""
        state: dict[str, Any] = {"step": self.step}
        if self.hashed and self.step:
            state["tables"] = [torch.from_numpy(part.view(np.int32)) for part in self._tables]
        return state

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.step = state["step"]
        if "tables" in state:
            ids, starts, sorted_codes = (part.numpy() for part in state["tables"])
            self._tables = Tables(ids, starts, sorted_codes.view(np.uint32))


def _packed(projections: NDArray) -> NDArray[np.uint32]:
    """Codes (TABLES, n)."""
    out = np.empty((TABLES, len(projections)), np.uint32)
    codes.pack(projections, BITS, out)
    return out


@inline
def largest_sum(logits, q, noise, j):
    """The largest logits[q, y] + noise[j, y]; a loop that vectorises."""
    best = np.float32(-3e38)
    for y in range(logits.shape[1]):
        best = max(best, logits[q, y] + noise[j, y])
    return best


@kernel(fastmath=False)
def _winners(logits, noise, columns, out):
    for q in numba.prange(columns.shape[0]):
        for k in range(columns.shape[1]):
            j = columns[q, k]
            best = largest_sum(logits, q, noise, j)
            y = 0
            while logits[q, y] + noise[j, y] != best and y < logits.shape[1] - 1:
                y += 1
            out[q, k] = y


def winners(logits: NDArray, noise: NDArray, columns: NDArray) -> NDArray[np.int32]:
    """(Q, draws) the class of the largest logits[q, y] + noise[columns[q, k], y]."""
    out = np.empty(columns.shape, np.int32)
    with threads_for(len(columns)):
        _winners(logits, noise, columns, out)
    return out


@kernel(fastmath=False)
def _retrieved_winners(logits, noise, columns, first, last, ids, out):
    for q in numba.prange(columns.shape[0]):
        for k in range(columns.shape[1]):
            j = columns[q, k]
            best = -np.inf
            out[q, k] = -1
            for t in range(ids.shape[0]):
                for slot in range(first[q * columns.shape[1] + k, t], last[q * columns.shape[1] + k, t]):
                    y = ids[t, slot]
                    value = logits[q, y] + noise[j, y]
                    if value > best:
                        best = value
                        out[q, k] = y


def retrieved_winners(
    logits: NDArray, noise: NDArray, columns: NDArray, first: NDArray, last: NDArray, ids: NDArray
) -> NDArray[np.int32]:
    """The same among the classes in buckets ids[t, first[q·draws + k, t]:last[…]]; −1 where there are none."""
    out = np.empty(columns.shape, np.int32)
    with threads_for(len(columns)):
        _retrieved_winners(logits, noise, columns, first, last, ids, out)
    return out
