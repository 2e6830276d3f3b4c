"""The page as a list of sections, the tables as files, and the summary for the terminal."""
