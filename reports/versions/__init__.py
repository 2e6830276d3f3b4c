"""What versions of a runtime differ in, with the same models and the same plans."""
