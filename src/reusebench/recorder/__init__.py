"""Measures any program from outside: its processes, its marked phases, and their memory."""
