"""Applies the best layout to a program that nobody changes."""
