"""Table 1 of the paper: its language model trained with each output layer, judged with the true normaliser."""

from __future__ import annotations

import hashlib
import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from experiments import record
from experiments.data import CACHE
from experiments.paper import lm
from experiments.paper.data import Text
from experiments.paper.heads import CELLS, VARIANTS, Cell, Head
from experiments.paper.lm import LanguageModel, Recipe, windows
from softhash.torch import clip_grad_norm_

STEPS_PER_REPORT = 25
JUDGED_AFTER = {"table1": (1, 2, 3, 5, 10), "stability": (0.5, 1)}
"""Epochs."""
VALIDATION_WORDS = 75_000
"""Penn Treebank has fewer; those of text8 would take as long as its test text."""
SHAKE = 1e-3
STUDIES = {"table1": CELLS, "stability": VARIANTS}


@dataclass(frozen=True)
class Plan:
    """Everything that makes a cell of the table.

    Attributes:
        recipe: text, model and optimiser; its `steps` are one epoch.
        method: a name in heads.CELLS or, for another study, heads.VARIANTS.
        epochs: passes through the text.
        study: "table1" or "stability".
    """

    recipe: Recipe
    method: str
    epochs: int
    study: str = "table1"

    @property
    def cell(self) -> Cell:
        """The output layer."""
        return STUDIES[self.study][self.method]

    @property
    def name(self) -> str:
        """study-dataset-method."""
        return f"{self.study}-{self.recipe.dataset}-{self.method}"

    @property
    def steps(self) -> int:
        """In all."""
        return self.recipe.steps * self.epochs

    @property
    def checkpoint(self) -> Path:
        """The file a run is resumed from; more epochs go on from the same one."""
        about = json.dumps([asdict(self.recipe), self.method], sort_keys=True)
        return CACHE / f"{self.name}-{hashlib.sha256(about.encode()).hexdigest()[:12]}.pt"


