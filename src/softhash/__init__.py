"""softhash: the normaliser of a softmax over very many classes, from a few of them."""

from softhash.bfloat16 import ExactBFloat16
from softhash.draw import draw
from softhash.exact import Exact
from softhash.gumbel import ExactGumbel, MipsGumbel
from softhash.lsh import LSH
from softhash.model import LogLinear
from softhash.persist import load
from softhash.priority import PriorityGumbel
from softhash.proposals import Prior, Uniform
from softhash.retrieval import TopClasses, top_k
from softhash.scoring import log_prob
from softhash.search import Trial
from softhash.sketch import Sketch
from softhash.topk import TopK
from softhash.tune import TuneResult, tune
from softhash.types import Estimate, Estimator, Sample, Sampler

__version__ = "0.1.0"

__all__ = [
    "LSH",
    "Estimate",
    "Estimator",
    "Exact",
    "ExactBFloat16",
    "ExactGumbel",
    "LogLinear",
    "MipsGumbel",
    "Prior",
    "PriorityGumbel",
    "Sample",
    "Sampler",
    "Sketch",
    "TopClasses",
    "TopK",
    "Trial",
    "TuneResult",
    "Uniform",
    "draw",
    "load",
    "log_prob",
    "top_k",
    "tune",
]
