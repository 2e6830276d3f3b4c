"""MegEngine in an environment of its own, and the `.mge` files that it makes of the same
networks.
"""
