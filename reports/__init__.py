"""Reports of stored runs: tables, figures and pages. No module measures, or changes stored runs."""
