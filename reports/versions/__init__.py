"""The differences between versions of a runtime, with the same models and the same plans."""
