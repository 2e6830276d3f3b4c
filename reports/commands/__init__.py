"""The commands: options in, files and lines out."""
