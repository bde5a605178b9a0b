"""python -m experiments.paper COMMAND"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, no_args_is_help=True, help="The experiments of Spring & Shrivastava (2017).")


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


if __name__ == "__main__":
    app()
