"""Claims of manuals and a published test, judged by own measurements."""
