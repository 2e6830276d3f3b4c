"""Shapes and values for the inputs of a user's model: assumed ones, and real data."""
