"""Text as word numbers: Penn Treebank as preprocessed by Mikolov, and text8."""

from __future__ import annotations

import io
import lzma
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.data import find, folder

PTB_PARTS = ("train", "valid", "test")
PTB_TOKENS = (929_589, 73_760, 82_430)
PTB_VOCABULARY = 10_000
PTB_CRC32 = (3_866_704_569, 620_329_582, 1_445_214_201)
END = "<eos>"

TEXT8 = {"text8": (100_000_000, 0x7D6BE66F), "text8_prefix": (74_090_609, 0x51ABFCD3)}
TEXT8_VOCABULARY = 44_000
TEXT8_TEST = 1_000_000
UNKNOWN = "<unk>"
SNAPSHOT_CHARACTERS = {"text8": 5_000_000}
"""How much of a text the snapshot is trained on, where not all of it."""
CHARACTERS_AT_ONCE = 4_000_000


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


def load(dataset: str, path: Path | None = None, characters: int | None = None) -> Text:
    """The text of this name: ptb, or text8 with a limit on the characters to train on."""
    if dataset == "ptb":
        if characters is not None:
            raise ValueError(f"characters is {characters}, but Penn Treebank is taken whole; drop it")
        return ptb(path)
    if dataset == "text8":
        return text8(path, characters)
    raise ValueError(f"dataset is {dataset!r}; pass ptb or text8")


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
    checksums = tuple(zlib.crc32(" ".join(words).encode()) for words in parts)
    if sizes != PTB_TOKENS or len(vocabulary) != PTB_VOCABULARY or checksums != PTB_CRC32:
        raise ValueError(
            f"{source} holds {sizes} words, a vocabulary of {len(vocabulary)} and checksums {checksums}; Penn Treebank "
            f"has {PTB_TOKENS}, {PTB_VOCABULARY} and {PTB_CRC32}: pass the files as Mikolov published them"
        )
    number = {word: i for i, word in enumerate(vocabulary)}
    return Text(vocabulary, *(np.array([number[word] for word in words], np.int32) for words in parts))


def text8(path: Path | None = None, characters: int | None = None) -> Text:
    """text8, or the beginning of it: the last million characters to test on, the rest to train on.

    The vocabulary is the 44 000 most frequent words of the whole training text, and `<unk>`.

    Args:
        path: text8.zip, text8, a folder with either, or text8_prefix.xz.
        characters: train on no more than this many, from the beginning.
    """
    source = _text8_source(folder() if path is None else path)
    raw = _text8_bytes(source)
    found = (len(raw), zlib.crc32(raw))
    if found not in TEXT8.values():
        known = " or ".join(f"{size} characters, CRC-32 {crc:08x} ({name})" for name, (size, crc) in TEXT8.items())
        raise ValueError(f"{source} holds {found[0]} characters, CRC-32 {found[1]:08x}; pass the file with {known}")
    return running_text(raw.decode("ascii"), TEXT8_VOCABULARY, TEXT8_TEST, characters)


def running_text(text: str, vocabulary: int, test: int, characters: int | None = None) -> Text:
    """Words of a text without divisions: the last `test` characters to test on, the rest to train on.

    There is no part to validate on, so `valid` is the test text.

    Args:
        text: words between blanks.
        vocabulary: how many of the most frequent training words are told apart; the others are `<unk>`.
        test: characters at the end that are not trained on, from the next word on.
        characters: train on no more than this many, from the beginning; the vocabulary is that of all.
    """
    cut = text.index(" ", len(text) - test)
    counts: Counter[str] = Counter()
    for piece in _pieces(text, cut):
        counts.update(piece.split())
    known = ranked(counts)[:vocabulary]
    number = {word: i for i, word in enumerate(known)}
    limit = cut if characters is None else min(characters, cut)
    train = _numbers(_pieces(text, limit), number)
    rest = _numbers([text[cut:]], number)
    return Text([*known, UNKNOWN], train, rest, rest)


def by_frequency(words: list[str]) -> list[str]:
    """The different words, the most frequent first, ties in alphabetical order."""
    return ranked(Counter(words))


def ranked(counts: Counter[str]) -> list[str]:
    """Words by how often they were counted, ties in alphabetical order."""
    return sorted(counts, key=lambda word: (-counts[word], word))


def _numbers(pieces: Iterable[str], number: dict[str, int]) -> NDArray[np.int32]:
    """Places in the vocabulary; `<unk>`, which comes last, for other words."""
    unknown = len(number)
    found = [np.array([number.get(word, unknown) for word in piece.split()], np.int32) for piece in pieces]
    return np.concatenate(found)


def _pieces(text: str, stop: int) -> Iterator[str]:
    """text[:stop] in pieces of whole words, without a word that `stop` cuts."""
    if stop < len(text):
        stop = text.rindex(" ", 0, stop + 1)
    start = 0
    while start < stop:
        end = stop if stop - start <= CHARACTERS_AT_ONCE else text.rindex(" ", start, start + CHARACTERS_AT_ONCE)
        yield text[start:end]
        start = end


def _text8_source(path: Path) -> Path:
    """The file itself, or what a folder holds: the published text8 before the stand-in."""
    names = ("text8", "text8.zip", "text8_prefix.xz")
    found = [path / name for name in names if (path / name).is_file()] if path.is_dir() else [path]
    if not found or not found[0].exists():
        raise FileNotFoundError(
            f"{path} is not there, or a folder without {', '.join(names)}; pass the path of one of them, "
            "or name the folder that holds it in SOFTHASH_DATA"
        )
    return found[0]


def _text8_bytes(source: Path) -> bytes:
    if source.suffix == ".xz":
        return lzma.decompress(source.read_bytes())
    if zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as archive:
            return archive.read(_member(source, archive.namelist(), "text8"))
    return source.read_bytes()


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
