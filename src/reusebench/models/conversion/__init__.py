"""Conversion of models: each library runs in a separate process, often in its own environment."""
