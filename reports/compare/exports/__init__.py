"""Exports of stored runs to the formats of other tools; formats.py has the list of them.

docs/reference/exports.md describes the formats.
"""
