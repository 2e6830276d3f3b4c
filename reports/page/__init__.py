"""The page as a whole: its sections put together, its figures, its tables as files, the summary for
the terminal.
"""
