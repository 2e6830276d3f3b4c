"""What every part of a report is made with: words, numbers, tables, figures, the rendering of
pages.
"""
