"""The search behind `tune`: every method at its smallest size that is accurate enough, then the fastest of those."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softhash import clock, families
from softhash.exact import Exact
from softhash.families import Family, Setting
from softhash.model import LogLinear
from softhash.types import Estimator

STEPS_PER_OCTAVE = 4
FIRST, LEAST, MOST = 8 * STEPS_PER_OCTAVE, 4 * STEPS_PER_OCTAVE, 13 * STEPS_PER_OCTAVE
STRIDE = 2 * STEPS_PER_OCTAVE
SLOWER = 1.15
WORTH_A_SECOND_LOOK = 1.5
NO_FASTER = 0.95
NEARLY = 1.4
CONTENDERS = 8
ROUNDS = 7
VERIFIED_WITHIN = 1.2
VERIFYING_DRAWS = 4
"""A method that misses something rarely, and then much, is accurate in many a single draw."""
PART = 16
PART_FROM = 20_000


class Trial(NamedTuple):
    """One setting of one method, as measured.

    Attributes:
        method: its family; see docs/choosing.md.
        settings: what it was built with.
        error: mean |error of log Z| in nats on the queries settings were chosen on.
        verified: the same on queries nothing was chosen on; nan where that was not needed.
        milliseconds: per query, in batches of the size asked for: a median where it mattered, otherwise the best of
            two runs.
        index_bytes: bytes held besides the weights.
        build_seconds: to build it.
        note: "chosen", or why it was not tried or not taken.
    """

    method: str
    settings: str
    error: float
    verified: float
    milliseconds: float
    index_bytes: int
    build_seconds: float
    note: str


class Measured(NamedTuple):
    """A trial and the estimator it was made with."""

    trial: Trial
    estimator: Estimator


class Limits(NamedTuple):
    """What an acceptable trial may be off by, hold, and take."""

    error: float
    memory: float
    milliseconds: float


class Queries(NamedTuple):
    """Queries to calibrate on, to choose on, and to verify on."""

    calibration: NDArray[np.float32]
    choose: NDArray[np.float32]
    verify: NDArray[np.float32]


class Search:
    """What has been measured so far, and the time to beat.

    Args:
        model: the model.
        queries: in their three parts.
        limits: what is acceptable.
        batch: queries timed at once.
        deadline: time.perf_counter() after which nothing new is begun.
        progress: called with a line of text before each method.
    """

    def __init__(
        self,
        model: LogLinear,
        queries: Queries,
        limits: Limits,
        batch: int,
        deadline: float,
        progress: Callable[[str], None],
    ):
        self.model, self.queries, self.limits = model, queries, limits
        self.deadline, self.progress = deadline, progress
        self.work = clock.batches(queries.choose, batch)
        self.measured: list[Measured] = []
        self.contenders: list[Measured] = []
        self.untried: list[Trial] = []
        progress("log Z exactly, to compare with")
        self._log_z = Exact(model).log_partition(queries.choose).log_z

    @property
    def fastest(self) -> float:
        """The time to beat: that of the fastest contender so far, or the limit."""
        return min([each.trial.milliseconds for each in self.contenders] + [self.limits.milliseconds])

    @property
    def out_of_time(self) -> bool:
        """Whether the deadline is over."""
        return time.perf_counter() > self.deadline

    def acceptable(self, trial: Trial) -> bool:
        """Whether a trial is accurate and small enough."""
        return trial.error <= self.limits.error and trial.index_bytes <= self.limits.memory

    def try_family(self, family: Family) -> None:
        """Every setting of a method."""
        settings = family.settings(self.model)
        if not settings:
            return
        if why := self._hopeless(family, settings[0]):
            self._skip(family, why)
            return
        self.progress(f"{family.name}: building")
        start = time.perf_counter()
        index = family.build(self.model, self.queries.calibration)
        seconds = time.perf_counter() - start
        for number, setting in enumerate(settings):
            if self.out_of_time and number:
                self._skip(family, f"time was over after {number} of {len(settings)} settings")
                return
            self.progress(f"{family.name}: {families.described(None, setting) or 'measuring'}")
            self._try_setting(family, index, setting, seconds)

    def _skip(self, family: Family, why: str) -> None:
        self.untried.append(Trial(family.name, "", np.nan, np.nan, np.nan, 0, np.nan, why))

    def _hopeless(self, family: Family, setting: Setting) -> str:
        """Why a method need not be built. With FAISS that may take minutes; a part of the classes tells."""
        if self.out_of_time and self.measured:
            return "time was over"
        if not family.faiss or self.model.n_classes < PART_FROM:
            return ""
        self.progress(f"{family.name}: building a part, to see how long all would take")
        bias = self.model.bias
        part = LogLinear(self.model.weights[::PART], None if bias is None else bias[::PART])
        start = time.perf_counter()
        index = family.build(part, self.queries.calibration)
        predicted = 1.3 * PART * (time.perf_counter() - start)
        smallest = family.make(index, _size(LEAST), setting)
        clock.warm(smallest, self.queries.choose)
        if clock.milliseconds(smallest, self.work) > self.fastest:
            return f"even over every {PART}th class slower than the best"
        if time.perf_counter() + predicted > self.deadline:
            return f"building it would take about {predicted:.0f} s"
        return ""

    def _try_setting(self, family: Family, index: Any, setting: Setting, build_seconds: float) -> None:
        def at(step: int) -> Measured:
            size = _size(step) if family.sized else 0
            start = time.perf_counter()
            estimator = family.make(index, size, setting)
            seconds = build_seconds + time.perf_counter() - start
            return self._measure(family, families.described(size or None, setting), estimator, seconds)

        found = self._smallest(at) if family.sized else at(0)
        if found is not None and self.acceptable(found.trial):
            self.contenders.append(found)

    def _measure(self, family: Family, settings: str, estimator: Estimator, build_seconds: float) -> Measured:
        clock.warm(estimator, self.queries.choose)
        error = mean_error(estimator, self.queries.choose, self._log_z)
        taken = clock.milliseconds(estimator, self.work)
        if taken < WORTH_A_SECOND_LOOK * self.fastest:
            taken = min(taken, clock.milliseconds(estimator, self.work))
        held = families.index_bytes(estimator)
        self.measured.append(
            Measured(Trial(family.name, settings, error, np.nan, taken, held, build_seconds, ""), estimator)
        )
        return self.measured[-1]

    def _slow(self, found: Measured) -> bool:
        return found.trial.milliseconds > SLOWER * self.fastest

    def _accurate(self, found: Measured) -> bool:
        return found.trial.error <= self.limits.error

    def _smallest(self, at: Callable[[int], Measured]) -> Measured | None:
        """The smallest size that is accurate enough; None where none is, or where a contender is faster anyway."""
        most = min(MOST, int(STEPS_PER_OCTAVE * np.log2(max(2, self.model.n_classes / 2))))
        low, high = LEAST - 1, min(FIRST, most)
        best = at(high)
        while not self._accurate(best):
            within_reach = best.trial.error <= self.limits.error * 2 ** ((most - high) / STEPS_PER_OCTAVE)
            if not within_reach or self._slow(best) or high == most or self.out_of_time:
                return None
            low, high = high, min(most, high + STRIDE)
            best = at(high)
        if low < LEAST < high:
            least = at(LEAST)
            if self._slow(least):
                return None
            low, high, best = (LEAST, LEAST, least) if self._accurate(least) else (LEAST, high, best)
        gain = True
        while high - low > 1 and gain and not self.out_of_time:
            middle = (low + high) // 2
            tried = at(middle)
            if self._accurate(tried):
                high, best = middle, tried
            else:
                low, gain = middle, tried.trial.milliseconds < NO_FASTER * best.trial.milliseconds
        return best

    def settle(self, deadline: float) -> list[Measured]:
        """The contenders that are nearly the fastest, timed in turn and in order of time."""
        inside = [each for each in self.contenders if each.trial.milliseconds <= SLOWER * self.limits.milliseconds]
        ranked = sorted(inside, key=lambda each: each.trial.milliseconds)
        close = [each for each in ranked if each.trial.milliseconds <= NEARLY * ranked[0].trial.milliseconds]
        close = close[:CONTENDERS]
        self.progress(f"timing the best {len(close)} in turn")
        estimators = {str(i): each.estimator for i, each in enumerate(close)}
        times = clock.in_turn(estimators, self.work, ROUNDS, deadline) if close else {}
        timed = [
            each._replace(trial=each.trial._replace(milliseconds=float(np.median(times[str(i)]))))
            for i, each in enumerate(close)
        ]
        return sorted(timed, key=lambda each: each.trial.milliseconds)


def mean_error(estimator: Estimator, queries: NDArray[np.float32], log_z: NDArray[np.float64]) -> float:
    """Mean |log Ẑ − log Z| over queries, infinite where nothing was drawn for some query."""
    return float(np.abs(estimator.log_partition(queries, rng=2).log_z - log_z).mean())


def verified_error(
    estimator: Estimator, queries: NDArray[np.float32], log_z: NDArray[np.float64]
) -> tuple[float, float]:
    """The same over several draws, and three standard errors of it: large where rare misses are large."""
    found = [estimator.log_partition(queries, rng=3 + draw).log_z for draw in range(VERIFYING_DRAWS)]
    by_query = np.abs(np.array(found) - log_z).mean(axis=0)
    with np.errstate(invalid="ignore"):
        return float(by_query.mean()), float(3 * by_query.std(ddof=1) / np.sqrt(len(by_query)))


def _size(step: int) -> int:
    return max(2, round(2 ** (step / STEPS_PER_OCTAVE)))
