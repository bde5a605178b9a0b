"""python -m experiments.paper COMMAND"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, no_args_is_help=True, help="The experiments of Spring & Shrivastava (2017).")


class Dataset(StrEnum):
    """What a command measures on."""

    ptb = "ptb"
    text8 = "text8"
    both = "both"

    @property
    def names(self) -> tuple[str, ...]:
        return ("ptb", "text8") if self is Dataset.both else (self.value,)


Which = Annotated[Dataset, typer.Option(help="What to measure on; its snapshot is trained first if need be.")]
Quick = Annotated[bool, typer.Option("--quick", help="A small version, to see that it runs; written to the cache.")]


@app.callback()
def main() -> None:
    """The experiments of Spring & Shrivastava (2017)."""


@app.command()
def snapshot(
    dataset: Annotated[str, typer.Option(help="ptb or text8.")] = "ptb",
    data: Annotated[Path | None, typer.Option(help="Archive or folder of the text.", show_default="found")] = None,
    characters: Annotated[
        int | None, typer.Option(help="Of text8, train on this many from the beginning.", show_default="5 million")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Minibatches of 640 words.", show_default="one epoch")] = None,
    threads: Annotated[int, typer.Option(help="Threads of PyTorch.")] = 2,
) -> None:
    """Train the paper's LSTM for one epoch and keep its output layer and 640 contexts; resumes where it stopped."""
    import torch

    from experiments.paper import lm
    from experiments.paper.data import SNAPSHOT_CHARACTERS, load

    torch.set_num_threads(threads)
    try:
        text = load(dataset, data, characters or SNAPSHOT_CHARACTERS.get(dataset))
    except (ValueError, FileNotFoundError) as error:
        raise typer.BadParameter(str(error)) from None
    made = lm.snapshot(lm.Recipe.of(dataset, text, steps), text, lambda line: print(line, flush=True))
    print(f"{dataset}: classes {made.weights.shape}, contexts {made.contexts.shape}, "
          f"validation perplexity {made.perplexity:.1f}")  # fmt: skip


@app.command("figure-accuracy")
def figure_accuracy(dataset: Which = Dataset.both, quick: Quick = False) -> None:
    """Error against number of samples, every method: CSV, SVG and PNG."""
    from experiments.paper import accuracy, plot

    for name in dataset.names:
        accuracy.figure_accuracy(name, quick)
        print(*plot.figure_accuracy(name, quick))


@app.command("figure-gumbel")
def figure_gumbel(dataset: Which = Dataset.both, quick: Quick = False) -> None:
    """The largest perturbed logit against the second largest: CSV, SVG and PNG."""
    from experiments.paper import accuracy, plot

    for name in dataset.names:
        accuracy.figure_gumbel(name, quick)
        print(*plot.figure_gumbel(name, quick))


@app.command()
def table2(quick: Quick = False, threads: Annotated[int, typer.Option(help="Threads of everything.")] = 2) -> None:
    """Seconds for the 640 contexts of Penn Treebank."""
    from experiments.paper import times

    times.run("ptb", quick, threads)


@app.command()
def table3(quick: Quick = False, threads: Annotated[int, typer.Option(help="Threads of everything.")] = 2) -> None:
    """Seconds for the 640 contexts of text8."""
    from experiments.paper import times

    times.run("text8", quick, threads)


@app.command()
def covariance(dataset: Which = Dataset.both, quick: Quick = False) -> None:
    """The covariance term of the variance theorem (the paper's Note 2): raw, centred, mips."""
    from experiments.paper import covariance

    covariance.run(dataset.names, quick)


@app.command()
def shapes(quick: Quick = False) -> None:
    """LSH's error at a fixed number of samples, by the number of tables."""
    from experiments.paper import shapes

    shapes.run(quick)


@app.command("gumbel-family")
def gumbel_family(quick: Quick = False) -> None:
    """What the three Gumbel methods promise, on three models."""
    from experiments.paper import family

    family.run(quick)


@app.command()
def memory(quick: Quick = False) -> None:
    """Peak memory of every estimator at 262 144 classes of dimension 640."""
    from experiments.paper import memory

    memory.run(quick)


@app.command()
def table1(
    dataset: Annotated[str, typer.Option(help="ptb or text8.")] = "ptb",
    method: Annotated[str, typer.Option(help="standard, lsh, sketch-200, …; a wrong one lists all.")] = "standard",
    epochs: Annotated[int, typer.Option(help="Passes through the training text.")] = 10,
    data: Annotated[Path | None, typer.Option(help="Archive or folder of the text.", show_default="found")] = None,
    characters: Annotated[
        int | None, typer.Option(help="Of text8, train on this many from the beginning.", show_default="all")
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads of everything.")] = 2,
) -> None:
    """Train the paper's language model with one output layer; goes on where it stopped."""
    _train(dataset, data, characters, threads, "table1", method, epochs=epochs)


@app.command()
def stability(
    variant: Annotated[str, typer.Option(help="lsh, no-floor, …; a wrong one lists all.")] = "lsh",
    steps: Annotated[int, typer.Option(help="Minibatches of 640 words.")] = 600,
    data: Annotated[Path | None, typer.Option(help="Archive or folder of the text.", show_default="found")] = None,
    threads: Annotated[int, typer.Option(help="Threads of everything.")] = 2,
) -> None:
    """What each part of training with LSH does: the beginning of Penn Treebank, one thing changed."""
    _train("ptb", data, None, threads, "stability", variant, steps=steps)


def _train(
    dataset: str, data: Path | None, characters: int | None, threads: int, study: str, method: str, *,
    epochs: int = 1, steps: int | None = None,
) -> None:  # fmt: skip
    from experiments import timing
    from experiments.paper import training
    from experiments.paper.data import load
    from experiments.paper.lm import Recipe

    timing.set_threads(threads)
    if method not in training.STUDIES[study]:
        raise typer.BadParameter(f"{method!r} is not known; pass one of {', '.join(training.STUDIES[study])}")
    try:
        text = load(dataset, data, characters)
    except (ValueError, FileNotFoundError) as error:
        raise typer.BadParameter(str(error)) from None
    training.cell(training.Plan(Recipe.of(dataset, text, steps), method, epochs, study), text, threads)


@app.command()
def tables() -> None:
    """Put the tables of docs/reproduction.md in their places, from the CSV files alone."""
    from experiments.paper import tables

    tables.run()


if __name__ == "__main__":
    app()
