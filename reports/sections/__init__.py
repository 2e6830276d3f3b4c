"""The sections of the page that are about all scenarios: answers, contexts, speed, savings, copies,
timeline.
"""
