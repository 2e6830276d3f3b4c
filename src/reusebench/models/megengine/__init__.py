"""MegEngine in an environment of its own; it builds the networks as `.mge` files."""
