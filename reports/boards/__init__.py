"""Boards that have measured the same, side by side."""
