"""Models that a runtime prepares before they are measured, each of them once in a session."""

from __future__ import annotations

from pathlib import Path

from reusebench.measured.messages import Message
from reusebench.measured.plan import Plan
from reusebench.measured.runtimes import find_runtime
from reusebench.measured.runtimes.base import NodeOrder, Preparation
from reusebench.system.cache import CacheError, OwnFolder, cache_root
from reusebench.targets.measured_process import prepare_models
from reusebench.targets.outcome import Failure
from reusebench.targets.target import Target

__all__ = ["Preparations"]


class Preparations:
    """Prepared models, in a temporary folder of the cache."""

    def __init__(self, time_limit_s: float) -> None:
        self._time_limit_s = time_limit_s
        #: Key: runtime, then the model's digest.
        self._known: dict[str, dict[str, Preparation | None]] = {}
        self._folder: OwnFolder | None = None

    def of(self, plan: Plan, target: Target) -> dict[str, Preparation | None] | Failure:
        """Return the plan's prepared models by digest; a Failure if one cannot be prepared.

        If the runtime refuses to prepare it, the mechanism is not supported: the model runs
        without.
        """
        if not find_runtime(plan.runtime).prepares:
            return {}
        known = self._known.setdefault(plan.runtime, {})
        models = plan.models_to_prepare()
        missing = [model for model in models if model.digest not in known]
        if missing:
            try:
                folder = self._folder_of(plan.runtime)
            except CacheError as error:
                return _cache_failure(error)
            prepared = prepare_models(target, plan.runtime, missing, folder, self._time_limit_s)
            if isinstance(prepared, Failure):
                return _failure_to_prepare(prepared)
            known.update(prepared)
        return {model.digest: known[model.digest] for model in models}

    def node_orders(self, plan: Plan) -> dict[str, NodeOrder]:
        """Return the node orders of the plan's models by digest; empty before they are prepared."""
        known = self._known.get(plan.runtime, {})
        orders = {}
        for model in plan.models_to_prepare():
            preparation = known.get(model.digest)
            if preparation and preparation.node_order:
                orders[model.digest] = preparation.node_order
        return orders

    def _folder_of(self, runtime: str) -> Path:
        if self._folder is None:
            self._folder = OwnFolder("prepared")
        return self._folder.path / runtime


def _cache_failure(error: CacheError) -> Failure:
    reason = getattr(error.__cause__, "strerror", None) or str(error)
    message = Message("cache_not_writable", {"folder": str(cache_root()), "reason": reason})
    return Failure("failed", "prepare", None, message)


def _failure_to_prepare(failure: Failure) -> Failure:
    """Return the failure of the plan: a runtime's refusal means that it lacks the mechanism."""
    if failure.kind != "failed" or not failure.is_of_runtime:
        return failure
    message = Message("not_prepared", {"reason": failure.message})
    return Failure("not_supported", failure.phase, failure.context, message, failure.last_words)
