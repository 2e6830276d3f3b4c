"""The tools of every part of a report: words, numbers, tables, figures, rendering of pages."""
