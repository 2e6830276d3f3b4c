"""Programs that were recorded: tables and a figure of their phases."""
