"""`import softhash` is quick and brings no heavy company."""

from __future__ import annotations

import json
import subprocess
import sys

SECONDS = 0.7
PROBE = """
import json, sys, time
start = time.perf_counter()
import softhash
print(json.dumps([time.perf_counter() - start, sorted(sys.modules)]))
"""


def probe() -> tuple[float, set[str]]:
    """Seconds one import takes in a process of its own, and every module it loads."""
    result = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    seconds, modules = json.loads(result.stdout)
    return seconds, set(modules)


def test_import_is_quick_and_light() -> None:
    probes = [probe() for _ in range(4)][1:]
    assert not {"torch", "faiss", "matplotlib", "typer", "plotly"} & probes[0][1]
    assert min(seconds for seconds, _ in probes) < SECONDS
