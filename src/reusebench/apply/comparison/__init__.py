"""Compares a program as it is with the same program applied: memory, time and outputs."""
