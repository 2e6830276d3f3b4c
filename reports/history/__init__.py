"""Every figure over all runs: series, change points, their page and tables."""
