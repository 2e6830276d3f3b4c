"""What runtimes make of models beforehand: of each model once in a session."""

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
        #: By runtime, then by the model's digest.
        self._known: dict[str, dict[str, Preparation | None]] = {}
        self._folder: OwnFolder | None = None

    def of(self, plan: Plan, target: Target) -> dict[str, Preparation | None] | Failure:
        """Return what the plan's runtime needs made of its models, by digest; a Failure where it
        could not be made.

        Where the runtime refuses to make it, the mechanism is not supported: the model runs
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
                reason = getattr(error.__cause__, "strerror", None) or str(error)
                message = Message(
                    "cache_not_writable", {"folder": str(cache_root()), "reason": reason}
                )
                return Failure("failed", "prepare", None, message)
            made = prepare_models(target, plan.runtime, missing, folder, self._time_limit_s)
            if isinstance(made, Failure):
                return _without_preparation(made)
            known.update(made)
        return {model.digest: known[model.digest] for model in models}

    def node_orders(self, plan: Plan) -> dict[str, NodeOrder]:
        """Return which orders were found for the models of the plan, by digest; empty before they
        are prepared.
        """
        known = self._known.get(plan.runtime, {})
        made = {model.digest: known.get(model.digest) for model in plan.models_to_prepare()}
        return {digest: one.node_order for digest, one in made.items() if one and one.node_order}

    def _folder_of(self, runtime: str) -> Path:
        if self._folder is None:
            self._folder = OwnFolder("prepared")
        return self._folder.path / runtime


def _without_preparation(failure: Failure) -> Failure:
    if failure.kind != "failed":
        return failure
    message = Message("not_prepared", {"reason": failure.message})
    return Failure("not_supported", failure.phase, failure.context, message, failure.last_words)
