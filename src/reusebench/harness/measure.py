"""The fixture `measure`, and the result that it returns."""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, Union

import pytest

from reusebench.harness.benchmark_plugin import use_up
from reusebench.harness.clock import ReplayClock
from reusebench.harness.errors import UserError
from reusebench.harness.figure_properties import Property
from reusebench.harness.overrides import Overrides
from reusebench.harness.plans.python_plan import Plan
from reusebench.harness.session import Session
from reusebench.storage.measured_figure import Figure
from reusebench.storage.metrics import METRICS
from reusebench.storage.result import Result as StoredResult

__all__ = ["Measure", "Result"]

_Path = Union[str, "os.PathLike[str]"]


class Result(Mapping[str, Figure]):
    """The public result of `measure`: the figures of one configuration by name.

    It is a view of the stored result (reusebench.storage.result.Result), which is private.

    A figure has `median`, `spread` (±) and `values`, one for each process. Its unit is in its name:
    `_bytes`, `_ns`, `_per_s`, `_percent`. docs/reference/results.md defines each. Figures that this
    configuration does not have are left out.

        result = measure("full_dup", runtime="onnxruntime")
        assert result["application_memory_bytes"].median < 200 * 2**20
    """

    def __init__(self, stored: StoredResult) -> None:
        self._stored = stored
        figures = {metric.column: Figure.of(metric.values(stored)) for metric in METRICS}
        self._figures = {name: figure for name, figure in figures.items() if figure is not None}

    @property
    def runtime(self) -> str:
        """The runtime, such as "onnxruntime"."""
        return self._stored.runtime

    @property
    def scenario(self) -> str:
        """The scenario's or the plan's name."""
        return self._stored.scenario

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models."""
        return tuple(dict.fromkeys(model.name for model in self._stored.models))

    @property
    def outcome(self) -> str:
        """ "ok", or the kind of the failure."""
        return self._stored.outcome

    def __getitem__(self, name: str) -> Figure:
        """Return the figure of this name; the message of a KeyError has the valid names."""
        if name not in self._figures:
            raise KeyError(f"there is no figure {name!r}; valid: {', '.join(self._figures)}")
        return self._figures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)

    def __repr__(self) -> str:
        """Return runtime, scenario and the first figure."""
        first = next((f", {name}={figure.median:g}" for name, figure in self._figures.items()), "")
        return f"<Result {self.runtime} {self.scenario}: {self.outcome}{first}>"


class Measure:
    """The fixture `measure`: it measures one configuration, stores it and returns its result.

    It may be called several times in one test. A failure of the measured process is stored and
    fails the test; a mechanism that the runtime lacks skips it.
    """

    def __init__(
        self,
        session: Session,
        benchmark: Any,
        clock: ReplayClock,
        properties: list[tuple[str, object]],
    ) -> None:
        """Take the list of the test's properties, to which figures are added."""
        self._session = session
        self._benchmarks = _one_for_each_call(benchmark)
        self._clock = clock
        self._properties = properties
        self._calls = 0

    def __call__(
        self,
        scenario: Union[str, Plan],
        *,
        runtime: Optional[str] = None,
        model: Union[_Path, Sequence[_Path], None] = None,
        streams: Optional[int] = None,
        contexts: Optional[int] = None,
        repeats: Optional[int] = None,
        rounds: Optional[int] = None,
        sessions: Optional[int] = None,
        tokens: Optional[int] = None,
        prompt: Optional[int] = None,
        generated: Optional[int] = None,
        common: Optional[int] = None,
    ) -> Result:
        """Return the result of a scenario, by its name, or of a plan.

        `runtime` is the first one of the session by default. `model` is a model file, or several
        that are used in turn; by default those of --model, or the built-in networks. `streams`
        (each with `contexts`), `repeats` (fresh processes) and `rounds` (of inferences) override
        the options of the same names; so do `sessions`, `tokens`, `prompt`, `generated` and
        `common` for language models.

        A mistake in the arguments fails the test with a sentence.

            measure("full_dup", runtime="onnxruntime", model="x.onnx", streams=2, contexts=3)
        """
        files = [model] if isinstance(model, (str, os.PathLike)) else list(model or ())
        benchmark = next(self._benchmarks)
        try:
            overrides = Overrides(
                tuple(map(Path, files)),
                streams,
                contexts,
                repeats,
                rounds,
                sessions,
                tokens,
                prompt,
                generated,
                common,
            )
            runtime = self._session.runtime(runtime)
            subject = self._session.subject(scenario)
            stored = self._session.measure(benchmark, self._clock, runtime, subject, overrides)
        except UserError as error:
            mistake = str(error)
        else:
            self._add_properties(self._session.properties(stored, overrides))
            return Result(stored)
        use_up(benchmark)
        pytest.fail(mistake, pytrace=False)

    def _add_properties(self, properties: Iterable[Property]) -> None:
        """Add the figures to the test; from the second call on their names have its number."""
        self._calls += 1
        number = f" {self._calls}" if self._calls > 1 else ""
        for name, value in properties:
            self._properties.append((f"{name}{number}", value))


def _one_for_each_call(benchmark: Any) -> Iterator[Any]:
    """Yield pytest-benchmark's fixture, then copies with names of their own; each is used once."""
    unused = copy.copy(benchmark)
    yield benchmark
    for number in itertools.count(2):
        again = copy.copy(unused)
        again.name = f"{unused.name} {number}"
        again.fullname = f"{unused.fullname} {number}"
        again.extra_info = {}
        yield again
