"""The output layers that the paper trains with: a weight, a bias, and a loss over hidden states."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from experiments.paper.gumbel_head import GumbelLoss
from softhash.model import LogLinear
from softhash.torch import SampledSoftmaxLoss, Seen
from softhash.torch.samplers import factory
from softhash.types import Sampler

SAME_AS_LSH = {"ptb": 200, "text8": 800}
"""Classes that the paper's LSH draws for each context, and its uniform sampling with it."""


class Standard(nn.Module):
    """The softmax over all classes."""

    def __init__(self, units: int, vocabulary: int):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.zeros(vocabulary, units)), nn.Parameter(torch.zeros(vocabulary))

    def forward(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy."""
        return nn.functional.cross_entropy(nn.functional.linear(hidden, self.weight, self.bias), targets)


Head: TypeAlias = Standard | SampledSoftmaxLoss | GumbelLoss


class Cell(NamedTuple):
    """One cell of table 1.

    Attributes:
        label: what it is called there.
        build: its output layer for (dataset, units, vocabulary).
        shaken: seed of a disturbance of the initial output layer by a thousandth; None: not disturbed.
    """

    label: str
    build: Callable[[str, int, int], Head]
    shaken: int | None = None


def _sampled(sampler: str, size: int | None = None, **settings) -> Callable[[str, int, int], Head]:
    def build(dataset: str, units: int, vocabulary: int) -> Head:
        return SampledSoftmaxLoss(
            units, vocabulary, sampler=sampler, size=SAME_AS_LSH[dataset] if size is None else size, **settings
        )

    return build


TABLES = {"bits": 10, "tables": 16}
PAPER_LSH = {**TABLES, "refresh_every": 5}

CELLS = {
    "standard": Cell("Standard", lambda dataset, units, vocabulary: Standard(units, vocabulary)),
    "lsh": Cell("LSH, floor of 100 by frequency", _sampled("lsh", 200, **PAPER_LSH)),
    "uniform": Cell("Uniform", _sampled("uniform")),
    "prior": Cell("Prior, by frequency", _sampled("prior")),
    "gumbel": Cell("Exact Gumbel, 50 of 1000", lambda dataset, units, vocabulary: GumbelLoss(units, vocabulary)),
    "mips-gumbel": Cell(
        "MIPS Gumbel, 50 of 1000", lambda _, units, vocabulary: GumbelLoss(units, vocabulary, hashed=True)
    ),
    "sketch-200": Cell("Sketch, 200 classes", _sampled("sketch", 200)),
    "sketch-50": Cell("Sketch, 50 classes", _sampled("sketch", 50)),
}
"""Cells of table 1 by the name that --method takes."""


def _warmed_up(builds: int) -> Callable[[str, int, int], Head]:
    """LSH from the build of the index on that has this number; Prior before."""

    def build(dataset: str, units: int, vocabulary: int) -> Head:
        made: list[Sampler] = []
        lsh, prior = (factory(name, 200, 0, settings) for name, settings in (("lsh", TABLES), ("prior", {})))

        def sampler(model: LogLinear, seen: Seen) -> Sampler:
            made.append(prior(model, seen) if len(made) < builds else lsh(model, seen))
            return made[-1]

        return SampledSoftmaxLoss(units, vocabulary, sampler=sampler, refresh_every=PAPER_LSH["refresh_every"])

    return build


VARIANTS = {
    "standard": CELLS["standard"],
    "standard-shaken": CELLS["standard"]._replace(label="Standard, first weights shaken by a thousandth", shaken=1),
    "prior": CELLS["prior"],
    "sketch-200": CELLS["sketch-200"],
    "lsh": CELLS["lsh"],
    "no-floor": Cell("no floor", _sampled("lsh", 200, **PAPER_LSH, floor=0)),
    "even-floor": Cell("floor of 100 drawn evenly", _sampled("lsh", 200, **PAPER_LSH, floor_probabilities=None)),
    "wide-floor": Cell("floor of 200 by frequency", _sampled("lsh", 400, **PAPER_LSH)),
    "no-centre": Cell("classes not centred", _sampled("lsh", 200, **PAPER_LSH, center=False)),
    "mips": Cell('transform="mips"', _sampled("lsh", 200, **PAPER_LSH, transform="mips")),
    "refresh-50": Cell("hashed anew every 50 steps", _sampled("lsh", 200, **TABLES, refresh_every=50)),
    "refresh-1": Cell("hashed anew at every step", _sampled("lsh", 200, **TABLES, refresh_every=1)),
    "cut-150": Cell("union cut to 150 classes", _sampled("lsh", 200, **PAPER_LSH, cut=150)),
    "cap-100": Cell("no floor, 1/p at most 100", _sampled("lsh", 200, **PAPER_LSH, floor=0, largest_weight=100)),
    "short-codes": Cell("K = 7, L = 2", _sampled("lsh", 200, bits=7, tables=2, refresh_every=5)),
    "long-codes": Cell("K = 14, L = 64", _sampled("lsh", 200, bits=14, tables=64, refresh_every=5)),
    "warm-up": Cell("by frequency alone for 30 steps, then LSH", _warmed_up(3)),
}
"""What each part of training with LSH does, by the name that --variant takes."""
