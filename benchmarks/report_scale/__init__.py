"""The cost of commands over storages of up to a million results."""
