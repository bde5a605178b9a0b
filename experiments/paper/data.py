"""Text as word numbers: Penn Treebank as preprocessed by Mikolov."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.data import find

PTB_PARTS = ("train", "valid", "test")
PTB_TOKENS = (929_589, 73_760, 82_430)
PTB_VOCABULARY = 10_000
END = "<eos>"


class Text(NamedTuple):
    """A text cut into training, validation and test words.

    Attributes:
        vocabulary: words, the most frequent in the training text first.
        train, valid, test: int32, places in the vocabulary.
    """

    vocabulary: list[str]
    train: NDArray[np.int32]
    valid: NDArray[np.int32]
    test: NDArray[np.int32]


def ptb(path: Path | None = None) -> Text:
    """Penn Treebank: 929 589 training words of a vocabulary of 10 000, `<eos>` at the end of every line.

    Args:
        path: ptb.zip, simple-examples.tgz, or a folder with ptb.train.txt, ptb.valid.txt and ptb.test.txt.
    """
    source = find(path, "ptb.zip")
    names = [f"ptb.{part}.txt" for part in PTB_PARTS]
    parts = [words.replace("\n", f" {END} ").split() for words in _read(source, names)]
    vocabulary = by_frequency(parts[0])
    sizes = tuple(map(len, parts))
    if sizes != PTB_TOKENS or len(vocabulary) != PTB_VOCABULARY:
        raise ValueError(
            f"{source} holds {sizes} words and a vocabulary of {len(vocabulary)}; "
            f"Penn Treebank has {PTB_TOKENS} and {PTB_VOCABULARY}: pass the files as Mikolov published them"
        )
    number = {word: i for i, word in enumerate(vocabulary)}
    return Text(vocabulary, *(np.array([number[word] for word in words], np.int32) for words in parts))


def by_frequency(words: list[str]) -> list[str]:
    """The different words, the most frequent first, ties in alphabetical order."""
    counts = Counter(words)
    return sorted(counts, key=lambda word: (-counts[word], word))


def _read(source: Path, names: list[str]) -> list[str]:
    """The texts of these file names in a folder, a .zip or a .tar archive, at any depth."""
    if source.is_dir():
        return [(source / name).read_text("utf-8") for name in names]
    if zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as archive:
            return [archive.read(_member(source, archive.namelist(), name)).decode() for name in names]
    if tarfile.is_tarfile(source):
        with tarfile.open(source) as archive:
            members = archive.getnames()
            files = [archive.extractfile(_member(source, members, name)) or io.BytesIO() for name in names]
            return [file.read().decode() for file in files]
    raise ValueError(f"{source} is neither a folder nor a .zip or .tgz archive")


def _member(source: Path, members: list[str], name: str) -> str:
    for member in members:
        if member.rsplit("/", 1)[-1] == name:
            return member
    raise ValueError(f"{source} holds no {name}")
