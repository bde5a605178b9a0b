"""The index behind a training loss: over weights that move, refreshed on a schedule, saved with the parameters."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softhash import checks
from softhash.model import LogLinear
from softhash.torch.pairs import frozen
from softhash.torch.samplers import Factory, Seen, renew
from softhash.types import Sample, Sampler

ADAPTIVE = "adaptive"
RECENT_QUERIES = 2048
LONGEST_UNTIL_REBUILT = 1600
LEAST_WAIT, MOST_WAIT = 10, 500
WORSE = 1.3


class TrainingIndex:
    """A sampler that follows a weight matrix.

    At each refresh the rows are indexed anew. At doubling intervals from the first step on, everything is: the sampler
    is built again with the queries seen last, because contexts change as a model learns, and most so at the beginning.

    Args:
        build: makes the sampler.
        n_classes: N.
        seed: of the draws.
        refresh_every: steps between refreshes; or "adaptive": when the standard error that samples claim has grown by
            30 % since the last one, after 10 steps at the least and 500 at the most.
    """

    def __init__(self, build: Factory, n_classes: int, seed: int, refresh_every: int | str):
        self.build, self.seed = build, seed
        if refresh_every != ADAPTIVE:
            refresh_every = checks.positive_int("refresh_every", refresh_every)
        self.refresh_every = refresh_every
        self.sampler: Sampler | None = None
        self.step = self.refreshed = self.rebuilt = self.rebuild_after = 0
        self.error_when_fresh = self.error_now = float("nan")
        self.seen = Seen(np.zeros((0, 0), np.float32), np.ones(n_classes))
        self._held: dict[str, Any] | None = None
        self._address = 0

    def sample(
        self, weight: Tensor, bias: Tensor | None, queries: NDArray[np.float32], targets: NDArray[np.int64]
    ) -> tuple[Sample, bool]:
        """A sample for one training step, and whether its logits are those of the weights as they are."""
        self._remember(queries, targets)
        current = self._follow(weight, bias)
        assert self.sampler is not None
        sample = self.sampler.sample(queries, rng=np.random.default_rng([self.seed, self.step]))
        self._watch(sample)
        self.step += 1
        return sample, current

    def _remember(self, queries: NDArray[np.float32], targets: NDArray[np.int64]) -> None:
        """The last queries, as many as are worth calibrating on, and all targets."""
        before = self.seen.queries if len(self.seen.queries) else queries[:0]
        recent = np.concatenate([before, queries])[-max(RECENT_QUERIES, len(queries)) :]
        np.add.at(self.seen.frequencies, targets, 1)
        self.seen = self.seen._replace(queries=recent)

    def _follow(self, weight: Tensor, bias: Tensor | None) -> bool:
        """Make the sampler see these weights, refreshed if that is due."""
        live = weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.is_contiguous()
        if self._held is not None:
            self._restore(weight, bias)
        if self.sampler is None or self.step >= self.rebuilt + self.rebuild_after:
            self.sampler = self.build(_model(weight, bias), self.seen)
            self.rebuild_after = max(1, min(2 * self.rebuild_after, LONGEST_UNTIL_REBUILT))
            self.rebuilt = self.refreshed = self.step
            self._address = weight.data_ptr()
        elif self._due() or (live and self._address != weight.data_ptr()):
            self._renew(weight, bias, live)
        return live

    def _renew(self, weight: Tensor, bias: Tensor | None, live: bool) -> None:
        assert self.sampler is not None
        if not live or self._address != weight.data_ptr():
            attach(self.sampler, _model(weight, bias))
            self._address = weight.data_ptr()
        _refuse_not_finite(weight)
        renew(self.sampler)
        self.refreshed = self.step

    def _due(self) -> bool:
        age = self.step - self.refreshed
        if self.refresh_every != ADAPTIVE:
            return age >= int(self.refresh_every)
        return age >= MOST_WAIT or (age >= LEAST_WAIT and self.error_now > WORSE * self.error_when_fresh)

    def _watch(self, sample: Sample) -> None:
        """Keep the median claimed error: what it was when fresh, and now."""
        if self.refresh_every == ADAPTIVE and sample.std_error is not None:
            self.error_now = float(np.median(sample.std_error))
            if self.step == self.refreshed:
                self.error_when_fresh = self.error_now

    def state(self) -> dict[str, Any]:
        """Everything a resumed run needs to draw as this one would have."""
        if self._held is not None:
            return self._held
        counters = {name: getattr(self, name) for name in _COUNTERS}
        seen = {name: torch.from_numpy(array.copy()) for name, array in self.seen._asdict().items()}
        held: dict[str, Any] = {"counters": counters, "seen": seen}
        if self.sampler is not None:
            settings, arrays = self.sampler.state()
            held["settings"] = json.dumps(settings)
            held["types"] = {name: str(array.dtype) for name, array in arrays.items()}
            held["arrays"] = {name: _as_tensor(array) for name, array in arrays.items()}
        return held

    def hold(self, held: dict[str, Any]) -> None:
        """Take on a state; the sampler is restored when weights are at hand."""
        for name in _COUNTERS:
            setattr(self, name, held["counters"][name])
        self.seen = Seen(**{name: tensor.numpy().copy() for name, tensor in held["seen"].items()})
        self.sampler = None
        self._held = held if "arrays" in held else None

    def _restore(self, weight: Tensor, bias: Tensor | None) -> None:
        assert self._held is not None
        model = _model(weight, bias)
        types = self._held["types"]
        arrays = {name: tensor.numpy().copy().view(types[name]) for name, tensor in self._held["arrays"].items()}
        kind = type(self.build(model, self.seen))
        self.sampler = kind.restore(model, json.loads(self._held["settings"]), arrays)
        self._held, self._address = None, weight.data_ptr()


_COUNTERS = ("step", "refreshed", "rebuilt", "rebuild_after", "error_when_fresh", "error_now")


def _as_tensor(array: NDArray) -> Tensor:
    """A copy; unsigned numbers as signed ones of the same bits, because PyTorch cannot pickle all of the former."""
    signed = array.dtype.str.replace("u", "i") if array.dtype.kind == "u" and array.itemsize > 1 else array.dtype
    return torch.from_numpy(np.array(array).view(signed))


def attach(sampler: Sampler, model: LogLinear) -> None:
    """Let a sampler index, and score, another model of the same shape from now on."""
    sampler.model = model


def _model(weight: Tensor, bias: Tensor | None) -> LogLinear:
    """The weights as a model: a view where they are float32 on the CPU, a copy elsewhere."""
    _refuse_not_finite(weight)
    return LogLinear(_array(weight), None if bias is None else _array(bias))


def _array(tensor: Tensor) -> NDArray[np.float32]:
    return frozen(tensor.detach().to("cpu", torch.float32))


def _refuse_not_finite(weight: Tensor) -> None:
    if not bool(torch.isfinite(weight.detach().sum())):
        raise ValueError("weight has NaN or infinity; training has diverged: lower the learning rate or clip gradients")
