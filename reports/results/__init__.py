"""Stored results as rows with their baselines, in groups of equal conditions."""
