"""The paper's language model: one LSTM layer, trained with the standard softmax, and a snapshot of its output layer."""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from experiments.data import CACHE
from experiments.paper.data import Text
from softhash.torch import clip_grad_norm_

Progress = Callable[[str], None]
STEPS_PER_CHECKPOINT = 50
STEPS_PER_REPORT = 25


@dataclass(frozen=True)
class Recipe:
    """Everything that makes a snapshot; the defaults are the paper's where it says.

    Attributes:
        text: checksum of the training words.
        vocabulary: number of classes.
        steps: minibatches trained on; None: one epoch.
        calibration_windows: minibatches before the last one whose contexts are kept to calibrate on.
        initial: parameters start uniform in ± this (not in the paper).
    """

    dataset: str
    text: int
    vocabulary: int
    steps: int
    units: int = 512
    unroll: int = 20
    batch: int = 32
    rate: float = 0.1
    epsilon: float = 1e-5
    clip: float = 1.0
    initial: float = 0.05
    calibration_windows: int = 4
    seed: int = 0

    @classmethod
    def of(cls, dataset: str, text: Text, steps: int | None = None) -> Recipe:
        """The recipe for a text: one epoch, or so many steps."""
        checksum = zlib.crc32(text.train.tobytes())
        epoch = windows_in(text.train, cls.batch, cls.unroll)
        return cls(dataset, checksum, len(text.vocabulary), epoch if steps is None else min(steps, epoch))

    @property
    def key(self) -> str:
        """Twelve digits that change when anything here does."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]


class Snapshot(NamedTuple):
    """An output layer and contexts of the training text under it.

    Attributes:
        weights, bias: (N, d) and (N,).
        contexts, targets: (640, d) and (640,), the last minibatch trained on.
        calibration: (n, d), contexts of the minibatches before it.
        perplexity: on the validation text; a single number.
    """

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    contexts: NDArray[np.float32]
    targets: NDArray[np.int32]
    calibration: NDArray[np.float32]
    perplexity: NDArray[np.float64]


class LanguageModel(nn.Module):
    """Embedding, one LSTM layer, softmax over the vocabulary."""

    def __init__(self, recipe: Recipe):
        super().__init__()
        self.embedding = nn.Embedding(recipe.vocabulary, recipe.units, sparse=True)
        self.lstm = nn.LSTM(recipe.units, recipe.units)
        self.output = nn.Linear(recipe.units, recipe.vocabulary)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -recipe.initial, recipe.initial)

    def forward(self, words: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Contexts (unroll · batch, units) of words (unroll, batch), and the state after them."""
        hidden, state = self.lstm(self.embedding(words), state)
        return hidden.flatten(0, 1), (state[0].detach(), state[1].detach())


def snapshot(recipe: Recipe, text: Text, say: Progress = print) -> Snapshot:
    """The snapshot of a recipe: from the cache, or trained now, resuming where an earlier run stopped."""
    path = where(recipe)
    if not path.exists():
        model = train(recipe, text, say)
        made = take(model, recipe, text)
        replace(path, lambda file: np.savez(file, **made._asdict(), recipe=json.dumps(asdict(recipe))))
        say(f"validation perplexity {made.perplexity:.1f}; wrote {path}")
    with np.load(path) as arrays:
        return Snapshot(*(arrays[name] for name in Snapshot._fields))


def where(recipe: Recipe) -> Path:
    """The file that holds, or will hold, a recipe's snapshot."""
    return CACHE / f"snapshot-{recipe.dataset}-{recipe.key}.npz"


