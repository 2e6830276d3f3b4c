"""Targets, the places where the measured process runs, and the harness's side of its barriers."""
