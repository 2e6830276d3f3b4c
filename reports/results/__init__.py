"""Stored results as rows beside their baselines, in groups of equal conditions; published figures
beside them.
"""
