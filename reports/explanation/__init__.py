"""Why a saving is what it is: the plan's prediction, the measurement, and the error by
component.
"""
