"""A session that measures several boards side by side, each in a worker of pytest-xdist."""
