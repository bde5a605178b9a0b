"""Examples run, and learn."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_two_tower_learns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["two_tower.py", "--items", "3000", "--steps", "60"])
    runpy.run_path(str(EXAMPLES / "two_tower.py"), run_name="__main__")
    before, after = (float(x.replace(",", "")) for x in re.findall(r"perplexity ([\d,]+)", capsys.readouterr().out))
    assert after < before / 2
