"""Index files: the wrong ones are refused in one line, and a crash never leaves half of one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import softhash as sh
from cases import Case, every_sampler, gaussian, sampler_of
from errors import fails
from softhash import persist

MODEL = gaussian(100, 6)


def _not_an_index(path: Path) -> list[Path]:
    paths = [path / name for name in ("text", "empty", "tensors", "cut", "other-format")]
    paths[0].write_text("not an index")
    paths[1].write_bytes(b"")
    save_file({"weights": np.ones(3)}, paths[2])
    sh.LSH(MODEL, 2, 3).save(path / "good")
    paths[3].write_bytes((path / "good").read_bytes()[:-10])
    save_file({"a": np.ones(1)}, paths[4], metadata={"softhash": '{"format": "softhash-index-0"}'})
    return paths


def test_files_that_are_no_index(tmp_path: Path) -> None:
    for path in _not_an_index(tmp_path):
        fails(lambda path=path: sh.load(path, MODEL), "path", str(path), "not a softhash index", "save()")
    fails(lambda: sh.load(tmp_path / "missing", MODEL), "path", "missing", error=FileNotFoundError)
    fails(lambda: sh.load(tmp_path, MODEL), "path", "not a file", error=FileNotFoundError)


@pytest.mark.parametrize("header", ["{}", '{"format": "softhash-index-1"}', "[]", "nonsense"])
def test_headers_that_are_no_index(header: str, tmp_path: Path) -> None:
    save_file({"a": np.ones(1)}, tmp_path / "file", metadata={"softhash": header})
    fails(lambda: sh.load(tmp_path / "file", MODEL), "path", "not a softhash index")


def test_an_index_of_an_unknown_sampler(tmp_path: Path) -> None:
    for name in ("log_prob", "Estimate", "Nothing", "Sampler"):
        header = {"format": persist.FORMAT, "sampler": name, "settings": {}, **persist._header(MODEL)}
        save_file({"a": np.ones(1)}, tmp_path / "file", metadata={"softhash": json.dumps(header)})
        fails(lambda: sh.load(tmp_path / "file", MODEL), "path", "not a softhash index", "save()")


@pytest.mark.parametrize("name", ["LSH", "Prior", "Sketch"])
def test_an_index_without_its_arrays(name: str, tmp_path: Path) -> None:
    header = {"format": persist.FORMAT, "sampler": name, "settings": {}, **persist._header(MODEL)}
    save_file({"a": np.ones(1)}, tmp_path / "file", metadata={"softhash": json.dumps(header)})
    fails(lambda: sh.load(tmp_path / "file", MODEL), "path", "not a softhash index")


@every_sampler
def test_index_of_another_model(case: Case, tmp_path: Path) -> None:
    sampler_of(case, MODEL).save(tmp_path / "index")
    for other, fragment in (
        (gaussian(101, 6), "100"),
        (gaussian(100, 7), "dimension 6"),
        (gaussian(100, 6, bias=True), "bias"),
    ):
        fails(lambda other=other: sh.load(tmp_path / "index", other), "path", "another model", fragment)


def test_index_of_other_weights_without_a_snapshot(tmp_path: Path) -> None:
    sh.LSH(MODEL, 2, 3, snapshot=False).save(tmp_path / "index")
    fails(lambda: sh.load(tmp_path / "index", gaussian(100, 6, seed=1)), "weights")


def test_save_into_no_directory(tmp_path: Path) -> None:
    fails(lambda: sh.Uniform(MODEL).save(tmp_path / "a" / "b"), "path", "not a directory")


def _crash_while_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    def half(tensors: dict, path: str, metadata: dict) -> None:
        Path(path).write_bytes(b"half an ind")
        raise KeyboardInterrupt

    monkeypatch.setattr(persist, "save_file", half)


def _crash_while_replacing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(persist.os, "replace", refuse)


@pytest.mark.parametrize("crash", [_crash_while_writing, _crash_while_replacing])
def test_a_crash_in_the_middle_of_a_save_leaves_the_old_file(crash, tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "index"
    sh.LSH(MODEL, 2, 3, rng=0).save(path)
    before = path.read_bytes()
    crash(monkeypatch)
    with pytest.raises((KeyboardInterrupt, OSError)):
        sh.LSH(MODEL, 4, 3, rng=1).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_saved_files_have_ordinary_permissions(tmp_path: Path) -> None:
    (tmp_path / "ordinary").write_text("")
    sh.Uniform(MODEL).save(tmp_path / "index")
    assert (tmp_path / "index").stat().st_mode == (tmp_path / "ordinary").stat().st_mode
