"""Histories: every figure over all runs, its change points, and their page and tables."""
