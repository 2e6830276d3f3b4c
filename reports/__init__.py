"""Stored runs in; tables, figures and one HTML page out. Runs nothing and changes nothing that is
stored.
"""
