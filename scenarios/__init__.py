"""Scenarios: which contexts to make and who reuses what (Plan), and the driver that walks a Plan."""
