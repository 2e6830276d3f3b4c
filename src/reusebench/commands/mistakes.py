"""The base error of each package: errors that are a mistake of the user, with their own message."""

from __future__ import annotations

from reusebench.apply.errors import ApplyError
from reusebench.harness.errors import UserError
from reusebench.measured.runtimes.base import AdapterError
from reusebench.models.errors import ModelError
from reusebench.recorder.errors import RecordError
from reusebench.reports.errors import ReportError
from reusebench.samplers.errors import SamplerError
from reusebench.storage.errors import StorageError
from reusebench.system.cache import CacheError
from reusebench.targets.errors import TargetError
from reusebench.video import VideoError

__all__ = ["MISTAKES"]

MISTAKES: tuple[type[Exception], ...] = (
    AdapterError,
    ApplyError,
    CacheError,
    ModelError,
    RecordError,
    ReportError,
    SamplerError,
    StorageError,
    TargetError,
    UserError,
    VideoError,
)
