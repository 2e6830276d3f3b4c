"""Plan files (--plan): users' pipelines read from TOML or JSON, and scenarios written as such."""
