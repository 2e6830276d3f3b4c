"""The worker of one board in a session of several boards, which pytest-xdist starts."""
