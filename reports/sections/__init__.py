"""The sections of the page: a module for each, with its values and figures, and its template in
templates/sections/.
"""
