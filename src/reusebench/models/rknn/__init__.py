"""rknn-toolkit2 in an environment of its own, and the `.rknn` files that it makes of the same
networks.
"""
