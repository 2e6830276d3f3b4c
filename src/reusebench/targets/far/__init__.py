"""Boards far away: reached through any command that gives a shell on a pipe, read and driven by the
reader there.
"""