class Run:
    """One training run: the model, where it is, and what has been measured.

    Args:
        plan: what to train.
        text: on what.
    """

    def __init__(self, plan: Plan, text: Text):
        self.plan, self.text = plan, text
        recipe = plan.recipe
        torch.manual_seed(recipe.seed)
        self.body = LanguageModel(recipe)
        self.head = plan.cell.build(recipe.dataset, recipe.units, recipe.vocabulary)
        start_alike(self.head, self.body)
        if plan.cell.shaken is not None:
            shake(self.head, SHAKE * recipe.initial, plan.cell.shaken)
        self.parameters = [*self.body.parameters(), *self.head.parameters()]
        vectors, *others = self.parameters
        groups = [{"params": [vectors]}, {"params": others, "fused": True}]  # sparse gradients cannot be fused
        self.optimizer = torch.optim.Adagrad(groups, lr=recipe.rate, eps=recipe.epsilon)
        self.state = lm.zero_state(recipe)
        self.step, self.seconds, self.losses = 0, 0.0, (0.0, 0)
        self.rows: list[dict[str, Any]] = []
        if plan.checkpoint.exists():
            self._resume()

    def _resume(self) -> None:
        held = torch.load(self.plan.checkpoint)
        self.body.load_state_dict(held["body"])
        self.head.load_state_dict(held["head"])
        self.optimizer.load_state_dict(held["optimizer"])
        self.step, self.seconds, self.losses = held["step"], held["seconds"], held["losses"]
        self.state, self.rows = held["state"], held["rows"]

    def save(self) -> None:
        """Write the checkpoint; it is whole or absent."""
        held = {
            "body": self.body.state_dict(), "head": self.head.state_dict(), "optimizer": self.optimizer.state_dict(),
            "step": self.step, "seconds": self.seconds, "losses": self.losses, "state": self.state, "rows": self.rows,
        }  # fmt: skip
        lm.replace(self.plan.checkpoint, lambda file: torch.save(held, file))

    def advance(self, words: Tensor, targets: Tensor) -> float:
        """One minibatch; the loss that was minimised."""
        start = time.process_time()
        contexts, self.state = self.body(words, self.state)
        loss = self.head(contexts, targets.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(self.parameters, self.plan.recipe.clip)
        self.optimizer.step()
        self.step += 1
        self.seconds += time.process_time() - start
        value = float(loss.detach())
        self.losses = (self.losses[0] + value, self.losses[1] + 1)
        return value

    def measure(self) -> dict[str, Any]:
        """Perplexities with the true normaliser, added to the rows."""
        recipe = self.plan.recipe
        row = {
            "dataset": recipe.dataset, "method": self.plan.method, "step": self.step,
            "epoch": self.step / recipe.steps, "cpu_seconds": self.seconds,
            "train_loss": self.losses[0] / self.losses[1],
            "valid_perplexity": self.perplexity(self.text.valid[:VALIDATION_WORDS]),
            "test_perplexity": self.perplexity(self.text.test),
        }  # fmt: skip
        self.rows.append(row)
        self.losses = (0.0, 0)
        return row

    @torch.no_grad()
    def perplexity(self, words: np.ndarray) -> float:
        """exp of the mean exact −log P of each word after those before it."""
        recipe, losses = self.plan.recipe, []
        state = lm.zero_state(recipe)
        for given, wanted in windows(words, recipe, 0, lm.windows_in(words, recipe.batch, recipe.unroll)):
            contexts, state = self.body(given, state)
            logits = nn.functional.linear(contexts, self.head.weight, self.head.bias)
            losses.append(float(nn.functional.cross_entropy(logits, wanted.flatten())))
        return float(np.exp(np.mean(losses)))


def start_alike(head: Head, body: LanguageModel) -> None:
    """Give every method the same initial output layer, and take it out of the body."""
    with torch.no_grad():
        for own, first in zip(head.parameters(), body.output.parameters(), strict=True):
            own.copy_(first)
    del body.output


@torch.no_grad()
def shake(head: Head, by: float, seed: int) -> None:
    """Disturb an output layer, to see how far training runs that should agree come out apart."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in head.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=by)


def train(plan: Plan, text: Text, say: lm.Progress = print, checkpoint_every: int = 200) -> list[dict[str, Any]]:
    """Train to the end of the plan, from the last checkpoint if there is one; the rows measured on the way."""
    run = Run(plan, text)
    judged_after = {max(1, int(plan.recipe.steps * epochs)) for epochs in JUDGED_AFTER[plan.study]} | {plan.steps}
    begun, first, losses = time.perf_counter(), run.step, []
    with stopping_politely() as asked_to_stop:
        for words, targets in minibatches(text, plan.recipe, run.step, plan.steps):
            if run.step % plan.recipe.steps == 0:
                run.state = lm.zero_state(plan.recipe)
            losses.append(run.advance(words, targets))
            if not np.isfinite(losses[-1]):
                say(f"{plan.name}: diverged at step {run.step}")
                break
            if run.step % STEPS_PER_REPORT == 0:
                say(progress(run, first, begun, losses))
            if run.step in judged_after:
                row = run.measure()
                say(f"{plan.name}: epoch {row['epoch']:.2f}, valid {row['valid_perplexity']:.1f}, "
                    f"test {row['test_perplexity']:.1f}")  # fmt: skip
            if run.step % checkpoint_every == 0 or run.step == plan.steps or asked_to_stop():
                run.save()
            if asked_to_stop():
                say(f"{plan.name}: stopped at step {run.step}; the same command goes on from there")
                break
    return run.rows


def minibatches(text: Text, recipe: Recipe, first: int, stop: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Minibatches `first` to `stop` of as many passes as that takes."""
    while first < stop:
        epoch, within = divmod(first, recipe.steps)
        until = min(stop - epoch * recipe.steps, recipe.steps)
        yield from windows(text.train, recipe, within, until)
        first = epoch * recipe.steps + until


def progress(run: Run, first: int, begun: float, losses: list[float]) -> str:
    """A line that says how far, how fast, and how much longer."""
    plan, recipe = run.plan, run.plan.recipe
    each = (time.perf_counter() - begun) / (run.step - first)
    left = each * (plan.steps - run.step)
    return (
        f"{plan.name}: step {run.step:,} of {plan.steps:,}, loss {np.mean(losses[-STEPS_PER_REPORT:]):.3f}, "
        f"{recipe.batch * recipe.unroll / each:,.0f} words/s, {left / 60:.0f} min left"
    )


@contextmanager
def stopping_politely():
    """Inside, SIGTERM and Ctrl-C only set a flag, which the loop asks for after each step."""
    asked: list[int] = []
    before = {number: signal.signal(number, lambda *_: asked.append(1)) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def cell(plan: Plan, text: Text, threads: int, checkpoint_every: int = 200) -> None:
    """One cell of the table: train, and write its curve."""
    torch.set_num_threads(threads)
    rows = train(plan, text, lambda line: print(line, flush=True), checkpoint_every)
    if rows:
        kept = [row | {"threads": threads} for row in rows]
        title = f"{plan.cell.label}, {plan.recipe.dataset}"
        record.save(f"paper-{plan.name}", kept, seeds=str(plan.recipe.seed), title=title)
