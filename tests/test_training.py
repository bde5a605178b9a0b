"""The paper's language model: a run that was stopped goes on as if it had not been."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from experiments.paper import training  # noqa: E402
from experiments.paper.data import Text  # noqa: E402
from experiments.paper.lm import Recipe  # noqa: E402

VOCABULARY = 120


@pytest.fixture
def text() -> Text:
    """Words that depend on the one before."""
    rng = np.random.default_rng(0)
    words = np.cumsum(rng.integers(0, 7, 4000)) % VOCABULARY
    parts = np.split(words.astype(np.int32), [3000, 3500])
    return Text([str(i) for i in range(VOCABULARY)], *parts)


@pytest.fixture
def plan_of(text: Text, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], training.Plan]:
    """A small plan for a method, its checkpoints in an empty folder."""
    monkeypatch.setattr(training, "CACHE", tmp_path)
    monkeypatch.setattr("experiments.paper.heads.SAME_AS_LSH", {"ptb": 20})

    def make(method: str) -> training.Plan:
        return training.Plan(Recipe("ptb", 0, VOCABULARY, 30, units=16, unroll=5, batch=8), method, 2)

    return make


def silent(line: str) -> None:
    """No progress."""


@pytest.mark.parametrize("method", ["standard", "lsh", "uniform", "sketch-50", "gumbel", "mips-gumbel"])
def test_a_killed_run_resumes_bit_for_bit(method: str, plan_of: Callable, text: Text) -> None:
    plan = plan_of(method)
    whole = training.train(plan, text, silent, checkpoint_every=1000)
    plan.checkpoint.unlink()
    with pytest.raises(KeyboardInterrupt):
        training.train(plan, text, stop_at(2, KeyboardInterrupt), checkpoint_every=7)
    assert plan.checkpoint.exists()
    resumed = training.train(plan, text, silent, checkpoint_every=1000)
    measured = ("step", "train_loss", "valid_perplexity", "test_perplexity")
    assert [[row[name] for name in measured] for row in resumed] == [[row[name] for name in measured] for row in whole]
    if method != "mips-gumbel":  # biased: it may diverge
        assert whole[-1]["valid_perplexity"] < VOCABULARY / 2


def stop_at(calls: int, error: type[BaseException]) -> Callable[[str], None]:
    """Progress that fails at the so-manieth line, as a kill would stop a run anywhere."""
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if len(said) == calls:
            raise error

    return say


def test_a_polite_stop_writes_a_checkpoint(plan_of: Callable, text: Text) -> None:
    import os
    import signal

    plan = plan_of("standard")

    def say(line: str) -> None:
        if "step 25" in line:
            os.kill(os.getpid(), signal.SIGTERM)

    training.train(plan, text, say, checkpoint_every=1000)
    assert training.Run(plan, text).step == 25
