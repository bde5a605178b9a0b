"""A recommender of 200 000 items, trained in about a minute: `python examples/two_tower.py`.

A session is a few items somebody looked at, and the one they looked at next. One tower makes a vector of what was seen,
the other is a vector for each item; the next item is log-linear in both, so every step is a softmax over the catalogue.
The sessions are synthetic: each belongs to one of 1000 interests, and items within an interest differ in popularity.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from softhash.torch import SampledSoftmaxLoss

INTERESTS, SEEN, DIM = 1000, 8, 64
BATCH, RATE = 512, 0.02


class TwoTower(nn.Module):
    """Items seen -> the loss of the next one."""

    def __init__(self, items: int) -> None:
        super().__init__()
        self.items_seen = nn.EmbeddingBag(items, DIM, mode="mean", sparse=True)
        nn.init.normal_(self.items_seen.weight, std=0.5)
        self.next_item = SampledSoftmaxLoss(DIM, items, sampler="sketch", size=100, sparse=True)

    def session(self, seen: Tensor) -> Tensor:
        """(n, DIM) for sessions (n, SEEN)."""
        return self.items_seen(seen)

    def forward(self, seen: Tensor, following: Tensor) -> Tensor:
        """Mean −log P of the items that follow; sampled in training, exact in eval()."""
        return self.next_item(self.session(seen), following)


def sessions(count: int, items: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """(seen, following): popularity falls as 1/rank within an interest, and interests are unequal too."""
    interest = zipf(INTERESTS, (count, 1), rng)
    within = zipf(items // INTERESTS, (count, SEEN + 1), rng)
    looked_at = torch.from_numpy(interest + INTERESTS * within)
    return looked_at[:, :-1], looked_at[:, -1]


def zipf(n: int, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
    """Numbers below n, k with probability in proportion to 1/(k + 5)."""
    running = np.cumsum(1 / (np.arange(n) + 5))
    return np.searchsorted(running, rng.random(shape) * running[-1])


def main() -> None:
    """Train, and say what was learnt and what it cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=200_000, help="size of the catalogue, a multiple of 1000")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    torch.manual_seed(chosen.seed)
    rng = np.random.default_rng(chosen.seed)
    model = TwoTower(chosen.items)
    held_out = sessions(256, chosen.items, np.random.default_rng(chosen.seed + 1))
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=RATE)
    report(model, held_out, "before")
    begun = time.perf_counter()
    for step in range(1, chosen.steps + 1):
        optimizer.zero_grad()
        loss = model(*sessions(BATCH, chosen.items, rng))
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            each = (time.perf_counter() - begun) / step
            print(f"step {step} of {chosen.steps}: loss {loss.item():.2f}, {1000 * each:.0f} ms per step", flush=True)
    report(model, held_out, "after")


@torch.no_grad()
def report(model: TwoTower, held_out: tuple[Tensor, Tensor], when: str) -> None:
    """Exact perplexity, and how often the next item is among the ten most probable of the catalogue."""
    seen, following = held_out
    perplexity = model.eval()(seen, following).exp()
    _, best = model.next_item.top_k(model.session(seen), 10)
    found = (best == following[:, None]).any(1).float().mean()
    model.train()
    print(f"{when}: perplexity {perplexity:,.0f}, next item among the first ten of the catalogue: {found:.1%}")


if __name__ == "__main__":
    main()
