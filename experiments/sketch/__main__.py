"""python -m experiments.sketch COMMAND"""

from __future__ import annotations

from typing import Annotated

import typer

from experiments import timing

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Measurements of the Sketch sampler.")
Quick = Annotated[bool, typer.Option("--quick", help="A small version, to see that it runs; written to the cache.")]


Prepare = Annotated[
    bool, typer.Option("--prepare", help="Only what needs no clock, kept in the cache: true log Z, sizes, indexes.")
]


@app.callback()
def main(threads: Annotated[int, typer.Option(help="Threads of kernels, PyTorch and FAISS.")] = 2) -> None:
    """Measurements of the Sketch sampler: each prints a table and writes experiments/results/sketch-COMMAND.csv."""
    timing.set_threads(threads)


@app.command()
def accuracy(quick: Quick = False) -> None:
    """Error, bias, coverage and claimed error on the SmolLM2 head and the Penn Treebank LSTM."""
    from experiments.sketch import accuracy

    accuracy.run(quick)


@app.command()
def ablation(
    queries: Annotated[int, typer.Option(help="Queries to measure on.")] = 2048,
    draws: Annotated[int, typer.Option(help="Draws for each.")] = 2,
    quick: Quick = False,
) -> None:
    """One part changed at a time, on the SmolLM2 head."""
    from experiments.sketch import ablation

    ablation.run(quick, queries, draws)


@app.command()
def reader(quick: Quick = False) -> None:
    """How sign bits are best read: gain and allowance, on the SmolLM2 head."""
    from experiments.sketch import reader

    reader.run(quick)


@app.command()
def speed(
    model: Annotated[
        list[str] | None, typer.Option(help="smollm2, 262144x640 or 1000000x128; may be repeated.", show_default="all")
    ] = None,
    quick: Quick = False,
    prepare: Prepare = False,
) -> None:
    """Time per query at a fixed error against exact log Z, in batches and one at a time."""
    from experiments.sketch import speed

    speed.run(model or [], quick, prepare)


@app.command()
def growth(quick: Quick = False, prepare: Prepare = False) -> None:
    """Time per query from 50 000 to 3 200 000 classes at error 0.05, and its exponent."""
    from experiments.sketch import growth

    growth.run(quick, prepare)


@app.command("faiss")
def against_faiss(quick: Quick = False, prepare: Prepare = False) -> None:
    """FAISS's best 200 and 200 uniform classes, against Sketch."""
    from experiments.sketch import against_faiss

    against_faiss.run(quick, prepare)


@app.command()
def memory(quick: Quick = False) -> None:
    """Bytes per class and seconds to build."""
    from experiments.sketch import memory

    memory.run(quick)


@app.command()
def tables() -> None:
    """Print every CSV as Markdown, and put the tables of docs/theory.md in their places."""
    from experiments.sketch import tables

    tables.run()


@app.command()
def plot(quick: Quick = False) -> None:
    """Draw every picture from its CSV: SVG and PNG."""
    from experiments.sketch import plot

    plot.run(quick)


if __name__ == "__main__":
    app()
