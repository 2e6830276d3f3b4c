"""Results on disk: pytest-benchmark's JSON with memory in `extra_info`, and traces beside it.

The one place that knows names, units and versions of stored figures. It imports the standard
library and msgspec only, since the harness writes through it while it measures.
"""
