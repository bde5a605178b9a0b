"""Texts of the paper's experiments, from small made-up ones."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from experiments.paper import data

from errors import fails

TEXT = " " + " ".join(["one"] * 40 + ["two"] * 30 + ["three"] * 20 + ["rare", "odd"] + ["one", "three", "late"] * 5)


def words(text: data.Text, part: np.ndarray) -> list[str]:
    return [text.vocabulary[i] for i in part]


def test_running_text_is_cut_where_it_says() -> None:
    text = data.running_text(TEXT, vocabulary=3, test=60)
    assert text.vocabulary == ["one", "two", "three", data.UNKNOWN]
    assert text.train.dtype == np.int32
    everything = words(text, text.train) + words(text, text.test)
    assert everything == [word if word in text.vocabulary else data.UNKNOWN for word in TEXT.split()]
    assert 50 <= len(" ".join(TEXT.split()[len(text.train) :])) <= 60
    np.testing.assert_array_equal(text.valid, text.test)


def test_fewer_characters_leave_the_vocabulary() -> None:
    whole, part = data.running_text(TEXT, 3, 60), data.running_text(TEXT, 3, 60, characters=82)
    assert part.vocabulary == whole.vocabulary
    assert words(part, part.train) == ["one"] * 20  # 80 characters; the next word would be cut
    np.testing.assert_array_equal(part.test, whole.test)


def test_pieces_are_whole_words(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = data.running_text(TEXT, 4, 60)
    monkeypatch.setattr(data, "CHARACTERS_AT_ONCE", 17)
    np.testing.assert_array_equal(data.running_text(TEXT, 4, 60).train, whole.train)


def test_vocabulary_is_by_frequency_then_alphabet() -> None:
    assert data.by_frequency(["b", "c", "a", "c"]) == ["c", "a", "b"]


def test_other_texts_are_refused(tmp_path: Path) -> None:
    fails(lambda: data.text8(tmp_path), "text8.zip", "SOFTHASH_DATA", error=FileNotFoundError)
    with zipfile.ZipFile(tmp_path / "text8.zip", "w") as archive:
        archive.writestr("text8", TEXT)
    for path in (tmp_path, tmp_path / "text8.zip"):
        fails(lambda path=path: data.text8(path), f"{len(TEXT)} characters", "7d6be66f")
    for part in data.PTB_PARTS:
        (tmp_path / f"ptb.{part}.txt").write_text("a b c \n")
    fails(lambda: data.ptb(tmp_path), "(4, 4, 4) words", "929589")
    fails(lambda: data.load("ptb", characters=5), "characters is 5", "drop it")
    fails(lambda: data.load("wiki"), "'wiki'", "text8")
