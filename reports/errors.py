"""The base class of errors in this package."""


class ReportError(Exception):
    """An error that the user can correct; its message says how."""
