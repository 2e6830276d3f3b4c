"""The explanation of savings: the plan's prediction, the measurement, the error by component."""
