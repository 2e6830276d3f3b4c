"""Plan files (--plan): the pipelines of users, read from TOML or JSON and checked, and scenarios
written as such.
"""
