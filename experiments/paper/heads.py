"""The output layers that the paper trains with: a weight, a bias, and a loss over hidden states."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from softhash.torch import SampledSoftmaxLoss

PAPER_LSH = {"bits": 10, "tables": 16}
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


Head: TypeAlias = Standard | SampledSoftmaxLoss


class Cell(NamedTuple):
    """One cell of table 1: what it is called there, and its output layer for (dataset, units, vocabulary)."""

    label: str
    build: Callable[[str, int, int], Head]


def _sampled(sampler: str, size: int | None = None, **settings) -> Callable[[str, int, int], Head]:
    def build(dataset: str, units: int, vocabulary: int) -> Head:
        return SampledSoftmaxLoss(
            units, vocabulary, sampler=sampler, size=SAME_AS_LSH[dataset] if size is None else size, **settings
        )

    return build


CELLS = {
    "standard": Cell("Standard", lambda dataset, units, vocabulary: Standard(units, vocabulary)),
    "uniform": Cell("Uniform", _sampled("uniform")),
    "sketch-200": Cell("Sketch, 200 classes", _sampled("sketch", 200)),
    "sketch-50": Cell("Sketch, 50 classes", _sampled("sketch", 50)),
}
"""Cells by the name that --method takes."""
