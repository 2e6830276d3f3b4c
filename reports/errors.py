"""The error of this package."""


class ReportError(Exception):
    """The user can put it right; the sentence says how."""
