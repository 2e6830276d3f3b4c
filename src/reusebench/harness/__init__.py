"""What conftest.py hangs on pytest: options, the measurement of one configuration, progress, the replayed clock."""
