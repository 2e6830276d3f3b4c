"""What manuals and a published test say, judged by what was measured here."""
