"""`pytest bench/` with MegEngine Lite, under the interpreter of its own environment, if it is
installed.
"""

from __future__ import annotations

import platform

import pytest

from reusebench.models import ModelError, Recipe, ensure_all
from reusebench.models.megengine.environment import MEGENGINE
from reusebench.system.cache import CacheError, cache_root
from tests.bench.bench_process import Bench
from tests.bench.pipelines import pipeline_file, saved_bytes

#: The user's own cache, read before any test has a cache of its own.
_CACHE = cache_root()

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not MEGENGINE.installed(),
        reason="MegEngine is not installed: reusebench models install megengine",
    ),
]


def test_a_runtime_in_its_own_environment(bench: Bench) -> None:
    """The runtime is measured under its Python and this target's name; the harness stays in this
    Python.
    """
    try:
        (mge_model,) = ensure_all(".mge", [Recipe("tiny", 64, 1)])
    except (CacheError, ModelError) as error:
        pytest.skip(str(error))
    scenarios = "(full_dup and not internal) or external_physical"
    done = bench.run(
        "--runtime=megengine_lite", "--model", mge_model, "-k", scenarios, cache=_CACHE.parent
    )
    assert done.code == 0, done.words
    assert done.outcomes() == {"full_dup": "ok", "external_physical": "not_supported"}
    info = done.results()["full_dup"]
    assert (info.runtime, info.target) == ("megengine_lite", "python")
    assert info.runtime_version
    assert (info.python_version or "").startswith(("3.8", "3.9", "3.10"))
    assert f"platform linux -- Python {platform.python_version()}" in done.words


def test_a_pipeline(bench: Bench) -> None:
    """A detector and then a recogniser share one runtime memory, and each has a dup for another
    stream.
    """
    try:
        ensure_all(".mge", [Recipe("tiny", 64, 1), Recipe("tiny", 320, 1)])
    except (CacheError, ModelError) as error:
        pytest.skip(str(error))
    done = bench.run(
        "--runtime=megengine_lite", "--plan", pipeline_file(bench.folder), cache=_CACHE.parent
    )
    assert done.code == 0, done.words
    assert done.outcomes() == {"pipeline.no_reuse": "ok", "pipeline": "ok"}
    assert saved_bytes(done.results()) > 0
