"""What a result is on disk: pytest-benchmark's JSON with memory in `extra_info`, and traces beside
it.

The one place that knows names, units and versions of stored figures. Standard library and msgspec
only: the harness writes through it while it measures.
"""
