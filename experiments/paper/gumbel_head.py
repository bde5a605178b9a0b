"""Output layers that train on log Ẑ from maxima of perturbed logits, over every class or over what hash tables return.

    loss = log Ẑ − logit of the target,    1/Ẑ = mean over draws j of exp(−H_j),    H_j = max_y (logit_y + G_yj).

The gradient flows through the classes that won: their logits are computed again as drawn pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from softhash import checks
from softhash.kernels import draws as random
from softhash.kernels import gumbel
from softhash.kernels import tables as codes
from softhash.lsh import simhash
from softhash.torch.pairs import Room, frozen, pair_logits

BITS, TABLES = 5, 16
STEPS_BETWEEN_HASHES = 50
LIST_LENGTH = 4
"""Square roots of the vocabulary that are listed of each column's largest variables."""


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
        self._seeds = checks.seeds(np.random.default_rng(seed), bank)
        self._earliest = gumbel.earliest(self._seeds, vocabulary, LIST_LENGTH * (1 + int(np.sqrt(vocabulary))))
        self._codes = np.empty((vocabulary, 0), np.uint8)
        self._room = Room()
        planes = simhash.planes(units + 1 + bank, BITS, TABLES, np.random.default_rng(seed))
        self._planes, self._column_planes = planes[: units + 1], planes[units + 1 :]
        if hashed:
            noise = np.empty((vocabulary, bank), np.float32)
            gumbel.fill(self._seeds, 0, noise)
            self._of_noise = noise @ self._column_planes

    def forward(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Mean over the contexts of the batch."""
        seeds = checks.seeds(np.random.default_rng([self.seed, self.step]), len(hidden))
        columns = random.without_replacement(seeds, self.draws, self.bank)
        if self.hashed and self.step % STEPS_BETWEEN_HASHES == 0:
            self._hash()
        winners = self._winners(hidden.detach(), columns)
        self.step += 1
        return self._loss(hidden, targets, columns, winners)

    def _loss(self, hidden: Tensor, targets: Tensor, columns: NDArray, winners: NDArray) -> Tensor:
        """log Ẑ from the classes that won, −1 where none was retrieved, less the logit of the target."""
        n_queries = len(hidden)
        found = torch.from_numpy(winners >= 0)
        classes = np.maximum(winners, 0)
        noise = np.empty(columns.shape, np.float32)
        gumbel.at(self._seeds[columns], classes, noise)
        ids = torch.from_numpy(np.concatenate([classes, targets.numpy()[:, None]], axis=1)).long()
        offsets = torch.arange(n_queries + 1) * ids.shape[1]
        logits = pair_logits(hidden, self.weight, self.bias, offsets, ids.flatten(), room=self._room)
        logits = logits.view(n_queries, -1)
        perturbed = logits[:, :-1] + torch.from_numpy(noise)
        log_inverse = torch.where(found, -perturbed, -torch.inf).logsumexp(1) - found.sum(1).clamp(min=1).log()
        return (-log_inverse - logits[:, -1])[found.any(1)].mean()

    @torch.no_grad()
    def _winners(self, hidden: Tensor, columns: NDArray) -> NDArray[np.int32]:
        """(Q, draws) the class of the largest perturbed logit: of all, or of those in the buckets of (x, 1, e_j)."""
        logits = nn.functional.linear(hidden, self.weight, self.bias).numpy()
        width = TABLES * BITS if self.hashed else 0
        planes = np.ascontiguousarray(self._column_planes[:, :width])
        projections = hidden.numpy() @ self._planes[:-1, :width] + self._planes[-1, :width]
        return gumbel.maxima(
            logits, columns, self._seeds, self._earliest, self._codes, projections, planes, BITS, rank=1
        )[1]

    def _hash(self) -> None:
        """Codes of (θ_y, b_y, G_y)."""
        projections = frozen(self.weight) @ self._planes[:-1] + np.outer(frozen(self.bias), self._planes[-1])
        packed = np.empty((TABLES, len(projections)), np.uint32)
        codes.pack(projections + self._of_noise, BITS, packed)
        self._codes = np.ascontiguousarray(packed.T, np.uint8)

    def get_extra_state(self) -> dict[str, Any]:
        """The step, from which choices follow, and the codes, which are older."""
        return {"step": self.step, "codes": torch.from_numpy(self._codes)}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.step, self._codes = state["step"], state["codes"].numpy()