def train(recipe: Recipe, text: Text, say: Progress) -> LanguageModel:
    """Train for recipe.steps minibatches, a checkpoint every 50."""
    torch.manual_seed(recipe.seed)
    model = LanguageModel(recipe)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=recipe.rate, eps=recipe.epsilon)
    path = CACHE / f"checkpoint-{recipe.dataset}-{recipe.key}.pt"
    first, state = _resume(path, model, optimizer, recipe)
    begun, losses = time.perf_counter(), []
    for step, (words, targets) in enumerate(windows(text.train, recipe, first, recipe.steps), first + 1):
        contexts, state = model(words, state)
        loss = nn.functional.cross_entropy(model.output(contexts), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), recipe.clip)
        optimizer.step()
        losses.append(float(loss.detach()))
        if step % STEPS_PER_REPORT == 0 or step == recipe.steps:
            speed = (step - first) * recipe.batch * recipe.unroll / (time.perf_counter() - begun)
            recent = np.exp(np.mean(losses[-STEPS_PER_REPORT:]))
            say(f"step {step} of {recipe.steps}: perplexity {recent:.0f}, {speed:,.0f} words/s")
        if step % STEPS_PER_CHECKPOINT == 0 or step == recipe.steps:
            held = {"step": step, "state": state, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            replace(path, lambda file, held=held: torch.save(held, file))
    return model


@torch.no_grad()
def take(model: LanguageModel, recipe: Recipe, text: Text) -> Snapshot:
    """Class vectors, biases, and the contexts of the last minibatches as the finished model sees them."""
    first = max(recipe.steps - recipe.calibration_windows - 1, 0)
    state, contexts, targets = zero_state(recipe), [], []
    for words, following in windows(text.train, recipe, first, recipe.steps):
        hidden, state = model(words, state)
        contexts.append(hidden.numpy())
        targets.append(following.flatten().numpy().astype(np.int32))
    calibration = np.concatenate(contexts[:-1]) if len(contexts) > 1 else contexts[0]
    weights, bias = model.output.weight.numpy(), model.output.bias.numpy()
    return Snapshot(weights, bias, contexts[-1], targets[-1], calibration, np.array(perplexity(model, recipe, text)))


@torch.no_grad()
def perplexity(model: LanguageModel, recipe: Recipe, text: Text) -> float:
    """On the validation text."""
    state, losses = zero_state(recipe), []
    for words, targets in windows(text.valid, recipe, 0, windows_in(text.valid, recipe.batch, recipe.unroll)):
        hidden, state = model(words, state)
        losses.append(float(nn.functional.cross_entropy(model.output(hidden), targets.flatten())))
    return float(np.exp(np.mean(losses)))


def windows_in(words: NDArray[np.int32], batch: int, unroll: int) -> int:
    """Minibatches in one pass through a text."""
    return (len(words) // batch - 1) // unroll


def windows(words: NDArray[np.int32], recipe: Recipe, first: int, stop: int) -> Iterator[tuple[Tensor, Tensor]]:
    """(words, words that follow), each (unroll, batch): `batch` long stretches of text read side by side."""
    length = len(words) // recipe.batch
    lanes = torch.from_numpy(words[: length * recipe.batch].reshape(recipe.batch, length).T.astype(np.int64))
    for at in range(first * recipe.unroll, stop * recipe.unroll, recipe.unroll):
        yield lanes[at : at + recipe.unroll], lanes[at + 1 : at + recipe.unroll + 1]


def zero_state(recipe: Recipe) -> tuple[Tensor, Tensor]:
    """What the LSTM remembers before the first word."""
    return torch.zeros(1, recipe.batch, recipe.units), torch.zeros(1, recipe.batch, recipe.units)


def _resume(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, recipe: Recipe):
    """(steps done, state): what a checkpoint holds, loaded, or a fresh start."""
    if not path.exists():
        return 0, zero_state(recipe)
    held = torch.load(path)
    model.load_state_dict(held["model"])
    optimizer.load_state_dict(held["optimizer"])
    return held["step"], held["state"]


def replace(path: Path, write: Callable) -> None:
    """Write a file beside `path` and move it there, so that a file is whole or absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    with open(temporary, "wb") as file:
        write(file)
    os.replace(temporary, path)
