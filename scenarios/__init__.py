"""Scenarios: ways to lay out contexts and their reuse, as functions from Parameters to a Plan."""
