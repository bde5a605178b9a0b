"""Peak memory of every estimator, each in a process of its own: weights, index, and one batch of 640 contexts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from experiments import record

SHAPE, QUICK_SHAPE = (262_144, 640), (20_000, 64)
CONTEXTS = 640
MEBIBYTE = 2**20
ESTIMATORS = {
    "Exact": "sh.Exact(model)",
    "Uniform": "sh.Uniform(model, 200)",
    "Prior": "sh.Prior(model, 200, queries=queries)",
    "LSH": "sh.LSH(model, 14, 16)",
    "Sketch": "sh.Sketch(model, 200, queries)",
    "ExactGumbel": "sh.ExactGumbel(model)",
    "MipsGumbel": "sh.MipsGumbel(model)",
    "PriorityGumbel": "sh.PriorityGumbel(model, 200)",
    "PriorityGumbel, FAISS": "sh.PriorityGumbel(model, 200, 'IVF512,SQ8')",
    "TopK": "sh.TopK(model, index='IVF512,SQ8')",
    "TopK, vectors copied": "sh.TopK(model, index='IVF512,Flat')",
    "TopK, default": "sh.TopK(model)",
}
PROBE = """
import json, sys
import numpy as np
import softhash as sh
from experiments.paper.memory import most_resident
n, dim, contexts = map(int, sys.argv[1:4])
rng = np.random.default_rng(0)
weights = np.empty((n, dim), np.float32)
for start in range(0, n, 4096):
    rng.standard_normal(out=weights[start : start + 4096], dtype=np.float32)
queries = rng.standard_normal((contexts, dim), dtype=np.float32) / np.float32(np.sqrt(dim))
model = sh.LogLinear(weights)
before = most_resident()
estimate = eval(sys.argv[4]).log_partition(queries, rng=0)
assert np.isfinite(estimate.log_z).mean() > 0.9
print(json.dumps([before, most_resident()]))
"""


def allowed(n_classes: int, dim: int) -> float:
    """1.5 times the weights and 300 MiB, in MiB."""
    return 1.5 * 4 * n_classes * dim / MEBIBYTE + 300


def most_resident() -> float:
    """MiB this process has had resident at most.

    Linux counts it anew for a new program in VmHWM; ru_maxrss begins with what the parent had.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MEBIBYTE
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / MEBIBYTE


def peak(expression: str, n_classes: int, dim: int) -> tuple[float, float]:
    """MiB resident at most, before the estimator is built and after it has answered."""
    arguments = [sys.executable, "-c", PROBE, str(n_classes), str(dim), str(CONTEXTS), expression]
    root = Path(__file__).parents[2]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, cwd=root)
    before, after = json.loads(done.stdout)
    return before, after


def run(quick: bool) -> None:
    """One row for each estimator."""
    n_classes, dim = QUICK_SHAPE if quick else SHAPE
    rows: list[record.Row] = []
    for name, expression in ESTIMATORS.items():
        before, after = peak(expression, n_classes, dim)
        about: dict[str, object] = {
            "estimator": name,
            "built": expression.removeprefix("sh."),
            "classes": n_classes,
            "dim": dim,
        }
        limit = allowed(n_classes, dim)
        about |= {"contexts": CONTEXTS, "weights_mib": 4 * n_classes * dim / MEBIBYTE, "before_mib": before}
        rows.append(about | {"peak_mib": after, "allowed_mib": limit, "within": "yes" if after <= limit else "no"})
        print(f"{name}: {after:.0f} MiB", flush=True)
    record.save("paper-memory", rows, seeds="0", quick=quick, title="Peak memory")
